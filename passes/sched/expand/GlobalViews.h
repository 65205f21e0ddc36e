//===- GlobalViews.h - Views of tensors in global memory --------------------===//
//
// A tile is a rectangle of rows and columns of a view. The tile's leading indices select a head: the view without its
// leading dimensions. If all rows of the tile are in one head, the head is created once. A function forEach...() calls
// a body for each row, element or pair of columns that a lane holds and that is within the view:
//
//     forEachPair(buffer, view, indices, limit, condition, [&](Value head, ValueRange place, const PairAt &at) {
//       sched::StoreElementsOp::create(builder, loc, get(buffer, at[0]), get(buffer, at[1]), head, place);
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
  /// The name of a view, after which derived values are named.
  static std::string nameOfView(Value view);
  Value extentOf(Value view, int64_t dim);
  /// `index` clamped to the extent of dimension `dim`.
  Value clamped(Value index, Value view, int64_t dim);
  /// The logical and of `known` (if not null) and the test 0 <= index < extent.
  Value within(Value known, Value index, Value extent);
  /// The logical and of `known` (if not null) and the test that a tile of `type` is between 0 and `end` along an axis.
  Value endsWithin(Value known, const TileCoordinate &along, TileType type, Value end);
  /// Whether the view is aligned for accesses of pairs or, with `eights`, of eight elements.
  Value viewInPairs(Value view, bool eights = false);

  /// A view without its leading dimensions, created once for each head, before any loop in which the head does not
  /// change.
  Value slice(Value view, ValueRange indices, StringRef name);
  /// Creates the view without its leading dimensions at the builder's position, if all rows of the tile are in one
  /// head.
  void makeHead(Value view, ValueRange indices);
  /// A view without its leading dimensions, and the index of a row in that view.
  struct HeadRow {
    Value head, row;
  };
  /// The position of row `row` of the view at these leading indices. Rows of a group (tile.group_rows) are each in a
  /// head of their own.
  HeadRow headRow(Value view, ValueRange indices, Value row);
  /// The page of row `row` of sequence `b`, and the row's slot in that page.
  struct PagePlace {
    Value page, slot;
  };
  PagePlace pagePlace(tile::PagedRowsOp rows, Value b, Value row);

  /// For each row of a lane's `c` fragment calls `body(i, r, row)`, in a branch that runs if the row is below `limit`.
  /// The first row of the tile has the number `indices.back()` in the view.
  void forEachRow(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                  function_ref<void(Value i, Value r, HeadRow row)> body);
  /// Calls `body(head, place, at)` for each element of `buffer` that is within the view and below `limit`; `condition`
  /// may add a condition to that test. `head` is the view without its leading dimensions, `place` the indices in
  /// `head`, `at` the indices in `buffer`.
  void forEachInside(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                     function_ref<void(Value head, ValueRange place, SmallVector<Value> at)> body);
  /// Whether pairs of a lane's elements of `buffer` are adjacent in memory and aligned to the size of a pair.
  bool hasPairs(Value buffer, Value view);
  /// The indices in a fragment of the two floats of a pair.
  using PairAt = std::array<SmallVector<Value>, 2>;
  /// As `forEachInside`, but for two columns at a time; `place` has the indices of the first column. Requires
  /// `hasPairs`.
  void forEachPair(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                   function_ref<void(Value head, ValueRange place, const PairAt &at)> body);

  /// Splits `count` elements over threads, and calls `body(i, place)` for this thread's i-th element, which has the
  /// index `place` among all. In a ragged last iteration only some threads have an element.
  void forEachPlaceOf(int64_t count, Value thread, int64_t threads, function_ref<void(Value, Value)> body);
  /// Calls `body(row, column, inside)` for each of this thread's 16-byte chunks of a tile of `rows` x `columns`
  /// elements; `inside` is null unless the last iteration is ragged.
  void forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
                    function_ref<void(Value, Value, Value)> body);

  Block *workBlock = nullptr; ///< the body of the loop over tiles of work
  /// The slices of the current tile of work: (view, leading indices) -> the slice.
  SmallVector<std::pair<std::pair<Value, SmallVector<Value>>, Value>> slices;
};

} // namespace attune::expansion
