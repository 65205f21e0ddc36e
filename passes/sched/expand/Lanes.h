//===- Lanes.h - Where a lane is, and the places of its fragments ------------===//
//
// A lane finds itself by
//
//     g = lane / 4, c = lane % 4        fragment row and column pair
//     first_row = warp % R * rows of a warp
//
// where R warps split the rows of the tile (of others, which have the same rows, each holds the tile once more), and,
// where others split the columns of V and O (#tile.plan's dv_warps),
//
//     first_dv = warp / R * columns of a warp
//
// Its share of a register tile is an array of fragments; a place in it has the coordinates
//
//     i    block of 16 rows        r    half of the block: row first_row + 16 i + g + 8 r
//     j    block of 8 columns      c    column of the pair: 8 j + 2 (lane % 4) + c
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/NamedBarriers.h"
#include "passes/sched/expand/Emitter.h"

namespace attune::expansion {

inline FragmentAttr layoutOf(Value tile) { return cast<FragmentAttr>(cast<TileType>(tile.getType()).getLayout()); }
inline SmallVector<int64_t> laneShape(Value tile) { return layoutOf(tile).laneShape(cast<TileType>(tile.getType())); }
inline bool inShared(Value tile) { return cast<TileType>(tile.getType()).getSpace() == MemorySpace::Shared; }

using PlaceBody = function_ref<void(Value i, Value r, Value j, Value c, SmallVector<Value> indices)>;

class Lanes : public Emitter {
public:
  Lanes(OpBuilder builder, Location loc, tile::PlanAttr plan)
      : Emitter(builder, loc), plan(plan), warps(plan.getWarps()), rowWarps(plan.getRowWarps()) {}

  void writeLane();
  /// Row of fragment i, half r, within the tile that a layout with rows holds: first_row + 16 i + g + 8 r.
  Value rowInTile(Value buffer, Value i, Value r) { return add(add(laneRowOf(buffer), mul(i, 16)), mul(r, 8)); }
  /// From the lane's first row to another of its rows.
  Value rowStep(Value i, Value r) { return add(mul(i, 16), mul(r, 8)); }
  /// The lane's first row of a register tile: first_row + g.
  Value laneRowOf(Value buffer) { return add(firstRowOf(cast<TileType>(buffer.getType())), laneRow); }
  /// First row of the warp's share of a register tile.
  Value firstRowOf(TileType type);
  /// Whether the warp is the first that holds its share of the register tile; null where no other holds it.
  Value isFirstHolder(TileType type);
  /// The distance of element i of a tile of them, in the warp's part: 32 i + 8 c + (g - 2 c) mod 8.
  Value relativeInPart(Value i);
  /// Whether element i of such a tile is one of its distances; null where all are.
  Value isDistance(Value buffer, Value i);
  /// Column within the warp's share of fragment j, element c: 8 j + 2 (lane % 4) + c.
  Value columnInSplit(Value j, Value c) { return add(add(laneColumn, mul(j, 8)), c); }
  /// The same within the tile that `layout` holds.
  Value columnInTile(TileType type, Value j, Value c);
  /// First column of the warp's share of a register tile; null where each warp has all columns.
  Value firstColumn(TileType type);
  /// Column pairs that a lane has of a tile.
  static int64_t columnsOfLane(Value buffer) { return cast<TileType>(buffer.getType()).getShape()[1] / 8; }
  /// Whether each thread holds elements of its own of a vector.
  static bool isByThread(FragmentRole role) { return role == FragmentRole::Lanes || role == FragmentRole::Threads; }
  /// Threads that hold a vector together: the lanes of a warp, or those of several.
  static int64_t threadsOf(Value buffer);
  /// The thread's place among those that hold a vector. Several warps follow the role's first.
  Value threadAmong(int64_t threads);
  /// The thread's element of the vector in pass i; in a ragged last one the vector's last in the threads beyond it.
  Value laneElement(Value vector, Value i);
  /// The named barrier of a warpgroup's own.
  Value warpgroupBarrier() { return add(group, barriers::ofWarpgroup); }
  /// First row of the warpgroup's 64, where each has rows of its own.
  Value warpgroupRow() { return tile::named(mul(group, 64), "warpgroup_row"); }
  /// The same of a tile whose columns warpgroups may share out.
  Value warpgroupRow(TileType type);
  /// The first column of the warpgroup's share of it; null where each has all columns.
  Value warpgroupColumn(TileType type);
  /// A tile in which the shares of columns stand below one another: one warpgroup's rows are then its own.
  ///
  ///     <q 64 x d 128>, 4 warps x 2    ->    <q 128 x d 64>, 8 warps
  static TileType stacked(TileType type);
  /// Calls `body` for each place of a lane's share of `buffer`, row by row, and `row` in front of each row of a tile;
  /// unused coordinates are null. Of an accumulator those of `within` alone, where it is given: column pairs.
  void forEachPlace(Value buffer, PlaceBody body, function_ref<void(Value i, Value r)> row = {},
                    std::optional<Range> within = {});
  /// The same of an accumulator, column by column: `column` in front of each pair of them, and `sixteen`, where it is
  /// given, of each 16; `after` behind them.
  void forEachColumn(Value buffer, std::optional<Range> within, PlaceBody body, function_ref<void(Value j)> column,
                     function_ref<void(Value jj)> sixteen, function_ref<void(Value jj)> after);

protected:
  tile::PlanAttr plan;
  int64_t warps, rowWarps;
  Value thread, lane, warp, laneRow, laneColumn, quad, dvWarp;
  Value laneDistance; ///< of its first element of a tile of distances; null before one is asked for
  SmallVector<std::tuple<int64_t, int64_t, Value>> firstRows; ///< by warps that split the rows, and rows of each
  Operation *lastOfLane = nullptr;                            ///< what says where the lane is ends here
  Value group;                                                ///< warpgroup of the role
};

} // namespace attune::expansion
