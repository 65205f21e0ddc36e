//===- FloatRange.h - Interval arithmetic of float32 values -----------------===//
//
// The ranges of the functions are the bounds in Functions.def. The ranges of operators and functions hold for every
// target: ends are widened for float32 rounding, for the approximate functions of kernels without `precise`, and for
// subnormal numbers that become 0. A bound of a function that is 0 or infinite is exact.
//
//     rangeOf(Op::Sigmoid, {})                        [0, 1.000001], or NaN
//     product(FloatRange::of(8), that)                [0, 8.00002], or NaN
//     truncated(that, DType::I32)                     [0, 8]
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Expr.h"

#include <limits>
#include <optional>

namespace attune::dsl {

/// A minimum and a maximum of an integer, both inclusive.
struct Range {
  int64_t low = 0, high = 0;
  bool within(int64_t least, int64_t greatest) const { return low >= least && high <= greatest; }
};

/// The numbers that a float32 value may be, from `low` to `high`, and whether it may be NaN. An end that is 0 includes
/// both zeros. By default nothing is known.
struct FloatRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool mayBeNan = true;

  static FloatRange of(double value);
  static FloatRange of(Range integers);
  /// Any number but infinities and NaN.
  static FloatRange finite();
  bool within(double least, double greatest) const { return !mayBeNan && low >= least && high <= greatest; }
  bool isFinite() const;
};

FloatRange join(FloatRange x, FloatRange y);
FloatRange negated(FloatRange x);
FloatRange magnitude(FloatRange x);
FloatRange sum(FloatRange x, FloatRange y);
FloatRange product(FloatRange x, FloatRange y);
FloatRange quotient(FloatRange x, FloatRange y);
/// Of a number and NaN the number is the result.
FloatRange minimum(FloatRange x, FloatRange y);
FloatRange maximum(FloatRange x, FloatRange y);

/// The range of the operator or function `op` of floats, for operands in the ranges x and y; unknown for any other
/// operation.
FloatRange rangeOf(Op op, FloatRange x, FloatRange y = {});

/// Whether x < y (or x <= y, if not `strictly`): for all values of the ranges, for none, or nullopt.
std::optional<bool> isLess(FloatRange x, FloatRange y, bool strictly);

/// The range of a cast to i32 or i64, which truncates, saturates, and gives 0 for NaN.
Range truncated(FloatRange x, DType type);

} // namespace attune::dsl
