//===- VectorMath.cpp - float32 functions on vectors ------------------------===//

#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace attune;

namespace {

/// Emits arithmetic on values of one type, f32 or vector<f32>.
class Arithmetic {
public:
  Arithmetic(ImplicitLocOpBuilder &b, Type type, const HostVectors &host) : b(b), type(type), host(host) {}

  Value constant(float value) { return splat(b.getF32FloatAttr(value), type); }
  Value constant(int32_t value) { return splat(b.getI32IntegerAttr(value), intType()); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value fma(Value x, float y, Value z) { return fma(x, constant(y), z); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, intType(), x); }
  Value floatOf(Value bits) { return arith::BitcastOp::create(b, type, bits); }

  /// Clamps x to [low, high]; NaN stays NaN.
  Value clamp(Value x, float low, float high) {
    Value l = constant(low), h = constant(high);
    x = select(less(x, l), l, x);
    return select(less(h, x), h, x);
  }

  /// c[0] * x^(n-1) + ... + c[n-1].
  Value polynomial(Value x, ArrayRef<float> c) {
    Value y = constant(c.front());
    for (float next : c.drop_front())
      y = fma(x, y, constant(next));
    return y;
  }

  /// Rounds x to an integer, returned as a float and as an i32. Requires |x| < 2^22.
  std::pair<Value, Value> round(Value x) {
    constexpr float magic = 12582912.0f; // 1.5 * 2^23: the low mantissa bits of x + magic hold the integer
    Value shifted = add(x, constant(magic));
    Value n = arith::SubIOp::create(b, bits(shifted), constant(int32_t(0x4B400000)));
    return {sub(shifted, constant(magic)), n};
  }

  /// y * 2^n for n in [-252, 252]. Two multiplications by about 2^(n/2) keep denormal and infinite results correct.
  Value scale(Value y, Value nFloat, Value n) {
    if (auto vector = dyn_cast<VectorType>(type); vector && host.avx512 && vector.getNumElements() == 16) {
      Value all = arith::ConstantOp::create(b, b.getI16IntegerAttr(-1));
      Value current = arith::ConstantOp::create(b, b.getI32IntegerAttr(4));
      return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                           ValueRange{y, nFloat, y, all, current})
          .getResult(0);
    }
    Value first = arith::ShRSIOp::create(b, n, constant(int32_t(1)));
    Value second = arith::SubIOp::create(b, n, first);
    for (Value part : {first, second}) {
      Value biased = arith::AddIOp::create(b, part, constant(int32_t(127)));
      y = mul(y, floatOf(arith::ShLIOp::create(b, biased, constant(int32_t(23)))));
    }
    return y;
  }

  Value exp2(Value x) {
    x = clamp(x, -151, 129);
    auto [nFloat, n] = round(x);
    Value f = sub(x, nFloat);
    Value y = polynomial(f, {1.535336188319500e-4f, 1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f,
                             2.402264791363012e-1f, 6.931472028550421e-1f, 1.0f});
    return scale(y, nFloat, n);
  }

  Value exp(Value x) {
    x = clamp(x, -105, 89);
    auto [nFloat, n] = round(mul(x, constant(1.44269504088896341f)));
    Value f = fma(nFloat, -0.693359375f, x);
    f = fma(nFloat, 2.12194440e-4f, f);
    Value y = polynomial(f, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                             5.0000001201e-1f});
    y = add(fma(mul(f, f), y, f), constant(1.0f));
    return scale(y, nFloat, n);
  }

  /// log(x), or log2(x) with `binary`.
  Value log(Value x, bool binary) {
    Value zero = constant(0.0f), infinity = constant(std::numeric_limits<float>::infinity());
    Value tiny = less(x, constant(std::numeric_limits<float>::min()));
    Value normal = select(tiny, mul(x, constant(8388608.0f)), x);
    // Split normal = m * 2^e with m in [sqrt(1/2), sqrt(2)).
    Value offset = arith::SubIOp::create(b, bits(normal), constant(int32_t(0x3f3504f3)));
    Value e = arith::ShRSIOp::create(b, offset, constant(int32_t(23)));
    Value m = floatOf(arith::SubIOp::create(b, bits(normal), arith::ShLIOp::create(b, e, constant(int32_t(23)))));
    Value exponent = arith::SIToFPOp::create(b, type, e);
    exponent = sub(exponent, select(tiny, constant(23.0f), zero));
    Value f = sub(m, constant(1.0f)), square = mul(f, f);
    Value y = polynomial(f, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                             -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
    y = mul(mul(y, f), square);
    if (binary) {
      y = fma(square, -0.5f, y);
      // Multiply by log2(e) as 1 + 0.4427, so that the product with 1, the larger part, is exact.
      y = add(fma(y, 0.44269504088896340736f, fma(f, 0.44269504088896340736f, y)), f);
      y = add(y, exponent);
    } else {
      y = fma(exponent, -2.12194440e-4f, y);
      y = fma(square, -0.5f, y);
      y = fma(exponent, 0.693359375f, add(f, y));
    }
    y = select(equal(x, infinity), x, y);
    y = select(equal(x, zero), constant(-std::numeric_limits<float>::infinity()), y);
    Value valid = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, x, zero);
    return select(valid, y, constant(std::numeric_limits<float>::quiet_NaN()));
  }

  /// log(1 + x) as log(sum) * x / (sum - 1) with sum = x + 1 rounded: the quotient corrects the rounding error of the
  /// sum.
  Value log1p(Value x) {
    Value one = constant(1.0f), sum = add(x, one);
    Value y = mul(log(sum, false), div(x, sub(sum, one)));
    y = select(equal(x, constant(std::numeric_limits<float>::infinity())), x, y);
    return select(equal(sum, one), x, y);
  }

  Value tanh(Value x) {
    Value magnitude = abs(x), square = mul(x, x);
    Value small = polynomial(
        square, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f});
    small = fma(mul(small, square), x, x);
    Value e = exp(add(magnitude, magnitude));
    Value large = sub(constant(1.0f), div(constant(2.0f), add(e, constant(1.0f))));
    large = math::CopySignOp::create(b, large, x);
    return select(less(magnitude, constant(0.625f)), small, large);
  }

  /// Error at most 1.8e-7. For |x| < 1, x times an even polynomial that approximates erf(x) / x; else a polynomial that
  /// approximates log(1 - erf(|x|)).
  Value erf(Value x) {
    Value magnitude = abs(x);
    Value small = mul(polynomial(mul(x, x), {7.854120486e-5f, -8.010278689e-4f, 5.188338459e-3f, -2.685381845e-2f,
                                             1.128358543e-1f, -3.761262596e-1f, 1.128379107f}),
                      x);
    Value logarithm = polynomial(clamp(magnitude, 0, 4),
                                 {2.513783102e-7f, -2.531553400e-5f, 4.637923848e-4f, -4.282397218e-3f, 2.537358552e-2f,
                                  -1.086390391e-1f, -6.330395937e-1f, -1.129661202f, 2.043624991e-4f});
    Value large = math::CopySignOp::create(b, sub(constant(1.0f), exp(logarithm)), x);
    return select(less(magnitude, constant(1.0f)), small, large);
  }

  /// sin(x) or cos(x) for |x| <= 8192, with range reduction by pi/4 split into three constants (Cody-Waite).
  Value sineOrCosine(Value x, bool cosine) {
    Value magnitude = abs(x);
    // j is the octant floor(|x| / (pi/4)), rounded up to an even number.
    Value j = arith::FPToSIOp::create(b, intType(), mul(magnitude, constant(1.27323954473516f)));
    j = arith::AndIOp::create(b, arith::AddIOp::create(b, j, constant(int32_t(1))), constant(int32_t(~1)));
    Value y = arith::SIToFPOp::create(b, type, j);
    Value f = fma(y, -0.78515625f, magnitude);
    f = fma(y, -2.4187564849853515625e-4f, f);
    f = fma(y, -3.77489497744594108e-8f, f);
    Value square = mul(f, f);
    Value cosPart = polynomial(square, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f});
    cosPart = add(fma(square, -0.5f, mul(mul(cosPart, square), square)), constant(1.0f));
    Value sinPart = polynomial(square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f});
    sinPart = fma(mul(sinPart, square), f, f);
    // In octants 2 and 6 the polynomials of sine and cosine are exchanged. The result's sign is bit 2 (value 4) of the
    // octant for the sine, and of octant + 2 for the cosine.
    Value bit2 = arith::AndIOp::create(b, j, constant(int32_t(2)));
    Value swap = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit2, constant(int32_t(0)));
    Value result = cosine ? select(swap, sinPart, cosPart) : select(swap, cosPart, sinPart);
    Value turned = cosine ? Value(arith::AddIOp::create(b, j, constant(int32_t(2)))) : j;
    Value sign =
        arith::ShLIOp::create(b, arith::AndIOp::create(b, turned, constant(int32_t(4))), constant(int32_t(29)));
    if (!cosine)
      sign = arith::XOrIOp::create(b, sign,
                                   arith::AndIOp::create(b, bits(x), constant(std::numeric_limits<int32_t>::min())));
    return floatOf(arith::XOrIOp::create(b, bits(result), sign));
  }

  /// sin, cos or tan of a vector x: by polynomials if |x| <= 8192 in every lane, else by a libm call for each lane.
  /// Null for a scalar x.
  Value trigonometric(Operation *op, Value x) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return {};
    Value small = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, abs(x), constant(8192.0f));
    Value all = vector::ReductionOp::create(b, vector::CombiningKind::AND, small);
    auto choice = scf::IfOp::create(b, TypeRange{type}, all, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    Value value;
    if (isa<math::TanOp>(op))
      value = div(sineOrCosine(x, false), sineOrCosine(x, true));
    else
      value = sineOrCosine(x, isa<math::CosOp>(op));
    scf::YieldOp::create(b, value);
    b.setInsertionPointToStart(choice.elseBlock());
    Operation *plain = b.clone(*op);
    plain->setOperands({x});
    plain->getResult(0).setType(type);
    scf::YieldOp::create(b, plain->getResult(0));
    return choice.getResult(0);
  }

private:
  Type intType() {
    if (auto vector = dyn_cast<VectorType>(type))
      return vector.clone(b.getI32Type());
    return b.getI32Type();
  }

  Value splat(TypedAttr value, Type type) {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, Attribute(value)));
    return arith::ConstantOp::create(b, value);
  }

  ImplicitLocOpBuilder &b;
  Type type;
  const HostVectors &host;
};

} // namespace

Value attune::approximate(ImplicitLocOpBuilder &builder, Operation *op, ValueRange operands, const HostVectors &host) {
  if (operands.empty() || !getElementTypeOrSelf(operands[0].getType()).isF32())
    return {};
  Arithmetic a(builder, operands[0].getType(), host);
  Value x = operands[0];
  if (isa<math::Exp2Op>(op))
    return a.exp2(x);
  if (isa<math::ExpOp>(op))
    return a.exp(x);
  if (isa<math::LogOp>(op))
    return a.log(x, false);
  if (isa<math::Log2Op>(op))
    return a.log(x, true);
  if (isa<math::Log1pOp>(op))
    return a.log1p(x);
  if (isa<math::TanhOp>(op))
    return a.tanh(x);
  if (isa<math::ErfOp>(op))
    return a.erf(x);
  if (isa<math::RsqrtOp>(op))
    return a.div(a.constant(1.0f), math::SqrtOp::create(builder, x));
  if (isa<math::SinOp, math::CosOp, math::TanOp>(op))
    return a.trigonometric(op, x);
  return {};
}
