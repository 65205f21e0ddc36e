//===- StoredTiles.h - Register tiles that TMA takes to memory ---===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/BoxedRows.h"

namespace attune {

/// Warpgroups that share the columns of a tile of which each has 64 rows:
///
///     warpgroups   tile       a warpgroup's      shares
///     2            128 x 64   64 x 64            1
///     2            64 x 128   64 x 64            2
///
/// 0 where they do not share it so.
inline int64_t columnSplits(tile::KernelOp kernel, tile::TileType type) {
  if (type.rank() != 2 || type.getSpace() != tile::MemorySpace::Register)
    return 0;
  const int64_t rows = 16 * kernel.getPlan().getWarps(), own = type.getShape()[0];
  const int64_t shares = own && own % 64 == 0 && rows % own == 0 ? rows / own : 0;
  return shares && type.getShape()[1] % (8 * shares) == 0 ? shares : 0;
}

/// Whether TMA can take what `op`, a `tile.store` or `tile.accumulate` of a role that computes, gives to memory:
/// from a tile of the warpgroups to a tensor of four dimensions, in boxes, floats or, of a store, 16 bits.
template <typename Op> bool isStoredInBoxes(tile::KernelOp kernel, Op op) {
  tile::OperandAttr operand = tile::operandOf(op.getView());
  const mlir::Type element = op.getView().getType().getElementType();
  const bool fits = element.isF32() || (mlir::isa<tile::StoreOp>(op) && element.getIntOrFloatBitWidth() == 16);
  const auto type = mlir::cast<tile::TileType>(op.getTile().getType());
  // Rows of a group or of pages lie elsewhere than one after the other.
  return fits && columnSplits(kernel, type) && op.getView().template getDefiningOp<tile::ParamOp>() && operand &&
         operand.isTiled() && operand.getColumns() <= type.getShape()[1] && operand.getAxes().size() == 4 &&
         endsWithAxis(op.getView(), op.getLimit());
}

} // namespace attune
