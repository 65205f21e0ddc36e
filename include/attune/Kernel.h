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
// Shapes are logical; any strides with a unit head-dim stride serve, so [B, S, H, D] memory is passed as
// `Tensor::contiguous(...).permuted({0, 2, 1, 3})`:
//
//     | argument | shape           | dtype               |
//     |----------|-----------------|---------------------|
//     | q        | [B, H, Sq, D]   | the kernel's        |
//     | k        | [B, Hkv, Sk, D] | the kernel's        | H is a multiple of Hkv
//     | v        | [B, Hkv, Sk, Dv]| the kernel's        |
//     |          |                 |                     | of pages, k [P, Hkv, N, D] and v [P, Hkv, N, Dv]
//     | o        | [B, H, Sq, Dv]  | the kernel's        |
//     | lse      | [B, H, Sq]      | f32, may be left out|
//
// A backward pass (backward()) takes q, k, v, o and lse as a forward launch left them, and beside them by name in
// LaunchArgs::operands:
//
//     | operand  | shape           | dtype        |
//     |----------|-----------------|--------------|
//     | do       | [B, H, Sq, Dv]  | the kernel's | the gradient of o
//     | dlse     | [B, H, Sq]      | f32          | that of lse, where Gradients::lse is set
//     | dq       | [B, H, Sq, D]   | the kernel's | written, as the next two
//     | dk       | [B, Hkv, Sk, D] | the kernel's |
//     | dv       | [B, Hkv, Sk, Dv]| the kernel's |
//     | grads.T  | that of T       | that of T    | written in full: of each captured tensor T in Gradients::tensors
//     | saved.W  | savedShape()    | f32 or bool  | what the forward launch left there: of what is saved (Saving)
//
// Batch, heads, lengths and strides are run-time values: no launch recompiles.
//
// Threads. A Kernel is a cheap handle on shared, immutable state. Copying and every const member may be
// called from any number of threads at once, on one handle or on copies. On a CUDA target a launch only
// enqueues work on the caller's stream: it does not synchronise, and it allocates nothing once the module
// is loaded (load() or the first launch) and up to six captured tensors and eight scalars are passed. It
// may be captured in a CUDA graph, which then holds the arguments of the capture: a replay reads the same addresses,
// and through seedPointer and offsetPointer the numbers that are there then. On the CPU target a launch returns when
// the work is done, runs on a pool of ATTUNE_NUM_THREADS threads (default: the hardware's) and ignores the stream;
// launches from several threads take turns.
//
// Sizes. A kernel may have alternatives: kernels of the same computation with other schedules, each for a class of sizes
// (attune/ProblemSizes.h), or for launches of few queries. A launch starts that of the nearest class, where none is near
// and it has few queries one for these, else the kernel itself; it never compiles or loads. A kernel for few queries may
// need a workspace where the kernel itself does not: ask workspaceBytes() for the arguments of each launch.
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

/// constant + the sums of coordinates[i] * (b, h, q, k)[i] and of extents[i] * (B, H, Sq, Sk)[i], with the q offset in
/// q.
struct LinearIndex {
  static constexpr int64_t maxFactor = 1 << 16;            ///< of a coordinate or an extent, in magnitude
  static constexpr int64_t maxConstant = int64_t(1) << 40; ///< in magnitude: 64 bits hold every sum

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
/// which all of `guards` are at least 0. The launch fails where that would lie outside the tensor.
struct IndexParam {
  int dim = 0;
  LinearIndex index = {};
  std::vector<LinearIndex> guards = {};
  bool broadcast = false;   ///< an extent of 1 serves every index
  std::string text = {};    ///< the index as the variant writes it: "q - k + Sk - 1"
  std::string element = {}; ///< what is read: "table[h, q - k + Sk - 1]"; empty where a clamped index is no remedy, as
                            ///< each element has a gradient of its own
  friend bool operator==(const IndexParam &, const IndexParam &) = default;
};

/// One dimension of an operand or of a kernel's grid.
struct AxisParam {
  std::string name; ///< shared by all operands that have it: "b", "h", "hkv", "q", "k", "d", "dv", ...; or a captured
                    ///< tensor's dimension: "tensors.ids.1"
  int size = 0;     ///< the extent where it is known when the kernel is compiled, else 0
  int by = 1;       ///< how many of the axis each counts: ceil(extent / by) of them
  /// Whether operands share its extent: it has no fixed size, and is no captured tensor's.
  bool isShared() const;
  friend bool operator==(const AxisParam &, const AxisParam &) = default;
};

/// A dimension of a captured tensor.
struct TensorDimension {
  std::string_view tensor;
  int dim;
};
/// What an axis called tensors.NAME.DIM names; nothing for any other.
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

/// Declares an operand of a kernel: a tensor whose axes have names. An axis of no fixed size has one extent for all
/// operands of a launch. One whose last axis has a fixed size is read and written by tiles: that axis has unit stride,
/// and its address and other strides are multiples of 16 bytes.
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

/// Q [b, h, q, d] and K [b, hkv, k, d] and V [b, hkv, k, dv], O [b, h, q, dv], and LSE [b, h, q], which is optional:
/// the operands of the forward pass of a variant. Where keys lie in pages (Variant::keyPages), K is [page, hkv, slot, d] and V
/// [page, hkv, slot, dv] with `pageSize` slots.
std::vector<OperandParam> forwardOperands(DType dtype, int headDim, int headDimV, bool withLse = true,
                                          int pageSize = 0);

/// Declares a captured tensor of a kernel.
struct TensorParam {
  std::string name;
  DType dtype = DType::F32;
  int rank = 0;                         ///< 0 to 4
  std::vector<IndexParam> indices = {}; ///< what a launch compares with the tensor's extents
  friend bool operator==(const TensorParam &, const TensorParam &) = default;
};

/// What the operand of a captured tensor's gradient is called: "grads." and the tensor's name.
inline constexpr std::string_view gradientPrefix = "grads.";

/// The gradient of a captured tensor, of its dtype and extents.
OperandParam gradientOperand(const TensorParam &tensor);

/// The operands of the backward pass, without those of the workspace: Q, K, V, dO and what it writes, the gradients of
/// captured tensors among it; O and LSE, and dLSE `withGradientOfLse`, where rows have `statistics` (softmax).
std::vector<OperandParam> backwardOperands(DType dtype, int headDim, int headDimV, bool statistics,
                                           bool withGradientOfLse, const std::vector<TensorParam> &gradients = {});

/// What the operands of values are called that the forward pass leaves for the backward pass: "saved." and what they are.
inline constexpr std::string_view savedPrefix = "saved.";

/// Of what the forward pass leaves beside O and LSE (Saving, attune/Compile.h), Out of it and In of the backward pass: of
/// "dropout" a bit for each query and key, of "score" a float32. Blocks of 16 x 16 in an order of their own; memory of
/// other launches or of other kernels does not serve.
OperandParam savedOperand(std::string_view what, OperandRole role);
/// Its shape for a launch of these sizes: [batch, heads, ceil(queries / 16), ceil(keys / 16), n], n bytes or floats.
std::array<int64_t, 5> savedShape(const OperandParam &operand, int64_t batch, int64_t heads, int64_t queries,
                                  int64_t keys);

/// An axis whose extent a launch computes. Workspace operands and grids may have it.
struct DerivedAxis {
  enum class Rule : uint8_t {
    Rows,   ///< queries of all query heads of a key head: the extent of q times LaunchParams::group
    Splits, ///< of the keys of a tile of rows: keySplits() of LaunchParams.h, for the kernel whose grid has the axis
    Pages,  ///< keys of pages: the extent of `of` times `by`
    Slots,  ///< blocks that run at a time: blocksPerSm on each multiprocessor
    /// Of the work of sequences whose lengths memory tells, at most: a block for each that runs at a time, and one for
    /// each tile of `by` rows of each sequence. Rows are those of the axis `of`; each index of the grid's other axes has as many.
    WorkItems,
    TileRows, ///< rows of a tile: the extent of the axis `of`, at most `by`
  };
  std::string name;
  Rule rule = Rule::Rows;
  int by = 1;          ///< of shares: keys of a tile; of pages: keys of a page; of pieces and rows of a tile: its rows
  int blocksPerSm = 1; ///< of shares, slots and pieces: blocks that share a multiprocessor
  /// Of pages: the dimension of a captured tensor that counts a sequence's (tensors.NAME.1). Of pieces and rows of a tile: the
  /// axis of rows, which an operand has or is derived before.
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

/// Says that the kernel takes a tensor map of an operand or a captured tensor: the launch describes the tensor to the
/// TMA in boxes of rows x columns, stored in shared memory in panels of `swizzle` bytes (32, 64 or 128). Where
/// strides or extents of a captured tensor or its gradient do not allow it (LaunchParams::mapped), another kernel starts
/// (MapCondition).
struct TensorMapParam {
  std::string tensor; ///< the name of the operand or captured tensor
  int rows = 0;
  int columns = 0;
  int swizzle = 0;
  bool captured = false; ///< whether it is a captured tensor
  /// Whether a launch may do without: of a captured tensor and its gradient any strides are allowed.
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

  /// Names of the axes without a fixed size, each once, in the order in which operands name them, and behind them those
  /// of derived axes that no operand has.
  std::vector<std::string> axes() const;

  /// Where LaunchParams.h puts things, in bytes: the extent of the n-th of axes(), the n-th scalar, operand and
  /// captured tensor of one, the first tensor map; and how many bytes there are.
  size_t extentOffset(size_t axis) const;
  size_t scalarOffset(size_t scalar) const;
  size_t operandOffset(size_t operand) const;
  size_t tensorOffset(size_t tensor) const;
  size_t tensorMapOffset() const;
  size_t packedBytes() const;
  friend bool operator==(const KernelSignature &, const KernelSignature &) = default;
};

/// The most kernels that a module may have, and axes that their grids and workspace operands may have.
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

/// When a launch starts a kernel, by the optional tensor maps that it could make (LaunchParams::mapped).
struct MapCondition {
  int32_t reads = 0;      ///< bits of those that the kernel reads or writes by, all of which it needs
  int32_t fallbackOf = 0; ///< bits of another kernel's, of which one at least is missing; 0: it stands for no other
  bool holds(int32_t mapped) const {
    return (reads & ~mapped) == 0 && (fallbackOf == 0 || (fallbackOf & ~mapped) != 0);
  }
  friend bool operator==(const MapCondition &, const MapCondition &) = default;
};

/// The extent of an axis, which is at least 1 and at most that of another: of `most`, or 1 where that is "".
struct ExtentBound {
  std::string axis, most;
  friend bool operator==(const ExtentBound &, const ExtentBound &) = default;
};

/// One kernel of a module, as a launch starts it.
struct KernelEntry {
  std::string symbol;               ///< of the entry point
  std::vector<AxisParam> grid = {}; ///< a block for each tile of each axis; the last counts fastest
  int threads = 0;                  ///< per block; 1 for the CPU
  size_t sharedBytes = 0;           ///< dynamic shared memory per block; for the CPU, scratch bytes per thread
  int registers = 0;                ///< per thread, read from the cubin
  int spillBytes = 0;               ///< local memory per thread, read from the cubin
  bool persistent = false;  ///< blocks take one tile after another: there are persistentBlocks(tiles, SMs, claimsWork)
                            ///< of LaunchParams.h
  bool claimsWork = false;  ///< which they claim when they are free
  bool dependent = false;   ///< may start before the kernel in front of it has ended
  bool preparation = false; ///< writes the workspace alone: what LaunchArgs::keepTables leaves out
  std::vector<ExtentBound> skippedIf = {}; ///< where all of these hold it has nothing to do, and a launch leaves it out
  MapCondition maps = {};                  ///< where it does not hold another kernel does the work
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
  CompileTimes times = {};  ///< of the process that compiled it
  bool cacheHit = false;    ///< whether it was read from the disk cache; not in metadata()

  /// The kernel that completes the results: the last.
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

/// A list that lies inside the object up to `inlineCount` elements and on the heap beyond that.
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
  ArgumentList<NamedTensor, 6> tensors = {};  ///< captured ones
  ArgumentList<NamedTensor, 5> operands = {}; ///< those that a kernel has beside the five above
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
  /// The workspace still holds what an earlier launch of this kernel wrote to it, and shapes, captured tensors with
  /// their contents, scalars and qOffset are as they were: which tiles the mask visits is not found again. For masks of
  /// captured tensors that stay; otherwise the result is undefined. Without effect where nothing is prepared.
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

  /// Checks every argument that needs no query (dtype, shape, stride, alignment, null, declared device,
  /// names, plain indices of captured tensors; under a microsecond) and launches. Empty work (B, H or Sq of 0) succeeds
  /// without a launch; Sk = 0 launches and gives O = 0, LSE = -inf.
  Expected<void> launch(Stream stream, const LaunchArgs &args) const;

  /// As launch, and first asks the driver about every pointer: that it is memory the kernel's device can
  /// reach, and that the whole view lies inside its allocation. Microseconds per tensor; for debugging.
  Expected<void> launchChecked(Stream stream, const LaunchArgs &args) const;

  /// Only the checks of launch.
  Expected<void> check(const LaunchArgs &args) const;

  /// Bytes of workspace that launch needs for these arguments, of which q, k and the captured tensors are looked at: 0
  /// unless tables say which tiles the mask visits, or blocks share the keys of a tile of rows. Of tables a few bytes
  /// for each tile of the sequence; for each tile of queries and keys where conditions of both are counted
  /// (docs/inside/decisions-masks.md). Of shares a float32 row of O and its statistics for each row and share.
  size_t workspaceBytes(const LaunchArgs &args) const;

  /// Loads the module now, for the context that a launch from this thread would use; otherwise the first
  /// launch does. Nothing to do on the CPU.
  Expected<void> load() const;

  /// The kernel that serves every size.
  const KernelImage &image() const;
  /// What a launch of these sizes starts: image(), or an alternative's.
  const KernelImage &imageFor(const ProblemSizes &sizes) const;
  const std::vector<Alternative> &alternatives() const;
  /// This kernel with alternatives for `sizes`, too, where others are better there: CompileOptions::shapes afterwards.
  /// Errors: those of compile; of a kernel that was not made by compile().
  Expected<Kernel> prepare(const std::vector<ProblemSizes> &sizes) const;
  /// The backward pass, as CompileOptions::gradients asked for it, with this handle's dropout probability: a kernel of its
  /// own, that takes the table of operands at the top of this file. Without gradients an empty handle.
  Kernel backward() const;
  /// image().times with what loading took in this process.
  CompileTimes times() const;
  /// Where the kernel is bound: "cpu" or "cuda:<device>".
  Device device() const;
  /// Whether compile() found this kernel in the memory or disk cache.
  bool cacheHit() const { return hit; }

  /// The same kernel with `probability` as what an unset LaunchArgs::dropout means. The probability is no
  /// part of the compiled code, so it belongs to the handle.
  Kernel withDropout(float probability) const;
  /// The same kernel with cacheHit() set.
  Kernel withCacheHit(bool value) const;
  /// The same kernel with these alternatives, all on its device and of its signature but for tiles and tensor maps.
  Kernel withAlternatives(std::vector<Alternative> alternatives) const;
  /// What prepare() does with this kernel and the sizes.
  using Prepare = std::function<Expected<Kernel>(const std::vector<ProblemSizes> &)>;
  Kernel withPrepare(Prepare prepare) const;
  /// The same kernel with this as backward().
  Kernel withBackward(Kernel backward) const;

private:
  struct Choice;
  const State &chosen(const ProblemSizes &sizes) const;
  const State &chosen(const LaunchArgs &args) const;

  std::shared_ptr<const State> state;
  std::shared_ptr<const Choice> choice = {}; ///< null where there is nothing but `state`
  float defaultDropout = 0.0f;
  bool hit = false;
};

/// A kernel for the sizes of a class, or for launches of few queries. Its own alternatives do not count.
struct Alternative {
  SizeClass sizes; ///< of no account where `fewQueries` is not No
  Kernel kernel;
  FewQueries fewQueries = FewQueries::No;
};

/// A kernel compiled for the CPU. `function` computes the tile of work of one block of the kernel's grid;
/// `params` is followed by the packed scalars and tensors of LaunchParams.h. `scratch` is 64-byte aligned,
/// `scratchBytes` long, owned by the calling thread, and holds anything at entry.
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
