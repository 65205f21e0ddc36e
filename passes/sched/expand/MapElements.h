//===- MapElements.h - The region of a map, for each element of a lane ------===//
//
//     MapElements.cpp       loops over elements, and the region for one element
//     ConditionWords.cpp    large conditions, in a loop
//     RowCuts.cpp           comparisons of columns with a bound of the row; interleaved maps
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/MapInputs.h"

namespace attune::expansion {

/// A term slope * (origin + column) of a map's element, where `slope` is the same for all elements of the map.
struct Line {
  Value slope, origin;
};

/// The operand by which the elements of an interleaved map are ordered (InterleaveFunctions.cpp), in registers: a value
/// for each row, or one value for all rows in the entry of the first row.
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
  /// Computes the elements of `op`. With `inPairs`, elements marked `sched.pairs` are loaded in pairs, else one by one.
  void writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved, bool inPairs);
  /// The element of `op` at fragment index (i, r, j, c).
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c);
  /// Expands the region of a map over one axis for the thread's i-th element.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner);
  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested);
  /// The line at column (j, c), as one FMA whose addend is the same for all columns of the lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c);
  /// Returns the tile's origin if `nested` divides the column's coordinate by a multiple of 8 and tiles begin at
  /// multiples of the divisor; else null. All lanes then have the same quotient within a block of 8 columns.
  Value originOfDivided(tile::MapOp op, Operation &nested);
  Value columnQuotient(arith::DivSIOp division, Value origin, Value j);
  /// Whether an element depends on its column's coordinate other than through cuts (isCut), or on a vector along the
  /// columns.
  bool readsColumns(tile::MapOp op);

  // ConditionWords.cpp
  /// Whether the element of a region argument can be read at a fragment index that is known only at run time. Tiles in
  /// registers cannot, other than vectors of rows and columns.
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
  /// Marks the ops of a map's region that only conditions kept in words use.
  void markInWords(Block &body);

  // RowCuts.cpp
  /// Whether `compare` compares the column, counted from the tile's first, with a number of columns of the tile: one
  /// that is clamped to [0, size of the tile].
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare);
  /// The comparison at column (j, c). The lane's part of the column is moved to the row's side once for all columns, so
  /// that the column's side is a constant, or the comparison is a bit of the row's word.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c);
  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns);
  /// Whether `user` is a cut: a comparison that splits each row of `op` at one column. A tile with more columns than
  /// the bits of a word can hold for a lane has no cuts.
  bool isCut(tile::MapOp op, Operation *user);
  /// Whether all users of the comparison are conditions that are computed as one word for all columns (columnsOf).
  bool isInWords(arith::CmpIOp compare);
  Value bitOfColumn(Value word, Location loc, Value j, Value c);
  /// Whether a value of the map's body is the same for all columns.
  bool followsFromRow(tile::MapOp op, Value value);
  /// The values of row (i, r) for the region arguments of `op` that are the same along a row.
  IRMapping rowOf(tile::MapOp op, Value i, Value r);
  /// Computes a word for each cut of `op` in row (i, r), with one bit for each column of the lane, and words of the
  /// conditions that combine several cuts.
  void openCuts(tile::MapOp op, Value i, Value r);
  SmallVector<Value> interleavedAt(Value i, Value r);
  void forEachInterleaved(function_ref<void(Value i, Value r)> body);
  void openPacing(tile::MapOp op, const InterleavedOperand &operand);
  /// Makes the elements of the next 16 columns depend on the first element of the 16 columns from 16 jj on (on the
  /// first element of each row, if the interleaved operand is per row).
  void interleave(Value buffer, Value jj);

  std::optional<Interleaving> interleaving;          ///< the values that order the elements of the current map
  llvm::DenseMap<Operation *, Value> columnsBelow;   ///< comparison of columns -> its bits for the current row
  llvm::DenseMap<Operation *, Value> columnsOf;      ///< condition on such comparisons -> its bits for that row
  llvm::DenseMap<Operation *, Value> conditionWords; ///< large condition -> words with a bit for each element
  llvm::DenseSet<Operation *> inWords;               ///< ops that only large conditions use
};

} // namespace attune::expansion
