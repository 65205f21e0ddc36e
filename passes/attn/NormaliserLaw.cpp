//===- NormaliserLaw.cpp - Check what the backward pass requires of row statistics ---===//

#include "passes/attn/NormaliserLaw.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <fmt/format.h>
#include <random>

using namespace mlir;
using namespace attune;

namespace {

constexpr unsigned pointsToCheck = 32, mostPoints = 4 * pointsToCheck;

bool isEqual(double a, double b, double least = 0) {
  const double off = std::fabs(a - b);
  return a == b || (std::isfinite(off) && off <= 1e-5 * std::max({std::fabs(a), std::fabs(b), least}));
}

/// A pseudo-random point (scores, statistics, head) at which the laws of a normaliser are checked. Evaluates the
/// normaliser's regions at the point in float64. Captured tensors, scalars and extents are pseudo-random too; equal
/// reads have equal values.
class Point {
public:
  Point(attn::AttentionOp op, unsigned number) : op(op), number(number), random(number), builder(op.getContext()) {
    b = builder.getI32IntegerAttr(int32_t(below(8)));
    h = builder.getI32IntegerAttr(int32_t(below(8)));
    const double span = std::ldexp(16, -int((number + 2) % 8)); // 4, 2, ..., 1/8, 16, 8
    m = uniform(-span, span);
    raised = m + uniform(0, span);
    x = m - uniform(0, span);
    l = p(m) * uniform(1, 16); // the row's sum includes the weight p(m) of x
  }

  double p(double m) { return evaluate(op.getP(), withBase({x}, m)); }
  double rescale(double to) { return evaluate(op.getRescale(), withBase(row(m, l), to)); }
  double divisor(double m, double l) { return evaluate(op.getDivisor(), row(m, l)); }
  double lse(double m, double l) { return evaluate(op.getLse(), row(m, l)); }

  /// The values of the point, such as "x = 1, top = 2, total = 3, temperature[4] = 0.5".
  std::string describe() {
    std::string text = fmt::format("x = {:.4g}", x);
    for (auto each : op.getStatistics().getAsRange<attn::RowStatisticAttr>())
      text += fmt::format(", {} = {:.4g}", each.getName().str(), each.getIsMax() ? m : l);
    for (const Read &read : reads) {
      text += ", " + read.attributes.getAs<StringAttr>("name").str();
      for (Attribute index : read.operands)
        if (auto integer = dyn_cast<IntegerAttr>(index))
          text += fmt::format("[{}]", integer.getInt());
      if (auto real = dyn_cast<FloatAttr>(read.value))
        text += fmt::format(" = {:.4g}", real.getValueAsDouble());
      else
        text += fmt::format(" = {}", cast<IntegerAttr>(read.value).getInt());
    }
    return text;
  }

  double m, raised, x, l; ///< x <= m <= raised

private:
  struct Read {
    OperationName kind;
    DictionaryAttr attributes;
    SmallVector<Attribute> operands;
    Attribute value;
  };

  int64_t below(int64_t end) { return int64_t(random() % uint64_t(end)); }
  double uniform(double low, double high) { return low + (high - low) * double(random()) / 0x1p32; }

  SmallVector<double> row(double m, double l) {
    return llvm::map_to_vector(op.getStatistics().getAsRange<attn::RowStatisticAttr>(),
                               [&](attn::RowStatisticAttr each) { return each.getIsMax() ? m : l; });
  }
  SmallVector<double> withBase(SmallVector<double> values, double m) {
    if (!op.getBase().empty())
      values.push_back(evaluate(op.getBase(), row(m, 0)));
    return values;
  }

  /// What a region yields: 1 for an empty region, NaN for one with an op that cannot be evaluated.
  double evaluate(Region &region, ArrayRef<double> arguments) {
    if (region.empty())
      return 1;
    DenseMap<Value, Attribute> known = {{region.getArgument(0), b}, {region.getArgument(1), h}};
    for (auto [argument, value] : llvm::zip(region.getArguments().drop_front(2), arguments))
      known[argument] = builder.getF64FloatAttr(value);
    for (Operation &each : region.front().without_terminator()) {
      Attribute result = resultOf(each, known);
      auto number = dyn_cast_or_null<FloatAttr>(result);
      known[each.getResult(0)] = number ? builder.getF64FloatAttr(number.getValueAsDouble()) : result;
    }
    auto result = dyn_cast_or_null<FloatAttr>(known.lookup(region.front().back().getOperand(0)));
    return result ? result.getValueAsDouble() : NAN;
  }

  /// Evaluates by MLIR's constant folding, which computes in the type of the operands' attributes: f64.
  Attribute resultOf(Operation &each, const DenseMap<Value, Attribute> &known) {
    SmallVector<Attribute> operands =
        llvm::map_to_vector(each.getOperands(), [&](Value of) { return known.lookup(of); });
    if (llvm::is_contained(operands, Attribute()) || isa<arith::BitcastOp>(each)) // f64 bits differ from f32's
      return {};
    if (isa<attn::AttnDialect>(each.getDialect()))
      return valueRead(each, operands);
    if (isa<math::RsqrtOp>(each)) // has no folder
      return builder.getF64FloatAttr(1 / std::sqrt(cast<FloatAttr>(operands[0]).getValueAsDouble()));
    SmallVector<OpFoldResult> results;
    if (failed(each.fold(operands, results)) || results.size() != 1)
      return {};
    auto operand = dyn_cast<Value>(results[0]);
    return operand ? known.lookup(operand) : cast<Attribute>(results[0]);
  }

  /// The pseudo-random value that the op `by` reads from a captured tensor, scalar or extent. Floats have magnitudes
  /// from 1/4 to 4, and either sign at odd points. Integers are from 1 to 8.
  Attribute valueRead(Operation &by, ArrayRef<Attribute> operands) {
    for (const Read &read : reads)
      if (read.kind == by.getName() && read.attributes == by.getAttrDictionary() && operands.equals(read.operands))
        return read.value;
    const Type type = by.getResult(0).getType();
    Attribute value;
    if (isa<FloatType>(type))
      value = builder.getF64FloatAttr(std::exp2(uniform(-2, 2)) * (number % 2 && below(2) ? -1 : 1));
    else
      value = builder.getIntegerAttr(type, type.isInteger(1) ? below(2) : 1 + below(8));
    reads.push_back({by.getName(), by.getAttrDictionary(), SmallVector<Attribute>(operands), value});
    return value;
  }

  attn::AttentionOp op;
  const unsigned number;
  std::mt19937 random;
  Builder builder;
  Attribute b, h;
  SmallVector<Read> reads;
};

/// Checks the laws of one normaliser. The error is that of the first law that is broken.
class LawCheck {
public:
  explicit LawCheck(attn::AttentionOp op) : op(op) {
    for (auto statistic : op.getStatistics().getAsRange<attn::RowStatisticAttr>()) {
      (statistic.getIsMax() ? max : sum) = statistic.getName().str();
      (statistic.getIsMax() ? firstMax : firstSum) = statistic.getInitial().getValueAsDouble();
    }
  }

  LogicalResult run() {
    if (op.getStatistics().size() != 2 || max.empty() || sum.empty())
      return refuse("its row statistics are not one maximum and one sum; use one of each");
    if (firstSum != 0)
      return refuse(
          fmt::format("{0} starts from {1}, but must start from 0; add a constant weight to divisor, such as {0} "
                      "+ exp(-{2}) for p = exp(x - base)",
                      sum, firstSum, max));
    if (op.getLse().empty())
      return refuse("it has no lse, from which the backward pass recomputes the weights; write lse = " +
                    exampleOfLse());
    unsigned checked = 0;
    for (unsigned number = 0; number < mostPoints && checked < pointsToCheck; ++number) {
      Point point(op, number);
      FailureOr<bool> isNumber = checkAt(point);
      if (failed(isNumber))
        return failure();
      checked += *isNumber;
    }
    if (checked < pointsToCheck)
      return refuse(
          "p, divisor or lse is 0, infinite or NaN for most finite scores, so that it cannot be checked; write "
          "expressions with finite values");
    return checkTensors();
  }

private:
  LogicalResult refuse(const std::string &reason) {
    return op.emitError() << "normaliser " << op.getNormaliserAttr() << " has no gradients: " << reason;
  }

  std::string exampleOfLse() {
    return fmt::format(
        "{1} == 0 ? -inf : {0} + log({1}) for p = exp(x - base), or {1} == 0 ? -inf : {0} + t * log2({1}) "
        "for p = exp2((x - base) / t)",
        max, sum);
  }

  /// Checks the laws at a point. Returns false, after checking the sign of p alone, if p, divisor or lse is infinite or
  /// NaN, if p is 0 or subnormal, or if divisor is 0.
  FailureOr<bool> checkAt(Point &at) {
    const double weight = at.p(at.m), r = at.p(at.raised) / weight, divisor = at.divisor(at.m, at.l),
                 lse = at.lse(at.m, at.l);
    if (weight < 0)
      return refuse(fmt::format("p must not be negative, but is {:.4g} ({}); write a p >= 0", weight, at.describe()));
    if (!std::isfinite(r * divisor * lse) || r * divisor == 0 || !std::isnormal(weight))
      return false;
    const double rescale = at.rescale(at.raised), next = at.divisor(at.raised, r * at.l), weightAtLse = at.p(lse),
                 nextLse = at.lse(at.raised, r * at.l), none = at.lse(firstMax, 0);
    const std::string values = at.describe(), example = "; write lse = " + exampleOfLse();
    if (!isEqual(rescale, r))
      return refuse(
          fmt::format("rescale must be the factor by which p changes where {0} grows, but is {1:.4g}, and p "
                      "changes by {2:.4g} where {0} grows to {3:.4g} ({4}); write p with {0} in the place of x, "
                      "such as exp({0} - base) for p = exp(x - base)",
                      max, rescale, r, at.raised, values));
    if (!isEqual(next, r * divisor))
      return refuse(
          fmt::format("divisor must change by the same factor as p where {0} grows, but changes from {1:.4g} to "
                      "{2:.4g}, and p by the factor {3:.4g}, where {0} grows to {4:.4g} ({5}); write {6}, or add "
                      "terms that change as p does, such as {6} + exp(sinks[h] - {0}) for p = exp(x - base)",
                      max, divisor, next, r, at.raised, values, sum));
    if (!isEqual(weightAtLse, weight / at.l))
      return refuse(
          fmt::format("lse must be the {0} for which the weights of a row sum to 1, but p is {1:.4g} for {0} = "
                      "lse = {2:.4g}, and p / {3} is {4:.4g} ({5}){6}",
                      max, weightAtLse, lse, sum, weight / at.l, values, example));
    if (!isEqual(nextLse, lse, 1))
      return refuse(
          fmt::format("lse must not change where {0} grows, but changes from {1:.4g} to {2:.4g} where {0} grows "
                      "to {3:.4g} and {4} changes with p ({5}){6}",
                      max, lse, nextLse, at.raised, sum, values, example));
    if (none != -INFINITY)
      return refuse(fmt::format("lse must be -inf in a row without a visible key, but is {:.4g} for {} = {}, {} = 0{}",
                                none, max, firstMax, sum, example));
    return true;
  }

  /// Refuses gradients of captured tensors that the backward pass would not compute in full (CAPTURED TENSORS in
  /// NormaliserLaw.h).
  LogicalResult checkTensors() {
    for (StringAttr name : op.getGradients()->getTensors()) {
      auto isReadBy = [&](Region &region) {
        return llvm::any_of(region.getOps<attn::LoadOp>(),
                            [&](attn::LoadOp load) { return load.getNameAttr() == name; });
      };
      if (isReadBy(op.getBase()))
        return refuse(
            fmt::format("base reads \"{0}\", whose gradient is requested; read \"{0}\" in p and rescale alone, or "
                        "leave it out of the gradients",
                        name.str()));
      if (isReadBy(op.getP()) && !dividesBySum(op))
        return refuse(fmt::format("p reads \"{0}\", whose gradient is known only for divisor = {1}; "
                                  "apply \"{0}\" in the score, or leave it out of the gradients",
                                  name.str(), sum));
    }
    return success();
  }

  attn::AttentionOp op;
  std::string max, sum; ///< names of the statistics
  double firstMax = 0, firstSum = 0;
};

} // namespace

LogicalResult attune::checkNormaliserLaws(attn::AttentionOp op) { return LawCheck(op).run(); }

unsigned attune::sumStatistic(attn::AttentionOp op) {
  for (auto [i, statistic] : llvm::enumerate(op.getStatistics().getAsRange<attn::RowStatisticAttr>()))
    if (!statistic.getIsMax())
      return i;
  return 0;
}

bool attune::dividesBySum(attn::AttentionOp op) {
  Region &divisor = op.getDivisor();
  return !divisor.empty() && divisor.front().back().getOperand(0) == divisor.getArgument(2 + sumStatistic(op));
}

bool attune::hasNaturalLse(attn::AttentionOp op) {
  for (unsigned number = 0; number < pointsToCheck; ++number) {
    Point at(op, number);
    if (at.l > 0 && !isEqual(at.lse(at.m, at.l), at.m + std::log(at.l), 1))
      return false;
  }
  return true;
}
