//===- Scatters.cpp - Store or add the elements of a tile at indices that tiles hold ---===//
//
// A scatter stores each element of a tile at indices of its own: the first lane that holds the element stores it. If
// the op is marked for pairs and the whole tile is within the view, a lane stores two columns together (Pairs.cpp).
// With `sched.eights`, the four lanes of a row exchange the pairs of four blocks of 8 columns, and each lane writes one
// block of 8 columns, 16 bytes.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/copies/TilesInEights.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

Value KernelExpander::indexElement(Value index, Value i, Value r, Value j, Value c) {
  if (!isa<TileType>(index.getType()))
    return mapping.lookup(index);
  auto map = index.getDefiningOp<tile::MapOp>();
  return map && givesPlaces(map) ? mapElement(map, i, r, j, c) : element(index, i, r, j, c);
}

LogicalResult KernelExpander::expandOp(tile::ScatterOp op) {
  SmallVector<Value> extents;
  Value inside;
  for (auto [dim, index] : llvm::enumerate(op.getIndices())) {
    extents.push_back(extentOf(mapping.lookup(op.getView()), int64_t(dim)));
    if (!isa<TileType>(index.getType()))
      inside = within(inside, mapping.lookup(index), extents.back());
  }
  if (inShared(op.getTile())) {
    auto exchange = op.getTile().getDefiningOp<sched::ExchangeOp>();
    if (!specialized || !exchange || !isInBoxes(op, exchange))
      return op.emitError("takes a tile from shared memory that warps exchange, in panels of 128 bytes, its rows and "
                          "columns those of the last two indices; scatter registers");
    Value one = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, i32(0));
    onlyIf(both(inside, one), [&] { scatterBoxes(op); });
    return success();
  }
  Value inPairs = liesInPairs(op, extents);
  const bool exchangesEights = op->hasAttr(sched::eightsAttr);
  if (exchangesEights && !isExchangedInEights(op))
    return op.emitError()
           << "is marked " << sched::eightsAttr
           << ", and is none whose last two indices count along the rows and columns of f32 in registers, "
              "32 columns for each warp, to 16 bits; leave the mark out";
  Value inEights = exchangesEights ? liesInEights(op, extents) : Value();
  auto writeRegisters = [&] {
    if (op.getMerge())
      return scatterMerged(op, extents);
    if (!inPairs)
      return scatterElements(op, extents);
    either(inPairs, [&] { scatterPairs(op, extents); }, [&] { scatterElements(op, extents); });
  };
  auto write = [&] {
    if (exchangesEights)
      either(inEights, [&] { scatterEights(op); }, writeRegisters);
    else
      writeRegisters();
  };
  // One branch tests the indices that are the same for all elements.
  inside ? onlyIf(inside, write) : write();
  return success();
}

void KernelExpander::scatterElements(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView()), writer = isWriter(buffer);
  forEachPlace(buffer, [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
    Value own = writer;
    if (Value exists = isDistance(buffer, i))
      own = both(own, exists);
    SmallVector<Value> place;
    for (auto [index, extent] : llvm::zip(op.getIndices(), extents)) {
      const bool isTile = isa<TileType>(index.getType());
      place.push_back(indexElement(index, i, r, j, c));
      if (isTile)
        own = within(own, place.back(), extent);
    }
    auto write = [&] {
      Value value = get(buffer, at);
      if (!op.getAdd())
        sched::StoreElementOp::create(builder, loc, value, view, place);
      else if (value.getType().isF32())
        sched::AddElementsOp::create(builder, loc, ValueRange(value), view, place);
      else
        sched::AddIntegerOp::create(builder, loc, value, view, place);
    };
    own ? onlyIf(own, write) : write();
  });
}

Value KernelExpander::liesWithin(Value all, tile::ScatterOp op, ArrayRef<Value> extents) {
  for (auto [index, extent] : llvm::zip(op.getIndices(), extents))
    if (std::optional<CountedPlaces> places = countedPlaces(index)) {
      const TileType type = places->map.getResult().getType();
      all = endsWithin(all, places->along, type, extent);
      if (places->end)
        all = endsWithin(all, places->along, type, mapping.lookup(places->end));
    }
  return all;
}

Value KernelExpander::liesInPairs(tile::ScatterOp op, ArrayRef<Value> extents) {
  return isMarkedForPairs(op) ? liesWithin(viewInPairs(mapping.lookup(op.getView())), op, extents) : Value();
}

Value KernelExpander::liesInEights(tile::ScatterOp op, ArrayRef<Value> extents) {
  return liesWithin(viewInPairs(mapping.lookup(op.getView()), /*eights=*/true), op, extents);
}

Value KernelExpander::ownPairs(tile::ScatterOp op) {
  const size_t rank = op.getIndices().size();
  if (!op->hasAttr(sched::rowPairsAttr) || rank < 2 || !countedPlaces(op.getIndices()[rank - 2]) ||
      llvm::any_of(op.getIndices().drop_back(2), [](Value index) { return isa<TileType>(index.getType()); }))
    return {};
  Value none = i32(0), column = rem(laneRow, 2);
  SmallVector<Value> first;
  for (Value index : op.getIndices())
    first.push_back(isa<TileType>(index.getType()) ? placeWithin(*countedPlaces(index), none, none, none, column)
                                                   : mapping.lookup(index));
  first.back() = firstOfPair(first.back(), column);
  return fromFirst(mapping.lookup(op.getView()), first);
}

void KernelExpander::scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView()), writer = isWriter(buffer);
  const bool byRows = op->hasAttr(sched::rowPairsAttr);
  Value column = byRows ? rem(laneRow, 2) : i32(0), isSecond = byRows ? isSecondRow() : Value(), own = ownPairs(op);
  auto writePair = [&](Value i, Value r, Value j) {
    Value writes = writer;
    SmallVector<Value> place;
    if (own) {
      place = {mul(j, 8), rowStep(i, r)};
    } else {
      for (auto [index, extent] : llvm::zip(op.getIndices(), extents)) {
        const std::optional<CountedPlaces> counted = countedPlaces(index);
        place.push_back(counted ? placeWithin(*counted, i, r, j, column) : indexElement(index, i, r, j, column));
        if (!counted && isa<TileType>(index.getType()))
          writes = within(writes, place.back(), extent);
      }
      if (byRows)
        place.back() = firstOfPair(place.back(), column);
    }
    std::array<Value, 2> pair = {get(buffer, {i, j, mul(r, 2)}), get(buffer, {i, j, add(mul(r, 2), 1)})};
    if (byRows)
      pair = exchangePairs(pair[0], pair[1], isSecond);
    auto store = [&] { sched::StoreElementsOp::create(builder, loc, ValueRange(pair), own ? own : view, place); };
    writes ? onlyIf(writes, store) : store();
  };
  const SmallVector<int64_t> shape = laneShape(buffer);
  repeat(shape[1], "j", [&](Value j) {
    repeat(shape[0], "i", [&](Value i) { repeat(2, "r", [&](Value r) { writePair(i, r, j); }); });
  });
}

void KernelExpander::scatterEights(tile::ScatterOp op) {
  Value buffer = buffers.lookup(op.getTile()), none = i32(0);
  SmallVector<Value> first;
  for (Value index : op.getIndices())
    first.push_back(isa<TileType>(index.getType()) ? placeWithin(*countedPlaces(index), none, none, none, none)
                                                   : mapping.lookup(index));
  // The lane's first address is that of the first block of 8 columns that the lane writes: block lane % 4 of the row.
  first.back() = add(arith::SubIOp::create(builder, loc, first.back(), laneColumn, arith::IntegerOverflowFlags::nsw),
                     mul(quad, 8));
  Value own = fromFirst(mapping.lookup(op.getView()), first);
  byWriters(buffer, [&] {
    const SmallVector<int64_t> shape = laneShape(buffer);
    repeat(shape[0], "i", [&](Value i) {
      repeat(2, "r", [&](Value r) {
        repeat(shape[1] / 4, "blocks", [&](Value blocks) {
          SmallVector<Value> values;
          for (int64_t block = 0; block < 4; ++block)
            for (int64_t c : {0, 1})
              values.push_back(get(buffer, {i, add(mul(blocks, 4), block), add(mul(r, 2), c)}));
          sched::StoreEightsOp::create(builder, loc, values, quad, own, ValueRange{rowStep(i, r), mul(blocks, 32)});
        });
      });
    });
  });
}

} // namespace attune::expansion
