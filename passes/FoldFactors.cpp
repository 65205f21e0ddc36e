//===- FoldFactors.cpp - Constant factors meet, divisions by constants become products ---===//
//
//     x / c         ->  x * (1 / c)
//     (x * a) * b   ->  x * (a * b)
//
// Each rounds once more or once less than the formula, 2^-24 relative; kernels with `precise` keep the formula. So the softmax scale
// and a softcap's divisor become one factor.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Constants.h"
#include "passes/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <cmath>

namespace attune {
#define GEN_PASS_DEF_FOLDFACTORS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// Neither zero, infinite nor so small or large that a product with another such factor could over- or underflow alone.
bool isModerate(float value) { return std::isnormal(value) && std::fabs(std::log2(std::fabs(value))) < 60; }

Value constant(PatternRewriter &rewriter, Location loc, float value) {
  return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(value));
}

struct DivisionByConstant : OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    std::optional<float> divisor = constantFloat(op.getRhs());
    if (!divisor || !isModerate(*divisor))
      return rewriter.notifyMatchFailure(op, "the divisor is no moderate constant");
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, op.getLhs(), constant(rewriter, op.getLoc(), 1.0f / *divisor));
    return success();
  }
};

struct ProductOfConstants : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    auto [inner, outerFactor] = factorOf(op);
    auto product = inner ? inner.getDefiningOp<arith::MulFOp>() : nullptr;
    if (!product)
      return rewriter.notifyMatchFailure(op, "no product with a constant inside");
    auto [value, innerFactor] = factorOf(product);
    if (!value || !isModerate(outerFactor) || !isModerate(innerFactor))
      return rewriter.notifyMatchFailure(op, "the factors are not two moderate constants");
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, value, constant(rewriter, op.getLoc(), outerFactor * innerFactor));
    return success();
  }

  static std::pair<Value, float> factorOf(arith::MulFOp op) {
    if (std::optional<float> factor = constantFloat(op.getRhs()))
      return {op.getLhs(), *factor};
    if (std::optional<float> factor = constantFloat(op.getLhs()))
      return {op.getRhs(), *factor};
    return {Value(), 0.0f};
  }
};

struct FoldFactors : attune::impl::FoldFactorsBase<FoldFactors> {
  using FoldFactorsBase::FoldFactorsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DivisionByConstant, ProductOfConstants>(&getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (!kernel.getPrecise() && !kernel.getDtype().isF32())
        if (failed(applyPatternsGreedily(kernel, frozen)))
          return signalPassFailure();
  }
};

} // namespace
