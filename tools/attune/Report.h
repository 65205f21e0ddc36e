//===- Report.h - What the verbs print about a kernel -----------------------===//
#pragma once

#include "tools/attune/Options.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attune::cli {

/// KernelImage::planJson, or null where it cannot be read.
nlohmann::ordered_json planOf(const KernelImage &image);

/// The plan in a few aligned lines: tiles, shared memory against the budget, registers, traffic.
std::string planText(const nlohmann::ordered_json &plan);

/// The plan's "schedule", a line a decision: copies, roles, products, overlap, order, epilogue.
std::string scheduleText(const nlohmann::ordered_json &plan);

nlohmann::ordered_json timesJson(const CompileTimes &times);
/// What this run took, and where a kernel comes from the disk cache, what its compilation took then:
///
///     "438 ms: trace 0.10 ms, IR 4.2 ms, print 0.8 ms, NVRTC 431 ms, load 1.2 ms"
///     "from the cache (/root/.cache/attune) in 1.4 ms; compiled then in 436 ms: trace 0.10 ms, IR 4.2 ms,
///      print 0.8 ms, NVRTC 431 ms"
std::string compileText(const CompileTimes &times, bool cacheHit, double milliseconds, const Request &request);

} // namespace attune::cli
