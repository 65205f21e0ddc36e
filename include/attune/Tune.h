//===- Tune.h - Plans chosen by measurement ----------------------------------===//
//
//     Expected<std::vector<TuneResult>> tuned =
//         tune(variant, {.dtype = bf16, .headDim = 64}, Target::detect(),
//              {{.sizes = {.batch = 1, .heads = 8, .headsKv = 8, .queries = 1024, .keys = 1024}}});
//     if (!tuned)
//       return report(tuned.error());
//     tuned->front().candidates.front().text           // "64 x 128, 1 warpgroup and a producer warp, ..."
//     compile(variant, ...)                            // has it as the alternative for these sizes, in any process
//
// Candidates are the cost model's plans, and for each plan the variations that deviate in one field from the model's
// rules (ping-pong, overlap, persistent blocks, the order of rows). With CompileOptions::backward the candidates are
// plans of the two loops of the backward pass: tiles, warps and stages of each loop, warpgroup-level or warp-level
// products, whether dQ is accumulated in memory (never for deterministic gradients), and whether dK and dV have a loop
// each. Candidates are compiled on all cores, the most promising first, and timed in alternating rounds; each launch
// starts with a cold L2 cache. Candidates that are clearly slower than the best are dropped. The times are stored in the cache folder under a key of the device, the
// space of plans, dtype, head dims, the class of the sizes, and the features of the program that the cost model reads.
// Programs with equal keys share the times, whatever the programs' names.
//
// Threads. As compile(). Nothing else should run on the GPU during a measurement.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

#include <functional>
#include <string>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// Sizes to tune for.
struct TuneCase {
  ProblemSizes sizes = {}; ///< all positive
  /// The captured tensors and run-time scalars of the variant; their content decides how many tiles a launch visits.
  /// `q`, `k`, `v` and `o` have these sizes and may have no data: random data is then generated. `o` is overwritten. For
  /// a backward pass the same holds for `lse` and the operands. `o`, `lse` and saved values are those of a launch of the
  /// forward pass.
  LaunchArgs args = {};
};

/// The progress of tune().
struct TuneProgress {
  size_t problem = 0, problems = 0;    ///< the current problem, counted from 1, of `problems`
  size_t compiled = 0, candidates = 0; ///< plans of this problem that are compiled, and all of its plans
  size_t inRace = 0;                   ///< plans that are still being timed; 0 during compilation
  std::string best = {};               ///< Plan::text of the fastest plan so far; empty before the first round
  double bestMicroseconds = 0;
  double secondsLeft = 0; ///< what is left of this problem's time budget
};

struct TuneOptions {
  double seconds = 20;    ///< time budget of each problem; the first round is completed even beyond the budget
  size_t candidates = 96; ///< the most plans that are compiled for each problem
  bool resume = false;    ///< skip sizes that have measurements in the cache folder
  /// Called now and then, on the thread that called tune(). If it returns false, tuning ends and the measurements are
  /// kept.
  std::function<bool(const TuneProgress &)> progress = {};
};

/// One plan that was timed.
struct TunedCandidate {
  std::string text;           ///< the plan
  bool chosenByModel = false; ///< the plan that compile() would choose for every size
  int rank = 0;               ///< rank by the cost model for these sizes, counted from 1
  double predictedMicroseconds = 0;
  /// Median time of a launch. A dropped plan was timed in the first rounds only, so its time is scaled by comparison
  /// with the best plan's times in the same rounds.
  double microseconds = 0;
  int launches = 0;                  ///< timed launches; more for plans that were not dropped early
  int registers = 0, spillBytes = 0; ///< per thread, the most of the launch's kernels
};

/// The result of one TuneCase.
struct TuneResult {
  ProblemSizes sizes = {};
  size_t space = 0;  ///< number of legal plans
  size_t failed = 0; ///< candidates that did not compile
  /// The timed candidates, fastest first; empty if tuning ended before the first was timed.
  std::vector<TunedCandidate> candidates = {};
  bool resumed = false;     ///< whether earlier measurements were used; `candidates` are the earlier ones
  bool ended = false;       ///< whether TuneOptions::progress ended the tuning
  double seconds = 0;       ///< the time that tuning took
  std::string notKept = {}; ///< why the measurements are not on disk; empty where they are
};

/// The results as a JSON array:
///
///     [{"sizes": {"batch", "heads", "headsKv", "queries", "keys"}, "sizeClass", "space", "failed", "resumed", "ended",
///       "seconds", "candidates": [{"text", "microseconds", "launches", "rank", "predictedMicroseconds", "chosenByModel",
///       "registers", "spillBytes"}], "notKept"}]
///
/// "notKept" is present only if it is not empty.
std::string tuneJson(const std::vector<TuneResult> &results);

/// Measures plans for each of `cases`. Errors: those of compile and launch; options that fix fields of the schedule or
/// a budget; a target without its device; a captured tensor or scalar without data; text of a backward pass, which does
/// not name its forward pass.
Expected<std::vector<TuneResult>> tune(const Variant &variant, const CompileOptions &options, const Target &target,
                                       const std::vector<TuneCase> &cases, const TuneOptions &tuning = {});
/// As tune, from attn text.
Expected<std::vector<TuneResult>> tuneText(const IrText &text, const CompileOptions &options, const Target &target,
                                           const std::vector<TuneCase> &cases, const TuneOptions &tuning = {});

} // namespace attune
#pragma GCC visibility pop
