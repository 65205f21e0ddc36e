//===- Cloning.h - Clones an op with the ops that it depends on -------------===//
//
// Used by passes that recompute a part of a loop's body at another place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// Clones `op`, preceded by the ops of `block` that `op` and its regions depend on. Ops that `mapping` already contains
/// and ops of other blocks are not cloned.
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

/// Returns the clones of `values`, after cloning the ops of `block` that `values` depend on. A value defined outside of
/// `block` is returned unchanged, or as `mapping` replaces it.
inline llvm::SmallVector<mlir::Value> cloneValues(mlir::ValueRange values, mlir::Block *block, mlir::OpBuilder &builder,
                                                  mlir::IRMapping &mapping) {
  return llvm::map_to_vector(values, [&](mlir::Value value) {
    if (mlir::Operation *producer = value.getDefiningOp())
      cloneWithOperands(producer, block, builder, mapping);
    return mapping.lookupOrDefault(value);
  });
}

} // namespace attune
