//===- LongAccumulator.cpp - Arithmetic of order-independent float32 sums ---===//

#include "passes/attn/LongAccumulator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using Predicate = arith::CmpIPredicate;

namespace {

constexpr int64_t exponentsOfWord = 4, fractionBits = 23, fractionMask = (1 << fractionBits) - 1, greatestField = 255;
/// The words (64-bit integers of the accumulator) that count inf, -inf and NaN follow the words of finite numbers.
constexpr int64_t infinityWord = (greatestField + 1) / exponentsOfWord, nanWord = infinityWord + 2;
static_assert(nanWord + 1 == attune::accumulator::words);

/// Shorthand for i32 arithmetic.
struct Bits {
  OpBuilder &builder;
  Location loc;

  Value number(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value of(Value x) { return arith::BitcastOp::create(builder, loc, builder.getI32Type(), x); }
  Value asFloat(Value bits) { return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits); }
  Value shiftRight(Value a, int64_t by) { return arith::ShRUIOp::create(builder, loc, a, number(by)); }
  Value mask(Value a, int64_t by) { return arith::AndIOp::create(builder, loc, a, number(by)); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value compare(Predicate predicate, Value a, int64_t b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, number(b));
  }
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }

  Value exponentField(Value bits) { return mask(shiftRight(bits, fractionBits), greatestField); }
  Value isFinite(Value field) { return compare(Predicate::ne, field, greatestField); }
};

} // namespace

Value attune::accumulator::wordOf(OpBuilder &builder, Location loc, Value x) {
  Bits i{builder, loc};
  Value bits = i.of(x), field = i.exponentField(bits);
  Value ofInfinity = i.add(i.shiftRight(bits, 31), i.number(infinityWord));
  Value isNan = i.compare(Predicate::ne, i.mask(bits, fractionMask), 0);
  return i.select(i.isFinite(field), i.shiftRight(field, llvm::Log2_64(exponentsOfWord)),
                  i.select(isNan, i.number(nanWord), ofInfinity));
}

Value attune::accumulator::addendOf(OpBuilder &builder, Location loc, Value x) {
  Bits i{builder, loc};
  Value bits = i.of(x), field = i.exponentField(bits), fraction = i.mask(bits, fractionMask);
  // A normal number has an implicit leading one; a subnormal number counts as exponent field 1.
  Value isNormal = i.compare(Predicate::ne, field, 0);
  Value significand = i.select(isNormal, i.add(fraction, i.number(fractionMask + 1)), fraction);
  Value shift = i.select(isNormal, i.mask(field, exponentsOfWord - 1), i.number(1));
  Value magnitude = arith::ShLIOp::create(builder, loc, significand, shift);
  Value negated = arith::SubIOp::create(builder, loc, i.number(0), magnitude);
  Value addend = i.select(i.compare(Predicate::slt, bits, 0), negated, magnitude);
  return i.select(i.isFinite(field), addend, i.number(1));
}

Value attune::accumulator::valueOf(OpBuilder &builder, Location loc, Value word, Value index) {
  Bits i{builder, loc};
  // 2^(4 w - 150) itself may not be a float32, so the word's count is multiplied twice by 2^(2 w - 75); 127 is the bias
  // of float32 exponents.
  Value half = i.add(i.add(index, index), i.number(127 - 75));
  Value factor = i.asFloat(arith::ShLIOp::create(builder, loc, half, i.number(fractionBits)));
  Value count = arith::SIToFPOp::create(builder, loc, builder.getF32Type(), word);
  Value finite =
      arith::MulFOp::create(builder, loc, arith::MulFOp::create(builder, loc, count, factor).getResult(), factor);
  Value none = arith::ConstantIntOp::create(builder, loc, 0, 64);
  Value isThere = arith::CmpIOp::create(builder, loc, Predicate::ne, word, none);
  Value infinity =
      i.select(i.compare(Predicate::eq, index, infinityWord), i.number(0x7f800000), i.number(int32_t(0xff800000)));
  Value bits = i.select(i.compare(Predicate::eq, index, nanWord), i.number(0x7fc00000), infinity);
  Value other = i.asFloat(i.select(isThere, bits, i.number(0)));
  return i.select(i.compare(Predicate::slt, index, infinityWord), finite, other);
}
