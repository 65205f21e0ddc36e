//===- BoxedRows.h - Where the rows of a tile end, for boxes of TMA ---===//
#pragma once

#include "passes/analysis/MapPatterns.h"

namespace attune {

/// Whether rows of a tile end at `limit` where those of the tensor do: TMA fills what lies after them with zeros.
inline bool endsWithAxis(mlir::Value view, mlir::Value limit) {
  tile::OperandAttr operand = tile::operandOf(view);
  auto extent = limit.getDefiningOp<tile::AxisExtentOp>();
  return operand && extent && extent.getAxis() == operand.getAxes()[operand.getAxes().size() - 2].getName();
}

/// Whether rows end at a multiple of 16, or where the axis does: of pages it is one, and of rows in one piece TMA knows it.
inline bool endsInGroups(mlir::Value limit) {
  if (auto least = limit.getDefiningOp<mlir::arith::MinSIOp>())
    return endsInGroups(least.getLhs()) && endsInGroups(least.getRhs());
  return limit.getDefiningOp<tile::AxisExtentOp>() || isMultipleOf(limit, 16);
}

/// Whether single rows of the tile that `limit` lies in are copied: no larger box ends there.
inline bool takesSingleRows(tile::LoadOp load) {
  return load.getType().rank() == 2 && !endsWithAxis(load.getView(), load.getLimit()) && !endsInGroups(load.getLimit());
}

} // namespace attune
