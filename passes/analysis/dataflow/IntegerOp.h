//===- IntegerOp.h - Evaluates scalar integer ops ----------------------------===//
//
// A scalar integer op of a `sched.kernel`, decoded once and then evaluated many times by the analyses that execute the
// kernel's control flow (passes/analysis/synchronization):
//
//     std::optional<IntegerOp> add = IntegerOp::of(op);    // arith.addi : i32
//     add->apply({1, 2})                                   // 3
//
// Values are sign-extended to 64 bits; an i1 is 0 or 1.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace attune {

struct IntegerOp {
  enum class Kind : uint8_t {
    Add,
    Sub,
    Mul,
    DivS,
    RemS,
    DivU,
    RemU,
    FloorDivS,
    CeilDivS,
    CeilDivU,
    MinS,
    MaxS,
    MinU,
    MaxU,
    And,
    Or,
    Xor,
    ShL,
    ShRU,
    ShRS,
    Select,
    CountTrailingZeros,
    Same, ///< returns its operand: sched.uniform, sched.nonnegative, sched.opaque
    ExtS,
    ExtU,
    Wrap, ///< wraps to the result's width: truncations and casts to index
    Compare,
    TestBit
  };

  /// Decodes `op`. Nullopt if `op` is none of the kinds above or has other types than signless integers and index.
  static std::optional<IntegerOp> of(mlir::Operation *op);

  /// Evaluates the op for the given values of its operands. Nullopt for a division by zero.
  std::optional<int64_t> apply(llvm::ArrayRef<int64_t> operands) const;

private:
  int64_t wrap(uint64_t value) const;
  std::optional<int64_t> divide(int64_t a, int64_t b) const;

  Kind kind = Kind::Same;
  unsigned width = 32, operandWidth = 32;
  mlir::arith::CmpIPredicate predicate = mlir::arith::CmpIPredicate::eq;
};

} // namespace attune
