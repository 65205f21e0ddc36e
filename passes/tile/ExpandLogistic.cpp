//===- ExpandLogistic.cpp - Compute the logistic function with one special function ---===//
//
// 1 / (1 + 2^y), the p of sigmoid attention (y = -x log2(e)), takes two special functions, exp2 and a reciprocal. A
// multiprocessor computes 16 special functions a cycle, which makes them the bottleneck while warpgroup-level products
// run; multiply-adds are not. So the reciprocal is computed without the special-function unit. Its seed comes from the
// bits of a float: the bits, read as an integer, scaled and shifted, are the logarithm to base 2 within 0.09 (Blinn
// 1997, "Floating-point tricks"). An integer subtraction thus approximates the reciprocal. One step of Newton's method
// follows:
//
//     a = 16 (1 + 2^y)      g = float(0x7ff32000 - bits(a)), about 4 / a      p = g (4 c - a g) = (16 / a) z (c - z)
//
// with z = a g / 4 from 0.949 to 1.051. z (2 - z) is at most 1. c = 2.0013 in place of 2 halves the relative error to
// 2^-9.6, for small and large values alike; rounding to bf16 then adds up to 2^-8. The factors 16 and 4 keep the bits
// of a below the constant however large a is. Where a is infinite, the product is not positive, and the maximum with 0
// makes p the exact 0. NaN stays NaN (subnormals must not be flushed: zero times infinity is NaN). The maximum takes no
// instruction where p is rounded next, because tile-fold-rectifiers folds it into the conversion.
//
// The pass applies to bf16 kernels without `precise`, and only where the value is a factor of a number that is rounded
// to bf16 next: in a sum the value may cancel with other terms and leave its error, and the exponential of softmax
// turns an absolute error of the score into a relative error of p.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/score/LogisticFunction.h"

namespace attune {
#define GEN_PASS_DEF_EXPANDLOGISTIC
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

void expand(arith::DivFOp division, math::ExpOp byE, math::Exp2Op byTwo) {
  OpBuilder builder(division);
  Location loc = division.getLoc();
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  };
  auto cast = [&](Type type, Value value) -> Value { return arith::BitcastOp::create(builder, loc, type, value); };
  const Type word = builder.getI32Type(), real = builder.getF32Type();
  // If y is a product, the product and the addend 4 of 16 * 2^y = 2^(y + 4) become one multiply-add.
  Value y = byTwo ? byTwo.getOperand() : byE.getOperand(), factor = byTwo ? Value() : constant(1.44269504f);
  if (auto product = y.getDefiningOp<arith::MulFOp>(); product && !factor) {
    y = product.getLhs();
    factor = product.getRhs();
  }
  Value exponent = factor ? math::FmaOp::create(builder, loc, y, factor, constant(4)).getResult()
                          : arith::AddFOp::create(builder, loc, y, constant(4)).getResult();
  Value a = arith::AddFOp::create(builder, loc, math::Exp2Op::create(builder, loc, exponent), constant(16));
  Value seed =
      cast(real, arith::SubIOp::create(builder, loc, arith::ConstantIntOp::create(builder, loc, word, 0x7ff32000),
                                       cast(word, a)));
  Value rest = math::FmaOp::create(builder, loc, arith::NegFOp::create(builder, loc, a), seed, constant(4 * 2.0013f));
  Value p = arith::MulFOp::create(builder, loc, seed, rest);
  division.replaceAllUsesWith(arith::MaximumFOp::create(builder, loc, p, constant(0)).getResult());
  Operation *sum = division.getRhs().getDefiningOp(), *exponential = byTwo ? byTwo.getOperation() : byE;
  for (Operation *op : {division.getOperation(), sum, exponential})
    if (op->use_empty())
      op->erase();
}

bool isRounded(Value tile);

/// Whether every value that the map computes from `element` is a product with `element` as a factor, and is rounded to
/// bf16 next.
bool isFactor(Value element) {
  return llvm::all_of(element.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<tile::YieldOp>(user)) {
      auto map = dyn_cast<tile::MapOp>(user->getParentOp());
      return map && isRounded(map.getResult());
    }
    // Comparisons with 0 and infinities are allowed: a relative error changes neither signs nor infinities.
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

/// Whether the elements of a tile, or products with them, are rounded to bf16 before any other arithmetic reads them.
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
      if (!sched::hasAsyncProducts(kernel) || !kernel.getDtype().isBF16() || kernel.getPrecise())
        continue;
      SmallVector<arith::DivFOp> found;
      kernel.walk([&](arith::DivFOp division) {
        if (exponentialOfLogistic(division) && division->getParentOfType<tile::MapOp>() && isFactor(division))
          found.push_back(division);
      });
      for (arith::DivFOp division : found) {
        Operation *exponential = exponentialOfLogistic(division);
        tile::explain(
            division->getParentOfType<tile::MapOp>(),
            "1 / (1 + exp(y)) by the bits of a float and a step of Newton's method, which take no reciprocal");
        expand(division, dyn_cast<math::ExpOp>(exponential), dyn_cast<math::Exp2Op>(exponential));
      }
    }
  }
};

} // namespace
