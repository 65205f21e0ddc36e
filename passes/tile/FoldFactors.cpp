//===- FoldFactors.cpp - Merge constant factors of the score; divide by constants through multiplication ---===//
//
//     x / c         ->  x * (1 / c)
//     (x * a) * b   ->  x * (a * b)
//     x * a + u * n ->  (x + (u * (1 / a)) * n) * a      n an integer, u the same for all elements, a > 0
//     x * a + t     ->  (x + t * (1 / a)) * a            t a bias that producer warps copy, a >= 1 or t of f16
//
// Each rewrite rounds once more or once less than the formula, 2^-24 relative; float32 kernels and kernels with
// `precise` keep the formula. The softmax scale and a softcap's divisor become one factor. Where a relative-position
// bias (ALiBi's or a table's) is added, the scale moves to the end of the score, where the exponent absorbs it.
//
// Finite values stay finite: t is not divided by a factor below 1 (ScaleQueries raises the factor to at least 1), and u
// / a is bounded by 2^96, so that its products with integers are finite.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Constants.h"
#include "passes/analysis/dataflow/FloatRanges.h"
#include "passes/analysis/score/Distances.h"

#include "mlir/Dialect/Math/IR/Math.h"
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

/// Whether `value` is a normal number of moderate size, so that a product with one more such factor neither overflows
/// nor underflows.
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
    auto [inner, outerFactor] = splitFactor(op);
    auto product = inner ? inner.getDefiningOp<arith::MulFOp>() : nullptr;
    if (!product)
      return rewriter.notifyMatchFailure(op, "no product with a constant inside");
    auto [value, innerFactor] = splitFactor(product);
    if (!value || !isModerate(outerFactor) || !isModerate(innerFactor))
      return rewriter.notifyMatchFailure(op, "the factors are not two moderate constants");
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, value, constant(rewriter, op.getLoc(), outerFactor * innerFactor));
    return success();
  }
};

/// Whether `term` divided by a moderate `factor` is finite for every finite `term`.
bool staysFinite(Value term, float factor) {
  auto load = term.getDefiningOp<tile::ElementOp>();
  return factor >= 1 || (load && load.getView().getType().getElementType().isF16());
}

/// Returns the value to divide so that the bias `term` is divided by `factor` at no cost per element: the factor u of u
/// * integer, which is computed once per block, or the bias itself where producer warps copy it to shared memory. Null
/// where `term` has no such value.
Value divisibleFactor(Value term, arith::AddFOp sum, float factor) {
  if (auto bias = term.getDefiningOp<arith::MulFOp>())
    for (auto [u, n] : {std::pair(bias.getLhs(), bias.getRhs()), std::pair(bias.getRhs(), bias.getLhs())})
      if (n.getDefiningOp<arith::SIToFPOp>() && isBlockValue(u, sum->getBlock()))
        return u;
  return staysFinite(term, factor) && isStaged(term, dyn_cast<tile::MapOp>(sum->getParentOp())) ? term : Value();
}

/// Clamps `slope`, the quotient of `numerator` and a factor, to +-2^96, so that the division makes no finite numerator
/// infinite. Where `numerator` is infinite, `slope` is kept. No clamp is emitted where interval analysis bounds `slope`
/// by 2^96, for example where `numerator` is a tanh.
Value bounded(PatternRewriter &rewriter, Location loc, Value slope, Value numerator) {
  const dsl::FloatRange range = FloatRanges().of(slope);
  if (range.low >= -0x1p96 && range.high <= 0x1p96)
    return slope;
  auto isAbove = [&](Value value, float limit) -> Value {
    return arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, math::AbsFOp::create(rewriter, loc, value),
                                 constant(rewriter, loc, limit));
  };
  Value isInfinite = isAbove(numerator, std::numeric_limits<float>::max());
  Value limited = math::CopySignOp::create(rewriter, loc, constant(rewriter, loc, 0x1p96f), slope);
  limited = arith::SelectOp::create(rewriter, loc, isInfinite, slope, limited);
  return arith::SelectOp::create(rewriter, loc, isAbove(slope, 0x1p96f), limited, slope);
}

struct FactorOfSum : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    for (auto [scaled, term] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto product = scaled.getDefiningOp<arith::MulFOp>();
      auto [value, factor] = product && product->hasOneUse() ? splitFactor(product) : std::pair<Value, float>();
      Value divisible = value && factor > 0 && isModerate(factor) ? divisibleFactor(term, op, factor) : Value();
      if (!divisible)
        continue;
      Value inverse = constant(rewriter, loc, 1.0f / factor), bias;
      if (divisible == term) {
        bias = arith::MulFOp::create(rewriter, loc, term, inverse);
      } else {
        auto ofInteger = term.getDefiningOp<arith::MulFOp>();
        Value divided = bounded(rewriter, loc, arith::MulFOp::create(rewriter, loc, divisible, inverse), divisible);
        bias = arith::MulFOp::create(rewriter, loc, divided,
                                     ofInteger.getLhs() == divisible ? ofInteger.getRhs() : ofInteger.getLhs());
      }
      if (auto map = op->getParentOfType<tile::MapOp>())
        tile::explain(map, "the bias is divided by the score's factor, which multiplies the sum");
      Value sum = arith::AddFOp::create(rewriter, loc, value, bias);
      rewriter.replaceOpWithNewOp<arith::MulFOp>(op, sum, constant(rewriter, loc, factor));
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no sum of a scaled value and a bias that is divided for free");
  }
};

struct FoldFactors : attune::impl::FoldFactorsBase<FoldFactors> {
  using FoldFactorsBase::FoldFactorsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DivisionByConstant, ProductOfConstants, FactorOfSum>(&getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (!kernel.getPrecise() && !kernel.getDtype().isF32())
        if (failed(applyPatternsGreedily(kernel, frozen)))
          return signalPassFailure();
  }
};

} // namespace
