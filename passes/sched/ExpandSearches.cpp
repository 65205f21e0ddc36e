//===- ExpandSearches.cpp - Expand searches and block patterns into loops -------------===//
//
// A search finds the next tile of a loop that the mask leaves visible. The search tests a window of 32 tiles at a time,
// one tile per lane. A ballot of the warp returns which of these tiles are visible:
//
//     for (window = from, tile = bound; window < bound; window = votes ? bound : window + 32) {
//       asked = window + lane;
//       votes = ballot(asked < bound && is_visible(min(asked, bound - 1)));
//       if (votes) tile = window + trailing_zeros(votes);
//     }
//
// To find the first visible tile of each warpgroup's rows, the window that was found is tested once more. The tiles of
// the loop are given as ranges with gaps between them. A window that would begin in a gap begins after the gap instead.
//
// A search may receive the votes of an earlier search's window. If one of these votes is for a visible tile ahead, the
// loop does not run: the loop starts at its bound, with that tile as the result. Otherwise the search starts after the
// earlier window.
//
// If the IR also has a test of groups of 32 tiles, the window moves ahead to the first group that may hold a visible
// tile, while the bound is more than two windows away:
//
//     for (ahead = window; ahead < bound - 64; ahead = votes ? bound : window) {
//       votes = ballot(may_hold_visible(min(ahead / 32 + lane, (bound - 1) / 32)));
//       window = max(ahead, 32 * (ahead / 32 + trailing_zeros(votes)));       without votes: after the 32 groups
//     }
//
// A search whose votes a later search receives tests groups before it tests a window's tiles: such a search finds a
// block's first tile, or the next tile after a window of 32. Any other search tests a window first, because its tile is
// likely to be near.
//
// A block pattern is a tensor of flags, one for each block of scores. The pass expands the test whether a tile touches
// a block whose flag is set. The test is a loop over the rows and columns of the pattern's blocks that the tile
// touches, or one load if the tile lies in one of the pattern's blocks.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/mask/TileSequence.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_EXPANDSEARCHES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using Predicate = arith::CmpIPredicate;

namespace {

class Writer {
protected:
  Writer(Operation *op) : builder(op), loc(op->getLoc()) {}

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw); }
  Value compare(Predicate predicate, Value a, Value b) { return arith::CmpIOp::create(builder, loc, predicate, a, b); }
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value smaller(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }

  OpBuilder builder;
  Location loc;
};

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

class SearchWriter : Writer {
public:
  explicit SearchWriter(sched::NextVisibleOp search) : Writer(search), search(search), bound(search.getBound()) {}

  void run() {
    // The loop carries the window to test and those results of the search that have uses. If the first visible tile of
    // each warpgroup's rows is searched as well, the loop also carries the origin: the first tile of the window that
    // was found.
    const SmallVector<Value> all = start();
    SmallVector<Value> inits{all.front()};
    SmallVector<StringRef> names{"window"};
    for (OpResult result : search.getResults().take_front(results))
      if (!result.use_empty() || (result.getResultNumber() == originResult && !search.getBegins().empty())) {
        carried.push_back(result.getResultNumber());
        inits.push_back(all[1 + result.getResultNumber()]);
        names.push_back(nameOf(result));
      }
    sched::ForTilesOp loop = loopOver(inits, names);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&loop.getBody().front());
      writeIteration(loop.getBody().front());
    }
    for (auto [number, kept] : llvm::zip(carried, loop.getKept().drop_front())) {
      if (number == originResult)
        origin = kept;
      search.getResult(number).replaceAllUsesWith(kept);
    }
    if (!search.getBegins().empty())
      writeParts();
    search.erase();
  }

private:
  StringRef nameOf(OpResult result) {
    static constexpr StringRef names[] = {"found", "origin", "visible", "full", "part_begin"};
    if (StringRef name = tile::nameOf(search.getTile()); result.getResultNumber() == 0 && !name.empty())
      return name;
    return names[std::min(result.getResultNumber(), 4u)];
  }

  Value firstOf(Value window, Value votes) {
    return add(window, math::CountTrailingZerosOp::create(builder, loc, votes));
  }

  Value ballot(Value condition) { return sched::BallotOp::create(builder, loc, builder.getI32Type(), condition); }

  Value passGaps(Value tile) { return attune::passGaps(builder, loc, tile, search.getGaps()); }

  /// Whether `tile` is before the search's bound and in no gap between the ranges of tiles to search.
  Value isSearched(Value tile) {
    Value is = compare(Predicate::slt, tile, bound);
    for (auto gaps = search.getGaps(); !gaps.empty(); gaps = gaps.drop_front(2))
      is = both(is, arith::OrIOp::create(builder, loc, compare(Predicate::slt, tile, gaps[0]),
                                         compare(Predicate::sge, tile, gaps[1])));
    return is;
  }

  /// The initial values of the search loop's carried values: the window, then the results of the search.
  SmallVector<Value> start() {
    Value from = passGaps(search.getFrom()), zero = i32(0);
    SmallVector<Value> values{from, bound, bound, zero, zero};
    if (OperandRange seen = search.getSeen(); !seen.empty()) {
      Value origin = seen[0], votes = seen[1], lanes = i32(32);
      Value place = arith::SubIOp::create(builder, loc, from, origin);
      Value isIn = compare(Predicate::ult, place, lanes);
      // The shift is limited to 31, because a shift by 32 or more is undefined.
      Value ahead = arith::ShRUIOp::create(builder, loc, votes, both(place, i32(31)));
      ahead = tile::named(select(isIn, ahead, zero), "ahead");
      Value known = tile::named(compare(Predicate::ne, ahead, zero), "is_known");
      values = {select(known, bound, passGaps(select(isIn, add(origin, lanes), from))),
                select(known, firstOf(from, ahead), bound), select(known, origin, bound), select(known, votes, zero),
                select(known, seen[2], zero)};
    }
    return values;
  }

  sched::ForTilesOp loopOver(ValueRange inits, ArrayRef<StringRef> names) {
    auto loop = sched::ForTilesOp::create(builder, loc, inits, bound, ValueRange(), /*keeps=*/true);
    loop->setAttr(tile::namesAttr, builder.getStrArrayAttr(names));
    return loop;
  }

  Value lastTile() { return arith::SubIOp::create(builder, loc, bound, i32(1), arith::IntegerOverflowFlags::nsw); }
  Value plusLane(Value first) { return add(first, sched::LaneIdOp::create(builder, loc, builder.getI32Type())); }
  Value groupOf(Value tile) { return arith::ShRUIOp::create(builder, loc, tile, i32(groupShift)); }

  /// Inlines a copy of `region`, which tests whether the tile or the group of tiles `index` is visible. Returns the
  /// copy's terminator.
  sched::VisibleOp answersOf(Region &region, Value index) {
    IRMapping mapping;
    mapping.map(region.getArgument(0), index);
    Operation *answer = nullptr;
    for (Operation &op : region.front())
      answer = builder.clone(op, mapping);
    return cast<sched::VisibleOp>(answer);
  }

  /// Tests whether the tile `asked`, a different tile in each lane, is visible.
  sched::VisibleOp ask(Value asked) { return answersOf(search.getCondition(), smaller(asked, lastTile())); }

  Value testedBy(Value window) { return tile::named(plusLane(window), "asked"); }

  /// Whether the search tests groups of 32 tiles before single tiles. It does so if a later op reads the results that
  /// the search returns for its last window of 32 tiles (the ballots of the warp's lanes).
  bool testsGroupsFirst() {
    return !search.getGroups().empty() &&
           llvm::any_of(search.getWindow(), [](Value answer) { return !answer.use_empty(); });
  }

  /// Returns `window`, moved forward to the first group of 32 tiles that may hold a visible tile.
  Value passGroups(Value window) {
    if (search.getGroups().empty())
      return window;
    Value far = tile::named(arith::SubIOp::create(builder, loc, bound, i32(2 * tile::DomainOp::groupTiles),
                                                  arith::IntegerOverflowFlags::nsw),
                            "far");
    auto loop = sched::ForTilesOp::create(builder, loc, ValueRange{window, window}, far, ValueRange(), /*keeps=*/true);
    loop->setAttr(tile::namesAttr, builder.getStrArrayAttr({"ahead", "window"}));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&loop.getBody().front());
    Value ahead = loop.getBody().front().getArgument(0), first = groupOf(ahead), last = groupOf(lastTile());
    // Lanes past the last group test the last group again. In the ballot their bits come after that group's own bit, so
    // the first set bit stays the right one.
    Value group = tile::named(smaller(plusLane(first), last), "group");
    sched::VisibleOp answer = answersOf(search.getGroups(), group);
    Value votes = ballot(answer.getVisible());
    answer.erase();
    Value begin = arith::ShLIOp::create(builder, loc, firstOf(first, votes), i32(groupShift));
    Value next = arith::MaxSIOp::create(builder, loc, ahead, begin);
    Value found = compare(Predicate::ne, votes, i32(0));
    sched::NextOp::create(builder, loc, ValueRange{select(found, bound, next), next});
    return loop.getKept()[1];
  }

  /// Finds the first visible tile of each part of the rows (the rows of one warpgroup): tests the window that was found
  /// once more, in a loop of at most one iteration. In the search loop itself each part would need a register.
  void writeParts() {
    SmallVector<Value> inits{origin};
    SmallVector<StringRef> names{"window"};
    for (Value part : search.getBegins()) {
      inits.push_back(bound);
      names.push_back(nameOf(cast<OpResult>(part)));
    }
    sched::ForTilesOp once = loopOver(inits, names);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&once.getBody().front());
      Value window = once.getBody().front().getArgument(0);
      sched::VisibleOp answer = ask(testedBy(window));
      SmallVector<Value> next{bound};
      // For a part without a visible tile in the window the result is the tile after the window: a ballot of 0 has 32
      // trailing zeros.
      for (Value part : answer.getParts())
        next.push_back(firstOf(window, ballot(part)));
      sched::NextOp::create(builder, loc, next);
      answer.erase();
    }
    for (auto [part, kept] : llvm::zip(search.getBegins(), once.getKept().drop_front()))
      part.replaceAllUsesWith(kept);
  }

  void writeIteration(Block &body) {
    const bool groupsFirst = testsGroupsFirst();
    Value window = body.getArgument(0), zero = i32(0);
    if (groupsFirst)
      window = passGaps(passGroups(window));
    Value asked = testedBy(window);
    sched::VisibleOp answer = ask(asked);
    Value isVisible = tile::named(both(answer.getVisible(), isSearched(asked)), "is_visible");
    Value visible = ballot(isVisible), full = ballot(both(isVisible, answer.getFull()));
    Value found = tile::named(compare(Predicate::ne, visible, zero), "is_found");
    const Value given[results] = {select(found, firstOf(window, visible), bound), select(found, window, bound), visible,
                                  full};
    Value after = select(found, bound, add(window, i32(32)));
    SmallVector<Value> next{groupsFirst ? after : passGaps(passGroups(after))};
    for (unsigned number : carried)
      next.push_back(given[number]);
    sched::NextOp::create(builder, loc, next);
    answer.erase();
  }

  static constexpr unsigned results = 4, originResult = 1;
  static constexpr int64_t groupShift = 5;
  static_assert(tile::DomainOp::groupTiles == 1 << groupShift, "lanes ask for all tiles of a group");

  sched::NextVisibleOp search;
  Value bound, origin;
  SmallVector<unsigned> carried; ///< indices of the search's results that the loop carries
};

//===----------------------------------------------------------------------===//
// Block patterns
//===----------------------------------------------------------------------===//

class PatternWriter : Writer {
public:
  explicit PatternWriter(tile::TouchesOp touches)
      : Writer(touches), touches(touches), rank(touches.getIndices().size()) {}

  void run() {
    Blocks rows = blocks(rank - 2, touches.getTileRows(), touches.getRows());
    Blocks columns = blocks(rank - 1, touches.getTileColumns(), touches.getColumns());
    Value result;
    if (rows.isOne && columns.isOne) {
      Value inside =
          both(compare(Predicate::slt, rows.begin, rows.end), compare(Predicate::slt, columns.begin, columns.end));
      result = both(inside, flag(rows.begin, columns.begin, /*isInside=*/false));
    } else {
      Value set = forEach(rows, "block_row", i32(0), [&](Value i, Value before) {
        return forEach(columns, "block_column", before, [&](Value j, Value set) {
          Value here = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), flag(i, j, /*isInside=*/true));
          return Value(arith::OrIOp::create(builder, loc, set, here));
        });
      });
      result = compare(Predicate::ne, set, i32(0));
    }
    touches.replaceAllUsesWith(tile::named(result, "touches"));
    touches.erase();
  }

private:
  /// The pattern's blocks that a tile touches along one dimension: [begin, end), limited to the pattern's extent. If
  /// `isOne`, the tile touches the block `begin` only, and `end` is the pattern's extent.
  struct Blocks {
    Value begin, end;
    bool isOne;
  };

  Blocks blocks(size_t dim, int64_t side, int64_t block) {
    Value start = touches.getIndices()[dim], begin = divided(start, block);
    Value extent = sched::ExtentOp::create(builder, loc, builder.getI32Type(), touches.getView(), dim);
    if (block % side == 0)
      return {begin, extent, true};
    Value last = divided(add(start, i32(side - 1)), block);
    return {begin, smaller(add(last, i32(1)), extent), false};
  }

  Value divided(Value value, int64_t by) { return arith::DivUIOp::create(builder, loc, value, i32(by)); }

  /// Loads the flag of the pattern's block in row `i` and column `j`. These two indices are clamped to the pattern's
  /// extents unless `isInside`. Head and batch indices are always clamped, because one pattern may apply to all heads
  /// or batches.
  Value flag(Value i, Value j, bool isInside) {
    SmallVector<Value> indices(touches.getIndices().drop_back(2));
    SmallVector<bool> inRange(indices.size(), false);
    indices.append({i, j});
    inRange.append(2, isInside);
    return tile::ElementOp::create(builder, loc, builder.getI1Type(), touches.getView(), indices,
                                   builder.getDenseBoolArrayAttr(inRange));
  }

  Value forEach(Blocks blocks, StringRef name, Value init, function_ref<Value(Value index, Value carried)> body) {
    Value end = blocks.isOne ? smaller(add(blocks.begin, i32(1)), blocks.end) : blocks.end;
    auto loop = sched::ForTilesOp::create(builder, loc, ValueRange{blocks.begin, init}, end, ValueRange(), true);
    loop->setAttr(tile::namesAttr, builder.getStrArrayAttr({name, "any_set"}));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&loop.getBody().front());
    Value index = loop.getBody().getArgument(0), carried = body(index, loop.getBody().getArgument(1));
    sched::NextOp::create(builder, loc, ValueRange{add(index, i32(1)), carried});
    return loop.getKept()[1];
  }

  tile::TouchesOp touches;
  size_t rank;
};

struct ExpandSearches : attune::impl::ExpandSearchesBase<ExpandSearches> {
  using ExpandSearchesBase::ExpandSearchesBase;

  void runOnOperation() override {
    SmallVector<tile::TouchesOp> patterns;
    SmallVector<sched::NextVisibleOp> searches;
    for (auto kernel : getOperation().getOps<sched::KernelOp>()) {
      kernel.walk([&](tile::TouchesOp touches) { patterns.push_back(touches); });
      kernel.walk([&](sched::NextVisibleOp search) { searches.push_back(search); });
    }
    for (tile::TouchesOp touches : patterns)
      PatternWriter(touches).run();
    for (sched::NextVisibleOp search : searches)
      SearchWriter(search).run();
  }
};

} // namespace
