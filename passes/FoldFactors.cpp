//===- FoldFactors.cpp - Constant factors meet, divisions by constants become products ---===//
//
//     x / c         ->  x * (1 / c)
//     (x * a) * b   ->  x * (a * b)
//     x * a + u * n ->  (x + (u * (1 / a)) * n) * a      n an integer, u the same for all elements, a > 0
//     x * a + t     ->  (x + t * (1 / a)) * a            t a bias that copy warps stage, a > 0
//
// Each rounds once more or once less than the formula, 2^-24 relative; kernels with `precise` keep the formula. So the softmax scale
// and a softcap's divisor become one factor, and a bias by distance, as ALiBi's or a table's, leaves the scale at the end of the score, where
// the exponent absorbs it. A finite t stays finite: of a magnitude above 3.4e38 * a, it counts as 3.4e38 * a. u / a is held below 2^96, so that its
// products with integers are finite.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Constants.h"
#include "passes/Distances.h"
#include "passes/Passes.h"

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

/// Whether `value` is the same for every element of the map whose body is `block`.
bool isBlockValue(Value value, Block *block) {
  Operation *op = value.getDefiningOp();
  if (value.getParentBlock() != block)
    return true;
  return op && llvm::all_of(op->getOperands(), [&](Value operand) { return isBlockValue(operand, block); });
}

/// Whether copy warps bring `term` of the map's region to shared memory: by distance, or as a window.
bool isStaged(Value term, tile::MapOp map) {
  if (!map || !map.getCoordinate("q") || !map.getCoordinate("k"))
    return false;
  tile::PlanAttr plan = map->getParentOfType<tile::KernelOp>().getPlan();
  if (!plan.getCopyWarps())
    return false;
  if (auto load = term.getDefiningOp<tile::ElementOp>(); load && plan.getStageBiases())
    return isDenseBias(map, load, [&](Value index) { return isBlockValue(index, &map.getBody().front()); });
  DistanceValues values(map.getBody().front(), map.getCoordinate("q"), map.getCoordinate("k"), [](BlockArgument) { return false; });
  return llvm::is_contained(values.roots(), term);
}

/// A bias that can be divided at no cost to its elements: the factor that the block computes of `factor * integer`, or a value that copy warps
/// compute. The factor is what to divide, null where there is none.
Value divisibleFactor(Value term, arith::AddFOp sum) {
  if (auto bias = term.getDefiningOp<arith::MulFOp>())
    for (auto [u, n] : {std::pair(bias.getLhs(), bias.getRhs()), std::pair(bias.getRhs(), bias.getLhs())})
      if (n.getDefiningOp<arith::SIToFPOp>() && isBlockValue(u, sum->getBlock()))
        return u;
  return isStaged(term, dyn_cast<tile::MapOp>(sum->getParentOp())) ? term : Value();
}

/// `slope`, or 2^96 of its sign where it is beyond and `finite` is not infinite.
Value bounded(PatternRewriter &rewriter, Location loc, Value slope, Value finite) {
  auto isAbove = [&](Value value, float limit) -> Value {
    return arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, math::AbsFOp::create(rewriter, loc, value), constant(rewriter, loc, limit));
  };
  Value isInfinite = isAbove(finite, std::numeric_limits<float>::max());
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
      Value divisible = value && factor > 0 && isModerate(factor) ? divisibleFactor(term, op) : Value();
      if (!divisible)
        continue;
      Value inverse = constant(rewriter, loc, 1.0f / factor), bias;
      if (divisible == term) {
        bias = tile::MulFiniteOp::create(rewriter, loc, rewriter.getF32Type(), term, inverse);
      } else {
        auto ofInteger = term.getDefiningOp<arith::MulFOp>();
        Value divided = bounded(rewriter, loc, arith::MulFOp::create(rewriter, loc, divisible, inverse), divisible);
        bias = arith::MulFOp::create(rewriter, loc, divided, ofInteger.getLhs() == divisible ? ofInteger.getRhs() : ofInteger.getLhs());
      }
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
