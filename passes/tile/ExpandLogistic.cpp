//===- ExpandLogistic.cpp - One special function for the logistic function ---===//
//
// 1 / (1 + 2^y), as sigmoid's p is computed (y = -x log2(e)), takes two special functions, of which a multiprocessor
// computes 16 a cycle. Beside warpgroups' products these are what it lacks; multiply-adds it has left. With
// t = 2^-|y|, between 0 and 1:
//
//     1 / (1 + 2^y) = y > 0 ? t r(t) : r(t)         r(t) = 1 / (1 + t)
//
// r is the polynomial of the third degree whose relative error is least. That error is (1 + t) r(t) - 1, 0 for t = -1 if
// r were 1 / (1 + t), and so a multiple of the Chebyshev polynomial T4 (2 t - 1), by 1 / T4(-3) = 1 / 577 = 2^-9.2:
//
//     r(t) = (1 - T4(2 t - 1) / 577) / (1 + t) = (576 - 544 t + 384 t^2 - 128 t^3) / 577
//
// With the rounding to bf16 that is less than 2^-8, of what is small as of what is large; p is 0 where y is infinite. The
// choice is a multiplication under a predicate. For bf16 without `precise`, and only where the value is a factor of what
// is rounded to bf16 next: a sum may cancel, and softmax's exponential makes an error of the score one of p.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/LogisticFunction.h"

namespace attune {
#define GEN_PASS_DEF_EXPANDLOGISTIC
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// 1 / (1 + t) for t from 0 to 1, by powers of t from the first.
constexpr float reciprocal[] = {576.0f / 577, -544.0f / 577, 384.0f / 577, -128.0f / 577};

void expand(arith::DivFOp division, math::ExpOp byE, math::Exp2Op byTwo) {
  OpBuilder builder(division);
  Location loc = division.getLoc();
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  };
  Value y = byTwo ? byTwo.getOperand()
                  : arith::MulFOp::create(builder, loc, byE.getOperand(), constant(1.44269504f)).getResult();
  Value t =
      math::Exp2Op::create(builder, loc, arith::NegFOp::create(builder, loc, math::AbsFOp::create(builder, loc, y)));
  Value r = constant(reciprocal[3]);
  for (int power = 2; power >= 0; --power)
    r = math::FmaOp::create(builder, loc, r, t, constant(reciprocal[power]));
  Value isSmall = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, y, constant(0));
  Value small = arith::MulFOp::create(builder, loc, t, r);
  division.replaceAllUsesWith(arith::SelectOp::create(builder, loc, isSmall, small, r).getResult());
  Operation *sum = division.getRhs().getDefiningOp(), *exponential = byTwo ? byTwo.getOperation() : byE;
  for (Operation *op : {division.getOperation(), sum, exponential})
    if (op->use_empty())
      op->erase();
}

bool isRounded(Value tile);

/// Whether an element is a factor of all that follows from it in its map, and that is rounded.
bool isFactor(Value element) {
  return llvm::all_of(element.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<tile::YieldOp>(user)) {
      auto map = dyn_cast<tile::MapOp>(user->getParentOp());
      return map && isRounded(map.getResult());
    }
    // A relative error keeps signs and infinities.
    if (auto compare = dyn_cast<arith::CmpFOp>(user)) {
      Value with = compare->getOperand(1 - use.getOperandNumber());
      return matchPattern(with, m_AnyZeroFloat()) || matchPattern(with, m_NegInfFloat()) ||
             matchPattern(with, m_PosInfFloat());
    }
    const bool factors =
        isa<arith::MulFOp, arith::NegFOp>(user) || (isa<arith::SelectOp>(user) && use.getOperandNumber() > 0);
    return factors && isFactor(user->getResult(0));
  });
}

/// Whether a tile's elements are rounded to 16 bits, times other factors or not, before anything else reads them.
bool isRounded(Value tile) {
  return llvm::all_of(tile.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto convert = dyn_cast<tile::ConvertOp>(user))
      return convert.getResult().getType().getElementType().isBF16();
    if (auto map = dyn_cast<tile::MapOp>(user))
      return isFactor(map.getElement(use.getOperandNumber()));
    return isa<tile::DropoutOp>(user) && isRounded(user->getResult(0));
  });
}

struct ExpandLogistic : attune::impl::ExpandLogisticBase<ExpandLogistic> {
  using ExpandLogisticBase::ExpandLogisticBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::fillingWarps(kernel) || !kernel.getDtype().isBF16() || kernel.getPrecise())
        continue;
      SmallVector<arith::DivFOp> found;
      kernel.walk([&](arith::DivFOp division) {
        if (exponentialOfLogistic(division) && division->getParentOfType<tile::MapOp>() && isFactor(division))
          found.push_back(division);
      });
      for (arith::DivFOp division : found) {
        Operation *exponential = exponentialOfLogistic(division);
        tile::explain(division->getParentOfType<tile::MapOp>(),
                      "1 / (1 + exp(y)) as a polynomial of exp(-|y|), which takes no reciprocal");
        expand(division, dyn_cast<math::ExpOp>(exponential), dyn_cast<math::Exp2Op>(exponential));
      }
    }
  }
};

} // namespace
