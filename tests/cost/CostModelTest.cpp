//===- CostModelTest.cpp - Limits, bytes and ranking of plans ---------------===//

#include "passes/analysis/cost/CostModel.h"
#include "arch/ArchInfo.h"
#include "ir/sched/SwizzledLayout.h"
#include "tests/cost/Layout.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <random>

using namespace attune;

static PlanRequest makeRequest(int headDim, MaskShape mask = MaskShape::full(), bool dropout = false) {
  PlanRequest request;
  request.headDim = request.headDimV = headDim;
  request.mask = mask;
  request.dropout = dropout;
  request.setReferenceSizes();
  return request;
}

static RankedPlan best(const PlanRequest &request) {
  Expected<RankedPlan> plan = choosePlan(request);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  return *plan;
}

static std::string errorOf(const PlanRequest &request) {
  Expected<std::vector<RankedPlan>> plans = rankPlans(request);
  return plans ? "no error" : plans.error().message;
}

/// A plan for warpgroups with every field fixed that decides about tiles.
static PlanCost costOfTiles(PlanRequest request, int tileQ, int tileK) {
  request.arch = "sm_90a";
  request.theseSizes = true;
  request.fixed.tileQ = tileQ;
  request.fixed.tileK = tileK;
  return best(request).cost;
}

TEST_CASE("bytes are those that counters of an H200 have") {
  // l1tex__m_xbar2l1tex_read_bytes and dram__bytes_read by ncu, bf16, D 128 but for the third.
  struct Counted {
    int64_t batch, heads, headsKv, length;
    int headDim, tileQ, tileK;
    MaskShape mask;
    int biasBytes;
    double fromL2, fromHbm;
  };
  const Counted counted[] = {
      {4, 16, 16, 4096, 128, 128, 128, MaskShape::full(), 0, 4.3621e9, 2.0140e8},
      {4, 16, 16, 4096, 128, 128, 128, MaskShape::causal(), 0, 2.2817e9, 2.0525e8},
      {4, 32, 32, 4096, 64, 192, 128, MaskShape::full(), 0, 3.0220e9, 2.0138e8},
      {4, 16, 16, 4096, 128, 128, 128, MaskShape::band(1024, 0), 0, 1.1241e9, 2.0260e8},
      {2, 32, 8, 4096, 128, 128, 128, MaskShape::causal(), 0, 2.2817e9, 1.0134e8},
      {2, 16, 16, 2048, 128, 192, 64, MaskShape::full(), 4, 9.4005e8, 3.1883e8},
      {1, 2, 2, 65536, 128, 128, 128, MaskShape::full(), 0, 3.4393e10, 3.3160e8},
  };
  for (const Counted &of : counted) {
    PlanRequest request = makeRequest(of.headDim, of.mask);
    request.batch = of.batch, request.heads = of.heads, request.headsKv = of.headsKv;
    request.queries = request.keys = of.length;
    request.biases = request.elementLoads = of.biasBytes > 0;
    request.biasBytes = of.biasBytes;
    const PlanCost cost = costOfTiles(request, of.tileQ, of.tileK);
    INFO(of.batch << " " << of.heads << " " << of.length << " " << of.headDim);
    CHECK(cost.readBytes == Approx(of.fromL2).epsilon(0.002));
    CHECK(cost.hbmReadBytes == Approx(of.fromHbm).epsilon(0.1));
    CHECK(cost.writtenBytes == double(of.batch * of.heads * of.length * (2 * of.headDim + 4)));
    CHECK(cost.trafficBytes == cost.readBytes + cost.writtenBytes);
    CHECK(cost.hbmBytes == cost.hbmReadBytes + cost.writtenBytes);
  }
}

TEST_CASE("keys of claimed tiles leave level 2 little by little") {
  // Four documents of 1024, B 2, D 64, tiles of 192 x 128 claimed; dram__bytes_read by ncu on an H100.
  TileMap map{
      .tileQ = 64, .tileK = 128, .queries = 4096, .keys = 4096, .batches = 1, .heads = 1, .rows = 64, .columns = 32};
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; ++column)
      map.tiles.push_back(row / 16 == column / 8 ? TileClass::Full : TileClass::Empty);
  struct Counted {
    int64_t heads;
    double fromHbm;
  };
  for (const Counted &of : {Counted{8, 2.525e7}, {16, 5.570e7}, {24, 1.0237e8}, {32, 1.6195e8}, {48, 2.0355e8}}) {
    PlanRequest request = makeRequest(64, MaskShape::partly(0.25));
    request.batch = 2, request.heads = request.headsKv = of.heads;
    request.queries = request.keys = 4096;
    request.maskLoadsByKey = true;
    request.fixed.persistent = true;
    request.tiles = std::make_shared<const TileMap>(map);
    INFO(of.heads << " heads");
    CHECK(costOfTiles(request, 192, 128).hbmReadBytes == Approx(of.fromHbm).epsilon(0.1));
  }
}

TEST_CASE("masks known by their rows are counted tile by tile") {
  // Chunks of 100 keys, of which each query sees its own; and none for the first queries.
  const int64_t queries = 1000, keys = 900;
  auto first = [](int64_t q) { return q < 32 ? 0 : q / 100 * 100; };
  auto last = [&](int64_t q) { return q < 32 ? 0 : std::min(keys, q / 100 * 100 + 100); };
  MaskRows rows = {.queries = queries, .keys = keys};
  for (int64_t q = 0; q < queries; q += 16) {
    MaskRows::Keys of = {keys, 0, keys, 0};
    for (int64_t each = q; each < std::min(q + 16, queries); ++each) {
      if (first(each) < last(each)) {
        of.begin = std::min(of.begin, first(each));
        of.end = std::max(of.end, last(each));
      }
      of.fullBegin = std::max(of.fullBegin, first(each));
      of.fullEnd = std::min(of.fullEnd, last(each));
    }
    rows.rows.push_back({of});
  }
  PlanRequest request = makeRequest(64, MaskShape::byRows({rows}, false));
  request.batch = 1, request.heads = request.headsKv = 3;
  request.queries = queries, request.keys = keys;
  for (auto [tileQ, tileK] : {std::pair{128, 128}, {192, 64}, {64, 96}, {128, 48}}) {
    const PlanCost cost = costOfTiles(request, tileQ, tileK);
    int64_t visited = 0, partial = 0;
    for (int64_t q0 = 0; q0 < queries; q0 += tileQ) {
      int64_t begin = keys, end = 0;
      for (int64_t q = q0; q < std::min<int64_t>(q0 + tileQ, queries); ++q)
        if (first(q) < last(q))
          begin = std::min(begin, first(q)), end = std::max(end, last(q));
      for (int64_t k0 = 0; k0 < keys; k0 += tileK) {
        if (k0 >= end || k0 + tileK <= begin)
          continue;
        ++visited;
        bool full = k0 + tileK <= keys;
        for (int64_t q = q0; q < std::min<int64_t>(q0 + tileQ, queries); ++q)
          full = full && first(q) <= k0 && k0 + tileK <= last(q);
        partial += !full;
      }
    }
    INFO(tileQ << " x " << tileK);
    CHECK(cost.visitedTiles == double(3 * visited));
    CHECK(cost.partialTiles == double(3 * partial));
  }
  // Lengths that nobody asked the mask for have its share of tiles.
  const double known = costOfTiles(request, 128, 128).visitedTiles;
  request.queries *= 2, request.keys *= 2;
  CHECK(costOfTiles(request, 128, 128).visitedTiles == Approx(4 * known).epsilon(0.15));
}

TEST_CASE("panels for TMA are as wide as their waste allows") {
  // Columns of bf16, the panel, and the bytes of a row: the table of SwizzledLayout.h.
  const int table[][3] = {{16, 32, 32},   {32, 64, 64},   {48, 128, 128},  {64, 128, 128},
                          {80, 64, 192},  {96, 64, 192},  {112, 128, 256}, {128, 128, 256},
                          {144, 64, 320}, {160, 64, 320}, {176, 128, 384}, {192, 128, 384},
                          {208, 64, 448}, {224, 64, 448}, {240, 128, 512}, {256, 128, 512}};
  for (auto [columns, panel, bytes] : table) {
    CHECK(sched::panelForBoxes(2 * columns) == panel);
    CHECK(sched::paddedToPanels(2 * columns, panel) == bytes);
  }
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

namespace {
/// A walk over the kernel's loops that counts every byte it moves, element by element where the mask matters.
struct Walk {
  int64_t bytes = 0, visited = 0, partial = 0;
};
} // namespace

static Walk walk(const PlanRequest &r, const Plan &plan, const std::function<bool(int64_t, int64_t)> &visible) {
  Walk result;
  for (int64_t head = 0; head < r.batch * r.heads; ++head)
    for (int64_t q0 = 0; q0 < r.queries; q0 += plan.tileQ) {
      const int64_t q1 = std::min<int64_t>(q0 + plan.tileQ, r.queries);
      result.bytes += (q1 - q0) * (r.headDim * r.elementBytes + r.headDimV * r.elementBytes + 4);
      for (int64_t k0 = 0; k0 < r.keys; k0 += plan.tileK) {
        bool any = false, all = k0 + plan.tileK <= r.keys;
        const int64_t k1 = std::min<int64_t>(k0 + plan.tileK, r.keys);
        for (int64_t q = q0; q < q1; ++q)
          for (int64_t k = k0; k < k1; ++k) {
            any |= visible(q, k);
            all &= visible(q, k);
          }
        if (!any)
          continue;
        ++result.visited;
        result.partial += !all;
        result.bytes += (k1 - k0) * (r.headDim + r.headDimV) * r.elementBytes;
      }
    }
  return result;
}

TEST_CASE("traffic equals a walk over the tiles") {
  struct Case {
    MaskShape mask;
    std::function<bool(int64_t, int64_t)> visible;
  };
  const Case cases[] = {
      {MaskShape::full(), [](int64_t, int64_t) { return true; }},
      {MaskShape::causal(), [](int64_t q, int64_t k) { return q >= k; }},
      {MaskShape::band(40, 0), [](int64_t q, int64_t k) { return q >= k && q - k <= 40; }},
      {MaskShape::band(7, 25), [](int64_t q, int64_t k) { return k - q >= -7 && k - q <= 25; }},
      {MaskShape::band(MaskShape::unlimited, 0, 77), [](int64_t q, int64_t k) { return q >= k || k < 77; }},
      {MaskShape::band(20, 10, 33), [](int64_t q, int64_t k) { return (k - q >= -20 && k - q <= 10) || k < 33; }},
      {MaskShape::band(MaskShape::unlimited, -30), [](int64_t q, int64_t k) { return k - q <= -30; }},
      {MaskShape::band(-MaskShape::unlimited, -MaskShape::unlimited, 50), [](int64_t, int64_t k) { return k < 50; }},
  };
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1},   {64, 128},  {239, 1},  {113, 203},
                                               {3, 300}, {256, 256}, {300, 130}};
  for (const Case &c : cases)
    for (auto [queries, keys] : sizes) {
      PlanRequest request = makeRequest(40, c.mask);
      request.headDimV = 24;
      request.batch = 2;
      request.heads = 3;
      request.headsKv = 1;
      request.queries = queries;
      request.keys = keys;
      Expected<std::vector<RankedPlan>> plans = rankPlans(request);
      REQUIRE(plans);
      std::map<std::pair<int, int>, Walk> walks; // bytes depend on the tile alone
      for (const RankedPlan &ranked : *plans) {
        if (!ranked.accepted())
          continue;
        auto [entry, isNew] = walks.try_emplace({ranked.plan.tileQ, ranked.plan.tileK});
        if (isNew)
          entry->second = walk(request, ranked.plan, c.visible);
        INFO(ranked.plan.text() << ", " << queries << " x " << keys << ", band " << c.mask.left << " " << c.mask.right
                                << " " << c.mask.prefix);
        CHECK(ranked.cost.trafficBytes == double(entry->second.bytes));
        CHECK(ranked.cost.visitedTiles == double(entry->second.visited));
        // A tile that only band and prefix together make full is partial to the model.
        CHECK(ranked.cost.partialTiles >= double(entry->second.partial));
        if (c.mask.prefix == 0)
          CHECK(ranked.cost.partialTiles == double(entry->second.partial));
      }
    }
}

/// Tiles of one head, row of tiles by row of tiles, each tile judged by its corners.
static Walk walkTiles(const PlanRequest &r, const Plan &plan) {
  Walk result;
  const MaskShape &m = r.mask;
  for (int64_t q0 = 0; q0 < r.queries; q0 += plan.tileQ) {
    const int64_t q1 = std::min<int64_t>(q0 + plan.tileQ, r.queries) - 1;
    for (int64_t k0 = 0; k0 < r.keys; k0 += plan.tileK) {
      const int64_t k1 = std::min<int64_t>(k0 + plan.tileK, r.keys) - 1;
      const bool any = m.left + m.right >= 0 && k1 - q0 >= -m.left && k0 - q1 <= m.right,
                 all = k0 - q1 >= -m.left && k1 - q0 <= m.right;
      if (!any && k0 >= m.prefix)
        continue;
      ++result.visited;
      result.partial += k0 + plan.tileK > r.keys || (!all && k0 + plan.tileK > m.prefix);
      result.bytes += (k1 - k0 + 1) * (r.headDim + r.headDimV) * r.elementBytes;
    }
  }
  result.bytes += r.queries * ((r.headDim + r.headDimV) * r.elementBytes + 4);
  return result;
}

TEST_CASE("tiles are counted in periods of rows as they are one by one") {
  std::mt19937 random(20);
  auto upTo = [&](int64_t most) { return int64_t(random() % uint64_t(most + 1)); };
  for (int i = 0; i < 60; ++i) {
    PlanRequest request = makeRequest(64);
    request.arch = i % 2 ? "sm_80" : "sm_90a";
    request.batch = request.heads = request.headsKv = 1;
    request.queries = 1 + upTo(6000);
    request.keys = i % 3 ? request.queries : 1 + upTo(9000);
    const int64_t far = MaskShape::unlimited, left = i % 5 ? upTo(request.keys) - 50 : far,
                  right = i % 7 ? upTo(600) - 100 : far;
    request.mask = MaskShape::band(left, right, i % 4 ? 0 : upTo(request.keys));
    Expected<std::vector<RankedPlan>> plans = rankPlans(request);
    REQUIRE(plans);
    std::map<std::pair<int, int>, Walk> walks;
    for (const RankedPlan &ranked : *plans) {
      if (!ranked.accepted())
        continue;
      auto [entry, isNew] = walks.try_emplace({ranked.plan.tileQ, ranked.plan.tileK});
      if (isNew)
        entry->second = walkTiles(request, ranked.plan);
      INFO(ranked.plan.text() << ", " << request.queries << " x " << request.keys << ", band " << left << " " << right
                              << " " << request.mask.prefix);
      CHECK(ranked.cost.visitedTiles == double(entry->second.visited));
      CHECK(ranked.cost.partialTiles == double(entry->second.partial));
      CHECK(ranked.cost.trafficBytes == double(entry->second.bytes));
    }
  }
}

TEST_CASE("counting tiles takes as long whatever the numbers of a mask and the lengths") {
  // Row by row each of these would be hundreds of millions of rows for every candidate.
  for (int64_t left : {int64_t(1'000'000'000), int64_t(1) << 39}) {
    PlanRequest request = makeRequest(128, MaskShape::band(left, 0));
    request.arch = "sm_90a";
    const RankedPlan causal = best(request);
    PlanRequest head = request;
    head.mask = MaskShape::causal();
    CHECK(causal.cost.visitedTiles == double(request.batch * request.heads * walkTiles(head, causal.plan).visited));
    request.mask = MaskShape::band(MaskShape::unlimited, left);
    CHECK(best(request).cost.partialTiles == 0);
  }
  PlanRequest request = makeRequest(128, MaskShape::causal());
  request.arch = "sm_90a";
  request.batch = request.heads = request.headsKv = 1;
  request.queries = request.keys = int64_t(1) << 40;
  const RankedPlan plan = best(request);
  const double S = double(request.queries), q = plan.plan.tileQ, k = plan.plan.tileK;
  CHECK(plan.cost.visitedTiles == Approx(S / q * S / k / 2).epsilon(1e-6));
  CHECK(plan.cost.partialTiles == Approx(S / q * (q + k) / k).epsilon(0.5));
}

TEST_CASE("standard attention moves S and P four times") {
  PlanRequest request = makeRequest(64);
  request.batch = 2;
  request.heads = 6;
  request.headsKv = 2;
  request.queries = 100;
  request.keys = 200;
  // Q and O, K and V of two heads, four passes over 100 x 200.
  const double expected = 2 * 6 * 100 * (64 + 64) * 2.0 + 2 * 2 * 200 * (64 + 64) * 2.0 + 2 * 6 * 4 * 100 * 200 * 2.0;
  CHECK(best(request).cost.standardAttentionBytes == expected);
}

TEST_CASE("attention moves fewer bytes than standard attention, and fewer with more shared memory") {
  PlanRequest request = makeRequest(64);
  double previous = 1e30;
  for (int tileQ : {64, 128, 256}) {
    request.fixed.tileQ = tileQ;
    RankedPlan plan = best(request);
    // 8 bytes for each element of S and P against 4 D / tileQ for its share of K and V.
    CHECK(plan.cost.trafficBytes < 1.05 * plan.cost.standardAttentionBytes * (4.0 * 64 / tileQ) / 8);
    CHECK(plan.cost.trafficBytes < previous);
    CHECK(plan.cost.hbmBytes <= plan.cost.trafficBytes);
    previous = plan.cost.trafficBytes;
  }
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

static void checkLimits(const PlanRequest &request, const RankedPlan &ranked) {
  const ArchInfo &arch = *findArch(request.arch);
  const Plan &plan = ranked.plan;
  const PlanCost &cost = ranked.cost;
  INFO(request.arch << " D " << request.headDim << " e " << request.elementBytes << ": " << plan.text());
  const int64_t budget = request.sramBudget ? request.sramBudget : int64_t(arch.sharedBytesPerBlock);
  int64_t bytes = 0;
  for (const SharedBuffer &buffer : cost.shared)
    bytes += buffer.bytes;
  REQUIRE(bytes == cost.sharedBytes);
  REQUIRE(bytes <= budget);
  REQUIRE(plan.blocksPerSm >= 1);
  REQUIRE(cost.blocksPerSm == plan.blocksPerSm);
  REQUIRE(plan.tileQ % 16 == 0);
  REQUIRE(plan.tileK % 16 == 0);
  REQUIRE(cost.totalSeconds > 0);
  REQUIRE(cost.trafficBytes > 0);
  if (arch.isCpu())
    return;
  if (plan.producerWarps) {
    REQUIRE((arch.hasProducers() && request.elementBytes == 2 && plan.producerWarps == 4));
    REQUIRE((plan.warps == 4 || plan.warps == 8 || plan.warps == 12 || plan.warps == 16));
    REQUIRE(plan.tileQ == 16 * plan.warps);
    REQUIRE(plan.tileK <= 256);
    REQUIRE(plan.blocksPerSm == 1);
    REQUIRE(cost.registers <= cost.registerLimit);
    REQUIRE(cost.registerLimit * plan.warps * 32 + 24 * plan.producerWarps * 32 <= 65536);
    REQUIRE(bytes <= int64_t(arch.sharedBytesPerBlock));
    // S, P and O alone.
    REQUIRE(cost.registers > plan.tileK * 3 / 4 + request.headDimV / 2);
    return;
  }
  REQUIRE((plan.warps == 4 || plan.warps == 8));
  REQUIRE((plan.dvWarps == 1 || plan.dvWarps == 2 || plan.dvWarps == 4));
  if (std::max(request.headDim, request.headDimV) <= 256 && !request.fixed.dvWarps)
    REQUIRE(plan.dvWarps == 1);
  REQUIRE((plan.rowTilesPerWarp() == 1 || plan.rowTilesPerWarp() == 2));
  REQUIRE(plan.rowTilesPerWarp() * 16 * (plan.warps / plan.dvWarps) == plan.tileQ);
  // Written out again from the layout, not from the model.
  const int64_t e = request.elementBytes, d = pad16(request.headDim);
  const int64_t share = pad16((request.headDimV + plan.dvWarps - 1) / plan.dvWarps), dv = share * plan.dvWarps;
  auto ring = [&](int64_t columns) { return (plan.stages * plan.tileK * columns * e + 1023) / 1024 * 1024; };
  REQUIRE(bytes == std::max(plan.tileQ * d, plan.tileQ * dv) * e + ring(d) + ring(dv));
  REQUIRE(plan.blocksPerSm * (bytes + int64_t(arch.sharedReservedPerBlock)) <= int64_t(arch.sharedBytesPerSM));
  REQUIRE(cost.registers <= 255);
  REQUIRE(cost.registers <= cost.registerLimit);
  REQUIRE(cost.registerLimit * plan.threads() * plan.blocksPerSm <= 65536);
  REQUIRE(plan.threads() * plan.blocksPerSm <= arch.maxThreadsPerSM);
  // S and the warp's columns of O alone.
  REQUIRE(cost.registers > plan.rowTilesPerWarp() * (plan.tileK + share) / 2);
}

TEST_CASE("every head dim has a plan within the limits, on every architecture") {
  for (const ArchInfo &arch : allArchs())
    for (int elementBytes : {2, 4})
      for (int headDim = 8; headDim <= 512; headDim += 8)
        for (bool dropout : {false, true}) {
          PlanRequest request = makeRequest(headDim, MaskShape::causal(), dropout);
          request.arch = arch.name;
          request.elementBytes = elementBytes;
          Expected<std::vector<RankedPlan>> plans = rankPlans(request);
          INFO(arch.name << " D " << headDim << " e " << elementBytes << " dropout " << dropout << ": "
                         << (plans ? "" : plans.error().message));
          REQUIRE(plans);
          bool rejected = false, spills = false;
          double previous = 0;
          for (const RankedPlan &ranked : *plans) {
            rejected |= !ranked.accepted();
            REQUIRE(rejected == !ranked.accepted()); // accepted ones come first
            if (rejected)
              continue;
            checkLimits(request, ranked);
            if (headDim <= spillFreeHeadDim(ranked.plan.producerWarps > 0) &&
                ranked.cost.spills != spills) { // those that spill come second
              REQUIRE(ranked.cost.spills);
              REQUIRE((previous > 0 || elementBytes == 4)); // and not alone
              spills = true;
              previous = 0;
            }
            REQUIRE(ranked.cost.mixSeconds >= previous);
            previous = ranked.cost.mixSeconds;
          }
        }
}

TEST_CASE("different head dims of K and V") {
  for (auto [d, dv] : {std::pair(64, 128), {128, 64}, {192, 128}, {40, 256}, {256, 8}}) {
    PlanRequest request = makeRequest(d);
    request.headDimV = dv;
    RankedPlan plan = best(request);
    checkLimits(request, plan);
    CHECK((plan.cost.shared.size() == 4) == (dv > d));
    if (dv > d)
      CHECK(plan.cost.shared.back().name == "O beyond Q");
  }
}

TEST_CASE("wide head dims have a plan, on every architecture") {
  for (const ArchInfo &arch : allArchs())
    for (int elementBytes : {2, 4})
      for (auto [d, dv] :
           {std::pair(512, 512), {320, 320}, {264, 264}, {512, 64}, {64, 512}, {192, 320}, {512, 8}, {8, 512}}) {
        PlanRequest request = makeRequest(d, MaskShape::causal(), true);
        request.headDimV = dv;
        request.arch = arch.name;
        request.elementBytes = elementBytes;
        RankedPlan plan = best(request);
        checkLimits(request, plan);
        if (!arch.isCpu() && dv == 512) // no warp has the registers for 16 rows of 512 columns
          CHECK(plan.plan.dvWarps > 1);
        if (elementBytes == 2 && dv <= 64)
          CHECK(plan.plan.dvWarps == 1);
      }
}

TEST_CASE("warps that split dv share rows, repeat S and read global memory once") {
  PlanRequest request = makeRequest(256);
  request.fixed = {64, 32, 4, 1, false};
  RankedPlan whole = best(request);
  CHECK(whole.plan.dvWarps == 1);
  request.fixed = {64, 32, 8, 1, false, 2};
  RankedPlan split = best(request);
  CHECK(split.plan.rowWarps() == 4);
  CHECK(split.plan.rowTilesPerWarp() == 1);
  CHECK(split.plan.text() == "64 x 32, 8 warps (2 split dv), 1 stage, q in shared memory, 1 block per SM");
  CHECK(split.cost.trafficBytes == whole.cost.trafficBytes);
  CHECK(split.cost.sharedBytes == whole.cost.sharedBytes);
  CHECK(split.cost.registers == whole.cost.registers - 64);            // 128 of 256 columns of 16 rows over 32 lanes
  CHECK(split.cost.mmaSeconds == Approx(1.5 * whole.cost.mmaSeconds)); // S twice, P V once
  CHECK(split.cost.specialSeconds == Approx(2 * whole.cost.specialSeconds));
}

TEST_CASE("budgets from too small to the limit") {
  for (const ArchInfo &arch : allArchs())
    for (int elementBytes : {2, 4})
      for (int headDim : {8, 64, 104, 128, 256}) {
        bool fitted = false, spilled = false;
        double previous = 1e30;
        for (int64_t budget = 1024; budget <= int64_t(arch.sharedBytesPerBlock); budget += 1024) {
          PlanRequest request = makeRequest(headDim);
          request.arch = arch.name;
          request.elementBytes = elementBytes;
          request.sramBudget = budget;
          Expected<RankedPlan> plan = choosePlan(request);
          if (!plan) {
            REQUIRE_FALSE(fitted); // more memory never loses a plan
            REQUIRE(plan.error().message.find("the smallest tile ") == 0);
            continue;
          }
          fitted = true;
          checkLimits(request, *plan);
          // Nor makes it slower, unless the one before is expected to spill, which its time does not count.
          REQUIRE((plan->cost.mixSeconds <= previous || spilled));
          previous = plan->cost.mixSeconds;
          spilled = !plan->demoted.empty();
        }
        REQUIRE(fitted);
      }
}

TEST_CASE("rejected candidates say why") {
  PlanRequest request = makeRequest(128);
  request.arch = "sm_86";
  Expected<std::vector<RankedPlan>> plans = rankPlans(request);
  REQUIRE(plans);
  bool shared = false, registers = false;
  for (const RankedPlan &ranked : *plans) {
    if (ranked.plan.tileQ == 256 && ranked.plan.warps == 8 && ranked.plan.tileK == 128 && ranked.plan.stages == 1 &&
        !ranked.plan.qRegisters) {
      CHECK(ranked.rejected == "131072 bytes of shared memory, above the budget of 101376");
      shared = true;
    }
    if (ranked.plan.tileQ == 128 && ranked.plan.warps == 4 && ranked.plan.tileK == 80 && ranked.plan.stages == 1 &&
        !ranked.plan.qRegisters) {
      CHECK(ranked.rejected == "about 256 registers per thread, above 255");
      registers = true;
    }
  }
  CHECK(shared);
  CHECK(registers);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_CASE("errors of budgets") {
  PlanRequest request = makeRequest(128);
  request.sramBudget = 16384;
  CHECK(errorOf(request) == "the smallest tile 64 x 16 needs 24576 bytes of shared memory (Q 16384, K 4096, V 4096), "
                            "above the budget of 16384 bytes; raise the budget or reduce the head dim");
  request.headDimV = 160;
  CHECK(errorOf(request) ==
        "the smallest tile 64 x 16 needs 29696 bytes of shared memory (Q 16384, K 4096, V 5120, O beyond Q 4096), "
        "above the budget of 16384 bytes; raise the budget or reduce the head dim");
  request = makeRequest(512);
  request.sramBudget = 32768;
  CHECK(errorOf(request) == "the smallest tile 16 x 16 needs 49152 bytes of shared memory (Q 16384, K 16384, V 16384), "
                            "above the budget of 32768 bytes; raise the budget or reduce the head dim");
  request.sramBudget = 0;
  request.fixed.dvWarps = 1;
  CHECK(errorOf(request) == "tile 64 x 16 with 4 warps does not fit: about 304 registers per thread, above 255; use "
                            "smaller tiles or more warps");
  request = makeRequest(128);
  request.fixed = {128, 128, 4, 2, false};
  request.sramBudget = 100000;
  CHECK(errorOf(request) == "tile 128 x 128 needs 163840 bytes of shared memory (Q 32768, K 65536, V 65536), above the "
                            "budget of 100000 bytes; use smaller tiles, fewer stages or a larger budget");
  request.sramBudget = 0;
  CHECK(errorOf(request) == "tile 128 x 128 with 4 warps does not fit: about 304 registers per thread, above 255; use "
                            "smaller tiles or more warps");
  request = makeRequest(128);
  request.sramBudget = 300000;
  CHECK(errorOf(request) == "sram budget 300000 is above 232448, the limit per block of sm_90");
  request.sramBudget = -1;
  CHECK(errorOf(request) == "sram budget -1 is negative; use 0 for the limit of sm_90");
  request = makeRequest(128);
  request.arch = "cpu";
  request.sramBudget = 16384;
  CHECK(errorOf(request) == "the smallest tile 16 x 16 needs 33792 bytes of cache (Q 8192, K 8192, V 8192, S 1024, "
                            "O 8192), above the budget of 16384 bytes; raise the budget or reduce the head dim");
}

TEST_CASE("errors of head dims") {
  PlanRequest request = makeRequest(584);
  CHECK(errorOf(request) == "head_dim 584 is above 576, the limit of the mma.sync path");
  request.headDim = 64;
  CHECK(errorOf(request) == "head_dim_v 584 is above 576, the limit of the mma.sync path");
  request.headDimV = 512;
  CHECK(errorOf(request) == "no error");
  request.arch = "cpu";
  CHECK(errorOf(request) == "no error");
  request.headDim = 584;
  CHECK(errorOf(request) == "head_dim 584 is above 576, the limit of the cpu target");
  request.arch = "sm_80";
  request.headDim = 100;
  CHECK(errorOf(request) == "head_dim 100 is not a multiple of 8; pad the last dimension to 104");
  request.headDim = 0;
  CHECK(errorOf(request) == "head_dim 0 is not positive; use a multiple of 8");
}

TEST_CASE("a plan with all fields fixed is chosen as it is") {
  for (const char *arch : {"sm_80", "sm_90a", "cpu"})
    for (int headDim : {64, 128, 256}) {
      PlanRequest request = makeRequest(headDim);
      request.arch = arch;
      request.mask = MaskShape::causal();
      Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
      REQUIRE(ranked);
      for (const RankedPlan &candidate : *ranked) {
        if (!candidate.accepted())
          continue;
        INFO(arch << " " << headDim << " " << candidate.plan.text());
        PlanRequest again = request;
        again.fixed = choiceOf(candidate.plan);
        Expected<std::vector<RankedPlan>> only = rankPlans(again);
        REQUIRE(only);
        CHECK(only->size() == 1);
        CHECK(only->front().plan == candidate.plan);
        CHECK(only->front().cost.totalSeconds == candidate.cost.totalSeconds);
      }
    }
}

TEST_CASE("fields that the model would choose otherwise") {
  PlanRequest request = makeRequest(64);
  request.arch = "sm_90a";
  const Plan free = choosePlan(request)->plan;
  REQUIRE((free.pingPong && free.persistent && free.queryStages == 2 && !free.longestFirst));
  request.fixed.pingPong = false;
  CHECK(!choosePlan(request)->plan.pingPong);
  request.fixed = {.overlap = true};
  CHECK(choosePlan(request)->plan.overlap);
  request.fixed = {.longestFirst = true};
  CHECK(choosePlan(request)->plan.longestFirst);
  request.fixed = {.queryStages = 1};
  CHECK(choosePlan(request)->plan.queryStages == 1);
  request.fixed = {.persistent = false};
  CHECK((!choosePlan(request)->plan.persistent && choosePlan(request)->plan.queryStages == 1));
  request.arch = "sm_80";
  request.fixed = {.blocksPerSm = 1};
  const RankedPlan alone = *choosePlan(request);
  CHECK(alone.plan.blocksPerSm == 1);
  request.fixed = choiceOf(alone.plan);
  request.fixed.blocksPerSm = 2;
  Expected<RankedPlan> two = choosePlan(request);
  CHECK((!two || two->cost.registerLimit <= alone.cost.registerLimit / 2));
}

TEST_CASE("errors of fixed fields") {
  auto with = [](PlanChoice fixed, const char *arch = "sm_90") {
    PlanRequest request = makeRequest(64);
    request.arch = arch;
    request.fixed = fixed;
    return errorOf(request);
  };
  CHECK(with({.tileQ = 100}) == "tile-q 100 is not a positive multiple of 16");
  CHECK(with({.tileK = 24}) == "tile-k 24 is not a positive multiple of 16");
  CHECK(with({.tileQ = 48}) == "tile-q 48 does not give each of 4 or 8 warps 16 or 32 rows; use 64, 128 or 256");
  CHECK(with({.tileQ = 64, .warps = 8}) == "tile-q 64 does not give each of 8 warps 16 or 32 rows; use 128 or 256");
  CHECK(with({.tileQ = 128, .warps = 4, .dvWarps = 2}) ==
        "tile-q 128 does not give each of 4 warps, 2 of which split dv, 16 or 32 rows; use 32 or 64");
  CHECK(with({.tileQ = 256, .dvWarps = 4}) ==
        "tile-q 256 does not give each of 4 or 8 warps, 4 of which split dv, 16 or 32 rows; use 16, 32 or 64");
  CHECK(with({.dvWarps = 3}) == "dv-warps 3 is not supported; use 1, 2 or 4");
  CHECK(with({.dvWarps = 2}, "cpu") == "dv-warps 2 is not available on the cpu target; use 1");
  CHECK(with({.warps = 5}) == "warps 5 is not supported; use 4 or 8");
  CHECK(with({.blocksPerSm = 0}) == "blocks-per-sm 0 is not positive");
  CHECK(with({.blocksPerSm = 2}, "cpu") == "blocks-per-sm 2 is not available on the cpu target; use 1");
  CHECK(with({.blocksPerSm = 2}, "sm_90a") ==
        "blocks-per-sm 2 is not available on sm_90a, where one block fills a multiprocessor; use 1");
  CHECK(
      with({.tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .blocksPerSm = 9}) ==
      "tile 128 x 64 with 4 warps does not fit: at most 2 such blocks share a multiprocessor, not 9; use fewer blocks "
      "or smaller tiles");
  CHECK(with({.queryStages = 3}, "sm_90a") == "query-stages 3 is not 1 or 2");
  CHECK(with({.persistent = false, .queryStages = 2}, "sm_90a") ==
        "query-stages 2 needs persistent blocks, which are false; use 1");
  CHECK(with({.stageBiases = true}, "sm_90a") == "stage-biases has no bias to copy: the score adds no floats of a "
                                                 "captured tensor at [.., q, k] that producer warps "
                                                 "can copy; leave it out");
  const std::pair<const char *, PlanChoice> ofWarpgroups[] = {{"persistent", {.persistent = true}},
                                                              {"query-stages 2", {.queryStages = 2}},
                                                              {"ping-pong", {.pingPong = true}},
                                                              {"overlap", {.overlap = true}}};
  for (const auto &[name, fixed] : ofWarpgroups)
    for (auto [arch, where] : {std::pair("sm_80", "sm_80"), std::pair("cpu", "the cpu target")})
      CHECK(with(fixed, arch) ==
            fmt::format("{} is not available for these inputs on {}: only kernels with producer warps, "
                        "of 16-bit inputs on sm_90a, have it; leave it out",
                        name, where));
  CHECK(with({.stages = 9}) == "stages 9 is not between 1 and 8");
  CHECK(with({.warps = 4}, "cpu") == "warps 4 is not available on the cpu target; use 1");
  CHECK(with({.stages = 2}, "cpu") == "stages 2 is not available on the cpu target; use 1");
  CHECK(with({.qRegisters = true}, "cpu") == "q-registers is not available on the cpu target; leave it out");
  CHECK(with({.warps = 20}, "sm_90a") == "warps 20 is not supported on sm_90a; use 4, 8, 12 or 16");
  CHECK(with({.stages = 1}, "sm_90a") ==
        "stages 1 is not between 2 and 8, the stages of sm_90a; use 2, or compile for sm_90");
  CHECK(with({.qRegisters = true}, "sm_90a") == "q-registers is not available on sm_90a, whose products read Q from "
                                                "shared memory; leave it out, or compile for sm_90");
  CHECK(with({.dvWarps = 2}, "sm_90a") ==
        "dv-warps 2 is not available on sm_90a, whose warpgroups hold all columns of V; use 1, or compile for sm_90");
  CHECK(with({.tileQ = 320}, "sm_90a") ==
        "tile-q 320 does not give each of 1 to 4 warpgroups 64 rows; use 64, 128, 192 or 256");
  CHECK(with({.tileQ = 128, .warps = 4}, "sm_90a") == "tile-q 128 does not give each of 4 warps 16 rows; use 64");
  CHECK(with({.tileK = 272}, "sm_90a") == "tile-k 272 is above 256, the most columns of a warpgroup's product");
  CHECK(with({}, "sm_70") == "architecture 'sm_70' is unknown; valid are " + archNames());
}

//===----------------------------------------------------------------------===//
// Ranking
//===----------------------------------------------------------------------===//

TEST_CASE("fixed fields are kept, tiles outside the usual ones too") {
  PlanRequest request = makeRequest(64);
  request.fixed = {64, 144, 4, 2, true};
  Plan plan = best(request).plan;
  CHECK(plan == Plan{64, 144, 4, 2, true, plan.blocksPerSm, false});
  checkLimits(request, best(request));
}

TEST_CASE("the last query tile is first where it has the most keys") {
  CHECK(best(makeRequest(64, MaskShape::causal())).plan.longestFirst);
  CHECK_FALSE(best(makeRequest(64)).plan.longestFirst);
  CHECK_FALSE(best(makeRequest(64, MaskShape::band(128, 0))).plan.longestFirst);
  // A window of 600 keys, alone and with the first 8; every query from the 64th on sees all before it.
  auto rowsOf = [](int64_t window, int64_t sinks) {
    MaskRows rows = {.queries = 8192, .keys = 8192};
    for (int64_t q = 0; q < rows.queries; q += rows.rowsEach) {
      const int64_t begin = std::max<int64_t>(sinks, q - window), end = q + rows.rowsEach;
      rows.rows.push_back({});
      if (sinks)
        rows.rows.back().push_back({0, 0, sinks, sinks});
      rows.rows.back().push_back({begin, begin + rows.rowsEach, q, std::max(begin, end)});
    }
    return MaskShape::byRows({rows}, false);
  };
  CHECK_FALSE(best(makeRequest(64, rowsOf(600, 0))).plan.longestFirst);
  CHECK_FALSE(best(makeRequest(64, rowsOf(600, 8))).plan.longestFirst);
  CHECK(best(makeRequest(64, rowsOf(8192, 8))).plan.longestFirst);
}

TEST_CASE("tiles divide a block pattern where they can") {
  for (auto [rows, columns] : {std::pair(64, 64), {128, 32}, {256, 48}, {64, 16}}) {
    PlanRequest request = makeRequest(64);
    request.patternRows = rows;
    request.patternColumns = columns;
    Plan plan = best(request).plan;
    CHECK(rows % plan.tileQ == 0);
    CHECK(columns % plan.tileK == 0);
  }
  PlanRequest request = makeRequest(64); // no tile has 16 rows
  request.patternRows = 16;
  request.patternColumns = 32;
  CHECK(32 % best(request).plan.tileK == 0);
}

TEST_CASE("a variant with more work is predicted to take longer") {
  const double plain = best(makeRequest(64)).cost.totalSeconds;
  PlanRequest softcap = makeRequest(64);
  softcap.specialPerElement = 1;
  softcap.aluPerElement = 2;
  CHECK(best(softcap).cost.totalSeconds > plain);
  PlanRequest sigmoid = makeRequest(64), none = makeRequest(64);
  sigmoid.normaliserSpecial = 2;
  none.normaliserSpecial = 0;
  CHECK(best(sigmoid).cost.specialSeconds == 2 * best(makeRequest(64)).cost.specialSeconds);
  CHECK(best(sigmoid).cost.totalSeconds > plain);
  CHECK(best(none).cost.specialSeconds == 0);
  CHECK(best(none).cost.totalSeconds < plain);
  CHECK(best(makeRequest(64, MaskShape::full(), true)).cost.totalSeconds > plain);
  PlanRequest f32 = makeRequest(64);
  f32.elementBytes = 4;
  CHECK(best(f32).cost.totalSeconds > 2 * plain);
  const double causal = best(makeRequest(64, MaskShape::causal())).cost.totalSeconds;
  CHECK(causal < 0.62 * plain);
  CHECK(causal > 0.5 * plain);
}

TEST_CASE("the tiles that measured best on an H200 come first") {
  auto tiles = [](const PlanRequest &request) {
    Plan plan = best(request).plan;
    return std::tuple(plan.tileQ, plan.tileK, plan.warps, plan.blocksPerSm);
  };
  for (MaskShape mask : {MaskShape::full(), MaskShape::causal()}) {
    CHECK(tiles(makeRequest(64, mask)) == std::tuple(128, 128, 4, 2));
    CHECK(tiles(makeRequest(96, mask)) == std::tuple(128, 64, 4, 2)); // 128 x 96 spills
    CHECK(tiles(makeRequest(128, mask)) == std::tuple(128, 64, 4, 2));
  }
}

TEST_CASE("what a variant keeps in registers makes its tiles smaller") {
  const PlanRequest causal = makeRequest(64, MaskShape::causal());
  const int plain = best(causal).plan.tileK;
  auto tileK = [&](auto change) {
    PlanRequest request = causal;
    change(request);
    RankedPlan plan = best(request);
    checkLimits(request, plan);
    CHECK_FALSE(plan.cost.spills);
    return plan.plan.tileK;
  };
  CHECK(tileK([](PlanRequest &r) { r.patternRows = r.patternColumns = 128; }) < plain);
  CHECK(tileK([](PlanRequest &r) { r.rowVectors = r.columnVectors = 1; }) < plain);
  CHECK(tileK([](PlanRequest &r) { r.elementLoads = 1; }) < plain);
  CHECK(tileK([](PlanRequest &r) { r.dropout = true; }) < plain);
  CHECK(tileK([](PlanRequest &r) { r.uniformValues = 1; }) == plain); // ALiBi's slope
}

TEST_CASE("values by distance have rings, and cost less than loads by element") {
  PlanRequest plain = makeRequest(128);
  plain.arch = "sm_90a";
  PlanRequest staged = plain, loaded = plain;
  staged.relativeValues = 1;
  loaded.elementLoads = 1;
  loaded.aluPerElement = 8;
  for (PlanRequest *request : {&plain, &staged, &loaded})
    request->fixed = {128, 96, 8, 2};
  const RankedPlan without = best(plain), with = best(staged);
  // Two stages of 224 pairs of floats, from a multiple of 1024 bytes on, and their barriers.
  CHECK(with.cost.sharedBytes == without.cost.sharedBytes + 2 * 224 * 8 + 512 + 2 * 2 * 8);
  CHECK(with.cost.shared.back().name == "relative-position values");
  CHECK(with.cost.registers > without.cost.registers);
  CHECK(with.cost.registerLimit == roleRegisters(8, 4, false, 1, 0).consumer);
  CHECK(with.cost.registerLimit < without.cost.registerLimit);
  CHECK(with.cost.aluSeconds > without.cost.aluSeconds);
  CHECK(with.cost.totalSeconds < best(loaded).cost.totalSeconds);
  // The warp that computes has room for one value, or for several.
  CHECK(roleRegisters(8, 4, false, 1, 0).producer == 40);
  CHECK(roleRegisters(8, 4, false, 2, 0).producer == 56);
}

TEST_CASE("values by distance cost three warpgroups less than two") {
  auto slower = [](int tileQ) {
    PlanRequest without = makeRequest(128), with = without;
    with.relativeValues = 1;
    for (PlanRequest *request : {&without, &with}) {
      request->arch = "sm_90a";
      request->fixed = {.tileQ = tileQ, .tileK = 80};
    }
    return best(with).cost.totalSeconds / best(without).cost.totalSeconds;
  };
  CHECK(slower(192) > 1);
  CHECK(slower(192) < slower(128));
}

TEST_CASE("O takes room of its own where it has no place over Q") {
  auto request = [](int headDim, int headDimV) {
    PlanRequest request = makeRequest(headDim);
    request.arch = "sm_90a";
    request.headDimV = headDimV;
    request.fixed = {.tileQ = 128, .tileK = 80, .stages = 2};
    return request;
  };
  for (int headDimV : {256, 192}) {
    const RankedPlan plan = best(request(256, headDimV));
    CHECK_FALSE(plan.plan.persistent);
    CHECK(plan.cost.shared.back().name != "O");
  }
  // Rows of 512 bytes are longer than those of Q, which are 448.
  CHECK(errorOf(request(224, 256)).find("O 65536") != std::string::npos);
}

TEST_CASE("four warpgroups are for narrow heads whose tiles have 64 keys, and for no scattered mask") {
  auto planOf = [](int headDim, bool scattered = false) {
    PlanRequest request = makeRequest(headDim, scattered ? MaskShape::partly(0.5) : MaskShape::causal());
    request.arch = "sm_90a";
    const Plan plan = best(request).plan;
    return std::tuple(plan.tileQ, plan.tileK, plan.warps);
  };
  CHECK(planOf(64) == std::tuple(256, 64, 16));
  CHECK(std::get<2>(planOf(72)) < 16); // not with fewer keys
  CHECK(planOf(128) == std::tuple(128, 128, 8));
  CHECK(std::get<2>(planOf(64, true)) < 16);
  // Producer warps that search take 40 registers at least; beside 112 they have 32.
  CHECK(roleRegisters(16, 4, false, 0, 0).consumer == 112);
  CHECK(roleRegisters(16, 4, true, 0, 0).consumer == 104);
  CHECK(roleRegisters(16, 4, true, 0, 0).producer >= 40);
}

TEST_CASE("what a mask loads by key costs shared memory, and the consumers no registers") {
  PlanRequest plain = makeRequest(64);
  plain.arch = "sm_90a";
  PlanRequest staged = plain, loaded = plain;
  staged.stagedColumns = 1;
  staged.maskLoadsByKey = true;
  loaded.columnVectors = 1;
  loaded.maskLoadsByKey = true;
  for (PlanRequest *request : {&plain, &staged, &loaded})
    request->fixed = {192, 128, 12, 3};
  const RankedPlan without = best(plain), with = best(staged);
  // Three stages of 128 words, from a multiple of 1024 bytes on, their barriers, and what the search tells.
  CHECK(with.cost.sharedBytes == without.cost.sharedBytes + 2048 + 48 + 128);
  CHECK(with.cost.shared.back().name == "per-key values");
  CHECK(with.cost.registers == without.cost.registers);
  CHECK(with.cost.registerLimit == without.cost.registerLimit);
  CHECK(!with.cost.spills);
  CHECK(best(loaded).cost.spills);
}

TEST_CASE("dense biases are staged where shared memory has room") {
  PlanRequest request = makeRequest(128);
  request.arch = "sm_90a";
  request.elementLoads = request.biases = 1;
  request.biasBytes = 2;
  request.aluPerElement = 5;
  const RankedPlan chosen = best(request);
  CHECK(chosen.plan.stageBiases);
  CHECK(chosen.plan.text().ends_with(", biases in shared memory"));
  auto bytesOf = [](const RankedPlan &ranked, const std::string &name) {
    for (const SharedBuffer &buffer : ranked.cost.shared)
      if (buffer.name == name)
        return buffer.bytes;
    return int64_t(0);
  };
  CHECK(bytesOf(chosen, "biases") == int64_t(chosen.plan.stages) * chosen.plan.tileQ * chosen.plan.tileK * 2);
  request.fixed.stageBiases = false;
  const RankedPlan loads = best(request);
  CHECK_FALSE(loads.plan.stageBiases);
  CHECK(bytesOf(loads, "biases") == 0);
  CHECK(loads.cost.mixSeconds > chosen.cost.mixSeconds);
  // Two stages of 128 x 144 of a bias have no room beside K and V: lanes load it.
  request.fixed = {128, 144, 8, 2};
  CHECK_FALSE(best(request).plan.stageBiases);
  // Elsewhere no plan stages.
  request.fixed = {};
  request.arch = "sm_90";
  CHECK_FALSE(best(request).plan.stageBiases);
}

TEST_CASE("a tile that is asked for may spill") {
  PlanRequest request = makeRequest(96);
  request.fixed = {128, 96, 4, 2, false};
  RankedPlan plan = best(request);
  CHECK(plan.cost.spills);
  checkLimits(request, plan);
  Expected<std::vector<RankedPlan>> all = rankPlans(makeRequest(96));
  REQUIRE(all);
  CHECK_FALSE(all->front().cost.spills);
}

TEST_CASE("tiles of the cpu target stay in its caches") {
  for (int headDim : {16, 64, 128, 256, 512}) {
    PlanRequest request = makeRequest(headDim);
    request.arch = "cpu";
    Plan plan = best(request).plan;
    CHECK(plan.warps == 1);
    CHECK(plan.stages == 1);
    CHECK(best(request).cost.limitedBy == "products");
    if (headDim <= 128)
      CHECK(std::tuple(plan.tileQ, plan.tileK) == std::tuple(64, 128));
  }
}

TEST_CASE("a plan says what limits it") {
  RankedPlan plan = best(makeRequest(128));
  CHECK(plan.cost.limitedBy == "tensor cores");
  CHECK(plan.cost.busy.starts_with("tensor cores "));
  for (const char *unit : {"special functions", "arithmetic", "shared memory", "HBM"})
    CHECK(plan.cost.busy.find(unit) != std::string::npos);
  CHECK(plan.plan.text() == "128 x 64, 4 warps, 2 stages, q in shared memory, 2 blocks per SM");
}

TEST_CASE("predictions are near the measurements that they were fitted to") {
  // TFLOP/s of bf16 prototypes on an H200, 16384 tokens in sequences of 4096, hidden 2048, from three runs. The model
  // was fitted to them: this holds the fit in place and says nothing about other kernels.
  struct Measured {
    int headDim;
    bool causal;
    PlanChoice plan;
    double tflops;
  };
  const Measured table[] = {
      {64, false, {128, 128, 4, 2, false}, 339}, {64, false, {128, 128, 4, 1, false}, 334},
      {64, false, {128, 64, 4, 2, true}, 331},   {64, false, {128, 112, 4, 2, false}, 326},
      {64, false, {256, 128, 8, 2, false}, 300}, {64, false, {128, 64, 8, 1, false}, 258},
      {64, true, {128, 128, 4, 2, false}, 323},  {64, true, {128, 64, 4, 2, true}, 320},
      {128, false, {128, 64, 4, 2, false}, 356}, {128, false, {128, 64, 4, 1, false}, 358},
      {128, false, {128, 48, 4, 2, false}, 351}, {128, false, {256, 64, 8, 2, false}, 331},
      {128, true, {128, 64, 4, 2, false}, 357},  {96, false, {128, 96, 4, 1, false}, 338},
      {192, false, {64, 64, 4, 1, false}, 307},  {192, false, {128, 64, 8, 2, false}, 292},
      {256, false, {64, 64, 4, 1, false}, 315},  {256, false, {128, 64, 8, 1, false}, 301},
  };
  for (const Measured &m : table) {
    PlanRequest request = makeRequest(m.headDim, m.causal ? MaskShape::causal() : MaskShape::full());
    request.fixed = m.plan;
    RankedPlan ranked = best(request);
    const double flops = 4.0 * request.batch * request.heads * 4096 * 4096 * m.headDim / (m.causal ? 2 : 1);
    const double predicted = flops / ranked.cost.totalSeconds / 1e12;
    INFO("D " << m.headDim << ", " << ranked.plan.text() << ": predicted " << predicted << ", measured " << m.tflops);
    CHECK(predicted > 0.92 * m.tflops);
    CHECK(predicted < 1.08 * m.tflops);
  }
}

TEST_CASE("blocks are persistent where O fits beside Q, and Q has two stages where these fit") {
  auto planOf = [](int headDim, int64_t budget = 0) {
    PlanRequest request = makeRequest(headDim);
    request.arch = "sm_90a";
    request.sramBudget = budget;
    request.fixed = {.tileQ = 128, .tileK = 64, .stages = 2};
    return best(request);
  };
  auto check = [](const RankedPlan &ranked, bool persistent, int queryStages, int64_t queries, int64_t outputs) {
    CHECK(ranked.plan.persistent == persistent);
    CHECK(ranked.plan.queryStages == queryStages);
    CHECK(ranked.cost.shared.front().bytes == queries);
    CHECK((ranked.cost.shared.back().name == "O" ? ranked.cost.shared.back().bytes : 0) == outputs);
    CHECK((ranked.plan.text().find(", persistent") != std::string::npos) == persistent);
  };
  check(planOf(128), true, 2, 2 * 128 * 128 * 2, 128 * 128 * 2);
  check(planOf(192), true, 1, 128 * 192 * 2, 128 * 192 * 2);
  check(planOf(256), false, 1, 128 * 256 * 2, 0);
  // 80 KiB for Q twice, O, K and V, and 160 bytes for barriers and messages; 64 KiB and 128 bytes with Q once.
  check(planOf(64, 82080), true, 2, 2 * 128 * 64 * 2, 128 * 64 * 2);
  check(planOf(64, 82079), true, 1, 128 * 64 * 2, 128 * 64 * 2);
  check(planOf(64, 65663), false, 1, 128 * 64 * 2, 0);
}

TEST_CASE("warpgroups take turns unless arithmetic rules the softmax") {
  auto planOf = [](int headDim, const char *arch = "sm_90a", int tileQ = 192, bool dropout = false) {
    PlanRequest request = makeRequest(headDim);
    request.arch = arch;
    request.dropout = dropout;
    request.fixed = {.tileQ = tileQ, .tileK = 64, .stages = 2};
    return best(request).plan;
  };
  CHECK(planOf(64).pingPong);
  CHECK(planOf(64).text().find(", ping-pong") != std::string::npos);
  CHECK_FALSE(planOf(64).overlap);
  // One warpgroup; two; dropout.
  CHECK_FALSE(planOf(64, "sm_90a", 64).pingPong);
  CHECK(planOf(64, "sm_90a", 64).overlap);
  CHECK(planOf(64, "sm_90a", 128).pingPong);
  CHECK_FALSE(planOf(64, "sm_90a", 128).overlap);
  CHECK(planOf(128, "sm_90a", 128).pingPong);
  // Beside its own product too, a softmax that takes between half as long as the products and as long.
  CHECK(planOf(128, "sm_90a", 128).overlap);
  CHECK(planOf(128, "sm_90a", 128).text().find(", ping-pong, overlapped") != std::string::npos);
  CHECK_FALSE(planOf(128, "sm_90a", 192).overlap);
  CHECK_FALSE(planOf(256, "sm_90a", 128).overlap);
  CHECK_FALSE(planOf(64, "sm_90a", 192, true).pingPong);
  CHECK_FALSE(planOf(64, "sm_90a", 192, true).overlap);
  CHECK_FALSE(planOf(64, "sm_90", 128).pingPong);
  CHECK_FALSE(planOf(64, "sm_90", 128).overlap);
}

TEST_CASE("warpgroups take turns where rows have no statistics, whatever the arithmetic") {
  PlanRequest request = makeRequest(64);
  request.arch = "sm_90a";
  request.fixed = {.tileQ = 192, .tileK = 64, .stages = 2};
  request.aluPerElement = 5;
  CHECK_FALSE(best(request).plan.pingPong);
  request.rowStatistics = false;
  CHECK(best(request).plan.pingPong);
  request.dropout = true;
  CHECK_FALSE(best(request).plan.pingPong);
}

TEST_CASE("few queries over many keys pack groups and split keys") {
  auto request = [](int64_t batch, int64_t heads, int64_t headsKv, int64_t queries, int64_t keys) {
    PlanRequest of = makeRequest(128, MaskShape::full());
    of.arch = "sm_90a";
    of.theseSizes = true;
    of.batch = batch;
    of.heads = heads;
    of.headsKv = headsKv;
    of.queries = queries;
    of.keys = keys;
    return of;
  };
  const Plan step = best(request(8, 32, 8, 1, 8192)).plan;
  CHECK(step.packGqa);
  CHECK(step.splitKeys);
  CHECK(step.text().ends_with("packed GQA, keys split"));
  // Blocks enough without shares; one head for each key head.
  CHECK(best(request(64, 32, 8, 1, 4096)).plan.packGqa);
  CHECK_FALSE(best(request(64, 32, 8, 1, 4096)).plan.splitKeys);
  CHECK_FALSE(best(request(8, 8, 8, 1, 8192)).plan.packGqa);
  CHECK(best(request(8, 8, 8, 1, 8192)).plan.splitKeys);
  // Many queries fill the device; a plan for all sizes serves these, too.
  const Plan prefill = best(request(4, 16, 16, 4096, 4096)).plan;
  CHECK_FALSE((prefill.packGqa || prefill.splitKeys));
  PlanRequest any = request(8, 32, 8, 1, 8192);
  any.theseSizes = false;
  CHECK_FALSE((best(any).plan.packGqa || best(any).plan.splitKeys));
  // K and V are read once for a group, and the shares of a row written and read again.
  const PlanCost cost = best(request(8, 32, 8, 1, 8192)).cost;
  const double keys = 8.0 * 8 * 8192 * 256 * 2;
  CHECK(cost.readBytes > keys);
  CHECK(cost.readBytes < 1.05 * keys);

  PlanRequest asked = request(8, 32, 8, 1, 8192);
  asked.packFault = "dropout draws numbers for 16 queries of a head at a time";
  CHECK_FALSE(best(asked).plan.packGqa);
  asked.fixed.packGqa = true;
  CHECK(rankPlans(asked).error().message == "pack-gqa is not available: dropout draws numbers for 16 queries of a "
                                            "head at a time; leave it out");
  asked.packFault = "";
  asked.fixed.persistent = true;
  CHECK(rankPlans(asked).error().message ==
        "persistent blocks take neither packed groups nor splits of keys; leave it out");
  // On warp-level products, too, rows of several heads are in registers.
  asked.fixed = {.qRegisters = true, .packGqa = true};
  asked.arch = "sm_90";
  CHECK(best(asked).plan.packGqa);
  asked.arch = "sm_90a";
  asked.fixed = {.tileQ = 128, .packGqa = true};
  CHECK(best(asked).plan.warps == 8);
  // Two blocks begin with 128 registers a thread, of which a product with 256 columns of V takes more.
  asked.fixed = {.blocksPerSm = 2, .splitKeys = true};
  asked.headDim = asked.headDimV = 256;
  CHECK_FALSE(rankPlans(asked));
}

TEST_CASE("a window is planned for sequences that are longer than it") {
  auto shortest = [](const MaskShape &mask) {
    const auto lengths = rankedLengths(makeRequest(64, mask));
    return std::min_element(lengths.begin(), lengths.end())->second;
  };
  CHECK(shortest(MaskShape::causal()) == 512);
  CHECK(shortest(MaskShape::band(127, 0)) == 512);
  CHECK(shortest(MaskShape::band(1023, 0)) == 2046);
}

TEST_CASE("tiles of rows go in rounds, in rounds of pairs, or to who is free") {
  // Tiles of 128 rows for each of 132 multiprocessors, and one more: a second round.
  auto seconds = [](int64_t tiles, MaskShape mask, bool persistent) {
    PlanRequest request = makeRequest(128, mask);
    request.arch = "sm_90a";
    request.theseSizes = true;
    request.batch = request.headsKv = 1; // all read the same K and V: HBM limits nothing
    request.heads = tiles;
    request.queries = mask.kind == MaskShape::Kind::Full ? 128 : 1280;
    request.fixed = {.tileQ = 128, .tileK = 128, .stages = 2, .persistent = persistent};
    return best(request).cost.totalSeconds - 3e-6;
  };
  for (bool persistent : {false, true}) {
    INFO((persistent ? "persistent" : "one tile per block"));
    CHECK(seconds(133, MaskShape::full(), persistent) == Approx(2 * seconds(132, MaskShape::full(), persistent)));
    CHECK(seconds(264, MaskShape::full(), persistent) == Approx(seconds(133, MaskShape::full(), persistent)));
  }
  // Causal: 10 tiles a sequence. 27 of them are 135 pairs, so that some blocks have two; free blocks fill the gaps.
  CHECK(seconds(27, MaskShape::causal(), true) > 1.8 * seconds(26, MaskShape::causal(), true));
  CHECK(seconds(27, MaskShape::causal(), false) < 1.1 * seconds(26, MaskShape::causal(), false));
}

TEST_CASE("roles share out the registers that a block has at its launch") {
  for (int warpgroups : {1, 2, 3})
    for (bool searches : {false, true}) {
      const RoleRegisters roles = roleRegisters(4 * warpgroups, 4, searches, 0, warpgroupTileRegisters(128, 64));
      const int ofThread = 65536 / ((warpgroups + 1) * 128) / 8 * 8;
      INFO(warpgroups << " warpgroups: " << roles.producer << " and " << roles.consumer);
      CHECK(roles.producer + warpgroups * roles.consumer <= (warpgroups + 1) * ofThread);
      CHECK(roles.producer >= (searches ? 32 : 24));
      CHECK(roles.consumer >= (warpgroups == 3 ? 160 : 232));
      CHECK(roles.producer % 8 + roles.consumer % 8 == 0);
    }
  // Smaller tiles leave the warp that searches more.
  const RoleRegisters roles = roleRegisters(12, 4, true, 0, warpgroupTileRegisters(112, 64));
  CHECK(roles.producer == 56);
  CHECK(roles.consumer == 152);
}

TEST_CASE("the same request gives the same order") {
  Expected<std::vector<RankedPlan>> a = rankPlans(makeRequest(96)), b = rankPlans(makeRequest(96));
  REQUIRE((a && b));
  REQUIRE(a->size() == b->size());
  for (size_t i = 0; i < a->size(); ++i)
    CHECK((*a)[i].plan == (*b)[i].plan);
}
