//===- PlanSeconds.h - How long a plan takes ---------------------------------===//
#pragma once

#include "arch/ArchInfo.h"
#include "passes/analysis/cost/VisitedTiles.h"

#include <algorithm>

namespace attune {

/// Fills in the seconds of each unit and of all, what limits the plan, and how busy each unit is; the bytes of `cost`,
/// and of the CPU target its shared memory, are known.
void setSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                const ArchInfo &arch);

/// Into how many shares a launch divides the keys of a tile of rows.
int64_t splitsOf(const PlanRequest &request, const Plan &plan, const ArchInfo &arch);

/// How many of them the kernel that combines them reads at a time.
inline constexpr int64_t splitsAtOnce = 16;

/// Cycles of each unit for a tile, with producer warps.
struct WarpgroupCycles {
  double mma, special, alu, shared;
  /// A warpgroup's softmax alone: half of the shorter unit's time hides behind the longer's.
  double softmax() const { return std::max(alu, special) + 0.5 * std::min(alu, special); }
};
WarpgroupCycles warpgroupCycles(const PlanRequest &request, const Plan &plan, const ArchInfo &arch);

} // namespace attune
