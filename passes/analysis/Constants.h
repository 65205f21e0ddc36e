//===- Constants.h - Constant operands --------------------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Matchers.h"
#include <optional>

namespace attune {

/// The f32 constant that `value` is, if it is one.
inline std::optional<float> constantFloat(mlir::Value value) {
  mlir::FloatAttr attribute;
  if (!value.getType().isF32() || !mlir::matchPattern(value, mlir::m_Constant(&attribute)))
    return std::nullopt;
  return attribute.getValue().convertToFloat();
}

/// `value` as a product with a constant: the other factor and the constant; null and 1 if it is no such product.
inline std::pair<mlir::Value, float> splitFactor(mlir::Value value) {
  if (auto product = value.getDefiningOp<mlir::arith::MulFOp>())
    for (auto [other, factor] :
         {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())})
      if (std::optional<float> constant = constantFloat(factor))
        return {other, *constant};
  return {nullptr, 1.0f};
}

} // namespace attune
