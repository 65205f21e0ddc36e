//===- MapInputs.h - What maps read at an element -------------------------===//
//
// A map (tile.map) reads coordinates, elements of input tiles, and elements of captured tensors. Elements in memory are
// loaded to registers before each pair of columns, or before each 16 columns: a function open...() creates the
// registers, and a function load...() fills them.
//
//     MapInputs.cpp    coordinates; relative-position values, per-key vectors and windows in shared memory
//     Pairs.cpp        two columns of a lane by one access to global memory
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/Products.h"

namespace attune::expansion {

/// Relative-position values (one for each diagonal q - k of a tile) that a map reads, in registers of a lane. For its
/// first pair of columns the lane needs one diagonal for each of its rows; these diagonals are 8 apart. For each
/// further pair of columns the lane needs one new diagonal.
struct Diagonals {
  Value buffer, ring, stage, start;
  bool ascend; ///< whether rows are keys: q - k then grows along the columns
};

/// A per-key vector in shared memory, of which a lane reads the elements of its two adjacent columns together.
struct ColumnPair {
  Value buffer, ring, stage;
};

/// A `tile.element` (a map's load of a tensor's element) that is loaded in pairs: `buffer` holds the elements of all of
/// the lane's rows at the current two columns.
struct ElementPairs {
  tile::ElementOp element;
  Value buffer;
  /// A view that starts at the lane's first pair; null if other indices than the last two differ between the lane's
  /// pairs.
  Value own;
};

/// A window (a rectangle of a captured tensor in shared memory) of 16-bit elements, which a map reads as mma fragments
/// `a`, each of 16 columns of the map's result. An `a` fragment and the `c` fragment of the same rows and columns
/// spread their elements over the lanes in the same pairs.
struct Window {
  Value input, buffer;
};

/// Whether `op` is marked to access two adjacent columns or rows together.
inline bool isMarkedForPairs(Operation *op) {
  return op->hasAttr(sched::pairsAttr) || op->hasAttr(sched::rowPairsAttr);
}

class MapInputs : public Products {
public:
  using Products::Products;

protected:
  /// The entries of `mapping` that `region` uses. Copying the whole `mapping` for each map would take time quadratic in
  /// the terms of a mask.
  IRMapping mappingFor(Region &region);
  /// Maps the coordinate arguments of the region of `op` to their values at the lane's element (i, r, j, c): row 16 i +
  /// 8 r and column 8 j + c, counted from the lane's first.
  void mapCoordinates(tile::MapOp op, IRMapping &inner, Value i, Value r, Value j, Value c);
  /// The part of a column's coordinate that differs from lane to lane: the lane's first column.
  Value laneColumns(tile::MapOp op);
  /// The coordinate of a row or column as a float: (origin + the lane's part) + the part of the fragment index. The sum
  /// in parentheses is the same for all fragment indices; the last part is a constant once loops are unrolled.
  Value floatCoordinate(Value origin, Value lanePart, Value placePart);
  Value floatStart(Value origin, Value lanePart);
  /// The element of an input of a map at the lane's element (i, r, j, c): row 16 i + 8 r and column 8 j + c, counted
  /// from the lane's first.
  Value inputElement(tile::MapOp op, Value input, Value i, Value r, Value j, Value c);

  // Inputs in shared memory
  /// Creates registers for the relative-position inputs of `op`, and loads the diagonals that come before the first
  /// pair of columns.
  SmallVector<Diagonals> openDiagonals(tile::MapOp op);
  /// Loads the relative-position values of the lane's n-th diagonal, for both columns of a pair. The lane's diagonals
  /// are 8 apart; diagonal number `before` is that of the lane's first row and column.
  void loadDiagonal(const Diagonals &of, Value n, int64_t before);
  /// Loads the two elements at `column` and `column` + 1 of a row in shared memory into [place][0] and [place][1] of
  /// the registers `buffer`.
  void loadPair(Value shared, Value stage, Value row, Value column, Value buffer, Value place);
  /// Creates registers for a pair of columns of each per-column vector that `op` reads from shared memory.
  SmallVector<ColumnPair> openColumns(tile::MapOp op);
  void loadColumns(const ColumnPair &of, Value j);
  SmallVector<Window> openWindows(tile::MapOp op);
  /// Whether `input` is a tile of two axes in swizzled shared memory. The rows of `input` may be the rows or the
  /// columns of the result of `op`.
  bool isWindow(tile::MapOp op, Value input);

  // Pairs.cpp
  /// A run-time flag: whether all views that `op` accesses in pairs of elements are aligned for pairs and contain the
  /// whole tile. Null if `op` accesses no view in pairs.
  Value liesInPairs(tile::MapOp op);
  /// Clones an op of a map without its marks for pairs, so that its elements are accessed one by one.
  void cloneAlone(Operation &op, IRMapping &inner);
  /// Creates registers for one pair of columns of each `tile.element` in `op` that is marked for pairs.
  SmallVector<ElementPairs> openPairs(tile::MapOp op);
  void loadPairs(tile::MapOp op, const ElementPairs &of, Value j);
  /// The indices of `element` for the lane's row 16 i + 8 r and column 8 j + c of `op`, for access in pairs. An index
  /// is clamped unless the test for pairs (liesInPairs) guarantees that it is in range.
  SmallVector<Value> indicesOf(tile::MapOp op, tile::ElementOp element, Value i, Value r, Value j, Value c);
  /// If `element` is loaded in pairs of adjacent rows, a view that starts at the lane's first pair and is indexed by
  /// column and row. Null if further indices differ between the lane's pairs, or for pairs of columns.
  Value ownPairs(tile::MapOp op, tile::ElementOp element);
  Value fromFirst(Value view, ValueRange first);
  /// The first row, 2 n, of the pair of adjacent rows 2 n and 2 n + 1 that contains the lane's `row`. `column` is 1 if
  /// `row` is the second row of its pair, else 0.
  Value firstOfPair(Value row, Value column) {
    return arith::SubIOp::create(builder, loc, row, column, arith::IntegerOverflowFlags::nsw);
  }
  /// The index that `places`, a vector of scatter indices, has for the lane's row 16 i + 8 r and column 8 j + c.
  /// Requires that no element of the tile is masked: `places.end`, the first masked coordinate, is not tested.
  Value placeWithin(const CountedPlaces &places, Value i, Value r, Value j, Value c);
  /// Whether the lane's rows are odd: the second rows of their pairs of adjacent rows.
  Value isSecondRow();
  /// Transposes 2 x 2 elements between lanes 4 apart. Before, each lane holds one row at two columns; afterwards each
  /// lane holds both rows at one column, the lane of the first row at the first column. Applying the exchange twice
  /// gives the original elements.
  ///
  ///     lane       holds                      gets
  ///     l          (k, q), (k, q + 1)         (k, q), (k + 1, q)
  ///     l + 4      (k + 1, q), (k + 1, q + 1) (k, q + 1), (k + 1, q + 1)
  std::array<Value, 2> exchangePairs(Value first, Value second, Value isSecond);

  llvm::DenseMap<Operation *, Value> elementPairs; ///< element loaded in pairs -> registers of its current pairs
  llvm::DenseMap<Value, Value> columnPairs;        ///< per-column vector in shared memory -> registers of its pair
  llvm::DenseMap<Value, Value> windows;            ///< window of 16-bit elements -> its current fragments
};

} // namespace attune::expansion
