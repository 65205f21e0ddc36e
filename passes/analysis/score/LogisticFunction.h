//===- LogisticFunction.h - Matches 1 / (1 + exp(y)) -------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

namespace attune {

/// The exponential (math.exp or math.exp2), if `division` is 1 / (1 + exponential); else null.
inline mlir::Operation *exponentialOfLogistic(mlir::arith::DivFOp division) {
  auto isOne = [](mlir::Value value) { return mlir::matchPattern(value, mlir::m_OneFloat()); };
  auto sum = division.getRhs().getDefiningOp<mlir::arith::AddFOp>();
  if (!sum || !isOne(division.getLhs()) || (!isOne(sum.getLhs()) && !isOne(sum.getRhs())))
    return nullptr;
  mlir::Operation *exponential = (isOne(sum.getLhs()) ? sum.getRhs() : sum.getLhs()).getDefiningOp();
  return mlir::isa_and_nonnull<mlir::math::ExpOp, mlir::math::Exp2Op>(exponential) ? exponential : nullptr;
}

} // namespace attune
