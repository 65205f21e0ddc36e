//===- BackwardPlanTest.cpp - Tiles of the backward pass's loops ------------===//

#include "passes/analysis/cost/BackwardPlan.h"
#include "arch/ArchInfo.h"
#include "tests/cost/Layout.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace attune;

static PlanRequest makeRequest(const std::string &arch, int headDim, int headDimV, int elementBytes = 2) {
  PlanRequest request;
  request.arch = arch;
  request.headDim = headDim;
  request.headDimV = headDimV;
  request.elementBytes = elementBytes;
  return request;
}

static std::string textOf(const PlanRequest &request) {
  Expected<BackwardPlans> plans = chooseBackwardPlans(request);
  if (!plans)
    return plans.error().message;
  auto sizes = [](const Plan &plan) {
    return fmt::format("{} x {}, {} warps, {} stages", plan.tileQ, plan.tileK, plan.warps, plan.stages);
  };
  return sizes(plans->keys) + "; " + sizes(plans->queries);
}

/// Bytes of the tiles that a loop holds and streams, and of those of its kernel of rows.
static int64_t tileBytes(const PlanRequest &request, const Plan &plan, bool ofKeys) {
  const int64_t own = ofKeys ? plan.tileK : plan.tileQ, looped = ofKeys ? plan.tileQ : plan.tileK;
  const int64_t d = pad16(request.headDim), dv = pad16(request.headDimV);
  const int64_t held = !ofKeys && request.denseGradients ? plan.stages * own : own;
  const int64_t loop = (held + plan.stages * looped) * (d + dv) * request.elementBytes;
  return ofKeys ? loop : std::max(loop, 2 * own * dv * request.elementBytes);
}

TEST_CASE("warps have 32 rows where a loop's accumulators leave the registers", "[backward-plan]") {
  CHECK(textOf(makeRequest("sm_90", 32, 32)) == "64 x 64, 2 warps, 2 stages; 128 x 64, 4 warps, 2 stages");
  CHECK(textOf(makeRequest("sm_90", 64, 64)) == "32 x 64, 2 warps, 2 stages; 128 x 64, 4 warps, 2 stages");
  CHECK(textOf(makeRequest("sm_90", 128, 128)) == "64 x 64, 4 warps, 2 stages; 128 x 32, 4 warps, 2 stages");
  CHECK(textOf(makeRequest("sm_90", 192, 192)) == "32 x 64, 4 warps, 2 stages; 64 x 64, 4 warps, 1 stages");
  CHECK(textOf(makeRequest("sm_90", 256, 256)) == "32 x 128, 8 warps, 2 stages; 64 x 32, 4 warps, 1 stages");
  // Fragments of float32 take more.
  CHECK(textOf(makeRequest("sm_90", 64, 64, 4)) == "64 x 64, 4 warps, 2 stages; 64 x 64, 4 warps, 2 stages");
}

TEST_CASE("what elements give captured tensors takes registers of the loop over keys", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90", 64, 64);
  request.elementGradients = true;
  CHECK(textOf(request) == "32 x 64, 2 warps, 2 stages; 128 x 32, 4 warps, 2 stages");
  request.elementGradients = false;
  request.denseGradients = true;
  CHECK(textOf(request) == "32 x 64, 2 warps, 2 stages; 128 x 64, 4 warps, 2 stages");
}

TEST_CASE("a pattern's blocks bound the queries of a tile", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90", 64, 64);
  request.patternRows = request.patternColumns = 64;
  CHECK(textOf(request) == "32 x 64, 2 warps, 2 stages; 64 x 64, 2 warps, 2 stages");
  request.patternRows = 128;
  CHECK(textOf(request) == "32 x 64, 2 warps, 2 stages; 128 x 64, 4 warps, 2 stages");
}

TEST_CASE("what is fixed holds for both loops, or for each its own", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90", 64, 64);
  request.fixed.tileQ = 64;
  request.fixed.tileK = 64;
  request.fixed.warps = 4;
  CHECK(textOf(request) == "64 x 64, 4 warps, 2 stages; 64 x 64, 4 warps, 2 stages");
  PlanChoice ofQueries;
  ofQueries.tileQ = 128;
  Expected<BackwardPlans> plans = chooseBackwardPlans(request, ofQueries);
  REQUIRE(plans);
  CHECK(plans->keys.tileQ == 64);
  CHECK(plans->queries.tileQ == 128);
  CHECK(plans->text() == fmt::format("dK, dV {}; dQ {}", plans->keys.text(), plans->queries.text()));
  ofQueries.overlap = true;
  plans = chooseBackwardPlans(request, ofQueries);
  REQUIRE(!plans);
  CHECK(plans.error().message == "overlap true is no choice of the backward pass; leave it out");
}

TEST_CASE("every plan fits the budget, or the error lists the tiles", "[backward-plan]") {
  for (const char *arch : {"sm_80", "sm_86", "sm_90", "sm_120"}) {
    const int64_t limit = int64_t((*archInfo(arch))->sharedBytesPerBlock);
    for (int headDim : {8, 64, 72, 128, 256, 512})
      for (int headDimV : {8, 64, 128, 512})
        for (int bytes : {2, 4})
          for (int64_t budget : {int64_t(0), int64_t(48) << 10})
            for (bool dense : {false, true}) {
              PlanRequest request = makeRequest(arch, headDim, headDimV, bytes);
              request.sramBudget = budget;
              request.denseGradients = dense;
              INFO(fmt::format("{} D {} x {}, {} bytes, budget {}", arch, headDim, headDimV, bytes, budget));
              Expected<BackwardPlans> plans = chooseBackwardPlans(request);
              if (!plans) {
                CHECK(plans.error().message.starts_with("the backward pass in tiles of 16 x 16 needs "));
                continue;
              }
              const int64_t most = budget ? budget : limit;
              CHECK(tileBytes(request, plans->keys, true) <= most);
              CHECK(tileBytes(request, plans->queries, false) <= most);
            }
  }
}

TEST_CASE("all plans fit, each once, and those of deterministic gradients add nothing to memory", "[backward-plan]") {
  for (const char *arch : {"sm_80", "sm_90a", "cpu"})
    for (int headDim : {64, 128, 256})
      for (bool deterministic : {false, true}) {
        PlanRequest request = makeRequest(arch, headDim, headDim);
        request.deterministic = deterministic;
        request.elementGradients = headDim == 128;
        INFO(fmt::format("{} D {}", arch, headDim));
        const Expected<std::vector<BackwardPlans>> plans = backwardPlans(request);
        const Expected<BackwardPlans> chosen = chooseBackwardPlans(request);
        REQUIRE(plans);
        REQUIRE(chosen);
        CHECK(plans->size() > 10);
        CHECK(plans->front() == *chosen);
        bool adds = false;
        for (size_t i = 0; i < plans->size(); ++i) {
          const BackwardPlans &plan = (*plans)[i];
          for (size_t j = 0; j < i; ++j)
            REQUIRE_FALSE((*plans)[j] == plan);
          adds |= plan.accumulatesDq;
          CHECK_FALSE((plan.separateDv && (plan.accumulatesDq || !plan.keys.producerWarps)));
          CHECK_FALSE((deterministic && plan.accumulatesDq));
          if (!plan.keys.producerWarps)
            CHECK(tileBytes(request, plan.keys, true) <= int64_t((*archInfo(arch))->sharedBytesPerBlock));
        }
        CHECK(adds == (std::string_view(arch) == "sm_90a" && !deterministic && headDim != 256));
      }
  // A fixed field holds for all plans.
  PlanRequest request = makeRequest("sm_90a", 64, 64);
  request.fixed.warps = 4;
  for (const BackwardPlans &plans : *backwardPlans(request))
    CHECK(std::pair(plans.keys.warps, plans.queries.warps) == std::pair(4, 4));
}

TEST_CASE("with warp-level products dQ is added up in memory where elements are dear", "[backward-plan]") {
  auto adds = [](const PlanRequest &request) {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    CHECK(plans->keys.producerWarps == 0);
    if (plans->keys != plans->queries)
      CHECK((plans->text().find("dQ") == std::string::npos) == plans->accumulatesDq);
    return plans->accumulatesDq;
  };
  PlanRequest plain = makeRequest("sm_90", 64, 64), dropout = plain;
  CHECK_FALSE(adds(plain));
  dropout.dropout = true;
  CHECK(adds(dropout));
  // The tiles stay; so do those of dQ, by which rows go.
  CHECK(textOf(dropout) == textOf(plain));
  auto addsWith = [&](auto change) {
    PlanRequest request = dropout;
    change(request);
    return adds(request);
  };
  CHECK(addsWith([](PlanRequest &r) { r.arch = "sm_120"; }));
  CHECK(addsWith([](PlanRequest &r) { r.headDim = 40, r.headDimV = 48; }));
  CHECK(addsWith([](PlanRequest &r) { r.dropout = false, r.specialPerElement = 2; }));
  CHECK(addsWith([](PlanRequest &r) { r.sumsByHead = true; }));
  // No instruction adds several floats; the order is fixed; warps of 16 rows; a loop over keys is there in any case.
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.arch = "sm_80"; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.arch = "sm_89"; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.deterministic = true; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.headDim = r.headDimV = 80; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.headDimV = 128; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.elementBytes = 4; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.elementGradients = true; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.denseGradients = true; }));
  CHECK_FALSE(addsWith([](PlanRequest &r) { r.fixed.warps = 4; }));
  // A budget without room for dS.
  const int64_t tiles = tileBytes(dropout, chooseBackwardPlans(dropout)->keys, true);
  CHECK_FALSE(addsWith([&](PlanRequest &r) { r.sramBudget = tiles + 32 * 64 * 2; }));
}

TEST_CASE("beside warpgroup-level products loops over keys have the plan of warp-level ones", "[backward-plan]") {
  Expected<BackwardPlans> plans = chooseBackwardPlans(makeRequest("sm_90a", 64, 64));
  REQUIRE(plans);
  CHECK(plans->keys.producerWarps == 4);
  CHECK(plans->queries.producerWarps == 0);
  CHECK(plans->queries.tileQ == 128);
  CHECK(plans->text() == plans->keys.text());
}

TEST_CASE("beside warpgroup-level products what captured tensors are given has them, too", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90a", 64, 64);
  request.elementGradients = true;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 128 x 128, 8 warps, 2 stages");
  Expected<BackwardPlans> plans = chooseBackwardPlans(request);
  REQUIRE(plans);
  CHECK(plans->queries.producerWarps == 4);
  // A dense tensor's elements take registers beside S, dP and their sum.
  request.denseGradients = true;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 64 x 64, 4 warps, 2 stages");
  // Those of a bias are as wide as they are; where the score's gradient reads the score, that is kept beside them.
  request.elementLoads = request.biases = 1;
  request.biasBytes = 2;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 128 x 128, 8 warps, 2 stages");
  request.gradientReadsScore = true;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 128 x 64, 8 warps, 2 stages");
  request.gradientReadsScore = false;
  request.biasBytes = 4;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 128 x 64, 8 warps, 2 stages");
  // Atomic additions have more threads in flight in smaller blocks.
  request.scatteredGradients = true;
  plans = chooseBackwardPlans(request);
  REQUIRE(plans);
  CHECK(plans->queries.producerWarps == 0);
  request.scatteredGradients = false;
  // Blocks of 64 rows see other tiles.
  request.patternRows = request.patternColumns = 64;
  plans = chooseBackwardPlans(request);
  REQUIRE(plans);
  CHECK(plans->queries.producerWarps == 0);
}

TEST_CASE("TMA brings dense biases where shared memory has room for them", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90a", 64, 64);
  request.elementLoads = request.biases = 1;
  request.biasBytes = 2;
  auto stages = [&] {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    CHECK(plans->keys.producerWarps == 4);
    return std::pair(plans->keys.stageBiases, plans->queries.stageBiases);
  };
  // All that a block has, but for 512 bytes.
  CHECK(stages() == std::pair(true, false));
  request.elementGradients = request.denseGradients = true;
  CHECK(stages() == std::pair(true, true));
  request.sramBudget = 200 << 10;
  CHECK(stages() == std::pair(false, true));
  request.sramBudget = 0;
  request.biasBytes = 4;
  CHECK(stages() == std::pair(false, true));
  request.biases = 0;
  CHECK(stages() == std::pair(false, false));
}

TEST_CASE("head dims whose columns of dQ are no whole panels for each warpgroup are padded", "[backward-plan]") {
  for (int headDim : {72, 80, 96, 104, 120, 128})
    CHECK(textOf(makeRequest("sm_90a", headDim, headDim)).starts_with("64 x 128, 8 warps, 2 stages; "));
  const LoopColumns shared = columnsOfQueryLoop(72, 40, 16, 2), whole = columnsOfQueryLoop(72, 40, 16, 1);
  CHECK(shared.d == 128);
  CHECK(shared.dv == 48);
  CHECK(whole.d == 80);
  CHECK(whole.dv == 48);
}

TEST_CASE("where five products do not fit or add in any order, warpgroups compute seven or eight", "[backward-plan]") {
  auto choose = [](const PlanRequest &request) {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    return *plans;
  };
  PlanRequest request = makeRequest("sm_90a", 64, 64);
  CHECK(choose(request).accumulatesDq);
  request.deterministic = true;
  CHECK(textOf(request) == "128 x 128, 8 warps, 2 stages; 128 x 64, 8 warps, 3 stages");
  CHECK_FALSE(choose(request).separateDv);
  CHECK(choose(request).queries.producerWarps == 4);
  request.headDim = request.headDimV = 128;
  CHECK(textOf(request) == "64 x 128, 8 warps, 3 stages; 128 x 64, 8 warps, 3 stages");
  // A thread has no registers for dK and dV. Where the stages of all tiles do not fit, V and dO have one less.
  struct Expected {
    int headDim, headDimV, dpStagesOfKeys, dpStagesOfQueries;
    const char *text;
  };
  const Expected all[] = {{136, 136, 1, 0, "128 x 128, 8 warps, 2 stages; 128 x 64, 8 warps, 3 stages"},
                          {192, 128, 0, 0, "64 x 128, 8 warps, 3 stages; 128 x 64, 8 warps, 3 stages"},
                          {192, 192, 2, 2, "64 x 128, 8 warps, 3 stages; 128 x 64, 8 warps, 3 stages"},
                          {256, 256, 1, 1, "64 x 128, 8 warps, 2 stages; 128 x 64, 8 warps, 2 stages"}};
  for (bool deterministic : {false, true})
    for (const auto &[headDim, headDimV, dpStagesOfKeys, dpStagesOfQueries, text] : all) {
      request = makeRequest("sm_90a", headDim, headDimV);
      request.deterministic = deterministic;
      INFO(fmt::format("D {} x {}", headDim, headDimV));
      const BackwardPlans plans = choose(request);
      CHECK(textOf(request) == text);
      CHECK((plans.separateDv && !plans.accumulatesDq));
      CHECK(plans.keys.dpStages == dpStagesOfKeys);
      CHECK(plans.queries.dpStages == dpStagesOfQueries);
    }
  // A loop over keys that also sums gradients of captured tensors; a pattern whose blocks see other keys; a sum per key and
  // head; more columns than registers.
  request.elementGradients = true;
  CHECK(std::pair(choose(request).keys.producerWarps, choose(request).queries.producerWarps) == std::pair(4, 0));
  request.elementGradients = false;
  request.patternRows = request.patternColumns = 64;
  CHECK(std::pair(choose(request).keys.producerWarps, choose(request).queries.producerWarps) == std::pair(4, 0));
  request.patternRows = request.patternColumns = 0;
  request.sumsByHead = true;
  CHECK(choose(request).keys.producerWarps == 0);
  for (auto [headDim, headDimV] : {std::pair(264, 264), {320, 320}, {64, 264}, {512, 512}})
    CHECK(choose(makeRequest("sm_90a", headDim, headDimV)).keys.producerWarps == 0);
  CHECK(choose(makeRequest("sm_90a", 256, 256, 4)).keys.producerWarps == 0);
  CHECK(choose(makeRequest("sm_90", 256, 256)).keys.producerWarps == 0);
}

TEST_CASE("blocks of the loop over queries are persistent where K and V have room for two stages", "[backward-plan]") {
  auto keysOf = [](const PlanRequest &request) {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    CHECK(plans->accumulatesDq);
    CHECK_FALSE(plans->queries.persistent);
    return plans->keys;
  };
  PlanRequest request = makeRequest("sm_90a", 64, 64);
  CHECK((keysOf(request).persistent && keysOf(request).queryStages == 2 && keysOf(request).overlap));
  CHECK(keysOf(makeRequest("sm_90a", 32, 32)).persistent);
  CHECK_FALSE(keysOf(makeRequest("sm_90a", 96, 96)).persistent);
  CHECK_FALSE(keysOf(makeRequest("sm_90a", 128, 128)).persistent);
  // Each form may be asked for, where there is one.
  request.fixed = {.persistent = false};
  CHECK((!keysOf(request).persistent && keysOf(request).queryStages == 1 && keysOf(request).overlap));
  request.fixed = {.queryStages = 1, .overlap = false};
  CHECK((!keysOf(request).persistent && !keysOf(request).overlap));
  request.fixed = {.persistent = true, .queryStages = 2, .overlap = true};
  CHECK(keysOf(request).persistent);
  for (PlanChoice none : {PlanChoice{.persistent = true, .queryStages = 1}, {.persistent = true, .overlap = false}}) {
    request.fixed = none;
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(!plans);
    CHECK(plans.error().message == "no plan of the loop over queries has these choices of persistent, query-stages and "
                                   "overlap together; leave one out");
  }
  request = makeRequest("sm_90a", 128, 128);
  request.fixed = {.persistent = true};
  CHECK(!chooseBackwardPlans(request));
  // Vectors that the mask reads take the last of shared memory; what it reads for a head takes a register.
  request = makeRequest("sm_90a", 64, 64);
  request.stagedColumns = 1;
  CHECK_FALSE(keysOf(request).persistent);
  request = makeRequest("sm_90a", 64, 64);
  request.uniformValues = 1;
  CHECK_FALSE(keysOf(request).persistent);
  request.uniformValues = 0;
  request.elementLoads = 1;
  CHECK_FALSE(keysOf(request).persistent);
}

TEST_CASE("dQ is deferred to the next tile in tiles of 128 x 128 whose score has no arithmetic of its own",
          "[backward-plan]") {
  auto overlaps = [](const PlanRequest &request) {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    CHECK_FALSE(plans->queries.overlap);
    return plans->keys.overlap;
  };
  const PlanRequest plain = makeRequest("sm_90a", 64, 64);
  CHECK(overlaps(plain));
  CHECK_FALSE(overlaps(makeRequest("sm_90a", 96, 96)));
  CHECK_FALSE(overlaps(makeRequest("sm_90a", 128, 128)));
  CHECK_FALSE(overlaps(makeRequest("sm_90", 64, 64)));
  PlanRequest request = plain;
  request.aluPerElement = 1;
  CHECK_FALSE(overlaps(request));
  request = plain;
  request.specialPerElement = 1;
  CHECK_FALSE(overlaps(request));
  request = plain;
  request.dropout = true;
  CHECK_FALSE(overlaps(request));
  request = plain;
  request.elementGradients = request.denseGradients = true;
  CHECK_FALSE(overlaps(request));
  // Tuning measures both.
  Expected<std::vector<BackwardPlans>> plans = backwardPlans(plain);
  REQUIRE(plans);
  auto of = [](bool overlap) {
    return [overlap](const BackwardPlans &each) {
      return each.accumulatesDq && each.keys.tileQ == 128 && each.keys.overlap == overlap;
    };
  };
  CHECK(std::ranges::any_of(*plans, of(true)));
  CHECK(std::ranges::any_of(*plans, of(false)));
}

TEST_CASE("both loops of the backward pass start with the tiles that take longest", "[backward-plan]") {
  PlanRequest request = makeRequest("sm_90a", 256, 256);
  auto order = [&] {
    Expected<BackwardPlans> plans = chooseBackwardPlans(request);
    REQUIRE(plans);
    return std::pair(plans->keys.longestFirst, plans->queries.longestFirst);
  };
  CHECK(order() == std::pair(false, false));
  request.mask = MaskShape::causal();
  CHECK(order() == std::pair(true, true));
  request.arch = "sm_80";
  CHECK(order() == std::pair(true, true));
  request.mask = MaskShape::band(256, 0); // a window
  CHECK(order() == std::pair(false, false));
  request.mask = MaskShape::causal();
  request.fixed.longestFirst = false;
  CHECK(order() == std::pair(false, false));
  // All queries see the last of 8192 keys, half of them the first.
  MaskRows rows{.queries = 4096, .keys = 8192, .rowsEach = 2048};
  rows.rows = {{{4096, 4096, 8192, 8192}}, {{0, 0, 8192, 8192}}};
  request.fixed = {};
  request.mask = MaskShape::byRows({rows}, false);
  CHECK(order() == std::pair(false, true));
}
