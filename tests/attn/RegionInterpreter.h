//===- RegionInterpreter.h - Values of arith ops, one element at a time -------===//
//
// Evaluates the ops of a region for given values of its arguments, as their definitions say, and fails the
// test where a result would be undefined: division by zero, a shift beyond the width, fptosi out of range.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <deque>
#include <functional>

namespace attune::testing {

/// An integer (i1 as 0 or 1) or a float.
struct Scalar {
  int64_t integer = 0;
  float real = 0;

  static Scalar of(int64_t value) { return {value, 0}; }
  static Scalar of(float value) { return {0, value}; }
};

class RegionInterpreter {
public:
  /// Gives the value of an op that is neither arith nor math: loads, scalars, extents, parameters.
  using Leaf = std::function<Scalar(mlir::Operation *, llvm::ArrayRef<Scalar> operands)>;

  /// Fails the test where an addition, subtraction or multiplication wraps, if `mayWrap` is false.
  explicit RegionInterpreter(Leaf leaf, bool mayWrap = true) : leaf(std::move(leaf)), mayWrap(mayWrap) {}

  RegionInterpreter(RegionInterpreter &&) = default; // steps point to slots, so that a copy would write the original's

  void set(mlir::Value value, Scalar scalar) { *slotOf(value) = scalar; }
  Scalar get(mlir::Value value) const { return *slots.at(value); }
  /// Evaluates the ops of `block` up to its terminator and gives the terminator's first operand, if any.
  Scalar run(mlir::Block &block);
  /// Evaluates one op, whose operands have values.
  void run(mlir::Operation &op);

private:
  using Rule = std::function<Scalar(llvm::ArrayRef<Scalar> operands)>;
  /// What an op computes, and where its operands and its result are. An op is decoded when it is first run.
  struct Step {
    Rule rule;
    llvm::SmallVector<const Scalar *, 3> operands;
    Scalar *result = nullptr; ///< null for an op without a result
  };

  Step decode(mlir::Operation &op);
  Rule ruleOf(mlir::Operation &op);
  Scalar *slotOf(mlir::Value value);

  Leaf leaf;
  bool mayWrap;
  std::deque<Scalar> scalars; ///< of all values; their addresses stay
  llvm::DenseMap<mlir::Value, Scalar *> slots;
  llvm::DenseMap<mlir::Operation *, Step> steps;
};

} // namespace attune::testing
