//===- Report.h - What the verbs print about a kernel -----------------------===//
#pragma once

#include "attune/Kernel.h"

#include <nlohmann/json.hpp>

#include <string>

namespace attune::cli {

/// KernelImage::planJson, or null where it cannot be read.
nlohmann::ordered_json planOf(const KernelImage &image);

/// The plan in a few aligned lines: tiles, shared memory against the budget, registers, HBM bytes.
std::string planText(const nlohmann::ordered_json &plan);

/// The plan's "schedule", a line a decision: copies, roles, products, overlap, order, epilogue.
std::string scheduleText(const nlohmann::ordered_json &plan);

nlohmann::ordered_json timesJson(const CompileTimes &times);
/// "trace 0.1 ms, IR 4.2 ms, print 0.8 ms, NVRTC 431.0 ms, load 1.2 ms"
std::string timesText(const CompileTimes &times, bool cuda);

} // namespace attune::cli
