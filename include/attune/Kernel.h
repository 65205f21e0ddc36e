//===- Kernel.h - A compiled attention kernel and its launch ----------------===//
//
//     Expected<Kernel> kernel = compile(variant, {.dtype = bf16, .headDim = 128}, Target::detect());
//     if (!kernel)
//       return report(kernel.error());
//     Expected<void> launched =
//         kernel->launch(stream, {.q = q, .k = k, .v = v, .o = o, .lse = lse,
//                                 .tensors = {{"slopes", view}}, .seed = 42, .offset = 0});
//     if (!launched)
//       return report(launched.error());
//
// Shapes are logical. Any strides are allowed if the head dim has stride 1, so [B, S, H, D] memory is passed as
// `Tensor::contiguous(...).permuted({0, 2, 1, 3})`:
//
//     | argument | shape           | dtype               |
//     |----------|-----------------|---------------------|
//     | q        | [B, H, Sq, D]   | the kernel's        |
//     | k        | [B, Hkv, Sk, D] | the kernel's        | H is a multiple of Hkv
//     | v        | [B, Hkv, Sk, Dv]| the kernel's        |
//     |          |                 |                     | in pages: k [P, Hkv, N, D] and v [P, Hkv, N, Dv]
//     | o        | [B, H, Sq, Dv]  | the kernel's        |
//     | lse      | [B, H, Sq]      | f32, may be left out|
//
// A backward pass (backward()) takes q, k, v, o and lse as a forward launch left them. The following operands are
// passed by name, in LaunchArgs::operands:
//
//     | operand  | shape           | dtype        |
//     |----------|-----------------|--------------|
//     | do       | [B, H, Sq, Dv]  | the kernel's | the gradient of o
//     | dlse     | [B, H, Sq]      | f32          | the gradient of lse, if Gradients::lse is set
//     | dq       | [B, H, Sq, D]   | the kernel's | the gradient of q, written
//     | dk       | [B, Hkv, Sk, D] | the kernel's | the gradient of k, written
//     | dv       | [B, Hkv, Sk, Dv]| the kernel's | the gradient of v, written
//     | grads.T  | T's             | T's          | the gradient of each tensor T in Gradients::tensors, written
//     | saved.W  | savedShape()    | f32 or bool  | each saved value W (Saving), as the forward launch wrote it
//
// Batch, heads, lengths and strides are run-time values: no launch recompiles.
//
// Threads. A Kernel is a cheap handle on shared, immutable state. Copying and every const member may be
// called from any number of threads at once, on one handle or on copies. On a CUDA target a launch only
// enqueues work on the caller's stream. It does not synchronise. It allocates nothing if the module is loaded already
// (by load() or an earlier launch) and at most six captured tensors and eight scalars are passed. It
// may be captured in a CUDA graph, which then holds the arguments of the capture: a replay reads the same addresses,
// and through seedPointer and offsetPointer the numbers that are there then. On the CPU target a launch returns when
// the work is done, runs on a pool of ATTUNE_NUM_THREADS threads (default: the hardware's) and ignores the stream;
// launches from several threads run one after another.
//
// Sizes. A kernel may have alternatives: kernels of the same computation with other schedules, each for a class of
// sizes (attune/ProblemSizes.h), or for launches of few queries. A launch starts the alternative of the nearest class.
// If no class is near and the launch has few queries, it starts the alternative for few queries, else the kernel
// itself. A launch never compiles or loads. An alternative for few queries may need a workspace where the kernel itself
// does not: call workspaceBytes() with the arguments of each launch.
//
// Devices. A kernel belongs to the CUDA device it was loaded for, and every tensor has to be there; for a
// second device, compile again with that device in the target (a cache hit apart from the load). Each
// CUDA context has its own module: a launch uses the calling thread's current context when it is one of
// the kernel's device, else the device's primary context, and leaves the current context as it was.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/LaunchParams.h"
#include "attune/ProblemSizes.h"
#include "attune/Tensor.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// A CUstream or cudaStream_t; null is the default stream. Ignored by CPU kernels.
using Stream = void *;

/// Declares a run-time scalar of a kernel.
struct ScalarParam {
  std::string name;
  DType dtype = DType::F32; ///< F32, I32, I64 or Bool
  friend bool operator==(const ScalarParam &, const ScalarParam &) = default;
};

/// An index that is linear in coordinates and extents: constant + the sum of coordinates[i] * (b, h, q, k)[i] + the sum
/// of extents[i] * (B, H, Sq, Sk)[i]. q includes the q offset.
struct LinearIndex {
  static constexpr int64_t maxFactor = 1 << 16;            ///< largest magnitude of a factor
  static constexpr int64_t maxConstant = int64_t(1) << 40; ///< largest magnitude of `constant`; no sum overflows

  int64_t constant = 0;
  std::array<int64_t, 4> coordinates = {};
  std::array<int64_t, 4> extents = {};

  constexpr bool withinLimits() const {
    bool within = constant >= -maxConstant && constant <= maxConstant;
    for (size_t i = 0; i < 4; ++i)
      within = within && coordinates[i] >= -maxFactor && coordinates[i] <= maxFactor && extents[i] >= -maxFactor &&
               extents[i] <= maxFactor;
    return within;
  }
  friend bool operator==(const LinearIndex &, const LinearIndex &) = default;
};

/// Says that the kernel reads a captured tensor at `index` along dimension `dim`, for every (b, h, q, k) of a launch at
/// which all of `guards` are at least 0. The launch fails if such an index is outside of the tensor.
struct IndexParam {
  int dim = 0;
  LinearIndex index = {};
  std::vector<LinearIndex> guards = {};
  bool broadcast = false; ///< an extent of 1 serves every index
  std::string text = {};  ///< the index as the variant writes it: "q - k + Sk - 1"
  /// The element that is read: "table[h, q - k + Sk - 1]". Empty where a clamped index is no remedy, because each
  /// element has its own gradient.
  std::string element = {};
  friend bool operator==(const IndexParam &, const IndexParam &) = default;
};

/// One dimension of an operand or of a kernel's grid.
struct AxisParam {
  std::string name; ///< shared by all operands that have it: "b", "h", "hkv", "q", "k", "d", "dv", ...; or a captured
                    ///< tensor's dimension: "tensors.ids.1"
  int size = 0;     ///< the extent where it is known when the kernel is compiled, else 0
  int by = 1;       ///< the dimension counts blocks of `by` elements: ceil(extent / by) of them
  /// Whether all operands with this axis have the same extent: its size is not fixed, and it is no captured tensor's
  /// axis.
  bool isShared() const;
  friend bool operator==(const AxisParam &, const AxisParam &) = default;
};

/// A dimension of a captured tensor.
struct TensorDimension {
  std::string_view tensor;
  int dim;
};
/// The dimension of a captured tensor that an axis called tensors.NAME.DIM denotes; nothing for any other axis.
std::optional<TensorDimension> tensorDimension(std::string_view axis);

/// What a kernel does with an operand.
enum class OperandRole {
  In,         ///< reads it
  Out,        ///< writes all of it
  Accumulate, ///< adds to what the caller left there
  Workspace,  ///< keeps intermediate values there, in the launch's workspace
};
/// "in", "out", "accumulate" or "workspace"
const char *name(OperandRole role);
std::optional<OperandRole> parseOperandRole(std::string_view text);

/// Declares an operand of a kernel: a tensor whose axes have names. An axis without a fixed size has the same extent in
/// all operands of a launch. An operand whose last axis has a fixed size is read and written by tiles: the last axis
/// has stride 1, and the address and the other strides are multiples of 16 bytes.
struct OperandParam {
  std::string name; ///< "q", "k", "v", "o", "lse": the member of LaunchArgs; any other: one of LaunchArgs::operands
  DType dtype = DType::F32;
  OperandRole role = OperandRole::In;
  bool optional = false; ///< may be left out
  std::vector<AxisParam> axes = {};

  int rank() const { return int(axes.size()); }
  bool isTiled() const { return !axes.empty() && axes.back().size > 0; }
  friend bool operator==(const OperandParam &, const OperandParam &) = default;
};

/// The operands of the forward pass of a variant: Q [b, h, q, d], K [b, hkv, k, d], V [b, hkv, k, dv], O [b, h, q, dv],
/// and the optional LSE [b, h, q]. If keys are in pages (Variant::keyPages), K is [page, hkv, slot, d] and V is
/// [page, hkv, slot, dv], with `pageSize` slots.
std::vector<OperandParam> forwardOperands(DType dtype, int headDim, int headDimV, bool withLse = true,
                                          int pageSize = 0);

/// Declares a captured tensor of a kernel.
struct TensorParam {
  std::string name;
  DType dtype = DType::F32;
  int rank = 0;                         ///< 0 to 4
  std::vector<IndexParam> indices = {}; ///< indices that a launch checks against the tensor's extents
  friend bool operator==(const TensorParam &, const TensorParam &) = default;
};

/// The operand of a captured tensor's gradient is called "grads." and the tensor's name.
inline constexpr std::string_view gradientPrefix = "grads.";

/// The operand of a captured tensor's gradient, with the tensor's dtype and extents.
OperandParam gradientOperand(const TensorParam &tensor);

/// The operands of the backward pass without workspace operands: Q, K, V, dO, and the outputs dQ, dK, dV and the
/// gradients of captured tensors. If rows have `statistics` (softmax), also O and LSE, and dLSE if `withGradientOfLse`
/// holds.
std::vector<OperandParam> backwardOperands(DType dtype, int headDim, int headDimV, bool statistics,
                                           bool withGradientOfLse, const std::vector<TensorParam> &gradients = {});

/// The operand of a value that the forward pass saves for the backward pass is called "saved." and the value's name.
inline constexpr std::string_view savedPrefix = "saved.";

/// The operand of a saved value (Saving, attune/Compile.h): Out in the forward pass, In in the backward pass. "dropout"
/// is a bit and "score" a float32 for each query and key. Elements are in blocks of 16 x 16, in an order that only this
/// kernel's two passes know: memory that another kernel or another launch wrote cannot be used.
OperandParam savedOperand(std::string_view what, OperandRole role);
/// The shape of a saved operand for a launch of these sizes: [batch, heads, ceil(queries / 16), ceil(keys / 16), n], n
/// bytes or floats.
std::array<int64_t, 5> savedShape(const OperandParam &operand, int64_t batch, int64_t heads, int64_t queries,
                                  int64_t keys);

/// An axis whose extent a launch computes. Workspace operands and grids may have it.
struct DerivedAxis {
  enum class Rule : uint8_t {
    Rows, ///< queries of all query heads of a key head: the extent of q times LaunchParams::group
    /// Splits of the keys of a tile of rows (split-KV): keySplits() of LaunchParams.h, for the kernel whose grid has
    /// the axis.
    Splits,
    Pages, ///< keys of a paged cache: the extent of `of` times `by`
    Slots, ///< blocks that are resident at a time: blocksPerSm on each multiprocessor
    /// The most work items that sequences with lengths in device memory can have: one for each block that is resident
    /// at a time, and one for each tile of `by` rows (of the axis `of`) of each sequence. This number applies to each
    /// index of the grid's other axes.
    WorkItems,
    TileRows, ///< rows of a tile: the extent of the axis `of`, at most `by`
  };
  std::string name;
  Rule rule = Rule::Rows;
  int by = 1;          ///< Splits: keys of a tile; Pages: keys of a page; WorkItems, TileRows: rows of a tile
  int blocksPerSm = 1; ///< Splits, Slots, WorkItems: resident blocks of a multiprocessor
  /// Pages: the dimension of the captured tensor that counts a sequence's pages (tensors.NAME.1). WorkItems and
  /// TileRows: the axis of rows, which is an operand's axis or a derived axis before this one.
  std::string of = {};
  friend bool operator==(const DerivedAxis &, const DerivedAxis &) = default;
};
/// "rows", "splits", "pages", "slots", "work_items" or "tile_rows"
const char *name(DerivedAxis::Rule rule);
std::optional<DerivedAxis::Rule> parseDerivedRule(std::string_view text);

/// Says that the captured bool tensor `tensor` is a mask of blocks of rows x columns: its last two extents
/// cover ceil(Sq / rows) x ceil(Sk / columns), the one before (rank 3 and 4) is 1 or H, and the first of
/// rank 4 is 1 or B.
struct BlockPatternParam {
  std::string tensor;
  int rows = 0;
  int columns = 0;
  friend bool operator==(const BlockPatternParam &, const BlockPatternParam &) = default;
};

/// Says that the kernel takes a tensor map of an operand or a captured tensor: the launch describes the tensor to
/// TMA in boxes of rows x columns, stored in shared memory in panels of `swizzle` bytes (32, 64 or 128). If strides
/// or extents of a captured tensor or its gradient do not allow a map (LaunchParams::mapped), the launch starts a
/// fallback kernel (MapCondition).
struct TensorMapParam {
  std::string tensor; ///< the name of the operand or captured tensor
  int rows = 0;
  int columns = 0;
  int swizzle = 0;
  bool captured = false; ///< whether it is a captured tensor
  /// Whether a launch may run without the map, because captured tensors and their gradients may have any strides.
  bool isOptional() const { return captured || tensor.starts_with(gradientPrefix); }
  friend bool operator==(const TensorMapParam &, const TensorMapParam &) = default;
};

/// What a kernel takes. The order of `scalars`, `operands` and `tensors` is the order of the packed parameters
/// (LaunchParams.h); a block pattern's tensor is among `tensors`.
struct KernelSignature {
  DType dtype = DType::F32;
  int headDim = 0;
  int headDimV = 0;
  std::vector<OperandParam> operands = {};
  bool dropout = false; ///< the kernel has dropout; the probability is a run-time value
  bool qOffset = false; ///< the kernel adds LaunchArgs::qOffset to q
  std::vector<ScalarParam> scalars = {};
  std::vector<TensorParam> tensors = {};
  std::optional<BlockPatternParam> blockPattern = {};
  std::vector<TensorMapParam> tensorMaps = {};
  std::vector<DerivedAxis> derived = {};

  /// Names of the axes without a fixed size, each once: first the operands' axes in the order of the operands, then the
  /// derived axes that no operand has.
  std::vector<std::string> axes() const;

  /// Byte offsets in the packed parameters (LaunchParams.h): of the extent of the n-th of axes(), of the n-th scalar,
  /// operand and captured tensor, and of the first tensor map. packedBytes() is the size of all parameters.
  size_t extentOffset(size_t axis) const;
  size_t scalarOffset(size_t scalar) const;
  size_t operandOffset(size_t operand) const;
  size_t tensorOffset(size_t tensor) const;
  size_t tensorMapOffset() const;
  size_t packedBytes() const;
  friend bool operator==(const KernelSignature &, const KernelSignature &) = default;
};

/// The most kernels of a module, and the most axes of a kernel's grid or of a workspace operand.
inline constexpr size_t maxKernels = 24, maxGridAxes = 6;

/// The most bytes that packedBytes() may be.
inline constexpr size_t maxPackedBytes = 4096;

/// How long each stage of a compilation took, in milliseconds.
struct CompileTimes {
  double trace = 0; ///< DSL to variant
  double ir = 0;    ///< variant to scheduled IR
  double print = 0; ///< scheduled IR to CUDA text, or to LLVM IR
  double nvrtc = 0; ///< CUDA text to cubin, or LLVM IR to an object
  double load = 0;  ///< cubin or object to a callable kernel, in this process
};

/// Whether a launch starts a kernel, depending on the optional tensor maps that it can make (LaunchParams::mapped).
struct MapCondition {
  int32_t reads = 0;      ///< bits of the maps that the kernel uses, all of which it needs
  int32_t fallbackOf = 0; ///< the maps of the kernel that this one is the fallback of: at least one is missing; or 0
  bool holds(int32_t mapped) const {
    return (reads & ~mapped) == 0 && (fallbackOf == 0 || (fallbackOf & ~mapped) != 0);
  }
  friend bool operator==(const MapCondition &, const MapCondition &) = default;
};

/// The condition that the extent of `axis` is at least 1 and at most the extent of the axis `most`, or 1 if `most` is
/// "".
struct ExtentBound {
  std::string axis, most;
  friend bool operator==(const ExtentBound &, const ExtentBound &) = default;
};

/// One kernel of a module, as a launch starts it.
struct KernelEntry {
  std::string symbol;               ///< name of the entry point
  std::vector<AxisParam> grid = {}; ///< a block for each tile of each axis; the last axis counts fastest
  int threads = 0;                  ///< per block; 1 for the CPU
  size_t sharedBytes = 0;           ///< dynamic shared memory per block; for the CPU, scratch bytes per thread
  int registers = 0;                ///< per thread, read from the cubin
  int spillBytes = 0;               ///< local memory per thread, read from the cubin
  /// Whether blocks are persistent. The grid then has persistentBlocks(tiles, SMs, claimsWork) blocks (LaunchParams.h).
  bool persistent = false;
  bool claimsWork = false;  ///< whether persistent blocks claim their next tile from a counter in memory
  bool dependent = false;   ///< whether the kernel may start before the previous kernel has ended
  bool preparation = false; ///< whether the kernel writes only the workspace; LaunchArgs::keepTables skips such kernels
  std::vector<ExtentBound> skippedIf = {}; ///< if all of these hold, a launch skips the kernel, which has nothing to do
  MapCondition maps = {};                  ///< if this does not hold, another kernel does the work
  friend bool operator==(const KernelEntry &, const KernelEntry &) = default;
};

/// Everything that a compilation produced; what the cache stores.
struct KernelImage {
  std::string name;                                   ///< the variant's name
  std::vector<KernelEntry> entries = {KernelEntry{}}; ///< in the order in which a launch starts them; at least one
  std::string arch;                                   ///< "cpu", "sm_80", ...
  KernelSignature signature = {};
  int tileQ = 0;            ///< query rows per tile
  int tileK = 0;            ///< keys per tile
  int nvrtcVersion = 0;     ///< 1000 * major + 10 * minor, 0 for the CPU
  std::string path;         ///< instructions used: "wgmma", "mma.sync" or "cpu"
  std::string cudaSource;   ///< the generated text; empty for the CPU
  std::vector<char> binary; ///< cubin or host object
  std::string planJson;     ///< tiles, buffers, cost; as `attune explain --json` prints it
  std::string log;          ///< NVRTC's log
  CompileTimes times = {};  ///< measured in the process that compiled the kernel
  bool cacheHit = false;    ///< whether it was read from the disk cache; not in metadata()

  /// The last kernel, which completes the results.
  const KernelEntry &main() const { return entries.back(); }
  KernelEntry &main() { return entries.back(); }

  /// Everything but `cudaSource` and `binary`, as one JSON object.
  std::string metadata() const;
  /// Reads metadata() back; fails on text that is not such an object, or has a size or a tensor that no kernel can
  /// have.
  static Expected<KernelImage> fromMetadata(std::string_view json);
};

/// The value of a run-time scalar. bool, 32-bit and 64-bit integers keep their type, any floating-point
/// value becomes f32.
class ScalarValue {
public:
  ScalarValue() = default;
  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  ScalarValue(T value) {
    if constexpr (std::same_as<T, bool>) {
      type = DType::Bool;
      bits = value;
    } else if constexpr (std::floating_point<T>) {
      type = DType::F32;
      float narrow = static_cast<float>(value);
      std::memcpy(&bits, &narrow, sizeof narrow);
    } else if constexpr (sizeof(T) < 4 || (sizeof(T) == 4 && std::signed_integral<T>)) {
      type = DType::I32;
      bits = static_cast<uint32_t>(static_cast<int32_t>(value));
    } else {
      type = DType::I64;
      bits = static_cast<uint64_t>(value);
    }
  }

  DType dtype() const { return type; }
  /// The 8-byte slot of LaunchParams.h: the value in the low bytes, zero above.
  uint64_t slot() const { return bits; }

private:
  uint64_t bits = 0;
  DType type = DType::F32;
};

/// A captured tensor by name. The name is not copied.
struct NamedTensor {
  std::string_view name;
  Tensor tensor;
};

/// A run-time scalar by name. The name is not copied.
struct NamedScalar {
  std::string_view name;
  ScalarValue value;
};

/// A list that is stored inside the object up to `inlineCount` elements, and on the heap beyond that.
template <typename T, size_t inlineCount> class ArgumentList {
public:
  ArgumentList() = default;
  ArgumentList(std::initializer_list<T> values) {
    for (const T &value : values)
      push_back(value);
  }
  ArgumentList(const std::vector<T> &values) {
    for (const T &value : values)
      push_back(value);
  }

  void push_back(const T &value) {
    if (count < inlineCount) {
      local[count] = value;
    } else {
      if (count == inlineCount)
        heap.assign(local.begin(), local.end());
      heap.push_back(value);
    }
    ++count;
  }

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  const T *begin() const { return count <= inlineCount ? local.data() : heap.data(); }
  const T *end() const { return begin() + count; }
  const T &operator[](size_t index) const { return begin()[index]; }

private:
  size_t count = 0;
  std::array<T, inlineCount> local = {};
  std::vector<T> heap = {};
};

/// The arguments of one launch; see the table above for shapes. Every tensor that the kernel's signature
/// names is bound exactly once, in any order.
struct LaunchArgs {
  Tensor q = {};
  Tensor k = {};
  Tensor v = {};
  Tensor o = {};
  std::optional<Tensor> lse = {};
  ArgumentList<NamedTensor, 6> tensors = {};  ///< captured tensors
  ArgumentList<NamedTensor, 5> operands = {}; ///< the kernel's operands other than the five above
  ArgumentList<NamedScalar, 8> scalars = {};
  std::optional<float> dropout = {}; ///< in [0, 1); unset: the probability that the variant names
  uint64_t seed = 0;
  uint64_t offset = 0;
  const uint64_t *seedPointer = nullptr;   ///< read by the kernel instead of `seed`; device memory on CUDA
  const uint64_t *offsetPointer = nullptr; ///< read by the kernel instead of `offset`
  std::optional<int32_t> qOffset = {};     ///< only for a variant with .qOffset; unset is 0
  /// Memory on the kernel's device, 16-byte aligned, that the launch may overwrite until it is done; launches that
  /// follow each other in a stream may share it. Null where Kernel::workspaceBytes() is 0.
  void *workspace = nullptr;
  size_t workspaceBytes = 0; ///< size of `workspace`; at least Kernel::workspaceBytes() of these arguments
  /// Says that the workspace still contains the tables of an earlier launch of this kernel, and that shapes, captured
  /// tensors (with their contents), scalars and qOffset are unchanged. The launch then skips the kernels that compute
  /// which tiles the mask leaves visible. The result is undefined if something has changed. No effect without such
  /// kernels.
  bool keepTables = false;

  /// The argument for the operand `name`; null where there is none.
  const Tensor *operand(std::string_view name) const;
};

struct Alternative;

/// A loaded kernel. See the top of this file for threads and devices.
class Kernel {
public:
  struct State;

  /// An empty handle: only assignment, `valid` and destruction are allowed.
  Kernel() = default;
  explicit Kernel(std::shared_ptr<const State> state);

  bool valid() const { return state != nullptr; }

  /// Checks everything that needs no call of the driver (dtype, shape, stride, alignment, null, declared device,
  /// names, plain indices of captured tensors; under a microsecond) and launches. Empty work (B, H or Sq of 0) succeeds
  /// without a launch; Sk = 0 launches and gives O = 0, LSE = -inf.
  Expected<void> launch(Stream stream, const LaunchArgs &args) const;

  /// As launch, and first asks the driver about every pointer: that it is memory the kernel's device can
  /// reach, and that the whole view lies inside its allocation. Microseconds per tensor; for debugging.
  Expected<void> launchChecked(Stream stream, const LaunchArgs &args) const;

  /// Only the checks of launch.
  Expected<void> check(const LaunchArgs &args) const;

  /// Bytes of workspace that a launch with these arguments needs; only q, k and the captured tensors matter. 0 unless
  /// visible tiles are looked up in per-tile tables, or the keys of a tile of rows are split over blocks. Tables take a
  /// few bytes for each tile of the sequence, or for each pair of a query tile and a key tile where a condition on both
  /// is counted (docs/inside/decisions-masks.md). Splits take a float32 row of O and its statistics for each row and
  /// split.
  size_t workspaceBytes(const LaunchArgs &args) const;

  /// Loads the module now, for the context that a launch from this thread would use; otherwise the first
  /// launch does. Nothing to do on the CPU.
  Expected<void> load() const;

  /// The kernel that serves every size.
  const KernelImage &image() const;
  /// The image that a launch of these sizes starts: image(), or the image of an alternative.
  const KernelImage &imageFor(const ProblemSizes &sizes) const;
  const std::vector<Alternative> &alternatives() const;
  /// This kernel with additional alternatives for `sizes` where another plan is better, as with CompileOptions::shapes.
  /// Errors: the errors of compile(); a kernel that was not made by compile().
  Expected<Kernel> prepare(const std::vector<ProblemSizes> &sizes) const;
  /// The backward pass that CompileOptions::gradients requested, with this handle's dropout probability. It is a
  /// separate kernel, which takes the operands in the table at the top of this file. An empty handle if no gradients
  /// were requested.
  Kernel backward() const;
  /// image().times, with the load time of this process.
  CompileTimes times() const;
  /// Where the kernel is bound: "cpu" or "cuda:<device>".
  Device device() const;
  /// Whether compile() found this kernel in the memory or disk cache.
  bool cacheHit() const { return hit; }

  /// The same kernel with `probability` as the default of LaunchArgs::dropout. The probability is no
  /// part of the compiled code, so it belongs to the handle.
  Kernel withDropout(float probability) const;
  /// The same kernel with cacheHit() set.
  Kernel withCacheHit(bool value) const;
  /// The same kernel with these alternatives, which must have its device, and its signature except for tiles and tensor
  /// maps.
  Kernel withAlternatives(std::vector<Alternative> alternatives) const;
  /// The implementation of prepare(), called with the sizes.
  using Prepare = std::function<Expected<Kernel>(const std::vector<ProblemSizes> &)>;
  Kernel withPrepare(Prepare prepare) const;
  /// The same kernel with `backward` as its backward pass.
  Kernel withBackward(Kernel backward) const;

private:
  struct Choice;
  const State &chosen(const ProblemSizes &sizes) const;
  const State &chosen(const LaunchArgs &args) const;

  std::shared_ptr<const State> state;
  std::shared_ptr<const Choice> choice = {}; ///< null if the handle consists of `state` only
  float defaultDropout = 0.0f;
  bool hit = false;
};

/// A kernel for the sizes of a class, or for launches of few queries. The alternatives of `kernel` itself are ignored.
struct Alternative {
  SizeClass sizes; ///< ignored unless `fewQueries` is No
  Kernel kernel;
  FewQueries fewQueries = FewQueries::No;
};

/// A kernel compiled for the CPU. `function` computes the tile of work of one block of the kernel's grid;
/// `params` is followed by the packed scalars and tensors of LaunchParams.h. `scratch` is 64-byte aligned,
/// `scratchBytes` long, owned by the calling thread, and uninitialised at entry.
struct HostEntry {
  void (*function)(const LaunchParams *params, int32_t block, void *scratch) = nullptr;
  size_t scratchBytes = 0;
};

/// A kernel from a cubin, bound to CUDA device `device`. The entry point takes one struct by value of
/// exactly signature.packedBytes() bytes. Fails when there is no driver or no such device, when the device's
/// architecture does not run the image's, or when the signature does not fit maxPackedBytes. The module
/// itself is loaded by Kernel::load() or by the first launch.
Expected<Kernel> loadCudaKernel(KernelImage image, int device);

/// A kernel from a host function. `owner` keeps the code alive (the JIT that holds it).
Kernel makeHostKernel(KernelImage image, std::vector<HostEntry> entries, std::shared_ptr<void> owner);

} // namespace attune
#pragma GCC visibility pop
