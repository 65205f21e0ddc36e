//===- Lanes.h - Coordinates of a lane and of the elements of its fragments ------------===//
//
// A lane's position in a register tile is computed from the indices of the lane and its warp:
//
//     g = lane / 4, c = lane % 4        fragment row and column pair
//     first_row = warp % R * rows of a warp
//
// where R is the number of warps that split the rows of the tile. If the block has more than R warps, several warps
// hold the same rows. These warps may split the columns of V and O (dv_warps of #tile.plan):
//
//     first_dv = warp / R * columns of a warp
//
// A lane's part of a register tile is an array of fragments. The index of an element in this array is called its
// fragment index or place, and has the coordinates
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
  /// The row of fragment index (i, r) within the tile: first_row + 16 i + g + 8 r.
  Value rowInTile(Value buffer, Value i, Value r) { return add(add(laneRowOf(buffer), mul(i, 16)), mul(r, 8)); }
  /// The distance from the lane's first row to its row in half r of the block i of 16 rows: 16 i + 8 r.
  Value rowStep(Value i, Value r) { return add(mul(i, 16), mul(r, 8)); }
  /// The lane's first row of a register tile: first_row + g, with g = lane / 4.
  Value laneRowOf(Value buffer) { return add(firstRowOf(cast<TileType>(buffer.getType())), laneRow); }
  /// First of the rows that the warp holds of a register tile of `type`.
  Value firstRowOf(TileType type);
  /// Whether the warp is the first of the warps that hold the same part of the register tile; null where one warp holds
  /// each part.
  Value isFirstHolder(TileType type);
  /// In the layout `distances` of #sched.fragment a lane holds sums along diagonals, one of each 32. Returns the
  /// diagonal of the lane's element i, counted from the first diagonal of the warp's rows: 32 i + 8 c + (g - 2 c) mod
  /// 8, with g = lane / 4 and c = lane % 4.
  Value relativeInPart(Value i);
  /// Whether the lane's element i of `buffer`, a tile of sums along diagonals, is within the tile's number of
  /// diagonals, which may be no multiple of 32; null where all elements are.
  Value isDistance(Value buffer, Value i);
  /// The column of fragment index (j, c), counted from the warp's first column: 8 j + 2 (lane % 4) + c.
  Value columnInSplit(Value j, Value c) { return add(add(laneColumn, mul(j, 8)), c); }
  /// The column, within a tile of `type`, of the lane's element c (0 or 1) in the block j of 8 columns.
  Value columnInTile(TileType type, Value j, Value c);
  /// First column of a register tile that the warp holds; null where each warp holds all columns.
  Value firstColumn(TileType type);
  /// The number of blocks of 8 columns of a tile; a lane has a pair of columns in each.
  static int64_t columnsOfLane(Value buffer) { return cast<TileType>(buffer.getType()).getShape()[1] / 8; }
  /// Whether a vector is spread over threads, so that each element has one holder.
  static bool isByThread(FragmentRole role) { return role == FragmentRole::Lanes || role == FragmentRole::Threads; }
  /// The number of threads that a vector is spread over: the lanes of one warp or of several warps.
  static int64_t threadsOf(Value buffer);
  /// The thread's index among the `threads` threads that a vector is spread over. A vector in two or four warps starts
  /// in a warp whose index is a multiple of two or four. A vector in three warps is in warps 1 to 3 of the role.
  Value threadAmong(int64_t threads);
  /// Index of the thread's i-th element of a vector that is spread over threads. In a ragged last iteration, threads
  /// past the end get the vector's last element.
  Value laneElement(Value vector, Value i);
  /// The number of the named barrier of the thread's warpgroup.
  Value warpgroupBarrier() { return add(group, barriers::ofWarpgroup); }
  /// First of the warpgroup's 64 rows, for tiles whose rows the warpgroups split.
  Value warpgroupRow() { return tile::named(mul(group, 64), "warpgroup_row"); }
  /// First of the rows that the warpgroup holds of a tile of `type`, whose columns warpgroups may split too.
  Value warpgroupRow(TileType type);
  /// First of the columns that the warpgroup holds of a tile; null where each warpgroup holds all columns.
  Value warpgroupColumn(TileType type);
  /// The type of a tile whose column splits are stacked as rows, so that each warpgroup has rows of its own.
  ///
  ///     <q 64 x d 128>, 4 warps x 2    ->    <q 128 x d 64>, 8 warps
  static TileType stacked(TileType type);
  /// Calls `body` for each element of `buffer` that a lane holds, one row after another, and `row` before each row of a
  /// tile. Coordinates that the layout does not have are null. `within` limits the loops over an accumulator to a range
  /// of blocks j of 8 columns.
  void forEachPlace(Value buffer, PlaceBody body, function_ref<void(Value i, Value r)> row = {},
                    std::optional<Range> within = {});
  /// Calls `body` for each element of an accumulator that a lane holds, one pair of columns after another, and `column`
  /// before each pair. `within` limits the loops to a range of blocks j of 8 columns. `sixteen` and `after`, if not
  /// null, are called before and after each 16 columns.
  void forEachColumn(Value buffer, std::optional<Range> within, PlaceBody body, function_ref<void(Value j)> column,
                     function_ref<void(Value jj)> sixteen, function_ref<void(Value jj)> after);

protected:
  tile::PlanAttr plan;
  int64_t warps, rowWarps;
  Value thread, lane, warp, laneRow, laneColumn, quad, dvWarp;
  Value laneDistance; ///< relativeInPart(0), the diagonal of the lane's first diagonal sum; null until it is used
  SmallVector<std::tuple<int64_t, int64_t, Value>>
      /// Cached values of the warp's first row, by the number of warps that split the rows and the number of rows of
      /// each.
      firstRows;
  Operation *lastOfLane = nullptr; ///< the last op that computes the lane's coordinates
  Value group;                     ///< index of the warpgroup in its role
};

} // namespace attune::expansion
