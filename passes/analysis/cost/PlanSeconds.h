//===- PlanSeconds.h - Predicts the time of a plan ---------------------------===//
#pragma once

#include "arch/ArchInfo.h"
#include "passes/analysis/cost/VisitedTiles.h"

#include <algorithm>

namespace attune {

/// Sets in `cost` the seconds of each hardware unit and of the kernel, the limiting unit, and how busy each unit is,
/// for the visited tiles `tiles`. The HBM bytes of `cost` must be set before, and for the CPU target `cost.sharedBytes`
/// too.
void setSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                const ArchInfo &arch);

/// Into how many splits a launch divides the keys of a tile of rows (split-KV).
int64_t splitsOf(const PlanRequest &request, const Plan &plan, const ArchInfo &arch);

/// How many splits the combining kernel reads at a time.
inline constexpr int64_t splitsAtOnce = 16;

/// Cycles of each unit for one tile of a thread block, in plans with producer warps.
struct WarpgroupCycles {
  double mma, special, alu, shared;
  /// Cycles of the softmax: special functions and arithmetic overlap, except for half of the shorter one's time.
  double softmax() const { return std::max(alu, special) + 0.5 * std::min(alu, special); }
};
WarpgroupCycles warpgroupCycles(const PlanRequest &request, const Plan &plan, const ArchInfo &arch);

} // namespace attune
