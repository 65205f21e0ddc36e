//===- LeadingProducts.h - Products of a block and what they follow from ------===//
#pragma once

#include "ir/tile/Tile.h"
#include "passes/analysis/BlockDependences.h"

namespace attune {

/// Whether `value` follows from a product of the block.
inline bool followsFromProduct(const BlockDependences &dependences, mlir::Value value) {
  return dependences.follows(value, [](mlir::Operation *op) { return mlir::isa<tile::MmaOp>(op); });
}

/// Whether a product of the block follows from no other of it, and can start first.
inline bool leads(const BlockDependences &dependences, tile::MmaOp product) {
  return llvm::none_of(product->getOperands(),
                       [&](mlir::Value operand) { return followsFromProduct(dependences, operand); });
}

} // namespace attune
