//===- Comparisons.cpp - Solves integer comparisons for the elements of a tile ===//

#include "passes/analysis/mask/Visibility.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// Whether nothing is known about a value with the form `x` (linear function of q and k) but that it is an i32.
static bool isVague(const Form &x) {
  return !x.looped && !x.fixed && x.lo.isConstant() && x.hi.isConstant() && x.lo.constant <= int32Range.lo &&
         x.hi.constant >= int32Range.hi;
}

Verdict Visibility::compare(Form x, Form y, bool strictly) {
  if (isVague(x) || isVague(y))
    return unknown<Verdict>();
  // Subtracting y from x cancels the multiples of a position (q or k) that x and y have in common.
  if (((x.looped && y.looped) || (x.fixed && y.fixed)) && (!x.looped || !y.looped || x.divisor == y.divisor)) {
    x = sum(x, signedForm(y, true), int64Range);
    y = exactly(constantOf(0), {0, 0});
  }
  x = collapsed(x);
  y = collapsed(y);
  for (const Linear *end : {&x.lo, &x.hi, &y.lo, &y.hi})
    if (end->unknown || (end->tooLarge && !isWide(*end)))
      return unknown<Verdict>();
  return {isOrdered(x.lo, y.hi, strictly), isOrdered(x.hi, y.lo, strictly)};
}

template <typename Set> Set Visibility::atMost(Side x, Side y, int64_t slack) {
  // A comparison of min, max, abs or select is split into linear comparisons: |a| <= y is a <= y && -a <= y. The split
  // is exact.
  for (bool right : {false, true}) {
    Side side = right ? y : x;
    Operation *definition = side.known ? nullptr : side.value.getDefiningOp();
    if (!definition || side.negative || !dependsOn(side.value, loopedAxis) || splits == 0)
      continue;
    SmallVector<Side, 2> parts;
    bool all = !right;
    if (isa<arith::MaxSIOp, arith::MinSIOp>(definition)) {
      parts = {{definition->getOperand(0)}, {definition->getOperand(1)}};
      all = all == isa<arith::MaxSIOp>(definition);
    } else if (isa<math::AbsIOp>(definition) &&
               form(definition->getOperand(0)).values.lo > rangeOf(side.value.getType()).lo) {
      parts = {{definition->getOperand(0)}, {definition->getOperand(0), true}};
    } else if (isa<arith::SelectOp>(definition) && std::is_same_v<Set, Bounds> &&
               !isVague(form(definition->getOperand(1))) && !isVague(form(definition->getOperand(2)))) {
      // Each operand of the select is compared where the select's condition picks that operand. Only Bounds (intervals
      // of the looped axis) need this split: for a Verdict (about one tile), choiceForm() already takes the condition
      // into account.
      --splits;
      auto where = [&](bool not_, Side chosen) {
        return conjunction(visit<Set>(definition->getOperand(0), not_),
                           right ? atMost<Set>(x, chosen, slack) : atMost<Set>(chosen, y, slack));
      };
      Set first = where(false, {definition->getOperand(1)});
      return disjunction(first, where(true, {definition->getOperand(2)}));
    } else {
      continue;
    }
    --splits;
    Set first = right ? atMost<Set>(x, parts[0], slack) : atMost<Set>(parts[0], y, slack);
    Set second = right ? atMost<Set>(x, parts[1], slack) : atMost<Set>(parts[1], y, slack);
    return all ? conjunction(first, second) : disjunction(first, second);
  }
  Form low = x.known ? *x.known : form(x.value), high = y.known ? *y.known : form(y.value);
  if constexpr (std::is_same_v<Set, Verdict>)
    return compare(signedForm(low, x.negative), signedForm(high, y.negative), slack == 1);
  else
    return solveAtMost(low, high, x.negative, y.negative, slack);
}

Bounds Visibility::solveAtMost(Form low, Form high, bool lowNegative, bool highNegative, int64_t slack) {
  narrow(low, high.values);
  narrow(high, low.values);
  if (low.lo.unknown || low.hi.unknown || high.lo.unknown || high.hi.unknown)
    return everything<Bounds>();
  Range solvable = {-maxTerm, maxTerm};
  if (isVague(low) || isVague(high))
    return unknown<Bounds>();
  if (!low.values.within(solvable) || !high.values.within(solvable))
    return unknown<Bounds>();
  Form difference = sum(signedForm(low, lowNegative), signedForm(high, !highNegative), int64Range);
  difference.lo = addConstant(difference.lo, slack);
  difference.hi = addConstant(difference.hi, slack);
  return solve(difference);
}

void Visibility::narrow(Form &x, Range other) {
  Wide limit = Wide(1) << 40;
  if (!isWide(x.lo) || !(x.lo == x.hi) || x.looped || x.fixed || other.lo < -limit || other.hi > limit)
    return;
  // The clamp is at twice the magnitude of the compared value's range `other`, so that the clamped value is outside
  // `other` also when negated.
  int64_t bound = 2 * std::max(std::abs(other.lo), std::abs(other.hi)) + 2;
  Type type = builder->getI64Type();
  Value value = convert(atBlock(x.lo.terms[0].first), type);
  value = emit<arith::MinSIOp>(value, constantValue(type, bound));
  value = emit<arith::MaxSIOp>(value, constantValue(type, -bound));
  x = exactly(base(value, {-bound, bound}), {-bound, bound});
}

Bounds Visibility::solve(const Form &x) {
  Form atEnds = x;
  collapseFixed(atEnds);
  const Linear &least = atEnds.lo, &most = atEnds.hi;
  if (least.unknown || most.unknown)
    return everything<Bounds>();
  if (least.tooLarge || most.tooLarge)
    return unknown<Bounds>();
  auto bound = [&](const Linear &rest) -> std::optional<Intervals> {
    if (x.looped == 0)
      return when(lessEqual(rest, constantOf(0)));
    if (x.looped == std::numeric_limits<int64_t>::min())
      return std::nullopt;
    Interval result;
    int64_t factor = std::abs(x.looped);
    if (x.looped > 0) {
      // With l the position along the looped axis and n = x.divisor, factor * trunc(l / n) + rest <= 0 holds if and
      // only if trunc(l / n) <= floor(-rest / factor). The interval ends at the first l with a larger quotient,
      // floor(-rest / factor) + 1.
      Linear end = scale(rest, -1);
      result.hi = firstIndex(factor == 1 ? addConstant(end, 1) : quotient(addConstant(end, factor), factor), x.divisor);
    } else {
      // With l the position along the looped axis and n = x.divisor, -factor * trunc(l / n) + rest <= 0 holds if and
      // only if trunc(l / n) >= ceil(rest / factor).
      result.lo = firstIndex(factor == 1 ? rest : quotient(addConstant(rest, factor - 1), factor), x.divisor);
    }
    if ((result.lo && result.lo->tooLarge) || (result.hi && result.hi->tooLarge))
      return std::nullopt;
    return Intervals{simplified(result)};
  };
  auto hull = bound(least), full = least == most ? hull : bound(most);
  if (!hull || !full)
    return unknown<Bounds>();
  return {*hull, *full};
}

Linear Visibility::quotient(const Linear &x, int64_t divisor) {
  // Positions start at 0 here, so a negative bound has the same effect as a bound of 0.
  if (!mayBeNegative(loopedAxis))
    return divide(maximum(x, constantOf(0)), divisor);
  if (x.unknown || x.tooLarge || x.range.lo >= 0)
    return divide(x, divisor);
  return divide(select(lessEqual(x, constantOf(-1)), addConstant(x, 1 - divisor), x), divisor);
}

Linear Visibility::firstIndex(const Linear &least, int64_t divisor) {
  Linear position = scale(least, divisor);
  // Division truncates towards zero, so all positions from 1 - divisor to divisor - 1 have the quotient 0.
  if (divisor != 1 && mayBeNegative(loopedAxis))
    position = select(lessEqual(least, constantOf(0)), addConstant(position, 1 - divisor), position);
  return loopedAxis.offset == constantOf(0) ? position : subtract(position, loopedAxis.offset);
}

Interval Visibility::simplified(Interval x) {
  if (x.lo && x.lo->range.hi <= 0)
    x.lo.reset();
  if (x.hi && subtract(*x.hi, loopedAxis.count).range.lo >= 0)
    x.hi.reset();
  return x;
}

template Bounds Visibility::atMost<Bounds>(Side x, Side y, int64_t slack);
template Verdict Visibility::atMost<Verdict>(Side x, Side y, int64_t slack);
