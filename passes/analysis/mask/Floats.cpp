//===- Floats.cpp - Solves float comparisons for the elements of a tile ---===//
//
// A comparison of a converted integer with a float that is uniform over the thread block becomes a comparison of
// integers, because conversion to float is monotone:
//
//     float(q - k) < w        is        q - k <= the last integer whose float is below w
//
// Beyond 2^24 floats are further apart than integers. The last integer is then found from the midpoint between w and
// the float before w. Any other float that depends on one axis is bounded by a per-tile table. A comparison that the
// bounds of functions decide (FloatRanges.h) needs no table, such as tanh(float(q)) < 2.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/mask/Visibility.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// Floats are clamped to this magnitude, which is above the magnitude of every compared integer (at most 2^32).
static constexpr float mostFloat = 0x1p33F;
/// A bound that no compared integer and no clamped float reaches: -noInteger is below and noInteger above all of them.
static constexpr int64_t noInteger = int64_t(1) << 34;
static constexpr mask::Range comparedIntegers = {-(int64_t(1) << 32), int64_t(1) << 32};
/// From this magnitude on, some integers are not representable as float.
static constexpr float lastExact = 0x1p24F;
/// x - |x| * toPrevious is the largest float below x.
static constexpr float toPrevious = 0x1.000002p-24F;

/// The last integer whose float is below the constant y.
static int64_t lastBelow(float y) {
  const float x = std::clamp(y, -mostFloat, mostFloat);
  int64_t last = 0;
  if (std::fabs(x) < lastExact)
    last = int64_t(std::ceil(x));
  else
    last = (int64_t(x) + int64_t(x - std::fabs(x) * toPrevious)) >> 1;
  return float(last) < y ? last : last - 1;
}

/// Emits the computation of lastBelow(y) for an SSA value y.
static Value emitLastBelow(OpBuilder &builder, Location loc, Value y) {
  const Type f32 = builder.getF32Type(), i64 = builder.getI64Type();
  auto real = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  };
  auto integer = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 64); };
  auto truncated = [&](Value x) -> Value { return arith::FPToSIOp::create(builder, loc, i64, x); };
  auto asFloat = [&](Value x) -> Value { return arith::SIToFPOp::create(builder, loc, f32, x); };
  auto less = [&](Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, x, y);
  };
  auto select = [&](Value condition, Value x, Value y) -> Value {
    return arith::SelectOp::create(builder, loc, condition, x, y);
  };
  auto plus = [&](Value x, int64_t value) -> Value { return arith::AddIOp::create(builder, loc, x, integer(value)); };
  Value x = arith::MaxNumFOp::create(builder, loc, arith::MinNumFOp::create(builder, loc, y, real(mostFloat)),
                                     real(-mostFloat));
  Value magnitude = math::AbsFOp::create(builder, loc, x), whole = truncated(x);
  Value above = select(less(asFloat(whole), x), plus(whole, 1), whole);
  Value before =
      arith::SubFOp::create(builder, loc, x, arith::MulFOp::create(builder, loc, magnitude, real(toPrevious)));
  Value middle =
      arith::ShRSIOp::create(builder, loc, arith::AddIOp::create(builder, loc, whole, truncated(before)), integer(1));
  Value last = select(less(magnitude, real(lastExact)), above, middle);
  return select(less(asFloat(last), y), last, plus(last, -1));
}

Linear Visibility::lastInteger(Value y, bool below, int64_t ofNaN) {
  // float(i) > y is equivalent to float(-i) < -y. If n is the last integer whose float is below -y, both are equivalent
  // to i >= -n. The last integer whose float is at most y is therefore -n - 1.
  auto mirrored = [&](const Linear &x) { return addConstant(scale(x, -1), -1); };
  FloatAttr constant;
  if (matchPattern(y, m_Constant(&constant))) {
    const float value = constant.getValue().convertToFloat();
    if (std::isnan(value))
      return constantOf(ofNaN);
    return below ? constantOf(lastBelow(value)) : mirrored(constantOf(lastBelow(-value)));
  }
  if (!builder)
    return unknownLinear();
  Value &known = lastIntegers[{y.getAsOpaquePointer(), unsigned(below)}];
  if (!known) {
    known = emitLastBelow(*builder, loc, below ? y : Value(arith::NegFOp::create(*builder, loc, y)));
    tile::named(known, "last_below");
  }
  const Linear last = base(known, {-noInteger, noInteger});
  Value isNumber = builder->createOrFold<arith::CmpFOp>(loc, arith::CmpFPredicate::ORD, y, y);
  return select({{}, isNumber}, below ? last : mirrored(last), constantOf(ofNaN));
}

std::optional<std::pair<Value, Value>> Visibility::floatEnds(Value value) {
  if (!isUniform(value))
    return builder && dependsOnOneAxis(value) ? tabledEnds(value) : std::nullopt;
  Value known = builder ? atBlock(value) : value;
  return std::pair(known, known);
}

/// The integer operand if `value` is a conversion from integer (not i1) to float, else null.
static Value integerOf(Value value) {
  auto conversion = value.getDefiningOp<arith::SIToFPOp>();
  return conversion && !conversion.getIn().getType().isInteger(1) ? conversion.getIn() : Value();
}

bool Visibility::comparesByTable(arith::CmpFOp compare) {
  if (floats.holds(compare) || !dependsOnOneAxis(compare))
    return false;
  Value x = compare.getLhs(), y = compare.getRhs();
  return !(integerOf(x) && isUniform(y)) && !(integerOf(y) && isUniform(x));
}

template <typename Set> Set Visibility::isLess(Value x, Value y, bool strictly, bool negate) {
  // One side is a converted integer; the other side is one float for the whole tile, or is bounded by a per-tile table.
  for (bool right : {false, true}) {
    Value integer = integerOf(right ? y : x), other = right ? x : y;
    if (!integer || isUniform(integer) || !form(integer).values.within(comparedIntegers))
      continue;
    auto ends = floatEnds(other);
    if (!ends)
      continue;
    // With the integer i on the left, the comparison is i <= last, where `last` is the last integer whose float fulfils
    // it. On the right it is i >= last + 1, where `last` is the last integer whose float does not. `last` for NaN is
    // chosen so that the comparison holds for no i.
    auto lastOf = [&](Value end) {
      return lastInteger(end, right ? !strictly : strictly, right ? noInteger : -noInteger);
    };
    Form last = exactly(lastOf(ends->first), {-noInteger, noInteger});
    if (ends->first != ends->second)
      last.hi = lastOf(ends->second);
    const Side value = {integer}, bound = {Value(), false, last};
    const bool isAtMost = right == negate;
    return isAtMost ? atMost<Set>(value, bound, 0) : atMost<Set>(bound, value, 1);
  }
  const bool isFixed = !dependsOn(x, loopedAxis) && !dependsOn(y, loopedAxis);
  auto a = floatEnds(x), b = floatEnds(y);
  if (!builder || !a || !b || (std::is_same_v<Set, Bounds> && !isFixed))
    return unknown<Set>();
  auto compare = [&](Value x, Value y) -> Value {
    return builder->createOrFold<arith::CmpFOp>(loc, strictly ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OLE,
                                                x, y);
  };
  Value any = compare(a->first, b->second), all = compare(a->second, b->first);
  // For a tile that contains NaN, the per-tile table has the bounds -inf and inf. No comparison with NaN holds, so a
  // comparison holds for all elements of the tile (`all`) only if the bounds are finite.
  auto require = [&](Value end, Value of) {
    if (isUniform(of))
      return;
    Value magnitude = math::AbsFOp::create(*builder, loc, end);
    Value infinity =
        arith::ConstantOp::create(*builder, loc, builder->getF32FloatAttr(std::numeric_limits<float>::infinity()));
    all = arith::AndIOp::create(*builder, loc, all,
                                arith::CmpFOp::create(*builder, loc, arith::CmpFPredicate::OLT, magnitude, infinity));
  };
  require(a->second, x);
  require(b->first, y);
  const Condition some{{}, any}, every{{}, all};
  return negate ? where<Set>(opposite(every), opposite(some)) : where<Set>(some, every);
}

template <typename Set> Set Visibility::compareFloats(arith::CmpFOp compare, bool negate) {
  using Predicate = arith::CmpFPredicate;
  if (std::optional<bool> known = floats.holds(compare))
    return where<Set>({*known != negate, {}});
  Value x = compare.getLhs(), y = compare.getRhs();
  auto both = [&](bool strictly, bool all, bool negate) {
    Set first = isLess<Set>(x, y, strictly, negate), second = isLess<Set>(y, x, strictly, negate);
    return all != negate ? conjunction(first, second) : disjunction(first, second);
  };
  // An unordered predicate (true for NaN) is the negation of an ordered predicate.
  switch (compare.getPredicate()) {
  case Predicate::OLT:
    return isLess<Set>(x, y, true, negate);
  case Predicate::UGE:
    return isLess<Set>(x, y, true, !negate);
  case Predicate::OLE:
    return isLess<Set>(x, y, false, negate);
  case Predicate::UGT:
    return isLess<Set>(x, y, false, !negate);
  case Predicate::OGT:
    return isLess<Set>(y, x, true, negate);
  case Predicate::ULE:
    return isLess<Set>(y, x, true, !negate);
  case Predicate::OGE:
    return isLess<Set>(y, x, false, negate);
  case Predicate::ULT:
    return isLess<Set>(y, x, false, !negate);
  case Predicate::OEQ:
    return both(false, true, negate);
  case Predicate::UNE:
    return both(false, true, !negate);
  case Predicate::ONE:
    return both(true, false, negate);
  case Predicate::UEQ:
    return both(true, false, !negate);
  default:
    return unknown<Set>();
  }
}

template Bounds Visibility::compareFloats<Bounds>(arith::CmpFOp compare, bool negate);
template Verdict Visibility::compareFloats<Verdict>(arith::CmpFOp compare, bool negate);
