//===- Compile.h - From a variant to a kernel -------------------------------===//
//
//     Expected<Kernel> kernel = compile(variant, {.dtype = bf16, .headDim = 128}, Target::detect());
//     if (!kernel)
//       return report(kernel.error());
//     kernel->image().times                        // where the compile time went
//     kernel->cacheHit()                           // true the second time
//
//     Expected<std::string> cuda = emit(variant, {.headDim = 128}, Target::cuda("sm_80"), Stage::Cuda);
//     Expected<Kernel> edited = compileFromText({*tileText, "edited.mlir"}, {}, Target::detect());
//
// A kernel depends on the variant, the options and the architecture. Batch, heads, lengths, strides, the
// values of run-time scalars, the dropout probability, seed and offset are launch values.
//
// Cache. A compiled kernel is kept in memory and on disk under a key of everything it depends on:
//
//     | part of the key                                   | why                                       |
//     |---------------------------------------------------|-------------------------------------------|
//     | Variant::canonical(), or the text of the IR       | what is computed                          |
//     | dtype and head dims                               | compile-time sizes                        |
//     | the plan, and the SRAM budget                     | how it is computed                        |
//     | architecture; for the CPU its name and features   | code of one does not run on another       |
//     | NVRTC's version and options                       | another compiler makes other code         |
//     | a hash of attune's own sources                    | another attune makes other code           |
//
// Where the cost model chooses the plan, a second entry records the choice. Its key contains the fixed fields, "auto"
// and the model's version. A new version of the model thus chooses again, and may choose a plan that is compiled
// already.
//
// Sizes. A kernel serves every size. In addition it may have alternatives for classes of sizes (attune/Kernel.h): plans
// that were measured on this kind of device, in the cache folder or shipped with attune (attune/Tune.h), and plans for
// CompileOptions::shapes. Measurements that another process makes later apply to requests that this process has not
// compiled yet.
//
// Code from the disk cache runs in this process. A folder or file that another user (other than root) owns or may write
// to is therefore not used, and a warning is logged. No state of the folder makes a compilation fail.
//
// Threads. Every function here may be called from any number of threads at once. Calls with the same key
// wait for one compilation; others run in parallel. No function here changes the calling thread's CUDA
// context. A Kernel is bound to one device: compile again with another device in the target to use another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/Kernel.h"
#include "attune/ProblemSizes.h"
#include "attune/Schedule.h"
#include "attune/Target.h"
#include "attune/TileMap.h"
#include "attune/Variant.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// The stages of a compilation, in order. `--emit`, dump files and errors use their names.
enum class Stage : uint8_t {
  Dsl,    ///< the variant's JSON
  Attn,   ///< MLIR: what is computed
  Tile,   ///< MLIR: tiles, online softmax; what the CPU target executes
  Sched,  ///< MLIR: one architecture's instructions, buffers and waits
  Llvm,   ///< the CPU's LLVM IR, as it goes to the code generator
  Cuda,   ///< CUDA C++
  Ptx,    ///< NVRTC's assembly text
  Cubin,  ///< the binary
  Sass,   ///< the binary's instructions, by nvdisasm
  Launch, ///< a loaded kernel
};

/// "dsl", "attn", "tile", "sched", "llvm", "cuda", "ptx", "cubin", "sass", "launch".
std::string_view name(Stage stage);
std::optional<Stage> parseStage(std::string_view text);

/// MLIR text that holds one `attn.attention`, `tile.kernel` or `sched.kernel`.
struct IrText {
  std::string text = {};
  std::string file = "input.mlir"; ///< the file name in errors

  /// Reads a file, a pipe or a device of at most maxBytes.
  static Expected<IrText> read(const std::string &path);
  static constexpr size_t maxBytes = size_t(64) << 20;
};

/// Whether compile() uses measurements (attune/Tune.h).
enum class Tuning : uint8_t {
  Off,     ///< the cost model chooses
  Cached,  ///< plans that were measured on this kind of device are used for the measured sizes
  Measure, ///< as Cached, after measuring those of CompileOptions::shapes that have no measurements (seconds for each)
};

/// "off", "cached", "measure".
std::string_view name(Tuning tuning);
std::optional<Tuning> parseTuning(std::string_view text);

/// Which values the forward pass saves for the backward pass, in addition to o and lse. A saved value W is an operand
/// "saved.W" of both passes (savedOperand in attune/Kernel.h): "dropout" is a bit and "score" a float32 for each query
/// and key. By default both are recomputed, and memory is O(S).
struct Saving {
  /// Bytes that the saved values may take for `sizes`. Within the budget, the values are saved that make both passes
  /// together fastest by the cost model.
  size_t memoryBudget = 0;
  std::vector<std::string> save = {};      ///< values that are always saved
  std::vector<std::string> recompute = {}; ///< values that are never saved
  ProblemSizes sizes = {};                 ///< sizes that the cost model assumes; the kernels serve every size

  bool any() const { return memoryBudget || !save.empty() || !recompute.empty(); }
};

/// What a backward pass computes in addition to the gradients of q, k and v.
struct Gradients {
  /// Captured float tensors whose gradients are computed; the gradients are operands "grads.NAME".
  std::vector<std::string> tensors = {};
  bool lse = false; ///< whether a gradient of lse is passed in, as operand "dlse"
  /// Whether equal arguments give equal bits in every launch. dQ is then not accumulated in memory, even where that is
  /// faster, and the gradient of a tensor that is read at an index of both q and k (table[h, q - k]) takes 536 bytes of
  /// workspace for each element.
  bool deterministic = false;
  Saving saving = {}; ///< what the forward pass saves; both passes are compiled with the same value
};

/// What a kernel is compiled for, besides the variant and the target. Unset fields are the cost model's choice.
struct CompileOptions {
  DType dtype = DType::BF16;             ///< of Q, K, V and O: BF16, F16 or F32
  int headDim = 0;                       ///< D, columns of Q and K: a multiple of 8 up to 576; required
  int headDimV = 0;                      ///< Dv, columns of V and O; 0 is headDim
  size_t sramBudget = 0;                 ///< bytes of shared memory per block; 0 is the device's limit
  std::optional<int> tileQ = {};         ///< query rows per block
  std::optional<int> tileK = {};         ///< keys per tile
  std::optional<int> warps = {};         ///< warps per block
  std::optional<int> stages = {};        ///< buffers of the K and V rings
  std::optional<bool> qRegisters = {};   ///< whether fragments of Q stay in registers
  std::optional<int> dvWarps = {};       ///< warps that share rows and split the columns of V and O: 1, 2 or 4
  std::optional<int> blocksPerSm = {};   ///< resident blocks of a multiprocessor, which divide its registers
  std::optional<bool> longestFirst = {}; ///< whether the last rows (backward: first keys) come first
  std::optional<bool> persistent = {};   ///< whether blocks are persistent: each computes several tiles of rows
  std::optional<int> queryStages = {};   ///< buffers of Q in persistent blocks: 1 or 2
  std::optional<bool> pingPong = {};     ///< whether warpgroups alternate between products and softmax (ping-pong)
  std::optional<bool> overlap = {};      ///< whether a tile's product with V overlaps with the softmax of the next
  std::optional<bool> stageBiases = {};  ///< whether dense biases (bias[h, q, k]) go through shared memory
  std::optional<bool> packGqa = {};      ///< whether the query heads of a key head share a tile's rows: for few queries
  /// Whether several blocks split the keys of a tile of rows (split-KV), so that few tiles of rows do not leave
  /// multiprocessors idle. Needs a workspace.
  std::optional<bool> splitKeys = {};
  /// Sizes for which compile() adds alternatives to the kernel that serves every size, where another plan is better:
  /// the measured plan if there is one, else the cost model's plan. Which kernel a launch starts depends only on its
  /// sizes.
  std::vector<ProblemSizes> shapes = {};
  /// If set, compile() also compiles the backward pass (Kernel::backward). Schedule fields apply to the forward pass.
  std::optional<Gradients> gradients = {};
  bool backward = false;          ///< only the backward pass of `gradients`; schedule fields apply to it
  Tuning tuning = Tuning::Cached; ///< measured plans are used only if no schedule field is set
  /// A hand-edited copy of the generated CUDA text, which is compiled instead of that text. An error if the kernel, its
  /// parameters or the plan in the header comment differ from the generated text. The kernel is neither read from a
  /// cache nor written to one.
  std::optional<IrText> cuda = {};
  std::string cacheDir = {}; ///< "": KernelCache::defaultDirectory()
  bool useCache = true;      ///< false: neither read nor write, in memory or on disk
  /// Whether to print the IR after each pass to standard error. Kernels are then compiled as if useCache were false.
  bool printAfterAll = false;
};

/// The kernel for `variant`, loaded for `target` (on a CUDA target into the context that a launch from this thread
/// would use). The variant's dropout probability becomes the kernel's default.
///
/// Errors: the variant's own mistake, with the user's file and line; a dtype, head dim or feature that the
/// target lacks; a schedule over the SRAM budget, with the bytes of each buffer; no NVRTC, with what was tried;
/// NVRTC's log with the kept source's path and the command that reproduces it; no driver or device.
Expected<Kernel> compile(const Variant &variant, const CompileOptions &options, const Target &target);

/// As compile, without loading: needs NVRTC for a CUDA target, but no driver and no GPU.
Expected<KernelImage> compileImage(const Variant &variant, const CompileOptions &options, const Target &target);

/// The text of `stage`, or the bytes of the cubin. Stages after attn show the schedule that compile() chooses. Where
/// schedule fields are free, the choice is taken from the cache of `options` or made by compiling; the text itself is
/// always generated. Needs NVRTC from Stage::Ptx on, and for Stage::Sass nvdisasm on PATH or in a CUDA toolkit. MLIR
/// text carries the known source locations, so that the CUDA made from it is the same to the byte, and the variant's
/// JSON in the module's attribute `attn.variant`, so that a run of the text can be checked. Errors: those of compile, a
/// stage that the target does not have (the CPU's are Dsl, Attn, Tile and Llvm, which no GPU has), and Stage::Launch.
Expected<std::string> emit(const Variant &variant, const CompileOptions &options, const Target &target, Stage stage);

/// Facts about IR text, read from the text.
struct IrSummary {
  Stage stage = Stage::Attn; ///< Attn, Tile or Sched
  std::string name = {};
  std::string arch = {}; ///< only at Stage::Sched
  double scale = 0;      ///< only at Stage::Attn, 0 elsewhere
  bool precise = false;
  bool backward = false; ///< the backward pass of a variant
  KernelSignature signature = {};
  std::string variantJson = {}; ///< Variant::toJson of the variant that the text was emitted from, if it is unchanged
};

/// Parses and verifies. Errors carry line, column and a caret.
Expected<IrSummary> describeText(const IrText &text);

/// As compile, continuing from attn, tile or sched text. `options.dtype`, `headDim` and `headDimV` are not read:
/// the text holds them. Schedule fields apply to attn text; on tile and sched text, which hold their schedule, they
/// are an error. The CPU target takes attn and tile text.
Expected<Kernel> compileFromText(const IrText &text, const CompileOptions &options, const Target &target);
Expected<KernelImage> compileImageFromText(const IrText &text, const CompileOptions &options, const Target &target);
/// As emit. Errors also for a stage before the text's own.
Expected<std::string> emitFromText(const IrText &text, const CompileOptions &options, const Target &target,
                                   Stage stage);

/// The cost model's view, as JSON, without compiling to CUDA:
///
///     {"variant", "arch", "dtype", "headDim", "headDimV", "costModelVersion", "rankedBy",
///      "sizes": {"batch", "heads", "headsKv", "queries", "keys"},
///      "candidates": [{"tileQ", "tileK", "warps", "stages", "qRegisters", "dvWarps", "blocksPerSm", "text",
///                      "chosen", "rejected", "passedOver", "sharedBytes", "registers", "registerLimit",
///                      "trafficBytes", "hbmBytes", "microseconds", "meanMicroseconds", "limitedBy", "busy"}],
///      "plan": {...}}
///
/// Where plans were measured for the class of `sizes` on the target's device (attune/Tune.h), the measured candidates
/// have "measuredMicroseconds", and the object contains
///
///     "measured": {"text", "microseconds", "plans", "sizeClass", "written", "differs"}
///
/// for the fastest measured plan, which a launch of these sizes uses. "differs" names what has changed since the
/// measurement: attune, the driver.
///
/// `candidates` are ranked for `sizes` by the number that `rankedBy` names, the rejected ones last: "microseconds", or
/// with warpgroup-level products "meanMicroseconds", the geometric mean over the same tokens in sequences of an eighth
/// to four times the length, each twice the one before. `passedOver` says why compile() does not choose a candidate
/// that fits: "compiled: spills 56 bytes", "3.1% slower". `plan` is KernelImage::planJson of the plan that compile()
/// chooses for the kernel that serves every size. This plan is ranked for the default sizes, and its registers are an
/// estimate.
///
/// `tiles` is the variant's tileMap for `sizes`, computed with the values of the captured tensors; times and bytes then
/// count the visited tiles. Without `tiles`, a mask that reads captured tensors is assumed to leave half of the tiles
/// visible, and a block pattern all tiles.
Expected<std::string> explain(const Variant &variant, const CompileOptions &options, const Target &target,
                              const ProblemSizes &sizes = {}, std::shared_ptr<const TileMap> tiles = nullptr);
Expected<std::string> explainText(const IrText &text, const CompileOptions &options, const Target &target,
                                  const ProblemSizes &sizes = {}, std::shared_ptr<const TileMap> tiles = nullptr);

/// "0.2.0".
std::string_view versionText();
/// The hash of attune's sources that is part of every cache key.
std::string_view buildId();

/// The cache key of a compilation, as text; for tests and diagnostics.
Expected<std::string> cacheKey(const Variant &variant, const CompileOptions &options, const Target &target);

} // namespace attune
#pragma GCC visibility pop
