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

/// The plan of a kernel whose tile sizes are given: its warps, the depth of its rings and its blocks per
/// multiprocessor.
struct KernelPlan {
  int64_t warps = 1;
  int64_t producerWarps = 0; ///< in addition to `warps`; with producer warps, products are asynchronous
  int64_t stages = 0;        ///< of all rings in loops whose depth is not given; 0 if there is no such ring
  int64_t blocksPerSm = 1;   ///< blocks that the registers of a multiprocessor have to suffice for
  KernelCost cost = {};

  /// "4 consumer warps, 4 producer warps, rings of 3 stages"
  std::string text() const;
};

/// The rank of a plan, compared lexicographically; the least is the best. The first number is the predicted time, with
/// a penalty for unusual numbers of stages. The other numbers decide between equal times.
using PlanRank = std::array<double, 5>;
PlanRank rankOf(const KernelPlan &plan);

/// The plans of `kernel` whose tiles fit in `budget` bytes of shared memory (0: the architecture's limit), the best
/// first. If no plan fits, the only result is the plan that takes the least shared memory. Roles and depths of rings
/// that `kernel` has are kept. `kernel` is unchanged after the call.
std::vector<KernelPlan> rankPlans(tile::KernelOp kernel, const ArchInfo &arch, int64_t budget,
                                  const Extents &extents = {});

/// Writes `plan` into a kernel that has no plan; roles that the kernel has are kept. On GPUs a remark on the kernel
/// states the plan.
void setPlan(tile::KernelOp kernel, const KernelPlan &plan, const ArchInfo &arch);

} // namespace attune
