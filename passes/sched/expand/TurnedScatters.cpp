//===- TurnedScatters.cpp - From shared memory to a dense tensor -------------===//
//
// What lies there as the view has it goes by the copy engine. Else, where keys are rows (S^T), a row of a dense tensor is a column of the tile. What the warps have put into shared memory
// for a product is turned on its way out again (`tile-turn-scatters`): ldmatrix gives a lane pairs of rows of one column,
// and which rows a matrix has is the lanes' own choice. A warp takes its 16 rows and 16 columns at a time:
//
//     matrix m of row (c, p): k = 8 (c % 2) + 2 (m ^ c % 2) + p      lane 4 g + c gets, of column 32 (c / 2) + g,
//     columns 32 (c / 2) and the seven behind it                     the rows 8 (c % 2) and the seven behind it
//
// So a lane has eight elements that lie side by side, its neighbour the eight behind them: whole sectors of 32 bytes. In a
// panel of 128 bytes, chunk x of row k lies at x ^ k % 8: the eight rows of a matrix, with c and p, at eight places, as
// c / 2 is in the chunk and c % 2 and p are in the row. Of an odd c the pairs come in the order 1, 0, 3, 2.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/TilesInEights.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

Value KernelExpander::placeAt(Value index, TileType type, Value row, Value column) {
  const std::optional<CountedPlaces> places = countedPlaces(index);
  return places ? add(mapping.lookup(places->along.origin), places->along.axis == type.axis(0) ? row : column)
                : mapping.lookup(index);
}

bool KernelExpander::isTakenByEngine(sched::ExchangeOp exchange) {
  return llvm::any_of(exchange.getResult().getUsers(), [&](Operation *user) {
    auto scatter = dyn_cast<tile::ScatterOp>(user);
    return scatter && isInBoxes(scatter, exchange);
  });
}

void KernelExpander::scatterBoxes(tile::ScatterOp op) {
  auto [ring, stage] = slotOf(op.getTile());
  const ArrayRef<int64_t> shape = op.getTile().getType().getShape();
  auto swizzle = cast<sched::SwizzleAttr>(op.getTile().getType().getLayout());
  Value map = tensorMap(op.getView(), shape[0], swizzle);
  SmallVector<Value> at(4 - op.getIndices().size(), i32(0));
  for (Value index : op.getIndices()) {
    const std::optional<CountedPlaces> places = countedPlaces(index);
    at.push_back(mapping.lookup(places ? places->along.origin : index));
  }
  const int64_t panel = cast<sched::TensorMapType>(map.getType()).getColumns();
  for (int64_t column = 0; column < shape[1]; column += panel)
    sched::StoreBoxOp::create(builder, loc, ring, stage, i32(0), map, at[0], at[1], at[2], i32(column),
                              add(at[3], column), /*adds=*/false);
  sched::CommitBoxesOp::create(builder, loc);
  leavesBoxes = true;
}

void KernelExpander::scatterTurned(tile::ScatterOp op) {
  constexpr int64_t panel = 64, half = panel / 2; // columns of 16 bits in 128 bytes
  auto [ring, stage] = slotOf(op.getTile());
  const TileType type = op.getTile().getDefiningOp<sched::ExchangeOp>().getTile().getType();
  // The lane's row of a matrix, of which it gives the address.
  Value firstRow = firstRowOf(type), given = rem(lane, 8), c = div(given, 2), isOdd = rem(c, 2);
  Value pair = arith::XOrIOp::create(builder, loc, div(lane, 8), isOdd);
  Value row = add(firstRow, add(add(mul(isOdd, 8), mul(pair, 2)), rem(given, 2))), column = mul(div(c, 2), half);
  // The eight elements that it gets.
  Value odd = rem(quad, 2), ownRow = add(firstRow, mul(odd, 8)), ownColumn = add(mul(div(quad, 2), half), laneRow);
  SmallVector<Value> first;
  for (Value index : op.getIndices())
    first.push_back(placeAt(index, type, ownRow, ownColumn));
  Value from = fromFirst(mapping.lookup(op.getView()), first);
  Value crossed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, odd, i32(1));
  repeat(type.getShape()[1] / panel, "i", [&](Value i) {
    repeat(half / 8, "j", [&](Value j) {
      Value step = add(mul(i, panel), mul(j, 8));
      sched::StoreTurnedOp::create(builder, loc, ring, stage, row, column, i32(0), step, from, ValueRange{step, i32(0)},
                                   crossed);
    });
  });
}

void KernelExpander::scatterShared(tile::ScatterOp op, ArrayRef<Value> extents) {
  auto [ring, stage] = slotOf(op.getTile());
  const TileType type = op.getTile().getDefiningOp<sched::ExchangeOp>().getTile().getType();
  const Type element = type.getElementType();
  Value row = add(firstRowOf(type), rem(lane, 16)), half = div(lane, 16), view = mapping.lookup(op.getView());
  constexpr int64_t columnsAtOnce = 8;
  forPieces(type.getShape()[1], columnsAtOnce, "columns", [&](Value columns) {
    repeat(columnsAtOnce / 2, "j", [&](Value j) {
      Value column = add(columns, add(mul(j, 2), half)), exists;
      SmallVector<Value> place;
      for (auto [index, extent] : llvm::zip(op.getIndices(), extents)) {
        place.push_back(placeAt(index, type, row, column));
        const std::optional<CountedPlaces> places = countedPlaces(index);
        if (places)
          exists = within(exists, place.back(), extent);
        if (places && places->end)
          exists = both(exists, below(place.back(), mapping.lookup(places->end)));
      }
      onlyIf(exists, [&] {
        sched::StoreElementOp::create(builder, loc, loadShared(element, ring, stage, row, column), view, place);
      });
    });
  });
}

} // namespace attune::expansion
