//===- GradientAdditions.cpp - Add a tile's part of the gradients of captured tensors ---===//

#include "passes/attn/backward/GradientAdditions.h"

#include "passes/attn/LongAccumulator.h"

#include "mlir/IR/Matchers.h"

namespace attune::backward {

Value noSum(KernelFrame &frame, StringRef axis) {
  return tile::SplatOp::create(frame.builder, frame.vectorOf(axis), frame.zero);
}

Value addedTo(KernelFrame &frame, Value before, const ScoreTile &tile, attn::AddGradientOp add, StringRef along) {
  return frame.reduce(add.getName(), before.getType(), tile::Reduction::Sum, addedOf(frame, tile, add), along, before);
}

//===----------------------------------------------------------------------===//
// Scattered additions
//===----------------------------------------------------------------------===//

/// Sums a tile along its diagonals (equal q - k), separately for each part of the rows that a warp holds. Rows past the
/// last query are set to 0 first.
static Value sumDiagonals(KernelFrame &frame, const ScoreTile &tile, Value added) {
  const int64_t tileQ = frame.plan.getTileQ(), parts = frame.kernel.getPlan().getWarpsOfRows(tileQ);
  Value isRagged =
      frame.compare(Predicate::sgt, frame.add(tile.origin.q, frame.number(tileQ)), frame.qOrigin(frame.values.Sq));
  auto unlessPast = [&](tile::MapOp map) {
    Value exists = frame.compare(Predicate::slt, frame.rowOf(map.getCoordinate("q")), frame.values.Sq);
    return frame.select(exists, map.getElement(0), frame.constant(0));
  };
  Value kept = frame.map("added", frame.scores(), added, {{"q", tile.origin.q}}, unlessPast, isRagged);
  const TileType type =
      frame.shape({{tile::partAxis, parts}, {tile::distanceAxis, tileQ / parts + frame.plan.getTileK()}}, frame.f32);
  return tile::named(tile::SumDiagonalsOp::create(frame.builder, type, kept), "sums");
}

/// The tensor index for each diagonal sum of `sums`; -1 where a sum is zero and nothing is to be added.
static Value indexOfDistances(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add, Value index,
                              Value extent, Value sums) {
  const auto type = cast<TileType>(sums.getType());
  // The first diagonal goes through row 0 and the key one past the tile's last key; `first` is its q - k.
  Value first = frame.subtract(tile.origin.q, frame.add(tile.origin.k, frame.number(frame.plan.getTileK())));
  tile::named(first, "first_distance");
  const std::pair<StringRef, Value> coordinates[] = {{tile::partAxis, frame.number(0)}, {tile::distanceAxis, first}};
  return frame.map("index", type.withElementType(frame.i32), sums, coordinates, [&](tile::MapOp map) {
    Value row =
        frame.multiply(map.getCoordinate(tile::partAxis), frame.number(frame.plan.getTileQ() / type.getShape()[0]));
    Value distance = frame.add(map.getCoordinate(tile::distanceAxis), row);
    Value place = placeOf(frame.builder, add, index, extent, {frame.b, frame.h, distance, frame.number(0)});
    Value isAdded = frame.compare(arith::CmpFPredicate::UNE, map.getElement(0), frame.constant(0));
    return frame.select(isAdded, place, frame.number(-1));
  });
}

/// The tensor index for each element of a tile; -1, which stores nothing, in rows past the last query and where
/// `unlessZero` is zero.
static Value indexTile(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add, Value index, Value extent,
                       Value unlessZero) {
  return frame.map("index", frame.scores().withElementType(frame.i32),
                   unlessZero ? ValueRange{unlessZero} : ValueRange(), {{"q", tile.origin.q}, {"k", tile.origin.k}},
                   [&](tile::MapOp map) {
                     Value q = map.getCoordinate("q"), k = map.getCoordinate("k");
                     Value place = placeOf(frame.builder, add, index, extent, {frame.b, frame.h, q, k});
                     if (!unlessZero)
                       return place;
                     Value isAdded = frame.compare(arith::CmpFPredicate::UNE, map.getElement(0), frame.constant(0));
                     Value exists = frame.compare(Predicate::slt, frame.rowOf(q), frame.values.Sq);
                     return frame.select(frame.both(isAdded, exists), place, frame.number(-1));
                   });
}

void scatter(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add, const CapturedGradient &gradient) {
  const tile::OperandAttr declared = gradient.addends();
  Value view = llvm::is_contained(frame.operands, declared) ? frame.param(declared) : frame.operand(declared);
  Value added = addedOf(frame, tile, add);
  const bool isRelative = followsFromDistance(add);
  if (isRelative)
    added = sumDiagonals(frame, tile, added);
  Value unlessZero = added;
  SmallVector<Value> indices;
  if (gradient.inAnyOrder) {
    auto integers = [&](StringRef name, Value (*of)(OpBuilder &, Location, Value)) {
      return frame.map(name, cast<TileType>(unlessZero.getType()).withElementType(frame.i32), unlessZero,
                       [&](ValueRange x) { return of(frame.builder, frame.builder.getLoc(), x[0]); });
    };
    indices.push_back(integers("word", accumulator::wordOf));
    added = integers("addend", accumulator::addendOf);
  }
  for (auto [dim, index] : llvm::enumerate(add.getIndices())) {
    Value extent = frame.axisExtent(gradient.axis(dim), "extent");
    if (isOfHead(add, index))
      indices.push_back(placeOf(frame.builder, add, index, extent, {frame.b, frame.h, {}, {}}));
    else
      indices.push_back(isRelative ? indexOfDistances(frame, tile, add, index, extent, unlessZero)
                                   : indexTile(frame, tile, add, index, extent, std::exchange(unlessZero, {})));
  }
  tile::ScatterOp::create(frame.builder, added, view, indices, /*add=*/true,
                          /*merge=*/isRelative && !gradient.inAnyOrder && sharesPlaces(add));
}

//===----------------------------------------------------------------------===//
// Dense gradients
//===----------------------------------------------------------------------===//

SmallVector<DenseGradient> declareDense(KernelFrame &frame) {
  SmallVector<DenseGradient> dense;
  for (const CapturedGradient &gradient : frame.program.captured)
    if (isWrittenByLoop(gradient))
      dense.push_back({&gradient, dimsOfTile(gradient.tiles.front()), frame.operand(gradient.declaration())});
  return dense;
}

void writeDense(KernelFrame &frame, ArrayRef<DenseGradient> dense, const ScoreTile &tile) {
  for (const DenseGradient &one : dense) {
    Value sum;
    for (attn::AddGradientOp add : one.of->tiles)
      sum = sumWith(frame, tile, sum, add);
    Value unshared = isUnshared(frame, *one.of, {frame.values.B, frame.values.H},
                                [&](unsigned dim) { return frame.axisExtent(one.of->axis(dim), "extent"); });
    std::array<Value, 2> places = {frame.b, frame.h};
    for (Value &place : places)
      place = frame.select(unshared, place, frame.number(-1));
    storeTile(frame, sum, one, places, tile.at.q0, tile.at.k0);
  }
}

/// If the added values are computed by an unconditional map without other users, the addition moves into that map. A
/// select of the map between 0 and the added value then becomes a select between `sum` and the new sum.
Value sumWith(KernelFrame &frame, const ScoreTile &tile, Value sum, attn::AddGradientOp add) {
  Value added = addedOf(frame, tile, add);
  if (!sum)
    return added;
  auto map = added.getDefiningOp<tile::MapOp>();
  if (!map || !map.isWhole() || added == tile.ds || !added.use_empty())
    return frame.map("gradient", frame.scores(), {sum, added}, [&](ValueRange x) { return frame.add(x[0], x[1]); });
  OpBuilder::InsertionGuard guard(frame.builder);
  frame.builder.setInsertionPoint(map.getYield());
  Value carried = map.addInput(sum, frame.f32), value = map.getYield().getValues().front();
  auto choice = value.getDefiningOp<arith::SelectOp>();
  if (choice && matchPattern(choice.getTrueValue(), m_AnyZeroFloat())) {
    Value longer = frame.add(carried, choice.getFalseValue());
    map.getYield().getValuesMutable()[0].set(frame.select(choice.getCondition(), carried, longer));
    choice.erase();
  } else {
    map.getYield().getValuesMutable()[0].set(frame.add(carried, value));
  }
  return tile::named(added, "gradient");
}

void storeTile(KernelFrame &frame, Value total, const DenseGradient &gradient, std::array<Value, 2> places, Value q0,
               Value k0) {
  Value rowEnd = frame.qOffset ? frame.add(frame.values.Sq, frame.qOffset) : frame.values.Sq;
  SmallVector<Value> indices(llvm::count_if(gradient.dims, [](auto dim) { return dim.has_value(); }));
  for (unsigned coordinate : {0u, 1u})
    if (gradient.dims[coordinate])
      indices[*gradient.dims[coordinate]] = places[coordinate];
  const std::tuple<unsigned, StringRef, Value, Value> axes[] = {{2, "q", frame.qOrigin(q0), rowEnd},
                                                                {3, "k", k0, frame.values.Sk}};
  for (auto [coordinate, axis, origin, end] : axes)
    indices[*gradient.dims[coordinate]] =
        frame.map((axis + "_index").str(), frame.vectorOf(axis).withElementType(frame.i32), {}, {{axis, origin}},
                  [&](tile::MapOp map) {
                    Value place = map.getCoordinate(axis);
                    return frame.select(frame.compare(Predicate::slt, place, end), place, frame.number(-1));
                  });
  tile::ScatterOp::create(frame.builder, total, gradient.view, indices, /*add=*/false);
}

} // namespace attune::backward
