//===- Slices.h - What a value follows from -----------------------------------===//
#pragma once

#include "mlir/Analysis/SliceAnalysis.h"

namespace attune {

/// Whether `value` is the result of an op that meets `is`, or follows from one by operands. Arguments of blocks end the way.
inline bool followsFrom(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> is) {
  llvm::SetVector<mlir::Operation *> slice;
  mlir::BackwardSliceOptions options;
  options.omitBlockArguments = options.inclusive = true;
  (void)mlir::getBackwardSlice(value, &slice, options);
  return llvm::any_of(slice, is);
}

} // namespace attune
