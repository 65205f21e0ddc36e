//===- LeadingProducts.h - Products that depend on no other product ----------===//
#pragma once

#include "ir/tile/Tile.h"
#include "passes/analysis/dataflow/BlockDependences.h"

namespace attune {

/// Whether `value` depends on the result of a product of the analysed IR block.
inline bool followsFromProduct(const BlockDependences &dependences, mlir::Value value) {
  return dependences.follows(value, [](mlir::Operation *op) { return mlir::isa<tile::MmaOp>(op); });
}

/// Whether `product` depends on no other matrix product of its IR block, so that `product` can be issued first.
inline bool leads(const BlockDependences &dependences, tile::MmaOp product) {
  return llvm::none_of(product->getOperands(),
                       [&](mlir::Value operand) { return followsFromProduct(dependences, operand); });
}

} // namespace attune
