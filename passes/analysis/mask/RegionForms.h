//===- RegionForms.h - Values of a mask region as linear forms of q and k -===//
//
// A form describes a value of the region for one tile of the fixed axis. The form is a sum of a multiple of the looped
// position (or of a quotient of that position), a multiple of the fixed position, and a rest that lies between two
// integers that are uniform over the thread block. Examples with queries fixed and a loop over keys:
//
//     q - k / 4 + w                    looped -1, divisor 4, fixed 1, lo = hi = w
//     k % 8                            looped 0, fixed 0, lo 0, hi 7
//     ids[q]                           lo, hi: the minimum and the maximum over the tile's rows
//
// A position is a value of the region's argument q or k: the index in the sequence, for q plus the query offset.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/dataflow/FloatRanges.h"
#include "passes/analysis/mask/BlockIntegers.h"
#include "passes/analysis/mask/MaskAnalysis.h"

#include "mlir/IR/IRMapping.h"

#include <array>

namespace attune::mask {

/// A value of the region as looped * trunc(l / divisor) + fixed * f + r with r in [lo, hi], for the positions l and f
/// along the looped and the fixed axis. `values` bounds the value for every launch; no operation that computes the
/// value wraps.
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

/// Axis q or k of the score: positions [offset, offset + count), in tiles of `tile` positions.
struct Axis {
  unsigned argument; ///< index of the mask region's argument: 2 for q, 3 for k
  int64_t tile;
  Linear count, offset = constantOf(0);

  StringRef name() const { return argument == 2 ? "q" : "k"; }
};

/// Computes the Form of each value of a mask: the value as a linear function of q and k, or its bounds, for one tile of
/// the axis over which the kernel does not loop (the fixed axis). Values that do not depend on q and k are emitted into
/// the kernel's body, outside of maps ("at block level").
class RegionForms : public BlockIntegers {
protected:
  /// The fixed tile is given by SSA values. If `tables` is not null, a value that forms cannot express gets bounds from
  /// a per-tile table, which is added to `tables`. A value that depends on the looped axis gets bounds only if `tile`,
  /// the index of a looped tile, is given too.
  RegionForms(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables, Value tile);
  /// Numeric evaluation: the fixed tile is given by numbers. `tile` is the index of a looped tile, or nullopt.
  RegionForms(attn::AttentionOp op, MaskAxis fixed, int64_t first, const MaskSizes &sizes, std::optional<int64_t> tile);

  const Axis &axisOf(unsigned argument) const { return argument == fixedAxis.argument ? fixedAxis : loopedAxis; }
  /// Clamps an index of the looped axis to [0, count].
  Linear clampToLooped(const Linear &x) { return maximum(minimum(x, loopedAxis.count), constantOf(0)); }
  /// The end of the fixed tile, min(first + tile, count).
  const Linear &fixedEnd();
  /// The positions of the fixed tile's first and last row.
  Linear firstFixed() { return add(fixedBegin, fixedAxis.offset); }
  Linear lastFixed() { return addConstant(add(fixedEnd(), fixedAxis.offset), -1); }

  /// Emits a value of the region that does not depend on q and k into the kernel's body, by the same operations as in
  /// the region.
  Value atBlock(Value value) override;

  /// Whether the value depends on the position along the axis.
  bool dependsOn(Value value, const Axis &axis) { return argumentsOf(value) >> axis.argument & 1; }
  bool dependsOnOneAxis(Value value) { return dependsOn(value, fixedAxis) != dependsOn(value, loopedAxis); }
  bool isUniform(Value value) { return !dependsOn(value, fixedAxis) && !dependsOn(value, loopedAxis); }
  /// Whether the value depends on the head, in a kernel whose loop over tiles is repeated for each head of a GQA group,
  /// so that the thread block has no single head.
  bool differsByIteration(Value value) { return values.firstHead && !values.h && (argumentsOf(value) >> 1 & 1); }

  /// What is known about a condition: `always` if it holds for every element of the tile, `never` if for no element.
  struct Choice {
    Condition always, never;
  };
  virtual Choice choiceOf(Value condition) = 0;

  Form form(Value value);
  /// The ranges of the region's floats in every launch. A comparison that these ranges decide needs no per-tile table.
  FloatRanges floats{[this](Value integer) {
    // Only an argument of the region (b, h, q or k) gets the range of its form, a linear function of q and k. form() of
    // another integer may give that integer a per-tile table of bounds, which each launch has to fill, even if the
    // comparison of floats is then decided without the table.
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(integer);
    const Range values = argument ? argumentForm(argument).values : rangeOf(integer.getType());
    return dsl::Range{values.lo, values.hi};
  }};
  static Form exactly(const Linear &value, Range range);
  static Form anything(Range range);
  Form sum(Form x, Form y, Range range);
  Form signedForm(const Form &x, bool negative);
  /// Replaces the term of `x` that is a multiple of the looped position by the term's range over the looped tile, which
  /// is added to [lo, hi]. If no looped tile is given, the range is over the whole sequence.
  void collapseLooped(Form &x);
  /// Replaces the term of `x` that is a multiple of the fixed position by the term's range over the fixed tile.
  void collapseFixed(Form &x);
  Form collapsed(Form x);

  /// The minimum and the maximum over the tile of a non-uniform value, as values read from memory: from a per-tile
  /// table, or from elements of the tensor if the value depends on both axes.
  std::optional<std::pair<Value, Value>> endsInMemory(Value value) {
    if (dependsOnOneAxis(value))
      return tabledEnds(value);
    return isa_and_nonnull<attn::LoadOp>(value.getDefiningOp()) ? partEnds(value) : std::nullopt;
  }
  /// Reads the minimum and the maximum of the value over the tile from a per-tile table (for i1: whether all and
  /// whether any are true). For a value that depends on the looped axis, a looped tile must be given. nullopt if the
  /// value has no table and there are mostTables tables already.
  std::optional<std::pair<Value, Value>> tabledEnds(Value value);
  /// The minimum and the maximum (for i1: whether all and whether any are true) over a tile of both axes of a value that
  /// uses q and k only through quotients: an element blocks[q / 128, k / 128], or a condition on q / 64 ^ k / 64. The
  /// value is constant in each of a few parts of the tile, and is computed once for each part. nullopt if the parts or
  /// the operations are too many.
  std::optional<std::pair<Value, Value>> partEnds(Value value);
  /// Whether partEnds() of an i1 value without loaded elements is not nullopt.
  bool isConditionOfParts(Value value);
  /// Whether `value`, or a value that it is computed from, depends on `axis` and has bounds that were read from memory
  /// (from a per-tile table or from elements of a tensor) so far.
  bool readsMemory(Value value, const Axis &axis);
  /// The maximum number of per-tile tables, not counting tables over both axes. Every launch fills all tables, and
  /// every tile or thread block reads an entry of each table.
  static constexpr size_t mostTables = 32;
  bool lacksTables = false; ///< some value got no per-tile table, because there are mostTables tables already

  attn::AttentionOp op;
  BlockValues values;
  BoundsTables *tables = nullptr;
  Axis fixedAxis, loopedAxis;
  Linear fixedBegin; ///< index of the fixed tile's first row, without the query offset
  std::optional<Linear> loopedTile;

private:
  Value parameter(StringRef name, Type type);
  Value tensorView(attn::CapturedTensorAttr tensor);
  Value scalarValue(StringRef name, Type type);
  Value extentValue(StringRef name);

  /// The first value of the region that computes the same expression as `value`, and the name of the per-tile table for
  /// that expression. The name is that of the loaded tensor or of the operation; a number distinguishes values of the
  /// same name and axes (ids, ids2).
  std::pair<Value, std::string> canonical(Value value);
  /// For all values of the region, finds in one pass by hashes the first value with the same expression (`canonicals`).
  void findCanonical();

  /// The region's arguments that the value depends on, as a bit mask.
  unsigned argumentsOf(Value value);

  /// If the value uses q and k only through quotients by constants: the greatest common divisor of the constants that
  /// divide q, and the same for k. nullopt if the value uses q or k otherwise, or takes more than `most` operations.
  std::optional<std::pair<int64_t, int64_t>> quotientSteps(Value value, size_t most);
  /// A position in each part of the tile, along q and along k, for partEnds().
  struct Parts {
    SmallVector<Linear> ofQ, ofK;
  };
  std::optional<Parts> partsOf(Value value);

  Form computeForm(Value value);
  Form argumentForm(mlir::BlockArgument argument);
  /// If `value` is the number of queries or keys of the thread block's sequence, such as min(max(lengths[b], 0), Sk):
  /// the axis that the number limits, 2 for q, 3 for k. nullopt for any other value.
  std::optional<unsigned> axisOfLength(Value value);
  Form extentForm(attn::ExtentOp extent);
  Form sumForm(mlir::Operation *definition);
  Form productForm(mlir::Operation *definition);
  Form quotientForm(mlir::Operation *definition);
  Form remainderForm(mlir::Operation *definition);
  Form extremeForm(mlir::Operation *definition);
  Form choiceForm(mlir::Operation *select);
  Form absoluteForm(mlir::Operation *definition);
  /// The form of a value that is not linear in the positions q and k: exact if the value is uniform, with bounds read
  /// from memory (endsInMemory) if possible, else with the bounds `range`.
  Form opaque(Value value, Range range);
  Form opaque(Value value) { return opaque(value, rangeOf(value.getType())); }
  /// The range between a and b (in either order) if this range fits the type of `value`, so that the operation that
  /// computes `value` cannot wrap; else nullopt.
  static std::optional<Range> unwrapped(Value value, Wide a, Wide b);
  Form scaled(const Form &x, int64_t factor, Range range);
  /// The form of a value that lies between x and y or equals one of them. `low` combines the lower ends of x and y, and
  /// `high` the upper ends.
  Form joined(Form x, Form y, Range range, llvm::function_ref<Linear(const Linear &, const Linear &)> low,
              llvm::function_ref<Linear(const Linear &, const Linear &)> high);

  std::optional<Linear> fixedEndValue;
  std::map<std::string, Value> parameters;
  mlir::IRMapping cloned;
  llvm::DenseMap<Value, unsigned> dependence; // cache of argumentsOf()
  llvm::DenseSet<Value> asked;                // values whose bounds tabledEnds() or partEnds() read from memory
  llvm::DenseMap<Value, std::pair<Value, std::string>> canonicals;
  // Cache of readsMemory(): for each axis the values for which the result was false. A result is valid while `asked`,
  // the set of values with bounds in memory, has the size that is stored with the result.
  std::array<llvm::DenseMap<Value, size_t>, 2> withoutMemory;
  llvm::DenseMap<Value, Form> forms;
};

} // namespace attune::mask
