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
//     | the plan, and the SRAM budget                     | how                                       |
//     | architecture; for the CPU its name and features   | code does not carry over                  |
//     | NVRTC's version and options                       | another compiler                          |
//     | a hash of attune's own sources                    | another attune                            |
//
// Where the plan is the cost model's, a key with the fields that are fixed, "auto" and the model's version leads to that
// of the plan: a better model chooses again, and what it chooses may be there already.
//
// Sizes. A kernel serves every size. Beside it there are alternatives for classes of sizes (attune/Kernel.h): those that
// were measured on this kind of device, in the cache folder or shipped with attune (attune/Tune.h), and those of
// CompileOptions::shapes. Measurements that another process makes later count for what this one has not compiled yet.
//
// Code from the disk runs in this process: a folder or file that another user (other than root) owns or may write to is
// not used, with a warning. No state of the folder makes a compilation fail.
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
  std::string file = "input.mlir"; ///< its name in errors

  /// Reads a file, a pipe or a device of at most maxBytes.
  static Expected<IrText> read(const std::string &path);
  static constexpr size_t maxBytes = size_t(64) << 20;
};

/// Whether compile() makes use of measurements (attune/Tune.h).
enum class Tuning : uint8_t {
  Off,     ///< the cost model chooses
  Cached,  ///< plans that were measured on this kind of device serve the sizes that they were measured for
  Measure, ///< as Cached; first measures CompileOptions::shapes that nobody has measured yet, seconds for each
};

/// "off", "cached", "measure".
std::string_view name(Tuning tuning);
std::optional<Tuning> parseTuning(std::string_view text);

/// What the forward pass may leave for the backward pass beside o and lse, in operands "saved.W" of both (savedOperand in
/// attune/Kernel.h): "dropout", a bit for each query and key, and "score", a float32. By default all is computed again,
/// and memory is O(S).
struct Saving {
  size_t memoryBudget =
      0; ///< bytes: of what they hold for `sizes` that is saved which makes both passes quickest by the
         ///< cost model
  std::vector<std::string> save = {};      ///< values that are saved in any case
  std::vector<std::string> recompute = {}; ///< values that are not
  ProblemSizes sizes = {};                 ///< what the model weighs for; a kernel serves every size

  bool any() const { return memoryBudget || !save.empty() || !recompute.empty(); }
};

/// What a backward pass gives beside the gradients of q, k and v.
struct Gradients {
  std::vector<std::string> tensors =
      {};           ///< captured tensors of floats whose gradients are computed, operands "grads.NAME"
  bool lse = false; ///< the gradient of lse comes in, as operand "dlse", beside that of o
  /// The same bits for the same arguments in every launch: dQ is not added up in memory where that is quicker; of tensors
  /// that are read at an index of both q and k (table[h, q - k]) in 536 bytes of workspace an element.
  bool deterministic = false;
  Saving saving = {}; ///< of both passes, which are compiled with the same
};

/// What a kernel is compiled for, besides the variant and the target. Unset fields are the cost model's choice.
struct CompileOptions {
  DType dtype = DType::BF16;           ///< of Q, K, V and O: BF16, F16 or F32
  int headDim = 0;                     ///< D, columns of Q and K: a multiple of 8 up to 576; required
  int headDimV = 0;                    ///< Dv, columns of V and O; 0 is headDim
  size_t sramBudget = 0;               ///< bytes of shared memory per block; 0 is the device's limit
  std::optional<int> tileQ = {};       ///< query rows per block
  std::optional<int> tileK = {};       ///< keys per tile
  std::optional<int> warps = {};       ///< warps per block
  std::optional<int> stages = {};      ///< buffers of the K and V rings
  std::optional<bool> qRegisters = {}; ///< whether fragments of Q stay in registers
  std::optional<int> dvWarps = {};     ///< warps that share rows and split the columns of V and O: 1, 2 or 4
  std::optional<int> blocksPerSm = {}; ///< blocks that share a multiprocessor; each may take that part of the registers
  std::optional<bool> longestFirst = {}; ///< whether the last rows, which see most keys under a causal mask, are scheduled first
  std::optional<bool> persistent = {};   ///< whether blocks are persistent: each computes several tiles of rows
  std::optional<int> queryStages = {};   ///< buffers of Q in persistent blocks: 1 or 2
  std::optional<bool> pingPong = {};     ///< whether warpgroups ping-pong: one runs its products while another runs its softmax
  std::optional<bool> overlap = {};      ///< whether a tile's product with V overlaps with the softmax of the next
  std::optional<bool> stageBiases = {};  ///< whether dense biases (bias[h, q, k]) go through shared memory
  std::optional<bool> packGqa = {};      ///< whether the query heads of a key head share a tile's rows: for few queries
  std::optional<bool> splitKeys =
      {}; ///< whether several blocks share the keys of a tile of rows, where few tiles would
          ///< leave multiprocessors idle; needs a workspace
  /// Sizes that compile() makes kernels of their own for, beside the one that serves every size, where others are better
  /// there: measured ones where there are any, else by the cost model. What a launch starts depends on its sizes alone.
  std::vector<ProblemSizes> shapes = {};
  /// Set: compile() gives the backward pass, too (Kernel::backward). Schedule fields are the forward pass's.
  std::optional<Gradients> gradients = {};
  bool backward = false;          ///< the backward pass alone, of `gradients`; schedule fields are its own
  Tuning tuning = Tuning::Cached; ///< measured plans serve only requests that leave the whole schedule open
  /// CUDA that takes the place of the generated text, from which it was edited by hand. Errors where its kernel, its
  /// parameters or the plan that its comment names are not the generated text's. The kernel is neither read from a
  /// cache nor written to one.
  std::optional<IrText> cuda = {};
  std::string cacheDir = {}; ///< "": KernelCache::defaultDirectory()
  bool useCache = true;      ///< false: neither read nor write, in memory or on disk
  bool printAfterAll =
      false; ///< print the IR after each pass to standard error; kernels are compiled as if useCache were false
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

/// The text of `stage` (the bytes of the cubin). A stage after attn shows the schedule that compile() settles on: where
/// fields of it are free, it is compiled for, or taken from, the cache of `options`; the text itself is made anew.
/// Needs NVRTC from Stage::Ptx on, and for Stage::Sass nvdisasm on PATH or in a CUDA toolkit. MLIR text carries the
/// known source locations, so that the CUDA made from it is the same to the byte, and the variant's JSON in the
/// module's attribute `attn.variant`, so that a run of the text can be checked. Errors: those of compile, a stage that
/// the target does not have (the CPU's are Dsl, Attn, Tile and Llvm, which no GPU has), and Stage::Launch.
Expected<std::string> emit(const Variant &variant, const CompileOptions &options, const Target &target, Stage stage);

/// What IR text says about itself.
struct IrSummary {
  Stage stage = Stage::Attn; ///< Attn, Tile or Sched
  std::string name = {};
  std::string arch = {}; ///< only at Stage::Sched
  double scale = 0;      ///< only at Stage::Attn, 0 elsewhere
  bool precise = false;
  bool backward = false; ///< the backward pass of a variant
  KernelSignature signature = {};
  std::string variantJson = {}; ///< Variant::toJson, where the text was emitted from a variant and still is it
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
/// Where plans were measured for the class of `sizes` on the target's device (attune/Tune.h), candidates that took part have
/// "measuredMicroseconds", and there is
///
///     "measured": {"text", "microseconds", "plans", "sizeClass", "written", "differs"}
///
/// of the quickest, which a launch of these sizes starts; "differs" names what has changed since: attune, the driver.
///
/// `candidates` are ranked for `sizes` by the number that `rankedBy` names, the rejected ones last: "microseconds", or
/// with warpgroup-level products "meanMicroseconds", the geometric mean over the same tokens in sequences of an eighth
/// to four times the length, each twice the one before. `passedOver` says why compile() does not take a candidate that fits: "compiled: spills
/// 56 bytes", "3.1% slower". `plan` is KernelImage::planJson of the one that compile() chooses, which serves every size
/// and is ranked for the default sizes (registers as estimated).
///
/// `tiles` are those of the variant for `sizes` (tileMap), with what captured tensors hide: times and bytes count them.
/// Without, a mask that reads captured tensors leaves half of the tiles, and a block pattern all.
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
