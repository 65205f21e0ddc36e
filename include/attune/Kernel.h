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
#include "attune/Signature.h"
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

/// How long each stage of a compilation took, in milliseconds.
struct CompileTimes {
  double trace = 0; ///< DSL to variant
  double ir = 0;    ///< variant to scheduled IR
  double print = 0; ///< scheduled IR to CUDA text, or to LLVM IR
  double nvrtc = 0; ///< CUDA text to cubin, or LLVM IR to an object
  double load = 0;  ///< cubin or object to a callable kernel, in this process
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
  int tileQ = 0;            ///< query rows per tile; 0 for a program that does not divide the axis q
  int tileK = 0;            ///< keys per tile; 0 for a program that does not divide the axis k
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
