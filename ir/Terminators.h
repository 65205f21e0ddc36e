//===- Terminators.h - How a region ends, before that is verified -----------===//
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Region.h"

namespace attune {

/// The op that ends the region's first block, or null where it is another one or there is none. An op's verifier runs
/// before those of its traits, which demand a terminator, so that text may have left it out.
template <typename Op> Op terminatorOf(mlir::Region &region) {
  mlir::Block &block = region.front();
  return block.empty() ? Op() : mlir::dyn_cast<Op>(block.back());
}

} // namespace attune
