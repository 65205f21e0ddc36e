//===- WarpgroupRows.h - The rows of a block that a warpgroup holds --------===//
#pragma once

#include "ir/tile/Tile.h"

namespace attune {

/// Query rows of a warpgroup, a part of the plan's `tile_q`; 0 where the plan has no copy warps, whose kernels alone
/// compute by warpgroups.
inline int64_t rowsOfWarpgroup(tile::PlanAttr plan) {
  constexpr int64_t warps = 4;
  return plan.getCopyWarps() ? plan.getTileQ() * warps / plan.getWarps() : 0;
}

} // namespace attune
