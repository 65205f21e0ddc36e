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
// Candidates are the plans of the cost model, and of each those that differ from its rules in one thing (turns, overlap,
// persistent blocks, the order of rows). They are compiled on all cores, the most promising first, and timed in
// alternating rounds, each launch with a cold level-2 cache; what is clearly slower than the best leaves the race. The
// times go to the cache folder, under the device, the plan's space, dtype, head dims, the class of the sizes and what
// the cost model reads of the program: programs that differ in none of that share them, whatever their names.
//
// Threads. As compile(). On a GPU nothing else should run on the device meanwhile.
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
  /// The captured tensors and run-time scalars that the variant names: their content decides how many tiles a launch
  /// visits. `q`, `k`, `v` and `o`, of these sizes, may be left without data: random ones are made then. What is in `o`
  /// is overwritten.
  LaunchArgs args = {};
};

/// Where tune() is.
struct TuneProgress {
  size_t problem = 0, problems = 0;    ///< from 1 on
  size_t compiled = 0, candidates = 0; ///< plans of this problem
  size_t inRace = 0;                   ///< plans that are still timed; 0 while they are compiled
  std::string best = {};               ///< Plan::text of the quickest so far; empty before the first round
  double bestMicroseconds = 0;
  double secondsLeft = 0; ///< of this problem's budget
};

struct TuneOptions {
  double seconds = 20;    ///< for each problem; the first round is completed all the same
  size_t candidates = 96; ///< the most that are compiled for each
  bool resume = false;    ///< leave out sizes that the cache folder has measured already
  /// Called now and then, from the thread that called tune(). False ends it, and keeps what was measured.
  std::function<bool(const TuneProgress &)> progress = {};
};

/// One plan that was timed.
struct TunedCandidate {
  std::string text;           ///< the plan
  bool chosenByModel = false; ///< what compile() would take for every size
  int rank = 0;               ///< by the cost model for these sizes, from 1 on
  double predictedMicroseconds = 0;
  double microseconds = 0; ///< median of a launch; of a plan that left the race, beside the best one's of the same time
  int launches = 0;        ///< that were timed: most for those that stayed in the race
  int registers = 0, spillBytes = 0;
};

/// What came of one TuneCase.
struct TuneResult {
  ProblemSizes sizes = {};
  size_t space = 0;  ///< legal plans
  size_t failed = 0; ///< candidates that did not compile
  std::vector<TunedCandidate> candidates =
      {};                   ///< those that were timed, quickest first; empty where it was ended before
  bool resumed = false;     ///< measured already; `candidates` are those of then
  bool ended = false;       ///< by TuneOptions::progress
  double seconds = 0;       ///< that it took
  std::string notKept = {}; ///< why the measurements are not on disk; empty where they are
};

/// The results as a JSON array:
///
///     [{"sizes": {"batch", "heads", "headsKv", "queries", "keys"}, "sizeClass", "space", "failed", "resumed", "ended",
///       "seconds", "candidates": [{"text", "microseconds", "launches", "rank", "predictedMicroseconds", "chosenByModel",
///       "registers", "spillBytes"}], "notKept"}]
///
/// "notKept" is there where it is not empty.
std::string tuneJson(const std::vector<TuneResult> &results);

/// Measures plans for each of `cases`. Errors: those of compile and launch; options that fix fields of the schedule or a
/// budget; a target without its device; a captured tensor or scalar without data.
Expected<std::vector<TuneResult>> tune(const Variant &variant, const CompileOptions &options, const Target &target,
                                       const std::vector<TuneCase> &cases, const TuneOptions &tuning = {});
/// As tune, from attn text.
Expected<std::vector<TuneResult>> tuneText(const IrText &text, const CompileOptions &options, const Target &target,
                                           const std::vector<TuneCase> &cases, const TuneOptions &tuning = {});

} // namespace attune
#pragma GCC visibility pop
