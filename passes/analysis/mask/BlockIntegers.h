//===- BlockIntegers.h - Integers of a block, as numbers or as SSA values -===//
//
// Sums of values that a block knows: coefficient * value + ... + constant, each with the range of its values for every
// launch. With a builder, what sums cannot express (division, min, max, comparison) is emitted and becomes a value of
// its own; without, everything is a number.
//
//     q0 in [0, 2^30), Sq in [0, 2^30]
//     add(q0, 128)                     1 * q0 + 128                in [128, 2^30 + 128)
//     minimum(add(q0, 128), Sq)        arith.minsi, a new value    in [0, 2^30]
//
// Sums are emitted in i32 where no step of them can overflow, else in i64. The same op on the same operands is
// emitted once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

#include <map>
#include <optional>

namespace attune::mask {

using mlir::Location;
using mlir::OpBuilder;
using mlir::SmallVector;
using mlir::StringRef;
using mlir::Type;
using mlir::Value;

/// Sq, Sk and |qOffset| are at most this; runtime/Launch.cpp checks it.
constexpr int64_t maxExtent = int64_t(1) << 30;
/// Values of terms and sums of bounds stay within this, so that a few of them add up in i64.
constexpr int64_t maxTerm = int64_t(1) << 58;

using Wide = __int128;

struct Range {
  int64_t lo = 0, hi = 0;
  bool within(Range outer) const { return outer.lo <= lo && hi <= outer.hi; }
  bool isPoint() const { return lo == hi; }
};

constexpr Range int32Range = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
constexpr Range int64Range = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};

Range rangeOf(Type type);

/// sum of coefficient * base, plus a constant: an integer of the block. The values lie in `range`.
struct Linear {
  SmallVector<std::pair<Value, int64_t>, 3> terms;
  int64_t constant = 0;
  Range range;
  /// Numeric evaluation only: depends on a value of the launch that is not given.
  bool unknown = false;
  /// May lie outside what sums in i64 can hold; not to be computed with.
  bool tooLarge = false;

  bool isConstant() const { return terms.empty() && !unknown && !tooLarge; }
  bool operator==(const Linear &other) const {
    return terms == other.terms && constant == other.constant && unknown == other.unknown && tooLarge == other.tooLarge;
  }
};

Linear constantOf(int64_t value);

/// A condition of the block: known, or an i1 value.
struct Condition {
  std::optional<bool> known;
  Value value;
};

class BlockIntegers {
public:
  /// Without a builder, of numbers.
  BlockIntegers(Location loc, OpBuilder *builder) : builder(builder), loc(loc) {}
  virtual ~BlockIntegers() = default;

  Value toI32(const Linear &value, StringRef name);
  /// A condition as an i1.
  Value toI1(const Condition &condition);

protected:
  /// A base as a value of the block, at the time when it is needed.
  virtual Value atBlock(Value base) = 0;

  Linear base(Value value, Range range);
  static Linear unknownLinear();
  /// Of no known size. Where a single base value is too large, it keeps its term; see isWide.
  static Linear unboundedLinear();
  /// An i64 that is a base value as it stands: not to be computed with, but compared.
  static bool isWide(const Linear &x);

  Linear scale(const Linear &x, int64_t factor);
  Linear add(const Linear &x, const Linear &y);
  Linear subtract(const Linear &x, const Linear &y) { return add(x, scale(y, -1)); }
  Linear addConstant(const Linear &x, int64_t value) { return add(x, constantOf(value)); }
  Linear maximum(const Linear &x, const Linear &y);
  Linear minimum(const Linear &x, const Linear &y);
  Linear select(const Condition &condition, const Linear &x, const Linear &y);
  /// Truncating division by a positive constant.
  Linear divide(const Linear &x, int64_t divisor);

  Condition lessEqual(const Linear &x, const Linear &y) { return isOrdered(x, y, false); }
  /// x <= y, or x < y.
  Condition isOrdered(const Linear &x, const Linear &y, bool strictly);
  Condition both(const Condition &x, const Condition &y);
  Condition either(const Condition &x, const Condition &y);
  Condition opposite(const Condition &x);

  template <typename OpTy, typename... Args> Value emit(Args... args) {
    assert(builder && "numbers fold");
    std::vector<const void *> key = {mlir::TypeID::get<OpTy>().getAsOpaquePointer(), keyOf(args)...};
    Value &known = emitted[key];
    if (!known)
      known = builder->createOrFold<OpTy>(loc, args...);
    return known;
  }
  Value constantValue(Type type, int64_t value);
  Value convert(Value value, Type type);

  OpBuilder *builder;
  Location loc;
  /// What is known of two bases beyond their ranges: x - y <= most.
  struct Difference {
    Value x, y;
    int64_t most;
  };
  SmallVector<Difference, 3> differences;

private:
  static const void *keyOf(Value value) { return value.getAsOpaquePointer(); }
  static const void *keyOf(Type type) { return type.getAsOpaquePointer(); }
  static const void *keyOf(mlir::arith::CmpIPredicate predicate) {
    return reinterpret_cast<const void *>(uintptr_t(predicate));
  }

  /// The least and the most that coefficient * base can be.
  std::pair<Wide, Wide> termRange(std::pair<Value, int64_t> term) const;
  void setRange(Linear &x) const;
  template <typename OpTy> Linear extreme(const Linear &x, const Linear &y, bool maximum);

  /// The order in which the terms add up in i32 without overflow on the way; nothing where there is none.
  std::optional<SmallVector<std::pair<Value, int64_t>>> orderInI32(const Linear &x) const;
  Type naturalType(const Linear &x);
  Type commonType(const Linear &x, const Linear &y);
  Value materialize(const Linear &x, Type type);

  llvm::DenseMap<Value, Range> ranges;
  std::map<std::vector<const void *>, Value> emitted;
  std::map<std::pair<const void *, int64_t>, Value> constants;
};

} // namespace attune::mask
