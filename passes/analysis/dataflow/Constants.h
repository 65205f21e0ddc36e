//===- Constants.h - Matches float constants and constant factors -----------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Matchers.h"
#include <optional>

namespace attune {

/// The value of an f32 constant; nullopt if `value` is anything else.
inline std::optional<float> constantFloat(mlir::Value value) {
  mlir::FloatAttr attribute;
  if (!value.getType().isF32() || !mlir::matchPattern(value, mlir::m_Constant(&attribute)))
    return std::nullopt;
  return attribute.getValue().convertToFloat();
}

/// Splits `value` = x * constant into x and the constant; null and 1 if `value` is no such product.
inline std::pair<mlir::Value, float> splitFactor(mlir::Value value) {
  if (auto product = value.getDefiningOp<mlir::arith::MulFOp>())
    for (auto [other, factor] :
         {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())})
      if (std::optional<float> constant = constantFloat(factor))
        return {other, *constant};
  return {nullptr, 1.0f};
}

} // namespace attune
