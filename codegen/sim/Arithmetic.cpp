//===- Arithmetic.cpp - Functions that execute scalar ops, one line per op -===//

#include "codegen/sim/Arithmetic.h"

#include "codegen/sim/Apply.h"
#include "codegen/sim/Numbers.h"
#include "ir/sched/Sched.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <bit>
#include <cmath>

using namespace mlir;
using namespace attune;
using namespace attune::sim;

namespace {

/// The function that executes a step by applying `f` to `arity` operands of type T; null if `f` does not
/// take `arity` operands.
template <auto f, typename T> Run onType(unsigned arity) {
  if constexpr (std::is_invocable_v<decltype(f), T>)
    return arity == 1 ? &apply<f, T> : nullptr;
  else if constexpr (std::is_invocable_v<decltype(f), T, T>)
    return arity == 2 ? &apply<f, T, T> : nullptr;
  else
    return arity == 3 ? &apply<f, T, T, T> : nullptr;
}
template <auto f> Run floats(Operation *op) { return onType<f, float>(op->getNumOperands()); }
/// The function that applies `f` to the operands of `op`, which have type i32 or i64; null for other types.
template <auto f> Run integers(Operation *op) {
  Type type = op->getOperand(0).getType();
  return type.isInteger(32)   ? onType<f, int32_t>(op->getNumOperands())
         : type.isInteger(64) ? onType<f, int64_t>(op->getNumOperands())
                              : nullptr;
}
/// The function that applies `f` to the operands of `op`, which have type i1 (passed to `f` as bool), i32 or i64; null
/// for other types.
template <auto f> Run bits(Operation *op) {
  return op->getOperand(0).getType().isInteger(1) ? onType<f, bool>(op->getNumOperands()) : integers<f>(op);
}
/// The function that executes a step by applying `f` to one operand of type `From`.
template <auto f, typename From> Run cast() { return &apply<f, From>; }

template <typename T> constexpr bool isBool = std::is_same_v<T, bool>;
template <typename T> auto natural(T x) {
  if constexpr (isBool<T>)
    return x;
  else
    return std::make_unsigned_t<T>(x);
}
/// The operand as a signed integer; an i1 that is true is -1.
template <typename T> auto whole(T x) {
  if constexpr (isBool<T>)
    return x ? -1 : 0;
  else
    return x;
}
template <typename T> int shiftOf(T count) { return int(natural(count) % (8 * sizeof(T))); }

Run compareIntegers(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  switch (op.getPredicate()) {
  case P::eq:
    return bits<[](auto a, decltype(a) b) { return a == b; }>(op);
  case P::ne:
    return bits<[](auto a, decltype(a) b) { return a != b; }>(op);
  case P::slt:
    return bits<[](auto a, decltype(a) b) { return whole(a) < whole(b); }>(op);
  case P::sle:
    return bits<[](auto a, decltype(a) b) { return whole(a) <= whole(b); }>(op);
  case P::sgt:
    return bits<[](auto a, decltype(a) b) { return (whole(a) > whole(b)); }>(op);
  case P::sge:
    return bits<[](auto a, decltype(a) b) { return (whole(a) >= whole(b)); }>(op);
  case P::ult:
    return bits<[](auto a, decltype(a) b) { return natural(a) < natural(b); }>(op);
  case P::ule:
    return bits<[](auto a, decltype(a) b) { return natural(a) <= natural(b); }>(op);
  case P::ugt:
    return bits<[](auto a, decltype(a) b) { return (natural(a) > natural(b)); }>(op);
  case P::uge:
    return bits<[](auto a, decltype(a) b) { return (natural(a) >= natural(b)); }>(op);
  }
  llvm_unreachable("unknown predicate");
}

Run compareFloats(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return floats<[](float, float) { return false; }>(op);
  case P::OEQ:
    return floats<[](float a, float b) { return a == b; }>(op);
  case P::OGT:
    return floats<[](float a, float b) { return (a > b); }>(op);
  case P::OGE:
    return floats<[](float a, float b) { return a >= b; }>(op);
  case P::OLT:
    return floats<[](float a, float b) { return a < b; }>(op);
  case P::OLE:
    return floats<[](float a, float b) { return a <= b; }>(op);
  case P::ONE:
    return floats<[](float a, float b) { return (a < b || a > b); }>(op);
  case P::ORD:
    return floats<[](float a, float b) { return !std::isunordered(a, b); }>(op);
  case P::UEQ:
    return floats<[](float a, float b) { return !(a < b || a > b); }>(op);
  case P::UGT:
    return floats<[](float a, float b) { return !(a <= b); }>(op);
  case P::UGE:
    return floats<[](float a, float b) { return !(a < b); }>(op);
  case P::ULT:
    return floats<[](float a, float b) { return !(a >= b); }>(op);
  case P::ULE:
    return floats<[](float a, float b) { return !(a > b); }>(op);
  case P::UNE:
    return floats<[](float a, float b) { return a != b; }>(op);
  case P::UNO:
    return floats<[](float a, float b) { return std::isunordered(a, b); }>(op);
  case P::AlwaysTrue:
    return floats<[](float, float) { return true; }>(op);
  }
  llvm_unreachable("unknown predicate");
}

template <typename To, typename From32, typename From64> Run fromInteger(Type from) {
  if (from.isInteger(1))
    return cast<[](bool x) { return To(std::is_signed_v<From32> ? -int(x) : int(x)); }, bool>();
  if (from.isInteger(32))
    return cast<[](int32_t x) { return To(From32(x)); }, int32_t>();
  return from.isInteger(64) ? cast<[](int64_t x) { return To(From64(x)); }, int64_t>() : nullptr;
}

Run integerStep(Operation *op) {
  return llvm::TypeSwitch<Operation *, Run>(op)
      .Case([](arith::AddIOp o) { return bits<[](auto a, decltype(a) b) { return add(a, b); }>(o); })
      .Case([](arith::SubIOp o) { return bits<[](auto a, decltype(a) b) { return subtract(a, b); }>(o); })
      .Case([](arith::MulIOp o) { return bits<[](auto a, decltype(a) b) { return times(a, b); }>(o); })
      .Case([](arith::DivSIOp o) { return integers<[](auto a, decltype(a) b) { return divide(a, b); }>(o); })
      .Case([](arith::RemSIOp o) { return integers<[](auto a, decltype(a) b) { return remainder(a, b); }>(o); })
      .Case([](arith::DivUIOp o) { return integers<[](auto a, decltype(a) b) { return divideUnsigned(a, b); }>(o); })
      .Case([](arith::RemUIOp o) { return integers<[](auto a, decltype(a) b) { return remainderUnsigned(a, b); }>(o); })
      .Case([](arith::FloorDivSIOp o) { return integers<[](auto a, decltype(a) b) { return divideDown(a, b); }>(o); })
      .Case([](arith::CeilDivSIOp o) { return integers<[](auto a, decltype(a) b) { return divideUp(a, b); }>(o); })
      .Case([](arith::MinSIOp o) { return integers<[](auto a, decltype(a) b) { return std::min(a, b); }>(o); })
      .Case([](arith::MaxSIOp o) { return integers<[](auto a, decltype(a) b) { return std::max(a, b); }>(o); })
      .Case([](arith::CeilDivUIOp o) {
        return integers<[](auto a, decltype(a) b) { return divideUnsigned(a, b) + (remainderUnsigned(a, b) != 0); }>(o);
      })
      .Case([](math::CountTrailingZerosOp o) {
        return integers<[](auto a) { return decltype(a)(std::countr_zero(natural(a))); }>(o);
      })
      .Case([](arith::MinUIOp o) {
        return integers<[](auto a, decltype(a) b) { return natural(a) < natural(b) ? a : b; }>(o);
      })
      .Case([](arith::MaxUIOp o) {
        return integers<[](auto a, decltype(a) b) { return natural(b) < natural(a) ? a : b; }>(o);
      })
      .Case([](arith::AndIOp o) { return bits<[]<typename T>(T a, T b) { return T(a & b); }>(o); })
      .Case([](arith::OrIOp o) { return bits<[]<typename T>(T a, T b) { return T(a | b); }>(o); })
      .Case([](arith::XOrIOp o) { return bits<[]<typename T>(T a, T b) { return T(a ^ b); }>(o); })
      .Case(
          [](arith::ShLIOp o) { return integers<[]<typename T>(T a, T b) { return T(natural(a) << shiftOf(b)); }>(o); })
      .Case([](arith::ShRUIOp o) {
        return integers<[]<typename T>(T a, T b) { return T(natural(a) >> shiftOf(b)); }>(o);
      })
      .Case([](arith::ShRSIOp o) { return integers<[]<typename T>(T a, T b) { return T(a >> shiftOf(b)); }>(o); })
      .Case([](math::AbsIOp o) { return integers<[]<typename T>(T a) { return a < 0 ? subtract(T(0), a) : a; }>(o); })
      .Case([](arith::CmpIOp o) { return compareIntegers(o); })
      .Default([](Operation *) { return nullptr; });
}

/// The function that executes `op` if `op` is a conversion between types or an arith.select; else null.
Run conversion(Operation *op) {
  Type from = op->getNumOperands() ? op->getOperand(0).getType() : Type(), to = op->getResult(0).getType();
  return llvm::TypeSwitch<Operation *, Run>(op)
      .Case([&](arith::SelectOp) -> Run {
        if (to.isF32())
          return &apply<[](bool c, float a, float b) { return c ? a : b; }, bool, float, float>;
        if (to.isInteger(1))
          return &apply<[](bool c, bool a, bool b) { return c ? a : b; }, bool, bool, bool>;
        if (to.isInteger(32))
          return &apply<[](bool c, int32_t a, int32_t b) { return c ? a : b; }, bool, int32_t, int32_t>;
        return to.isInteger(64) ? &apply<[](bool c, int64_t a, int64_t b) { return c ? a : b; }, bool, int64_t, int64_t>
                                : nullptr;
      })
      .Case([&](arith::ExtSIOp) {
        return to.isInteger(64) ? fromInteger<int64_t, int32_t, int64_t>(from)
                                : fromInteger<int32_t, int32_t, int64_t>(from);
      })
      .Case([&](arith::ExtUIOp) {
        return to.isInteger(64) ? fromInteger<int64_t, uint32_t, uint64_t>(from)
                                : fromInteger<int32_t, uint32_t, uint64_t>(from);
      })
      .Case([&](arith::TruncIOp) -> Run {
        if (to.isInteger(32))
          return cast<[](int64_t x) { return int32_t(x); }, int64_t>();
        return from.isInteger(64) ? cast<[](int64_t x) { return (x & 1) != 0; }, int64_t>()
                                  : cast<[](int32_t x) { return (x & 1) != 0; }, int32_t>();
      })
      .Case([&](arith::SIToFPOp) { return fromInteger<float, int32_t, int64_t>(from); })
      .Case([&](arith::UIToFPOp) { return fromInteger<float, uint32_t, uint64_t>(from); })
      .Case([&](arith::FPToSIOp) {
        return to.isInteger(64) ? cast<[](float x) { return toInteger<int64_t>(x); }, float>()
                                : cast<[](float x) { return toInteger<int32_t>(x); }, float>();
      })
      .Case([&](arith::BitcastOp) -> Run {
        if (from.isF32() && to.isInteger(32))
          return cast<[](float x) { return std::bit_cast<int32_t>(x); }, float>();
        return from.isInteger(32) && to.isF32() ? cast<[](int32_t x) { return std::bit_cast<float>(x); }, int32_t>()
                                                : nullptr;
      })
      .Default([](Operation *) { return nullptr; });
}

Run floatStep(Operation *op) {
  return llvm::TypeSwitch<Operation *, Run>(op)
      .Case([](arith::AddFOp o) { return floats<[](float a, float b) { return a + b; }>(o); })
      .Case([](arith::SubFOp o) { return floats<[](float a, float b) { return a - b; }>(o); })
      .Case([](arith::MulFOp o) { return floats<[](float a, float b) { return a * b; }>(o); })
      .Case([](arith::DivFOp o) { return floats<[](float a, float b) { return a / b; }>(o); })
      .Case([](arith::RemFOp o) { return floats<[](float a, float b) { return std::fmod(a, b); }>(o); })
      .Case([](arith::NegFOp o) { return floats<[](float a) { return -a; }>(o); })
      .Case([](arith::MaximumFOp o) {
        return floats<[](float a, float b) { return std::isunordered(a, b) ? std::nanf("") : std::fmax(a, b); }>(o);
      })
      .Case([](arith::MinimumFOp o) {
        return floats<[](float a, float b) { return std::isunordered(a, b) ? std::nanf("") : std::fmin(a, b); }>(o);
      })
      .Case([](arith::MaxNumFOp o) { return floats<[](float a, float b) { return b < a || b != b ? a : b; }>(o); })
      .Case([](arith::MinNumFOp o) { return floats<[](float a, float b) { return a < b || b != b ? a : b; }>(o); })
      .Case([](arith::CmpFOp o) { return compareFloats(o); })
      .Case([](math::FmaOp o) { return floats<[](float a, float b, float c) { return std::fma(a, b, c); }>(o); })
      .Case([](math::AbsFOp o) { return floats<[](float a) { return std::fabs(a); }>(o); })
      .Case([](math::FloorOp o) { return floats<[](float a) { return std::floor(a); }>(o); })
      .Case([](math::CeilOp o) { return floats<[](float a) { return std::ceil(a); }>(o); })
      .Case([](math::TruncOp o) { return floats<[](float a) { return std::trunc(a); }>(o); })
      .Case([](math::RoundOp o) { return floats<[](float a) { return std::round(a); }>(o); })
      .Case([](math::RoundEvenOp o) { return floats<[](float a) { return std::nearbyint(a); }>(o); })
      .Default([](Operation *) { return nullptr; });
}

Run mathFunction(Operation *op) {
  return llvm::TypeSwitch<Operation *, Run>(op)
#define ATTUNE_FUNCTION1(op, name, value, mlir, ...)                                                                   \
  .Case([](mlir o) { return floats<[](float x) { return value; }>(o); })
#define ATTUNE_FUNCTION2(op, name, value, mlir, ...)                                                                   \
  .Case([](mlir o) { return floats<[](float x, float y) { return value; }>(o); })
#include "attune/Functions.def"
      .Case([](math::ExpM1Op o) { return floats<[](float a) { return std::expm1(a); }>(o); })
      .Case([](math::Log10Op o) { return floats<[](float a) { return std::log10(a); }>(o); })
      .Default([](Operation *) { return nullptr; });
}

/// max(a, 0), except that NaN stays NaN.
float rectified(float a) { return a < 0 ? 0.0f : a; }

template <auto round>
constexpr Run pack =
    &apply<[](float low, float high) { return int32_t(round(low) | uint32_t(round(high)) << 16); }, float, float>;

/// The function that executes `op` if `op` is sched.pack, sched.unpack, sched.columns_below, sched.test_bit,
/// sched.after or tile.mul_finite; else null.
Run format(Operation *op) {
  return llvm::TypeSwitch<Operation *, Run>(op)
      .Case([](sched::PackOp o) -> Run {
        if (o.getType().isBF16())
          return o.getRelu() ? pack<[](float a) { return toBf16(rectified(a)); }> : pack<toBf16>;
        if (o.getType().isF16())
          return o.getRelu() ? pack<[](float a) { return toF16(rectified(a)); }> : pack<toF16>;
        return nullptr;
      })
      .Case([](tile::MulFiniteOp o) { return floats<[](float a, float b) { return multiplyTowardZero(a, b); }>(o); })
      .Case([](sched::AfterOp) -> Run { return &apply<[](float value, float) { return value; }, float, float>; })
      .Case([](sched::ColumnsBelowOp) -> Run {
        return &apply<[](int32_t bound) {
          uint32_t columns = 0;
          for (int bit = 0; bit < 32; ++bit)
            columns |= uint32_t(bit / 2 * 8 + bit % 2 < bound) << bit;
          return int32_t(columns);
        },
                      int32_t>;
      })
      .Case([](sched::TestBitOp) -> Run {
        return &apply<[](int32_t word, int32_t index) { return (uint32_t(word) >> (index & 31) & 1) != 0; }, int32_t,
                      int32_t>;
      })
      .Case([](sched::UnpackOp o) -> Run {
        if (o.getType().isBF16())
          return &apply<[](int32_t pair, int32_t high) {
            return fromBf16(uint16_t(uint32_t(pair) >> (high ? 16 : 0)));
          },
                        int32_t, int32_t>;
        return o.getType().isF16() ? &apply<[](int32_t pair, int32_t high) {
          return fromF16(uint16_t(uint32_t(pair) >> (high ? 16 : 0)));
        },
                                            int32_t, int32_t>
                                   : nullptr;
      })
      .Default([](Operation *) { return nullptr; });
}

} // namespace

Run sim::arithmetic(Operation *op) {
  for (auto step : {integerStep, conversion, floatStep, mathFunction, format})
    if (Run run = step(op))
      return run;
  return nullptr;
}
