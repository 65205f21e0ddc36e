//===- CopiedTiles.h - Loads that are copies to shared memory ----------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/Dependences.h"

namespace attune {

inline bool isCopied(tile::LoadOp load) { return load.getResult().getType().getSpace() == tile::MemorySpace::Shared; }

/// Whether values in `loop` follow from the loop's tile, its round and what is known before the loop.
inline bool followFromTile(tile::ForBlocksOp loop, mlir::ValueRange values) {
  mlir::Block &body = loop.getBody().front();
  auto isPlace = [&](mlir::BlockArgument argument) {
    return argument == loop.getOrigin() || argument == loop.getIteration();
  };
  return llvm::all_of(values, [&](mlir::Value operand) {
    return !loop->isAncestor(operand.getParentBlock()->getParentOp()) ||
           (operand.getParentBlock() == &body && followsOnlyFrom(operand, body, isPlace));
  });
}

/// Whether where a load of `loop` lies follows so: its copy can run ahead.
inline bool runsAhead(tile::ForBlocksOp loop, tile::LoadOp load) { return followFromTile(loop, load->getOperands()); }

/// How many tiles the ring of what `op` gives, or takes to memory, holds. Where the text says nothing: one before the loop and
/// of those that leave, else as many as that of the loop's first copy, or two.
inline int64_t ringDepth(mlir::Operation *op) {
  if (sched::RingAttr ring = sched::ringOf(op))
    return ring.getStages();
  auto loop = op->getParentOfType<tile::ForBlocksOp>();
  if (!loop || op->getNumResults() == 0)
    return 1;
  for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
    if (isCopied(load))
      return sched::ringOf(load) ? sched::ringOf(load).getStages() : 2;
  return 2;
}

/// The type of a ring of `stages` such tiles.
inline tile::TileType ringType(tile::TileType type, int64_t stages) {
  llvm::SmallVector<mlir::StringAttr> axes{mlir::StringAttr::get(type.getContext(), "stage")};
  llvm::SmallVector<int64_t> shape{stages};
  llvm::append_range(axes, type.getAxes());
  llvm::append_range(shape, type.getShape());
  return tile::TileType::get(type.getContext(), axes, shape, type.getElementType(), type.getSpace(), type.getLayout());
}

} // namespace attune
