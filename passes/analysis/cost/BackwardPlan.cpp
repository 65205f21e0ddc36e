#include "passes/analysis/cost/BackwardPlan.h"

#include "arch/ArchInfo.h"
#include "ir/sched/SwizzledLayout.h"
#include "passes/analysis/cost/Rounding.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;

/// Bytes of a row of Q and dO, or of K and V.
static int64_t rowBytes(const PlanRequest &request) {
  return (roundUp(request.headDim, 16) + roundUp(request.headDimV, 16)) * request.elementBytes;
}

/// What the loop over queries and that over keys take, the larger.
static int64_t sharedBytes(const PlanRequest &request, const Plan &plan) {
  const int64_t held = std::max(plan.tileK + plan.stages * plan.tileQ, plan.tileQ + plan.stages * plan.tileK);
  return held * rowBytes(request);
}

/// Of a thread: dK and dV of the 16 rows of a warp, and S and dP of them.
static int64_t tileRegisters(const PlanRequest &request, const Plan &plan) {
  return (roundUp(request.headDim, 16) + roundUp(request.headDimV, 16)) / 2 + std::max(plan.tileQ, plan.tileK);
}

/// Tiles of warpgroup-level products: a warp has 16 rows of dK and dV, and of S and dP by keys.
struct WarpgroupTiles {
  int tileQ, tileK, warps, stages;
};
constexpr WarpgroupTiles warpgroupTiles[] = {{128, 128, 8, 2}, {64, 128, 8, 2}};

constexpr int64_t barrierBytes = 512; ///< and messages between roles, at most

/// Bytes of a row as the copy engine takes it.
static int64_t boxRowBytes(int64_t columns, int64_t elementBytes) {
  return sched::boxRowBytes(roundUp(columns, 16) * elementBytes);
}

static int64_t warpgroupSharedBytes(const PlanRequest &request, const Plan &plan) {
  const int64_t e = request.elementBytes, d = request.headDim, dv = request.headDimV;
  const int64_t row = boxRowBytes(d, e) + boxRowBytes(dv, e), keyTiles = d == dv ? 1 : 2;
  const int64_t exchanged = 2 * plan.tileK * boxRowBytes(plan.tileQ, e), added = plan.tileQ * boxRowBytes(d, 4);
  const int64_t vectors = 2 + request.rowVectors + request.stagedColumns;
  const int64_t words = vectors * plan.tileQ + request.distanceValues * (plan.tileQ + plan.tileK);
  return (keyTiles * plan.tileK + plan.stages * plan.tileQ) * row + exchanged + added + plan.stages * words * 4 +
         barrierBytes;
}

/// Of a thread that computes: what is left of 240 beside addresses, rows and exponents.
constexpr int64_t warpgroupRegisters = 200;

/// Whether warpgroups can share out dQ: 64 rows for each, or columns that begin a swizzled row of 128 bytes.
static bool sharesQueries(const PlanRequest &request, const Plan &plan) {
  const int64_t shares = 16 * plan.warps / plan.tileQ;
  return shares == 1 || roundUp(request.headDim, 16) * request.elementBytes % (128 * shares) == 0;
}

/// Nothing where no such tiles fit, or the request rules them out.
static std::optional<Plan> warpgroupPlan(const PlanRequest &request, const ArchInfo &arch, int64_t budget) {
  if (!arch.warpgroups || request.deterministic || request.loopsByHead || request.elementBytes != 2)
    return std::nullopt;
  for (const WarpgroupTiles &tiles : warpgroupTiles) {
    Plan plan;
    plan.tileQ = tiles.tileQ;
    plan.tileK = tiles.tileK;
    plan.warps = tiles.warps;
    plan.stages = tiles.stages;
    plan.blocksPerSm = 1;
    plan.copyWarps = 4;
    auto allows = [](const std::optional<int> &fixed, int value) { return !fixed || *fixed == value; };
    const bool isAllowed = allows(request.fixed.tileQ, plan.tileQ) && allows(request.fixed.tileK, plan.tileK) &&
                           allows(request.fixed.warps, plan.warps) && allows(request.fixed.stages, plan.stages);
    const int64_t registers =
        (roundUp(request.headDim, 16) + roundUp(request.headDimV, 16)) / 2 * plan.tileK / (16 * plan.warps) +
        int64_t(plan.tileQ) * plan.tileK / (16 * plan.warps);
    if (isAllowed && sharesQueries(request, plan) && registers <= warpgroupRegisters &&
        warpgroupSharedBytes(request, plan) <= budget)
      return plan;
  }
  return std::nullopt;
}

/// Fields that these kernels do not have.
static Expected<void> checkFixed(const PlanRequest &request, const ArchInfo &arch) {
  Expected<void> good;
  visitSchedule(
      [&](std::string_view name, auto, const auto &value) {
        const bool chosen = name == "tileQ" || name == "tileK" || name == "warps" || name == "stages";
        if (good && value && !chosen &&
            int(*value) != (name == "dvWarps" || name == "blocksPerSm" || name == "queryStages"))
          good =
              Error{fmt::format("{} {} is no choice of the backward pass; leave it out", spelled(name, '-'), *value)};
      },
      request.fixed);
  if (!good)
    return good;
  for (auto [name, tile] : {std::pair("tile-q", request.fixed.tileQ), std::pair("tile-k", request.fixed.tileK)})
    if (tile && (*tile <= 0 || *tile % 16))
      return Error{fmt::format("{} {} is not a positive multiple of 16", name, *tile)};
  if (request.fixed.warps && (*request.fixed.warps < 1 || *request.fixed.warps > (arch.isCpu() ? 1 : 16)))
    return Error{fmt::format("warps {} is not between 1 and {}", *request.fixed.warps, arch.isCpu() ? 1 : 16)};
  if (request.fixed.stages && (*request.fixed.stages < 1 || *request.fixed.stages > (arch.isCpu() ? 1 : 8)))
    return Error{fmt::format("stages {} is not between 1 and {}", *request.fixed.stages, arch.isCpu() ? 1 : 8)};
  return {};
}

static Error nothingFits(const PlanRequest &request, const Plan &plan, int64_t budget) {
  const int64_t d = roundUp(request.headDim, 16) * request.elementBytes,
                dv = roundUp(request.headDimV, 16) * request.elementBytes;
  return Error{fmt::format(
      "the backward pass in tiles of {} x {} needs {} bytes of shared memory (K {}, V {}, {} stage{} of Q {} and dO "
      "{}), above the budget of {} bytes; raise the budget or reduce the head dim",
      plan.tileQ, plan.tileK, sharedBytes(request, plan), plan.tileK * d, plan.tileK * dv, plan.stages,
      plan.stages == 1 ? "" : "s", plan.tileQ * d, plan.tileQ * dv, budget)};
}

Expected<Plan> attune::chooseBackwardPlan(const PlanRequest &request) {
  Expected<const ArchInfo *> found = archInfo(request.arch);
  if (!found)
    return found.error();
  const ArchInfo &arch = **found;
  if (Expected<void> good = checkFixed(request, arch); !good)
    return good.error();
  const int64_t limit = int64_t(arch.sharedBytesPerBlock), budget = request.sramBudget ? request.sramBudget : limit;
  if (budget < 0 || budget > limit)
    return Error{
        fmt::format("sram budget {} is not between 0 and {}, the limit per block of {}", budget, limit, arch.name)};
  if (std::optional<Plan> plan = warpgroupPlan(request, arch, budget))
    return *plan;
  constexpr int64_t freeRegisters = 200; // of 255, beside addresses and fragments
  Plan plan;
  for (int tile : {64, 32, 16})
    for (int stages : {2, 1}) {
      if (arch.isCpu() && stages != 1)
        continue;
      plan.tileQ = request.fixed.tileQ.value_or(tile);
      plan.tileK = request.fixed.tileK.value_or(tile);
      plan.warps = request.fixed.warps.value_or(arch.isCpu() ? 1 : std::max(plan.tileQ, plan.tileK) / 16);
      plan.stages = request.fixed.stages.value_or(stages);
      plan.blocksPerSm = 1;
      // The last one may spill; a core's cache is no limit.
      const bool isLast = tile == 16 && stages == 1, hasRoom = tileRegisters(request, plan) <= freeRegisters;
      if (arch.isCpu() || (sharedBytes(request, plan) <= budget && (isLast || hasRoom)))
        return plan;
    }
  return nothingFits(request, plan, budget);
}
