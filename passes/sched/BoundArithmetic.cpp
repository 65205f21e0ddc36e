//===- BoundArithmetic.cpp - Mark integer arithmetic that cannot overflow ----===//
//
// An i32 op whose exact result fits 32 bits in every launch is marked `nsw` (IntegerRanges.h computes the ranges):
//
//     %k0 = arith.muli %tile, %c64     tile in [0, 2^24)      overflow<nsw>: below 2^30
//     %y  = arith.addi %x, %seed       seed is any integer    stays as it is: the sum may wrap around
//
// The CUDA printer prints marked ops as signed `+`, `-` and `*`, and all others as calls of wrapping functions.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/IntegerRanges.h"

namespace attune {
#define GEN_PASS_DEF_BOUNDARITHMETIC
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct BoundArithmetic : attune::impl::BoundArithmeticBase<BoundArithmetic> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<sched::KernelOp>()) {
      const IntegerRanges ranges(kernel);
      kernel.walk([&](arith::ArithIntegerOverflowFlagsInterface op) {
        if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) || !op->getResult(0).getType().isInteger(32) ||
            op.hasNoSignedWrap() || !ranges.exact(op).within(mask::int32Range))
          return;
        op->setAttr(op.getIntegerOverflowAttrName(),
                    arith::IntegerOverflowFlagsAttr::get(&getContext(), arith::IntegerOverflowFlags::nsw));
      });
    }
  }
};

} // namespace
