//===- Emitter.h - Builder functions that all expansions use -------------------------===//
//
// A builder with a location, and functions that create common ops: constants, sums and products of indices, unrolled
// loops, accesses to elements of registers and of shared memory. Ops that fold (x + 0, x * 1, x / 1, a loop of one
// iteration) are not created.
//
//     repeat(4, "i", [&](Value i) { set(get(from, {i}), to, {add(i, 1)}); });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune::expansion {
using namespace mlir; // other passes do not include this header
using sched::FragmentAttr;
using sched::FragmentRole;
using tile::MemorySpace;
using tile::TileType;

/// The half-open range [begin, end).
struct Range {
  int64_t begin, end;
  /// The same range, counted in groups of `unit` elements.
  Range by(int64_t unit) const { return {begin / unit, end / unit}; }
};

class Emitter {
public:
  Emitter(OpBuilder builder, Location loc) : builder(builder), loc(loc) {}

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value f32(float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw); }
  Value add(Value a, int64_t b) { return b ? add(a, i32(b)) : a; }
  Value mul(Value a, int64_t b);
  Value div(Value a, int64_t b) { return b == 1 ? a : Value(arith::DivUIOp::create(builder, loc, a, i32(b))); }
  Value rem(Value a, int64_t b) { return arith::RemUIOp::create(builder, loc, a, i32(b)); }
  /// The logical and of `known` and `other`; `other` alone if `known` is null.
  Value both(Value known, Value other) {
    return known ? arith::AndIOp::create(builder, loc, known, other).getResult() : other;
  }
  Value opposite(Value flag) {
    return arith::XOrIOp::create(builder, loc, flag, arith::ConstantIntOp::create(builder, loc, 1, 1));
  }
  Value below(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b); }
  Value toFloat(Value value) { return arith::SIToFPOp::create(builder, loc, builder.getF32Type(), value); }
  /// An unrolled loop over 0 .. count - 1; a single iteration creates no loop. With `times` the loop is unrolled only
  /// by the factor `times`; the body must then not index registers by the loop's value.
  void repeat(int64_t count, StringRef name, function_ref<void(Value)> body, std::optional<int64_t> times = {}) {
    repeat(Range{0, count}, name, body, times);
  }
  void repeat(Range range, StringRef name, function_ref<void(Value)> body, std::optional<int64_t> times = {});
  /// Creates an `scf.if` without else region.
  void onlyIf(Value condition, function_ref<void()> body);
  void either(Value condition, function_ref<void()> body, function_ref<void()> otherwise);
  Value get(Value buffer, ValueRange indices);
  void set(Value value, Value buffer, ValueRange indices);
  Value loadShared(Type type, Value shared, Value stage, Value row, Value column, Value rowStep = {},
                   Value columnStep = {});
  Value registers(StringRef name, TileType type) { return sched::RegistersOp::create(builder, loc, type, name); }
  TileType fragmentType(std::initializer_list<std::pair<StringRef, int64_t>> axes, Type element, FragmentRole role,
                        int64_t warpCount);

protected:
  StringRef function; ///< device function (`sched.function`) that each created loop becomes; empty for none
  OpBuilder builder;
  Location loc; ///< location of the op that is expanded
};

} // namespace attune::expansion
