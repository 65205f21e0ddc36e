//===- BlockIntegers.h - Linear sums of integers uniform over a thread block ---===//
//
// A `Linear` is a sum coefficient * value + ... + constant of integers that are uniform over the thread block, with a
// range in which the sum lies in every launch. With a builder, an operation that a sum cannot express (division, min,
// max, comparison) is emitted as IR, and its result is a new value to be summed. Without a builder, every integer is a
// number.
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

/// Upper bound of Sq, Sk and |qOffset|; runtime/Launch.cpp checks the bound.
constexpr int64_t maxExtent = int64_t(1) << 30;
/// Upper bound of the magnitude of each term and constant of a Linear, so that a sum of a few terms fits in i64.
constexpr int64_t maxTerm = int64_t(1) << 58;

using Wide = __int128;

struct Range {
  int64_t lo = 0, hi = 0;
  bool within(Range outer) const { return outer.lo <= lo && hi <= outer.hi; }
  bool isPoint() const { return lo == hi; }
};

/// The smallest range that contains the ranges a and b.
inline Range hull(Range a, Range b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

constexpr Range int32Range = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
constexpr Range int64Range = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};

Range rangeOf(Type type);

/// An integer that is uniform over the thread block: the sum of coefficient * SSA value over `terms`, plus `constant`.
/// The integer lies in `range`.
struct Linear {
  SmallVector<std::pair<Value, int64_t>, 3> terms;
  int64_t constant = 0;
  Range range;
  /// Set by numeric evaluation only: the integer depends on a launch value that is not given, such as a run-time
  /// scalar.
  bool unknown = false;
  /// The integer may be too large for sums in i64; any arithmetic on it gives an integer without a known bound.
  bool tooLarge = false;

  bool isConstant() const { return terms.empty() && !unknown && !tooLarge; }
  bool operator==(const Linear &other) const {
    return terms == other.terms && constant == other.constant && unknown == other.unknown && tooLarge == other.tooLarge;
  }
};

Linear constantOf(int64_t value);

/// A condition that is uniform over the thread block: a constant (`known`) or an i1 SSA value.
struct Condition {
  std::optional<bool> known;
  Value value;
};

class BlockIntegers {
public:
  /// A null `builder` selects numeric evaluation: every integer is a known number, and no IR is emitted.
  BlockIntegers(Location loc, OpBuilder *builder) : builder(builder), loc(loc) {}
  virtual ~BlockIntegers() = default;

  Value toI32(const Linear &value, StringRef name);
  /// Emits `condition` as an i1 value.
  Value toI1(const Condition &condition);

protected:
  /// `base`, a value that is a term of sums, as an SSA value in the kernel's body, outside of maps. Called when a sum
  /// that contains `base` is emitted.
  virtual Value atBlock(Value base) = 0;

  Linear base(Value value, Range range);
  static Linear unknownLinear();
  /// An integer without a known bound (`tooLarge`, no terms). A single SSA value that is too large for sums, such as an
  /// i64 scalar, keeps its term instead; see isWide.
  static Linear unboundedLinear();
  /// Whether `x` is a single SSA value that is too large for sums. Such an i64 can be compared but not computed with.
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
  /// x < y if `strictly`, else x <= y.
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
  /// A known bound x - y <= most on two SSA values that are terms of sums. The bound is tighter than the ranges of x
  /// and y imply.
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

  /// The minimum and the maximum of `term`, an SSA value and its coefficient in a sum: of coefficient * value.
  std::pair<Wide, Wide> termRange(std::pair<Value, int64_t> term) const;
  void setRange(Linear &x) const;
  template <typename OpTy> Linear extreme(const Linear &x, const Linear &y, bool maximum);

  /// An order of the terms in which no partial sum overflows i32; nullopt if there is no such order.
  std::optional<SmallVector<std::pair<Value, int64_t>>> orderInI32(const Linear &x) const;
  Type naturalType(const Linear &x);
  Type commonType(const Linear &x, const Linear &y);
  Value materialize(const Linear &x, Type type);
  /// The values of both, the ops of `x` first, whatever order the compiler gives arguments.
  std::pair<Value, Value> materialize(const Linear &x, const Linear &y, Type type) {
    Value first = materialize(x, type);
    return {first, materialize(y, type)};
  }

  llvm::DenseMap<Value, Range> ranges;
  std::map<std::vector<const void *>, Value> emitted;
  std::map<std::pair<const void *, int64_t>, Value> constants;
};

} // namespace attune::mask
