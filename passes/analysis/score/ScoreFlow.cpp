//===- ScoreFlow.cpp - Propagates a scaling or shift of scores through a softmax -===//

#include "passes/analysis/score/ScoreFlow.h"

#include "passes/analysis/dataflow/Constants.h"

#include <cmath>

using namespace mlir;
using namespace attune;

bool ScoreFlow::comparesUnchanged(Operation *user, Value input) const {
  auto compare = dyn_cast<arith::CmpFOp>(user);
  std::optional<float> constant =
      compare ? constantFloat(compare.getLhs() == input ? compare.getRhs() : compare.getLhs()) : std::nullopt;
  return constant && unchanged(*constant);
}

bool ScoreFlow::onlySelects(tile::MapOp map, OpOperand &use) const {
  Value input = map.getElement(use.getOperandNumber());
  auto isConstant = [](Value value, auto &&accepts) {
    std::optional<float> constant = constantFloat(value);
    return constant && accepts(*constant);
  };
  return llvm::all_of(input.getUsers(), [&](Operation *user) {
    if (isa<arith::CmpFOp>(user))
      return comparesUnchanged(user, input);
    auto select = dyn_cast<arith::SelectOp>(user);
    return select && select.getResult() == map.getYield().getValues().front() &&
           isConstant(select.getTrueValue() == input ? select.getFalseValue() : select.getTrueValue(),
                      [](float value) { return value == 0 || std::isinf(value); });
  });
}

bool ScoreFlow::onlyCompares(tile::MapOp map, OpOperand &use) const {
  Value input = map.getElement(use.getOperandNumber());
  return llvm::all_of(input.getUsers(), [&](Operation *user) { return comparesUnchanged(user, input); });
}

bool ScoreFlow::follow(Value source, OnMap onMap) {
  changed.insert(source);
  for (unsigned i = 0; i < changed.size(); ++i)
    for (OpOperand &use : changed[i].getUses())
      if (!visit(use, onMap))
        return false;
  return llvm::all_of(required, [&](Value value) { return reaches(value); });
}

bool ScoreFlow::visit(OpOperand &use, OnMap onMap) {
  Operation *user = use.getOwner();
  if (auto map = dyn_cast<tile::MapOp>(user)) {
    // A map that only compares this input gives the same result after the scores are scaled or shifted.
    if (use.getOperandNumber() > 0 && use.getOperandNumber() < map.getInputs().size() && onlyCompares(map, use))
      return true;
    Step step = use.getOperandNumber() < map.getInputs().size() ? onMap(map, use) : Step::Refuses;
    if (step == Step::Carries)
      changed.insert(map.getResult());
    return step != Step::Refuses;
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(user)) {
    if (reduce.getKind() != tile::Reduction::Max)
      return false;
    require(reduce->getOperands());
    changed.insert(reduce.getResult());
    return true;
  }
  auto yield = dyn_cast<tile::YieldOp>(user);
  auto loop = yield ? dyn_cast<tile::ForBlocksOp>(yield->getParentOp()) : nullptr;
  auto start = loop ? loop.getInits()[use.getOperandNumber()].getDefiningOp<tile::SplatOp>() : nullptr;
  std::optional<float> constant = start ? constantFloat(start.getValue()) : std::nullopt;
  if (!constant || !unchanged(*constant))
    return false;
  changed.insert(loop.getCarried()[use.getOperandNumber()]);
  changed.insert(loop.getResult(use.getOperandNumber()));
  return true;
}
