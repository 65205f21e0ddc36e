//===- WarpgroupRows.h - How many of a thread block's query rows a warpgroup holds ---===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// The query rows that each warpgroup holds: the plan's size along q divided by the number of warpgroups. 0 for kernels
/// without producer warps, which compute by warps instead of warpgroups.
inline int64_t rowsOfWarpgroup(tile::KernelOp kernel) {
  constexpr int64_t warps = 4;
  return sched::hasAsyncProducts(kernel) ? kernel.getPlan().getSize("q") * warps / kernel.getPlan().getWarps() : 0;
}

} // namespace attune
