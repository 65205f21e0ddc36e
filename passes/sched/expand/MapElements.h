//===- MapElements.h - The region of a map, for each element of a lane ------===//
//
// A map (tile.map) computes a tile element by element. Its region, which computes one element, is expanded here for
// each element that a lane holds.
//
//     MapElements.cpp       loops over elements, and the region for one element
//     ConditionWords.cpp    conditions of many ops, in a loop
//     RowCuts.cpp           comparisons of the column with a bound that each row has; interleaved maps
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/MapInputs.h"

namespace attune::expansion {

/// A term slope * (origin + column) of a map's element, where `slope` is the same for all elements of the map.
struct Line {
  Value slope, origin;
};

/// In an interleaved map (InterleaveFunctions.cpp) an operand is made to depend on earlier elements, so that ptxas
/// interleaves special functions with other arithmetic. `values` are the operand's registers: one value for each row,
/// or one value for all rows, which is in the register of the first row.
struct Interleaving {
  InterleavedOperand operand;
  Value values;
};

class MapElements : public MapInputs {
public:
  using MapInputs::MapInputs;

protected:
  using MapInputs::expandOp;
  LogicalResult expandOp(tile::SplatOp op);
  /// Expands `op`: chooses registers for the result and computes its elements, in a branch if the op has `only_if`.
  LogicalResult writeMap(tile::MapOp op);
  /// Computes the elements of `op` into the registers `buffer`, in the order that `interleaved` requires (if given).
  /// With `inPairs`, a `tile.element` (load of a tensor's element) that is marked for pairs loads two elements at a
  /// time; otherwise each element is loaded alone.
  void writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved, bool inPairs);
  /// The lane's element (i, r, j, c) of the result of `op`: row 16 i + 8 r and column 8 j + c, counted from the lane's
  /// first.
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c);
  /// Expands the region of `op`, whose result is a vector spread over threads, for the thread's i-th element. `inner`
  /// receives the values of the region.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner);
  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested);
  /// The term slope * (origin + column) of `line` for the lane's column 8 j + c: one FMA, with one addend for all
  /// columns of a lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c);
  /// If `nested` divides the column's coordinate by a multiple of 8, and tiles begin at multiples of that divisor, all
  /// columns of a block of 8 have the same quotient. The function then returns the tile's origin, else null.
  Value originOfDivided(tile::MapOp op, Operation &nested);
  Value columnQuotient(arith::DivSIOp division, Value origin, Value j);
  /// Whether an element of `op` depends on its column: on a vector along the columns, on a shared tile, or on the
  /// column's coordinate in an op other than a comparison with a bound of the row (isCut).
  bool readsColumns(tile::MapOp op);

  // ConditionWords.cpp
  /// Whether the region argument `argument` can be computed for an element whose index is known only at run time.
  /// Coordinates can, and elements of shared tiles other than relative-position values. Of register tiles, only vectors
  /// along the rows or columns can.
  bool hasRunTimePlace(tile::MapOp op, BlockArgument argument);
  /// The element of the vector `input` in registers for a column that is known only at run time: one select for each
  /// column of the column pairs `pairs`.
  Value columnAt(Value input, Range pairs, Value column);
  /// The conditions (i1 values) of `op` that are computed in a loop which is not unrolled: those that many ops compute,
  /// from arguments that all fulfil hasRunTimePlace.
  SmallVector<Operation *> largeConditions(tile::MapOp op);
  /// Computes the conditions of `op` that take many ops (largeConditions), such as a mask of many terms, in a loop over
  /// all elements of the lane that is not unrolled, and keeps each condition in 32-bit words with one bit for each
  /// element.
  void openWords(tile::MapOp op);
  /// If a condition is kept as one bit for each element of the accumulator `buffer`, the indices of the 32-bit word
  /// that has the bits of the lane's row 16 i + 8 r and of column pair j. bitInWord() returns the number of the bit in
  /// that word for column c of the pair.
  SmallVector<Value> wordAt(Value buffer, Value i, Value r, Value j);
  Value bitInWord(Value buffer, Value j, Value c);
  void setBit(Value bit, Value words, Value buffer, Value i, Value r, Value j, Value c);
  Value testBit(Operation *condition, Value words, Value buffer, Value i, Value r, Value j, Value c);
  /// Marks the ops of a map's region that are not expanded for each element, because only conditions that are kept as
  /// bits in words read their results.
  void markInWords(Block &body);

  // RowCuts.cpp
  /// Whether `compare` compares the column, counted from the tile's first column, with a number that is clamped between
  /// 0 and the tile's number of columns.
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare);
  /// The result of `compare` for the lane's column 8 j + c. If openCuts has computed the row's results as bits of a
  /// word, the result is a bit of that word. Otherwise the part of the column that differs from lane to lane is
  /// subtracted from both sides, so that the column's side is a constant.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c);
  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns);
  /// Whether `user` is a cut: a comparison that splits each row of `op` at one column. The results of a cut are kept in
  /// one 32-bit word for the lane's columns of a row, so that tiles of more than 128 columns have no cuts.
  bool isCut(tile::MapOp op, Operation *user);
  /// Whether all users of the comparison are conditions that are computed as one word of bits for all columns of a row
  /// (columnsOf), so that `compare` itself is not expanded.
  bool isInWords(arith::CmpIOp compare);
  Value bitOfColumn(Value word, Location loc, Value j, Value c);
  /// Whether a value of the map's body is the same for all columns of a row.
  bool followsFromRow(tile::MapOp op, Value value);
  /// The values, for the lane's row 16 i + 8 r, of the region arguments of `op` that are the same along a row.
  IRMapping rowOf(tile::MapOp op, Value i, Value r);
  /// Evaluates, for the lane's row 16 i + 8 r of `op`, the comparisons that split the row at one column (isCut). The
  /// result of each is a word with one bit for each column that the lane holds: whether the column is below the row's
  /// bound. A condition that combines several of these comparisons gets a word as well.
  void openCuts(tile::MapOp op, Value i, Value r);
  SmallVector<Value> interleavedAt(Value i, Value r);
  void forEachInterleaved(function_ref<void(Value i, Value r)> body);
  void openPacing(tile::MapOp op, const InterleavedOperand &operand);
  /// Makes the elements of the next 16 columns depend on the first element of the 16 columns from 16 jj on (on the
  /// first element of each row, if the interleaved operand is per row): ptxas then cannot issue all arithmetic first.
  void interleave(Value buffer, Value jj);

  std::optional<Interleaving> interleaving;          ///< the current map's operand that orders its elements
  llvm::DenseMap<Operation *, Value> columnsBelow;   ///< comparison of the column -> bits: column below the row's bound
  llvm::DenseMap<Operation *, Value> columnsOf;      ///< and / or of such comparisons -> its bits for the current row
  llvm::DenseMap<Operation *, Value> conditionWords; ///< condition of many ops -> words with a bit for each element
  llvm::DenseSet<Operation *> inWords;               ///< ops that only conditions in conditionWords use
};

} // namespace attune::expansion
