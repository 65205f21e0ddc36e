//===- MapInputs.cpp - What maps read at an element: coordinates, tiles in shared memory ---------------------===//

#include "passes/sched/expand/MapInputs.h"

namespace attune::expansion {

IRMapping MapInputs::mappingFor(Region &region) {
  IRMapping inner;
  region.walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (Value known = mapping.lookupOrNull(operand))
        inner.map(operand, known);
  });
  return inner;
}

Value MapInputs::floatCoordinate(Value origin, Value lanePart, Value placePart) {
  return arith::AddFOp::create(builder, loc, floatStart(origin, lanePart), toFloat(placePart));
}

Value MapInputs::floatStart(Value origin, Value lanePart) {
  Value start = toFloat(lanePart);
  return matchPattern(origin, m_AnyZeroFloat()) ? start : arith::AddFOp::create(builder, loc, origin, start);
}

Value MapInputs::laneColumns(tile::MapOp op) {
  Value first = firstColumn(cast<TileType>(op.getResult().getType()));
  return first ? add(first, laneColumn) : laneColumn;
}

void MapInputs::mapCoordinates(tile::MapOp op, IRMapping &inner, Value i, Value r, Value j, Value c) {
  for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                 op.getBody().getArguments().drop_front(op.getInputs().size()))) {
    if (argument.use_empty())
      continue;
    if (origin.getType().isF32())
      inner.map(argument, isRowAxis(op.getResult(), axis)
                              ? floatCoordinate(mapping.lookup(origin), laneRowOf(op.getResult()), rowStep(i, r))
                              : floatCoordinate(mapping.lookup(origin), laneColumns(op), add(mul(j, 8), c)));
    else
      inner.map(argument,
                tile::named(add(mapping.lookup(origin), coordinateInTile(op.getResult(), axis, i, r, j, c)), axis));
  }
}

Value MapInputs::inputElement(tile::MapOp op, Value input, Value i, Value r, Value j, Value c) {
  auto type = cast<TileType>(input.getType());
  if (!inShared(input) || tile::isRelative(type))
    return element(input, i, r, j, c);
  if (Value pair = columnPairs.lookup(input))
    return get(pair, {i32(0), c});
  if (Value fragment = windows.lookup(input)) {
    Value pair = sched::GetOp::create(builder, loc, builder.getI32Type(), fragment,
                                      ValueRange{i, i32(0), add(mul(rem(j, 2), 2), r)});
    return sched::UnpackOp::create(builder, loc, builder.getF32Type(), pair, c, type.getElementType());
  }
  if (!isWindow(op, input) || !isRowAxis(op.getResult(), type.axis(0)))
    return sharedElement(input, op.getResult(), i, r, j, c);
  auto [ring, stage] = slotOf(input);
  return loadShared(type.getElementType(), ring, stage, laneRowOf(op.getResult()), add(laneColumn, c), rowStep(i, r),
                    mul(j, 8));
}

SmallVector<Diagonals> MapInputs::openDiagonals(tile::MapOp op) {
  SmallVector<Diagonals> all;
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
    auto type = cast<TileType>(input.getType());
    if (!tile::isRelative(type) || argument.use_empty())
      continue;
    auto result = cast<TileType>(op.getResult().getType());
    auto [ring, stage] = slotOf(input);
    TileType held = fragmentType({{result.axis(0), result.getShape()[0]}, {result.axis(1), result.getShape()[1]}},
                                 type.getElementType(), FragmentRole::Diagonals, rowWarps);
    StringRef name =
        cast<TileType>(ring.getType()).hasAxis("stage") ? ring.getDefiningOp<sched::SharedOp>().getName() : "";
    name.consume_back("_ring");
    Diagonals one{registers(("near_" + name).str(), held), ring, stage, {}, /*ascend=*/result.axis(0) == "k"};
    // The vector of relative-position values is indexed by q - k + (number of keys of the tile) - 1. `start` is the
    // index at the lane's first row and column.
    Value row = laneRowOf(op.getResult());
    Value first = arith::SubIOp::create(builder, loc, one.ascend ? laneColumn : row, one.ascend ? row : laneColumn,
                                        arith::IntegerOverflowFlags::nsw);
    one.start = tile::named(add(first, result.size("k") - 1), "first_distance");
    buffers.map(input, one.buffer);
    const int64_t before = laneShape(one.buffer)[0] - columnsOfLane(one.buffer);
    repeat(before, "n", [&](Value n) { loadDiagonal(one, n, before); });
    all.push_back(one);
  }
  return all;
}

void MapInputs::loadDiagonal(const Diagonals &of, Value n, int64_t before) {
  auto step = [&](Value from, Value by) -> Value {
    return of.ascend ? add(from, by) : arith::SubIOp::create(builder, loc, from, by, arith::IntegerOverflowFlags::nsw);
  };
  Value first = step(add(of.start, (of.ascend ? -8 : 8) * before), mul(n, 8));
  if (isInPairs(of.ring))
    return loadPair(of.ring, of.stage, first, i32(0), of.buffer, n);
  Type type = cast<TileType>(of.ring.getType()).getElementType();
  repeat(2, "e", [&](Value c) { set(loadShared(type, of.ring, of.stage, i32(0), step(first, c)), of.buffer, {n, c}); });
}

void MapInputs::loadPair(Value shared, Value stage, Value row, Value column, Value buffer, Value place) {
  Type type = cast<TileType>(shared.getType()).getElementType();
  auto pair = sched::LoadPairOp::create(builder, loc, type, type, shared, stage, row, column);
  for (auto [c, element] : llvm::enumerate(pair->getResults()))
    set(element, buffer, {place, i32(int64_t(c))});
}

SmallVector<ColumnPair> MapInputs::openColumns(tile::MapOp op) {
  SmallVector<ColumnPair> all;
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
    auto type = cast<TileType>(input.getType());
    if (!inShared(input) || type.rank() != 1 || tile::isRelative(type) || argument.use_empty() ||
        type.getElementType().getIntOrFloatBitWidth() != 32 || layoutOf(op.getResult()).getRole() != FragmentRole::C ||
        isRowAxis(op.getResult(), type.axis(0)))
      continue;
    auto [ring, stage] = slotOf(input);
    StringRef name = ring.getDefiningOp<sched::SharedOp>().getName();
    name.consume_front("column_");
    name.consume_back("_ring");
    TileType held = fragmentType({{type.axis(0), 8}}, type.getElementType(), FragmentRole::Columns, rowWarps);
    all.push_back({registers((name + "_pair").str(), held), ring, stage});
    columnPairs[input] = all.back().buffer;
  }
  return all;
}

void MapInputs::loadColumns(const ColumnPair &of, Value j) {
  loadPair(of.ring, of.stage, i32(0), columnInSplit(j, i32(0)), of.buffer, i32(0));
}

bool MapInputs::isWindow(tile::MapOp op, Value input) {
  auto type = cast<TileType>(input.getType());
  return inShared(input) && type.rank() == 2 && !tile::isRelative(type) && op.getResult().getType().rank() == 2 &&
         layoutOf(op.getResult()).getColumnWarps() == 1 &&
         isa_and_nonnull<sched::SwizzleAttr>(cast<TileType>(slotOf(input).first.getType()).getLayout());
}

SmallVector<Window> MapInputs::openWindows(tile::MapOp op) {
  SmallVector<Window> all;
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
    auto type = cast<TileType>(input.getType());
    if (!isWindow(op, input) || type.getElementType().getIntOrFloatBitWidth() != 16 || argument.use_empty())
      continue;
    const unsigned rows = isRowAxis(op.getResult(), type.axis(0)) ? 0 : 1, columns = 1 - rows;
    if (type.getShape()[columns] % 16)
      continue;
    TileType held = fragmentType({{type.axis(rows), type.getShape()[rows]}, {type.axis(columns), 16}},
                                 type.getElementType(), FragmentRole::A, layoutOf(op.getResult()).getWarps());
    StringRef name = slotOf(input).first.getDefiningOp<sched::SharedOp>().getName();
    name.consume_back("_ring");
    all.push_back({input, registers((name + "_fragment").str(), held)});
    windows[input] = all.back().buffer;
  }
  return all;
}

} // namespace attune::expansion
