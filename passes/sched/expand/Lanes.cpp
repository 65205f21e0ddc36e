//===- Lanes.cpp - Coordinates of a lane and of the elements of its fragments ----------===//

#include "passes/sched/expand/Lanes.h"

namespace attune::expansion {

void Lanes::writeLane() {
  thread = tile::named(sched::ThreadIdOp::create(builder, loc), "thread");
  lane = tile::named(rem(thread, 32), "lane");
  warp = tile::named(div(thread, 32), "warp");
  laneRow = tile::named(div(lane, 4), "lane_row");
  Value quadLane = tile::named(rem(lane, 4), "quad_lane");
  quad = quadLane;
  laneColumn = tile::named(mul(quadLane, 2), "lane_column");
  dvWarp = rowWarps == warps ? Value() : tile::named(div(warp, rowWarps), "dv_warp");
  firstRows.clear();
  laneDistance = Value();
  lastOfLane = laneColumn.getDefiningOp();
}

Value Lanes::firstRowOf(TileType type) {
  const int64_t split = cast<FragmentAttr>(type.getLayout()).getWarps(), rows = type.getShape()[0] / split;
  if (split == 1)
    return i32(0);
  if (split == warps && rows == 1)
    return warp;
  for (auto [knownSplit, knownRows, row] : firstRows)
    if (split == knownSplit && rows == knownRows)
      return row;
  OpBuilder::InsertionGuard guard(builder); // the value is computed once, before any loop
  builder.setInsertionPointAfter(lastOfLane);
  Value row = tile::named(mul(split == warps ? warp : rem(warp, split), rows), "warp_row");
  lastOfLane = row.getDefiningOp();
  firstRows.push_back({split, rows, row});
  return row;
}

Value Lanes::relativeInPart(Value i) {
  if (!laneDistance) {
    OpBuilder::InsertionGuard guard(builder); // the value is computed once, before any loop
    builder.setInsertionPointAfter(lastOfLane);
    Value turned = arith::SubIOp::create(builder, loc, add(laneRow, 8), laneColumn, arith::IntegerOverflowFlags::nsw);
    laneDistance = tile::named(add(mul(quad, 8), rem(turned, 8)), "lane_distance");
    lastOfLane = laneDistance.getDefiningOp();
  }
  return add(laneDistance, mul(i, 32));
}

Value Lanes::isDistance(Value buffer, Value i) {
  auto type = cast<TileType>(buffer.getType());
  if (!tile::isByPart(type) || type.getShape()[1] % 32 == 0)
    return {};
  return below(relativeInPart(i), i32(type.getShape()[1]));
}

/// The number of warpgroups that split the rows of a tile.
static int64_t rowGroups(TileType type) { return cast<FragmentAttr>(type.getLayout()).getWarps() / 4; }

Value Lanes::warpgroupRow(TileType type) {
  const int64_t groups = rowGroups(type);
  return groups * 4 == warps ? warpgroupRow() : groups == 1 ? i32(0) : mul(rem(group, groups), 64);
}

Value Lanes::warpgroupColumn(TileType type) {
  const int64_t splits = cast<FragmentAttr>(type.getLayout()).getColumnWarps();
  if (splits == 1)
    return {};
  return tile::named(mul(div(group, rowGroups(type)), type.getShape().back() / splits), "warpgroup_column");
}

TileType Lanes::stacked(TileType type) {
  auto layout = cast<FragmentAttr>(type.getLayout());
  const int64_t splits = layout.getColumnWarps();
  auto own = FragmentAttr::get(type.getContext(), layout.getRole(), layout.getWarps() * splits, 1);
  return TileType::get(type.getContext(), type.getAxes(), {type.getShape()[0] * splits, type.getShape()[1] / splits},
                       type.getElementType(), type.getSpace(), own);
}

Value Lanes::isFirstHolder(TileType type) {
  auto layout = cast<FragmentAttr>(type.getLayout());
  const bool byRow = layout.getRole() == FragmentRole::Columns;
  const int64_t holders = (byRow ? 1 : layout.getWarps()) * layout.getColumnWarps();
  if (holders == warps)
    return {};
  return dvWarp && holders == rowWarps
             ? arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, dvWarp, i32(0)).getResult()
             : below(warp, i32(holders));
}

Value Lanes::columnInTile(TileType type, Value j, Value c) {
  Value first = firstColumn(type);
  return first ? add(first, columnInSplit(j, c)) : columnInSplit(j, c);
}

Value Lanes::firstColumn(TileType type) {
  int64_t columnWarps = cast<FragmentAttr>(type.getLayout()).getColumnWarps();
  if (columnWarps == 1)
    return {};
  if (!dvWarp)
    return warpgroupColumn(type);
  assert(columnWarps == plan.getDvWarps() && "layouts follow the plan");
  OpBuilder::InsertionGuard guard(builder); // the value is computed once, before any loop
  builder.setInsertionPointAfterValue(dvWarp);
  return tile::named(mul(dvWarp, type.getShape().back() / columnWarps), "warp_column");
}

void Lanes::forEachPlace(Value buffer, PlaceBody body, function_ref<void(Value i, Value r)> row,
                         std::optional<Range> within) {
  SmallVector<int64_t> shape = laneShape(buffer);
  FragmentRole role = layoutOf(buffer).getRole();
  if (isByThread(role)) {
    const int64_t whole = cast<TileType>(buffer.getType()).getShape()[0] / threadsOf(buffer);
    auto pass = [&](Value i) { body(i, {}, {}, {}, {i}); };
    repeat(whole, "i", pass);
    if (whole < shape[0])
      pass(i32(whole));
    return;
  }
  if (role == FragmentRole::Distances)
    return repeat(shape[0], "i", [&](Value i) { body(i, {}, {}, {}, {i}); });
  auto columns = [&](Range pairs, Value i, Value r) {
    repeat(pairs, "j", [&](Value j) {
      repeat(2, "e", [&](Value c) {
        if (role == FragmentRole::C)
          body(i, r, j, c, {i, j, add(mul(r, 2), c)});
        else
          body(i, r, j, c, {j, c});
      });
    });
  };
  if (role == FragmentRole::Columns)
    return columns({0, shape[0]}, {}, {});
  repeat(shape[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      if (role == FragmentRole::Rows)
        return body(i, r, {}, {}, {i, r});
      if (row)
        row(i, r);
      columns(within.value_or(Range{0, shape[1]}), i, r);
    });
  });
}

void Lanes::forEachColumn(Value buffer, std::optional<Range> within, PlaceBody body, function_ref<void(Value j)> column,
                          function_ref<void(Value jj)> sixteen, function_ref<void(Value jj)> after) {
  SmallVector<int64_t> shape = laneShape(buffer);
  const Range pairs = within.value_or(Range{0, shape[1]});
  auto pair = [&](Value j) {
    column(j);
    repeat(2, "e", [&](Value c) {
      repeat(shape[0], "i",
             [&](Value i) { repeat(2, "r", [&](Value r) { body(i, r, j, c, {i, j, add(mul(r, 2), c)}); }); });
    });
  };
  if (!sixteen && !after)
    return repeat(pairs, "j", pair);
  repeat(pairs.by(2), "jj", [&](Value jj) {
    if (sixteen)
      sixteen(jj);
    repeat(2, "n", [&](Value n) { pair(add(mul(jj, 2), n)); });
    if (after)
      after(jj);
  });
}

int64_t Lanes::threadsOf(Value buffer) {
  FragmentAttr layout = layoutOf(buffer);
  return layout.getRole() == FragmentRole::Threads ? 32 * layout.getWarps() : 32;
}

Value Lanes::threadAmong(int64_t threads) {
  if (threads == 32)
    return lane;
  return tile::named(llvm::isPowerOf2_64(threads) ? rem(thread, threads)
                                                  : arith::SubIOp::create(builder, loc, thread, i32(32)).getResult(),
                     "storer");
}

Value Lanes::laneElement(Value vector, Value i) {
  const int64_t threads = threadsOf(vector), count = cast<TileType>(vector.getType()).getShape()[0];
  Value at = add(threadAmong(threads), mul(i, threads));
  const bool ragged = count % threads && getConstantIntValue(i) == count / threads;
  return ragged ? arith::MinSIOp::create(builder, loc, at, i32(count - 1)).getResult() : at;
}

} // namespace attune::expansion
