//===- Cloning.h - An op again, with what it needs --------------------------===//
//
// Where a pass computes a part of a loop's body at another place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// Clones `op` of `block` behind what it and its regions need of that block. What `mapping` holds is there already; ops
/// of other blocks stay.
inline void cloneWithOperands(mlir::Operation *op, mlir::Block *block, mlir::OpBuilder &builder,
                              mlir::IRMapping &mapping) {
  if (op->getBlock() != block || mapping.contains(op))
    return;
  op->walk([&](mlir::Operation *nested) {
    for (mlir::Value operand : nested->getOperands())
      if (mlir::Operation *producer = operand.getDefiningOp())
        cloneWithOperands(producer, block, builder, mapping);
  });
  builder.clone(*op, mapping);
}

/// The values, of `block` or from outside of it, as `mapping` has them, computed again with what they need.
inline llvm::SmallVector<mlir::Value> cloneValues(mlir::ValueRange values, mlir::Block *block, mlir::OpBuilder &builder,
                                                  mlir::IRMapping &mapping) {
  return llvm::map_to_vector(values, [&](mlir::Value value) {
    if (mlir::Operation *producer = value.getDefiningOp())
      cloneWithOperands(producer, block, builder, mapping);
    return mapping.lookupOrDefault(value);
  });
}

} // namespace attune
