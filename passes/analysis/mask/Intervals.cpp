//===- Intervals.cpp - Intersection and union of Bounds and of Verdicts ---===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

Intervals Visibility::when(const Condition &condition) {
  if (condition.known)
    return *condition.known ? Intervals{Interval::all()} : Intervals();
  return {{std::nullopt, select(condition, loopedAxis.count, constantOf(0)), /*isAllOrNothing=*/true}};
}

bool Visibility::isEmpty(const Interval &x) {
  auto isNever = [](const Linear &length) { return !length.unknown && !length.tooLarge && length.range.hi <= 0; };
  return (x.hi && isNever(*x.hi)) || (x.lo && isNever(subtract(loopedAxis.count, *x.lo))) ||
         (x.lo && x.hi && isNever(subtract(*x.hi, *x.lo)));
}

Interval Visibility::intersect(const Interval &x, const Interval &y) {
  if (y.isAll())
    return x;
  if (x.isAll())
    return y;
  Interval result;
  result.lo = x.lo && y.lo ? maximum(*x.lo, *y.lo) : x.lo ? x.lo : y.lo;
  result.hi = x.hi && y.hi ? minimum(*x.hi, *y.hi) : x.hi ? x.hi : y.hi;
  result.isChosen = x.isChosen || y.isChosen;
  return result;
}

Intervals Visibility::intersect(const Intervals &x, const Intervals &y, Rounding rounding) {
  Intervals result;
  for (const Interval &of : x)
    for (const Interval &with : y)
      if (!isEmpty(of) && !isEmpty(with) && (!of.hi || !with.lo || !isEmpty({with.lo, of.hi})) &&
          (!of.lo || !with.hi || !isEmpty({of.lo, with.hi})))
        unite(result, intersect(of, with), rounding);
  return result;
}

void Visibility::unite(Intervals &to, Interval x, Rounding rounding) {
  if (isEmpty(x))
    return;
  for (auto *each = to.begin(); each != to.end(); ++each)
    if (auto one = asOne(*each, x, rounding)) {
      to.erase(each);
      return unite(to, *one, rounding);
    }
  if (to.size() == mostIntervals) {
    const Interval last = to.pop_back_val();
    x = rounding == Rounding::Grow ? hullOf(last, x) : longestOf(last, x);
  }
  to.push_back(x);
}

std::optional<Interval> Visibility::asOne(const Interval &x, const Interval &y, Rounding rounding) {
  if (x.isAll() || y.isAll())
    return Interval::all();
  if (x.isAllOrNothing || y.isAllOrNothing)
    return hullOf(x, y);
  const bool sameBegin = x.lo == y.lo, sameEnd = x.hi == y.hi;
  // The union is an interval if each of x and y begins at or before the end of the other. An empty interval that
  // satisfies this condition lies inside the other interval.
  auto touches = [&](const Interval &from, const Interval &to) {
    const Linear gap = subtract(to.lo ? *to.lo : constantOf(0), from.hi ? *from.hi : loopedAxis.count);
    return !gap.tooLarge && gap.range.hi <= (rounding == Rounding::Grow ? loopedAxis.tile - 1 : 0);
  };
  if (!sameBegin && !sameEnd && !(touches(x, y) && touches(y, x)))
    return std::nullopt;
  Interval one;
  if (x.lo && y.lo)
    one.lo = minimum(*x.lo, *y.lo);
  if (x.hi && y.hi)
    one.hi = maximum(*x.hi, *y.hi);
  one.isChosen = x.isChosen || y.isChosen;
  return one;
}

Interval Visibility::hullOf(const Interval &x, const Interval &y) {
  if (x.isAll() || y.isAll())
    return Interval::all();
  if (!x.lo && !y.lo)
    return x.hi && y.hi ? Interval{std::nullopt, maximum(*x.hi, *y.hi)} : Interval::all();
  Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
  Condition xEmpty = lessEqual(xHi, xLo), yEmpty = lessEqual(yHi, yLo);
  return {select(xEmpty, yLo, select(yEmpty, xLo, minimum(xLo, yLo))),
          select(xEmpty, yHi, select(yEmpty, xHi, maximum(xHi, yHi))), /*isAllOrNothing=*/false, /*isChosen=*/true};
}

Interval Visibility::longestOf(const Interval &x, const Interval &y) {
  if (auto one = asOne(x, y, Rounding::Shrink))
    return *one;
  Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
  Condition touch = both(lessEqual(xLo, yHi), lessEqual(yLo, xHi));
  Condition xLonger = lessEqual(subtract(yHi, yLo), subtract(xHi, xLo));
  return {select(touch, minimum(xLo, yLo), select(xLonger, xLo, yLo)),
          select(touch, maximum(xHi, yHi), select(xLonger, xHi, yHi)), /*isAllOrNothing=*/false, /*isChosen=*/true};
}

Bounds Visibility::conjunction(const Bounds &x, const Bounds &y) {
  return {intersect(x.hull, y.hull, Rounding::Grow), intersect(x.full, y.full, Rounding::Shrink)};
}

Bounds Visibility::disjunction(const Bounds &x, const Bounds &y) {
  Bounds result = x;
  for (const Interval &each : y.hull)
    unite(result.hull, each, Rounding::Grow);
  for (const Interval &each : y.full)
    unite(result.full, each, Rounding::Shrink);
  return result;
}

Verdict Visibility::conjunction(const Verdict &x, const Verdict &y) {
  return {both(x.possible, y.possible), both(x.certain, y.certain)};
}

Verdict Visibility::disjunction(const Verdict &x, const Verdict &y) {
  return {either(x.possible, y.possible), either(x.certain, y.certain)};
}
