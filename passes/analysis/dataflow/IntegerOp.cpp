//===- IntegerOp.cpp - Evaluates scalar integer ops --------------------------===//

#include "passes/analysis/dataflow/IntegerOp.h"

#include "ir/sched/Sched.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;

static std::optional<IntegerOp::Kind> kindOf(Operation *op) {
  using Kind = IntegerOp::Kind;
  return TypeSwitch<Operation *, std::optional<Kind>>(op)
      .Case([](arith::AddIOp) { return Kind::Add; })
      .Case([](arith::SubIOp) { return Kind::Sub; })
      .Case([](arith::MulIOp) { return Kind::Mul; })
      .Case([](arith::DivSIOp) { return Kind::DivS; })
      .Case([](arith::RemSIOp) { return Kind::RemS; })
      .Case([](arith::DivUIOp) { return Kind::DivU; })
      .Case([](arith::RemUIOp) { return Kind::RemU; })
      .Case([](arith::FloorDivSIOp) { return Kind::FloorDivS; })
      .Case([](arith::CeilDivSIOp) { return Kind::CeilDivS; })
      .Case([](arith::CeilDivUIOp) { return Kind::CeilDivU; })
      .Case([](arith::MinSIOp) { return Kind::MinS; })
      .Case([](arith::MaxSIOp) { return Kind::MaxS; })
      .Case([](arith::MinUIOp) { return Kind::MinU; })
      .Case([](arith::MaxUIOp) { return Kind::MaxU; })
      .Case([](arith::AndIOp) { return Kind::And; })
      .Case([](arith::OrIOp) { return Kind::Or; })
      .Case([](arith::XOrIOp) { return Kind::Xor; })
      .Case([](arith::ShLIOp) { return Kind::ShL; })
      .Case([](arith::ShRUIOp) { return Kind::ShRU; })
      .Case([](arith::ShRSIOp) { return Kind::ShRS; })
      .Case([](arith::SelectOp) { return Kind::Select; })
      .Case([](math::CountTrailingZerosOp) { return Kind::CountTrailingZeros; })
      .Case<sched::UniformOp, sched::NonnegativeOp, sched::OpaqueOp>([](auto) { return Kind::Same; })
      .Case([](arith::ExtSIOp) { return Kind::ExtS; })
      .Case([](arith::ExtUIOp) { return Kind::ExtU; })
      .Case<arith::TruncIOp, arith::IndexCastOp>([](auto) { return Kind::Wrap; })
      .Case([](arith::CmpIOp) { return Kind::Compare; })
      .Case([](sched::TestBitOp) { return Kind::TestBit; })
      .Default(std::optional<Kind>());
}

static unsigned widthOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

std::optional<IntegerOp> IntegerOp::of(Operation *op) {
  std::optional<Kind> kind = kindOf(op);
  if (!kind || !op->getResult(0).getType().isSignlessIntOrIndex() ||
      !llvm::all_of(op->getOperandTypes(), [](Type type) { return type.isSignlessIntOrIndex(); }))
    return std::nullopt;
  IntegerOp result;
  result.kind = *kind;
  result.width = widthOf(op->getResult(0).getType());
  result.operandWidth = widthOf(op->getOperand(op->getNumOperands() - 1).getType());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    result.predicate = compare.getPredicate();
  return result;
}

int64_t IntegerOp::wrap(uint64_t value) const {
  if (width == 1)
    return value & 1;
  return width == 64 ? int64_t(value) : llvm::SignExtend64(value, width);
}

std::optional<int64_t> IntegerOp::divide(int64_t a, int64_t b) const {
  if (b == 0)
    return std::nullopt;
  const uint64_t mask = operandWidth == 64 ? ~uint64_t(0) : (uint64_t(1) << operandWidth) - 1;
  const uint64_t ua = uint64_t(a) & mask, ub = uint64_t(b) & mask;
  switch (kind) {
  case Kind::DivU:
    return wrap(ua / ub);
  case Kind::RemU:
    return wrap(ua % ub);
  case Kind::CeilDivU:
    return wrap(llvm::divideCeil(ua, ub));
  case Kind::RemS:
    return b == -1 ? 0 : a % b;
  default:
    break;
  }
  if (b == -1)
    return wrap(-uint64_t(a));
  return kind == Kind::DivS        ? a / b
         : kind == Kind::FloorDivS ? llvm::divideFloorSigned(a, b)
                                   : llvm::divideCeilSigned(a, b);
}

std::optional<int64_t> IntegerOp::apply(ArrayRef<int64_t> x) const {
  const uint64_t mask = operandWidth == 64 ? ~uint64_t(0) : (uint64_t(1) << operandWidth) - 1;
  auto bits = [&](unsigned i) { return uint64_t(x[i]) & mask; };
  auto asSigned = [&](unsigned i) { return operandWidth == 1 ? -x[i] : x[i]; };
  switch (kind) {
  case Kind::Add:
    return wrap(uint64_t(x[0]) + uint64_t(x[1]));
  case Kind::Sub:
    return wrap(uint64_t(x[0]) - uint64_t(x[1]));
  case Kind::Mul:
    return wrap(uint64_t(x[0]) * uint64_t(x[1]));
  case Kind::DivS:
  case Kind::RemS:
  case Kind::DivU:
  case Kind::RemU:
  case Kind::FloorDivS:
  case Kind::CeilDivS:
  case Kind::CeilDivU:
    return divide(x[0], x[1]);
  case Kind::MinS:
    return std::min(x[0], x[1]);
  case Kind::MaxS:
    return std::max(x[0], x[1]);
  case Kind::MinU:
    return wrap(std::min(bits(0), bits(1)));
  case Kind::MaxU:
    return wrap(std::max(bits(0), bits(1)));
  case Kind::And:
    return x[0] & x[1];
  case Kind::Or:
    return x[0] | x[1];
  case Kind::Xor:
    return x[0] ^ x[1];
  case Kind::ShL:
    return bits(1) < width ? wrap(uint64_t(x[0]) << bits(1)) : 0;
  case Kind::ShRU:
    return bits(1) < width ? wrap(bits(0) >> bits(1)) : 0;
  case Kind::ShRS:
    return bits(1) < width ? x[0] >> bits(1) : 0;
  case Kind::Select:
    return x[0] ? x[1] : x[2];
  case Kind::CountTrailingZeros:
    return bits(0) ? llvm::countr_zero(bits(0)) : operandWidth;
  case Kind::Same:
    return x[0];
  case Kind::ExtS:
    return asSigned(0);
  case Kind::ExtU:
    return int64_t(bits(0));
  case Kind::Wrap:
    return wrap(uint64_t(x[0]));
  case Kind::Compare:
    return arith::applyCmpPredicate(predicate, APInt(64, asSigned(0), true), APInt(64, asSigned(1), true));
  case Kind::TestBit:
    return x[0] >> (x[1] & 31) & 1;
  }
  llvm_unreachable("a kind of IntegerOp");
}
