//===- Tiles.cpp - Rounds the intervals of a mask to tiles ----------------===//
//
// The intervals of a hull (outside which a mask hides everything) come in any order, which is often known only at run
// time, and may be empty or overlap. For the segments of a domain, the intervals are sorted by begin, and the begin of
// each is raised to at least the end of the interval before:
//
//     [6, 9) [0, 2) [8, 12)            sorted           [0, 2) [6, 9) [8, 12)
//                                      begin raised     [0, 2) [6, 9) [9, 12)
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

std::vector<VisitedPart> Visibility::visitedParts(const Intervals &hull) {
  std::vector<VisitedPart> parts;
  const Interval nothing = Interval::empty();
  for (const Interval &of : hull.empty() ? ArrayRef(nothing) : ArrayRef(hull)) {
    Linear lo = lowEnd(of), hi = highEnd(of);
    VisitedPart part;
    part.begin = divide(lo, loopedAxis.tile);
    part.end = divide(addConstant(hi, loopedAxis.tile - 1), loopedAxis.tile);
    if (of.lo)
      part.end = select(lessEqual(hi, lo), part.begin, part.end);
    parts.push_back(part);
  }
  for (size_t last = parts.size(); last > 1; --last)
    for (size_t i = 0; i + 1 < last; ++i) {
      if (subtract(parts[i + 1].begin, parts[i].begin).range.hi <= 0)
        std::swap(parts[i], parts[i + 1]);
      const VisitedPart x = parts[i], y = parts[i + 1];
      const Condition ordered = lessEqual(x.begin, y.begin);
      parts[i].begin = minimum(x.begin, y.begin);
      parts[i + 1].begin = maximum(x.begin, y.begin);
      parts[i].end = select(ordered, x.end, y.end);
      parts[i + 1].end = select(ordered, y.end, x.end);
    }
  std::vector<VisitedPart> apart;
  for (VisitedPart part : parts) {
    if (!apart.empty()) {
      VisitedPart &before = apart.back();
      part.begin = maximum(part.begin, before.end);
      part.end = maximum(part.end, part.begin);
      if (part.begin == before.end) {
        before.end = part.end;
        continue;
      }
    }
    apart.push_back(part);
  }
  return apart;
}

void Visibility::findFull(VisitedPart &part, const Intervals &full, bool isClamped, bool toEnd) {
  bool isFirst = true;
  for (const Interval &of : full) {
    Linear begin = divide(addConstant(lowEnd(of), loopedAxis.tile - 1), loopedAxis.tile);
    Linear end = !toEnd && !of.hi ? part.end : divide(highEnd(of), loopedAxis.tile);
    if (full.size() > 1 && subtract(end, begin).range.hi <= 0)
      continue; // the interval contains no whole tile
    if (isClamped) {
      begin = maximum(minimum(begin, part.end), part.begin);
      end = maximum(minimum(end, part.end), begin);
    }
    if (isFirst) {
      part.fullBegin = begin;
      part.fullEnd = end;
    } else {
      Condition longer = lessEqual(subtract(part.fullEnd, part.fullBegin), subtract(end, begin));
      part.fullBegin = select(longer, begin, part.fullBegin);
      part.fullEnd = select(longer, end, part.fullEnd);
    }
    isFirst = false;
  }
}

std::vector<VisitedPart> Visibility::tiles(std::optional<ArrayRef<Conjunct>> deciding, bool toEnd) {
  const auto [hull, full] = bounds(deciding);
  std::vector<VisitedPart> parts = visitedParts(hull);
  const bool isNever = full.empty() || patternNeedsElementMask(op, axisOf(2).tile, axisOf(3).tile);
  const bool isAlways = !isNever && !toEnd && full.front().isAll();
  // An interval in which the whole mask hides nothing (full) and which starts at 0 is empty or inside the intervals
  // that any row sees (hull), and need not be clamped to the range of visited tiles. Any other full interval may be
  // empty at a position outside of the hull.
  const bool isWithin =
      !deciding && hull.size() <= 1 && full.size() == 1 && (hull.empty() || !hull.front().lo) && !full.front().lo;
  for (VisitedPart &part : parts) {
    part.fullBegin = isAlways ? part.begin : part.end;
    part.fullEnd = part.end;
    // If the visited tiles are several ranges (`parts`), a range of one tile counts as partial, because another full
    // segment would cost two comparisons in every tile.
    const bool isShort = builder && parts.size() > 1 && subtract(part.end, part.begin).range.hi <= 1;
    if (!isNever && !isAlways && !isShort)
      findFull(part, full, !isWithin, toEnd);
  }
  return parts;
}

Interval Visibility::fullInterval(ArrayRef<Conjunct> conjuncts) {
  Intervals full = {Interval::all()};
  for (auto [value, negate] : conjuncts)
    full = intersect(full, visit<Bounds>(value, negate).full, Rounding::Shrink);
  if (full.empty())
    return Interval::empty();
  Interval longest = full.front();
  for (const Interval &each : ArrayRef(full).drop_front())
    longest = longestOf(longest, each);
  return longest;
}

bool Visibility::holdsButForFew(const Conjunct &conjunct) {
  const Interval full = fullInterval(conjunct);
  if (full.lo.has_value() == full.hi.has_value())
    return false;
  const Linear rest = full.lo ? *full.lo : subtract(loopedAxis.count, *full.hi);
  return rest.isConstant() && rest.constant <= 4 * loopedAxis.tile;
}

Visibility::RowConjuncts Visibility::rowConjuncts() {
  RowConjuncts result;
  for (auto [value, negate] : conjuncts()) {
    const auto [hull, full] = visit<Bounds>(value, negate);
    if (hull != full)
      result.loose.push_back({value, negate});
    else if (hull.size() > 1)
      result.unions.push_back({value, negate});
    if (hull != full || hull.size() > 1)
      result.rest.push_back({value, negate});
    else if (hull.empty())
      result.upper.push_back({value, negate});
    else if (const Interval &of = hull.front(); !of.isAll())
      (!of.lo ? result.upper : !of.hi ? result.lower : result.both).push_back({value, negate});
  }
  return result;
}

Interval Visibility::withOneEnd(const Interval &x, bool begin) {
  if (begin && x.hi)
    return {select(lessEqual(loopedAxis.count, *x.hi), lowEnd(x), loopedAxis.count), std::nullopt};
  if (!begin && x.lo)
    return {std::nullopt, select(lessEqual(*x.lo, constantOf(0)), highEnd(x), constantOf(0))};
  return x;
}

Interval Visibility::withBothEnds(const Interval &x) {
  if (!x.isChosen || !x.lo || !x.hi)
    return x;
  Condition isNone = lessEqual(*x.hi, *x.lo);
  return {select(isNone, loopedAxis.count, *x.lo), select(isNone, constantOf(0), *x.hi)};
}

static bool isNear(const Linear &end) { return end.range.within({-maxExtent, int32Range.hi}); }

Value Visibility::beginOf(const Interval &x, StringRef name) {
  // Interval::empty() has an end (0) but no begin. The axis's count is used as the begin, so that every index is before
  // the begin.
  const Linear begin = x.lo ? *x.lo : x == Interval::empty() ? loopedAxis.count : constantOf(0);
  return toI32(isNear(begin) ? begin : clampToLooped(begin), name);
}

Value Visibility::endOf(const Interval &x, StringRef name) {
  Linear end = x.hi ? minimum(*x.hi, loopedAxis.count) : loopedAxis.count;
  return toI32(isNear(end) ? end : highEnd(x), name);
}
