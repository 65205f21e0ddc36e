//===- Visibility.cpp - Visible and full tiles of a mask, for one fixed tile ===//

#include "passes/analysis/mask/Visibility.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

Bounds Visibility::bounds(std::optional<ArrayRef<Conjunct>> deciding) {
  Bounds result = everything<Bounds>();
  if (op.getMask().empty())
    return result;
  if (!deciding)
    return visit<Bounds>(cast<attn::YieldOp>(op.getMask().front().back()).getValue(), false);
  for (const Conjunct &conjunct : conjuncts()) {
    Bounds bounds = visit<Bounds>(conjunct.first, conjunct.second);
    if (!llvm::is_contained(*deciding, conjunct) || llvm::is_contained(byTile, conjunct))
      bounds.full = {Interval::all()};
    result = conjunction(result, bounds);
  }
  return result;
}

/// Appends the conjuncts of the i1 `value`, negated if `negate`, to `to`. Each conjunct is appended once.
static void appendConjuncts(Value value, bool negate, SmallVectorImpl<Conjunct> &to,
                            llvm::DenseSet<std::pair<Value, unsigned>> &met) {
  if (!met.insert({value, negate}).second)
    return;
  Operation *definition = value.getDefiningOp();
  if (definition && (negate ? isa<arith::OrIOp>(definition) : isa<arith::AndIOp>(definition)))
    for (Value operand : definition->getOperands())
      appendConjuncts(operand, negate, to, met);
  else if (auto flip = dyn_cast_or_null<arith::XOrIOp>(definition); flip && matchPattern(flip.getRhs(), m_One()))
    appendConjuncts(flip.getLhs(), !negate, to, met);
  else
    to.push_back({value, negate});
}

SmallVector<Conjunct> Visibility::conjuncts() {
  SmallVector<Conjunct> result;
  llvm::DenseSet<std::pair<Value, unsigned>> met;
  if (!op.getMask().empty())
    appendConjuncts(cast<attn::YieldOp>(op.getMask().front().back()).getValue(), false, result, met);
  return result;
}

std::optional<Linear> Visibility::endForAll() {
  std::optional<Linear> end;
  for (const Conjunct &conjunct : conjuncts()) {
    if (!dependsOn(conjunct.first, loopedAxis) || dependsOn(conjunct.first, fixedAxis) || dependsOnIteration(conjunct))
      continue;
    const Intervals hull = hullOfConjunct(conjunct);
    if (hull.empty() || llvm::any_of(hull, [](const Interval &interval) { return !interval.hi; }))
      continue;
    Linear last = highEnd(hull.front());
    for (const Interval &interval : llvm::drop_begin(hull))
      last = maximum(last, highEnd(interval));
    end = end ? minimum(*end, last) : last;
  }
  return end;
}

Verdict Visibility::verdictOf(ArrayRef<Conjunct> conjuncts) {
  Verdict result = everything<Verdict>();
  for (auto [value, negate] : conjuncts)
    result = conjunction(result, visit<Verdict>(value, negate));
  return result;
}

bool Visibility::isPossible(ArrayRef<Conjunct> conjuncts) {
  return llvm::all_of(conjuncts, [&](const Conjunct &conjunct) {
    return visit<Verdict>(conjunct.first, conjunct.second).possible.known.value_or(true);
  });
}

bool Visibility::skipsByTile(const Conjunct &conjunct) {
  const Condition possible = visit<Verdict>(conjunct.first, conjunct.second).possible;
  // A conjunct whose loaded values depend on the fixed axis alone (k < ends[q]) limits the loop over tiles already: by
  // the least and greatest of these values in the fixed tile, from a per-tile table. A test of each tile would skip no
  // more tiles, unless solving the conjunct for the looped index gave no limit, or more intervals than a union keeps.
  const Intervals hull = visit<Bounds>(conjunct.first, conjunct.second).hull;
  const bool boundsLoop = readsMemory(conjunct.first, fixedAxis) && !readsMemory(conjunct.first, loopedAxis) &&
                          hull.size() < mostIntervals &&
                          llvm::none_of(hull, [](const Interval &x) { return x.isAll(); });
  return !boundsLoop && !matchPattern(toI1(possible), m_One());
}

bool Visibility::decidesByTile(const Conjunct &conjunct) {
  const Verdict verdict = visit<Verdict>(conjunct.first, conjunct.second);
  return !matchPattern(toI1(verdict.possible), m_One()) || !matchPattern(toI1(verdict.certain), m_Zero());
}

bool Visibility::testsTiles(const Conjunct &conjunct) {
  visit<Verdict>(conjunct.first, conjunct.second);
  return readsMemory(conjunct.first, loopedAxis);
}

bool Visibility::holdsUnfollowed(Value value) {
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *definition = next.getDefiningOp();
    if (!definition || !met.insert(next).second || dependsOnOneAxis(next) || isUniform(next))
      continue;
    const bool ofBools = llvm::all_of(definition->getOperandTypes(), [](Type type) { return type.isInteger(1); });
    if (ofBools) {
      llvm::append_range(pending, definition->getOperands());
      continue;
    }
    const Verdict verdict = visit<Verdict>(next, false);
    if (matchPattern(toI1(verdict.possible), m_One()) && matchPattern(toI1(verdict.certain), m_Zero()))
      return true;
  }
  return false;
}

Visibility::Unfollowed Visibility::unfollowed(const Conjunct &conjunct) {
  if (!holdsUnfollowed(conjunct.first))
    return Unfollowed::Nothing;
  const Hides hides = hidesTiles(conjunct);
  if (hides != Hides::Some)
    return hides == Hides::None ? Unfollowed::HidesNone : Unfollowed::Untried;
  return holdsButForFew(conjunct) ? Unfollowed::HidesFew : Unfollowed::HidesSome;
}

RegionForms::Choice Visibility::choiceOf(Value condition) {
  if (!loopedTile && dependsOn(condition, loopedAxis))
    return {{false, {}}, {false, {}}};
  const Verdict verdict = visit<Verdict>(condition, false);
  return {verdict.certain, opposite(verdict.possible)};
}

template <typename Set> Set Visibility::visit(Value value, bool negate) {
  std::pair<Value, unsigned> key(value, negate);
  if (auto known = knownSets<Set>().find(key); known != knownSets<Set>().end())
    return known->second;
  Set result = computeSet<Set>(value, negate);
  return knownSets<Set>()[key] = result;
}

template <typename Set> Set Visibility::computeSet(Value value, bool negate) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return where<Set>({constant.isZero() == negate, {}});
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return unknown<Set>();
  // If the loop over tiles is repeated for each head of a GQA group, a condition that depends on the head is tested for
  // each head. The intervals hold for all heads together, so they are computed only from conditions that do not depend
  // on the head.
  const bool dependsOnIteration = differsByIteration(value);
  if (dependsOnIteration && !isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::SelectOp>(definition))
    return unknown<Set>();
  bool uniform = isUniform(value) && !dependsOnIteration;
  if (builder && uniform)
    return setOfUniform<Set>(value, negate);
  auto operand = [&](unsigned i) { return definition->getOperand(i); };
  if constexpr (std::is_same_v<Set, Verdict>)
    if (llvm::is_contained(byPart, value))
      if (auto ends = partEnds(value))
        return setOfEnds<Set>(*ends, negate);
  if (llvm::is_contained(byCount, value))
    if (auto ends = tabledEnds(value))
      return setOfEnds<Set>(*ends, negate);
  if (isa<arith::AndIOp, arith::OrIOp>(definition)) {
    Set x = visit<Set>(operand(0), negate), y = visit<Set>(operand(1), negate);
    return isa<arith::AndIOp>(definition) != negate ? conjunction(x, y) : disjunction(x, y);
  }
  if (isa<arith::XOrIOp>(definition))
    return different<Set>(operand(0), operand(1), negate);
  if (isa<arith::SelectOp>(definition))
    return disjunction(conjunction(visit<Set>(operand(0), false), visit<Set>(operand(1), negate)),
                       conjunction(visit<Set>(operand(0), true), visit<Set>(operand(2), negate)));
  if (auto compare = dyn_cast<arith::CmpIOp>(definition)) {
    if (compare.getLhs().getType().isInteger(1))
      return compareFlags<Set>(compare, negate, uniform);
    if (std::optional<Set> known = compareIntegers<Set>(compare, negate))
      return *known;
  }
  if (auto compare = dyn_cast<arith::CmpFOp>(definition); compare && !comparesByTable(compare))
    return compareFloats<Set>(compare, negate);
  if (!uniform)
    if (auto ends = endsInMemory(value))
      return setOfEnds<Set>(*ends, negate);
  // A condition that is uniform over the tile reaches this line only if the analysis evaluates with numbers and does
  // not know the condition's value (a run-time scalar, for example). The condition then counts as true.
  return uniform ? everything<Set>() : unknown<Set>();
}

template <typename Set> Set Visibility::setOfUniform(Value value, bool negate) {
  Condition condition{{}, atBlock(value)};
  if constexpr (std::is_same_v<Set, Verdict>) {
    return where<Set>(negate ? opposite(condition) : condition);
  } else {
    Interval interval = {std::nullopt,
                         negate ? select(condition, constantOf(0), loopedAxis.count)
                                : select(condition, loopedAxis.count, constantOf(0)),
                         /*isAllOrNothing=*/true};
    return {{interval}, {interval}};
  }
}

template <typename Set> Set Visibility::setOfEnds(const std::pair<Value, Value> &ends, bool negate) {
  Condition all{{}, ends.first}, any{{}, ends.second};
  return negate ? where<Set>(opposite(all), opposite(any)) : where<Set>(any, all);
}

template <typename Set> Set Visibility::compareFlags(arith::CmpIOp compare, bool negate, bool uniform) {
  using Predicate = arith::CmpIPredicate;
  const Predicate predicate = negate ? arith::invertPredicate(compare.getPredicate()) : compare.getPredicate();
  if (predicate == Predicate::eq || predicate == Predicate::ne)
    return different<Set>(compare.getLhs(), compare.getRhs(), predicate == Predicate::eq);
  return uniform ? everything<Set>() : unknown<Set>();
}

template <typename Set> std::optional<Set> Visibility::compareIntegers(arith::CmpIOp compare, bool negate) {
  using Predicate = arith::CmpIPredicate;
  Value x = compare.getLhs(), y = compare.getRhs();
  switch (negate ? arith::invertPredicate(compare.getPredicate()) : compare.getPredicate()) {
  case Predicate::sle:
    return atMost<Set>({x}, {y}, 0);
  case Predicate::slt:
    return atMost<Set>({x}, {y}, 1);
  case Predicate::sge:
    return atMost<Set>({y}, {x}, 0);
  case Predicate::sgt:
    return atMost<Set>({y}, {x}, 1);
  case Predicate::eq:
    return conjunction(atMost<Set>({x}, {y}, 0), atMost<Set>({y}, {x}, 0));
  case Predicate::ne:
    return disjunction(atMost<Set>({x}, {y}, 1), atMost<Set>({y}, {x}, 1));
  default:
    return std::nullopt;
  }
}

template <typename Set> Set Visibility::different(Value x, Value y, bool negate) {
  if (matchPattern(x, m_Constant()))
    std::swap(x, y);
  APInt constant;
  if (matchPattern(y, m_ConstantInt(&constant)))
    return visit<Set>(x, negate != !constant.isZero());
  return disjunction(conjunction(visit<Set>(x, false), visit<Set>(y, !negate)),
                     conjunction(visit<Set>(x, true), visit<Set>(y, negate)));
}
