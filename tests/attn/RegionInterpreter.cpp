//===- RegionInterpreter.cpp - Values of arith ops, one element at a time -----===//

#include "tests/attn/RegionInterpreter.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

using namespace mlir;
using namespace attune::testing;

namespace {

int64_t wrap(__int128 value, unsigned width) {
  if (width == 1)
    return int64_t(value & 1);
  return width == 32 ? int64_t(int32_t(value)) : int64_t(value);
}

bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  default:
    FAIL("unsigned comparison");
    return false;
  }
}

bool compare(arith::CmpFPredicate predicate, float a, float b) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::UNE:
    return a != b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::ORD:
    return !std::isnan(a) && !std::isnan(b);
  default:
    FAIL("comparison of floats that attn does not build");
    return false;
  }
}

} // namespace

Scalar RegionInterpreter::run(Block &block) {
  for (Operation &op : block.without_terminator())
    run(op);
  Operation *terminator = block.getTerminator();
  return terminator->getNumOperands() ? get(terminator->getOperand(0)) : Scalar{};
}

void RegionInterpreter::run(Operation &op) {
  auto [found, isNew] = steps.try_emplace(&op);
  if (isNew)
    found->second = decode(op);
  const Step &step = found->second;
  SmallVector<Scalar, 4> x;
  for (const Scalar *operand : step.operands)
    x.push_back(*operand);
  const Scalar result = step.rule(x);
  if (step.result)
    *step.result = result;
}

Scalar *RegionInterpreter::slotOf(Value value) {
  Scalar *&slot = slots[value];
  if (!slot)
    slot = &scalars.emplace_back();
  return slot;
}

RegionInterpreter::Step RegionInterpreter::decode(Operation &op) {
  Step step;
  step.rule = ruleOf(op);
  for (Value operand : op.getOperands()) {
    if (!slots.contains(operand))
      FAIL("an operand of " << op.getName().getStringRef().str() << " has no value");
    step.operands.push_back(slotOf(operand));
  }
  if (op.getNumResults())
    step.result = slotOf(op.getResult(0));
  return step;
}

RegionInterpreter::Rule RegionInterpreter::ruleOf(Operation &op) {
  using X = ArrayRef<Scalar>;
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrFloat() ||
      !(isa<arith::ArithDialect, math::MathDialect>(op.getDialect())))
    return [leaf = leaf, &op](X x) { return leaf(&op, x); };
  Type type = op.getResult(0).getType();
  const unsigned width = type.getIntOrFloatBitWidth();
  const StringRef name = op.getName().getStringRef();
  const bool fromBool = op.getNumOperands() && op.getOperand(0).getType().isInteger(1);
  auto integer = [width, name, mayWrap = mayWrap](__int128 value) {
    int64_t wrapped = wrap(value, width);
    if (!mayWrap && width > 1 && wrapped != value)
      FAIL("overflow in " << name.str());
    return Scalar::of(wrapped);
  };
  // The rules of integers and floats, from their operands.
  auto ofIntegers = [](auto rule) -> Rule { return [rule](X x) { return rule(x[0].integer, x[1].integer); }; };
  auto ofInteger = [](auto rule) -> Rule { return [rule](X x) { return rule(x[0].integer); }; };
  auto ofFloats = [](auto rule) -> Rule {
    return [rule](X x) { return Scalar::of(float(rule(x[0].real, x[1].real))); };
  };
  auto ofFloat = [](auto rule) -> Rule { return [rule](X x) { return Scalar::of(float(rule(x[0].real))); }; };

  return llvm::TypeSwitch<Operation *, Rule>(&op)
      .Case([&](arith::ConstantOp c) -> Rule {
        Scalar value;
        if (auto number = dyn_cast<IntegerAttr>(c.getValue()))
          value = Scalar::of(width == 1 ? int64_t(number.getValue().getBoolValue()) : number.getValue().getSExtValue());
        else
          value = Scalar::of(cast<FloatAttr>(c.getValue()).getValue().convertToFloat());
        return [value](X) { return value; };
      })
      .Case([&](arith::AddIOp) { return ofIntegers([=](int64_t i, int64_t j) { return integer(__int128(i) + j); }); })
      .Case([&](arith::SubIOp) { return ofIntegers([=](int64_t i, int64_t j) { return integer(__int128(i) - j); }); })
      .Case([&](arith::MulIOp) { return ofIntegers([=](int64_t i, int64_t j) { return integer(__int128(i) * j); }); })
      .Case<arith::DivSIOp, arith::RemSIOp>([&](Operation *division) {
        return ofIntegers([width, divides = isa<arith::DivSIOp>(division)](int64_t i, int64_t j) {
          if (j == 0 || (j == -1 && i == (width == 32 ? int64_t(INT32_MIN) : INT64_MIN)))
            FAIL("undefined division " << i << " / " << j);
          return Scalar::of(divides ? i / j : i % j);
        });
      })
      .Case([&](arith::MinSIOp) { return ofIntegers([](int64_t i, int64_t j) { return Scalar::of(std::min(i, j)); }); })
      .Case([&](arith::MaxSIOp) { return ofIntegers([](int64_t i, int64_t j) { return Scalar::of(std::max(i, j)); }); })
      .Case([&](arith::AndIOp) { return ofIntegers([](int64_t i, int64_t j) { return Scalar::of(i & j); }); })
      .Case([&](arith::OrIOp) { return ofIntegers([](int64_t i, int64_t j) { return Scalar::of(i | j); }); })
      .Case([&](arith::XOrIOp) { return ofIntegers([](int64_t i, int64_t j) { return Scalar::of(i ^ j); }); })
      .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>([&](Operation *shift) {
        return ofIntegers([width, shift](int64_t i, int64_t j) {
          if (j < 0 || j >= int64_t(width))
            FAIL("undefined shift by " << j);
          if (isa<arith::ShRUIOp>(shift))
            return Scalar::of(wrap((width == 32 ? uint64_t(uint32_t(i)) : uint64_t(i)) >> j, width));
          return isa<arith::ShLIOp>(shift) ? Scalar::of(wrap(__int128(i) << j, width)) : Scalar::of(i >> j);
        });
      })
      .Case([&](math::AbsIOp) {
        return ofInteger([width](int64_t i) { return Scalar::of(wrap(i < 0 ? -__int128(i) : i, width)); });
      })
      .Case([&](arith::CmpIOp c) {
        return ofIntegers(
            [is = c.getPredicate()](int64_t i, int64_t j) { return Scalar::of(int64_t(compare(is, i, j))); });
      })
      .Case([&](arith::CmpFOp c) -> Rule {
        return [is = c.getPredicate()](X x) { return Scalar::of(int64_t(compare(is, x[0].real, x[1].real))); };
      })
      .Case([&](arith::SelectOp) -> Rule { return [](X x) { return x[0].integer ? x[1] : x[2]; }; })
      .Case([&](arith::ExtSIOp) { return ofInteger([=](int64_t i) { return Scalar::of(fromBool ? -i : i); }); })
      .Case([&](arith::ExtUIOp) {
        if (!fromBool)
          FAIL("extui of a number");
        return ofInteger([](int64_t i) { return Scalar::of(i); });
      })
      .Case([&](arith::TruncIOp) { return ofInteger([=](int64_t i) { return integer(i); }); })
      .Case([&](arith::BitcastOp) -> Rule {
        if (type.isF32())
          return [](X x) { return Scalar::of(std::bit_cast<float>(int32_t(x[0].integer))); };
        return [](X x) { return Scalar::of(int64_t(std::bit_cast<int32_t>(x[0].real))); };
      })
      .Case<arith::SIToFPOp, arith::UIToFPOp>(
          [&](Operation *) { return ofInteger([](int64_t i) { return Scalar::of(float(i)); }); })
      .Case([&](arith::FPToSIOp) -> Rule {
        return [width](X x) {
          const float a = x[0].real, limit = width == 32 ? 0x1p31f : 0x1p63f;
          if (!(a >= -limit && a < limit))
            FAIL("undefined cast of " << a);
          return Scalar::of(int64_t(a));
        };
      })
      .Case([&](arith::AddFOp) { return ofFloats([](float a, float b) { return a + b; }); })
      .Case([&](arith::SubFOp) { return ofFloats([](float a, float b) { return a - b; }); })
      .Case([&](arith::MulFOp) { return ofFloats([](float a, float b) { return a * b; }); })
      .Case([&](arith::DivFOp) { return ofFloats([](float a, float b) { return a / b; }); })
      .Case([&](arith::NegFOp) { return ofFloat([](float a) { return -a; }); })
      .Case([&](arith::MinNumFOp) { return ofFloats([](float a, float b) { return std::fmin(a, b); }); })
      .Case([&](arith::MaxNumFOp) { return ofFloats([](float a, float b) { return std::fmax(a, b); }); })
      .Case([&](math::AbsFOp) { return ofFloat([](float a) { return std::fabs(a); }); })
#define ATTUNE_FUNCTION1(op, name, host, mlir, ...) .Case([&](mlir) { return ofFloat([](float x) { return host; }); })
#define ATTUNE_FUNCTION2(op, name, host, mlir, ...)                                                                    \
  .Case([&](mlir) { return ofFloats([](float x, float y) { return host; }); })
#include "attune/Functions.def"
      .Default([&](Operation *) -> Rule {
        FAIL("no rule for " << name.str());
        return {};
      });
}
