//===- CopiedTiles.h - Loads that are copies to shared memory ----------------===//
#pragma once

#include "ir/tile/Tile.h"

namespace attune {

inline bool isCopied(tile::LoadOp load) { return load.getResult().getType().getSpace() == tile::MemorySpace::Shared; }

/// Whether where a load of `loop` lies follows from the loop's tile and what is known before the loop: its copy can run
/// ahead.
inline bool runsAhead(tile::ForBlocksOp loop, tile::LoadOp load) {
  return llvm::all_of(load->getOperands(), [&](mlir::Value operand) {
    return operand == loop.getOrigin() || !loop->isAncestor(operand.getParentBlock()->getParentOp());
  });
}

} // namespace attune
