//===- StoredTiles.h - Register tiles that TMA stores to global memory ---===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Whether `limit` is the extent of the tensor's row axis. TMA then ends at `limit` by itself.
inline bool endsWithAxis(mlir::Value view, mlir::Value limit) {
  tile::OperandAttr operand = tile::operandOf(view);
  auto extent = limit.getDefiningOp<tile::AxisExtentOp>();
  return operand && extent && extent.getAxis() == operand.getAxes()[operand.getAxes().size() - 2].getName();
}

/// Over how many warpgroups the columns of a register tile are split, where each warpgroup holds 64 rows:
///
///     warpgroups   tile       of one warpgroup   column splits
///     2            128 x 64   64 x 64            1
///     2            64 x 128   64 x 64            2
///
/// 0 if the tile cannot be split evenly in this way.
inline int64_t columnSplits(tile::KernelOp kernel, tile::TileType type) {
  if (type.rank() != 2 || type.getSpace() != tile::MemorySpace::Register)
    return 0;
  const int64_t rows = 16 * kernel.getPlan().getWarps(), own = type.getShape()[0];
  const int64_t shares = own && own % 64 == 0 && rows % own == 0 ? rows / own : 0;
  return shares && type.getShape()[1] % (8 * shares) == 0 ? shares : 0;
}

/// Whether TMA can store the register tile of `op`, a `tile.store` or `tile.accumulate` of the consumer role, to global
/// memory in boxes. The tile must be split evenly over the warpgroups
/// (columnSplits), and the tensor must have four dimensions. Elements must be f32 or, for tile.store, 16 bits wide.
template <typename Op> bool fitsBoxes(tile::KernelOp kernel, Op op) {
  tile::OperandAttr operand = tile::operandOf(op.getView());
  const mlir::Type element = op.getView().getType().getElementType();
  const bool fits = element.isF32() || (mlir::isa<tile::StoreOp>(op) && element.getIntOrFloatBitWidth() == 16);
  const auto type = mlir::cast<tile::TileType>(op.getTile().getType());
  // Only views of a parameter qualify: the rows of a packed group or of pages are not contiguous in memory.
  return fits && columnSplits(kernel, type) && op.getView().template getDefiningOp<tile::ParamOp>() && operand &&
         operand.isTiled() && operand.getColumns() <= type.getShape()[1] && operand.getAxes().size() == 4;
}

/// Whether TMA can store every tile of `op` in boxes: rows from the limit on are outside of the tensor.
template <typename Op> bool isStoredInBoxes(tile::KernelOp kernel, Op op) {
  return fitsBoxes(kernel, op) && endsWithAxis(op.getView(), op.getLimit());
}

} // namespace attune
