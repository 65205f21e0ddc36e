//===- VectorBuilder.h - Emitting vector code for the CPU -----------------===//
//
// Emits constants, arithmetic, memory accesses and loops on vectors of `lanes` elements. A vector of one lane is a
// scalar. All floats are f32 in registers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace attune::cpu {

using namespace mlir;

class VectorBuilder {
public:
  VectorBuilder(Location loc, const HostVectors &host)
      : host(host), b(loc, loc.getContext()), f32(b.getF32Type()), i32(b.getI32Type()), i64(b.getI64Type()),
        i8(b.getI8Type()), pointer(LLVM::LLVMPointerType::get(loc.getContext())) {}

  Value constI64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value constI32(int32_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
  Value constant(TypedAttr scalar, Type type);
  Value zeroOf(Type type) { return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type))); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value toI64(Value x) { return x.getType() == i64 ? x : Value(arith::ExtSIOp::create(b, i64, x)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }
  Type vectorOf(Type element, int64_t lanes) { return lanes == 1 ? element : VectorType::get({lanes}, element); }
  int64_t lanesOf(Value value);
  Value widen(Value value, int64_t lanes);
  static int64_t bytesOf(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }
  /// The type of a tile's elements in registers: floats are f32.
  Type valueType(Type element) { return isa<FloatType>(element) ? f32 : element; }
  /// The type of a tile's elements in scratch memory: i8 for i1, else as in registers.
  Type storedType(Type element) { return element.isInteger(1) ? Type(i8) : valueType(element); }
  Value offsetBytes(Value base, int64_t bytes);
  Value offsetElements(Value base, Type element, Value index);
  Value loadAt(Value address, Type type, int64_t alignment);
  void storeAt(Value value, Value address, int64_t alignment);
  /// Emits a loop from 0 to `count` by `step`. For a single iteration emits the body without a loop.
  SmallVector<Value> loop(int64_t count, int64_t step, ValueRange inits,
                          function_ref<SmallVector<Value>(Value, ValueRange)> body);
  SmallVector<Value> loop(Value begin, Value end, Value step, ValueRange inits,
                          function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void loop(int64_t count, int64_t step, function_ref<void(Value)> body);
  void loop(Value begin, Value end, function_ref<void(Value)> body);
  Value fromBF16(Value bits);
  /// Rounds f32 to bf16, to nearest even, and returns the bits. A NaN stays a NaN.
  Value toBF16(Value value);
  /// Loads elements of global memory; floats are widened to f32.
  Value loadGlobal(Value address, Type element, int64_t lanes);
  void storeGlobal(Value value, Value address, Type element);
  /// Transposes n vectors of n elements in log2(n) steps of shuffles. Step s = 1, 2, 4, ... works on pairs of vectors i
  /// and i + s, where bit s of i is 0. The step exchanges the elements of vector i whose index has bit s set with the
  /// elements of vector i + s whose index has it clear. For n = 2 and s = 1, (a0 a1)(b0 b1) becomes (a0 b0)(a1 b1).
  void transposeVectors(SmallVectorImpl<Value> &vectors);
  /// tile.mul_finite: lhs * rhs. Where the product of finite operands is infinite, the result is the greatest finite
  /// float of the same sign.
  Value mulFinite(Location loc, Value lhs, Value rhs);
  /// Philox 4x32 with 7 rounds (Salmon et al., 2011), on 16 counters at once.
  SmallVector<Value> philox(std::array<Value, 4> counter, Value key0, Value key1);

  const HostVectors &host;
  ImplicitLocOpBuilder b;
  Type f32, i32, i64, i8, pointer;
};

} // namespace attune::cpu
