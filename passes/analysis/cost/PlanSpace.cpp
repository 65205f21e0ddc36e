//===- PlanSpace.cpp - The plans that tuning may measure ---------------------===//

#include "passes/analysis/cost/PlanSpace.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <tuple>

using namespace attune;

/// Whether row tiles may visit different numbers of key tiles.
static bool isUneven(const PlanRequest &request) {
  return request.mask.kind != MaskShape::Kind::Full || request.patternRows;
}

/// Choices of plan fields that depart from the cost model's rules, in addition to the fields that the request fixes.
static std::vector<PlanChoice> departures(const PlanRequest &request) {
  const PlanChoice &fixed = request.fixed;
  std::vector<PlanChoice> result;
  auto add = [&](auto &&change) {
    result.push_back(fixed);
    change(result.back());
  };
  if (!fixed.longestFirst && isUneven(request))
    for (bool value : {false, true})
      add([&](PlanChoice &choice) { choice.longestFirst = value; });
  if (!usesAsyncProducts(request))
    return result;
  for (bool pingPong : {false, true})
    for (bool overlap : {false, true})
      if (fixed.pingPong.value_or(pingPong) == pingPong && fixed.overlap.value_or(overlap) == overlap)
        add([&](PlanChoice &choice) {
          choice.pingPong = pingPong;
          choice.overlap = overlap;
        });
  if (!fixed.persistent)
    add([](PlanChoice &choice) { choice.persistent = false; });
  if (!fixed.warps && !fixed.tileQ)
    add([](PlanChoice &choice) { choice.warps = 16; });
  return result;
}

/// Whether another plan gives the same kernel: a single warpgroup has no partner for ping-pong, so the field has no
/// effect.
static bool repeatsAnother(const Plan &plan) { return plan.producerWarps && plan.warps == 4 && plan.pingPong; }

Expected<std::vector<RankedPlan>> attune::planSpace(const PlanRequest &request) {
  Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
  if (!ranked)
    return ranked;
  std::erase_if(*ranked, [](const RankedPlan &plan) { return !plan.accepted(); });
  const size_t byRule = ranked->size();
  for (const PlanChoice &choice : departures(request)) {
    PlanRequest departed = request;
    departed.fixed = choice;
    // Skip a choice for which rankPlans finds no plan.
    Expected<std::vector<RankedPlan>> others = rankPlans(departed);
    if (!others)
      continue;
    for (RankedPlan &other : *others) {
      auto same = [&](const RankedPlan &plan) { return plan.plan == other.plan; };
      if (other.accepted() && !repeatsAnother(other.plan) && std::ranges::none_of(*ranked, same))
        ranked->push_back(std::move(other));
    }
  }
  std::vector<std::tuple<bool, double, size_t>> order;
  for (size_t i = 0; i < ranked->size(); ++i) {
    const RankedPlan &plan = (*ranked)[i];
    order.emplace_back(!plan.demoted.empty(), plan.cost.mixSeconds * (i < byRule ? 1 : 1.03), i);
  }
  std::ranges::sort(order);
  std::vector<RankedPlan> space;
  for (const auto &[demoted, seconds, i] : order)
    space.push_back(std::move((*ranked)[i]));
  return space;
}

std::vector<PredictedPlan> attune::rankBackward(const BackwardRequest &request,
                                                const std::vector<BackwardPlans> &plans) {
  constexpr double precision = 1.25;
  std::vector<double> seconds;
  for (const BackwardPlans &each : plans)
    seconds.push_back(request.plan.arch == "cpu" ? 0 : backwardCost(request, each, request.saved).seconds());
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < plans.size(); ++i)
    order.emplace_back(seconds[i] > 0 ? int(std::log(seconds[i] / seconds.front()) / std::log(precision)) : 0, i);
  std::ranges::sort(order);
  std::vector<PredictedPlan> ranked;
  for (const auto &[slower, i] : order)
    ranked.push_back({plans[i], seconds[i]});
  return ranked;
}

std::string attune::planFeatures(const PlanRequest &request) {
  const MaskShape &mask = request.mask;
  auto bound = [](int64_t keys) {
    return keys >= MaskShape::unlimited    ? std::string("inf")
           : keys <= -MaskShape::unlimited ? std::string("-inf")
                                           : std::to_string(keys);
  };
  // A mask of Kind::Rows is described by one number: the fraction of (row, key) pairs that lie in the mask's intervals.
  auto split = [&] {
    double keys = 0;
    const MaskRows &rows = mask.rows->front();
    for (const std::vector<MaskRows::Keys> &parts : rows.rows)
      for (const MaskRows::Keys &of : parts)
        keys += double(std::max<int64_t>(0, of.end - of.begin));
    return keys / std::max(1.0, double(rows.rows.size()) * double(rows.keys));
  };
  const std::string shape = mask.kind == MaskShape::Kind::Full   ? "full"
                            : mask.kind == MaskShape::Kind::Rows ? fmt::format("rows {:.4f}", split())
                            : mask.kind == MaskShape::Kind::Fraction
                                ? fmt::format("fraction {:g}", mask.fraction)
                                : fmt::format("band {} {} prefix {}", bound(mask.left), bound(mask.right), mask.prefix);
  const std::string keys = (request.keyLengths ? " lengths" : "") +
                           (request.pageSize ? fmt::format(" page {}", request.pageSize) : std::string());
  return fmt::format("element {} head_dim {} {} dropout {:d} precise {:d} special {:g} {:g} alu {:g} statistics {:d} "
                     "uniform {} rows {} columns {} staged {} elements {} biases {} {} distances {} by_key {:d} "
                     "mask_alu {:g} mask {} pattern {} {}{}",
                     request.elementBytes, request.headDim, request.headDimV, request.dropout, request.precise,
                     request.specialPerElement, request.normaliserSpecial, request.aluPerElement, request.rowStatistics,
                     request.uniformValues, request.rowVectors, request.columnVectors, request.stagedColumns,
                     request.elementLoads, request.biases, request.biasBytes, request.relativeValues,
                     request.maskLoadsByKey, request.maskAluPerElement, shape, request.patternRows,
                     request.patternColumns, keys);
}

std::string attune::planFeatures(const BackwardRequest &request) {
  const PlanRequest &plan = request.plan;
  const ScoreWork &score = request.saved.score ? request.withSavedScore : request.score;
  return fmt::format("backward deterministic {:d} gradients {:d} {:d} {:d} one_loop {:d} reads_score {:d} by_head {:d} "
                     "ends_by_head {:d} query_lengths {:d} saved {:d} {:d} work {:g} {:g} {:d} {}",
                     plan.deterministic, plan.elementGradients, plan.scatteredGradients, plan.denseGradients,
                     plan.denseInOneLoop, plan.gradientReadsScore, plan.sumsByHead, plan.endsByHead, plan.queryLengths,
                     request.saved.dropout, request.saved.score, score.alu, score.special, score.needsProduct,
                     planFeatures(plan));
}
