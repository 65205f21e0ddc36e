//===- GlobalViews.h - Views of tensors in global memory --------------------===//
//
// A view is a tensor in global memory, and a tile is a rectangle of its last two dimensions, rows and columns. The
// leading indices, such as batch and head, select a slice of the view, here called a head. If all rows of the tile are
// in one head, the slice is created once. A function forEach...() calls a body for each row, element or pair of columns
// that a lane holds and that is within the view:
//
//     forEachPair(buffer, view, indices, limit, condition, [&](Value head, ValueRange place, const PairAt &at) {
//       sched::AddElementsOp::create(builder, loc, ValueRange(get(buffer, at[0])), head, place);
//     });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/score/MapPatterns.h"
#include "passes/sched/expand/SharedTiles.h"

namespace attune::expansion {

class GlobalViews : public SharedTiles {
public:
  using SharedTiles::SharedTiles;

protected:
  /// The name of a view, after which the registers and buffers of its tiles are named.
  static std::string nameOfView(Value view);
  Value extentOf(Value view, int64_t dim);
  /// `index` clamped to the valid indices of dimension `dim` of `view`.
  Value clamped(Value index, Value view, int64_t dim);
  /// The logical and of `known` (if not null) and the test 0 <= index < extent.
  Value within(Value known, Value index, Value extent);
  /// The logical and of `known` (if not null) and the test that a tile of `type` is between 0 and `end` along the axis
  /// `along.axis`, on which the tile starts at `along.origin`.
  Value endsWithin(Value known, const TileCoordinate &along, TileType type, Value end);
  /// A run-time flag: whether the view is aligned for accesses of two adjacent elements or, with `eights`, of eight.
  Value viewInPairs(Value view, bool eights = false);

  /// The slice of `view` at its leading indices, which are all `indices` but the last. The slice is created once,
  /// outside of the loops in which the leading indices do not change.
  Value slice(Value view, ValueRange indices, StringRef name);
  /// Creates the slice of `view` at the leading `indices` before the loops that will be emitted next. No effect if the
  /// rows of a tile are in several slices: in several heads (tile.group_rows) or pages (tile.paged_rows).
  void makeHead(Value view, ValueRange indices);
  /// A view without its leading dimensions, and the index of a row in that view.
  struct HeadRow {
    Value head, row;
  };
  /// The slice of `view` at the leading `indices` that contains row `row`, and the index of the row in that slice. With
  /// tile.group_rows, which interleaves the rows of several query heads, the row also selects the head; with
  /// tile.paged_rows it selects the page.
  HeadRow headRow(Value view, ValueRange indices, Value row);
  /// The page of a paged KV cache that contains row `row` of sequence `b`, and the row's slot in that page.
  struct PagePlace {
    Value page, slot;
  };
  PagePlace pagePlace(tile::PagedRowsOp rows, Value b, Value row);

  /// Calls `body(i, r, row)` for each row 16 i + 8 r that a lane holds of the accumulator `buffer`, in a branch on
  /// `condition(isBelow)`, where `isBelow` is the test that the row is below `limit`. The tile's first row is row
  /// `indices.back()` of the view.
  void forEachRow(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                  function_ref<void(Value i, Value r, HeadRow row)> body);
  /// Calls `body(head, place, at)` for each element of `buffer` whose column is within the view and whose row is below
  /// `limit`; `condition` may add a condition to the test of the row. `head` is the view without its leading
  /// dimensions, `place` the indices in `head`, `at` the indices in `buffer`.
  void forEachInside(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                     function_ref<void(Value head, ValueRange place, SmallVector<Value> at)> body);
  /// Whether pairs of a lane's elements of `buffer` are adjacent in memory and aligned to the size of a pair.
  bool hasPairs(Value buffer, Value view);
  /// The fragment indices of the two adjacent columns of a pair.
  using PairAt = std::array<SmallVector<Value>, 2>;
  /// Calls `body(head, place, at)` for each pair of columns of `buffer` that is within the view and whose row is below
  /// `limit`; `condition` may add a condition to the test of the row. `head` is the view without its leading
  /// dimensions, `place` the indices of the first column in `head`, `at` the indices of the pair in `buffer`. Requires
  /// `hasPairs`.
  void forEachPair(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                   function_ref<void(Value head, ValueRange place, const PairAt &at)> body);

  /// Whether a view keeps its rows in blocks of 16 (tile.blocked_rows).
  static bool isInBlocks(Value view) { return bool(view.getDefiningOp<tile::BlockedRowsOp>()); }
  /// Calls `body(own, place, i, j)` for each 16 rows x 8 columns of the accumulator `buffer` that begin below `limit`,
  /// where `view` keeps its rows in blocks. `place` is the index of the lane's four elements in `own`, the part of the
  /// view from the lane's first element on; `i` and `j` are their indices in `buffer`. `condition` as in forEachPair.
  void forEachFour(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                   function_ref<void(Value own, Value place, Value i, Value j)> body);
  /// The lane's four elements of the block (i, j) of an accumulator.
  SmallVector<Value, 4> fourOf(Value buffer, Value i, Value j);

  /// Splits `count` elements over `threads` threads, and calls `body(i, place)` for the i-th element of thread
  /// `thread`, which has the index `place` among all elements. Only some threads may have a last element.
  void forEachPlaceOf(int64_t count, Value thread, int64_t threads, function_ref<void(Value, Value)> body);
  /// Splits a tile of `rows` x `columns` elements into 16-byte chunks over `threads` threads, and calls `body(row,
  /// column, inside)` for each chunk of thread `thread`. `inside` tests that the chunk exists; null where all threads
  /// have equally many chunks.
  void forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
                    function_ref<void(Value, Value, Value)> body);

  Block *workBlock = nullptr; ///< the body of the loop over tiles of work
  /// The slices of views that have been created in the loop over tiles of work: (view, leading indices) -> the slice.
  SmallVector<std::pair<std::pair<Value, SmallVector<Value>>, Value>> slices;
};

} // namespace attune::expansion
