//===- MapElements.h - The region of a map, for each element of a lane ------===//
//
//     MapElements.cpp       loops over elements, and the region for one element
//     ConditionWords.cpp    large conditions, in a loop
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

/// The operand that orders the elements of an interleaved map (InterleaveFunctions.cpp), and its values in registers:
/// one value for each row, or one value for all rows, which is in the register of the first row.
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
  /// Writes the elements of the result of `op` to its buffer.
  LogicalResult writeMap(tile::MapOp op);
  /// Computes the elements of `op`. With `inPairs`, a `tile.element` that is marked for pairs loads two elements at a
  /// time; otherwise each element is loaded alone.
  void writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved, bool inPairs);
  /// The element of `op` at fragment index (i, r, j, c).
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c);
  /// Expands the region of a map over one axis for the thread's i-th element.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner);
  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested);
  /// The line at column (j, c), as one FMA whose addend is the same for all columns of the lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c);
  /// If `nested` divides the column's coordinate by a multiple of 8, and tiles begin at multiples of that divisor,
  /// returns the tile's origin: all lanes have the same quotient within a block of 8 columns. Otherwise returns null.
  Value originOfDivided(tile::MapOp op, Operation &nested);
  Value columnQuotient(arith::DivSIOp division, Value origin, Value j);
  /// Whether an element depends on its column: on a vector along the columns or on a shared tile, or on the column's
  /// coordinate in an op that is not a cut (isCut).
  bool readsColumns(tile::MapOp op);

  // ConditionWords.cpp
  /// Whether the element of a region argument can be read at a fragment index that is known only at run time.
  /// Coordinates can, and elements of shared tiles other than relative-position values. Of register tiles, only vectors
  /// along the rows or columns can.
  bool hasRunTimePlace(tile::MapOp op, BlockArgument argument);
  /// The element of a vector in registers for a column known only at run time, by a select for each column.
  Value columnAt(Value input, Range pairs, Value column);
  /// The conditions of `op` that are computed in a loop: conditions of many ops whose arguments all fulfil
  /// hasRunTimePlace.
  SmallVector<Operation *> largeConditions(tile::MapOp op);
  /// Computes the large conditions of `op` for all elements.
  void openWords(tile::MapOp op);
  /// The index of the word that has the bit of element (i, r, j, c), for a tile of the shape of `buffer`. bitInWord()
  /// is the bit's number in that word.
  SmallVector<Value> wordAt(Value buffer, Value i, Value r, Value j);
  Value bitInWord(Value buffer, Value j, Value c);
  void setBit(Value bit, Value words, Value buffer, Value i, Value r, Value j, Value c);
  Value testBit(Operation *condition, Value words, Value buffer, Value i, Value r, Value j, Value c);
  /// Marks the ops of a map's region whose results only conditions that are kept in words read.
  void markInWords(Block &body);

  // RowCuts.cpp
  /// Whether `compare` compares the column, counted from the tile's first column, with a number that is clamped between
  /// 0 and the tile's number of columns.
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare);
  /// The result of `compare` at column (j, c). If the row has a word of such results (openCuts), this is a bit of that
  /// word. Otherwise the lane's part of the column is subtracted from both sides, so that the column's side is a
  /// constant.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c);
  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns);
  /// Whether `user` is a cut: a comparison that splits each row of `op` at one column. The results of a cut are kept in
  /// one 32-bit word for the lane's columns of a row, so that tiles of more than 128 columns have no cuts.
  bool isCut(tile::MapOp op, Operation *user);
  /// Whether all users of the comparison are conditions that are computed as one word for all columns (columnsOf).
  bool isInWords(arith::CmpIOp compare);
  Value bitOfColumn(Value word, Location loc, Value j, Value c);
  /// Whether a value of the map's body is the same for all columns of a row.
  bool followsFromRow(tile::MapOp op, Value value);
  /// The values of row (i, r) for the region arguments of `op` that are the same along a row.
  IRMapping rowOf(tile::MapOp op, Value i, Value r);
  /// Evaluates the comparisons that are cuts (isCut) for row (i, r) of `op`. The result of each is a word with one bit
  /// for each column that the lane holds: whether the comparison is true there. A condition that combines several cuts
  /// gets a word as well.
  void openCuts(tile::MapOp op, Value i, Value r);
  SmallVector<Value> interleavedAt(Value i, Value r);
  void forEachInterleaved(function_ref<void(Value i, Value r)> body);
  void openPacing(tile::MapOp op, const InterleavedOperand &operand);
  /// Makes the elements of the next 16 columns depend on the first element of the 16 columns from 16 jj on (on the
  /// first element of each row, if the interleaved operand is per row).
  void interleave(Value buffer, Value jj);

  std::optional<Interleaving> interleaving;          ///< the values that order the elements of the current map
  llvm::DenseMap<Operation *, Value> columnsBelow;   ///< comparison of columns -> its bits for the current row
  llvm::DenseMap<Operation *, Value> columnsOf;      ///< condition on these comparisons -> its bits for the row
  llvm::DenseMap<Operation *, Value> conditionWords; ///< large condition -> words with a bit for each element
  llvm::DenseSet<Operation *> inWords;               ///< ops that only large conditions use
};

} // namespace attune::expansion
