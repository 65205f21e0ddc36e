//===- Terminators.h - The terminator of a region before verification --------===//
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Region.h"

namespace attune {

/// The terminator of the region's first block if the terminator is an `Op`, else null. An op's own verifier runs before
/// the verifiers of its traits that require a terminator, so parsed text may still lack the terminator.
template <typename Op> Op terminatorOf(mlir::Region &region) {
  mlir::Block &block = region.front();
  return block.empty() ? Op() : mlir::dyn_cast<Op>(block.back());
}

} // namespace attune
