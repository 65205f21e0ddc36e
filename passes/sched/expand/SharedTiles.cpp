//===- SharedTiles.cpp - Tiles in shared memory ------------------------------===//

#include "passes/sched/expand/SharedTiles.h"

namespace attune::expansion {

std::pair<Value, Value> SharedTiles::slotOf(Value tile) {
  if (Value buffer = exchanged.lookup(tile))
    return {buffer, i32(0)};
  if (auto scale = tile.getDefiningOp<tile::ScaleOp>())
    tile = scale.getTile();
  if (auto exchange = tile.getDefiningOp<sched::ExchangeOp>())
    return {buffers.lookup(exchange.getRing()), mapping.lookup(exchange.getStage())};
  auto slot = tile.getDefiningOp<sched::SlotOp>();
  assert(slot && "shared tiles are slots of rings once copies are pipelined");
  return {buffers.lookup(slot.getRing()), mapping.lookup(slot.getStage())};
}

TileType SharedTiles::stagedType(TileType type, Type element) {
  int64_t rowBytes = type.getShape()[1] * element.getIntOrFloatBitWidth() / 8;
  return TileType::make(kernel.getContext(),
                        {{"stage", 1}, {type.axis(0), type.getShape()[0]}, {type.axis(1), type.getShape()[1]}}, element,
                        MemorySpace::Shared, sched::SwizzleAttr::forBoxes(kernel.getContext(), rowBytes));
}

TileType SharedTiles::inPairs(TileType type) {
  if (!type.hasAxis(tile::distanceAxis) || !kernel->hasAttr(sched::pingPongAttr))
    return type;
  return TileType::make(
      type.getContext(),
      {{"stage", type.size("stage")}, {tile::distanceAxis, type.size(tile::distanceAxis) + 1}, {"pair", 2}},
      type.getElementType(), type.getSpace());
}

Value SharedTiles::exchangeBuffer(TileType type, Type element, StringRef name) {
  TileType stored = type.rank() == 2
                        ? stagedType(type, element)
                        : TileType::make(builder.getContext(), {{"stage", 1}, {type.axis(0), type.getShape()[0]}},
                                         element, MemorySpace::Shared);
  return sched::SharedOp::create(builder, loc, stored, name);
}

Value SharedTiles::keptBuffer(TileType type, Type element, StringRef name) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&kernelBody());
  return exchangeBuffer(type, element, name);
}

bool SharedTiles::isRowAxis(Value tile, StringRef axis) {
  auto type = cast<TileType>(tile.getType());
  return type.rank() == 1 ? layoutOf(tile).getRole() == FragmentRole::Rows : type.axis(0) == axis;
}

Value SharedTiles::coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c) {
  if (auto type = cast<TileType>(tile.getType()); tile::isByPart(type))
    return axis == tile::distanceAxis ? relativeInPart(i) : firstRowOf(type);
  return isRowAxis(tile, axis) ? rowInTile(tile, i, r) : columnInTile(cast<TileType>(tile.getType()), j, c);
}

Value SharedTiles::sharedElement(Value input, Value of, Value i, Value r, Value j, Value c) {
  auto type = cast<TileType>(input.getType());
  auto [shared, stage] = slotOf(input);
  SmallVector<Value> at;
  for (StringAttr axis : type.getAxes())
    at.push_back(coordinateInTile(of, axis, i, r, j, c));
  if (at.size() == 1)
    at.insert(at.begin(), i32(0));
  return loadShared(attn::valueType(type.getElementType()), shared, stage, at[0], at[1]);
}

Value SharedTiles::isWriter(Value buffer) {
  auto type = cast<TileType>(buffer.getType());
  FragmentRole role = layoutOf(buffer).getRole();
  if (role == FragmentRole::C || role == FragmentRole::Distances)
    return isFirstHolder(type);
  Value place = role == FragmentRole::Rows ? quad : laneRow;
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place, i32(0));
  Value writer = isFirstHolder(type);
  return writer ? Value(arith::AndIOp::create(builder, loc, first, writer)) : first;
}

void SharedTiles::byWriters(Value buffer, function_ref<void()> body) {
  if (Value writer = isWriter(buffer))
    onlyIf(writer, body);
  else
    body();
}

void SharedTiles::writeToShared(Value buffer, Value shared, Value stage) {
  auto type = cast<TileType>(buffer.getType());
  byWriters(buffer, [&] {
    const auto stored = cast<TileType>(shared.getType());
    if (specialized && type.rank() == 2 && isa_and_nonnull<sched::SwizzleAttr>(stored.getLayout()) &&
        stored.getElementType().getIntOrFloatBitWidth() == 16 && layoutOf(buffer).getRole() == FragmentRole::C)
      return writeMatrices(buffer, shared, stage, type);
    if (type.rank() == 2)
      return writeFragments(buffer, shared, stage, type);
    forEachPlace(buffer, [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
      Value place = coordinateInTile(buffer, type.axis(0), i, r, j, c);
      sched::StoreSharedOp::create(builder, loc, get(buffer, at), shared, stage, i32(0), place);
    });
  });
}

std::pair<Value, Value> SharedTiles::transposedPlace(Value row0) {
  Value along = add(rem(lane, 8), mul(div(lane, 16), 8)), across = add(row0, mul(rem(div(lane, 8), 2), 8));
  return {along, across};
}

void SharedTiles::writeMatrices(Value buffer, Value shared, Value stage, TileType held) {
  Type element = cast<TileType>(shared.getType()).getElementType();
  SmallVector<int64_t> shape = laneShape(buffer);
  const bool turned = cast<TileType>(shared.getType()).axis(1) != held.axis(0); // axis 0 is the stage
  // The address that a lane passes to stmatrix is the lane's own position plus steps that are the same in all lanes.
  Value firstRow = firstRowOf(held), row, column;
  if (turned)
    std::tie(row, column) = transposedPlace(firstRow);
  else
    row = add(firstRow, rem(lane, 16)), column = mul(div(lane, 16), 8);
  repeat(shape[0], "i", [&](Value i) {
    Value ownColumn = turned ? add(column, mul(i, 16)) : column;
    repeat(shape[1] / 2, "jj", [&](Value jj) {
      Value matrices[4];
      for (int m = 0; m < 4; ++m) {
        Value j = add(mul(jj, 2), m / 2), low = get(buffer, {i, j, i32(m % 2 * 2)}),
              high = get(buffer, {i, j, i32(m % 2 * 2 + 1)});
        matrices[m] = sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element);
      }
      sched::StoreMatrixOp::create(builder, loc, matrices[0], matrices[1], matrices[2], matrices[3], shared, stage, row,
                                   ownColumn, turned ? mul(jj, 16) : mul(i, 16), turned ? i32(0) : mul(jj, 16), turned);
    });
  });
  if (shape[1] % 2)
    writeFragments(buffer, shared, stage, held, shape[1] - 1);
}

void SharedTiles::writeFragments(Value buffer, Value shared, Value stage, TileType held, int64_t firstJ) {
  auto stored = cast<TileType>(shared.getType());
  Type element = stored.getElementType();
  SmallVector<int64_t> shape = laneShape(buffer);
  // If the warp's first column starts a swizzle panel, each address is the lane's first address with an exclusive-or or
  // an addition of a constant.
  const bool steps = isa_and_nonnull<sched::SwizzleAttr>(stored.getLayout()) &&
                     cast<FragmentAttr>(held.getLayout()).getColumnWarps() == 1;
  auto ownRow = [&] { return add(firstRowOf(held), laneRow); };
  // Half a warp stores pairs of floats at a time: 32 bytes of each of four rows. The swizzle maps two of these rows to
  // the same banks. To avoid the conflict, odd rows store the columns in another order, in which each 16 columns are
  // swapped with the next 16.
  const bool apart = steps && element.isF32() && cast<sched::SwizzleAttr>(stored.getLayout()).getPanel() == 128 &&
                     !firstJ && shape[1] % 4 == 0;
  repeat(shape[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      repeat(shape[1] - firstJ, "j", [&](Value fromFirst) {
        Value j = add(fromFirst, firstJ), zero = i32(0);
        Value step = rowStep(i, r), row = steps ? ownRow() : add(ownRow(), step),
              column = columnInTile(held, steps ? zero : j, zero);
        Value rowStep = steps ? step : Value(), columnStep = steps ? mul(j, 8) : Value();
        Value first = get(buffer, {i, j, mul(r, 2)}), second = get(buffer, {i, j, add(mul(r, 2), 1)});
        if (apart) {
          Value oddRow = rem(laneRow, 2), other = arith::XOrIOp::create(builder, loc, j, i32(2));
          Value odd =
              tile::named(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, oddRow, zero), "odd_row");
          auto choose = [&](Value ofOdd, Value ofEven) {
            return arith::SelectOp::create(builder, loc, odd, ofOdd, ofEven);
          };
          column = add(column, mul(oddRow, 16));
          first = choose(get(buffer, {i, other, mul(r, 2)}), first);
          second = choose(get(buffer, {i, other, add(mul(r, 2), 1)}), second);
        }
        if (!element.isF32()) {
          first = sched::PackOp::create(builder, loc, builder.getI32Type(), first, second, element);
          second = {};
        }
        sched::StoreSharedOp::create(builder, loc, first, second, shared, stage, row, column, rowStep, columnStep);
      });
    });
  });
}

} // namespace attune::expansion
