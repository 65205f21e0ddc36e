//===- FloatRanges.h - Interval analysis of f32 values ------------------------===//
//
// Computes the interval that contains an f32 SSA value from the op that defines the value and the intervals of its
// operands. The intervals of functions are the bounds of include/attune/Functions.def; those of arithmetic are computed
// by dsl/FloatRange.h.
//
//     FloatRanges floats([&](Value integer) { return rangeOfInteger(integer); });
//     floats.of(x)                %x = math.tanh %y                             [-1.000001, 1.000001], or NaN
//     floats.ofTruncated(n)       %n = arith.fptosi %x : f32 to i32             [-1, 1]
//     floats.holds(c)             %c = arith.cmpf olt, %x, %c2_f32              nullopt: %x may be NaN
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dsl/FloatRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"

#include <functional>

namespace attune {

class FloatRanges {
public:
  /// Returns the range of an integer value, as a signed number.
  using OfInteger = std::function<dsl::Range(mlir::Value)>;

  /// Without `ofInteger` an integer may be any number of its type.
  explicit FloatRanges(OfInteger ofInteger = {}) : ofInteger(std::move(ofInteger)) {}

  /// The range of an f32 value. The result of an op that this analysis does not know may be any number or NaN.
  dsl::FloatRange of(mlir::Value value);
  /// The range of the result of a truncation.
  dsl::Range ofTruncated(mlir::arith::FPToSIOp truncation);
  /// The value of `condition` if the ranges of floats decide this value, else nullopt.
  std::optional<bool> holds(mlir::Value condition);

private:
  dsl::FloatRange compute(mlir::Value value);
  std::optional<bool> compare(mlir::arith::CmpFOp comparison);

  OfInteger ofInteger;
  llvm::DenseMap<mlir::Value, dsl::FloatRange> ranges;
};

} // namespace attune
