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
  SmallVector<Scalar> x;
  for (Value operand : op.getOperands())
    x.push_back(get(operand));
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrFloat() ||
      !(isa<arith::ArithDialect, math::MathDialect>(op.getDialect()))) {
    Scalar result = leaf(&op, x);
    if (op.getNumResults())
      set(op.getResult(0), result);
    return;
  }
  Type type = op.getResult(0).getType();
  unsigned width = type.getIntOrFloatBitWidth();
  auto integer = [&](__int128 value) {
    int64_t wrapped = wrap(value, width);
    if (!mayWrap && width > 1 && wrapped != value)
      FAIL("overflow in " << op.getName().getStringRef().str());
    return Scalar::of(wrapped);
  };
  auto real = [](float value) { return Scalar::of(value); };
  auto exact = [](bool value) { return Scalar::of(int64_t(value)); };
  int64_t i = x.size() > 0 ? x[0].integer : 0, j = x.size() > 1 ? x[1].integer : 0;
  float a = x.size() > 0 ? x[0].real : 0, b = x.size() > 1 ? x[1].real : 0;

  Scalar result =
      llvm::TypeSwitch<Operation *, Scalar>(&op)
          .Case([&](arith::ConstantOp c) {
            if (auto value = dyn_cast<IntegerAttr>(c.getValue()))
              return Scalar::of(width == 1 ? int64_t(value.getValue().getBoolValue())
                                           : value.getValue().getSExtValue());
            return real(cast<FloatAttr>(c.getValue()).getValue().convertToFloat());
          })
          .Case([&](arith::AddIOp) { return integer(__int128(i) + j); })
          .Case([&](arith::SubIOp) { return integer(__int128(i) - j); })
          .Case([&](arith::MulIOp) { return integer(__int128(i) * j); })
          .Case<arith::DivSIOp, arith::RemSIOp>([&](Operation *division) {
            if (j == 0 || (j == -1 && i == (width == 32 ? int64_t(INT32_MIN) : INT64_MIN)))
              FAIL("undefined division " << i << " / " << j);
            return Scalar::of(isa<arith::DivSIOp>(division) ? i / j : i % j);
          })
          .Case([&](arith::MinSIOp) { return Scalar::of(std::min(i, j)); })
          .Case([&](arith::MaxSIOp) { return Scalar::of(std::max(i, j)); })
          .Case([&](arith::AndIOp) { return Scalar::of(i & j); })
          .Case([&](arith::OrIOp) { return Scalar::of(i | j); })
          .Case([&](arith::XOrIOp) { return Scalar::of(i ^ j); })
          .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>([&](Operation *shift) {
            if (j < 0 || j >= int64_t(width))
              FAIL("undefined shift by " << j);
            if (isa<arith::ShRUIOp>(shift))
              return Scalar::of(wrap((width == 32 ? uint64_t(uint32_t(i)) : uint64_t(i)) >> j, width));
            return isa<arith::ShLIOp>(shift) ? Scalar::of(wrap(__int128(i) << j, width)) : Scalar::of(i >> j);
          })
          .Case([&](math::AbsIOp) { return Scalar::of(wrap(i < 0 ? -__int128(i) : i, width)); })
          .Case([&](arith::CmpIOp c) { return exact(compare(c.getPredicate(), i, j)); })
          .Case([&](arith::CmpFOp c) { return exact(compare(c.getPredicate(), a, b)); })
          .Case([&](arith::SelectOp) { return i ? x[1] : x[2]; })
          .Case([&](arith::ExtSIOp) { return Scalar::of(op.getOperand(0).getType().isInteger(1) ? -i : i); })
          .Case([&](arith::ExtUIOp) {
            if (!op.getOperand(0).getType().isInteger(1))
              FAIL("extui of a number");
            return Scalar::of(i);
          })
          .Case([&](arith::TruncIOp) { return integer(i); })
          .Case([&](arith::BitcastOp) {
            return type.isF32() ? real(std::bit_cast<float>(int32_t(i)))
                                : Scalar::of(int64_t(std::bit_cast<int32_t>(a)));
          })
          .Case([&](arith::SIToFPOp) { return real(float(i)); })
          .Case([&](arith::UIToFPOp) { return real(float(i)); })
          .Case([&](arith::FPToSIOp) {
            if (!(a >= (width == 32 ? -0x1p31f : -0x1p63f) && a < (width == 32 ? 0x1p31f : 0x1p63f)))
              FAIL("undefined cast of " << a);
            return Scalar::of(int64_t(a));
          })
          .Case([&](arith::AddFOp) { return real(a + b); })
          .Case([&](arith::SubFOp) { return real(a - b); })
          .Case([&](arith::MulFOp) { return real(a * b); })
          .Case([&](arith::DivFOp) { return real(a / b); })
          .Case([&](arith::NegFOp) { return real(-a); })
          .Case([&](arith::MinNumFOp) { return real(std::fmin(a, b)); })
          .Case([&](arith::MaxNumFOp) { return real(std::fmax(a, b)); })
          .Case([&](math::AbsFOp) { return real(std::fabs(a)); })
#define ATTUNE_FUNCTION1(op, name, host, mlir, ...)                                                                    \
  .Case([&](mlir) {                                                                                                    \
    const float x = a;                                                                                                 \
    return real(host);                                                                                                 \
  })
#define ATTUNE_FUNCTION2(op, name, host, mlir, ...)                                                                    \
  .Case([&](mlir) {                                                                                                    \
    const float x = a, y = b;                                                                                          \
    return real(host);                                                                                                 \
  })
#include "attune/Functions.def"
          .Default([&](Operation *other) {
            FAIL("no rule for " << other->getName().getStringRef().str());
            return Scalar{};
          });
  set(op.getResult(0), result);
}
