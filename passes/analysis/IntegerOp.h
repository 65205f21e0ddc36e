//===- IntegerOp.h - Scalar integer ops as numbers ---------------------------===//
//
// What a scalar integer op of sched computes, decoded once and applied to many values by what executes a kernel's
// control:
//
//     std::optional<IntegerOp> add = IntegerOp::of(op);    // arith.addi : i32
//     add->apply({1, 2})                                   // 3
//
// Values are sign-extended to 64 bits, i1 is 0 or 1.
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
    Same, ///< uniform, natural, opaque
    ExtS,
    ExtU,
    Wrap, ///< truncations and casts to index
    Compare,
    TestBit
  };

  /// What `op` computes, or nothing where it is no such op of signless integers.
  static std::optional<IntegerOp> of(mlir::Operation *op);

  /// Nothing for a division by zero. As many operands as the op has.
  std::optional<int64_t> apply(llvm::ArrayRef<int64_t> operands) const;

private:
  int64_t wrap(uint64_t value) const;
  std::optional<int64_t> divide(int64_t a, int64_t b) const;

  Kind kind = Kind::Same;
  unsigned width = 32, operandWidth = 32;
  mlir::arith::CmpIPredicate predicate = mlir::arith::CmpIPredicate::eq;
};

} // namespace attune
