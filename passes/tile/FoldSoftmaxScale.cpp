//===- FoldSoftmaxScale.cpp - Fold the score's scale and log2(e) into the exponent ---===//
//
// The pass has three rewrites. First, a positive constant factor c at the end of the score moves to the consumers of
// the score. max and selection commute with c, so
//
//     x = c * s;  m = max(x);  p = exp(x - m)        becomes        m' = max(s);  p = exp(c * s - c * m')
//
// Second, exp becomes exp2 with log2(e) folded into the factor, which multiplies the difference:
//
//     exp(c * a - c * b)  =  exp2((a - b) * (c * log2(e)))
//
// The difference of two floats that are close is exact, so the exponent is right for every finite a and b. If the
// factor multiplied a and b instead, as one multiply-add with the row's addend -(b * c * log2(e)), then the rounding of
// the addend, 2^-24 of the logit, would remain in p: for logits beyond 1e9 the row would be zero or infinite.
// tile-lazy-rescale and tile-fuse-exponents form that multiply-add for the rows where it is right.
//
// Third, an exponential of a score alone, as in sigmoid, gets one factor too. This third rewrite excludes float32
// kernels and kernels with `precise`, because the rewritten exponent is rounded once where the formula rounds twice.
//
//     exp(-(c * a))  =  exp2(a * (-c * log2(e)))
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Constants.h"
#include "passes/analysis/score/ScoreFlow.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

namespace attune {
#define GEN_PASS_DEF_FOLDSOFTMAXSCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr float log2e = 1.44269504088896340736f;

/// The positive constant factor of the map's result, and the value that the factor multiplies.
std::optional<std::pair<float, Value>> trailingFactor(tile::MapOp map) {
  Value result = map.getYield().getValues().front();
  auto [partner, factor] = splitFactor(result);
  if (!partner || !result.hasOneUse() || !(factor > 0) || !std::isfinite(factor))
    return std::nullopt;
  return std::pair(factor, partner);
}

void moveFactor(tile::MapOp map) {
  auto factor = trailingFactor(map);
  if (!factor || !map.isWhole())
    return;
  // A map that does more with the score than select between it and a constant gets a multiplication by the factor.
  SmallVector<OpOperand *> consumers;
  ScoreFlow flow([](float constant) { return constant == 0 || std::isinf(constant); });
  auto onMap = [&](tile::MapOp user, OpOperand &use) {
    if (flow.onlySelects(user, use))
      return ScoreFlow::Step::Carries;
    if (!user.isWhole())
      return ScoreFlow::Step::Refuses;
    consumers.push_back(&use);
    return ScoreFlow::Step::Ends;
  };
  if (!flow.follow(map.getResult(), onMap))
    return;
  map.getYield().getValuesMutable()[0].set(factor->second);
  for (OpOperand *use : consumers) {
    auto user = cast<tile::MapOp>(use->getOwner());
    BlockArgument argument = user.getElement(use->getOperandNumber());
    OpBuilder builder(user.getBody());
    Value constant = arith::ConstantOp::create(builder, user.getLoc(), builder.getF32FloatAttr(factor->first));
    auto product = arith::MulFOp::create(builder, user.getLoc(), argument, constant);
    argument.replaceAllUsesExcept(product, product);
  }
}

void useExp2(math::ExpOp exp) {
  auto difference = exp.getOperand().getDefiningOp<arith::SubFOp>();
  if (!difference)
    return;
  OpBuilder builder(exp);
  Location loc = exp.getLoc();
  auto parts = [](Value value) {
    auto [partner, factor] = splitFactor(value);
    return std::pair(partner ? partner : value, factor);
  };
  auto [a, aFactor] = parts(difference.getLhs());
  auto [b, bFactor] = parts(difference.getRhs());
  Value minuend = difference;
  float factor = 1;
  if (aFactor == bFactor) {
    minuend = arith::SubFOp::create(builder, loc, a, b);
    factor = aFactor;
  }
  tile::explain(exp->getParentOfType<tile::MapOp>(),
                factor == 1 ? "exp as exp2: log2(e) multiplies the difference"
                            : "exp as exp2: the score's factor times log2(e) multiplies the difference");
  Value log2OfE = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(factor * log2e));
  exp.replaceAllUsesWith(
      Value(math::Exp2Op::create(builder, loc, arith::MulFOp::create(builder, loc, minuend, log2OfE))));
  exp.erase();
  if (difference.use_empty())
    difference.erase();
}

/// Rewrites exp(element * constant), where factors and negations may be nested, to exp2 with one factor.
void useExp2OfElement(tile::MapOp map, math::ExpOp exp) {
  Value value = exp.getOperand();
  float factor = log2e;
  while (!isa<BlockArgument>(value)) {
    auto negated = value.getDefiningOp<arith::NegFOp>();
    auto [partner, by] = negated ? std::pair(negated.getOperand(), -1.0f) : splitFactor(value);
    if (!partner)
      return;
    value = partner;
    factor *= by;
  }
  if (!llvm::is_contained(map.getBody().getArguments(), value) || !std::isnormal(factor))
    return;
  OpBuilder builder(exp);
  Location loc = exp.getLoc();
  tile::explain(map, "exp as exp2: the score's factor times log2(e) multiplies the score");
  Value constant = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(factor));
  exp.replaceAllUsesWith(
      Value(math::Exp2Op::create(builder, loc, arith::MulFOp::create(builder, loc, value, constant))));
  Value operand = exp.getOperand();
  exp.erase();
  while (Operation *op = operand.getDefiningOp()) {
    if (!isOpTriviallyDead(op) || op->getBlock() != &map.getBody().front())
      break;
    operand = op->getOperand(0);
    op->erase();
  }
}

struct FoldSoftmaxScale : attune::impl::FoldSoftmaxScaleBase<FoldSoftmaxScale> {
  using FoldSoftmaxScaleBase::FoldSoftmaxScaleBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      SmallVector<tile::ForBlocksOp> loops;
      kernel.walk([&](tile::ForBlocksOp loop) { loops.push_back(loop); });
      for (tile::ForBlocksOp loop : loops)
        for (auto map : llvm::make_early_inc_range(loop.getBody().getOps<tile::MapOp>())) {
          moveFactor(map);
          const bool isExact = kernel.getPrecise() || kernel.getDtype().isF32();
          for (auto exp : llvm::make_early_inc_range(map.getBody().getOps<math::ExpOp>()))
            if (cast<tile::TileType>(map.getResult().getType()).rank() > 0 && isSoftmaxExponent(map))
              useExp2(exp);
            else if (!isExact && map.getInputs().size() == 1 && map.getOrigins().empty())
              useExp2OfElement(map, exp);
        }
    }
  }

  /// Whether the map yields an exponential, has two inputs and reads no coordinate, as softmax's exp(a - b) does.
  static bool isSoftmaxExponent(tile::MapOp map) {
    return map.getInputs().size() == 2 && map.getYield().getValues().front().getDefiningOp<math::ExpOp>() &&
           map.getOrigins().empty();
  }
};

} // namespace
