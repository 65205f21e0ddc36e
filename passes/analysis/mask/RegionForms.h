//===- RegionForms.h - Values of a mask region as linear forms of q and k -===//
//
// A form says what a value of the region is for one tile of the fixed axis: a multiple of the position along the looped
// axis, or of a quotient of it, a multiple of that along the fixed axis and something between two integers of the
// block. With queries fixed, a loop over keys:
//
//     q - k / 4 + w                    looped -1, divisor 4, fixed 1, lo = hi = w
//     k % 8                            looped 0, fixed 0, lo 0, hi 7
//     ids[q]                           lo, hi: the least and the greatest that the tile's rows read
//
// Positions are what the region has for q and k: an index of the sequence, that of a query plus the query offset.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/MaskAnalysis.h"
#include "passes/analysis/mask/BlockIntegers.h"

#include "mlir/IR/IRMapping.h"

#include <array>

namespace attune::mask {

/// A value of the region: looped * trunc(l / divisor) + fixed * f + something in [lo, hi], for the positions l and f
/// along the axes. `values` bounds the value itself for every launch; it never wraps to get there.
struct Form {
  int64_t looped = 0, divisor = 1, fixed = 0;
  Linear lo, hi;
  Range values;

  bool sameCoefficients(const Form &other) const {
    return looped == other.looped && divisor == other.divisor && fixed == other.fixed;
  }
  std::optional<int64_t> constant() const {
    if (looped || fixed || !lo.isConstant() || !(lo == hi))
      return std::nullopt;
    return lo.constant;
  }
};

/// One of the axes of a score: positions [offset, offset + count) in tiles.
struct Axis {
  unsigned argument; ///< of the region: 2 for q, 3 for k
  int64_t tile;
  Linear count, offset = constantOf(0);

  StringRef name() const { return argument == 2 ? "q" : "k"; }
};

/// The forms of one mask's values for one tile of the fixed axis, and uniform values at block level.
class RegionForms : public BlockIntegers {
protected:
  /// The tile is given by SSA values. What has no form has bounds where `tables` collects those that it needs; with
  /// `tile`, the index of a tile of the looped axis, in both directions.
  RegionForms(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables, Value tile);
  /// The tile is given by numbers; with `tile`, the one of the looped axis too.
  RegionForms(attn::AttentionOp op, MaskAxis fixed, int64_t first, const MaskSizes &sizes, std::optional<int64_t> tile);

  const Axis &axisOf(unsigned argument) const { return argument == fixedAxis.argument ? fixedAxis : loopedAxis; }
  /// An index of the looped axis, in [0, count].
  Linear clampToLooped(const Linear &x) { return maximum(minimum(x, loopedAxis.count), constantOf(0)); }
  /// The end of the fixed tile, min(first + tile, count).
  const Linear &fixedEnd();
  /// The positions of the fixed tile's first and last row.
  Linear firstFixed() { return add(fixedBegin, fixedAxis.offset); }
  Linear lastFixed() { return addConstant(add(fixedEnd(), fixedAxis.offset), -1); }

  /// A uniform value of the region, computed at block level exactly as written.
  Value atBlock(Value value) override;

  /// Whether the value depends on the position along the axis.
  bool dependsOn(Value value, const Axis &axis) { return argumentsOf(value) >> axis.argument & 1; }
  bool dependsOnOneAxis(Value value) { return dependsOn(value, fixedAxis) != dependsOn(value, loopedAxis); }
  bool isUniform(Value value) { return !dependsOn(value, fixedAxis) && !dependsOn(value, loopedAxis); }
  /// Whether the value depends on the head, where that is one of the rounds of the domain and not known.
  bool differsByIteration(Value value) { return values.firstHead && !values.h && (argumentsOf(value) >> 1 & 1); }

  /// What is known of a condition in the tile: whether it holds everywhere, and whether nowhere.
  struct Choice {
    Condition always, never;
  };
  virtual Choice choiceOf(Value condition) = 0;

  Form form(Value value);
  static Form exactly(const Linear &value, Range range);
  static Form anything(Range range);
  Form sum(Form x, Form y, Range range);
  Form signedForm(const Form &x, bool negative);
  /// Counts the part of the looped axis to the interval, for all positions of the sequence or of the tile.
  void collapseLooped(Form &x);
  /// The same for the fixed tile.
  void collapseFixed(Form &x);
  Form collapsed(Form x);

  /// The least and the greatest of a value that is not uniform in the tile, from memory: by a table, or of both axes by
  /// elements.
  std::optional<std::pair<Value, Value>> endsInMemory(Value value) {
    return dependsOnOneAxis(value) ? tabledEnds(value) : partEnds(value);
  }
  /// The least and the greatest of the value in the tile, by a table; of bool, whether all and any are true. Of what
  /// depends on the looped axis where there is a tile of it. Nothing where as many values of one axis as the analysis
  /// takes have tables already.
  std::optional<std::pair<Value, Value>> tabledEnds(Value value);
  /// The least and the greatest in a tile of both axes of an element that depends on quotients of q and k alone, which are
  /// constant in a few parts of the tile: the element of each is read. Nothing where the parts are too many.
  std::optional<std::pair<Value, Value>> partEnds(Value value);
  /// Whether what is known of the value so far is by a table, or an element of the tile, that depends on the axis.
  bool readsMemory(Value value, const Axis &axis);
  /// Tables of one axis, each made by every launch and read for every tile, or every block.
  static constexpr size_t mostTables = 32;
  bool lacksTables = false; ///< tabledEnds left out some for that

  attn::AttentionOp op;
  BlockValues values;
  BoundsTables *tables = nullptr;
  Axis fixedAxis, loopedAxis;
  Linear fixedBegin; ///< an index, without the offset
  std::optional<Linear> loopedTile;

private:
  Value parameter(StringRef name, Type type);
  Value tensorView(attn::CapturedTensorAttr tensor);
  Value scalarValue(StringRef name, Type type);
  Value extentValue(StringRef name);

  /// The first value of the region that is computed as this one is, called by the tensor that it loads or by its
  /// operation, with a number from the second such value of the same axes on.
  std::pair<Value, std::string> canonical(Value value);
  /// The same of all values, in one pass: those that are computed alike have one hash.
  void findCanonical();

  /// A bit for each argument of the region that the value depends on.
  unsigned argumentsOf(Value value);

  /// The greatest number of which q and k are only seen as quotients by multiples, for each of both; nothing where a
  /// position itself is seen, or more than a few operations lie between.
  std::optional<std::pair<int64_t, int64_t>> quotientSteps(Value value);

  Form computeForm(Value value);
  Form argumentForm(mlir::BlockArgument argument);
  /// The axis, 2 or 3, of which the value is a sequence's own length: what the block takes as the axis's count.
  std::optional<unsigned> axisOfLength(Value value);
  Form extentForm(attn::ExtentOp extent);
  Form sumForm(mlir::Operation *definition);
  Form productForm(mlir::Operation *definition);
  Form quotientForm(mlir::Operation *definition);
  Form remainderForm(mlir::Operation *definition);
  Form extremeForm(mlir::Operation *definition);
  Form choiceForm(mlir::Operation *select);
  Form absoluteForm(mlir::Operation *definition);
  /// A value that the forms cannot follow: exact where it is uniform, by a table where it depends on one axis, else
  /// anything in `range`.
  Form opaque(Value value, Range range);
  Form opaque(Value value) { return opaque(value, rangeOf(value.getType())); }
  /// The range, if it lies within the value's type: then the operation does not wrap.
  static std::optional<Range> unwrapped(Value value, Wide a, Wide b);
  Form scaled(const Form &x, int64_t factor, Range range);
  /// One of two values, or between them.
  Form joined(Form x, Form y, Range range, llvm::function_ref<Linear(const Linear &, const Linear &)> low,
              llvm::function_ref<Linear(const Linear &, const Linear &)> high);

  std::optional<Linear> fixedEndValue;
  std::map<std::string, Value> parameters;
  mlir::IRMapping cloned;
  llvm::DenseMap<Value, unsigned> dependence; // argumentsOf
  llvm::DenseSet<Value> asked;                // by tabledEnds and partEnds
  llvm::DenseMap<Value, std::pair<Value, std::string>> canonicals;
  std::array<llvm::DenseMap<Value, size_t>, 2> withoutMemory; // readsMemory, by axis: the size of `asked` by then
  llvm::DenseMap<Value, Form> forms;
};

} // namespace attune::mask
