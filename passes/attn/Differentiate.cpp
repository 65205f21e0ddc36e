//===- Differentiate.cpp - Differentiate a variant's expressions ----------===//
//
// Reverse-mode differentiation of each region that O depends on: the score with respect to s, p with respect to x, the
// divisor and LSE with respect to the sum of weights, and all of them with respect to the captured tensors whose
// gradients are requested. A gradient region is a copy of its region, followed by the contributions of each op, from
// the last to the first, to the gradients of its operands:
//
//     y = tanh(a)          g_a += g_y * (1 - y * y)
//     y = a / b            g_a += g_y / b, g_b -= g_y * y / b
//     y = c ? a : b        g_a += c ? g_y : 0, g_b += c ? 0 : g_y
//     y = tensor[i...]     attn.add_gradient g_y, tensor[i...]
//
// Integers and comparisons are piecewise constant and have no gradient. Gradients at kinks are PyTorch's: abs has the
// gradient 0 at 0; a minimum or maximum of two equal values gives half of the gradient to each.
//
// Lengths of sequences become conditions of the mask, k < lengths[b]: the backward pass then loops over visible tiles, reads
// rows up to the last visible one, and gives the rows after a sequence's end the gradient 0.
//
// ONE WEIGHT PER KEY. With row statistics (softmax) the weight of a key is w = p(x, base(m)) / divisor(m, l). The
// backward pass evaluates the normaliser at m = LSE, where l is 1 (0 in a row without visible keys), and treats m as a
// constant. NormaliserLaw.h states the laws under which this is correct; the op's normaliser is checked against them.
//
//===----------------------------------------------------------------------===//

#include "ir/attn/FromVariant.h"
#include "passes/Passes.h"
#include "passes/analysis/score/LogisticFunction.h"
#include "passes/attn/FunctionGradients.h"
#include "passes/attn/NormaliserLaw.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numbers>

namespace attune {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

using gradient::addGradients;

/// Writes one gradient region.
class RegionDifferentiator {
public:
  RegionDifferentiator(Region &of, Region &into, ArrayRef<StringAttr> tensors)
      : of(of), into(into), tensors(tensors), builder(of.getContext()) {}

  /// Writes the gradient of the region with respect to its argument `by`. Fails, with an error at the op, if an op of
  /// the region has no rule of differentiation.
  LogicalResult write(unsigned by) {
    Block &body = of.front();
    SmallVector<Type> types(body.getArgumentTypes());
    types.push_back(builder.getF32Type());
    Block *block =
        builder.createBlock(&into, {}, types, SmallVector<Location>(types.size(), body.getArgument(0).getLoc()));
    IRMapping copies;
    copies.map(body.getArguments(), block->getArguments().drop_back());
    active.insert(block->getArgument(by));
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator()) {
      ops.push_back(builder.clone(op, copies));
      noteActive(ops.back());
    }
    auto yield = cast<attn::YieldOp>(body.back());
    gradients[copies.lookup(yield.getValue())] = block->getArguments().back();
    for (Operation *op : llvm::reverse(ops)) {
      loc = op->getLoc();
      if (Value g = active.contains(op->getResult(0)) ? gradients.lookup(op->getResult(0)) : Value())
        if (failed(propagate(op, op->getResult(0), g)))
          return failure();
    }
    loc = yield.getLoc();
    Value g = gradients.lookup(block->getArgument(by));
    attn::YieldOp::create(builder, loc, g ? g : constant(0));
    return success();
  }

private:
  /// Marks the op's result as active if it depends on a value with respect to which the region is differentiated.
  void noteActive(Operation *op) {
    auto load = dyn_cast<attn::LoadOp>(op);
    const bool changes = load ? llvm::is_contained(tensors, load.getNameAttr())
                              : llvm::any_of(op->getOperands(), [&](Value each) { return active.contains(each); });
    if (changes && op->getResult(0).getType().isF32())
      active.insert(op->getResult(0));
  }

  void add(Value to, Value gradient) {
    if (!active.contains(to))
      return;
    Value &sum = gradients[to];
    sum = sum ? Value(arith::AddFOp::create(builder, loc, sum, gradient)) : gradient;
  }
  /// Adds the result of `gradient` to the gradient of `to`. The function `gradient`, which creates ops, is called only
  /// if `to` is active, that is, depends on a value by which the region is differentiated.
  void add(Value to, function_ref<Value()> gradient) {
    if (active.contains(to))
      add(to, gradient());
  }

  Value constant(float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); }
  Value times(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
  Value times(Value a, float b) { return times(a, constant(b)); }
  Value over(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value plus(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
  Value minus(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
  Value negated(Value a) { return arith::NegFOp::create(builder, loc, a); }
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }

  /// The gradient of a minimum or maximum goes to the operand that was chosen as the result; two equal operands get
  /// half each.
  void chosen(Operation *op, arith::CmpFPredicate first, Value g) {
    Value a = op->getOperand(0), b = op->getOperand(1);
    Value isFirst = compare(first, a, b), half = times(g, 0.5f);
    Value ofEqual = select(compare(arith::CmpFPredicate::OEQ, a, b), half, constant(0));
    add(a, [&] { return select(isFirst, g, ofEqual); });
    add(b, [&] { return select(isFirst, constant(0), select(compare(arith::CmpFPredicate::OEQ, a, b), half, g)); });
  }

  void divide(arith::DivFOp op, Value y, Value g) {
    // y = 1 / (1 + exp(a)) is a logistic function. The rule of division would give 0 * inf where y is 0; y (y - 1) is
    // finite.
    if (Operation *exponential = exponentialOfLogistic(op)) {
      add(exponential->getOperand(0), [&] {
        Value slope = times(y, minus(y, constant(1)));
        return times(g, isa<math::Exp2Op>(exponential) ? times(slope, std::numbers::ln2_v<float>) : slope);
      });
      return;
    }
    Value quotient = over(g, op.getRhs());
    add(op.getLhs(), quotient);
    add(op.getRhs(), [&] { return negated(times(quotient, y)); });
  }

  /// Adds the contributions of the gradient g of y, the op's result, to the gradients of its operands.
  LogicalResult propagate(Operation *op, Value y, Value g) {
    Value a = op->getNumOperands() ? op->getOperand(0) : Value();
    auto toFirst = [&](Value gradient) { add(a, gradient); };
    bool known = true;
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](attn::LoadOp load) {
          attn::AddGradientOp::create(builder, loc, g, load.getNameAttr(), load.getIndices());
        })
        .Case([&](arith::AddFOp sum) { add(sum.getLhs(), g), add(sum.getRhs(), g); })
        .Case([&](arith::SubFOp difference) {
          add(difference.getLhs(), g);
          add(difference.getRhs(), [&] { return negated(g); });
        })
        .Case([&](arith::MulFOp product) {
          add(product.getLhs(), [&] { return times(g, product.getRhs()); });
          add(product.getRhs(), [&] { return times(g, product.getLhs()); });
        })
        .Case([&](arith::DivFOp quotient) { divide(quotient, y, g); })
        .Case([&](arith::NegFOp) { toFirst(negated(g)); })
        .Case([&](arith::MinNumFOp) { chosen(op, arith::CmpFPredicate::OLT, g); })
        .Case([&](arith::MaxNumFOp) { chosen(op, arith::CmpFPredicate::OGT, g); })
        .Case([&](arith::SelectOp choice) {
          Value zero = constant(0);
          add(choice.getTrueValue(), [&] { return select(choice.getCondition(), g, zero); });
          add(choice.getFalseValue(), [&] { return select(choice.getCondition(), zero, g); });
        })
        .Case([&](math::AbsFOp) {
          Value zero = constant(0), ofNegative = select(compare(arith::CmpFPredicate::OLT, a, zero), negated(g), zero);
          toFirst(select(compare(arith::CmpFPredicate::OGT, a, zero), g, ofNegative));
        })
        .Default([&](Operation *) {
          auto toOperand = [&](Value operand, function_ref<Value()> gradient) { add(operand, gradient); };
          known = addGradients(op, {&builder, loc, g}, toOperand);
        });
    if (!known)
      return op->emitError() << "'" << op->getName() << "' has no rule for its derivative; write the expression with "
                             << "others, or do without its gradient";
    return success();
  }

  Region &of, &into;
  ArrayRef<StringAttr> tensors;
  OpBuilder builder;
  Location loc = builder.getUnknownLoc();
  DenseSet<Value> active;
  DenseMap<Value, Value> gradients; ///< gradients summed so far, of each value
};

/// Writes the gradient regions of one attention that has the attribute `gradients`.
class Differentiator {
public:
  explicit Differentiator(attn::AttentionOp op) : op(op), tensors(op.getGradients()->getTensors()) {}

  LogicalResult run() {
    const bool endsRows = op.getQueryLengths().has_value();
    maskLengths();
    if (!op.getNormaliser())
      writeSoftmax(op);
    if (failed(checkStatistics()))
      return failure();
    const unsigned sum = 2 + sumStatistic(op);
    const std::pair<std::pair<Region *, Region *>, unsigned> regions[] = {
        {{&op.getScoreGrad(), &op.getScore()}, 0},
        {{&op.getPGrad(), &op.getP()}, 2},
        {{&op.getDivisorGrad(), &op.getDivisor()}, sum},
        {{&op.getLseGrad(), &op.getLse()}, sum}};
    for (auto [pair, by] : regions)
      if (auto [into, of] = pair; !of->empty())
        if (failed(RegionDifferentiator(*of, *into, tensors).write(by)))
          return failure();
    return failed(checkTensors()) || (endsRows && failed(checkRowsAdded())) ? failure() : success();
  }

private:
  /// Replaces lengths of sequences by conditions of the mask.
  void maskLengths() {
    const std::pair<StringAttr, unsigned> lengths[] = {{op.getQueryLengthsAttr(), 2}, {op.getKeyLengthsAttr(), 3}};
    for (auto [name, coordinate] : lengths)
      if (name)
        maskAfter(name, coordinate);
    op.removeQueryLengthsAttr();
    op.removeKeyLengthsAttr();
  }

  /// Masks what the mask's argument number `coordinate` says is after the end of sequence b.
  void maskAfter(StringAttr lengths, unsigned coordinate) {
    OpBuilder builder(op.getContext());
    const Location loc = op.getLoc();
    Type i32 = builder.getI32Type();
    Region &mask = op.getMask();
    attn::YieldOp yield;
    if (mask.empty()) {
      builder.createBlock(&mask, {}, SmallVector<Type>(4, i32), SmallVector<Location>(4, loc));
    } else {
      yield = cast<attn::YieldOp>(mask.front().back());
      builder.setInsertionPoint(yield);
    }
    Value length = attn::LoadOp::create(builder, loc, i32, lengths, mask.getArgument(0));
    Value isBefore =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, mask.getArgument(coordinate), length);
    if (yield)
      yield->setOperand(0, arith::AndIOp::create(builder, loc, yield.getValue(), isBefore));
    else
      attn::YieldOp::create(builder, loc, isBefore);
  }

  /// Checks that the backward pass computes the normaliser's gradients correctly.
  LogicalResult checkStatistics() {
    if (op.getGradients()->getLse() && !op.hasLse())
      return op.emitError() << "the gradient of LSE is taken, but normaliser " << op.getNormaliserAttr()
                            << " gives no LSE; leave it out";
    return op.getStatistics().empty() ? success() : checkNormaliserLaws(op);
  }

  /// Fails if no op adds to the requested gradient of a captured tensor: the gradient would silently be 0.
  LogicalResult checkTensors() {
    for (StringAttr name : tensors) {
      bool adds = false;
      for (auto [region, of] : op.gradientRegions())
        region->walk([&](attn::AddGradientOp add) { adds |= add.getNameAttr() == name; });
      if (!adds)
        return op.emitError() << "nothing depends on captured tensor " << name
                              << " in a way that has a gradient; leave it out of the gradients";
    }
    return success();
  }

  /// Fails if a gradient is added up over rows: the rows after a sequence's end have no O and LSE.
  LogicalResult checkRowsAdded() {
    for (Region *region : {&op.getDivisorGrad(), &op.getLseGrad()})
      for (auto add : region->getOps<attn::AddGradientOp>())
        return op.emitError()
               << "the gradient of captured tensor " << add.getNameAttr()
               << " is added up over all rows of Q, of which query lengths leave out some; pad the rows and "
                  "mask them in place of query lengths";
    return success();
  }

  attn::AttentionOp op;
  ArrayRef<StringAttr> tensors;
};

struct Differentiate : attune::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    for (auto op : getOperation().getOps<attn::AttentionOp>())
      if (op.getGradients() && op.getPGrad().empty() && failed(Differentiator(op).run()))
        return signalPassFailure();
  }
};

} // namespace
