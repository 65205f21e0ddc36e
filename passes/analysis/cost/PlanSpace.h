//===- PlanSpace.h - Every plan worth measuring ------------------------------===//
//
// The cost model settles some fields of a plan by rule, as turns and overlap. Measuring need not: the space holds for
// each plan of the ranking those that differ from it in one of these.
//
//     Expected<std::vector<RankedPlan>> space = planSpace(request);   // rankPlans(request), and their neighbours
//     planFeatures(request)               // "element 2 head_dim 128 128 dropout 0 ... mask band -inf 0 prefix 0 ..."
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

/// Part of the key of every measurement. Raise it whenever a plan's fields mean another kernel than before.
inline constexpr int planSpaceVersion = 2;

/// Every accepted plan of rankPlans(request), and of each those that differ in turns and overlap (both ways each), in
/// persistent blocks, or in the order of rows, as far as the architecture and the request leave them open; and those of
/// four warpgroups where the ranking has none. The quickest by the cost model come first; it sees no difference between neighbours, and a plan that follows its rules counts as
/// 3% quicker than one that does not. Rejected plans are left out. Errors as rankPlans.
Expected<std::vector<RankedPlan>> planSpace(const PlanRequest &request);

/// What the cost model reads of a program, but for sizes, budget and architecture: programs of the same features share
/// measurements. One line, the same for the same request. Masks whose shape depends on lengths are told by those of the
/// request: compare features of requests for the default sizes.
std::string planFeatures(const PlanRequest &request);

} // namespace attune
