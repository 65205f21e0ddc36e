//===- LiveTiles.h - Shared tiles that are live at the same time --------------===//
//
// A tile kernel has no buffers yet, but the shared memory that it needs follows from the live ranges of its shared
// tiles. Example, 8 KB a tile and two stages a ring:
//
//     q = load            live to its last use
//     for k: k0 = load    its ring is live during the loop          q, k0, k0:           24 KB
//     for k: k1 = load    its ring may reuse the memory of k0       q, k1, k1, v, v:     40 KB, the most
//            v  = load
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "llvm/ADT/SmallVector.h"

namespace attune {

/// The largest set (by bytes) of shared tiles that are live at the same time, as the ops that define the tiles, in
/// program order. With roles, all shared tiles are live during the whole kernel, because the roles run concurrently.
llvm::SmallVector<mlir::Operation *> largestLiveTiles(tile::KernelOp kernel);

} // namespace attune
