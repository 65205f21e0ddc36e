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

/// The ops whose shared tiles take most memory at any one time, in the order of the kernel. With roles, all shared
/// tiles are live during the whole kernel, because the roles run concurrently.
llvm::SmallVector<mlir::Operation *> largestLiveTiles(tile::KernelOp kernel);

} // namespace attune
