//===- Recompute.cpp - Choose what the forward pass saves and what the backward pass recomputes ---===//
//
// The backward pass needs for each query and key the score, P, the mask and the dropout flag. Recomputing a value costs
// arithmetic; saving it costs memory, and bandwidth twice. These values can be saved:
//
//     dropout    one bit: a load replaces one call of the random generator per eight elements
//     score      one float32, computed on the way from the product S to the score x: the product and the ops before
//                that value need not be recomputed, neither for x nor for its gradient. The pass saves the value that
//                leaves the least work.
//
// O and LSE are outputs and always available. The forward pass knows P relative to a running maximum only, so P cannot
// be saved. The mask cannot be saved either: its words would be missing in tiles that the forward pass does not visit.
//
// The pass chooses the combination within the memory budget for which the cost model predicts the least time of forward
// and backward pass together.
//
//===----------------------------------------------------------------------===//

#include "passes/attn/Recompute.h"

#include "passes/Passes.h"
#include "passes/analysis/cost/BackwardPlan.h"
#include "passes/attn/CommonValues.h"

#include <algorithm>
#include <fmt/format.h>

namespace attune {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

//===----------------------------------------------------------------------===//
// Work of the score
//===----------------------------------------------------------------------===//

namespace {
/// The set of ops that values of the score region or of its gradient region are computed from, with their cost.
class Slice {
public:
  explicit Slice(bool precise) : precise(precise) {}

  /// Adds the ops that `value` is computed from. `saved` is in memory: ops that only `saved` is computed from are not
  /// added.
  void add(Value value, Value saved) {
    if (value == saved || !seen.insert(value).second)
      return;
    Operation *op = value.getDefiningOp();
    if (!op) {
      readsProduct |= cast<BlockArgument>(value).getArgNumber() == 0;
      return;
    }
    for (Value operand : op->getOperands())
      add(operand, saved);
    const double fraction = shareOf(value);
    const OpCost cost = opCost(op, precise);
    alu += fraction * cost.alu;
    special += fraction * cost.special;
  }

  double alu = 0, special = 0;
  bool readsProduct = false; ///< whether an added op reads the product s, the first argument of a region

private:
  enum : unsigned { onRow = 1, onColumn = 2, onElement = onRow | onColumn };
  /// Whether a value depends on the row, the column or both. The array `of` has an entry for each argument of a region:
  /// s, b, h, q, k and, in a gradient region, the incoming gradient.
  unsigned dependence(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      static constexpr unsigned of[] = {onElement, 0, 0, onRow, onColumn, onElement};
      return of[std::min<unsigned>(argument.getArgNumber(), 5)];
    }
    auto [known, isNew] = dependences.try_emplace(value, 0);
    if (!isNew)
      return known->second;
    unsigned on = 0;
    for (Value operand : value.getDefiningOp()->getOperands())
      on |= dependence(operand);
    return dependences[value] = on;
  }
  double shareOf(Value value) {
    const unsigned on = dependence(value);
    return on == onElement ? 1 : on == onColumn ? 0.25 : 0;
  }

  bool precise;
  llvm::DenseSet<Value> seen;
  llvm::DenseMap<Value, unsigned> dependences;
};
} // namespace

static Value yieldOf(Region &region) { return cast<attn::YieldOp>(region.front().back()).getValue(); }

/// The value of the gradient region that recomputes `value` of the score region; null if there is none.
static Value sameIn(Region &gradient, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return gradient.getArgument(argument.getArgNumber());
  const llvm::DenseMap<Value, Value> common = valuesInCommon(gradient, *value.getParentRegion());
  for (Operation &op : gradient.front().without_terminator())
    if (op.getNumResults() == 1 && common.lookup(op.getResult(0)) == value)
      return op.getResult(0);
  return {};
}

static ScoreWork workOf(attn::AttentionOp op, Value saved, bool isSaved) {
  const bool precise = op.getPrecise() || op.getDtype().isF32();
  ScoreWork work;
  if (op.getScore().empty()) {
    work.needsProduct = !isSaved;
    return work;
  }
  Slice score(precise), gradient(precise);
  score.add(yieldOf(op.getScore()), isSaved ? saved : Value());
  if (!op.getScoreGrad().empty())
    gradient.add(yieldOf(op.getScoreGrad()), isSaved ? sameIn(op.getScoreGrad(), saved) : Value());
  work.alu = score.alu + gradient.alu;
  work.special = score.special + gradient.special;
  work.needsProduct = score.readsProduct || gradient.readsProduct;
  return work;
}

/// The value of the score region whose saving leaves the backward pass the least work.
static Value bestSavedScore(attn::AttentionOp op) {
  if (op.getScore().empty())
    return {};
  auto cycles = [&](Value value) {
    const ScoreWork work = workOf(op, value, true);
    return work.alu / 128 + work.special / 32 + (work.needsProduct ? double(op.getHeadDim()) / 2048 : 0);
  };
  Value best = yieldOf(op.getScore());
  double least = best.getDefiningOp() ? cycles(best) : std::numeric_limits<double>::infinity();
  for (Operation &inner : op.getScore().front().without_terminator())
    if (inner.getNumResults() == 1 && inner.getResult(0).getType().isF32() && !isa<arith::ConstantOp>(inner))
      if (const double of = cycles(inner.getResult(0)); of < least - 1e-9) {
        least = of;
        best = inner.getResult(0);
      }
  return best;
}

BackwardRequest attune::backwardRequest(attn::AttentionOp op, StringRef arch, const SizeHints &hints,
                                        Value *savedScore) {
  BackwardRequest request{.plan = planRequest(op, arch, hints), .score = {}, .withSavedScore = {}};
  Value saved = op.getSavedScore() ? op.getSavedScore() : bestSavedScore(op);
  request.score = workOf(op, {}, false);
  request.withSavedScore = workOf(op, saved, true);
  for (StringRef value : op.getSaves().getAsValueRange<StringAttr>())
    (value == StringRef(name(Savable::Dropout)) ? request.saved.dropout : request.saved.score) = true;
  if (savedScore)
    *savedScore = saved;
  return request;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

namespace {
/// Predicts the time of forward and backward pass for each set of saved values, and picks the best.
class Choice {
public:
  Choice(const BackwardRequest &request, const SavingRequest &asked) : request(request), asked(asked) {}

  /// Fails if no plan fits.
  Expected<SavedValues> best() {
    Expected<BackwardPlans> backward = chooseBackwardPlans(request.plan);
    if (!backward)
      return backward.error();
    plans = *backward;
    Expected<RankedPlan> forward = choosePlan(request.plan);
    if (!forward)
      return forward.error();
    cost = forward->cost;
    std::optional<SavedValues> found;
    for (bool dropout : {false, true})
      for (bool score : {false, true})
        if (const SavedValues values{dropout, score};
            isAllowed(values) && (!found || seconds(values) < seconds(*found)))
          found = values;
    return *found; // the choice of saving only the values that the user fixed is always allowed
  }

  double seconds(SavedValues values) const {
    return cost.totalSeconds + savingSeconds(request, cost.totalSeconds, cost.hbmBytes, values) +
           backwardCost(request, plans, values).seconds();
  }
  std::optional<bool> chosen(Savable value) const {
    for (const auto &[named, isSaved] : asked.chosen)
      if (named == name(value))
        return isSaved;
    return std::nullopt;
  }

private:
  bool isAllowed(SavedValues values) const {
    SavedValues budgeted;
    for (Savable value : {Savable::Dropout, Savable::Score}) {
      const bool isThere = value != Savable::Dropout || request.plan.dropout;
      if (values.has(value) && (!isThere || request.plan.arch == "cpu") && chosen(value) != true)
        return false;
      if (std::optional<bool> fixed = chosen(value); fixed && *fixed != values.has(value))
        return false;
      if (values.has(value) && !chosen(value))
        (value == Savable::Dropout ? budgeted.dropout : budgeted.score) = true;
    }
    return !budgeted.any() || savedBytes(request.plan, values) <= double(asked.memoryBudget);
  }

  const BackwardRequest &request;
  const SavingRequest &asked;
  BackwardPlans plans;
  PlanCost cost;
};
} // namespace

static Expected<void> checkChosen(attn::AttentionOp op, const SavingRequest &request) {
  for (const auto &[value, isSaved] : request.chosen) {
    if (llvm::is_contained(request.chosen, std::pair(value, !isSaved)))
      return Error{fmt::format("{} is to be saved and to be recomputed; leave one of the two out", value)};
    if (value == "o" || value == "lse") {
      if (!isSaved)
        return Error{
            fmt::format("{} is an output of the forward pass and is not recomputed; leave the choice out", value)};
    } else if (value == "p") {
      if (isSaved)
        return Error{"the forward pass knows p against a maximum of the keys so far alone, so that it cannot be saved; "
                     "save score, from which p follows by one exponential"};
    } else if (value == "mask") {
      if (isSaved)
        return Error{"the mask's words would have to be there for tiles that the forward pass leaves out, so that they "
                     "cannot be saved; save score, or let the mask be recomputed"};
    } else if (value == "dropout") {
      if (isSaved && !op.getDropout())
        return Error{"what dropout keeps is to be saved, but the variant has no dropout"};
    } else if (value != "score") {
      return Error{
          fmt::format("'{}' is no value of the backward pass; those are o, lse, score, p, mask and dropout", value)};
    }
  }
  return {};
}

Expected<std::vector<SavingDecision>> attune::weighSaving(attn::AttentionOp op, const SavingRequest &request) {
  if (Expected<void> good = checkChosen(op, request); !good)
    return good.error();
  const BackwardRequest work = backwardRequest(op, request.arch, request.sizes);
  Choice choice(work, request);
  Expected<SavedValues> best = choice.best();
  if (!best)
    return best.error();
  const bool onCpu = request.arch == "cpu";
  const double rows = double(work.plan.batch * work.plan.heads) * double(work.plan.queries);
  std::vector<SavingDecision> decisions;
  decisions.push_back({"o", true, rows * double(work.plan.headDimV * work.plan.elementBytes), {}, "an output"});
  if (op.hasLse())
    decisions.push_back({"lse", true, rows * 4, {}, "an output, without which another loop would come first"});
  auto weigh = [&](Savable value) {
    SavedValues with = *best, without = *best;
    (value == Savable::Dropout ? with.dropout : with.score) = true;
    (value == Savable::Dropout ? without.dropout : without.score) = false;
    SavedValues alone;
    (value == Savable::Dropout ? alone.dropout : alone.score) = true;
    SavingDecision &decision = decisions.emplace_back(
        SavingDecision{std::string(name(value)), best->has(value), savedBytes(work.plan, alone), {}, {}});
    if (!onCpu)
      decision.secondsGained = choice.seconds(without) - choice.seconds(with);
    if (choice.chosen(value))
      decision.reason = "as asked for";
    else if (onCpu)
      decision.reason = "the model does not know the CPU's backward pass";
    else if (decision.isSaved)
      decision.reason = fmt::format("within the budget of {} bytes", request.memoryBudget);
    else if (*decision.secondsGained > 0)
      decision.reason = fmt::format("above the budget of {} bytes", request.memoryBudget);
  };
  weigh(Savable::Score);
  const double elements =
      double(work.plan.batch * work.plan.heads) * double(work.plan.queries) * double(work.plan.keys);
  decisions.push_back(
      {"p", false, elements * work.plan.elementBytes, {}, "the forward pass has it against a maximum so far"});
  if (!op.getMask().empty())
    decisions.push_back({"mask", false, elements / 8, {}, "its words would be missing in tiles that are left out"});
  if (op.getDropout())
    weigh(Savable::Dropout);
  return decisions;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct Recompute : attune::impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    for (auto op : getOperation().getOps<attn::AttentionOp>())
      if (op.getGradients() && op.getSaves().empty() && failed(decide(op)))
        return signalPassFailure();
  }

private:
  LogicalResult decide(attn::AttentionOp op) {
    SavingRequest request{.arch = arch, .memoryBudget = memoryBudget, .sizes = {batch, heads, queries, keys}};
    for (const std::string &name : save)
      request.chosen.push_back({name, true});
    for (const std::string &name : recompute)
      request.chosen.push_back({name, false});
    if (!memoryBudget && request.chosen.empty())
      return success();
    Expected<std::vector<SavingDecision>> decisions = weighSaving(op, request);
    if (!decisions)
      return op.emitError() << decisions.error().message;
    Builder builder(&getContext());
    SmallVector<StringRef> saved;
    SmallVector<std::string> texts;
    for (const SavingDecision &decision : *decisions) {
      texts.push_back(decision.text());
      if (decision.isSaved && decision.value != "o" && decision.value != "lse")
        saved.push_back(decision.value);
    }
    const SmallVector<StringRef> lines(texts.begin(), texts.end());
    op->setAttr(attn::decisionsAttr, builder.getStrArrayAttr(lines));
    op.setSavesAttr(builder.getStrArrayAttr(saved));
    if (!llvm::is_contained(saved, "score") || op.getScore().empty())
      return success();
    Value value = bestSavedScore(op);
    if (value != yieldOf(op.getScore()))
      value.getDefiningOp()->setAttr(attn::savedAttr, builder.getUnitAttr());
    return success();
  }
};
} // namespace
