//===- FoldSoftmaxScale.cpp - One multiply-add an element for exp(scale * s - m) ----===//
//
// Two rewrites. A positive constant factor c at the end of the score leaves the tile and meets its consumers instead: max and
// selection commute with it, and
//
//     x = c * s;  m = max(x);  p = exp(x - m)        becomes        m' = max(s);  p = exp(c * s - c * m')
//
// Then exp becomes exp2 with log2(e) folded into the factor, as one multiply-add whose addend belongs to the row:
//
//     exp(c * a - c * b)  =  exp2(fma(a, c * log2(e), -(b * c * log2(e))))
//
// The rounding of the addend, 2^-24 of the logit, stays in p: 3e-4 at logits of 1e4. bf16 rounds P and O more coarsely. f16 does not,
// and keeps the difference, exact where p is large:  exp2((a - b) * (c * log2(e))).
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Constants.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"

namespace attune {
#define GEN_PASS_DEF_FOLDSOFTMAXSCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr float log2e = 1.44269504088896340736f;

/// The positive constant by which `map` multiplies its result last, and the factor's partner.
std::optional<std::pair<float, Value>> trailingFactor(tile::MapOp map) {
  Value result = map.getYield().getValues().front();
  auto [partner, factor] = splitFactor(result);
  if (!partner || !result.hasOneUse() || !(factor > 0) || !std::isfinite(factor))
    return std::nullopt;
  return std::pair(factor, partner);
}

/// Whether `map` only selects between `argument` and 0 or infinities, so that it commutes with a positive factor.
bool onlySelects(tile::MapOp map, Value argument) {
  auto invariant = [](Value value) {
    std::optional<float> constant = constantFloat(value);
    return constant && (*constant == 0 || std::isinf(*constant));
  };
  for (Operation *user : argument.getUsers()) {
    if (auto select = dyn_cast<arith::SelectOp>(user)) {
      Value other = select.getTrueValue() == argument ? select.getFalseValue() : select.getTrueValue();
      if (select.getResult() != map.getYield().getValues().front() || !invariant(other))
        return false;
    } else if (auto compare = dyn_cast<arith::CmpFOp>(user)) {
      if (!invariant(compare.getLhs() == argument ? compare.getRhs() : compare.getLhs()))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

/// The tiles that carry the factor once `map`'s multiplication is gone, and the maps that must apply it.
class FactorFlow {
public:
  bool follow(Value source) {
    scaled.insert(source);
    for (unsigned i = 0; i < scaled.size(); ++i)
      for (OpOperand &use : scaled[i].getUses())
        if (!visit(use))
          return false;
    return llvm::all_of(carriedInits, [](Value init) {
      auto splat = init.getDefiningOp<tile::SplatOp>();
      std::optional<float> constant = splat ? constantFloat(splat.getValue()) : std::nullopt;
      return constant && (*constant == 0 || std::isinf(*constant));
    }) && llvm::all_of(mustBeScaled, [&](Value value) { return scaled.contains(value); });
  }

  void apply(float factor) {
    for (OpOperand *use : consumers) {
      auto map = cast<tile::MapOp>(use->getOwner());
      BlockArgument argument = map.getElement(use->getOperandNumber());
      OpBuilder builder(map.getBody());
      Value constant = arith::ConstantOp::create(builder, map.getLoc(), builder.getF32FloatAttr(factor));
      auto product = arith::MulFOp::create(builder, map.getLoc(), argument, constant);
      argument.replaceAllUsesExcept(product, product);
    }
  }

private:
  bool visit(OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto map = dyn_cast<tile::MapOp>(user)) {
      if (use.getOperandNumber() >= map.getInputs().size())
        return false;
      if (onlySelects(map, map.getElement(use.getOperandNumber())))
        scaled.insert(map.getResult());
      else if (map.getOnlyIf())
        return false;
      else
        consumers.push_back(&use);
      return true;
    }
    if (auto reduce = dyn_cast<tile::ReduceOp>(user)) {
      if (reduce.getKind() != tile::Reduction::Max)
        return false;
      scaled.insert(reduce.getResult());
      if (reduce.getInit())
        mustBeScaled.push_back(reduce.getInit());
      mustBeScaled.push_back(reduce.getTile());
      return true;
    }
    auto yield = dyn_cast<tile::YieldOp>(user);
    auto loop = yield ? dyn_cast<tile::ForBlocksOp>(yield->getParentOp()) : nullptr;
    if (!loop)
      return false;
    scaled.insert(loop.getCarried()[use.getOperandNumber()]);
    scaled.insert(loop.getResult(use.getOperandNumber()));
    carriedInits.push_back(loop.getInits()[use.getOperandNumber()]);
    return true;
  }

  llvm::SetVector<Value> scaled;
  SmallVector<OpOperand *> consumers;
  SmallVector<Value> carriedInits, mustBeScaled;
};

void moveFactor(tile::MapOp map) {
  auto factor = trailingFactor(map);
  if (!factor || map.getOnlyIf())
    return;
  FactorFlow flow;
  if (!flow.follow(map.getResult()))
    return;
  map.getYield().getValuesMutable()[0].set(factor->second);
  flow.apply(factor->first);
}

void useExp2(math::ExpOp exp, bool exactDifference) {
  auto difference = exp.getOperand().getDefiningOp<arith::SubFOp>();
  if (!difference)
    return;
  OpBuilder builder(exp);
  Location loc = exp.getLoc();
  auto constant = [&](float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); };
  auto parts = [](Value value) {
    auto [partner, factor] = splitFactor(value);
    return std::pair(partner ? partner : value, factor);
  };
  auto [a, aFactor] = parts(difference.getLhs());
  auto [b, bFactor] = parts(difference.getRhs());
  Value exponent;
  if (exactDifference && aFactor == bFactor)
    exponent = arith::MulFOp::create(builder, loc, arith::SubFOp::create(builder, loc, a, b), constant(aFactor * log2e));
  else
    exponent = math::FmaOp::create(builder, loc, a, constant(aFactor * log2e),
                                   arith::MulFOp::create(builder, loc, b, constant(-bFactor * log2e)));
  exp.replaceAllUsesWith(Value(math::Exp2Op::create(builder, loc, exponent)));
  exp.erase();
  if (difference.use_empty())
    difference.erase();
}

struct FoldSoftmaxScale : attune::impl::FoldSoftmaxScaleBase<FoldSoftmaxScale> {
  using FoldSoftmaxScaleBase::FoldSoftmaxScaleBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      SmallVector<tile::ForBlocksOp> loops(kernel.getBody().getOps<tile::ForBlocksOp>());
      for (tile::ForBlocksOp loop : loops)
        for (auto map : llvm::make_early_inc_range(loop.getBody().getOps<tile::MapOp>())) {
          moveFactor(map);
          for (auto exp : llvm::make_early_inc_range(map.getBody().getOps<math::ExpOp>()))
            if (cast<tile::TileType>(map.getResult().getType()).rank() > 0 && isSoftmaxExponent(map))
              useExp2(exp, kernel.getDtype().isF16());
        }
    }
  }

  /// A map that is nothing but exp(a - b) of its inputs: the softmax's own, not one of the user's.
  static bool isSoftmaxExponent(tile::MapOp map) {
    return map.getInputs().size() == 2 && map.getYield().getValues().front().getDefiningOp<math::ExpOp>() &&
           map.getOrigins().empty();
  }
};

} // namespace
