//===- BlockIntegers.cpp - Linear sums of integers uniform over a thread block ---===//

#include "passes/analysis/mask/BlockIntegers.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

mask::Range mask::rangeOf(Type type) {
  if (type.isInteger(1))
    return {0, 1};
  return type.isInteger(32) ? int32Range : int64Range;
}

Linear mask::constantOf(int64_t value) {
  Linear result;
  result.constant = value;
  result.range = {value, value};
  result.tooLarge = value < -maxTerm || value > maxTerm;
  return result;
}

Value BlockIntegers::toI32(const Linear &value, StringRef name) {
  assert(value.range.within(int32Range));
  Value result = materialize(value, builder->getI32Type());
  if (Operation *definition = result.getDefiningOp();
      definition && isa<arith::ArithDialect>(definition->getDialect()) && !isa<arith::ConstantOp>(definition) &&
      tile::nameOf(result).empty())
    tile::named(result, name);
  return result;
}

Linear BlockIntegers::base(Value value, Range range) {
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

Linear BlockIntegers::unknownLinear() {
  Linear result;
  result.unknown = true;
  return result;
}

Linear BlockIntegers::unboundedLinear() {
  Linear result;
  result.tooLarge = true;
  result.range = int64Range;
  return result;
}

bool BlockIntegers::isWide(const Linear &x) {
  return x.tooLarge && x.terms.size() == 1 && x.terms[0].second == 1 && x.constant == 0;
}

std::pair<Wide, Wide> BlockIntegers::termRange(std::pair<Value, int64_t> term) const {
  Range range = ranges.lookup(term.first);
  Wide a = Wide(range.lo) * term.second, b = Wide(range.hi) * term.second;
  return {std::min(a, b), std::max(a, b)};
}

void BlockIntegers::setRange(Linear &x) const {
  Wide lo = x.constant, hi = x.constant;
  bool large = lo < -maxTerm || hi > maxTerm || x.terms.size() > 8;
  for (auto term : x.terms) {
    auto [least, most] = termRange(term);
    large |= least < -maxTerm || most > maxTerm;
    lo += least;
    hi += most;
  }
  // A known difference x - y <= most bounds two terms of the sum together, tighter than the terms' own ranges do. For
  // each end of the range a term is used in one difference only, because a difference replaces the term's own
  // contribution to that end.
  unsigned usedLo = 0, usedHi = 0;
  for (const Difference &known : differences) {
    auto find = [&](Value base) { return llvm::find_if(x.terms, [&](auto &term) { return term.first == base; }); };
    const auto *of = find(known.x), *less = find(known.y);
    if (of == x.terms.end() || less == x.terms.end() || of->second != -less->second)
      continue;
    const Wide factor = of->second, most = factor * known.most;
    const auto [leastOf, mostOf] = termRange(*of);
    const auto [leastLess, mostLess] = termRange(*less);
    const unsigned both = 1u << (of - x.terms.begin()) | 1u << (less - x.terms.begin());
    if (factor > 0 && !(usedHi & both) && most < mostOf + mostLess) {
      hi += most - (mostOf + mostLess);
      usedHi |= both;
    } else if (factor < 0 && !(usedLo & both) && most > leastOf + leastLess) {
      lo += most - (leastOf + leastLess);
      usedLo |= both;
    }
  }
  x.tooLarge |= large;
  x.range = x.tooLarge ? int64Range : Range{int64_t(lo), int64_t(hi)};
}

Linear BlockIntegers::scale(const Linear &x, int64_t factor) {
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

Linear BlockIntegers::add(const Linear &x, const Linear &y) {
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

Condition BlockIntegers::isOrdered(const Linear &x, const Linear &y, bool strictly) {
  if (x.isConstant() && y.isConstant())
    return {strictly ? x.constant < y.constant : x.constant <= y.constant, {}};
  Linear difference = subtract(x, y);
  if (difference.range.hi <= -int64_t(strictly))
    return {true, {}};
  if (difference.range.lo > -int64_t(strictly))
    return {false, {}};
  Type type = commonType(x, y);
  auto predicate = strictly ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle;
  auto [a, b] = materialize(x, y, type);
  return {{}, emit<arith::CmpIOp>(predicate, a, b)};
}

template <typename OpTy> Linear BlockIntegers::extreme(const Linear &x, const Linear &y, bool maximum) {
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
  auto [a, b] = materialize(x, y, type);
  return base(emit<OpTy>(a, b), {pick(x.range.lo, y.range.lo), pick(x.range.hi, y.range.hi)});
}

Linear BlockIntegers::maximum(const Linear &x, const Linear &y) { return extreme<arith::MaxSIOp>(x, y, true); }
Linear BlockIntegers::minimum(const Linear &x, const Linear &y) { return extreme<arith::MinSIOp>(x, y, false); }

Linear BlockIntegers::select(const Condition &condition, const Linear &x, const Linear &y) {
  if (condition.known)
    return *condition.known ? x : y;
  if (x == y || x.unknown)
    return x;
  if (y.unknown)
    return y;
  if (x.tooLarge || y.tooLarge)
    return unboundedLinear();
  Type type = commonType(x, y);
  auto [a, b] = materialize(x, y, type);
  return base(emit<arith::SelectOp>(condition.value, a, b), hull(x.range, y.range));
}

Linear BlockIntegers::divide(const Linear &x, int64_t divisor) {
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
  Type type =
      x.range.within(int32Range) && Range{divisor, divisor}.within(int32Range) ? naturalType(x) : builder->getI64Type();
  return base(emit<arith::DivSIOp>(materialize(x, type), constantValue(type, divisor)),
              {x.range.lo / divisor, x.range.hi / divisor});
}

Value BlockIntegers::constantValue(Type type, int64_t value) {
  Value &known = constants[{type.getAsOpaquePointer(), value}];
  if (!known)
    known = arith::ConstantOp::create(*builder, loc, builder->getIntegerAttr(type, value));
  return known;
}

std::optional<SmallVector<std::pair<Value, int64_t>>> BlockIntegers::orderInI32(const Linear &x) const {
  SmallVector<std::pair<Value, int64_t>> order;
  Linear partial;
  // Positive terms come first, so that a sum starts with a value rather than a negation.
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

Type BlockIntegers::naturalType(const Linear &x) {
  return orderInI32(x) ? Type(builder->getI32Type()) : Type(builder->getI64Type());
}

Type BlockIntegers::commonType(const Linear &x, const Linear &y) {
  Type type = naturalType(x);
  return type.isInteger(64) ? type : naturalType(y);
}

Value BlockIntegers::convert(Value value, Type type) {
  if (value.getType() == type)
    return value;
  return type.isInteger(64) ? emit<arith::ExtSIOp>(type, value) : emit<arith::TruncIOp>(type, value);
}

Value BlockIntegers::materialize(const Linear &x, Type type) {
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
      // A sum of one negative term and a constant is emitted as one subtraction from the constant.
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

Condition BlockIntegers::both(const Condition &x, const Condition &y) {
  if (x.known)
    return *x.known ? y : x;
  if (y.known)
    return *y.known ? x : y;
  return {{}, emit<arith::AndIOp>(x.value, y.value)};
}

Condition BlockIntegers::either(const Condition &x, const Condition &y) {
  if (x.known)
    return *x.known ? x : y;
  if (y.known)
    return *y.known ? y : x;
  return {{}, emit<arith::OrIOp>(x.value, y.value)};
}

Condition BlockIntegers::opposite(const Condition &x) {
  if (x.known)
    return {!*x.known, {}};
  return {{}, emit<arith::XOrIOp>(x.value, constantValue(builder->getI1Type(), 1))};
}

Value BlockIntegers::toI1(const Condition &condition) {
  return condition.known ? Value(arith::ConstantOp::create(*builder, loc, builder->getBoolAttr(*condition.known)))
                         : condition.value;
}
