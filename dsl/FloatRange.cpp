//===- FloatRange.cpp - Interval arithmetic of float32 values ---------------===//
#include "dsl/FloatRange.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>

namespace attune::dsl {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), pi = std::numbers::pi;
constexpr double largest = std::numeric_limits<float>::max(), leastNormal = std::numeric_limits<float>::min();
constexpr FloatRange unknown;

/// Relative and absolute error of an end that a function's approximations may have (passes/attn/TileSize.h and DESIGN:
/// 2^-9 for scores), and the relative error of a few float32 operations.
constexpr double functionError = 0x1p-8, nearZeroError = 0x1p-20, roundingError = 0x1p-20;

/// The range from `low` to `high`, computed in double, as values that are rounded to float32.
FloatRange rounded(double low, double high, bool mayBeNan) {
  auto outward = [](double end, double away) {
    if (std::isinf(end))
      return end;
    end += std::copysign(std::fabs(end) * roundingError, away);
    // A number beyond the largest float may have become infinite, and a subnormal number 0.
    if (std::fabs(end) >= largest)
      return std::signbit(end) == std::signbit(away) ? std::copysign(inf, away) : std::copysign(largest, end);
    if (std::fabs(end) < 2 * leastNormal)
      return std::signbit(end) == std::signbit(away) ? std::copysign(2 * leastNormal, away) * (end != 0) : 0.0;
    return end;
  };
  return {outward(low, -1), outward(high, 1), mayBeNan};
}

/// The hull of results at the corners of two ranges. A corner without a result (0 * inf, inf / inf) leaves the other
/// corners.
FloatRange hullOf(std::initializer_list<double> corners, bool mayBeNan) {
  double low = inf, high = -inf;
  for (double corner : corners)
    if (std::isnan(corner)) {
      mayBeNan = true;
    } else {
      low = std::min(low, corner);
      high = std::max(high, corner);
    }
  return low > high ? FloatRange{} : rounded(low, high, mayBeNan);
}

bool holdsZero(FloatRange x) { return x.low <= 0 && x.high >= 0; }
bool holdsInfinity(FloatRange x) { return x.low == -inf || x.high == inf; }

/// x, with 0 where subnormal numbers may have become 0.
FloatRange flushed(FloatRange x) {
  if (x.low > 0 && x.low < 2 * leastNormal)
    x.low = 0;
  if (x.high < 0 && x.high > -2 * leastNormal)
    x.high = 0;
  return x;
}

/// The bounds of Functions.def, for a function `value` of x. The result may be NaN if x may be, or if the function has
/// no value at an end of x: each function has values on an interval.
class Bounds {
public:
  Bounds(double (*value)(double), FloatRange x) : value(value), x(x) {}

  FloatRange between(double least, double most) const {
    const FloatRange limits = rounded(least, most, false);
    return {limits.low, limits.high, x.mayBeNan || std::isnan(value(x.low)) || std::isnan(value(x.high))};
  }
  FloatRange rising(double least, double most) const { return monotonic(value(x.low), value(x.high), least, most); }
  FloatRange falling(double least, double most) const { return monotonic(value(x.high), value(x.low), least, most); }

private:
  FloatRange monotonic(double low, double high, double least, double most) const {
    FloatRange result = between(least, most);
    auto margin = [](double end) { return std::fabs(end) * functionError + nearZeroError; };
    if (!std::isnan(low))
      result.low = std::isinf(low) ? low : std::clamp(low - margin(low), result.low, result.high);
    if (!std::isnan(high))
      result.high = std::isinf(high) ? high : std::clamp(high + margin(high), result.low, result.high);
    // A finite number beyond the largest float is infinite in float32.
    result.low = result.low > largest ? largest : result.low;
    result.high = result.high >= largest ? inf : result.high;
    result.low = result.low <= -largest ? -inf : result.low;
    result.high = result.high < -largest ? -largest : result.high;
    return result;
  }

  double (*value)(double);
  FloatRange x;
};

} // namespace

FloatRange FloatRange::of(double value) { return std::isnan(value) ? FloatRange{} : FloatRange{value, value, false}; }
FloatRange FloatRange::of(Range integers) { return rounded(double(integers.low), double(integers.high), false); }
FloatRange FloatRange::finite() { return {-largest, largest, false}; }
bool FloatRange::isFinite() const { return within(-largest, largest); }

FloatRange join(FloatRange x, FloatRange y) {
  return {std::min(x.low, y.low), std::max(x.high, y.high), x.mayBeNan || y.mayBeNan};
}

FloatRange negated(FloatRange x) { return {-x.high, -x.low, x.mayBeNan}; }

FloatRange magnitude(FloatRange x) {
  if (holdsZero(x))
    return {0, std::max(-x.low, x.high), x.mayBeNan};
  return x.low > 0 ? x : negated(x);
}

FloatRange sum(FloatRange x, FloatRange y) {
  const bool mayCancel = (x.low == -inf && y.high == inf) || (x.high == inf && y.low == -inf);
  const double low = x.low + y.low, high = x.high + y.high;
  return rounded(std::isnan(low) ? -inf : low, std::isnan(high) ? inf : high, x.mayBeNan || y.mayBeNan || mayCancel);
}

FloatRange product(FloatRange x, FloatRange y) {
  // A corner 0 * inf is NaN. Numbers near that corner have products between those of the other corners.
  const bool mayVanish = (holdsZero(x) && holdsInfinity(y)) || (holdsInfinity(x) && holdsZero(y));
  return hullOf({x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high},
                x.mayBeNan || y.mayBeNan || mayVanish);
}

FloatRange quotient(FloatRange x, FloatRange y) {
  y = flushed(y);
  if (holdsZero(y))
    return unknown;
  const bool bothInfinite = holdsInfinity(x) && holdsInfinity(y);
  return bothInfinite
             ? unknown
             : hullOf({x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high}, x.mayBeNan || y.mayBeNan);
}

FloatRange minimum(FloatRange x, FloatRange y) {
  FloatRange result{std::min(x.low, y.low), std::min(x.high, y.high), x.mayBeNan && y.mayBeNan};
  if (x.mayBeNan)
    result.high = std::max(result.high, y.high);
  if (y.mayBeNan)
    result.high = std::max(result.high, x.high);
  return result;
}

FloatRange maximum(FloatRange x, FloatRange y) { return negated(minimum(negated(x), negated(y))); }

FloatRange rangeOf(Op op, FloatRange x, FloatRange y) {
  x = flushed(x);
  y = flushed(y);
  switch (op) {
  case Op::Add:
    return sum(x, y);
  case Op::Sub:
    return sum(x, negated(y));
  case Op::Mul:
    return product(x, y);
  case Op::Div:
    return quotient(x, y);
  case Op::Min:
    return minimum(x, y);
  case Op::Max:
    return maximum(x, y);
  case Op::Neg:
    return negated(x);
  case Op::Abs:
    return magnitude(x);
#define ATTUNE_BOUNDS(value, ofNan, bounds)                                                                            \
  const Bounds of([]([[maybe_unused]] double x) -> double { return value; }, x);                                       \
  [[maybe_unused]] auto between = [&](double least, double most) { return of.between(least, most); };                  \
  [[maybe_unused]] auto rising = [&](double least, double most) { return of.rising(least, most); };                    \
  [[maybe_unused]] auto falling = [&](double least, double most) { return of.falling(least, most); };                  \
  FloatRange result = bounds;                                                                                          \
  result.mayBeNan = result.mayBeNan || (ofNan);                                                                        \
  return result;
#define ATTUNE_FUNCTION1(op, name, value, mlir, cuda, quick, costs, gradient, bounds, summary)                         \
  case Op::op: {                                                                                                       \
    ATTUNE_BOUNDS(value, false, bounds)                                                                                \
  }
#define ATTUNE_FUNCTION2(op, name, value, mlir, cuda, costs, gradientOfX, gradientOfY, bounds, summary)                \
  case Op::op: {                                                                                                       \
    ATTUNE_BOUNDS(x, y.mayBeNan, bounds)                                                                               \
  }
#define ATTUNE_EXPANDED1(op, name, value, bounds, summary)                                                             \
  case Op::op: {                                                                                                       \
    ATTUNE_BOUNDS(value, false, bounds)                                                                                \
  }
#include "attune/Functions.def"
#undef ATTUNE_BOUNDS
  default:
    return unknown;
  }
}

std::optional<bool> isLess(FloatRange x, FloatRange y, bool strictly) {
  // No comparison with NaN holds.
  if (strictly ? x.low >= y.high : x.low > y.high)
    return false;
  if (x.mayBeNan || y.mayBeNan || !(strictly ? x.high < y.low : x.high <= y.low))
    return std::nullopt;
  return true;
}

Range truncated(FloatRange x, DType type) {
  const bool isWide = type == DType::I64;
  const Range all = isWide ? Range{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}
                           : Range{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  auto saturated = [&](double end) {
    return end <= double(all.low) ? all.low : end >= double(all.high) ? all.high : int64_t(end);
  };
  const Range result{saturated(x.low), saturated(x.high)};
  return x.mayBeNan ? Range{std::min<int64_t>(result.low, 0), std::max<int64_t>(result.high, 0)} : result;
}

} // namespace attune::dsl
