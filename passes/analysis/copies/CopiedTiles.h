//===- CopiedTiles.h - Copies to shared memory and the depth of their rings --===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/dataflow/Dependences.h"

namespace attune {

inline bool isCopied(tile::LoadOp load) { return load.getResult().getType().getSpace() == tile::MemorySpace::Shared; }

/// Whether `values` depend only on the origin of the loop's tile, on the loop's iteration over heads of a group (see
/// `times` of tile.domain) and on values defined before the loop.
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

/// Whether the copy of `load` can be issued several tiles ahead of its use: its operands (view, indices, limit) depend
/// only on the tile's origin, on the loop's iteration over heads and on values defined before the loop.
inline bool runsAhead(tile::ForBlocksOp loop, tile::LoadOp load) { return followFromTile(loop, load->getOperands()); }

/// The number of stages of the ring that holds the result of `op`, or the tile that `op` stores. If `op` has no
/// `sched.ring` attribute, the number is
/// - one outside of loops, for stores, and for two-dimensional tiles that the computing warps write from registers
///   (tile.convert);
/// - else the number of the loop's first copy to shared memory, or two if that copy has no `sched.ring` either.
inline int64_t ringDepth(mlir::Operation *op) {
  if (sched::RingAttr ring = sched::ringOf(op))
    return ring.getStages();
  if (auto convert = mlir::dyn_cast<tile::ConvertOp>(op))
    if (tile::TileType type = convert.getResult().getType(); type.rank() == 2 && !tile::isRelative(type))
      return 1;
  auto loop = op->getParentOfType<tile::ForBlocksOp>();
  if (!loop || op->getNumResults() == 0)
    return 1;
  for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
    if (isCopied(load))
      return sched::ringOf(load) ? sched::ringOf(load).getStages() : 2;
  return 2;
}

/// The type of a ring with `stages` tiles of `type`: `type` with a leading axis "stage".
inline tile::TileType ringType(tile::TileType type, int64_t stages) {
  llvm::SmallVector<mlir::StringAttr> axes{mlir::StringAttr::get(type.getContext(), "stage")};
  llvm::SmallVector<int64_t> shape{stages};
  llvm::append_range(axes, type.getAxes());
  llvm::append_range(shape, type.getShape());
  return tile::TileType::get(type.getContext(), axes, shape, type.getElementType(), type.getSpace(), type.getLayout());
}

} // namespace attune
