//===- RegionForms.h - Values of a mask region as linear forms of q and k -===//
//
// A form says what a value of the region is for the queries of one tile: a multiple of the key, or of a quotient of it,
// a multiple of the query and something between two integers of the block.
//
//     q - k / 4 + w                    k -1, kDivisor 4, q 1, lo = hi = w
//     k % 8                            k 0, q 0, lo 0, hi 7
//     ids[q]                           lo, hi: the least and the greatest that the tile's rows read
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/MaskAnalysis.h"
#include "passes/analysis/mask/BlockIntegers.h"

#include "mlir/IR/IRMapping.h"

namespace attune::mask {

/// A value of the region: k * floor(key / kDivisor) + q * query + something in [lo, hi]. `values` bounds the
/// value itself for every launch; it never wraps to get there.
struct Form {
  int64_t k = 0, kDivisor = 1, q = 0;
  Linear lo, hi;
  Range values;

  bool sameCoefficients(const Form &other) const { return k == other.k && kDivisor == other.kDivisor && q == other.q; }
  std::optional<int64_t> constant() const {
    if (k || q || !lo.isConstant() || !(lo == hi))
      return std::nullopt;
    return lo.constant;
  }
};

/// The forms of one mask's values for one tile of queries, and uniform values at block level.
class RegionForms : public BlockIntegers {
public:
  using Tables = llvm::SmallVectorImpl<tile::BoundsAttr>;

protected:
  /// The tile is given by SSA values. Loads of integers have bounds where `tables` collects those that they need; with
  /// `keyTile`, the index of a tile of keys, in both directions.
  RegionForms(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, Tables *tables, Value keyTile);
  /// The tile is given by numbers.
  RegionForms(attn::AttentionOp op, int64_t q0, int64_t qOffset, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK);

  /// In [0, Sk].
  Linear clampToKeys(const Linear &x) { return maximum(minimum(x, keyCount), constantOf(0)); }
  /// The end of the tile's rows, min(q0 + tileQ, Sq).
  const Linear &queryEnd();
  /// q of the tile's first and last row, as expressions see it.
  Linear firstQuery() { return add(queryBegin, queryOffset); }
  Linear lastQuery() { return addConstant(add(queryEnd(), queryOffset), -1); }

  /// A uniform value of the region, computed at block level exactly as written.
  Value atBlock(Value value) override;

  /// Whether the value depends on an argument of the region from `first` on: 2 for q or k, 3 for k.
  bool dependsOn(Value value, unsigned first);
  bool isUniform(Value value) { return !dependsOn(value, 2); }

  Form form(Value value);
  static Form exactly(const Linear &value, Range range);
  static Form anything(Range range);
  Form sum(Form x, Form y, Range range);
  Form signedForm(const Form &x, bool negative);
  /// Counts the key's part to the interval, for every key of the sequence or of the tile.
  void collapseKey(Form &x);
  /// The same for the queries of the tile.
  void collapseQuery(Form &x);
  Form collapsed(Form x);

  /// Whether a tile of keys has bounds of something that `value` loads, or is needed to compare something that is wide.
  bool loadsByTile(Value value);
  /// The least and the greatest that the tile's rows load; of bool, whether all and any are true.
  std::optional<std::pair<Value, Value>> loadedEnds(attn::LoadOp load);

  attn::AttentionOp op;
  BlockValues values;
  Tables *tables = nullptr;
  int64_t tileQ, tileK;
  std::optional<Linear> keyTileIndex;
  Linear queryBegin, queryCount, keyCount, queryOffset = constantOf(0);

private:
  Value parameter(StringRef name, Type type);
  Value tensorView(attn::CapturedTensorAttr tensor);
  Value scalarValue(StringRef name, Type type);
  Value extentValue(StringRef name);

  Form computeForm(Value value);
  Form argumentForm(mlir::BlockArgument argument);
  Form loadForm(attn::LoadOp load);
  Form extentForm(attn::ExtentOp extent);
  Form sumForm(mlir::Operation *definition);
  Form productForm(mlir::Operation *definition);
  Form quotientForm(mlir::Operation *definition);
  Form remainderForm(mlir::Operation *definition);
  Form extremeForm(mlir::Operation *definition);
  Form choiceForm(mlir::Operation *select);
  Form absoluteForm(mlir::Operation *definition);
  /// A value that the forms cannot follow: exact where it is uniform, else anything in `range`.
  Form opaque(Value value, Range range);
  Form opaque(Value value) { return opaque(value, rangeOf(value.getType())); }
  /// The range, if it lies within the value's type: then the operation does not wrap.
  static std::optional<Range> unwrapped(Value value, Wide a, Wide b);
  Form scaled(const Form &x, int64_t factor, Range range);
  /// One of two values, or between them.
  Form joined(Form x, Form y, Range range, llvm::function_ref<Linear(const Linear &, const Linear &)> low,
              llvm::function_ref<Linear(const Linear &, const Linear &)> high);

  /// The dimension along which q (argument 2) or k (3) goes, where the load is one of integers by it and uniform
  /// indices alone.
  struct Way {
    unsigned dim, argument;
  };
  std::optional<Way> wayOf(attn::LoadOp load);

  std::optional<Linear> queryEndValue;
  std::map<std::string, Value> parameters;
  mlir::IRMapping cloned;
  llvm::DenseMap<std::pair<Value, unsigned>, bool> dependence;
  llvm::DenseMap<Value, bool> loading; // loadsByTile
  llvm::DenseMap<Value, Form> forms;
};

} // namespace attune::mask
