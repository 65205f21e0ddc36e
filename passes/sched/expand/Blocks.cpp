//===- Blocks.cpp - Tiles in global memory in the order in which lanes hold them -----------------------===//
//
// A tile of queries and keys that one kernel saves for another is stored in memory as blocks of 16 x 16 elements. The
// elements of a block are in the order in which lanes hold a tile with queries as rows: a warp writes such a tile's
// block contiguously. In a kernel whose tile has keys as rows, each lane loads elements that two lanes have stored.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

/// Whether the rows of a register tile are keys.
static bool isByKeys(TileType type) { return type.axis(0) == "k"; }

template <typename BlocksOp>
void KernelExpander::forEachBlock(BlocksOp op, TileType type, function_ref<void()> some,
                                  function_ref<void(Value, Value, Value)> body) {
  auto layout = cast<FragmentAttr>(type.getLayout());
  const int64_t rows = type.getShape()[0] / (16 * layout.getWarps()),
                columns = type.getShape()[1] / (16 * layout.getColumnWarps());
  Value view = slice(op.getView(), ValueRange{op.getB(), op.getH(), op.getQ0()}, nameOfView(op.getView()) + "_head");
  Value row0 = mapping.lookup(isByKeys(type) ? op.getK0() : op.getQ0()),
        column0 = mapping.lookup(isByKeys(type) ? op.getQ0() : op.getK0());
  Value firstRow = div(add(row0, firstRowOf(type)), 16), first = firstColumn(type);
  Value firstColumn = div(first ? add(column0, first) : column0, 16);
  Value extents[] = {extentOf(view, 0), extentOf(view, 1)};
  auto element = cast<tile::ViewType>(view.getType()).getElementType();
  auto isThere = [&](Value block, unsigned dim) { return below(block, extents[isByKeys(type) ? 1 - dim : dim]); };
  auto at = [&](Value i, Value jj) {
    Value row = add(firstRow, i), column = add(firstColumn, jj);
    Value indices[] = {isByKeys(type) ? column : row, isByKeys(type) ? row : column};
    body(i, jj,
         sched::SliceOp::create(builder, loc, tile::ViewType::get(builder.getContext(), 1, element), view, indices));
  };
  // One test for all 16 x 16 blocks of the tile. The test succeeds in most tiles, namely those within the view.
  Value all = arith::AndIOp::create(builder, loc, isThere(add(firstRow, rows - 1), 0),
                                    isThere(add(firstColumn, columns - 1), 1));
  onlyIf(all, [&] { repeat(rows, "i", [&](Value i) { repeat(columns, "jj", [&](Value jj) { at(i, jj); }); }); });
  onlyIf(opposite(all), [&] {
    if (some)
      some();
    repeat(rows, "i", [&](Value i) {
      onlyIf(isThere(add(firstRow, i), 0), [&] {
        repeat(columns, "jj", [&](Value jj) { onlyIf(isThere(add(firstColumn, jj), 1), [&] { at(i, jj); }); });
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
  // In each 8 x 8 quarter of a block this lane holds key lane / 4 at query 2 (lane % 4) + e. The block was stored from
  // a tile with queries as rows, in which lane 4 * query + key / 2 holds that element.
  return add(mul(add(laneColumn, int64_t(e)), 4), div(laneRow, 2));
}

Value KernelExpander::byteOfLane() { return add(add(mul(div(laneRow, 2), 8), mul(quad, 2)), rem(laneRow, 2)); }

LogicalResult KernelExpander::expandOp(tile::StoreBlocksOp op) {
  TileType type = op.getTile().getType();
  Value buffer = buffers.lookup(op.getTile());
  const bool isBits = type.getElementType().isInteger(1);
  if (isByKeys(type))
    return op.emitError("stores blocks of a tile whose rows are keys, which is not supported here");
  forEachBlock(op, type, {}, [&](Value i, Value jj, Value block) {
    if (isBits)
      return void(sched::StoreByteOp::create(builder, loc, bitsOf(op.getTile(), i, jj), block, byteOfLane()));
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
  const bool isBits = type.getElementType().isInteger(1), byKeys = isByKeys(type);
  Value odd = byKeys ? rem(laneRow, 2) : Value();
  buffers.map(op.getResult(), buffer);
  if (isBits)
    fillBuffer(i32(0), buffer);
  auto clear = [&] {
    if (!isBits)
      fillBuffer(f32(0), buffer);
  };
  forEachBlock(op, type, clear, [&](Value i, Value jj, Value block) {
    if (isBits) {
      Value byte = byKeys ? add(mul(quad, 8), mul(div(laneRow, 2), 2)) : byteOfLane();
      Value word = sched::LoadByteOp::create(builder, loc, builder.getI32Type(), block, byte, byKeys);
      // A saved byte has the flags of two adjacent keys, four bits for each. This lane's key, lane / 4, is the even or
      // the odd key of the two.
      return addBits(byKeys ? arith::ShRUIOp::create(builder, loc, word, mul(odd, 4)) : word, op.getResult(), i, jj);
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
  return success();
}

} // namespace attune::expansion
