//===- Constants.h - Constant operands --------------------------------------===//
#pragma once

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

} // namespace attune
