//===- BackwardProgram.cpp - The properties of a backward pass that decide the form of its kernels ---===//

#include "passes/attn/backward/BackwardProgram.h"

#include "passes/attn/CommonValues.h"
#include "passes/attn/NormaliserLaw.h"

#include "mlir/IR/Matchers.h"

namespace attune::backward {

bool BackwardProgram::hasSink() { return !dividesBySum(op); }

SmallVector<GradientSum> BackwardProgram::sumsOf(std::initializer_list<Region *> regions, bool ofKeys) {
  SmallVector<GradientSum> sums;
  for (const CapturedGradient &gradient : captured)
    for (const GradientSum &sum : gradient.sums)
      if (sum.ofKeys == ofKeys && llvm::is_contained(regions, sum.add->getParentRegion()))
        sums.push_back(sum);
  return sums;
}

bool BackwardProgram::addsByRow() {
  return !sumsOfElements(/*ofKeys=*/false).empty() ||
         llvm::any_of(captured, [](const CapturedGradient &gradient) { return !gradient.scattered.empty(); });
}

bool BackwardProgram::isWeighted() {
  Region &region = op.getPGrad();
  auto product = TileWriter::yieldOf(region).getDefiningOp<arith::MulFOp>();
  if (!product)
    return false;
  const Value g = region.getArguments().back();
  Value other = product.getLhs() == g ? product.getRhs() : product.getRhs() == g ? product.getLhs() : Value();
  return other && other != g && valuesInCommon(region, op.getP()).lookup(other) == TileWriter::yieldOf(op.getP());
}

static bool isFiniteConstant(Value value) {
  llvm::APFloat number(0.0f);
  return matchPattern(value, m_ConstantFloat(&number)) && number.isFinite();
}

bool BackwardProgram::hidesKeys() {
  auto isNumber = [](Operation &each) {
    if (isa<arith::ConstantOp>(each) && isa<FloatType>(each.getResult(0).getType()))
      return isFiniteConstant(each.getResult(0));
    return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::SIToFPOp, attn::YieldOp>(each) ||
           llvm::all_of(each.getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
  };
  return !op.getScore().empty() && !llvm::all_of(op.getScore().front(), isNumber);
}

bool BackwardProgram::isMultiple(Value value) {
  if (value == op.getScoreGrad().getArguments().back())
    return true;
  auto isFinite = [](Value factor) {
    return isa_and_present<arith::SIToFPOp>(factor.getDefiningOp()) || isFiniteConstant(factor);
  };
  if (auto negation = value.getDefiningOp<arith::NegFOp>())
    return isMultiple(negation.getOperand());
  if (auto product = value.getDefiningOp<arith::MulFOp>())
    return (isMultiple(product.getLhs()) && isFinite(product.getRhs())) ||
           (isMultiple(product.getRhs()) && isFinite(product.getLhs()));
  return false;
}

} // namespace attune::backward
