//===- Blocks.cpp - Tiles in memory as lanes hold them -----------------------===//
//
// What a kernel leaves for another one, a tile of queries and keys, lies in memory in blocks of 16 x 16 elements in the
// order in which lanes hold them where rows are queries: a warp writes a block without a gap. Where rows are keys a lane
// finds its elements in the places of two others.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

/// Where rows are keys.
static bool isByKeys(TileType type) { return type.axis(0) == "k"; }

template <typename BlocksOp>
void KernelExpander::forEachBlock(BlocksOp op, TileType type, function_ref<void(Value, Value, Value)> body) {
  auto layout = cast<FragmentAttr>(type.getLayout());
  const int64_t rows = type.getShape()[0] / (16 * layout.getWarps()),
                columns = type.getShape()[1] / (16 * layout.getColumnWarps());
  Value view = slice(op.getView(), ValueRange{op.getB(), op.getH(), op.getQ0()}, nameOfView(op.getView()) + "_head");
  Value row0 = mapping.lookup(isByKeys(type) ? op.getK0() : op.getQ0()),
        column0 = mapping.lookup(isByKeys(type) ? op.getQ0() : op.getK0());
  Value firstRow = div(add(row0, firstRowOf(type)), 16), first = firstColumn(type);
  Value firstColumn = div(first ? add(column0, first) : column0, 16);
  Value extents[] = {sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, 0),
                     sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, 1)};
  auto isThere = [&](Value block, unsigned dim) { return below(block, extents[isByKeys(type) ? 1 - dim : dim]); };
  auto element = cast<tile::ViewType>(view.getType()).getElementType();
  repeat(rows, "i", [&](Value i) {
    Value row = add(firstRow, i);
    onlyIf(isThere(row, 0), [&] {
      repeat(columns, "jj", [&](Value jj) {
        Value column = add(firstColumn, jj);
        onlyIf(isThere(column, 1), [&] {
          Value at[] = {isByKeys(type) ? column : row, isByKeys(type) ? row : column};
          body(i, jj,
               sched::SliceOp::create(builder, loc, tile::ViewType::get(builder.getContext(), 1, element), view, at));
        });
      });
    });
  });
}

Value KernelExpander::placeInBlock(TileType type, unsigned n, unsigned r, Value e) {
  return add(mul(e, 4), i32(isByKeys(type) ? 2 * r + n : 2 * n + r));
}

Value KernelExpander::laneInBlock(TileType type, unsigned e) {
  if (!isByKeys(type))
    return lane;
  // Query 2 (lane % 4) + e, key lane / 4.
  return add(mul(add(laneColumn, int64_t(e)), 4), div(laneRow, 2));
}

LogicalResult KernelExpander::expandOp(tile::StoreBlocksOp op) {
  TileType type = op.getTile().getType();
  Value buffer = buffers.lookup(op.getTile());
  const bool isBits = type.getElementType().isInteger(1);
  if (isByKeys(type))
    return op.emitError("stores blocks of a tile whose rows are keys, which is not supported here");
  forEachBlock(op, type, [&](Value i, Value jj, Value block) {
    if (isBits)
      return void(sched::StoreByteOp::create(builder, loc, wordOf(buffer, i, jj), block, ValueRange(lane)));
    for (unsigned n = 0; n < 2; ++n)
      for (unsigned r = 0; r < 2; ++r)
        for (unsigned e = 0; e < 2; ++e) {
          Value place = add(lane, 32 * (4 * e + 2 * n + r));
          sched::StoreElementOp::create(builder, loc, get(buffer, {i, add(mul(jj, 2), n), i32(2 * r + e)}), block,
                                        ValueRange(place));
        }
  });
  return success();
}

LogicalResult KernelExpander::expandOp(tile::LoadBlocksOp op) {
  TileType type = op.getResult().getType();
  Value buffer = newBuffer(op.getResult());
  const bool isBits = type.getElementType().isInteger(1);
  if (isBits) {
    const SmallVector<int64_t> shape = laneShape(buffer);
    repeat(shape[0], "i", [&](Value i) {
      repeat(shape[1], "j", [&](Value j) { repeat(shape[2], "e", [&](Value e) { set(i32(0), buffer, {i, j, e}); }); });
    });
  } else {
    fillBuffer(f32(0), buffer);
  }
  const bool byKeys = isByKeys(type);
  Value odd = byKeys ? rem(laneRow, 2) : Value();
  forEachBlock(op, type, [&](Value i, Value jj, Value block) {
    auto byte = [&](unsigned e) -> Value {
      Value place = laneInBlock(type, e);
      return sched::LoadByteOp::create(builder, loc, builder.getI32Type(), block, place);
    };
    if (isBits && !byKeys)
      return setWord(byte(0), buffer, i, jj);
    if (isBits) {
      // Key lane / 4 is the even or the odd one of a pair: half a byte, for each of two queries.
      auto half = [&](unsigned e) -> Value {
        Value shifted = arith::ShRUIOp::create(builder, loc, byte(e), mul(odd, 4));
        return arith::AndIOp::create(builder, loc, shifted, i32(15));
      };
      // Of a query's bits 2 r + n are those of 2 n + r here.
      Value low = half(0), high = arith::ShLIOp::create(builder, loc, half(1), i32(4));
      Value both = arith::OrIOp::create(builder, loc, low, high);
      auto moved = [&](int64_t bits, int64_t by) -> Value {
        Value some = arith::AndIOp::create(builder, loc, both, i32(bits));
        return by == 0  ? some
               : by > 0 ? Value(arith::ShLIOp::create(builder, loc, some, i32(by)))
                        : Value(arith::ShRUIOp::create(builder, loc, some, i32(-by)));
      };
      Value kept = arith::OrIOp::create(builder, loc, moved(0x99, 0),
                                        arith::OrIOp::create(builder, loc, moved(0x22, 1), moved(0x44, -1)));
      return setWord(kept, buffer, i, jj);
    }
    for (unsigned n = 0; n < 2; ++n)
      for (unsigned r = 0; r < 2; ++r)
        for (unsigned e = 0; e < 2; ++e) {
          Value place = placeInBlock(type, n, r, byKeys ? odd : i32(e));
          Value at = add(mul(place, 32), laneInBlock(type, e));
          set(tile::ElementOp::create(builder, loc, builder.getF32Type(), block, ValueRange(at), ArrayRef<bool>{true}),
              buffer, {i, add(mul(jj, 2), n), i32(2 * r + e)});
        }
  });
  buffers.map(op.getResult(), buffer);
  return success();
}

} // namespace attune::expansion
