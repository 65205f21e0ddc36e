//===- Ranges.cpp - Interval analysis of expressions in a launch ------------===//
#include "dsl/Ranges.h"

#include "dsl/Arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attune::dsl {

namespace {

Range ofType(DType type) {
  if (type == DType::Bool)
    return {0, 1};
  if (type == DType::I32)
    return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

/// The smallest range that contains the exact `values`, or the range of `type` where a value does not fit the type.
Range hull(DType type, std::initializer_list<__int128> values) {
  const Range all = ofType(type);
  const __int128 low = std::min(values), high = std::max(values);
  return low < all.low || high > all.high ? all : Range{int64_t(low), int64_t(high)};
}

Range join(Range x, Range y) { return {std::min(x.low, y.low), std::max(x.high, y.high)}; }

/// Calls `visit` with each element of a tensor of T.
template <typename T, typename Visit> void forEachElement(const Tensor &tensor, Visit visit) {
  const int64_t count = tensor.elements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, element = 0;
    for (int dim = tensor.rank - 1; dim >= 0; --dim) {
      if (tensor.shape[dim] > 1)
        element += rest % tensor.shape[dim] * tensor.strides[dim];
      rest /= tensor.shape[dim];
    }
    visit(tensor.as<T>()[element]);
  }
}

template <typename T, typename Value> Range ofIntegers(const Tensor &tensor, Value value) {
  Range result = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  forEachElement<T>(tensor, [&](T bits) {
    const int64_t x = value(bits);
    result = join(result, {x, x});
  });
  return result;
}

template <typename T, typename Value> FloatRange ofFloats(const Tensor &tensor, Value value) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  FloatRange result{inf, -inf, false};
  forEachElement<T>(tensor, [&](T bits) {
    const float x = value(bits);
    result = std::isnan(x) ? FloatRange{result.low, result.high, true} : join(result, FloatRange::of(x));
  });
  return result.low > result.high ? FloatRange{} : result;
}

} // namespace

Range Ranges::of(int position) {
  if (auto found = known.find(position); found != known.end())
    return found->second;
  const Range range = make(program[position]);
  return known[position] = range;
}

Range Ranges::make(const Instruction &instruction) {
  const Node &node = *instruction.node;
  switch (node.op) {
  case Op::Extent:
    return {instruction.tensor.data ? 0 : instruction.integer, instruction.integer};
  case Op::Constant:
  case Op::Scalar:
    return {instruction.integer, instruction.integer};
  case Op::Coordinate:
    return coordinates[size_t(node.coordinate)];
  case Op::Select:
    return join(of(instruction.operands[1]), of(instruction.operands[2]));
  case Op::Cast:
    return cast(instruction);
  case Op::Load:
    if (node.type == DType::I32)
      return ofIntegers<int32_t>(instruction.tensor, [](int32_t x) { return int64_t(x); });
    if (node.type == DType::I64)
      return ofIntegers<int64_t>(instruction.tensor, [](int64_t x) { return x; });
    return ofIntegers<uint8_t>(instruction.tensor, [](uint8_t x) { return int64_t(x != 0); });
  case Op::Search:
    return hull(DType::I32, {0, instruction.tensor.shape[0]});
  default:
    return node.type == DType::Bool ? ofType(DType::Bool) : arithmetic(instruction);
  }
}

Range Ranges::cast(const Instruction &instruction) {
  const DType to = instruction.node->type, from = program[instruction.operands[0]].node->type;
  if (to == DType::Bool)
    return ofType(to);
  if (from == DType::F32)
    return truncated(ofFloat(instruction.operands[0]), to);
  const Range x = of(instruction.operands[0]);
  return hull(to, {x.low, x.high});
}

FloatRange Ranges::ofFloat(int position) {
  if (auto found = knownFloats.find(position); found != knownFloats.end())
    return found->second;
  const FloatRange range = makeFloat(program[position]);
  return knownFloats[position] = range;
}

FloatRange Ranges::makeFloat(const Instruction &instruction) {
  const Node &node = *instruction.node;
  auto operand = [&](size_t i) { return ofFloat(instruction.operands[i]); };
  switch (node.op) {
  case Op::Constant:
  case Op::Scalar:
    return FloatRange::of(instruction.real);
  case Op::Input:
    return {};
  case Op::Select:
    return join(operand(1), operand(2));
  case Op::Cast:
    return FloatRange::of(of(instruction.operands[0]));
  case Op::Load:
    if (node.elementType == DType::F32)
      return ofFloats<float>(instruction.tensor, [](float x) { return x; });
    return node.elementType == DType::F16 ? ofFloats<uint16_t>(instruction.tensor, fromF16)
                                          : ofFloats<uint16_t>(instruction.tensor, fromBf16);
  default:
    return rangeOf(node.op, operand(0), node.operands.size() > 1 ? operand(1) : FloatRange{});
  }
}

Range Ranges::arithmetic(const Instruction &instruction) {
  const DType type = instruction.node->type;
  const Range x = of(instruction.operands[0]), y = of(instruction.operands.back());
  using Wide = __int128;
  switch (instruction.node->op) {
  case Op::Add:
    return hull(type, {Wide(x.low) + y.low, Wide(x.high) + y.high});
  case Op::Sub:
    return hull(type, {Wide(x.low) - y.high, Wide(x.high) - y.low});
  case Op::Mul:
    return hull(type, {Wide(x.low) * y.low, Wide(x.low) * y.high, Wide(x.high) * y.low, Wide(x.high) * y.high});
  case Op::Neg:
    return hull(type, {-Wide(x.high), -Wide(x.low)});
  case Op::Abs:
    return x.low >= 0 ? x : hull(type, {0, -Wide(x.low), Wide(x.high)});
  case Op::Min:
    return {std::min(x.low, y.low), std::min(x.high, y.high)};
  case Op::Max:
    return {std::max(x.low, y.low), std::max(x.high, y.high)};
  case Op::Div:
    // If all divisors have the same sign, the extreme quotients are at ends of the two ranges.
    if (y.low > 0 || y.high < 0) {
      auto quotient = [](int64_t a, int64_t b) { return b == -1 ? -Wide(a) : Wide(a / b); };
      return hull(type,
                  {quotient(x.low, y.low), quotient(x.low, y.high), quotient(x.high, y.low), quotient(x.high, y.high)});
    }
    return ofType(type);
  case Op::Rem:
    // A remainder has the dividend's sign, is at most the dividend in magnitude, and is smaller than the divisor.
    if (y.low > 0)
      return {x.low < 0 ? std::max(x.low, 1 - y.high) : 0, x.high > 0 ? std::min(x.high, y.high - 1) : 0};
    return ofType(type);
  case Op::BitAnd:
    // If one operand is not negative, neither is the result, which is at most that operand.
    if (x.low >= 0 || y.low >= 0)
      return {0, std::min(x.low >= 0 ? x.high : ofType(type).high, y.low >= 0 ? y.high : ofType(type).high)};
    return ofType(type);
  case Op::Shr:
    // A right shift by a constant is a division rounded down, which is monotonic.
    if (y.low == y.high && y.low >= 0 && y.low < (type == DType::I32 ? 32 : 64))
      return {x.low >> y.low, x.high >> y.low};
    return ofType(type);
  default:
    return ofType(type);
  }
}

} // namespace attune::dsl
