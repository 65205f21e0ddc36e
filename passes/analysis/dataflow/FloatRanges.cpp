//===- FloatRanges.cpp - Interval analysis of f32 values ----------------------===//

#include "passes/analysis/dataflow/FloatRanges.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;
using attune::dsl::FloatRange;

FloatRange FloatRanges::of(Value value) {
  if (auto known = ranges.find(value); known != ranges.end())
    return known->second;
  ranges[value] = {}; // ends the recursion for a value that depends on itself through a loop
  const FloatRange range = compute(value);
  return ranges[value] = range;
}

FloatRange FloatRanges::compute(Value value) {
  Operation *definition = value.getDefiningOp();
  if (!definition || !value.getType().isF32())
    return {};
  auto rangeOf = [&](attune::Op op) {
    return dsl::rangeOf(op, of(definition->getOperand(0)),
                        definition->getNumOperands() > 1 ? of(definition->getOperand(1)) : FloatRange{});
  };
  return llvm::TypeSwitch<Operation *, FloatRange>(definition)
      .Case([](arith::ConstantOp constant) {
        return FloatRange::of(cast<FloatAttr>(constant.getValue()).getValue().convertToFloat());
      })
      .Case([&](arith::SIToFPOp conversion) {
        const unsigned bits = conversion.getIn().getType().getIntOrFloatBitWidth();
        return FloatRange::of(ofInteger ? ofInteger(conversion.getIn())
                                        : dsl::Range{llvm::minIntN(bits), llvm::maxIntN(bits)});
      })
      .Case([](arith::UIToFPOp conversion) {
        return conversion.getIn().getType().isInteger(1) ? FloatRange::of(dsl::Range{0, 1}) : FloatRange{};
      })
      .Case([&](arith::SelectOp select) {
        const std::optional<bool> known = holds(select.getCondition());
        if (known)
          return of(*known ? select.getTrueValue() : select.getFalseValue());
        return dsl::join(of(select.getTrueValue()), of(select.getFalseValue()));
      })
      .Case([&](arith::AddFOp) { return rangeOf(attune::Op::Add); })
      .Case([&](arith::SubFOp) { return rangeOf(attune::Op::Sub); })
      .Case([&](arith::MulFOp) { return rangeOf(attune::Op::Mul); })
      .Case([&](arith::DivFOp) { return rangeOf(attune::Op::Div); })
      .Case([&](arith::NegFOp) { return rangeOf(attune::Op::Neg); })
      .Case([&](arith::MinNumFOp) { return rangeOf(attune::Op::Min); })
      .Case([&](arith::MaxNumFOp) { return rangeOf(attune::Op::Max); })
      .Case([&](math::AbsFOp) { return rangeOf(attune::Op::Abs); })
#define ATTUNE_FUNCTION1(op, name, value, mlir, ...) .Case([&](mlir) { return rangeOf(attune::Op::op); })
#define ATTUNE_FUNCTION2(op, name, value, mlir, ...) .Case([&](mlir) { return rangeOf(attune::Op::op); })
#include "attune/Functions.def"
      .Default([](Operation *) { return FloatRange{}; });
}

dsl::Range FloatRanges::ofTruncated(arith::FPToSIOp truncation) {
  return dsl::truncated(of(truncation.getIn()), truncation.getType().isInteger(64) ? DType::I64 : DType::I32);
}

std::optional<bool> FloatRanges::holds(Value condition) {
  Operation *definition = condition.getDefiningOp();
  if (auto comparison = dyn_cast_or_null<arith::CmpFOp>(definition))
    return compare(comparison);
  if (!definition || !condition.getType().isInteger(1) || !isa<arith::AndIOp, arith::OrIOp>(definition))
    return std::nullopt;
  // One true operand makes `or` true, and one false operand makes `and` false.
  const bool decides = isa<arith::OrIOp>(definition);
  const std::optional<bool> x = holds(definition->getOperand(0)), y = holds(definition->getOperand(1));
  if (x == decides || y == decides)
    return decides;
  return x && y ? std::optional(!decides) : std::nullopt;
}

std::optional<bool> FloatRanges::compare(arith::CmpFOp comparison) {
  using Predicate = arith::CmpFPredicate;
  if (!comparison.getLhs().getType().isF32())
    return std::nullopt;
  const FloatRange x = of(comparison.getLhs()), y = of(comparison.getRhs());
  auto inverse = [](std::optional<bool> value) { return value ? std::optional(!*value) : std::nullopt; };
  // An unordered predicate (true for NaN) is the negation of an ordered predicate.
  switch (comparison.getPredicate()) {
  case Predicate::OLT:
    return dsl::isLess(x, y, true);
  case Predicate::UGE:
    return inverse(dsl::isLess(x, y, true));
  case Predicate::OLE:
    return dsl::isLess(x, y, false);
  case Predicate::UGT:
    return inverse(dsl::isLess(x, y, false));
  case Predicate::OGT:
    return dsl::isLess(y, x, true);
  case Predicate::ULE:
    return inverse(dsl::isLess(y, x, true));
  case Predicate::OGE:
    return dsl::isLess(y, x, false);
  case Predicate::ULT:
    return inverse(dsl::isLess(y, x, false));
  default:
    return std::nullopt;
  }
}
