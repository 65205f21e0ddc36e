//===- MaskAnalysis.cpp - Which K tiles a query tile visits ------------------===//

#include "passes/analysis/MaskAnalysis.h"
#include "ir/NestedOps.h"
#include "passes/analysis/Dependences.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace attune;

namespace {

/// Sq, Sk and |qOffset| are at most this; runtime/Launch.cpp checks it.
constexpr int64_t maxExtent = int64_t(1) << 30;
/// Values of terms and sums of bounds stay within this, so that a few of them add up in i64.
constexpr int64_t maxTerm = int64_t(1) << 58;

//===----------------------------------------------------------------------===//
// Block-level integers
//===----------------------------------------------------------------------===//

using Wide = __int128;

struct Range {
  int64_t lo = 0, hi = 0;
  bool within(Range outer) const { return outer.lo <= lo && hi <= outer.hi; }
  bool isPoint() const { return lo == hi; }
};

constexpr Range int32Range = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
constexpr Range int64Range = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};

Range rangeOf(Type type) {
  if (type.isInteger(1))
    return {0, 1};
  return type.isInteger(32) ? int32Range : int64Range;
}

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

Linear constantOf(int64_t value) {
  Linear result;
  result.constant = value;
  result.range = {value, value};
  result.tooLarge = value < -maxTerm || value > maxTerm;
  return result;
}

/// A condition of the block: known, or an i1 value.
struct Condition {
  std::optional<bool> known;
  Value value;
};

/// An interval of keys; an absent end is 0 or Sk. Ends may lie outside [0, Sk], and lo beyond hi: empty.
struct Interval {
  std::optional<Linear> lo, hi;
  bool isAll() const { return !lo && !hi; }
  bool isEmpty() const { return hi && !hi->unknown && hi->range.hi <= 0; }
  static Interval all() { return {}; }
  static Interval empty() { return {std::nullopt, constantOf(0)}; }
};

struct Bounds {
  Interval hull, full;
};

/// What is known of a tile of queries and keys: whether the mask may hold for some of its elements, and whether it
/// holds for all.
struct Verdict {
  Condition possible, certain;
};

/// A value of the region: k * floor(key / kDivisor) + q * query + something in [lo, hi]. `values` bounds the
/// value itself for every launch; it never wraps to get there.
struct Form {
  int64_t k = 0, kDivisor = 1, q = 0;
  Linear lo, hi;
  Range values;

  bool sameCoefficients(const Form &other) const { return k == other.k && kDivisor == other.kDivisor && q == other.q; }
  std::optional<int64_t> constant() const {
    if (k || q || !lo.isConstant() || !(lo == hi))
      return std::nullopt;
    return lo.constant;
  }
};

//===----------------------------------------------------------------------===//
// The analysis
//===----------------------------------------------------------------------===//

/// Analyses one mask for one query tile. With a builder the tile is given by SSA values and bounds are emitted;
/// without, everything is a number. Loads of integers have bounds where `tables` collects those that they need; with
/// `keyTile`, the index of a tile of keys, in both directions.
class MaskAnalysis {
public:
  MaskAnalysis(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables = nullptr,
               Value keyTile = {})
      : op(op), builder(&builder), loc(op.getLoc()), values(values), tables(tables), tileQ(values.tileQ),
        tileK(values.tileK) {
    queryBegin = base(values.q0, {0, maxExtent - 1});
    queryCount = base(values.Sq, {0, maxExtent});
    keyCount = base(values.Sk, {0, maxExtent});
    if (values.qOffset)
      queryOffset = base(values.qOffset, {-maxExtent, maxExtent});
    if (keyTile)
      keyTileIndex = base(keyTile, {0, maxExtent / tileK});
  }
  MaskAnalysis(attn::AttentionOp op, int64_t q0, int64_t qOffset, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK)
      : op(op), loc(op.getLoc()), tileQ(tileQ), tileK(tileK), queryBegin(constantOf(q0)), queryCount(constantOf(Sq)),
        keyCount(constantOf(Sk)), queryOffset(constantOf(qOffset)) {}

  /// The hull of the whole mask; the full interval of `deciding` alone, of its conjuncts, without what each tile's
  /// loads decide.
  Bounds bounds(std::optional<ArrayRef<Conjunct>> deciding) {
    Bounds result = everything<Bounds>();
    if (op.getMask().empty())
      return result;
    Value mask = cast<attn::YieldOp>(op.getMask().front().back()).getValue();
    if (!deciding)
      return visit<Bounds>(mask, false);
    auto byTile = conjunctsByTile();
    forEachConjunct(mask, false, [&](Value value, bool negate) {
      Bounds bounds = visit<Bounds>(value, negate);
      result.hull = intersect(result.hull, bounds.hull);
      Conjunct conjunct(value, negate);
      if (llvm::is_contained(*deciding, conjunct) && !llvm::is_contained(byTile, conjunct))
        result.full = intersect(result.full, bounds.full);
    });
    return result;
  }

  /// The mask's conjuncts, negated or not, that depend on loads of which each tile of keys has bounds.
  SmallVector<Conjunct> conjunctsByTile() {
    SmallVector<Conjunct> result;
    if (tables && !op.getMask().empty())
      forEachConjunct(cast<attn::YieldOp>(op.getMask().front().back()).getValue(), false,
                      [&](Value value, bool negate) {
                        if (loadsByTile(value))
                          result.push_back({value, negate});
                      });
    return result;
  }

  /// The verdict of conjunctsByTile() on tile `keyTile`.
  Verdict verdict() {
    Verdict result = everything<Verdict>();
    for (auto [value, negate] : conjunctsByTile())
      result = conjunction(result, visit<Verdict>(value, negate));
    return result;
  }

  /// A condition as an i1.
  Value toI1(const Condition &condition) {
    return condition.known ? Value(arith::ConstantOp::create(*builder, loc, builder->getBoolAttr(*condition.known)))
                           : condition.value;
  }

  /// begin, fullBegin, fullEnd, end. Tiles are full by the whole mask and the end of the keys, or by `deciding` alone.
  std::array<Linear, 4> tiles(std::optional<ArrayRef<Conjunct>> deciding = {}) {
    auto [hull, full] = bounds(deciding);
    bool fromZero = !hull.lo;
    Linear lo = fromZero ? constantOf(0) : clampToKeys(*hull.lo);
    Linear hi = hull.hi ? clampToKeys(*hull.hi) : keyCount;
    Linear begin = divide(lo, tileK), end = divide(addConstant(hi, tileK - 1), tileK);
    if (!fromZero)
      end = select(lessEqual(hi, lo), begin, end);
    if (full.isEmpty() || patternNeedsElementMask(op, tileQ, tileK))
      return {begin, end, end, end};
    if (deciding && full.isAll())
      return {begin, begin, end, end};
    Linear fullLo = full.lo ? clampToKeys(*full.lo) : constantOf(0);
    Linear fullHi = full.hi ? clampToKeys(*full.hi) : keyCount;
    Linear fullBegin = divide(addConstant(fullLo, tileK - 1), tileK);
    Linear fullEnd = deciding && !full.hi ? end : divide(fullHi, tileK);
    // A full interval of the whole mask that starts at 0 is empty or lies within the hull. Any other may be empty
    // anywhere.
    if (deciding || !fromZero || full.lo) {
      fullBegin = maximum(minimum(fullBegin, end), begin);
      fullEnd = maximum(minimum(fullEnd, end), fullBegin);
    }
    return {begin, fullBegin, fullEnd, end};
  }

  /// Where every row of the tile sees all keys, by the given conjuncts; an absent end is 0 or Sk.
  Interval fullInterval(ArrayRef<Conjunct> conjuncts) {
    Interval result;
    for (auto [value, negate] : conjuncts)
      result = intersect(result, visit<Bounds>(value, negate).full);
    return result;
  }

  /// The conjuncts of the mask by what they leave of a row, for an analysis of one row: one end of the keys, an
  /// interval, or anything.
  struct RowConjuncts {
    SmallVector<Conjunct> upper, lower, both, rest;
  };
  RowConjuncts rowConjuncts() {
    RowConjuncts result;
    if (op.getMask().empty())
      return result;
    forEachConjunct(cast<attn::YieldOp>(op.getMask().front().back()).getValue(), false, [&](Value value, bool negate) {
      auto [hull, full] = visit<Bounds>(value, negate);
      if (hull.lo != full.lo || hull.hi != full.hi)
        result.rest.push_back({value, negate});
      else if (!hull.isAll())
        (!hull.lo ? result.upper : !hull.hi ? result.lower : result.both).push_back({value, negate});
    });
    return result;
  }

  /// The ends of an interval of keys, Sk at the latest, as i32 from which an origin of keys can be subtracted.
  Value beginOf(const Interval &x, StringRef name) { return toI32(isNear(*x.lo) ? *x.lo : clampToKeys(*x.lo), name); }
  Value endOf(const Interval &x, StringRef name) {
    Linear end = x.hi ? minimum(*x.hi, keyCount) : keyCount;
    return toI32(isNear(end) ? end : highEnd(x), name);
  }

  Value toI32(const Linear &value, StringRef name) {
    assert(value.range.within(int32Range));
    Value result = materialize(value, builder->getI32Type());
    if (Operation *definition = result.getDefiningOp();
        definition && isa<arith::ArithDialect>(definition->getDialect()) && !isa<arith::ConstantOp>(definition) &&
        tile::nameOf(result).empty())
      tile::named(result, name);
    return result;
  }

private:
  static bool isNear(const Linear &end) { return end.range.within({-maxExtent, int32Range.hi}); }

  //===--------------------------------------------------------------------===//
  // Integers of the block
  //===--------------------------------------------------------------------===//

  Linear base(Value value, Range range) {
    APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return constantOf(value.getType().isInteger(1) ? constant.getZExtValue() : constant.getSExtValue());
    if (range.isPoint())
      return constantOf(range.lo);
    Linear result;
    result.terms.push_back({value, 1});
    ranges[value] = range;
    setRange(result);
    return result;
  }

  static Linear unknownLinear() {
    Linear result;
    result.unknown = true;
    return result;
  }

  /// Of no known size. Where a single base value is too large, it keeps its term; see isWide.
  static Linear unboundedLinear() {
    Linear result;
    result.tooLarge = true;
    result.range = int64Range;
    return result;
  }
  /// An i64 that is a base value as it stands: not to be computed with, but compared.
  static bool isWide(const Linear &x) {
    return x.tooLarge && x.terms.size() == 1 && x.terms[0].second == 1 && x.constant == 0;
  }

  /// The least and the most that coefficient * base can be.
  std::pair<Wide, Wide> termRange(std::pair<Value, int64_t> term) const {
    Range range = ranges.lookup(term.first);
    Wide a = Wide(range.lo) * term.second, b = Wide(range.hi) * term.second;
    return {std::min(a, b), std::max(a, b)};
  }

  void setRange(Linear &x) const {
    Wide lo = x.constant, hi = x.constant;
    bool large = lo < -maxTerm || hi > maxTerm || x.terms.size() > 8;
    std::optional<int64_t> ofEnd, ofCount;
    for (auto term : x.terms) {
      auto [least, most] = termRange(term);
      large |= least < -maxTerm || most > maxTerm;
      lo += least;
      hi += most;
      if (term.first == queryEndBase)
        ofEnd = term.second;
      if (!queryCount.terms.empty() && term.first == queryCount.terms[0].first)
        ofCount = term.second;
    }
    // min(q0 + tileQ, Sq) - Sq is never positive.
    if (ofEnd == 1 && ofCount == -1)
      hi -= Wide(ranges.lookup(queryEndBase).hi) - ranges.lookup(queryCount.terms[0].first).lo;
    x.tooLarge |= large;
    x.range = x.tooLarge ? int64Range : Range{int64_t(lo), int64_t(hi)};
  }

  Linear scale(const Linear &x, int64_t factor) {
    if (factor == 0)
      return constantOf(0);
    if (x.tooLarge)
      return unboundedLinear();
    Linear result = x;
    if (x.unknown)
      return result;
    bool large = false;
    auto times = [&](int64_t &value) { large |= __builtin_mul_overflow(value, factor, &value); };
    times(result.constant);
    for (auto &term : result.terms)
      times(term.second);
    if (large)
      return unboundedLinear();
    setRange(result);
    return result.tooLarge ? unboundedLinear() : result;
  }

  Linear add(const Linear &x, const Linear &y) {
    if (x.unknown || y.unknown)
      return unknownLinear();
    if (x.tooLarge || y.tooLarge)
      return unboundedLinear();
    Linear result = x;
    result.constant += y.constant;
    for (auto [value, coefficient] : y.terms) {
      auto *known = llvm::find_if(result.terms, [&, value = value](auto &term) { return term.first == value; });
      if (known == result.terms.end())
        result.terms.push_back({value, coefficient});
      else if ((known->second += coefficient) == 0)
        result.terms.erase(known);
    }
    setRange(result);
    return result.tooLarge ? unboundedLinear() : result;
  }
  Linear subtract(const Linear &x, const Linear &y) { return add(x, scale(y, -1)); }
  Linear addConstant(const Linear &x, int64_t value) { return add(x, constantOf(value)); }

  Condition lessEqual(const Linear &x, const Linear &y) { return isOrdered(x, y, false); }

  /// x <= y, or x < y.
  Condition isOrdered(const Linear &x, const Linear &y, bool strictly) {
    if (x.isConstant() && y.isConstant())
      return {strictly ? x.constant < y.constant : x.constant <= y.constant, {}};
    Linear difference = subtract(x, y);
    if (difference.range.hi <= -int64_t(strictly))
      return {true, {}};
    if (difference.range.lo > -int64_t(strictly))
      return {false, {}};
    Type type = commonType(x, y);
    auto predicate = strictly ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle;
    return {{}, emit<arith::CmpIOp>(predicate, materialize(x, type), materialize(y, type))};
  }

  Linear maximum(const Linear &x, const Linear &y) { return extreme<arith::MaxSIOp>(x, y, true); }
  Linear minimum(const Linear &x, const Linear &y) { return extreme<arith::MinSIOp>(x, y, false); }

  template <typename OpTy> Linear extreme(const Linear &x, const Linear &y, bool maximum) {
    if (x.unknown || y.unknown)
      return unknownLinear();
    if (x.tooLarge || y.tooLarge)
      return unboundedLinear();
    if (x.isConstant() && y.isConstant())
      return (x.constant >= y.constant) == maximum ? x : y;
    Linear difference = subtract(x, y);
    if (difference.range.lo >= 0)
      return maximum ? x : y;
    if (difference.range.hi <= 0)
      return maximum ? y : x;
    auto pick = [&](int64_t a, int64_t b) { return maximum ? std::max(a, b) : std::min(a, b); };
    Type type = commonType(x, y);
    return base(emit<OpTy>(materialize(x, type), materialize(y, type)),
                {pick(x.range.lo, y.range.lo), pick(x.range.hi, y.range.hi)});
  }

  Linear select(const Condition &condition, const Linear &x, const Linear &y) {
    if (condition.known)
      return *condition.known ? x : y;
    if (x == y || x.unknown)
      return x;
    if (y.unknown)
      return y;
    if (x.tooLarge || y.tooLarge)
      return unboundedLinear();
    Type type = commonType(x, y);
    return base(emit<arith::SelectOp>(condition.value, materialize(x, type), materialize(y, type)),
                {std::min(x.range.lo, y.range.lo), std::max(x.range.hi, y.range.hi)});
  }

  /// Truncating division by a positive constant.
  Linear divide(const Linear &x, int64_t divisor) {
    if (x.tooLarge)
      return unboundedLinear();
    if (divisor == 1 || x.unknown)
      return x;
    if (x.constant % divisor == 0 && llvm::all_of(x.terms, [&](auto &term) { return term.second % divisor == 0; })) {
      Linear result = x;
      result.constant /= divisor;
      for (auto &term : result.terms)
        term.second /= divisor;
      setRange(result);
      return result;
    }
    if (x.isConstant())
      return constantOf(x.constant / divisor);
    Type type = x.range.within(int32Range) && Range{divisor, divisor}.within(int32Range) ? naturalType(x)
                                                                                         : builder->getI64Type();
    return base(emit<arith::DivSIOp>(materialize(x, type), constantValue(type, divisor)),
                {x.range.lo / divisor, x.range.hi / divisor});
  }

  /// In [0, Sk].
  Linear clampToKeys(const Linear &x) { return maximum(minimum(x, keyCount), constantOf(0)); }

  /// The end of the tile's rows, min(q0 + tileQ, Sq).
  const Linear &queryEnd() {
    if (!queryEndValue) {
      Linear end = addConstant(queryBegin, tileQ);
      // A single row needs no cut: what a row beyond the sequence sees is never stored.
      queryEndValue = tileQ == 1 && builder ? end : minimum(end, queryCount);
      if (queryEndValue->terms.size() == 1 && !(*queryEndValue == queryCount)) {
        queryEndBase = queryEndValue->terms[0].first;
        if (Operation *definition = queryEndBase.getDefiningOp())
          tile::named(definition->getResult(0), "q_end");
      }
    }
    return *queryEndValue;
  }
  /// q of the tile's first and last row, as expressions see it.
  Linear firstQuery() { return add(queryBegin, queryOffset); }
  Linear lastQuery() { return addConstant(add(queryEnd(), queryOffset), -1); }

  //===--------------------------------------------------------------------===//
  // Emission
  //===--------------------------------------------------------------------===//

  template <typename OpTy, typename... Args> Value emit(Args... args) {
    assert(builder && "numbers fold");
    std::vector<const void *> key = {TypeID::get<OpTy>().getAsOpaquePointer(), keyOf(args)...};
    Value &known = emitted[key];
    if (!known)
      known = builder->createOrFold<OpTy>(loc, args...);
    return known;
  }
  static const void *keyOf(Value value) { return value.getAsOpaquePointer(); }
  static const void *keyOf(Type type) { return type.getAsOpaquePointer(); }
  static const void *keyOf(arith::CmpIPredicate predicate) {
    return reinterpret_cast<const void *>(uintptr_t(predicate));
  }

  Value constantValue(Type type, int64_t value) {
    Value &known = constants[{type.getAsOpaquePointer(), value}];
    if (!known)
      known = arith::ConstantOp::create(*builder, loc, builder->getIntegerAttr(type, value));
    return known;
  }

  /// The order in which the terms add up in i32 without overflow on the way; nothing where there is none.
  std::optional<SmallVector<std::pair<Value, int64_t>>> orderInI32(const Linear &x) const {
    SmallVector<std::pair<Value, int64_t>> order;
    Linear partial;
    // Positive terms first: a sum then starts with a value, not with a negation.
    SmallVector<std::pair<Value, int64_t>> rest;
    for (bool positive : {true, false})
      llvm::copy_if(x.terms, std::back_inserter(rest), [&](auto &term) { return (term.second > 0) == positive; });
    if (!Range{x.constant, x.constant}.within(int32Range))
      return std::nullopt;
    while (!rest.empty()) {
      auto *next = llvm::find_if(rest, [&](auto &term) {
        Linear extended = partial;
        extended.terms.push_back(term);
        setRange(extended);
        auto [least, most] = termRange(term);
        Range coefficient = {-std::abs(term.second), std::abs(term.second)};
        return !extended.tooLarge && extended.range.within(int32Range) && coefficient.within(int32Range) &&
               (least >= -int32Range.hi || term.second == 1) && most <= int32Range.hi &&
               ranges.lookup(term.first).within(int32Range);
      });
      if (next == rest.end())
        return std::nullopt;
      partial.terms.push_back(*next);
      order.push_back(*next);
      rest.erase(next);
    }
    setRange(partial);
    partial.constant = x.constant;
    setRange(partial);
    if (!partial.range.within(int32Range))
      return std::nullopt;
    return order;
  }

  Type naturalType(const Linear &x) {
    return orderInI32(x) ? Type(builder->getI32Type()) : Type(builder->getI64Type());
  }
  Type commonType(const Linear &x, const Linear &y) {
    Type type = naturalType(x);
    return type.isInteger(64) ? type : naturalType(y);
  }

  Value convert(Value value, Type type) {
    if (value.getType() == type)
      return value;
    return type.isInteger(64) ? emit<arith::ExtSIOp>(type, value) : emit<arith::TruncIOp>(type, value);
  }

  Value materialize(const Linear &x, Type type) {
    assert(!x.unknown && (!x.tooLarge || isWide(x)));
    if (x.terms.empty())
      return constantValue(type, x.constant);
    auto order = orderInI32(x);
    if (order && type.isInteger(64))
      return convert(materialize(x, builder->getI32Type()), type);
    if (!order && type.isInteger(32))
      return convert(materialize(x, builder->getI64Type()), type);
    auto terms = order ? ArrayRef(*order) : ArrayRef(x.terms);
    Value sum;
    int64_t constant = x.constant;
    for (auto [value, coefficient] : terms) {
      Value term = convert(atBlock(value), type);
      bool negative = coefficient < 0;
      if (uint64_t magnitude = negative ? 0 - uint64_t(coefficient) : uint64_t(coefficient); magnitude != 1)
        term = emit<arith::MulIOp>(term, constantValue(type, int64_t(magnitude)));
      if (sum)
        sum = negative ? emit<arith::SubIOp>(sum, term) : emit<arith::AddIOp>(sum, term);
      else if (negative) {
        // A lone term takes the constant with it.
        sum = emit<arith::SubIOp>(constantValue(type, terms.size() == 1 ? constant : 0), term);
        if (terms.size() == 1)
          constant = 0;
      } else
        sum = term;
    }
    if (constant < 0 && constant != std::numeric_limits<int64_t>::min() && constant != int32Range.lo)
      return emit<arith::SubIOp>(sum, constantValue(type, -constant));
    return constant ? emit<arith::AddIOp>(sum, constantValue(type, constant)) : sum;
  }

  /// A uniform value of the region, computed at block level exactly as written.
  Value atBlock(Value value) {
    if (value.getParentRegion() != &op.getMask())
      return value;
    if (Value known = cloned.lookupOrNull(value))
      return known;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      assert(argument.getArgNumber() < 2 && "q and k are not uniform");
      return argument.getArgNumber() == 0 ? values.b : values.h;
    }
    Operation *definition = value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : definition->getOperands())
      operands.push_back(atBlock(operand));
    Value result;
    if (auto load = dyn_cast<attn::LoadOp>(definition)) {
      attn::CapturedTensorAttr tensor = op.findTensor(load.getName());
      result = tile::ElementOp::create(*builder, load.getLoc(), load.getType(), tensorView(tensor), operands,
                                       SmallVector<bool>(operands.size(), false));
      tile::named(result, load.getName());
    } else if (auto scalar = dyn_cast<attn::ScalarOp>(definition)) {
      result = scalarValue(scalar.getName(), scalar.getType());
    } else if (auto extent = dyn_cast<attn::ExtentOp>(definition)) {
      result = extentValue(extent.getName());
    } else {
      for (auto [from, to] : llvm::zip_equal(definition->getOperands(), operands))
        cloned.map(from, to);
      result = builder->clone(*definition, cloned)->getResult(0);
    }
    cloned.map(value, result);
    return result;
  }

  Value parameter(StringRef name, Type type) {
    Value &known = parameters[name.str()];
    if (!known)
      known = tile::named(tile::ParamOp::create(*builder, loc, type, name), name);
    return known;
  }

  Value tensorView(attn::CapturedTensorAttr tensor) {
    Value &known = parameters[("tensors." + tensor.getName().getValue()).str()];
    if (!known)
      known = tile::readTensor(*builder, loc, tensor);
    return known;
  }

  Value scalarValue(StringRef name, Type type) {
    Value &known = parameters[("scalars." + name).str()];
    if (!known)
      known = tile::readScalar(*builder, loc, name, type);
    return known;
  }

  Value extentValue(StringRef name) {
    return name == "B" ? values.B : name == "H" ? values.H : name == "Sq" ? values.Sq : values.Sk;
  }

  //===--------------------------------------------------------------------===//
  // Values of the region
  //===--------------------------------------------------------------------===//

  /// Whether the value depends on an argument of the region from `first` on: 2 for q or k, 3 for k.
  bool dependsOn(Value value, unsigned first) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getArgNumber() >= first;
    auto [known, inserted] = dependence.try_emplace({value, first}, false);
    if (!inserted)
      return known->second;
    bool result =
        llvm::any_of(value.getDefiningOp()->getOperands(), [&](Value operand) { return dependsOn(operand, first); });
    return dependence[{value, first}] = result;
  }
  bool isUniform(Value value) { return !dependsOn(value, 2); }

  Form form(Value value) {
    if (auto known = forms.find(value); known != forms.end())
      return known->second;
    Form result = computeForm(value);
    if (result.values.isPoint() && !result.constant())
      result = exactly(constantOf(result.values.lo), result.values);
    return forms[value] = result;
  }

  static Form exactly(const Linear &value, Range range) {
    Form result;
    result.lo = result.hi = value;
    result.values = range;
    return result;
  }

  static Form anything(Range range) {
    Form result;
    result.lo = constantOf(range.lo);
    result.hi = constantOf(range.hi);
    result.values = range;
    return result;
  }

  /// A value that the forms cannot follow: exact where it is uniform, else anything in `range`.
  Form opaque(Value value, Range range) {
    if (!isUniform(value))
      return anything(range);
    if (builder)
      return exactly(base(value, range), range);
    Operation *definition = value.getDefiningOp();
    if (!definition || definition->getNumOperands() == 0)
      return exactly(unknownLinear(), range);
    SmallVector<Attribute> operands;
    for (Value operand : definition->getOperands()) {
      if (!isa<IntegerType>(operand.getType()) || operand.getType().isInteger(1))
        return exactly(unknownLinear(), range);
      std::optional<int64_t> constant = form(operand).constant();
      if (!constant)
        return exactly(unknownLinear(), range);
      operands.push_back(IntegerAttr::get(operand.getType(), *constant));
    }
    SmallVector<OpFoldResult> results;
    if (succeeded(definition->fold(operands, results)) && results.size() == 1)
      if (auto attribute = dyn_cast<Attribute>(results[0]))
        if (auto integer = dyn_cast<IntegerAttr>(attribute))
          return exactly(constantOf(integer.getValue().getSExtValue()), range);
    return exactly(unknownLinear(), range);
  }
  Form opaque(Value value) { return opaque(value, rangeOf(value.getType())); }

  /// The range, if it lies within the value's type: then the operation does not wrap.
  static std::optional<Range> unwrapped(Value value, Wide a, Wide b) {
    Range type = rangeOf(value.getType());
    Wide lo = std::min(a, b), hi = std::max(a, b);
    if (lo < type.lo || hi > type.hi)
      return std::nullopt;
    return Range{int64_t(lo), int64_t(hi)};
  }

  Form scaled(const Form &x, int64_t factor, Range range) {
    Form result;
    result.values = range;
    bool large = __builtin_mul_overflow(x.k, factor, &result.k) || __builtin_mul_overflow(x.q, factor, &result.q);
    if (large || factor == 0)
      return anything(range);
    result.kDivisor = x.kDivisor;
    result.lo = scale(factor > 0 ? x.lo : x.hi, factor);
    result.hi = scale(factor > 0 ? x.hi : x.lo, factor);
    return result;
  }

  Form signedForm(const Form &x, bool negative) {
    if (!negative)
      return x;
    return scaled(x, -1, x.values.lo == int64Range.lo ? int64Range : Range{-x.values.hi, -x.values.lo});
  }

  Form sum(Form x, Form y, Range range) {
    if (x.k && y.k && x.kDivisor != y.kDivisor)
      collapseKey(x.kDivisor == 1 ? y : x);
    Form result;
    result.values = range;
    bool large = __builtin_add_overflow(x.k, y.k, &result.k) || __builtin_add_overflow(x.q, y.q, &result.q);
    if (large)
      return anything(range);
    result.kDivisor = !result.k ? 1 : x.k ? x.kDivisor : y.kDivisor;
    result.lo = add(x.lo, y.lo);
    result.hi = add(x.hi, y.hi);
    return result;
  }

  /// Counts the key's part to the interval, for every key of the sequence or of the tile.
  void collapseKey(Form &x) {
    if (!x.k)
      return;
    Linear least = keyTileIndex ? scale(*keyTileIndex, tileK) : constantOf(0);
    Linear most = keyTileIndex ? addConstant(least, tileK - 1) : addConstant(keyCount, -1);
    Linear first = scale(divide(least, x.kDivisor), x.k), last = scale(divide(most, x.kDivisor), x.k);
    x.lo = add(x.lo, x.k > 0 ? first : last);
    x.hi = add(x.hi, x.k > 0 ? last : first);
    x.k = 0;
    x.kDivisor = 1;
  }
  /// The same for the queries of the tile.
  void collapseQuery(Form &x) {
    if (!x.q)
      return;
    Linear first = scale(firstQuery(), x.q), last = scale(lastQuery(), x.q);
    x.lo = add(x.lo, x.q > 0 ? first : last);
    x.hi = add(x.hi, x.q > 0 ? last : first);
    x.q = 0;
  }
  Form collapsed(Form x) {
    collapseKey(x);
    collapseQuery(x);
    return x;
  }

  /// One of two values, or between them.
  Form joined(Form x, Form y, Range range, function_ref<Linear(const Linear &, const Linear &)> low,
              function_ref<Linear(const Linear &, const Linear &)> high) {
    if (!x.sameCoefficients(y)) {
      x = collapsed(x);
      y = collapsed(y);
    }
    Form result = x;
    result.values = range;
    result.lo = low(x.lo, y.lo);
    result.hi = high(x.hi, y.hi);
    return result;
  }

  Form computeForm(Value value) {
    Type type = value.getType();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Range counted = {0, int32Range.hi - 1};
      if (argument.getArgNumber() < 2)
        return builder ? exactly(base(argument.getArgNumber() == 0 ? values.b : values.h, counted), counted)
                       : exactly(unknownLinear(), counted);
      Form result;
      if (argument.getArgNumber() == 2) {
        result.q = 1;
        result.values = op.getQOffset() ? Range{-maxExtent, 2 * maxExtent - 1} : Range{0, maxExtent - 1};
      } else {
        result.k = 1;
        result.values = {0, maxExtent - 1};
      }
      return result;
    }
    if (!isa<IntegerType>(type))
      return anything(int64Range);
    Operation *definition = value.getDefiningOp();
    if (auto load = dyn_cast<attn::LoadOp>(definition))
      if (auto ends = loadedEnds(load)) {
        Form result = exactly(base(ends->first, rangeOf(type)), rangeOf(type));
        result.hi = base(ends->second, rangeOf(type));
        return result;
      }
    if (auto constant = dyn_cast<arith::ConstantOp>(definition)) {
      const APInt &bits = cast<IntegerAttr>(constant.getValue()).getValue();
      int64_t number = type.isInteger(1) ? bits.getZExtValue() : bits.getSExtValue();
      return exactly(constantOf(number), {number, number});
    }
    if (auto extent = dyn_cast<attn::ExtentOp>(definition)) {
      if (extent.getName() == "Sq")
        return exactly(queryCount, {0, maxExtent});
      if (extent.getName() == "Sk")
        return exactly(keyCount, {0, maxExtent});
      Range counted = {0, int32Range.hi};
      return builder ? exactly(base(extentValue(extent.getName()), counted), counted)
                     : exactly(unknownLinear(), counted);
    }
    auto operand = [&](unsigned i) { return form(definition->getOperand(i)); };
    auto constantOperand = [&](unsigned i) { return operand(i).constant(); };

    if (isa<arith::AddIOp, arith::SubIOp>(definition)) {
      Form x = operand(0), y = operand(1);
      if (isa<arith::SubIOp>(definition)) {
        if (y.values.lo == int64Range.lo)
          return opaque(value);
        y = scaled(y, -1, {-y.values.hi, -y.values.lo});
      }
      auto range = unwrapped(value, Wide(x.values.lo) + y.values.lo, Wide(x.values.hi) + y.values.hi);
      return range ? sum(x, y, *range) : opaque(value);
    }
    if (isa<arith::MulIOp>(definition) || (isa<arith::ShLIOp>(definition) && constantOperand(1))) {
      Form x = operand(0), y = operand(1);
      if (isa<arith::ShLIOp>(definition)) {
        if (uint64_t(*y.constant()) >= type.getIntOrFloatBitWidth() - 1)
          return opaque(value);
        int64_t factor = int64_t(1) << *y.constant();
        y = exactly(constantOf(factor), {factor, factor});
      }
      if (x.constant())
        std::swap(x, y);
      Wide a = Wide(x.values.lo) * y.values.lo, b = Wide(x.values.lo) * y.values.hi,
           c = Wide(x.values.hi) * y.values.lo, d = Wide(x.values.hi) * y.values.hi;
      auto range = unwrapped(value, std::min({a, b, c, d}), std::max({a, b, c, d}));
      if (!range)
        return opaque(value);
      return y.constant() ? scaled(x, *y.constant(), *range) : opaque(value, *range);
    }
    if (isa<arith::ExtSIOp>(definition) && !definition->getOperand(0).getType().isInteger(1))
      return operand(0);
    if (isa<arith::TruncIOp>(definition) && !type.isInteger(1)) {
      Form x = operand(0);
      return x.values.within(rangeOf(type)) ? x : opaque(value);
    }
    if (isa<arith::ExtUIOp>(definition))
      return opaque(value, {0, 1});

    // Not linear. Uniform values are computed as written; of the others, bounds.
    bool uniform = isUniform(value);
    bool shift = isa<arith::ShRSIOp>(definition);
    if ((isa<arith::DivSIOp>(definition) || shift) && constantOperand(1)) {
      int64_t divisor = *constantOperand(1);
      Form x = operand(0);
      if (shift)
        divisor = divisor >= 0 && divisor < 62 ? int64_t(1) << divisor : 0;
      // An arithmetic shift rounds down, a division towards zero.
      if (divisor <= 0 || (shift && x.values.lo < 0))
        return opaque(value);
      Range range = {x.values.lo / divisor, x.values.hi / divisor};
      if (uniform)
        return opaque(value, range);
      if (x.k == 1 && x.q == 0 && x.lo == constantOf(0) && x.hi == constantOf(0)) {
        if (!__builtin_mul_overflow(x.kDivisor, divisor, &x.kDivisor) && x.kDivisor <= 2 * maxExtent) {
          x.values = range;
          return x;
        }
        return anything(range);
      }
      x = collapsed(x);
      Linear lo = divide(x.lo, divisor), hi = x.lo == x.hi ? lo : divide(x.hi, divisor);
      Form result = exactly(lo, range);
      result.hi = hi;
      return result;
    }
    if (isa<arith::RemSIOp>(definition) && constantOperand(1)) {
      int64_t divisor = *constantOperand(1);
      Form x = operand(0);
      if (divisor == 0 || divisor == int64Range.lo)
        return opaque(value);
      int64_t most = std::abs(divisor) - 1;
      if (x.values.within({-most, most}))
        return x;
      return opaque(value, {x.values.lo < 0 ? std::max(-most, x.values.lo) : 0,
                            x.values.hi > 0 ? std::min(most, x.values.hi) : 0});
    }
    if (isa<arith::MinSIOp, arith::MaxSIOp>(definition)) {
      bool isMax = isa<arith::MaxSIOp>(definition);
      const Form x = operand(0), y = operand(1);
      Range range = isMax ? Range{std::max(x.values.lo, y.values.lo), std::max(x.values.hi, y.values.hi)}
                          : Range{std::min(x.values.lo, y.values.lo), std::min(x.values.hi, y.values.hi)};
      if (uniform)
        return opaque(value, range);
      auto combine = [&](const Linear &a, const Linear &b) { return isMax ? maximum(a, b) : minimum(a, b); };
      return joined(x, y, range, combine, combine);
    }
    if (isa<arith::SelectOp>(definition) && !type.isInteger(1)) {
      const Form x = operand(1), y = operand(2);
      Range range = {std::min(x.values.lo, y.values.lo), std::max(x.values.hi, y.values.hi)};
      if (uniform)
        return opaque(value, range);
      return joined(
          x, y, range, [&](const Linear &a, const Linear &b) { return minimum(a, b); },
          [&](const Linear &a, const Linear &b) { return maximum(a, b); });
    }
    if (isa<math::AbsIOp>(definition)) {
      Form x = operand(0);
      if (x.values.lo == rangeOf(type).lo)
        return opaque(value);
      Range range = {std::max<int64_t>({x.values.lo, -x.values.hi, 0}), std::max(-x.values.lo, x.values.hi)};
      if (uniform)
        return opaque(value, range);
      x = collapsed(x);
      Form result = x;
      result.values = range;
      result.lo = maximum(maximum(x.lo, scale(x.hi, -1)), constantOf(0));
      result.hi = maximum(x.hi, scale(x.lo, -1));
      return result;
    }
    if (isa<arith::AndIOp>(definition) && !type.isInteger(1)) {
      Range x = operand(0).values, y = operand(1).values;
      if (x.lo >= 0 || y.lo >= 0)
        return opaque(value, {0, x.lo < 0 ? y.hi : y.lo < 0 ? x.hi : std::min(x.hi, y.hi)});
    }
    return opaque(value);
  }

  //===--------------------------------------------------------------------===//
  // Bounds of what is loaded
  //===--------------------------------------------------------------------===//

  /// Whether `index` is q (2) or k (3), as it is.
  static bool isCoordinate(Value index, unsigned argument) {
    if (auto wide = index.getDefiningOp<arith::ExtSIOp>())
      index = wide.getIn();
    auto known = dyn_cast<BlockArgument>(index);
    return known && known.getArgNumber() == argument;
  }

  /// The dimension along which q or k goes, where the load is one of integers by it and uniform indices alone.
  struct Way {
    unsigned dim, argument;
  };
  std::optional<Way> wayOf(attn::LoadOp load) {
    if (!isa<IntegerType>(load.getType()))
      return std::nullopt;
    std::optional<Way> way;
    for (auto [dim, index] : llvm::enumerate(load.getIndices())) {
      if (isUniform(index))
        continue;
      unsigned argument = isCoordinate(index, 3) ? 3 : 2;
      if (way || !isCoordinate(index, argument))
        return std::nullopt;
      way = {unsigned(dim), argument};
    }
    return way;
  }

  /// Whether a tile of keys has bounds of something that `value` loads, or is needed to compare something that is wide.
  bool loadsByTile(Value value) {
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return false;
    if (auto known = loading.find(value); known != loading.end())
      return known->second;
    bool result = llvm::any_of(definition->getOperands(), [&](Value operand) { return loadsByTile(operand); });
    if (auto load = dyn_cast<attn::LoadOp>(definition))
      if (auto way = wayOf(load))
        result |= way->argument == 3 || load.getType().isInteger(64);
    return loading[value] = result;
  }

  /// The least and the greatest that the tile's rows load; of bool, whether all and any are true.
  std::optional<std::pair<Value, Value>> loadedEnds(attn::LoadOp load) {
    std::optional<Way> way = tables ? wayOf(load) : std::nullopt;
    if (!way || (way->argument == 3 && !keyTileIndex))
      return std::nullopt;
    attn::CapturedTensorAttr tensor = op.findTensor(load.getName());
    bool ofKeys = way->argument == 3;
    std::string name = load.getName().str() + (ofKeys ? ".k" : values.part ? ".part" : ".q");
    if (int64_t(way->dim) + 1 != tensor.getRank())
      name += std::to_string(way->dim);
    const BoundsTable table{name, tensor, way->dim, ofKeys, ofKeys ? tileK : tileQ};
    if (!llvm::is_contained(*tables, table))
      tables->push_back(table);
    Value view = parameter(name, table.declaration().getViewType());
    Linear tile = ofKeys ? *keyTileIndex : divide(queryBegin, tileQ);
    const bool isBool = load.getType().isInteger(1);
    auto read = [&](int64_t which, StringRef end) {
      SmallVector<Value> indices = {toI32(constantOf(which), "end")};
      for (auto [dim, index] : llvm::enumerate(load.getIndices()))
        if (dim != way->dim)
          indices.push_back(atBlock(index));
      SmallVector<bool> inRange(indices.size() + 1, false);
      inRange.front() = inRange.back() = true;
      indices.push_back(toI32(tile, ofKeys ? "k_tile" : "q_tile"));
      Value element = tile::ElementOp::create(*builder, load.getLoc(),
                                              attn::valueType(cast<tile::ViewType>(view.getType()).getElementType()),
                                              view, indices, inRange);
      tile::named(element, (load.getName() + (ofKeys ? "_k_" : "_q_") + end).str());
      return isBool ? Value(arith::TruncIOp::create(*builder, load.getLoc(), load.getType(), element)) : element;
    };
    Value least = read(0, isBool ? "all" : "min");
    return std::pair(least, read(1, isBool ? "any" : "max"));
  }

  //===--------------------------------------------------------------------===//
  // Intervals of keys
  //===--------------------------------------------------------------------===//

  /// All keys where the condition holds, else none.
  Interval when(const Condition &condition) {
    if (condition.known)
      return *condition.known ? Interval::all() : Interval::empty();
    return {std::nullopt, select(condition, keyCount, constantOf(0))};
  }

  Interval intersect(const Interval &x, const Interval &y) {
    if (x.isEmpty() || y.isAll())
      return x;
    if (y.isEmpty() || x.isAll())
      return y;
    Interval result;
    result.lo = x.lo && y.lo ? maximum(*x.lo, *y.lo) : x.lo ? x.lo : y.lo;
    result.hi = x.hi && y.hi ? minimum(*x.hi, *y.hi) : x.hi ? x.hi : y.hi;
    return result;
  }

  Linear lowEnd(const Interval &x) { return x.lo ? clampToKeys(*x.lo) : constantOf(0); }
  Linear highEnd(const Interval &x) { return x.hi ? clampToKeys(*x.hi) : keyCount; }

  /// The least interval that contains both.
  Interval hullOf(const Interval &x, const Interval &y) {
    if (x.isAll() || y.isEmpty())
      return x;
    if (y.isAll() || x.isEmpty())
      return y;
    if (!x.lo && !y.lo)
      return x.hi && y.hi ? Interval{std::nullopt, maximum(*x.hi, *y.hi)} : Interval::all();
    Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
    Condition xEmpty = lessEqual(xHi, xLo), yEmpty = lessEqual(yHi, yLo);
    return {select(xEmpty, yLo, select(yEmpty, xLo, minimum(xLo, yLo))),
            select(xEmpty, yHi, select(yEmpty, xHi, maximum(xHi, yHi)))};
  }

  /// An interval that lies in the union: the union itself where both touch, else the longer.
  Interval unionOf(const Interval &x, const Interval &y) {
    if (x.isAll() || y.isEmpty())
      return x;
    if (y.isAll() || x.isEmpty())
      return y;
    if (!x.lo && !y.lo)
      return x.hi && y.hi ? Interval{std::nullopt, maximum(*x.hi, *y.hi)} : Interval::all();
    if (!x.hi && !y.hi)
      return {minimum(*x.lo, *y.lo), std::nullopt};
    Linear xLo = lowEnd(x), yLo = lowEnd(y), xHi = highEnd(x), yHi = highEnd(y);
    Condition touch = both(lessEqual(xLo, yHi), lessEqual(yLo, xHi));
    Condition xLonger = lessEqual(subtract(yHi, yLo), subtract(xHi, xLo));
    return {select(touch, minimum(xLo, yLo), select(xLonger, xLo, yLo)),
            select(touch, maximum(xHi, yHi), select(xLonger, xHi, yHi))};
  }

  Condition both(const Condition &x, const Condition &y) {
    if (x.known)
      return *x.known ? y : x;
    if (y.known)
      return *y.known ? x : y;
    return {{}, emit<arith::AndIOp>(x.value, y.value)};
  }
  Condition either(const Condition &x, const Condition &y) {
    if (x.known)
      return *x.known ? x : y;
    if (y.known)
      return *y.known ? y : x;
    return {{}, emit<arith::OrIOp>(x.value, y.value)};
  }
  Condition opposite(const Condition &x) {
    if (x.known)
      return {!*x.known, {}};
    return {{}, emit<arith::XOrIOp>(x.value, constantValue(builder->getI1Type(), 1))};
  }

  Bounds conjunction(const Bounds &x, const Bounds &y) {
    return {intersect(x.hull, y.hull), intersect(x.full, y.full)};
  }
  Bounds disjunction(const Bounds &x, const Bounds &y) { return {hullOf(x.hull, y.hull), unionOf(x.full, y.full)}; }

  //===--------------------------------------------------------------------===//
  // Verdicts on a tile
  //===--------------------------------------------------------------------===//

  Verdict conjunction(const Verdict &x, const Verdict &y) {
    return {both(x.possible, y.possible), both(x.certain, y.certain)};
  }
  Verdict disjunction(const Verdict &x, const Verdict &y) {
    return {either(x.possible, y.possible), either(x.certain, y.certain)};
  }

  /// Whether nothing is known of the value but its type.
  static bool isVague(const Form &x) {
    return !x.k && !x.q && x.lo.isConstant() && x.hi.isConstant() && x.lo.constant <= int32Range.lo &&
           x.hi.constant >= int32Range.hi;
  }

  /// x <= y, or x < y, for some and for all of the tile's elements.
  Verdict compare(Form x, Form y, bool strictly) {
    if (isVague(x) || isVague(y))
      return unknown<Verdict>();
    // Parts that both have go away.
    if (((x.k && y.k) || (x.q && y.q)) && (!x.k || !y.k || x.kDivisor == y.kDivisor)) {
      x = sum(x, signedForm(y, true), int64Range);
      y = exactly(constantOf(0), {0, 0});
    }
    x = collapsed(x);
    y = collapsed(y);
    for (const Linear *end : {&x.lo, &x.hi, &y.lo, &y.hi})
      if (end->unknown || (end->tooLarge && !isWide(*end)))
        return unknown<Verdict>();
    return {isOrdered(x.lo, y.hi, strictly), isOrdered(x.hi, y.lo, strictly)};
  }

  //===--------------------------------------------------------------------===//
  // The mask
  //===--------------------------------------------------------------------===//

  // Set is Bounds, intervals of keys, or Verdict, on one tile of keys.

  template <typename Set> Set unknown() {
    if constexpr (std::is_same_v<Set, Bounds>)
      return {Interval::all(), Interval::empty()};
    else
      return {{true, {}}, {false, {}}};
  }
  template <typename Set> Set everything() { return where<Set>({true, {}}); }

  /// The same for all elements.
  template <typename Set> Set where(const Condition &condition) { return where<Set>(condition, condition); }
  /// True for some where `any` holds, for all where `all` does.
  template <typename Set> Set where(const Condition &any, const Condition &all) {
    if constexpr (std::is_same_v<Set, Bounds>)
      return {when(any), when(all)};
    else
      return {any, all};
  }

  template <typename Set> auto &knownSets() {
    if constexpr (std::is_same_v<Set, Bounds>)
      return visited;
    else
      return judged;
  }

  /// Calls `body(conjunct, negated)` for the values whose conjunction the i1 value, negated or not, is; once for each,
  /// however often it occurs.
  void forEachConjunct(Value value, bool negate, function_ref<void(Value, bool)> body) {
    llvm::DenseSet<std::pair<Value, unsigned>> met;
    forEachConjunct(value, negate, body, met);
  }
  void forEachConjunct(Value value, bool negate, function_ref<void(Value, bool)> body,
                       llvm::DenseSet<std::pair<Value, unsigned>> &met) {
    if (!met.insert({value, negate}).second)
      return;
    Operation *definition = value.getDefiningOp();
    if (definition && (negate ? isa<arith::OrIOp>(definition) : isa<arith::AndIOp>(definition)))
      for (Value operand : definition->getOperands())
        forEachConjunct(operand, negate, body, met);
    else if (auto flip = dyn_cast_or_null<arith::XOrIOp>(definition); flip && matchPattern(flip.getRhs(), m_One()))
      forEachConjunct(flip.getLhs(), !negate, body, met);
    else
      body(value, negate);
  }

  /// The elements where the i1 value, negated or not, is true.
  template <typename Set> Set visit(Value value, bool negate) {
    std::pair<Value, unsigned> key(value, negate);
    if (auto known = knownSets<Set>().find(key); known != knownSets<Set>().end())
      return known->second;
    Set result = computeSet<Set>(value, negate);
    return knownSets<Set>()[key] = result;
  }

  template <typename Set> Set computeSet(Value value, bool negate) {
    APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return where<Set>({constant.isZero() == negate, {}});
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return unknown<Set>();
    bool uniform = isUniform(value);
    if (builder && uniform) {
      Condition condition{{}, atBlock(value)};
      if constexpr (std::is_same_v<Set, Verdict>)
        return where<Set>(negate ? opposite(condition) : condition);
      else {
        Interval interval = {std::nullopt, negate ? select(condition, constantOf(0), keyCount)
                                                  : select(condition, keyCount, constantOf(0))};
        return {interval, interval};
      }
    }
    auto operand = [&](unsigned i) { return definition->getOperand(i); };
    if (auto load = dyn_cast<attn::LoadOp>(definition))
      if (auto ends = loadedEnds(load)) {
        Condition all{{}, ends->first}, any{{}, ends->second};
        return negate ? where<Set>(opposite(all), opposite(any)) : where<Set>(any, all);
      }
    if (isa<arith::AndIOp, arith::OrIOp>(definition)) {
      Set x = visit<Set>(operand(0), negate), y = visit<Set>(operand(1), negate);
      return isa<arith::AndIOp>(definition) != negate ? conjunction(x, y) : disjunction(x, y);
    }
    if (isa<arith::XOrIOp>(definition))
      return different<Set>(operand(0), operand(1), negate);
    if (isa<arith::SelectOp>(definition))
      return disjunction(conjunction(visit<Set>(operand(0), false), visit<Set>(operand(1), negate)),
                         conjunction(visit<Set>(operand(0), true), visit<Set>(operand(2), negate)));
    if (auto compare = dyn_cast<arith::CmpIOp>(definition)) {
      using Predicate = arith::CmpIPredicate;
      Predicate predicate = negate ? arith::invertPredicate(compare.getPredicate()) : compare.getPredicate();
      Value x = compare.getLhs(), y = compare.getRhs();
      if (x.getType().isInteger(1)) {
        if (predicate == Predicate::eq || predicate == Predicate::ne)
          return different<Set>(x, y, predicate == Predicate::eq);
        return uniform ? everything<Set>() : unknown<Set>();
      }
      switch (predicate) {
      case Predicate::sle:
        return atMost<Set>({x}, {y}, 0);
      case Predicate::slt:
        return atMost<Set>({x}, {y}, 1);
      case Predicate::sge:
        return atMost<Set>({y}, {x}, 0);
      case Predicate::sgt:
        return atMost<Set>({y}, {x}, 1);
      case Predicate::eq:
        return conjunction(atMost<Set>({x}, {y}, 0), atMost<Set>({y}, {x}, 0));
      case Predicate::ne:
        return disjunction(atMost<Set>({x}, {y}, 1), atMost<Set>({y}, {x}, 1));
      default:
        break;
      }
    }
    // Only a numeric evaluation gets here with a uniform value: one that it does not know.
    return uniform ? everything<Set>() : unknown<Set>();
  }

  /// x != y of bools, or x == y.
  template <typename Set> Set different(Value x, Value y, bool negate) {
    if (matchPattern(x, m_Constant()))
      std::swap(x, y);
    APInt constant;
    if (matchPattern(y, m_ConstantInt(&constant)))
      return visit<Set>(x, negate != !constant.isZero());
    return disjunction(conjunction(visit<Set>(x, false), visit<Set>(y, !negate)),
                       conjunction(visit<Set>(x, true), visit<Set>(y, negate)));
  }

  /// One side of a comparison: a value or its negative.
  struct Side {
    Value value;
    bool negative = false;
  };

  /// x + slack <= y.
  template <typename Set> Set atMost(Side x, Side y, int64_t slack) {
    // |a| <= y is a <= y && -a <= y, and so on: exact, and each part is linear.
    for (bool right : {false, true}) {
      Side side = right ? y : x;
      Operation *definition = side.value.getDefiningOp();
      if (!definition || side.negative || !dependsOn(side.value, 3) || splits == 0)
        continue;
      SmallVector<Side, 2> parts;
      bool all = !right;
      if (isa<arith::MaxSIOp, arith::MinSIOp>(definition)) {
        parts = {{definition->getOperand(0)}, {definition->getOperand(1)}};
        all = all == isa<arith::MaxSIOp>(definition);
      } else if (isa<math::AbsIOp>(definition) &&
                 form(definition->getOperand(0)).values.lo > rangeOf(side.value.getType()).lo) {
        parts = {{definition->getOperand(0)}, {definition->getOperand(0), true}};
      } else {
        continue;
      }
      --splits;
      Set first = right ? atMost<Set>(x, parts[0], slack) : atMost<Set>(parts[0], y, slack);
      Set second = right ? atMost<Set>(x, parts[1], slack) : atMost<Set>(parts[1], y, slack);
      return all ? conjunction(first, second) : disjunction(first, second);
    }
    Form low = form(x.value), high = form(y.value);
    if constexpr (std::is_same_v<Set, Verdict>)
      return compare(signedForm(low, x.negative), signedForm(high, y.negative), slack == 1);
    else
      return solveAtMost(low, high, x.negative, y.negative, slack);
  }

  Bounds solveAtMost(Form low, Form high, bool lowNegative, bool highNegative, int64_t slack) {
    narrow(low, high.values);
    narrow(high, low.values);
    if (low.lo.unknown || low.hi.unknown || high.lo.unknown || high.hi.unknown)
      return everything<Bounds>();
    Range solvable = {-maxTerm, maxTerm};
    if (isVague(low) || isVague(high))
      return unknown<Bounds>();
    if (!low.values.within(solvable) || !high.values.within(solvable))
      return unknown<Bounds>();
    Form difference = sum(signedForm(low, lowNegative), signedForm(high, !highNegative), int64Range);
    difference.lo = addConstant(difference.lo, slack);
    difference.hi = addConstant(difference.hi, slack);
    return solve(difference);
  }

  /// A uniform i64 that is compared with something much smaller: clamped to just outside the other's values,
  /// which changes no comparison.
  void narrow(Form &x, Range other) {
    Wide limit = Wide(1) << 40;
    if (!isWide(x.lo) || !(x.lo == x.hi) || x.k || x.q || other.lo < -limit || other.hi > limit)
      return;
    // Twice the size, so that a negated side stays outside too.
    int64_t bound = 2 * std::max(std::abs(other.lo), std::abs(other.hi)) + 2;
    Type type = builder->getI64Type();
    Value value = convert(atBlock(x.lo.terms[0].first), type);
    value = emit<arith::MinSIOp>(value, constantValue(type, bound));
    value = emit<arith::MaxSIOp>(value, constantValue(type, -bound));
    x = exactly(base(value, {-bound, bound}), {-bound, bound});
  }

  /// x <= 0 for all or some of the queries and of the values in [x.lo, x.hi].
  Bounds solve(const Form &x) {
    Form atEnds = x;
    collapseQuery(atEnds);
    const Linear &least = atEnds.lo, &most = atEnds.hi;
    if (least.unknown || most.unknown)
      return everything<Bounds>();
    if (least.tooLarge || most.tooLarge)
      return unknown<Bounds>();
    auto bound = [&](const Linear &rest) -> std::optional<Interval> {
      if (x.k == 0)
        return when(lessEqual(rest, constantOf(0)));
      if (x.k == std::numeric_limits<int64_t>::min())
        return std::nullopt;
      Interval result;
      int64_t factor = std::abs(x.k);
      if (x.k > 0) {
        // key / n <= floor(-rest / factor), that is key < n * (floor(-rest / factor) + 1).
        Linear end = scale(rest, -1);
        end = factor == 1 ? addConstant(end, 1) : divide(maximum(addConstant(end, factor), constantOf(0)), factor);
        result.hi = scale(end, x.kDivisor);
      } else {
        // key / n >= ceil(rest / factor), that is key >= n * ceil(rest / factor).
        Linear begin = factor == 1 ? rest : divide(maximum(addConstant(rest, factor - 1), constantOf(0)), factor);
        result.lo = scale(begin, x.kDivisor);
      }
      if ((result.lo && result.lo->tooLarge) || (result.hi && result.hi->tooLarge))
        return std::nullopt;
      return simplified(result);
    };
    auto hull = bound(least), full = least == most ? hull : bound(most);
    if (!hull || !full)
      return unknown<Bounds>();
    return {*hull, *full};
  }

  /// Without ends that never bind.
  Interval simplified(Interval x) {
    if (x.lo && x.lo->range.hi <= 0)
      x.lo.reset();
    if (x.hi && subtract(*x.hi, keyCount).range.lo >= 0)
      x.hi.reset();
    return x;
  }

  attn::AttentionOp op;
  OpBuilder *builder = nullptr;
  Location loc;
  BlockValues values;
  BoundsTables *tables = nullptr;
  int64_t tileQ, tileK;
  std::optional<Linear> keyTileIndex;
  Linear queryBegin, queryCount, keyCount, queryOffset = constantOf(0);
  std::optional<Linear> queryEndValue;
  Value queryEndBase;
  /// Comparisons of min, max and abs that are still split into simpler ones; bounds the work.
  int splits = 32;

  DenseMap<Value, Range> ranges;
  std::map<std::vector<const void *>, Value> emitted;
  std::map<std::pair<const void *, int64_t>, Value> constants;
  std::map<std::string, Value> parameters;
  IRMapping cloned;
  DenseMap<std::pair<Value, unsigned>, bool> dependence;
  DenseMap<Value, bool> loading; // loadsByTile
  DenseMap<Value, Form> forms;
  DenseMap<std::pair<Value, unsigned>, Bounds> visited; // by value and negation
  DenseMap<std::pair<Value, unsigned>, Verdict> judged;
};

} // namespace

/// What the region of a domain needs not compute for each tile again moves in front of it.
static void hoistFromRegion(tile::DomainOp domain) {
  Block &body = domain.getWhere().front();
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return operand.getParentBlock() == &body; }))
      op.moveBefore(domain);
}

/// Erases those of `ops`, a stretch of a block, that nothing needs.
static void eraseDead(ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// The conjuncts by what they leave of any one row.
static MaskAnalysis::RowConjuncts rowConjuncts(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values) {
  // It shows in what the analysis of one row emits, which nothing else needs.
  OpBuilder::InsertionGuard guard(builder);
  Region scratch;
  BlockValues row = values;
  row.q0 = builder.createBlock(&scratch, {}, builder.getI32Type(), op.getLoc())->getArgument(0);
  row.tileQ = 1;
  return MaskAnalysis(op, builder, row).rowConjuncts();
}

tile::OperandAttr BoundsTable::declaration() const {
  Builder builder(tensor.getContext());
  auto axis = [&](const llvm::Twine &name, int64_t size, int64_t by) {
    return tile::AxisAttr::get(tensor.getContext(), builder.getStringAttr(name), size, by);
  };
  SmallVector<tile::AxisAttr> axes = {axis("end", 2, 1)};
  for (int64_t other = 0; other < tensor.getRank(); ++other)
    if (other != dim)
      axes.push_back(axis(tile::tensorPrefix + tensor.getName().getValue() + "." + llvm::Twine(other), 0, 1));
  axes.push_back(axis(this->axis(), 0, rows));
  const Type element = tensor.getElementType();
  return tile::OperandAttr::get(tensor.getContext(), builder.getStringAttr(name), OperandRole::Workspace,
                                /*optional=*/false, axes, element.isInteger(8) ? builder.getI32Type() : element);
}

Value attune::buildDomain(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds) {
  Location loc = op.getLoc();
  Block *block = builder.getInsertionBlock();
  Operation *before =
      builder.getInsertionPoint() == block->begin() ? nullptr : &*std::prev(builder.getInsertionPoint());
  SmallVector<BoundsTable> tables;
  MaskAnalysis analysis(op, builder, values, &tables);
  // Cuts have conditions of their own.
  auto [begin, fullBegin, fullEnd, end] = analysis.tiles(ArrayRef<Conjunct>(rowConjuncts(builder, op, values).rest));

  // The region, first: without full tiles in it the segments have none.
  bool hasFull = !(fullBegin == fullEnd) && !(fullBegin == end);
  Region where;
  attn::BlockPatternAttr pattern = op.getPatternAttr();
  if (bool byTile = !analysis.conjunctsByTile().empty(); byTile || pattern) {
    OpBuilder::InsertionGuard guard(builder);
    Value visible, full;
    Value tile = builder.createBlock(&where, {}, builder.getI32Type(), loc)->getArgument(0);
    if (byTile) {
      MaskAnalysis ofTile(op, builder, values, &tables, tile);
      Verdict verdict = ofTile.verdict();
      visible = ofTile.toI1(verdict.possible);
      full = ofTile.toI1(verdict.certain);
    } else {
      visible = full = arith::ConstantIntOp::create(builder, loc, 1, 1);
    }
    if (pattern) {
      attn::CapturedTensorAttr tensor = op.findTensor(pattern.getName());
      Value view = tile::readTensor(builder, loc, tensor);
      SmallVector<Value> indices;
      if (tensor.getRank() == 3)
        indices.push_back(values.h);
      Value step = arith::ConstantIntOp::create(builder, loc, values.tileK, 32);
      indices.append({values.q0, arith::MulIOp::create(builder, loc, tile, step, arith::IntegerOverflowFlags::nsw)});
      Value touches = tile::TouchesOp::create(builder, loc, builder.getI1Type(), view, indices, values.tileQ,
                                              values.tileK, pattern.getRows(), pattern.getColumns());
      visible = builder.createOrFold<arith::AndIOp>(loc, touches, visible);
    }
    hasFull &= !matchPattern(full, m_Zero());
    if (matchPattern(visible, m_One()) && !hasFull)
      where.getBlocks().clear();
    else
      tile::YieldOp::create(builder, loc, ValueRange{visible, full});
  }

  SmallVector<Value> begins, ends;
  SmallVector<bool> kinds;
  auto segment = [&](const Linear &from, StringRef fromName, const Linear &to, StringRef toName, bool isFull) {
    begins.push_back(analysis.toI32(from, fromName));
    ends.push_back(analysis.toI32(to, toName));
    kinds.push_back(isFull);
  };
  if (!hasFull) {
    segment(begin, "tiles_begin", end, "tiles_end", false);
  } else {
    if (!(begin == fullBegin))
      segment(begin, "tiles_begin", fullBegin, "full_begin", false);
    segment(fullBegin, begin == fullBegin ? "tiles_begin" : "full_begin", fullEnd,
            fullEnd == end ? "tiles_end" : "full_end", true);
    if (!(fullEnd == end))
      segment(fullEnd, "full_end", end, "tiles_end", false);
  }
  auto domain = tile::DomainOp::create(builder, loc, tile::DomainType::get(op.getContext()), builder.getStringAttr("k"),
                                       builder.getI64IntegerAttr(values.tileK), begins, ends,
                                       builder.getDenseBoolArrayAttr(kinds), /*reverse=*/UnitAttr());
  domain.getWhere().takeBody(where);
  if (!domain.getWhere().empty())
    hoistFromRegion(domain);

  // Tables that the result does without are not made.
  SmallVector<Operation *> made;
  for (Operation &op :
       llvm::make_range(before ? std::next(Block::iterator(before)) : block->begin(), Block::iterator(domain)))
    made.push_back(&op);
  if (!domain.getWhere().empty())
    for (Operation &op : domain.getWhere().front().without_terminator())
      made.push_back(&op);
  eraseDead(made);
  llvm::copy_if(tables, std::back_inserter(bounds), [&](const BoundsTable &table) {
    return !llvm::is_contained(bounds, table) &&
           holds<tile::ParamOp>(*block, [&](tile::ParamOp param) { return param.getName() == table.name; });
  });
  return domain;
}

SmallVector<Value, 2> attune::emitHull(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values) {
  Location loc = op.getLoc();
  MaskAnalysis analysis(op, builder, values);
  auto [begin, fullBegin, fullEnd, end] = analysis.tiles();
  Value first = analysis.toI32(begin, "own_begin"), last = analysis.toI32(end, "visible_end");
  auto followsQueries = [&](Value tile) {
    return followsFrom(tile, [&](Operation *op) { return op == values.q0.getDefiningOp(); });
  };
  if (!followsQueries(first) && !followsQueries(last))
    return {};
  Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, values.q0, values.Sq);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return {first, tile::named(arith::SelectOp::create(builder, loc, exists, last, zero), "own_end")};
}

MaskSplit attune::splitMask(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds) {
  MaskAnalysis::RowConjuncts ofRow = rowConjuncts(builder, op, values);
  MaskSplit split;
  split.rest = std::move(ofRow.rest);
  SmallVector<BoundsTable> tables;
  MaskAnalysis analysis(op, builder, values, &tables);
  auto add = [&](SmallVector<Conjunct> &conjuncts, bool withSk) {
    if (conjuncts.empty() && !withSk)
      return;
    Interval full = analysis.fullInterval(conjuncts);
    // An end each: the comparisons of both at once take a device compiler a register for each element.
    if (full.lo)
      split.cuts.push_back({conjuncts, analysis.beginOf(full, "full_from"), {}});
    if (full.hi || withSk)
      split.cuts.push_back({std::move(conjuncts), {}, analysis.endOf(full, "full_to")});
  };
  // Keys end at Sk in every row.
  add(ofRow.upper, true);
  add(ofRow.lower, false);
  add(ofRow.both, false);
  for (const BoundsTable &table : tables)
    if (!llvm::is_contained(bounds, table))
      bounds.push_back(table);
  return split;
}

Value attune::emitCut(OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const MaskCut &cut, Value k0,
                      Value column) {
  assert(row.tileQ == 1 && "one row");
  MaskAnalysis analysis(op, builder, row);
  Interval interval = analysis.fullInterval(cut.conjuncts);
  Location loc = cut.conjuncts.empty() ? op.getLoc() : cut.conjuncts.front().first.getLoc();
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
  // In columns of the tile, within [0, tileK].
  auto within = [&](Value end) -> Value {
    Value columns = arith::SubIOp::create(builder, loc, end, k0, arith::IntegerOverflowFlags::nsw);
    columns = arith::MinSIOp::create(builder, loc, columns, constant(row.tileK));
    return arith::MaxSIOp::create(builder, loc, columns, constant(0));
  };
  if (cut.fullEnd)
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, column,
                                 within(analysis.endOf(interval, "row_end")));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, column,
                               within(analysis.beginOf(interval, "row_begin")));
}

bool attune::patternNeedsElementMask(attn::AttentionOp op, int64_t tileQ, int64_t tileK) {
  attn::BlockPatternAttr pattern = op.getPatternAttr();
  return pattern && (pattern.getRows() % tileQ != 0 || pattern.getColumns() % tileK != 0);
}

Value attune::emitPatternLookup(OpBuilder &builder, Value view, Value h, Value q, Value k,
                                attn::BlockPatternAttr pattern) {
  Location loc = view.getLoc();
  SmallVector<Value> indices;
  if (cast<tile::ViewType>(view.getType()).getRank() == 3)
    indices.push_back(h);
  for (auto [coordinate, size] : {std::pair(q, pattern.getRows()), std::pair(k, pattern.getColumns())}) {
    Value divisor = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(size));
    indices.push_back(arith::DivSIOp::create(builder, loc, coordinate, divisor));
  }
  return tile::ElementOp::create(builder, loc, builder.getI1Type(), view, indices,
                                 SmallVector<bool>(indices.size(), false));
}

TileSegments attune::evaluateDomain(attn::AttentionOp op, int64_t q0, int64_t qOffset, int64_t Sq, int64_t Sk,
                                    int64_t tileQ, int64_t tileK) {
  auto [begin, fullBegin, fullEnd, end] = MaskAnalysis(op, q0, qOffset, Sq, Sk, tileQ, tileK).tiles();
  return {begin.constant, fullBegin.constant, fullEnd.constant, end.constant};
}

VisitedTiles attune::countVisitedTiles(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK,
                                       int64_t qOffset) {
  VisitedTiles count;
  for (int64_t q0 = 0; q0 < Sq; q0 += tileQ) {
    TileSegments segments = evaluateDomain(op, q0, qOffset, Sq, Sk, tileQ, tileK);
    int64_t full = std::max<int64_t>(0, segments.fullEnd - segments.fullBegin);
    count.full += full;
    count.partial += std::max<int64_t>(0, segments.end - segments.begin) - full;
    count.all += (Sk + tileK - 1) / tileK;
  }
  return count;
}

std::optional<double> attune::visibleFraction(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ,
                                              int64_t tileK) {
  VisitedTiles count = countVisitedTiles(op, Sq, Sk, tileQ, tileK);
  if (count.all == 0)
    return std::nullopt;
  return double(count.full + count.partial) / double(count.all);
}
