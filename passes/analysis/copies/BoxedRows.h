//===- BoxedRows.h - Which boxes TMA can copy at the end of the rows ---===//
#pragma once

#include "passes/analysis/score/MapPatterns.h"

namespace attune {

/// Whether `limit` is the extent of the tensor's row axis. TMA then fills the rows after `limit` with zeros by itself.
inline bool endsWithAxis(mlir::Value view, mlir::Value limit) {
  tile::OperandAttr operand = tile::operandOf(view);
  auto extent = limit.getDefiningOp<tile::AxisExtentOp>();
  return operand && extent && extent.getAxis() == operand.getAxes()[operand.getAxes().size() - 2].getName();
}

/// Whether `limit` is a multiple of 16 or an extent, so that TMA can copy boxes of 16 rows up to `limit`. An extent is
/// enough for both layouts of keys: paged keys have a multiple of 16 rows, and the tensor map of contiguous rows ends
/// at the extent.
inline bool endsInGroups(mlir::Value limit) {
  if (auto least = limit.getDefiningOp<mlir::arith::MinSIOp>())
    return endsInGroups(least.getLhs()) && endsInGroups(least.getRhs());
  return limit.getDefiningOp<tile::AxisExtentOp>() || isMultipleOf(limit, 16);
}

/// Whether the tile that contains `limit` is copied one box a row, because no larger box ends exactly at `limit`.
inline bool takesSingleRows(tile::LoadOp load) {
  return load.getType().rank() == 2 && !endsWithAxis(load.getView(), load.getLimit()) && !endsInGroups(load.getLimit());
}

} // namespace attune
