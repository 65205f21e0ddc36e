//===- BoxedRows.h - Which boxes TMA can copy at the end of the rows ---===//
#pragma once

#include "ir/tile/Tile.h"

namespace attune {

/// Whether `limit` is the extent of the tensor's row axis. TMA then fills the rows after `limit` with zeros by itself.
inline bool endsWithAxis(mlir::Value view, mlir::Value limit) {
  tile::OperandAttr operand = tile::operandOf(view);
  auto extent = limit.getDefiningOp<tile::AxisExtentOp>();
  return operand && extent && extent.getAxis() == operand.getAxes()[operand.getAxes().size() - 2].getName();
}

} // namespace attune
