//===- TileSequence.h - The tiles of a domain, one after the other ----------===//
//
// What a schedule needs of a domain: its first tile, the one after a tile, and where it ends.
//
//     FailureOr<TileSequence> sequence = TileSequence::create(domain);
//     for (at = sequence->first(builder); at.tile < sequence->bound; at = sequence->next(builder, at))
//       sequence->origin(builder, at.tile)    first key of the tile
//       sequence->partial(builder, at)        whether the mask decides within it
//
// A reversed domain's sequence counts upwards too: its n-th tile is the n-th from the domain's end. Where segments do
// not touch, what would be a tile of the gap between them is the first one behind it:
//
//     [0, 2) [6, 9)        after tile 1: 2, at or past the end 2 of the first segment, so max(2, 6)
//
// The rounds of a domain of `times` follow one another, as many places apart as its last segment ends at:
//
//     [1, 4) times 3       1 2 3  5 6 7  9 10 11        place 6: tile 2 of round 1
//
// Where each round has a search of its own, one search goes through the rounds: what it is asked of is a place. Rounds
// then have places from their first segment's begin on, so that short ones share a vote; with `groups` they begin and
// end at a group's end, and a group of 32 places is one of 32 tiles.
//
//     [1, 4) times 3       0 1 2  3 4 5  6 7 8          place 4: tile 2 of round 1, of which round 1 is asked
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include "mlir/IR/IRMapping.h"

namespace attune {

/// `tile`, or the first one behind the gap that it lies in. Gaps are two ends each, ascending: [gaps[0], gaps[1]), ...
inline mlir::Value passGaps(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tile, mlir::ValueRange gaps) {
  using namespace mlir::arith;
  for (size_t i = 0; i < gaps.size(); i += 2) {
    mlir::Value before = CmpIOp::create(builder, loc, CmpIPredicate::slt, tile, gaps[i]);
    mlir::Value behind = MaxSIOp::create(builder, loc, tile, gaps[i + 1]);
    tile = SelectOp::create(builder, loc, before, tile, behind);
    tile::named(tile, "next_tile");
  }
  return tile;
}

/// The tiles that a domain visits, as a sequence of tile indices or, where it is reversed or has rounds, of places.
struct TileSequence {
  /// A place; where tiles follow from searches and are to be remembered, the origin, visible and full of the window that
  /// holds its tile.
  struct Visit {
    mlir::Value tile;
    llvm::SmallVector<mlir::Value, 3> window;
  };

  tile::DomainOp domain;
  mlir::Value bound; ///< of places
  Visit entry = {};  ///< the first tile of a round, once it has been asked for
  /// Where a search goes through the rounds: the tile of a round's first place, and how many places it has.
  mlir::Value firstOfIteration = {}, placesOfIteration = {};

  /// The builder stands where the domain's values are known, in front of the loop over the tiles.
  static mlir::FailureOr<TileSequence> create(mlir::OpBuilder &builder, tile::DomainOp domain) {
    TileSequence sequence{domain, domain.getEnds().back()};
    if (domain.getReverse() && !sequence.isContiguous())
      return domain.emitError(
          "a reversed domain that leaves tiles out is not supported by this schedule; visit it forward");
    if (domain.getReverse() && domain.getTimes())
      return domain.emitError("a reversed domain with rounds is not supported by this schedule; visit it forward");
    if (!domain.getTimes())
      return sequence;
    if (sequence.searches() && domain.takesIteration())
      sequence.measureIteration(builder);
    sequence.bound = tile::named(
        mlir::arith::MulIOp::create(builder, domain.getLoc(), sequence.apart(), domain.getTimes()), "places");
    return sequence;
  }

  /// Whether the next tile follows from a search.
  bool searches() { return domain.skips(); }

  /// Whether each place is followed by the one after it.
  bool isContiguous() {
    return !searches() && gaps().empty() && (!domain.getTimes() || matchPattern(domain.getBegins()[0], mlir::m_Zero()));
  }

  /// Where `parts` are, domains of parts of the rows, `begins` are for each a tile at or before the first that it
  /// visits.
  Visit first(mlir::OpBuilder &builder, llvm::ArrayRef<tile::DomainOp> parts = {},
              llvm::SmallVectorImpl<mlir::Value> *begins = nullptr) {
    if (placesOfIteration)
      return visibleFrom(builder, number(builder, 0), {}, parts, begins);
    entry = visibleFrom(builder, domain.getBegins().front(), {}, parts, begins);
    if (!domain.getTimes())
      return entry;
    // No round has a tile where the first has none.
    return {tile::named(choose(builder, isInIteration(builder, entry.tile), entry.tile, bound), "first_tile"),
            entry.window};
  }

  /// The place after that of `at`; the sequence's first one has been asked for where it dominates the builder.
  Visit next(mlir::OpBuilder &builder, Visit at) {
    mlir::Location loc = domain.getLoc();
    mlir::Value one = number(builder, 1);
    const bool inIterations = domain.getTimes() && !isContiguous() && !placesOfIteration;
    mlir::Value tile = inIterations ? tileAt(builder, at.tile) : at.tile;
    mlir::Value following = tile::named(mlir::arith::AddIOp::create(builder, loc, tile, one), "next_tile");
    Visit next = visibleFrom(builder, following, at.window);
    if (!inIterations)
      return next;
    mlir::Value start = mlir::arith::SubIOp::create(builder, loc, at.tile, tile);
    mlir::Value after = mlir::arith::AddIOp::create(builder, loc, start, end());
    mlir::Value stays = isInIteration(builder, next.tile);
    auto place = [&](mlir::Value from, mlir::Value tile) {
      return mlir::Value(mlir::arith::AddIOp::create(builder, loc, from, tile));
    };
    mlir::Value chosen = choose(builder, stays, place(start, next.tile), place(after, entry.tile));
    Visit visit{tile::named(chosen, "next_tile"), {}};
    for (auto [same, first] : llvm::zip(next.window, entry.window))
      visit.window.push_back(choose(builder, stays, same, first));
    return visit;
  }

  /// Which round a place is in; null where the domain has none.
  mlir::Value iteration(mlir::OpBuilder &builder, mlir::Value place) {
    if (!domain.getTimes())
      return {};
    return tile::named(mlir::arith::DivUIOp::create(builder, domain.getLoc(), place, apart()), "round");
  }

  mlir::Value origin(mlir::OpBuilder &builder, mlir::Value place) {
    mlir::Value step = mlir::arith::ConstantIntOp::create(builder, domain.getLoc(), domain.getStep(), 32);
    return tile::named(mlir::arith::MulIOp::create(builder, domain.getLoc(), tileAt(builder, place), step),
                       (domain.getAxis() + "0").str());
  }

  /// Where in the sequence the tiles from index `begin` to `end` stand.
  std::pair<mlir::Value, mlir::Value> within(mlir::OpBuilder &builder, mlir::Value begin, mlir::Value end) {
    if (!domain.getReverse())
      return {begin, end};
    return {mirrored(builder, end), mlir::matchPattern(begin, mlir::m_Zero()) ? bound : mirrored(builder, begin)};
  }

  /// Whether the mask decides within the tile.
  mlir::Value partial(mlir::OpBuilder &builder, const Visit &at) {
    mlir::Location loc = domain.getLoc();
    mlir::Value index = tileAt(builder, at.tile);
    mlir::Value partial = mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
    for (auto [begin, end, full] : llvm::zip(domain.getBegins(), domain.getEnds(), domain.getFull())) {
      if (!full)
        continue;
      // Nothing is visited before the first segment or after the last.
      mlir::Value outside;
      if (begin != domain.getBegins().front())
        outside = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::slt, index, begin);
      if (end != domain.getEnds().back()) {
        mlir::Value after = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::sge, index, end);
        outside = outside ? mlir::Value(mlir::arith::OrIOp::create(builder, loc, outside, after)) : after;
      }
      if (!outside)
        outside = mlir::arith::ConstantIntOp::create(builder, loc, 0, 1);
      partial = mlir::arith::AndIOp::create(builder, loc, partial, outside);
    }
    if (mlir::Value full = domain.getFullWhere(); full && llvm::is_contained(domain.getFull(), true)) {
      mlir::Value one = mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
      mlir::Value mixed = mlir::arith::XOrIOp::create(
          builder, loc,
          at.window.empty() ? ask(builder, index, iterationToTest(builder, at.tile), full) : isFull(builder, at), one);
      partial = mlir::arith::OrIOp::create(builder, loc, partial, mixed);
    }
    return tile::named(partial, "partial");
  }

private:
  /// Where a round ends.
  mlir::Value end() { return domain.getEnds().back(); }
  /// How many places rounds are apart.
  mlir::Value apart() { return placesOfIteration ? placesOfIteration : end(); }

  static bool isZero(mlir::Value value) { return matchPattern(value, mlir::m_Zero()); }
  mlir::Value number(mlir::OpBuilder &builder, int64_t value) {
    return mlir::arith::ConstantIntOp::create(builder, domain.getLoc(), value, 32);
  }

  void measureIteration(mlir::OpBuilder &builder) {
    using namespace mlir::arith;
    mlir::Location loc = domain.getLoc();
    mlir::Value last = end();
    firstOfIteration = domain.getBegins().front();
    if (!domain.getGroups().empty()) {
      mlir::Value whole = number(builder, -tile::DomainOp::groupTiles);
      last = AndIOp::create(builder, loc,
                            AddIOp::create(builder, loc, last, number(builder, tile::DomainOp::groupTiles - 1)), whole);
      if (!isZero(firstOfIteration))
        firstOfIteration = tile::named(AndIOp::create(builder, loc, firstOfIteration, whole), "round_begin");
    }
    placesOfIteration =
        isZero(firstOfIteration)
            ? last
            : mlir::Value(MaxSIOp::create(builder, loc, SubIOp::create(builder, loc, last, firstOfIteration),
                                          number(builder, 0)));
    tile::named(placesOfIteration, "round_places");
  }

  /// The round of a place, where the domain's regions take it.
  mlir::Value iterationToTest(mlir::OpBuilder &builder, mlir::Value place) {
    return domain.takesIteration() ? iteration(builder, place) : mlir::Value();
  }

  /// Whether the segments hold a tile of a round's places; null where they hold all.
  mlir::Value isOfSegments(mlir::OpBuilder &builder, mlir::Value tile) {
    using namespace mlir::arith;
    mlir::Location loc = domain.getLoc();
    mlir::Value is;
    auto require = [&](mlir::Value condition) {
      is = is ? mlir::Value(AndIOp::create(builder, loc, is, condition)) : condition;
    };
    auto compare = [&](CmpIPredicate predicate, mlir::Value with) -> mlir::Value {
      return CmpIOp::create(builder, loc, predicate, tile, with);
    };
    if (firstOfIteration != domain.getBegins().front())
      require(compare(CmpIPredicate::sge, domain.getBegins().front()));
    if (!domain.getGroups().empty())
      require(compare(CmpIPredicate::slt, end()));
    const llvm::SmallVector<mlir::Value> gaps = this->gaps();
    for (size_t i = 0; i < gaps.size(); i += 2)
      require(
          OrIOp::create(builder, loc, compare(CmpIPredicate::slt, gaps[i]), compare(CmpIPredicate::sge, gaps[i + 1])));
    return is;
  }

  mlir::Value isInIteration(mlir::OpBuilder &builder, mlir::Value tile) {
    return mlir::arith::CmpIOp::create(builder, domain.getLoc(), mlir::arith::CmpIPredicate::slt, tile, end());
  }
  mlir::Value choose(mlir::OpBuilder &builder, mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, domain.getLoc(), condition, a, b);
  }

  /// Where a segment ends and the next one begins behind, by twos.
  llvm::SmallVector<mlir::Value> gaps() {
    llvm::SmallVector<mlir::Value> gaps;
    for (auto [end, begin] : llvm::zip(domain.getEnds().drop_back(), domain.getBegins().drop_front()))
      if (end != begin)
        gaps.append({end, begin});
    return gaps;
  }

  mlir::Value tileAt(mlir::OpBuilder &builder, mlir::Value place) {
    if (domain.getTimes()) {
      mlir::Value tile = mlir::arith::RemUIOp::create(builder, domain.getLoc(), place, apart());
      if (placesOfIteration && !isZero(firstOfIteration))
        tile = mlir::arith::AddIOp::create(builder, domain.getLoc(), firstOfIteration, tile);
      return tile::named(tile, "tile");
    }
    if (!domain.getReverse())
      return place;
    mlir::Value one = mlir::arith::ConstantIntOp::create(builder, domain.getLoc(), 1, 32);
    return mlir::arith::SubIOp::create(builder, domain.getLoc(), mirrored(builder, place), one);
  }

  /// As far from one end of the domain as `index` is from the other.
  mlir::Value mirrored(mlir::OpBuilder &builder, mlir::Value index) {
    mlir::Value begin = domain.getBegins().front(), ends = domain.getEnds().back();
    if (!mlir::matchPattern(begin, mlir::m_Zero()))
      ends = mlir::arith::AddIOp::create(builder, domain.getLoc(), begin, ends);
    return mlir::arith::SubIOp::create(builder, domain.getLoc(), ends, index);
  }

  /// The first visited tile at or after `index`, by what `seen` says of those around it.
  Visit visibleFrom(mlir::OpBuilder &builder, mlir::Value index, mlir::ValueRange seen,
                    llvm::ArrayRef<tile::DomainOp> parts = {}, llvm::SmallVectorImpl<mlir::Value> *begins = nullptr) {
    mlir::Type type = index.getType();
    mlir::Location loc = domain.getLoc();
    llvm::SmallVector<mlir::Value> gaps = this->gaps();
    if (!searches())
      return {passGaps(builder, loc, index, gaps), {}};
    if (placesOfIteration)
      gaps.clear();
    assert((parts.empty() || !placesOfIteration) && "parts of the rows are those of a loop over keys");
    auto search = sched::NextVisibleOp::create(builder, loc, type, type, type, type,
                                               llvm::SmallVector<mlir::Type>(parts.size(), type), index,
                                               placesOfIteration ? bound : end(), seen, gaps);
    for (auto [i, begin] : llvm::enumerate(search.getBegins())) {
      tile::DomainOp part = parts[i];
      mlir::Value from = part.getBegins().front();
      begins->push_back(matchPattern(from, mlir::m_Zero())
                            ? mlir::Value(begin)
                            : mlir::Value(mlir::arith::MaxSIOp::create(builder, loc, from, begin)));
    }
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&search.getCondition(), {}, type, loc);
    mlir::Value tile = search.getCondition().getArgument(0), iteration, isTile;
    if (placesOfIteration)
      std::tie(tile, iteration, isTile) = testOf(builder, tile);
    llvm::SmallVector<mlir::Value> ofParts;
    mlir::Value visible = ask(builder, tile, iteration, domain.getVisible()),
                full = ask(builder, tile, iteration, domain.getFullWhere());
    if (isTile)
      visible = mlir::arith::AndIOp::create(builder, loc, isTile, visible);
    for (tile::DomainOp part : parts)
      ofParts.push_back(TileSequence{part, {}}.ask(builder, tile, iteration, part.getVisible()));
    sched::VisibleOp::create(builder, loc, visible, full, ofParts);
    if (mlir::Value any = domain.getAnyVisible()) {
      builder.createBlock(&search.getGroups(), {}, type, loc);
      mlir::Value group = search.getGroups().getArgument(0);
      if (placesOfIteration) {
        mlir::Value shift = number(builder, llvm::Log2_64(tile::DomainOp::groupTiles));
        mlir::Value place = mlir::arith::ShLIOp::create(builder, loc, group, shift);
        iteration = iterationToTest(builder, place);
        group = mlir::arith::ShRUIOp::create(builder, loc, tileAt(builder, place), shift);
      }
      any = answer(builder, domain.getGroups(), group, iteration, any);
      sched::VisibleOp::create(builder, loc, any, mlir::Value(), mlir::ValueRange());
    }
    tile::named(search.getTile(), "next_tile");
    return {search.getTile(), llvm::to_vector<3>(search.getWindow())};
  }

  /// Of a place in the rounds: its tile, its round and whether it is visited at all. Where it is not, a tile that may be
  /// asked.
  std::tuple<mlir::Value, mlir::Value, mlir::Value> testOf(mlir::OpBuilder &builder, mlir::Value place) {
    mlir::Location loc = domain.getLoc();
    mlir::Value tile = tileAt(builder, place), iteration = this->iteration(builder, place);
    mlir::Value isTile = isOfSegments(builder, tile);
    if (!domain.getGroups().empty())
      tile = mlir::arith::MinSIOp::create(builder, loc, tile,
                                          mlir::arith::SubIOp::create(builder, loc, end(), number(builder, 1)));
    return {tile, iteration, isTile};
  }

  /// The tile's bit of its window.
  mlir::Value isFull(mlir::OpBuilder &builder, const Visit &at) {
    mlir::Location loc = domain.getLoc();
    mlir::Value asked = placesOfIteration ? at.tile : tileAt(builder, at.tile);
    mlir::Value place =
        mlir::arith::SubIOp::create(builder, loc, asked, at.window[0], mlir::arith::IntegerOverflowFlags::nsw);
    mlir::Value bit = mlir::arith::ShRUIOp::create(builder, loc, at.window[2], place);
    return mlir::arith::TruncIOp::create(builder, loc, builder.getI1Type(), bit);
  }

  /// What the domain's `where` makes of `value` for tile `index`, in a round if it takes that.
  mlir::Value ask(mlir::OpBuilder &builder, mlir::Value index, mlir::Value iteration, mlir::Value value) {
    return answer(builder, domain.getWhere(), index, iteration, value);
  }

  /// What a region of the domain makes of `value` for its arguments.
  static mlir::Value answer(mlir::OpBuilder &builder, mlir::Region &region, mlir::Value index, mlir::Value iteration,
                            mlir::Value value) {
    mlir::Block &body = region.front();
    mlir::IRMapping mapping;
    mapping.map(body.getArgument(0), index);
    if (body.getNumArguments() > 1)
      mapping.map(body.getArgument(1), iteration);
    llvm::SmallVector<mlir::Value> used{value};
    llvm::SmallPtrSet<mlir::Operation *, 16> needed;
    while (!used.empty())
      if (mlir::Operation *op = used.pop_back_val().getDefiningOp();
          op && op->getBlock() == &body && needed.insert(op).second)
        llvm::append_range(used, op->getOperands());
    for (mlir::Operation &op : body.without_terminator())
      if (needed.contains(&op))
        builder.clone(op, mapping);
    return mapping.lookupOrDefault(value);
  }
};

} // namespace attune
