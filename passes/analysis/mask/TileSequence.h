//===- TileSequence.h - Enumerates the tiles of a domain in loop order -------===//
//
// A domain (tile.domain) is the list of tiles that a loop visits. The loop is generated from the domain's first tile,
// the successor of a tile, and the bound at which the loop ends.
//
//     FailureOr<TileSequence> sequence = TileSequence::create(domain);
//     for (at = sequence->first(builder); at.tile < sequence->bound; at = sequence->next(builder, at))
//       sequence->origin(builder, at.tile)    first key of the tile
//       sequence->partial(builder, at)        whether the mask must be evaluated within the tile
//
// The sequence counts upwards for a reversed domain too: place n of the sequence is then the n-th tile from the
// domain's end.
// Tiles of a gap between two segments are skipped: the successor of a tile is clamped to the begin of the next segment.
//
//     [0, 2) [6, 9)        after tile 1: index 2 is not in the first segment, so the next tile is max(2, 6)
//
// A domain with `times` visits its segments once for each iteration (head of a group). A place numbers the tiles of all
// iterations: place = iteration * (end of the last segment) + tile.
//
//     [1, 4) times 3       1 2 3  5 6 7  9 10 11        place 6: tile 2 of iteration 1
//
// If the `where` region depends on the iteration, one search (sched.next_visible) runs over the places of all
// iterations. The places of an iteration then begin at the first tile of the first segment rather than at tile 0, so
// that one vote of a warp can test several short iterations. With `groups`, iterations begin and end at multiples of 32
// tiles, so that 32 aligned places are 32 aligned tiles.
//
//     [1, 4) times 3       0 1 2  3 4 5  6 7 8          place 4: tile 2 of iteration 1, tested for iteration 1
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include "mlir/IR/IRMapping.h"

namespace attune {

/// Returns `tile`, or the first tile after the gap that contains `tile`. `gaps` are ranges of tiles that no loop
/// visits, [gaps[0], gaps[1]), ..., in ascending order.
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

/// The tiles that a domain visits, as an ascending sequence of places. A place is the position of a tile in loop order:
/// the tile index, unless the domain is reversed or has `times` (visits its tiles several times).
struct TileSequence {
  /// A place of the sequence. If visible tiles are found by a search, `window` has the search's results for 32 tiles:
  /// index of the first of them, bits of visible tiles, bits of full tiles.
  struct Visit {
    mlir::Value tile;
    llvm::SmallVector<mlir::Value, 3> window;
  };

  tile::DomainOp domain;
  mlir::Value bound; ///< end of the places (positions in loop order)
  Visit entry = {};  ///< first tile of an iteration; set by first()
  /// Set if one search for visible tiles runs over all iterations of a domain with `times` (which is visited several
  /// times), else null: the tile index at which the search begins each iteration, and the number of tile indices in an
  /// iteration.
  mlir::Value firstOfIteration = {}, placesOfIteration = {};

  /// Creates the sequence of `domain`, or emits an error if the domain is reversed and has gaps or `times`. The
  /// insertion point must be dominated by the domain's operands and precede the loop over the tiles.
  static mlir::FailureOr<TileSequence> create(mlir::OpBuilder &builder, tile::DomainOp domain) {
    TileSequence sequence{domain, domain.getEnds().back()};
    if (domain.getReverse() && !sequence.isContiguous())
      return domain.emitError(
          "a reversed domain that leaves tiles out is not supported by this schedule; visit it forward");
    if (domain.getReverse() && domain.getTimes())
      return domain.emitError("a reversed domain with `times` is not supported by this schedule; visit it forward");
    if (!domain.getTimes())
      return sequence;
    if (sequence.searches() && domain.takesIteration())
      sequence.measureIteration(builder);
    sequence.bound = tile::named(
        mlir::arith::MulIOp::create(builder, domain.getLoc(), sequence.apart(), domain.getTimes()), "places");
    return sequence;
  }

  /// Whether the next tile is found by a search: the domain has a `where` region that tests for each tile whether the
  /// mask leaves any element of the tile visible.
  bool searches() { return domain.skips(); }

  /// Whether the loop visits every place (position in loop order) up to the bound, so that the successor is place + 1.
  bool isContiguous() {
    return !searches() && gaps().empty() && (!domain.getTimes() || matchPattern(domain.getBegins()[0], mlir::m_Zero()));
  }

  /// The place (position in loop order) of the first visited tile. `parts` are the domains of the rows of each
  /// warpgroup. For each part `begins` receives a tile index at or before the first tile that the part visits.
  Visit first(mlir::OpBuilder &builder, llvm::ArrayRef<tile::DomainOp> parts = {},
              llvm::SmallVectorImpl<mlir::Value> *begins = nullptr) {
    if (placesOfIteration)
      return visibleFrom(builder, number(builder, 0), {}, parts, begins);
    entry = visibleFrom(builder, domain.getBegins().front(), {}, parts, begins);
    if (!domain.getTimes())
      return entry;
    // All iterations (heads of a group) visit the same tiles: if the first iteration visits no tile, the sequence is
    // empty.
    return {tile::named(choose(builder, isInIteration(builder, entry.tile), entry.tile, bound), "first_tile"),
            entry.window};
  }

  /// The place (position in loop order) that the loop visits after `at`. first() must have been called before, at a
  /// point that dominates the insertion point.
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

  /// The number of the iteration over the domain's tiles in which the loop visits `place`; null if there is one
  /// iteration only (a domain without `times`).
  mlir::Value iteration(mlir::OpBuilder &builder, mlir::Value place) {
    if (!domain.getTimes())
      return {};
    return tile::named(mlir::arith::DivUIOp::create(builder, domain.getLoc(), place, apart()), "iteration");
  }

  mlir::Value origin(mlir::OpBuilder &builder, mlir::Value place) {
    mlir::Value step = mlir::arith::ConstantIntOp::create(builder, domain.getLoc(), domain.getStep(), 32);
    return tile::named(mlir::arith::MulIOp::create(builder, domain.getLoc(), tileAt(builder, place), step),
                       (domain.getAxis() + "0").str());
  }

  /// The range of places (positions in the sequence) of the tiles with indices [begin, end).
  std::pair<mlir::Value, mlir::Value> within(mlir::OpBuilder &builder, mlir::Value begin, mlir::Value end) {
    if (!domain.getReverse())
      return {begin, end};
    return {mirrored(builder, end), mlir::matchPattern(begin, mlir::m_Zero()) ? bound : mirrored(builder, begin)};
  }

  /// Whether the tile is partial: the mask must be evaluated within the tile.
  mlir::Value partial(mlir::OpBuilder &builder, const Visit &at) {
    mlir::Location loc = domain.getLoc();
    mlir::Value index = tileAt(builder, at.tile);
    mlir::Value partial = mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
    for (auto [begin, end, full] : llvm::zip(domain.getBegins(), domain.getEnds(), domain.getFull())) {
      if (!full)
        continue;
      // No tile before the first segment or after the last one is visited, so these two bounds need no comparison.
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
  /// The tile index at which each iteration over the domain ends.
  mlir::Value end() { return domain.getEnds().back(); }
  /// The number of places (positions in loop order) of one iteration over the domain: how far apart the same tile of
  /// successive iterations is.
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

  /// The iteration over the domain in which the loop visits `place`, for the second argument of the regions that test
  /// tiles; null if the regions have no such argument.
  mlir::Value iterationToTest(mlir::OpBuilder &builder, mlir::Value place) {
    return domain.takesIteration() ? iteration(builder, place) : mlir::Value();
  }

  /// Emits whether `tile` lies in a segment of the domain (one of its ranges of tiles). Returns null if no test is
  /// needed: all tiles between the first and the last that an iteration over the domain tests lie in segments.
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

  /// The ranges of tiles between the domain's segments, which the loop skips: end of one segment, begin of the next,
  /// ...
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

  /// The tile index `index` mirrored within [begin, end), the range of all tiles of the domain: begin + end - index.
  mlir::Value mirrored(mlir::OpBuilder &builder, mlir::Value index) {
    mlir::Value begin = domain.getBegins().front(), ends = domain.getEnds().back();
    if (!mlir::matchPattern(begin, mlir::m_Zero()))
      ends = mlir::arith::AddIOp::create(builder, domain.getLoc(), begin, ends);
    return mlir::arith::SubIOp::create(builder, domain.getLoc(), ends, index);
  }

  /// The first visited tile at or after `index`. In a domain with a `where` region a search tests tiles for visible
  /// elements, 32 at a time. `seen`, if not empty, is the result of an earlier search for 32 tiles (Visit::window),
  /// which are then not tested again. For each of `parts`, the domains of the rows of each warpgroup, `begins` receives
  /// a tile index at or before the first tile that these rows see.
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

  /// The tile at `place` (position in loop order), its iteration, and whether the tile lies in a segment of the domain
  /// (null: always). A tile index at or past the end of the last segment is clamped to the tile before that end, so
  /// that per-tile tables can be read at the index.
  std::tuple<mlir::Value, mlir::Value, mlir::Value> testOf(mlir::OpBuilder &builder, mlir::Value place) {
    mlir::Location loc = domain.getLoc();
    mlir::Value tile = tileAt(builder, place), iteration = this->iteration(builder, place);
    mlir::Value isTile = isOfSegments(builder, tile);
    if (!domain.getGroups().empty())
      tile = mlir::arith::MinSIOp::create(builder, loc, tile,
                                          mlir::arith::SubIOp::create(builder, loc, end(), number(builder, 1)));
    return {tile, iteration, isTile};
  }

  /// Whether the tile of `at` is full, read from `at.window`: bits that a search has computed for 32 tiles.
  mlir::Value isFull(mlir::OpBuilder &builder, const Visit &at) {
    mlir::Location loc = domain.getLoc();
    mlir::Value asked = placesOfIteration ? at.tile : tileAt(builder, at.tile);
    mlir::Value place =
        mlir::arith::SubIOp::create(builder, loc, asked, at.window[0], mlir::arith::IntegerOverflowFlags::nsw);
    mlir::Value bit = mlir::arith::ShRUIOp::create(builder, loc, at.window[2], place);
    return mlir::arith::TruncIOp::create(builder, loc, builder.getI1Type(), bit);
  }

  /// Clones the ops of the domain's `where` region that compute `value`, for tile `index` and, if the region has an
  /// iteration argument, `iteration`. Returns the clone of `value`.
  mlir::Value ask(mlir::OpBuilder &builder, mlir::Value index, mlir::Value iteration, mlir::Value value) {
    return answer(builder, domain.getWhere(), index, iteration, value);
  }

  /// Clones the ops of `region` (`where` or `groups`) that compute `value`, with the region's arguments replaced by
  /// `index` and `iteration`. Returns the clone of `value`.
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

/// Erases tile.domain ops without a use, after the loops over domains have been lowered to loops over tile indices.
inline void eraseUnusedDomains(tile::KernelOp kernel) {
  kernel.walk([](tile::DomainOp domain) {
    if (domain->use_empty())
      domain.erase();
  });
}

} // namespace attune
