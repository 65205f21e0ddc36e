//===- PlanSpace.h - The plans that tuning may measure -----------------------===//
//
// The cost model sets some fields of a plan by rule, such as ping-pong and overlap. Tuning measures alternatives to
// these rules: for each ranked plan, the space also contains the plans that differ in one of these fields.
//
//     Expected<std::vector<RankedPlan>> space = planSpace(request);   // rankPlans(request) and the alternatives
//     planFeatures(request)               // "element 2 head_dim 128 128 dropout 0 ... mask band -inf 0 prefix 0 ..."
//
// For a backward pass the space is backwardPlans:
//
//     std::vector<PredictedPlan> space = rankBackward(request, *backwardPlans(request.plan));
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/BackwardCost.h"

#include <variant>

namespace attune {

/// Part of the key under which every measurement is stored. Increase the number whenever a change of the compiler makes
/// the same plan fields give another kernel than before.
inline constexpr int planSpaceVersion = 3;

/// Returns every accepted plan of rankPlans(request) and the alternatives to each: all combinations of ping-pong and
/// overlap, blocks that are not persistent, and both orders of the row tiles (longestFirst), as far as the architecture
/// and the request do not fix these fields. Plans of four warpgroups that the ranking does not consider are added too.
/// Plans are sorted by predicted time. Because the model often predicts the same time for an alternative, alternatives
/// are ranked as if 3% slower. Rejected plans are left out. Errors as in rankPlans.
Expected<std::vector<RankedPlan>> planSpace(const PlanRequest &request);

/// What tuning measures: a forward pass with one plan, or a backward pass with a plan for each of its loops.
using PassPlan = std::variant<Plan, BackwardPlans>;

/// A plan that tuning may measure, and its predicted time; 0 where the model predicts none.
struct PredictedPlan {
  PassPlan plan;
  double seconds = 0;
};

/// Sorts `plans` by predicted time in steps of a factor of 1.25 from the time of the first plan. Plans within a step
/// keep their order, because the model is fitted to the plans that it chooses only. For the CPU no time is predicted,
/// and all plans keep their order. Precondition: `plans` is not empty.
std::vector<PredictedPlan> rankBackward(const BackwardRequest &request, const std::vector<BackwardPlans> &plans);

/// Returns, as one line of text, all properties of a program that the cost model reads, except sizes, budget and
/// architecture. Programs with the same features use the same measurements. The features of a mask whose shape depends
/// on lengths are computed for the request's lengths, so only compare features of requests with the default sizes.
std::string planFeatures(const PlanRequest &request);
/// Returns, as one line "backward ...", all properties of a backward pass that the cost model reads, except sizes,
/// budget and architecture.
std::string planFeatures(const BackwardRequest &request);

} // namespace attune
