//===- Dependences.h - Searches the use-def chain of a value ---------------===//
#pragma once

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace attune {

/// The op that defines `value` and the ops that `value` depends on through operands, each once. The search stops at block
/// arguments.
inline llvm::SetVector<mlir::Operation *> dependencesOf(mlir::Value value) {
  llvm::SetVector<mlir::Operation *> slice;
  mlir::BackwardSliceOptions options;
  options.omitBlockArguments = options.inclusive = true;
  (void)mlir::getBackwardSlice(value, &slice, options);
  return slice;
}

/// Whether `is` holds for an op of dependencesOf(value).
inline bool followsFrom(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> is) {
  return llvm::any_of(dependencesOf(value), is);
}

/// Whether `value` is computed only from arguments of `block` for which `is` holds and from values defined outside of
/// `block`, by ops without regions and without memory effects.
inline bool followsOnlyFrom(mlir::Value value, mlir::Block &block, llvm::function_ref<bool(mlir::BlockArgument)> is) {
  llvm::SmallVector<mlir::Value> pending = {value};
  llvm::DenseSet<mlir::Value> met; // values that are already searched
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
