//===- IntegerRanges.h - Ranges of the i32 values of a kernel ----------------===//
//
// Computes a range of every i32 value of a `sched.kernel` that holds in all launches. The ranges follow from the limits
// of a launch (extents of axes, threads of a block), loop bounds, loop-carried values and messages between roles.
//
// The analysis visits all ops of the kernel again and again until no range changes (a fixpoint iteration with
// widening). Where a range grows, its growing end moves to the next constant of the kernel or to a number adjacent to
// the constant, because loops compare values such as ring stages with constants. After a few such steps this end is set
// to the limit of i32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/dataflow/FloatRanges.h"
#include "passes/analysis/mask/BlockIntegers.h"

#include "llvm/ADT/StringSet.h"

namespace attune {

class IntegerRanges {
public:
  explicit IntegerRanges(sched::KernelOp kernel);

  /// The range of an i32 value, as a signed number, in every launch.
  mask::Range of(mlir::Value value) const;

  /// The range of the exact result of an i32 addition, subtraction or multiplication, before it wraps around.
  mask::Range exact(mlir::Operation *op) const;

private:
  /// Extends the ranges of the results and body arguments of `op` by the values that follow from the ranges known so
  /// far.
  void visit(mlir::Operation *op);
  void visitLoop(mlir::Operation *op);
  void visitCounter(sched::ForTilesOp loop);
  void visitWork(sched::ForWorkOp loop);
  /// Joins the range of `value` with that of `from`, if the range of `from` is known.
  void join(mlir::Value value, mlir::Value from);
  void join(mlir::Value value, mask::Range range);
  bool isKnown(mlir::Value value) const { return ranges.contains(value); }
  /// The range of the result of `op`, whose i32 operands must have ranges. Nullopt while the result depends on a float
  /// that is computed from an integer without a range.
  std::optional<mask::Range> compute(mlir::Operation *op) const;
  std::optional<mask::Range> truncated(mlir::arith::FPToSIOp op) const;
  mask::Range quotient(mlir::Operation *op) const;
  std::optional<mask::Range> selected(mlir::arith::SelectOp op) const;

  FloatRanges floats(bool &missing) const;

  struct Known {
    mask::Range range;
    int growths = 0;
  };

  llvm::StringSet<> tiledAxes;           ///< axes whose extent a launch limits to mask::maxExtent
  llvm::SmallVector<int64_t> thresholds; ///< ascending: constants of the kernel, and their neighbours
  llvm::DenseMap<mlir::Value, llvm::SmallVector<sched::SendOp>> sends; ///< by the shared tile of the message
  llvm::DenseMap<mlir::Value, Known> ranges;
  bool changed = false;
};

} // namespace attune
