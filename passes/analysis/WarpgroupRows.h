//===- WarpgroupRows.h - The rows of a block that a warpgroup holds --------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Query rows of a warpgroup, a part of the plan's `tile_q`; 0 where no role fills rings, beside which alone warps
/// compute by warpgroups.
inline int64_t rowsOfWarpgroup(tile::KernelOp kernel) {
  constexpr int64_t warps = 4;
  return sched::fillingWarps(kernel) ? kernel.getPlan().getTileQ() * warps / kernel.getPlan().getWarps() : 0;
}

} // namespace attune
