//===- VectorBuilder.cpp - Emitting vector code for the CPU ---------------===//

#include "codegen/cpu/VectorBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace attune::cpu {

Value VectorBuilder::constant(TypedAttr scalar, Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(b, scalar);
}

int64_t VectorBuilder::lanesOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getNumElements() : 1;
}

Value VectorBuilder::widen(Value value, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, VectorType::get({lanes}, value.getType()), value);
}

Value VectorBuilder::offsetBytes(Value base, int64_t bytes) {
  return bytes ? Value(LLVM::GEPOp::create(b, pointer, i8, base, ArrayRef<LLVM::GEPArg>{int32_t(bytes)})) : base;
}

Value VectorBuilder::offsetElements(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(b, pointer, element, base, ArrayRef<LLVM::GEPArg>{index});
}

Value VectorBuilder::loadAt(Value address, Type type, int64_t alignment) {
  return LLVM::LoadOp::create(b, type, address, unsigned(alignment));
}

void VectorBuilder::storeAt(Value value, Value address, int64_t alignment) {
  LLVM::StoreOp::create(b, value, address, unsigned(alignment));
}

SmallVector<Value> VectorBuilder::loop(int64_t count, int64_t step, ValueRange inits,
                                       function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (count == step)
    return body(constI64(0), inits);
  return loop(constI64(0), constI64(count), constI64(step), inits, body);
}

SmallVector<Value> VectorBuilder::loop(Value begin, Value end, Value step, ValueRange inits,
                                       function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, begin, end, step, inits);
  OpBuilder::InsertionGuard guard(b);
  if (inits.empty())
    b.setInsertionPoint(loop.getBody()->getTerminator());
  else
    b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> values = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!inits.empty())
    scf::YieldOp::create(b, values);
  return llvm::to_vector(ValueRange(loop.getResults()));
}

void VectorBuilder::loop(int64_t count, int64_t step, function_ref<void(Value)> body) {
  loop(count, step, {}, [&](Value i, ValueRange) -> SmallVector<Value> { return body(i), SmallVector<Value>(); });
}

void VectorBuilder::loop(Value begin, Value end, function_ref<void(Value)> body) {
  loop(begin, end, constI64(1), {},
       [&](Value i, ValueRange) -> SmallVector<Value> { return body(i), SmallVector<Value>(); });
}

Value VectorBuilder::fromBF16(Value bits) {
  int64_t lanes = lanesOf(bits);
  Value wide = arith::ExtUIOp::create(b, vectorOf(i32, lanes), bits);
  wide = arith::ShLIOp::create(b, wide, constant(b.getI32IntegerAttr(16), wide.getType()));
  return arith::BitcastOp::create(b, vectorOf(f32, lanes), wide);
}

Value VectorBuilder::toBF16(Value value) {
  int64_t lanes = lanesOf(value);
  Type type = vectorOf(i32, lanes);
  auto c = [&](int32_t x) { return constant(b.getI32IntegerAttr(x), type); };
  Value bits = arith::BitcastOp::create(b, type, value);
  Value upper = arith::ShRUIOp::create(b, bits, c(16));
  Value odd = arith::AndIOp::create(b, upper, c(1));
  Value rounded = arith::ShRUIOp::create(b, add(bits, add(odd, c(0x7fff))), c(16));
  Value quiet = arith::OrIOp::create(b, upper, c(0x40));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  return arith::TruncIOp::create(b, vectorOf(b.getI16Type(), lanes), select(isNan, quiet, rounded));
}

Value VectorBuilder::loadGlobal(Value address, Type element, int64_t lanes) {
  if (element.isBF16())
    return fromBF16(loadAt(address, vectorOf(b.getI16Type(), lanes), 2));
  Value value = loadAt(address, vectorOf(element, lanes), bytesOf(element));
  return element.isF16() ? Value(arith::ExtFOp::create(b, vectorOf(f32, lanes), value)) : value;
}

void VectorBuilder::storeGlobal(Value value, Value address, Type element) {
  int64_t lanes = lanesOf(value);
  if (element.isBF16())
    value = toBF16(value);
  else if (element.isF16())
    value = arith::TruncFOp::create(b, vectorOf(element, lanes), value);
  storeAt(value, address, bytesOf(element));
}

void VectorBuilder::transposeVectors(SmallVectorImpl<Value> &vectors) {
  int64_t count = vectors.size();
  for (int64_t s = 1; s < count; s *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t j = 0; j < count; ++j) {
      low.push_back(j & s ? count + (j ^ s) : j);
      high.push_back(j & s ? count + j : j ^ s);
    }
    for (int64_t i = 0; i < count; ++i) {
      if (i & s)
        continue;
      Value x = vectors[i], y = vectors[i + s];
      vectors[i] = vector::ShuffleOp::create(b, x, y, low);
      vectors[i + s] = vector::ShuffleOp::create(b, x, y, high);
    }
  }
}

Value VectorBuilder::mulFinite(Location loc, Value lhs, Value rhs) {
  auto constant = [&](float value) -> Value {
    return widen(arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)), lanesOf(lhs));
  };
  Value infinity = constant(std::numeric_limits<float>::infinity());
  auto isFinite = [&](Value value) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, loc, value), infinity);
  };
  Value product = arith::MulFOp::create(b, loc, lhs, rhs);
  Value overflows = arith::AndIOp::create(
      b, loc, arith::AndIOp::create(b, loc, isFinite(lhs), isFinite(rhs)),
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, loc, product), infinity));
  return arith::SelectOp::create(b, loc, overflows,
                                 math::CopySignOp::create(b, loc, constant(std::numeric_limits<float>::max()), product),
                                 product);
}

SmallVector<Value> VectorBuilder::philox(std::array<Value, 4> counter, Value key0, Value key1) {
  auto v16 = VectorType::get({16}, i32);
  Value multiplier0 = constant(b.getI32IntegerAttr(int32_t(0xD2511F53)), v16);
  Value multiplier1 = constant(b.getI32IntegerAttr(int32_t(0xCD9E8D57)), v16);
  auto [c0, c1, c2, c3] = counter;
  for (int round = 0; round < 7; ++round) {
    auto product0 = arith::MulUIExtendedOp::create(b, c0, multiplier0);
    auto product1 = arith::MulUIExtendedOp::create(b, c2, multiplier1);
    auto mix = [&](Value x, Value y, Value key) -> Value {
      return arith::XOrIOp::create(b, arith::XOrIOp::create(b, x, y), widen(key, 16));
    };
    c0 = mix(product1.getHigh(), c1, key0);
    c1 = product1.getLow();
    c2 = mix(product0.getHigh(), c3, key1);
    c3 = product0.getLow();
    key0 = add(key0, constI32(int32_t(0x9E3779B9)));
    key1 = add(key1, constI32(int32_t(0xBB67AE85)));
  }
  return {c0, c1, c2, c3};
}

} // namespace attune::cpu
