//===- PlanKernels.h - The plans that a tile kernel of any program may have ---===//
//
//     std::vector<KernelPlan> plans = rankPlans(kernel, *findArch("sm_90a"), budget);   // the best first
//     setPlan(kernel, plans.front());
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/tile/KernelCost.h"

#include <array>

namespace attune {

/// Who computes the tiles of a kernel, whose sizes its text gives.
struct KernelPlan {
  int64_t warps = 1;
  int64_t producerWarps = 0; ///< in addition to `warps`, which then compute by asynchronous products
  int64_t stages = 0;        ///< of the loops' rings whose depth the text leaves open; 0 without such a ring
  int64_t blocksPerSm = 1;   ///< blocks for which a thread's registers have to suffice
  KernelCost cost = {};

  /// "4 consumer warps, 4 producer warps, rings of 3 stages"
  std::string text() const;
};

/// Plans are compared by their predicted seconds, and then by the other numbers; the least is the best.
using PlanRank = std::array<double, 5>;
PlanRank rankOf(const KernelPlan &plan);

/// All plans of `kernel` whose tiles fit `budget` bytes of shared memory, by predicted time; at least one, which may
/// not fit. The plan, the roles and the depths of rings that `kernel` has are kept.
std::vector<KernelPlan> rankPlans(tile::KernelOp kernel, const ArchInfo &arch, int64_t budget,
                                  const Extents &extents = {});

/// Writes `plan` into a kernel that has none; roles that the kernel has stay. A remark says what was planned.
void setPlan(tile::KernelOp kernel, const KernelPlan &plan, const ArchInfo &arch);

} // namespace attune
