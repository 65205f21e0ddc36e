//===- Bench.h - The measurements of attune-bench -----------------------------===//
//
// Each prints one JSON object a row:
//
//     {"name": "plain/causal/d64/s1024", "peer": "attune", "path": "mma.sync", "plan": "128 x 64, ...", "ms": 0.152,
//      "tflops": 226.1, ...}
//
//===----------------------------------------------------------------------===//
#pragma once

#include "bench/Cases.h"
#include "driver/Timing.h"

#include <nlohmann/json.hpp>

#include <chrono>

namespace bench {
using attune::Expected;
using attune::driver::median;
using nlohmann::ordered_json;

struct Options {
  attune::Target target;
  std::string filter;              ///< part of a case's name; empty: all
  std::vector<std::string> groups; ///< of groups(); empty: all
  std::string expectedPath;        ///< "mma.sync" or "wgmma"
  bool clearL2 = true;             ///< before every timed launch
  int milliseconds = 200;          ///< to spend on the timed launches of a row, at least 10 of them
  int candidates = 12;
  bool compileOnly = false; ///< candidates: only list them

  std::vector<Case> cases() const;
};

/// Every case with the plan that compile() chooses. Errors: what does not compile or launch, a result far from
/// float64, a path other than the expected one.
Expected<void> measureCases(const Options &options);
/// Every case with the best candidates of the cost model, and where the chosen plan ranks among them.
Expected<void> measureCandidates(const Options &options);
/// Registers, spills and shared bytes of every kernel, without a GPU.
Expected<void> compileCases(const Options &options);

/// The CPU target against plain loops, float32.
Expected<void> measureCpu(const Options &options, int64_t length);
/// The cost of a launch and its checks, of compiling again, and of new processes with and without a cache.
Expected<void> measureHost(const Options &options);
/// What a new process measures and prints for measureHost: one compilation with the cache in `directory`.
Expected<void> compileOnce(const Options &options, const std::string &directory);

/// Prints one row.
void print(const ordered_json &row);

inline double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs job(i) for i < count on as many threads as there are cores.
void inParallel(size_t count, const std::function<void(size_t)> &job);

} // namespace bench
