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
  llvm::SmallVector<mlir::Value> pending = {value};
  llvm::DenseSet<mlir::Value> met; // what several ops need is followed once
  while (!pending.empty()) {
    mlir::Value next = pending.pop_back_val();
    if (next.getParentBlock() != &block || !met.insert(next).second)
      continue;
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(next)) {
      if (!is(argument))
        return false;
      continue;
    }
    mlir::Operation *producer = next.getDefiningOp();
    if (producer->getNumRegions() != 0 || !mlir::isMemoryEffectFree(producer))
      return false;
    llvm::append_range(pending, producer->getOperands());
  }
  return true;
}

} // namespace attune
