//===- Visibility.h - What a mask leaves of a tile of one axis ------------===//
//
// The mask as a tree of conditions, in two kinds of sets: Bounds are intervals of the looped axis for the rows of one
// tile of the fixed axis, Verdict is what is known of one tile of both. How both come about is in
// passes/analysis/MaskAnalysis.h, METHOD and TABLES.
//
//     Intervals.cpp          and, or and not of sets
//     Comparisons.cpp        the sets of x <= y
//     Floats.cpp             the same of floats
//     Visibility.cpp         the tree
//     Tiles.cpp              the tiles of the whole
//     Samples.cpp            what the mask hides of a few tiles
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/mask/RegionForms.h"

namespace attune::mask {

/// An interval of indices of the looped axis; an absent end is 0 or the count. Ends may lie outside, and lo beyond hi:
/// empty.
struct Interval {
  std::optional<Linear> lo, hi;
  /// Begins at 0, and ends there or at the count.
  bool isAllOrNothing = false;
  /// Its ends are those of one of several intervals, chosen together: of an empty one they say nothing by themselves.
  bool isChosen = false;

  bool isAll() const { return !lo && !hi; }
  bool operator==(const Interval &other) const { return lo == other.lo && hi == other.hi; }
  static Interval all() { return {}; }
  static Interval empty() { return {std::nullopt, constantOf(0)}; }
};

/// A union of intervals, in any order; of none: nothing.
using Intervals = SmallVector<Interval, 2>;

/// Nothing outside of `hull` is visible to any of the tile's rows; everything inside of `full` is to all.
struct Bounds {
  Intervals hull, full;
};

/// What a union of intervals may do where it can't be exact.
enum class Rounding { Grow, Shrink };

/// An interval of visited tiles of the looped axis, and those of them that are full.
struct VisitedPart {
  Linear begin, fullBegin, fullEnd, end;
};

/// What is known of a tile of queries and keys: whether the mask may hold for some of its elements, and whether it
/// holds for all.
struct Verdict {
  Condition possible, certain;
};

/// Analyses one mask for one tile of the fixed axis, whose elements are called rows.
class Visibility : public RegionForms {
public:
  Visibility(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables = nullptr,
             Value tile = {})
      : RegionForms(op, builder, values, tables, tile) {}
  Visibility(attn::AttentionOp op, MaskAxis fixed, int64_t first, const MaskSizes &sizes,
             std::optional<int64_t> tile = {})
      : RegionForms(op, fixed, first, sizes, tile) {}

  const Axis &getLooped() const { return loopedAxis; }
  /// Whether more values of the mask would have tables than the analysis takes, mostTables.
  using RegionForms::lacksTables;
  using RegionForms::mostTables;

  /// The mask's conjuncts, negated or not.
  SmallVector<Conjunct> conjuncts();

  /// What a looped tile is asked in place of a full interval, given once and before anything else; of `counted` by a
  /// table of all tiles, for which each element is evaluated.
  void judgeByTile(SmallVector<Conjunct> conjuncts, SmallVector<Value> counted = {}) {
    byTile = std::move(conjuncts);
    byCount = std::move(counted);
  }
  llvm::ArrayRef<Conjunct> judgedByTile() const { return byTile; }
  llvm::ArrayRef<Value> countedByTile() const { return byCount; }
  /// The verdict of these on the looped tile.
  Verdict verdict() { return verdictOf(byTile); }
  Verdict verdictOf(llvm::ArrayRef<Conjunct> conjuncts);
  /// By numbers: whether the conjuncts may hold for some element of the looped tile.
  bool isPossible(llvm::ArrayRef<Conjunct> conjuncts);
  /// Whether looped tiles may be left out by what the conjunct loads or computes of each.
  bool skipsByTile(const Conjunct &conjunct);
  /// Whether looped tiles may be left out, or known to be full, by what is known of each.
  bool decidesByTile(const Conjunct &conjunct);
  /// Whether the heads that it depends on are rounds of the domain.
  bool dependsOnIteration(const Conjunct &conjunct) { return differsByIteration(conjunct.first); }
  /// Whether its verdict reads tables of the looped axis.
  bool testsTiles(const Conjunct &conjunct);
  /// Whether something of both axes in it is not followed, and then whether it may hide whole tiles, which only a table
  /// of all tiles tells: HidesFew where the rest holds for all but a few tiles at an end, no more than a table is worth;
  /// Untried where the conjuncts asked about before took all the elements that the analysis tries.
  enum class Unfollowed { Nothing, HidesNone, HidesFew, HidesSome, Untried };
  Unfollowed unfollowed(const Conjunct &conjunct);

  /// One part at least, in ascending order; each begins where the one before ends, or behind. Tiles are full by the
  /// whole mask and the end of the looped axis.
  std::vector<VisitedPart> tiles() { return tiles({}, true); }
  /// The same, full by conjuncts of the mask without judgedByTile(), and by the end of the looped axis if `toEnd`.
  std::vector<VisitedPart> tilesBy(llvm::ArrayRef<Conjunct> deciding, bool toEnd) { return tiles(deciding, toEnd); }

  /// Where every row of the tile sees everything, by the given conjuncts: the longest such interval.
  Interval fullInterval(llvm::ArrayRef<Conjunct> conjuncts);

  /// The interval, where it has no other end than its begin, or its end; else nothing.
  Interval withOneEnd(const Interval &x, bool begin);

  /// The interval with ends that each say by itself which tiles lie within: the count and 0 where it is empty.
  Interval withBothEnds(const Interval &x);

  /// The conjuncts of the mask by what they leave of a row, for an analysis of one row: one end of the looped axis, an
  /// interval, or anything. Of the rest `unions` are several intervals, and of the `loose` ones intervals do not say all.
  struct RowConjuncts {
    SmallVector<Conjunct> upper, lower, both, rest, unions, loose;
  };
  RowConjuncts rowConjuncts();

  /// The end of what conjuncts leave of the looped axis that depend on it, and neither on the fixed axis nor on rounds of heads; nothing without such
  /// a conjunct.
  std::optional<Linear> endForAll();

  /// All that the conjunct may leave.
  Intervals hullOfConjunct(const Conjunct &conjunct) { return visit<Bounds>(conjunct.first, conjunct.second).hull; }

  /// The ends of an interval, the count at the latest, as i32 from which an index of the looped axis can be subtracted.
  Value beginOf(const Interval &x, StringRef name);
  Value endOf(const Interval &x, StringRef name);

private:
  std::vector<VisitedPart> tiles(std::optional<llvm::ArrayRef<Conjunct>> deciding, bool toEnd);
  std::vector<VisitedPart> visitedParts(const Intervals &hull);
  void findFull(VisitedPart &part, const Intervals &full, bool isClamped, bool toEnd);
  /// The hull of the whole mask; the full interval of `deciding` alone, of its conjuncts, without what each tile's
  /// loads decide.
  Bounds bounds(std::optional<llvm::ArrayRef<Conjunct>> deciding);

  //===--------------------------------------------------------------------===//
  // The tree
  //===--------------------------------------------------------------------===//

  // Set is Bounds, or Verdict on the looped tile.

  /// The elements where the i1 value, negated or not, is true.
  template <typename Set> Set visit(Value value, bool negate);
  template <typename Set> Set computeSet(Value value, bool negate);
  /// x != y of bools, or x == y.
  template <typename Set> Set different(Value x, Value y, bool negate);

  /// Whether the verdict of something of both axes in it says nothing.
  bool holdsUnfollowed(Value value);
  /// By a few elements: whether there may be tiles without one for which the conjunct holds. Some of what depends on more
  /// than positions.
  enum class Hides { None, Some, Untried };
  Hides hidesTiles(const Conjunct &conjunct);
  /// Whether intervals say that it holds for all rows from the looped axis's begin, or up to its end, but for as many indices
  /// as four tiles have, whatever the launch.
  bool holdsButForFew(const Conjunct &conjunct);

  template <typename Set> auto &knownSets() {
    if constexpr (std::is_same_v<Set, Bounds>)
      return visited;
    else
      return judged;
  }

  //===--------------------------------------------------------------------===//
  // Intervals and verdicts
  //===--------------------------------------------------------------------===//

  template <typename Set> Set unknown() {
    if constexpr (std::is_same_v<Set, Bounds>)
      return {{Interval::all()}, {}};
    else
      return {{true, {}}, {false, {}}};
  }
  template <typename Set> Set everything() { return where<Set>({true, {}}); }

  /// The same for all elements.
  template <typename Set> Set where(const Condition &condition) { return where<Set>(condition, condition); }
  /// True for some where `any` holds, for all where `all` does.
  template <typename Set> Set where(const Condition &any, const Condition &all) {
    if constexpr (std::is_same_v<Set, Bounds>)
      return {when(any), when(all)};
    else
      return {any, all};
  }

  /// Everything where the condition holds, else nothing.
  Intervals when(const Condition &condition);
  /// Whether nothing lies in it, for every launch.
  bool isEmpty(const Interval &x);
  Interval intersect(const Interval &x, const Interval &y);
  Intervals intersect(const Intervals &x, const Intervals &y, Rounding rounding);
  /// Adds an interval to a union of few.
  void unite(Intervals &to, Interval x, Rounding rounding);
  /// The union as one interval, where it is one for every launch; to grow, where no tile fits in between.
  std::optional<Interval> asOne(const Interval &x, const Interval &y, Rounding rounding);
  Linear lowEnd(const Interval &x) { return x.lo ? clampToLooped(*x.lo) : constantOf(0); }
  Linear highEnd(const Interval &x) { return x.hi ? clampToLooped(*x.hi) : loopedAxis.count; }
  /// The least interval that contains both.
  Interval hullOf(const Interval &x, const Interval &y);
  /// An interval that lies in the union: the union itself where both touch, else the longer.
  Interval longestOf(const Interval &x, const Interval &y);

  Bounds conjunction(const Bounds &x, const Bounds &y);
  Bounds disjunction(const Bounds &x, const Bounds &y);
  Verdict conjunction(const Verdict &x, const Verdict &y);
  Verdict disjunction(const Verdict &x, const Verdict &y);

  Choice choiceOf(Value condition) override;

  //===--------------------------------------------------------------------===//
  // Comparisons
  //===--------------------------------------------------------------------===//

  /// One side of a comparison: a value or its negative, or something of which there is a form alone.
  struct Side {
    Value value;
    bool negative = false;
    std::optional<Form> known = {};
  };

  /// x + slack <= y.
  template <typename Set> Set atMost(Side x, Side y, int64_t slack);
  /// Whether a comparison of floats is a table's bool: it is of one axis, and no integer is compared with a uniform value.
  bool comparesByTable(mlir::arith::CmpFOp compare);
  template <typename Set> Set compareFloats(mlir::arith::CmpFOp compare, bool negate);
  /// x <= y, or x < y, of floats, or the opposite; NaN is neither.
  template <typename Set> Set isLess(Value x, Value y, bool strictly, bool negate);
  /// The last integer whose float is below y, or at most y, which is uniform or the end of a table.
  Linear lastInteger(Value y, bool below, int64_t ofNaN);
  /// The least and the greatest of a float that is uniform or of one axis.
  std::optional<std::pair<Value, Value>> floatEnds(Value value);
  /// x <= y, or x < y, for some and for all of the tile's elements.
  Verdict compare(Form x, Form y, bool strictly);
  Bounds solveAtMost(Form low, Form high, bool lowNegative, bool highNegative, int64_t slack);
  /// A uniform i64 that is compared with something much smaller: clamped to just outside the other's values,
  /// which changes no comparison.
  void narrow(Form &x, Range other);
  /// x <= 0 for all or some of the rows and of the values in [x.lo, x.hi].
  Bounds solve(const Form &x);
  /// floor(x / divisor) for comparison with quotients of positions.
  Linear quotient(const Linear &x, int64_t divisor);
  /// The first index of the looped axis whose position l has trunc(l / divisor) >= least.
  Linear firstIndex(const Linear &least, int64_t divisor);
  static bool mayBeNegative(const Axis &axis) { return axis.offset.range.lo < 0; }
  /// Without ends that never bind.
  Interval simplified(Interval x);

  /// Intervals of a union; a domain skips what lies between them by two integer operations a tile each.
  static constexpr unsigned mostIntervals = 4;
  /// Comparisons of min, max and abs that are still split into simpler ones; bounds the work.
  int splits = 32;
  /// Values of the region that are still computed for elements that are tried; bounds the time of large masks.
  int64_t valuesLeft = 1 << 18;
  std::map<std::pair<void *, unsigned>, Value> lastIntegers; // lastInteger
  SmallVector<Conjunct> byTile;
  SmallVector<Value> byCount;
  llvm::DenseMap<std::pair<Value, unsigned>, Bounds> visited; // by value and negation
  llvm::DenseMap<std::pair<Value, unsigned>, Verdict> judged;
};

} // namespace attune::mask
