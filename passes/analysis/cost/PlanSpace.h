//===- PlanSpace.h - The plans that tuning may measure -----------------------===//
//
// The cost model sets some fields of a plan by rule, such as ping-pong and overlap. Tuning measures alternatives to
// these rules: for each ranked plan, the space also contains the plans that differ in one of these fields.
//
//     Expected<std::vector<RankedPlan>> space = planSpace(request);   // rankPlans(request) and the alternatives
//     planFeatures(request)               // "element 2 head_dim 128 128 dropout 0 ... mask band -inf 0 prefix 0 ..."
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

/// Part of the key under which every measurement is stored. Increase the number whenever a change of the compiler makes
/// the same plan fields give another kernel than before.
inline constexpr int planSpaceVersion = 2;

/// Returns every accepted plan of rankPlans(request) and the alternatives to each: all combinations of ping-pong and
/// overlap, blocks that are not persistent, and both orders of the row tiles (longestFirst), as far as the architecture
/// and the request do not fix these fields. Plans of four warpgroups that the ranking does not consider are added too.
/// Plans are sorted by predicted time. Because the model often predicts the same time for an alternative, alternatives
/// are ranked as if 3% slower. Rejected plans are left out. Errors as in rankPlans.
Expected<std::vector<RankedPlan>> planSpace(const PlanRequest &request);

/// Returns, as one line of text, all properties of a program that the cost model reads, except sizes, budget and
/// architecture. Programs with the same features use the same measurements. The features of a mask whose shape depends
/// on lengths are computed for the request's lengths, so only compare features of requests with the default sizes.
std::string planFeatures(const PlanRequest &request);

} // namespace attune
