//===- PlanSpaceTest.cpp - The plans that are worth measuring ---------------===//

#include "passes/analysis/cost/PlanSpace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace attune;

static std::vector<RankedPlan> spaceOf(const PlanRequest &request) {
  Expected<std::vector<RankedPlan>> space = planSpace(request);
  INFO((space ? "" : space.error().message));
  REQUIRE(space);
  return *space;
}

static PlanRequest hopper(int headDim, MaskShape mask = MaskShape::full()) {
  PlanRequest request;
  request.arch = "sm_90a";
  request.headDim = request.headDimV = headDim;
  request.mask = mask;
  request.setReferenceSizes();
  request.theseSizes = true;
  return request;
}

TEST_CASE("the space holds the ranking's plans and their neighbours, each once and legal") {
  for (const char *arch : {"sm_90a", "sm_90", "sm_80", "cpu"})
    for (int headDim : {40, 64, 128, 256})
      for (const MaskShape &mask : {MaskShape::full(), MaskShape::causal(), MaskShape::partly(0.5)}) {
        INFO(arch << " " << headDim);
        PlanRequest request = hopper(headDim, mask);
        request.arch = arch;
        const std::vector<RankedPlan> space = spaceOf(request);
        for (size_t i = 0; i < space.size(); ++i) {
          REQUIRE(space[i].accepted());
          for (size_t j = 0; j < i; ++j)
            REQUIRE_FALSE(space[i].plan == space[j].plan);
          // A plan fixed in all its fields is the plan.
          PlanRequest fixed = request;
          fixed.fixed = choiceOf(space[i].plan);
          const Expected<RankedPlan> same = choosePlan(fixed);
          REQUIRE(same);
          REQUIRE(same->plan == space[i].plan);
        }
        const Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
        REQUIRE(ranked);
        CHECK(space.front().plan == ranked->front().plan);
        for (const RankedPlan &plan : *ranked)
          if (plan.accepted())
            REQUIRE(std::ranges::find(space, plan.plan, &RankedPlan::plan) != space.end());
      }
}

TEST_CASE("neighbours differ in turns, overlap, persistent blocks and the order of rows") {
  const std::vector<RankedPlan> space = spaceOf(hopper(64, MaskShape::causal()));
  auto has = [&](auto &&which) { return std::ranges::any_of(space, which, &RankedPlan::plan); };
  for (bool flag : {false, true}) {
    CHECK(has([&](const Plan &plan) { return plan.warps == 8 && plan.pingPong == flag && plan.overlap; }));
    CHECK(has([&](const Plan &plan) { return plan.warps == 8 && plan.pingPong == flag && !plan.overlap; }));
    CHECK(has([&](const Plan &plan) { return plan.persistent == flag; }));
    CHECK(has([&](const Plan &plan) { return plan.longestFirst == flag; }));
  }
  // One warpgroup has nobody to take turns with; rows that all see every key have no order.
  CHECK_FALSE(has([](const Plan &plan) { return plan.warps == 4 && plan.pingPong; }));
  for (const RankedPlan &plan : spaceOf(hopper(64)))
    CHECK_FALSE(plan.plan.longestFirst);
}

TEST_CASE("what is fixed stays fixed in the space") {
  PlanRequest request = hopper(128, MaskShape::causal());
  request.fixed.pingPong = true;
  request.fixed.persistent = true;
  request.fixed.tileK = 64;
  const std::vector<RankedPlan> space = spaceOf(request);
  CHECK(space.size() > 4);
  for (const RankedPlan &plan : space) {
    CHECK(plan.plan.tileK == 64);
    CHECK(plan.plan.persistent);
    CHECK(plan.plan.pingPong);
  }
}

TEST_CASE("four warpgroups are measured beside masks that the ranking leaves them out for") {
  const PlanRequest request = hopper(64, MaskShape::partly(0.5));
  const Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
  REQUIRE(ranked);
  auto four = [](const RankedPlan &plan) { return plan.plan.warps == 16; };
  CHECK(std::ranges::none_of(*ranked, four));
  CHECK(std::ranges::any_of(spaceOf(request), four));
}

TEST_CASE("features tell programs apart, and not sizes") {
  const PlanRequest plain = hopper(64);
  PlanRequest other = plain;
  other.batch = 1, other.heads = 3, other.queries = 77, other.keys = 99, other.sramBudget = 1 << 16,
  other.arch = "sm_80";
  CHECK(planFeatures(plain) == planFeatures(other));
  const auto changes = std::vector<void (*)(PlanRequest &)>{
      [](PlanRequest &r) { r.elementBytes = 4; },
      [](PlanRequest &r) { r.headDim = 72; },
      [](PlanRequest &r) { r.headDimV = 72; },
      [](PlanRequest &r) { r.dropout = true; },
      [](PlanRequest &r) { r.precise = true; },
      [](PlanRequest &r) { r.specialPerElement = 1; },
      [](PlanRequest &r) { r.normaliserSpecial = 2; },
      [](PlanRequest &r) { r.aluPerElement = 1.5; },
      [](PlanRequest &r) { r.rowStatistics = false; },
      [](PlanRequest &r) { r.uniformValues = 1; },
      [](PlanRequest &r) { r.rowVectors = 1; },
      [](PlanRequest &r) { r.columnVectors = 1; },
      [](PlanRequest &r) { r.stagedColumns = 1; },
      [](PlanRequest &r) { r.elementLoads = 1; },
      [](PlanRequest &r) { r.biases = 1; },
      [](PlanRequest &r) { r.biasBytes = 2; },
      [](PlanRequest &r) { r.relativeValues = 1; },
      [](PlanRequest &r) { r.maskLoadsByKey = true; },
      [](PlanRequest &r) { r.maskAluPerElement = 3; },
      [](PlanRequest &r) { r.mask = MaskShape::causal(); },
      [](PlanRequest &r) { r.mask = MaskShape::band(128, 0); },
      [](PlanRequest &r) { r.mask = MaskShape::band(128, 0, 5); },
      [](PlanRequest &r) { r.mask = MaskShape::partly(0.5); },
      [](PlanRequest &r) {
        r.mask = MaskShape::byRows({{.queries = 16, .keys = 16, .rows = {{{0, 0, 4, 4}}}}}, false);
      },
      [](PlanRequest &r) { r.patternRows = 128; },
      [](PlanRequest &r) { r.patternColumns = 128; }};
  std::vector<std::string> texts = {planFeatures(plain)};
  for (auto change : changes) {
    PlanRequest changed = plain;
    change(changed);
    CHECK(std::ranges::find(texts, planFeatures(changed)) == texts.end());
    texts.push_back(planFeatures(changed));
  }
}

TEST_CASE("for these sizes alone the ranking is by their time") {
  PlanRequest request = hopper(64, MaskShape::causal());
  request.batch = 1, request.heads = request.headsKv = 8, request.queries = request.keys = 1024;
  Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
  REQUIRE(ranked);
  for (const RankedPlan &plan : *ranked)
    if (plan.accepted())
      CHECK(plan.cost.mixSeconds == plan.cost.totalSeconds);
  // 128 tiles of 64 rows fill the multiprocessors, 48 of 192 do not.
  CHECK(ranked->front().plan.tileQ == 64);
  request.setReferenceSizes();
  CHECK(choosePlan(request)->plan.tileQ > 64);
}

TEST_CASE("plans of a backward pass are ranked, and its features are those of no forward pass") {
  BackwardRequest request{.plan = hopper(64, MaskShape::causal()), .score = {}, .withSavedScore = {}};
  const Expected<std::vector<BackwardPlans>> plans = backwardPlans(request.plan);
  REQUIRE(plans);
  const std::vector<PredictedPlan> ranked = rankBackward(request, *plans);
  REQUIRE(ranked.size() == plans->size());
  CHECK(std::get<BackwardPlans>(ranked.front().plan) == plans->front());
  for (const PredictedPlan &plan : ranked) {
    CHECK(plan.seconds == backwardCost(request, std::get<BackwardPlans>(plan.plan)).seconds());
    CHECK(plan.seconds * 1.25 > ranked.front().seconds);
  }
  CHECK(ranked.back().seconds > 1.25 * ranked.front().seconds);
  // On the CPU the order is the model's.
  BackwardRequest onCpu = request;
  onCpu.plan.arch = "cpu";
  const std::vector<BackwardPlans> ofCpu = *backwardPlans(onCpu.plan);
  const std::vector<PredictedPlan> unranked = rankBackward(onCpu, ofCpu);
  for (size_t i = 0; i < ofCpu.size(); ++i)
    CHECK(unranked[i].plan == PassPlan(ofCpu[i]));

  const std::string features = planFeatures(request);
  CHECK(features.starts_with("backward "));
  CHECK(features.ends_with(planFeatures(request.plan)));
  auto changes = [&](auto change) {
    BackwardRequest other = request;
    change(other);
    return planFeatures(other) != features;
  };
  CHECK(changes([](BackwardRequest &r) { r.plan.deterministic = true; }));
  CHECK(changes([](BackwardRequest &r) { r.plan.denseGradients = true; }));
  CHECK(changes([](BackwardRequest &r) { r.plan.sumsByHead = true; }));
  CHECK(changes([](BackwardRequest &r) { r.plan.queryLengths = true; }));
  CHECK(changes([](BackwardRequest &r) { r.saved.dropout = true; }));
  CHECK(changes([](BackwardRequest &r) { r.score.alu = 3; }));
  CHECK_FALSE(changes([](BackwardRequest &r) { r.plan.queries = 128; }));
}
