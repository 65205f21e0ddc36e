//===- Visibility.h - Visible and full tiles of a mask, for one fixed tile ===//
//
// Evaluates the mask region, a tree of conditions, to one of two kinds of sets. `Bounds` are intervals of the looped
// axis for the rows of one tile of the fixed axis. `Verdict` says for one tile of both axes whether the mask may hold
// for some elements and whether the mask holds for all. passes/analysis/mask/MaskAnalysis.h describes the method
// (METHOD, TABLES).
//
//     Intervals.cpp          intersection and union of sets
//     Comparisons.cpp        the set for a comparison of integers
//     Floats.cpp             the set for a comparison of floats
//     Visibility.cpp         the set for the tree of conditions
//     Tiles.cpp              intervals of the whole mask rounded to tiles
//     Samples.cpp            samples of a condition: does the condition mask whole tiles?
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/mask/RegionForms.h"

namespace attune::mask {

/// An interval [lo, hi) of indices of the looped axis. An absent lo means 0, an absent hi the axis's count. Ends may
/// lie outside of [0, count]; an interval with lo >= hi is empty.
struct Interval {
  std::optional<Linear> lo, hi;
  /// The interval is the whole axis or empty, by a run-time condition: lo is 0, hi is the count or 0.
  bool isAllOrNothing = false;
  /// A run-time condition selects both ends from one of several intervals. If the selected interval is empty, neither
  /// end may be tested without the other.
  bool isChosen = false;

  bool isAll() const { return !lo && !hi; }
  bool operator==(const Interval &other) const { return lo == other.lo && hi == other.hi; }
  static Interval all() { return {}; }
  static Interval empty() { return {std::nullopt, constantOf(0)}; }
};

/// A union of intervals in any order; an empty list is the empty set.
using Intervals = SmallVector<Interval, 2>;

/// Indices outside of `hull` are masked for every row of the fixed tile; indices inside of `full` are visible to every
/// row.
struct Bounds {
  Intervals hull, full;
};

/// How to approximate a set that has too many intervals to be represented exactly: by a superset (Grow) or by a subset
/// (Shrink).
enum class Rounding { Grow, Shrink };

/// A range [begin, end) of visited tiles of the looped axis. The tiles in [fullBegin, fullEnd) are full.
struct VisitedPart {
  Linear begin, fullBegin, fullEnd, end;
};

/// What is known about one tile of queries and keys. `possible`: the mask may hold for some element of the tile.
/// `certain`: the mask holds for every element.
struct Verdict {
  Condition possible, certain;
};

/// Analyses one mask for one tile of the fixed axis. Indices of the fixed axis are called rows.
class Visibility : public RegionForms {
public:
  Visibility(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables = nullptr,
             Value tile = {})
      : RegionForms(op, builder, values, tables, tile) {}
  Visibility(attn::AttentionOp op, MaskAxis fixed, int64_t first, const MaskSizes &sizes,
             std::optional<int64_t> tile = {})
      : RegionForms(op, fixed, first, sizes, tile) {}

  const Axis &getLooped() const { return loopedAxis; }
  /// `lacksTables`: some values of the mask have no per-tile table because there are `mostTables` tables already.
  using RegionForms::lacksTables;
  using RegionForms::mostTables;

  /// The conjuncts of the mask, each an i1 value with a flag for negation.
  SmallVector<Conjunct> conjuncts();

  /// Sets the conjuncts that are tested for each looped tile; these conjuncts then do not restrict the full interval.
  /// Called at most once, before any interval or verdict is computed. Conditions in `counted` are looked up in a table
  /// over all tiles of both axes, which the bounds kernel fills by evaluating every element. Conditions in `parts` are
  /// computed for each part of a tile in which they are constant.
  void judgeByTile(SmallVector<Conjunct> conjuncts, SmallVector<Value> counted = {}, SmallVector<Value> parts = {}) {
    byTile = std::move(conjuncts);
    byCount = std::move(counted);
    byPart = std::move(parts);
  }
  llvm::ArrayRef<Conjunct> judgedByTile() const { return byTile; }
  llvm::ArrayRef<Value> countedByTile() const { return byCount; }
  llvm::ArrayRef<Value> computedByPart() const { return byPart; }
  /// Whether the conjunct is constant in each of a few parts of a tile, but intervals and per-tile tables do not follow
  /// it exactly: bit operations and hashes of q / 64 and k / 64.
  bool isBestByPart(const Conjunct &conjunct) {
    if (!isConditionOfParts(conjunct.first))
      return false;
    const bool isUnfollowed = holdsUnfollowed(conjunct.first); // also asks for the tables that readsMemory() looks for
    return isUnfollowed || readsMemory(conjunct.first, fixedAxis) || readsMemory(conjunct.first, loopedAxis);
  }
  /// Whether the conjuncts that are tested for each tile (set by judgeByTile) may hold for some element of the looped
  /// tile, and whether they hold for all elements.
  Verdict verdict() { return verdictOf(byTile); }
  Verdict verdictOf(llvm::ArrayRef<Conjunct> conjuncts);
  /// Whether the conjuncts may hold for some element of the looped tile. Only for an object without an OpBuilder, which
  /// evaluates with numbers.
  bool isPossible(llvm::ArrayRef<Conjunct> conjuncts);
  /// Whether a test of the conjunct for each looped tile can skip tiles that the loop's bounds do not exclude already.
  bool skipsByTile(const Conjunct &conjunct);
  /// Whether a test of the conjunct for each looped tile can show that a tile is fully masked, or that a tile is full.
  bool decidesByTile(const Conjunct &conjunct);
  /// Whether the conjunct depends on the head, in a kernel whose loop over tiles is repeated for each head of a GQA
  /// group.
  bool dependsOnIteration(const Conjunct &conjunct) { return differsByIteration(conjunct.first); }
  /// Whether a test of the conjunct for a looped tile reads the tile's entry of a per-tile table.
  bool testsTiles(const Conjunct &conjunct);
  /// Intervals cannot express some conditions on both axes, such as table[q, k] or q ^ k. Only a table over all tiles
  /// of both axes shows which tiles such a condition masks.
  ///     Nothing      the conjunct contains no such condition
  ///     HidesNone    there is such a condition, but every sampled tile has a visible element
  ///     HidesFew     the conjunct masks elements in a few tiles at one end of the looped axis only: not worth a table
  ///     HidesSome    the conjunct may mask whole tiles anywhere
  ///     Untried      earlier conjuncts used up the budget of sampled elements
  enum class Unfollowed { Nothing, HidesNone, HidesFew, HidesSome, Untried };
  Unfollowed unfollowed(const Conjunct &conjunct);

  /// The visited tiles: at least one range, in ascending order, without overlap. A tile is full if the whole mask holds
  /// for all of its elements, and if the tile does not cross the end of the looped axis.
  std::vector<VisitedPart> tiles() { return tiles({}, true); }
  /// The tiles that the whole mask visits, where a tile is full if the conjuncts `deciding`, without those that are
  /// tested tile by tile (judgeByTile), hold for all of its elements. If `toEnd`, a tile that crosses the end of the
  /// looped axis is not full.
  std::vector<VisitedPart> tilesBy(llvm::ArrayRef<Conjunct> deciding, bool toEnd) { return tiles(deciding, toEnd); }

  /// The longest interval in which the given conjuncts hold for every row of the fixed tile.
  Interval fullInterval(llvm::ArrayRef<Conjunct> conjuncts);

  /// Converts `x` to an interval with one end only, a subset of x. If `begin`: [lo, count) if x extends to the count,
  /// else the empty interval. If not `begin`: [0, hi) if x begins at 0, else the empty interval.
  Interval withOneEnd(const Interval &x, bool begin);

  /// Returns `x` with ends that can be tested independently of each other: if x is empty at run time and
  /// Interval::isChosen (a run-time condition has selected both ends), its ends become lo = count and hi = 0.
  Interval withBothEnds(const Interval &x);

  /// The conjuncts of the mask, classified by which indices each leaves visible to a row: [0, end) in `upper`,
  /// [begin, count) in `lower`, [begin, end) in `both`, anything else in `rest`. Two subsets of `rest`: `unions` leave
  /// several intervals, `loose` leave indices that intervals do not describe exactly. The fixed tile must be one row.
  struct RowConjuncts {
    SmallVector<Conjunct> upper, lower, both, rest, unions, loose;
  };
  RowConjuncts rowConjuncts();

  /// An end of the visible indices of the looped axis: every index at or after this end is masked for all rows. The end
  /// comes from the conjuncts that depend on the looped axis alone (not on the fixed axis or, in a domain repeated for
  /// each head, on the head); nullopt if no such conjunct gives an end.
  std::optional<Linear> endForAll();

  /// The hull of one conjunct: the conjunct masks every index outside of these intervals.
  Intervals hullOfConjunct(const Conjunct &conjunct) { return visit<Bounds>(conjunct.first, conjunct.second).hull; }

  /// The begin and the end (at most the count) of an interval as i32, bounded so that subtracting an index of the
  /// looped axis cannot overflow.
  Value beginOf(const Interval &x, StringRef name);
  Value endOf(const Interval &x, StringRef name);

private:
  std::vector<VisitedPart> tiles(std::optional<llvm::ArrayRef<Conjunct>> deciding, bool toEnd);
  std::vector<VisitedPart> visitedParts(const Intervals &hull);
  void findFull(VisitedPart &part, const Intervals &full, bool isClamped, bool toEnd);
  /// The intervals outside which the whole mask hides everything (hull), and those in which the conjuncts `deciding`
  /// (the whole mask, if nullopt) hide nothing (full). Conjuncts that judgeByTile() has set do not restrict `full`.
  Bounds bounds(std::optional<llvm::ArrayRef<Conjunct>> deciding);

  //===--------------------------------------------------------------------===//
  // The tree of conditions
  //===--------------------------------------------------------------------===//

  // The template parameter Set is Bounds (intervals of the looped axis) or Verdict (about one looped tile).

  /// The set (Bounds or Verdict) of the elements for which the i1 `value`, negated if `negate`, is true.
  template <typename Set> Set visit(Value value, bool negate);
  template <typename Set> Set computeSet(Value value, bool negate);
  /// The elements that a run-time condition with one value for the whole tile leaves visible: all or none.
  template <typename Set> Set setOfUniform(Value value, bool negate);
  /// The elements that a condition, negated if `negate`, leaves visible, given two run-time values: `ends.first` says
  /// whether the condition holds for all elements of the tile, `ends.second` whether the condition holds for any.
  template <typename Set> Set setOfEnds(const std::pair<Value, Value> &ends, bool negate);
  /// The elements for which `compare`, a comparison of two i1 values, holds (fails if `negate`). `uniform`: the
  /// comparison has one value for all elements of the tile.
  template <typename Set> Set compareFlags(mlir::arith::CmpIOp compare, bool negate, bool uniform);
  /// The elements for which `compare`, a comparison of integers, holds (fails if `negate`); nullopt if unsigned.
  template <typename Set> std::optional<Set> compareIntegers(mlir::arith::CmpIOp compare, bool negate);
  /// The elements for which two i1 values differ (x != y), or are equal if `negate`.
  template <typename Set> Set different(Value x, Value y, bool negate);

  /// Whether `value` contains a condition on both axes that the analysis cannot decide for any tile.
  bool holdsUnfollowed(Value value);
  /// Samples elements of a few tiles. Some: the conjunct may mask a whole tile, or depends on more than q and k. None:
  /// no such tile was found. Untried: the budget of sampled values is used up.
  enum class Hides { None, Some, Untried };
  Hides hidesTiles(const Conjunct &conjunct);
  /// Whether the intervals in which the conjunct holds for every row of the fixed tile contain, in every launch, the
  /// whole looped axis except its first four tiles, or except its last four tiles.
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

  /// All elements of the tile if the run-time `condition` holds, else none.
  template <typename Set> Set where(const Condition &condition) { return where<Set>(condition, condition); }
  /// The set (Bounds or Verdict) of a condition that may hold for some elements if `any` and holds for all if `all`.
  template <typename Set> Set where(const Condition &any, const Condition &all) {
    if constexpr (std::is_same_v<Set, Bounds>)
      return {when(any), when(all)};
    else
      return {any, all};
  }

  /// The whole looped axis if the run-time `condition` holds, else the empty set.
  Intervals when(const Condition &condition);
  /// Whether the interval is empty for every launch.
  bool isEmpty(const Interval &x);
  Interval intersect(const Interval &x, const Interval &y);
  Intervals intersect(const Intervals &x, const Intervals &y, Rounding rounding);
  /// Adds `x` to the union `to`. If `to` would have more than mostIntervals intervals, two of them are merged, which
  /// makes the union larger or smaller as `rounding` says.
  void unite(Intervals &to, Interval x, Rounding rounding);
  /// The union of x and y as one interval, if the union is an interval for every launch. With Rounding::Grow, a gap
  /// smaller than a tile between x and y is included.
  std::optional<Interval> asOne(const Interval &x, const Interval &y, Rounding rounding);
  Linear lowEnd(const Interval &x) { return x.lo ? clampToLooped(*x.lo) : constantOf(0); }
  Linear highEnd(const Interval &x) { return x.hi ? clampToLooped(*x.hi) : loopedAxis.count; }
  /// The smallest interval that contains x and y.
  Interval hullOf(const Interval &x, const Interval &y);
  /// An interval inside the union of x and y: the union itself if x and y touch, else the longer of the two.
  Interval longestOf(const Interval &x, const Interval &y);

  Bounds conjunction(const Bounds &x, const Bounds &y);
  Bounds disjunction(const Bounds &x, const Bounds &y);
  Verdict conjunction(const Verdict &x, const Verdict &y);
  Verdict disjunction(const Verdict &x, const Verdict &y);

  Choice choiceOf(Value condition) override;

  //===--------------------------------------------------------------------===//
  // Comparisons
  //===--------------------------------------------------------------------===//

  /// One side of a comparison: an SSA value (negated if `negative`), or a linear function of q and k for which there is
  /// no SSA value (`known`).
  struct Side {
    Value value;
    bool negative = false;
    std::optional<Form> known = {};
  };

  /// The elements for which x + slack <= y holds.
  template <typename Set> Set atMost(Side x, Side y, int64_t slack);
  /// Whether the result of a float comparison is looked up in a per-tile table: the comparison depends on one axis, and
  /// is not between a converted integer and a uniform value.
  bool comparesByTable(mlir::arith::CmpFOp compare);
  template <typename Set> Set compareFloats(mlir::arith::CmpFOp compare, bool negate);
  /// The elements for which x < y (x <= y unless `strictly`) holds for floats, or fails if `negate`. A comparison with
  /// NaN fails.
  template <typename Set> Set isLess(Value x, Value y, bool strictly, bool negate);
  /// The largest integer whose float is below y (at most y, if not `below`), or `ofNaN` if y is NaN. `y` is uniform
  /// over the tile: a value that does not depend on q and k, or an entry of a per-tile table.
  Linear lastInteger(Value y, bool below, int64_t ofNaN);
  /// The minimum and the maximum, over the tile, of a float that is uniform or depends on one axis.
  std::optional<std::pair<Value, Value>> floatEnds(Value value);
  /// Whether x < y (x <= y unless `strictly`) may hold for some element of the tile, and whether for every element.
  Verdict compare(Form x, Form y, bool strictly);
  Bounds solveAtMost(Form low, Form high, bool lowNegative, bool highNegative, int64_t slack);
  /// Clamps x, if x is a uniform i64 that is too large for sums, to a range that contains `other` in its interior.
  /// `other` is the range of the value that x is compared with, so the clamp changes no comparison.
  void narrow(Form &x, Range other);
  /// Solves x <= 0 for the looped index, where the form `x` is a linear function of q and k plus a rest in [x.lo,
  /// x.hi]. In `full` the inequality holds for every row of the fixed tile and every value of the rest; outside of
  /// `hull` the inequality holds for no row.
  Bounds solve(const Form &x);
  /// floor(x / divisor), or 0 for a negative x if no position is negative. The callers compare the result only with
  /// quotients of positions.
  Linear quotient(const Linear &x, int64_t divisor);
  /// The first index of the looped axis whose position l has trunc(l / divisor) >= least.
  Linear firstIndex(const Linear &least, int64_t divisor);
  static bool mayBeNegative(const Axis &axis) { return axis.offset.range.lo < 0; }
  /// The interval x, with lo or hi removed if that end excludes no index of the looped axis in any launch.
  Interval simplified(Interval x);

  /// The maximum number of intervals of a union. Each gap between two intervals costs the loop over the domain a few
  /// integer operations per tile.
  static constexpr unsigned mostIntervals = 4;
  /// The remaining number of comparisons of min, max, abs and select that may be split into simpler comparisons. The
  /// limit bounds compile time.
  int splits = 32;
  /// The remaining number of values of the region that may be computed for sampled elements. The limit bounds the
  /// compile time of large masks.
  int64_t valuesLeft = 1 << 18;
  std::map<std::pair<void *, unsigned>, Value> lastIntegers; // cache of lastInteger()
  SmallVector<Conjunct> byTile;
  SmallVector<Value> byCount, byPart;
  llvm::DenseMap<std::pair<Value, unsigned>, Bounds> visited; // caches of visit(), by value and negation
  llvm::DenseMap<std::pair<Value, unsigned>, Verdict> judged;
};

} // namespace attune::mask
