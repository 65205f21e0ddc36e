//===- Dependences.h - What a value follows from ---------------------------===//
#pragma once

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace attune {

/// Whether `value` is the result of an op that meets `is`, or follows from one by operands. Arguments of blocks end the
/// way.
inline bool followsFrom(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> is) {
  llvm::SetVector<mlir::Operation *> slice;
  mlir::BackwardSliceOptions options;
  options.omitBlockArguments = options.inclusive = true;
  (void)mlir::getBackwardSlice(value, &slice, options);
  return llvm::any_of(slice, is);
}

/// Whether `value` follows, by ops of `block` without regions and effects, from those of its arguments alone that meet
/// `is`, and from what stands outside.
inline bool followsOnlyFrom(mlir::Value value, mlir::Block &block, llvm::function_ref<bool(mlir::BlockArgument)> is) {
  if (value.getParentBlock() != &block)
    return true;
  mlir::Operation *producer = value.getDefiningOp();
  if (!producer)
    return is(mlir::cast<mlir::BlockArgument>(value));
  return producer->getNumRegions() == 0 && mlir::isMemoryEffectFree(producer) &&
         llvm::all_of(producer->getOperands(),
                      [&](mlir::Value operand) { return followsOnlyFrom(operand, block, is); });
}

} // namespace attune
