//===- Intervals.cpp - Sets of elements of a tile: and, or ----------------===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

Interval Visibility::when(const Condition &condition) {
  if (condition.known)
    return *condition.known ? Interval::all() : Interval::empty();
  return {std::nullopt, select(condition, loopedAxis.count, constantOf(0))};
}

Interval Visibility::intersect(const Interval &x, const Interval &y) {
  if (x.isEmpty() || y.isAll())
    return x;
  if (y.isEmpty() || x.isAll())
    return y;
  Interval result;
  result.lo = x.lo && y.lo ? maximum(*x.lo, *y.lo) : x.lo ? x.lo : y.lo;
  result.hi = x.hi && y.hi ? minimum(*x.hi, *y.hi) : x.hi ? x.hi : y.hi;
  return result;
}

Interval Visibility::hullOf(const Interval &x, const Interval &y) {
  if (x.isAll() || y.isEmpty())
    return x;
  if (y.isAll() || x.isEmpty())
    return y;
  if (!x.lo && !y.lo)
    return x.hi && y.hi ? Interval{std::nullopt, maximum(*x.hi, *y.hi)} : Interval::all();
  Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
  Condition xEmpty = lessEqual(xHi, xLo), yEmpty = lessEqual(yHi, yLo);
  return {select(xEmpty, yLo, select(yEmpty, xLo, minimum(xLo, yLo))),
          select(xEmpty, yHi, select(yEmpty, xHi, maximum(xHi, yHi)))};
}

Interval Visibility::unionOf(const Interval &x, const Interval &y) {
  if (x.isAll() || y.isEmpty())
    return x;
  if (y.isAll() || x.isEmpty())
    return y;
  if (!x.lo && !y.lo)
    return x.hi && y.hi ? Interval{std::nullopt, maximum(*x.hi, *y.hi)} : Interval::all();
  if (!x.hi && !y.hi)
    return {minimum(*x.lo, *y.lo), std::nullopt};
  Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
  Condition touch = both(lessEqual(xLo, yHi), lessEqual(yLo, xHi));
  Condition xLonger = lessEqual(subtract(yHi, yLo), subtract(xHi, xLo));
  return {select(touch, minimum(xLo, yLo), select(xLonger, xLo, yLo)),
          select(touch, maximum(xHi, yHi), select(xLonger, xHi, yHi))};
}

Bounds Visibility::conjunction(const Bounds &x, const Bounds &y) {
  return {intersect(x.hull, y.hull), intersect(x.full, y.full)};
}

Bounds Visibility::disjunction(const Bounds &x, const Bounds &y) {
  return {hullOf(x.hull, y.hull), unionOf(x.full, y.full)};
}

Verdict Visibility::conjunction(const Verdict &x, const Verdict &y) {
  return {both(x.possible, y.possible), both(x.certain, y.certain)};
}

Verdict Visibility::disjunction(const Verdict &x, const Verdict &y) {
  return {either(x.possible, y.possible), either(x.certain, y.certain)};
}
