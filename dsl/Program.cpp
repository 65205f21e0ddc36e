//===- Program.cpp - A variant as a flat list of operations -----------------===//
#include "dsl/Program.h"

#include "dsl/Elements.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace attune::dsl {

//===----------------------------------------------------------------------===//
// Flattening
//===----------------------------------------------------------------------===//

Program::Program(const Variant &variant, const Bindings &bindings) {
  if (variant.maskExpr())
    mask = add(variant.maskExpr()->node(), bindings);
  if (variant.scoreExpr())
    score = add(variant.scoreExpr()->node(), bindings);
}

/// lengths[b], clamped to [0, most].
static int64_t lengthAt(const Tensor &lengths, int64_t b, int64_t most) {
  return std::clamp<int64_t>(lengths.as<int32_t>()[b * lengths.strides[0]], 0, most);
}

int64_t Bindings::queriesOf(int64_t b) const {
  return queryLengths ? lengthAt(*queryLengths, b, extents[2]) : extents[2];
}
int64_t Bindings::keysOf(int64_t b) const { return keyLengths ? lengthAt(*keyLengths, b, extents[3]) : extents[3]; }

int Program::add(const Node &node, const Bindings &bindings) {
  if (auto known = positions.find(&node); known != positions.end())
    return known->second;
  Instruction instruction{.node = &node};
  instruction.perKey = node.op == Op::Input || (node.op == Op::Coordinate && node.coordinate == Coordinate::K);
  for (const NodeRef &operand : node.operands) {
    const int position = add(*operand, bindings);
    instruction.operands.push_back(position);
    instruction.perKey |= instructions[size_t(position)].perKey;
  }
  if (node.op == Op::Constant) {
    instruction.integer = node.intValue;
    instruction.real = node.floatValue;
  } else if (node.op == Op::Extent) {
    instruction.integer = bindings.extents[size_t(node.extent)];
    const Tensor *lengths = node.extent == Extent::Sk   ? bindings.keyLengths
                            : node.extent == Extent::Sq ? bindings.queryLengths
                                                        : nullptr;
    if (lengths)
      instruction.tensor = *lengths;
  } else if (node.op == Op::Scalar) {
    const uint64_t bits = bindings.scalars.find(node.name)->second;
    instruction.integer = node.type == DType::I32 ? int64_t(int32_t(uint32_t(bits))) : int64_t(bits);
    instruction.real = std::bit_cast<float>(uint32_t(bits));
  } else if (node.op == Op::Load || node.op == Op::Search) {
    instruction.tensor = bindings.tensors.find(node.name)->second;
  }
  instructions.push_back(std::move(instruction));
  return positions[&node] = int(instructions.size()) - 1;
}

bool Program::guards(const Node &user, size_t i, bool *when) {
  *when = user.op == Op::And || (user.op == Op::Select && i == 1);
  return i > 0 && (user.op == Op::Select || user.op == Op::And || user.op == Op::Or);
}

std::vector<bool> Program::needsOf(std::span<const int> roots) const {
  std::vector<bool> needed(instructions.size());
  for (int root : roots)
    needed[size_t(root)] = true;
  for (size_t i = instructions.size(); i-- > 0;)
    if (needed[i])
      for (int operand : instructions[i].operands)
        needed[size_t(operand)] = true;
  return needed;
}

//===----------------------------------------------------------------------===//
// Rows and runs
//===----------------------------------------------------------------------===//

Evaluator::Evaluator(const Program &program, std::vector<bool> wanted)
    : program(program), needed(std::move(wanted)), marks(size_t(program.size())) {
  for (int i = 0; i < program.size(); ++i) {
    Register &result = results.emplace_back();
    if (!needed[size_t(i)])
      continue;
    if (program[i].node->type == DType::F32)
      result.reals.resize(size_t(maxRun));
    else
      result.integers.resize(size_t(maxRun));
  }
}

void Evaluator::startRow(int64_t b, int64_t h, int64_t q) {
  row = {b, h, q};
  lanes = 1;
  for (int i = 0; i < program.size(); ++i)
    if (needed[size_t(i)] && !program[i].perKey) {
      evaluate(i);
      Register &result = results[size_t(i)];
      std::fill(result.integers.begin(), result.integers.end(), result.integers.empty() ? 0 : result.integers[0]);
      std::fill(result.reals.begin(), result.reals.end(), result.reals.empty() ? 0 : result.reals[0]);
    }
}

void Evaluator::run(int64_t keyBegin, int64_t count, const float *ofInput) {
  assert(count > 0 && count <= maxRun && "a run is at most maxRun keys");
  begin = keyBegin;
  lanes = count;
  scores = ofInput;
  for (int i = 0; i < program.size(); ++i)
    if (needed[size_t(i)] && program[i].perKey)
      evaluate(i);
}

void Evaluator::markEvaluated(const std::vector<bool> &wanted, const uint8_t *isVisible) {
  const size_t count = size_t(lanes);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i])
      marks[i].assign(count, 0);
  if (program.mask >= 0 && wanted[size_t(program.mask)])
    std::copy_n(isVisible, count, marks[size_t(program.mask)].begin());
  if (program.score >= 0 && wanted[size_t(program.score)]) {
    const int64_t *mask = program.mask >= 0 ? integers(program.mask) : nullptr;
    // Mask and score may share nodes, so marks of nodes that the mask evaluates are kept.
    for (size_t i = 0; i < count; ++i)
      marks[size_t(program.score)][i] |= isVisible[i] && (!mask || mask[i]);
  }
  for (int user = program.size() - 1; user >= 0; --user) {
    if (!wanted[size_t(user)])
      continue;
    const Instruction &instruction = program[user];
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const size_t operand = size_t(instruction.operands[i]);
      if (!wanted[operand])
        continue;
      bool when = false;
      const int64_t *condition =
          Program::guards(*instruction.node, i, &when) ? integers(instruction.operands[0]) : nullptr;
      for (size_t lane = 0; lane < count; ++lane)
        marks[operand][lane] |= marks[size_t(user)][lane] && (!condition || (condition[lane] != 0) == when);
    }
  }
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

namespace {

template <typename F> void map(int64_t count, int64_t *to, const int64_t *a, const int64_t *b, DType type, F f) {
  if (type == DType::I64)
    for (int64_t i = 0; i < count; ++i)
      to[i] = f(a[i], b[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = f(int32_t(a[i]), int32_t(b[i]));
}

template <typename F> void map(int64_t count, float *to, const float *a, const float *b, F f) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = f(a[i], b[i]);
}

template <typename T> T shiftCount(T count) { return T(count & T(sizeof(T) * 8 - 1)); }

} // namespace

void Evaluator::evaluate(int position) {
  const Instruction &instruction = program[position];
  const Node &node = *instruction.node;
  Register &to = results[size_t(position)];
  const bool isReal = node.type == DType::F32;
  auto first = [&](size_t i) -> Register & { return results[size_t(instruction.operands[i])]; };
  switch (node.op) {
  case Op::Extent:
    std::fill_n(to.integers.begin(), lanes,
                instruction.tensor.data ? lengthAt(instruction.tensor, row[0], instruction.integer)
                                        : instruction.integer);
    return;
  case Op::Constant:
  case Op::Scalar:
    if (isReal)
      std::fill_n(to.reals.begin(), lanes, instruction.real);
    else
      std::fill_n(to.integers.begin(), lanes, instruction.integer);
    return;
  case Op::Coordinate:
    for (int64_t i = 0; i < lanes; ++i)
      to.integers[size_t(i)] = node.coordinate == Coordinate::K ? begin + i : row[size_t(node.coordinate)];
    return;
  case Op::Input:
    std::copy_n(scores, lanes, to.reals.begin());
    return;
  case Op::Load:
    return load(instruction, to);
  case Op::Search:
    return search(instruction, to);
  case Op::Cast:
    return castOperation(instruction, to);
  case Op::Select:
    for (size_t i = 0; i < size_t(lanes); ++i)
      if (isReal)
        to.reals[i] = first(0).integers[i] ? first(1).reals[i] : first(2).reals[i];
      else
        to.integers[i] = first(0).integers[i] ? first(1).integers[i] : first(2).integers[i];
    return;
  default:
    if (isReal)
      realOperation(instruction, to.reals.data());
    else if (!comparison(instruction, to.integers.data()))
      integerOperation(instruction, to.integers.data());
  }
}

void Evaluator::integerOperation(const Instruction &instruction, int64_t *to) {
  const DType type = instruction.node->type;
  const int64_t *a = integers(instruction.operands[0]), *b = integers(instruction.operands.back());
  auto apply = [&](auto f) { map(lanes, to, a, b, type, f); };
  switch (instruction.node->op) {
  case Op::Add:
    return apply([]<typename T>(T x, T y) { return add(x, y); });
  case Op::Sub:
    return apply([]<typename T>(T x, T y) { return subtract(x, y); });
  case Op::Mul:
    return apply([]<typename T>(T x, T y) { return times(x, y); });
  case Op::Div:
    return apply([]<typename T>(T x, T y) { return divide(x, y); });
  case Op::Rem:
    return apply([]<typename T>(T x, T y) { return remainder(x, y); });
  case Op::Min:
    return apply([]<typename T>(T x, T y) { return std::min(x, y); });
  case Op::Max:
    return apply([]<typename T>(T x, T y) { return std::max(x, y); });
  case Op::Neg:
    return apply([]<typename T>(T x, T) { return subtract(T(0), x); });
  case Op::Abs:
    return apply([]<typename T>(T x, T) { return x < 0 ? subtract(T(0), x) : x; });
  case Op::And:
  case Op::BitAnd:
    return apply([]<typename T>(T x, T y) { return T(x & y); });
  case Op::Or:
  case Op::BitOr:
    return apply([]<typename T>(T x, T y) { return T(x | y); });
  case Op::BitXor:
    return apply([]<typename T>(T x, T y) { return T(x ^ y); });
  case Op::Not:
    return apply([]<typename T>(T x, T) { return T(x == 0); });
  case Op::BitNot:
    return apply([]<typename T>(T x, T) { return T(~x); });
  case Op::Shl:
    return apply([]<typename T>(T x, T y) { return T(std::make_unsigned_t<T>(x) << shiftCount(y)); });
  case Op::Shr:
    return apply([]<typename T>(T x, T y) { return T(x >> shiftCount(y)); });
  default:
    assert(false && "no operation of integers");
  }
}

void Evaluator::realOperation(const Instruction &instruction, float *to) {
  const float *a = reals(instruction.operands[0]), *b = reals(instruction.operands.back());
  auto apply = [&](auto f) { map(lanes, to, a, b, f); };
  switch (instruction.node->op) {
  case Op::Add:
    return apply([](float x, float y) { return x + y; });
  case Op::Sub:
    return apply([](float x, float y) { return x - y; });
  case Op::Mul:
    return apply([](float x, float y) { return x * y; });
  case Op::Div:
    return apply([](float x, float y) { return x / y; });
  case Op::Min:
    return apply([](float x, float y) { return std::fmin(x, y); });
  case Op::Max:
    return apply([](float x, float y) { return std::fmax(x, y); });
  case Op::Neg:
    return apply([](float x, float) { return -x; });
  case Op::Abs:
    return apply([](float x, float) { return std::fabs(x); });
#define ATTUNE_FUNCTION1(op, name, value, ...)                                                                         \
  case Op::op:                                                                                                         \
    return apply([](float x, float) { return value; });
#define ATTUNE_FUNCTION2(op, name, value, ...)                                                                         \
  case Op::op:                                                                                                         \
    return apply([](float x, float y) { return value; });
#define ATTUNE_EXPANDED1(op, name, value, ...)                                                                         \
  case Op::op:                                                                                                         \
    return apply([](float x, float) { return value; });
#include "attune/Functions.def"
  default:
    assert(false && "no operation of floats");
  }
}

bool Evaluator::comparison(const Instruction &instruction, int64_t *to) {
  const Op op = instruction.node->op;
  if (op < Op::Lt || op > Op::Ne)
    return false;
  auto apply = [&](auto f) {
    if (program[instruction.operands[0]].node->type == DType::F32)
      for (int64_t i = 0; i < lanes; ++i)
        to[i] = f(reals(instruction.operands[0])[i], reals(instruction.operands[1])[i]);
    else
      for (int64_t i = 0; i < lanes; ++i)
        to[i] = f(integers(instruction.operands[0])[i], integers(instruction.operands[1])[i]);
    return true;
  };
  switch (op) {
  case Op::Lt:
    return apply(std::less<>());
  case Op::Le:
    return apply(std::less_equal<>());
  case Op::Gt:
    return apply(std::greater<>());
  case Op::Ge:
    return apply(std::greater_equal<>());
  case Op::Eq:
    return apply(std::equal_to<>());
  default:
    return apply(std::not_equal_to<>());
  }
}

void Evaluator::castOperation(const Instruction &instruction, Register &to) {
  const Register &from = results[size_t(instruction.operands[0])];
  const bool fromReal = program[instruction.operands[0]].node->type == DType::F32;
  const DType type = instruction.node->type;
  for (size_t i = 0; i < size_t(lanes); ++i) {
    if (type == DType::F32)
      to.reals[i] = fromReal ? from.reals[i] : float(from.integers[i]);
    else if (type == DType::Bool)
      to.integers[i] = fromReal ? from.reals[i] != 0 : from.integers[i] != 0;
    else if (type == DType::I64)
      to.integers[i] = fromReal ? toInteger<int64_t>(from.reals[i]) : from.integers[i];
    else
      to.integers[i] = fromReal ? toInteger<int32_t>(from.reals[i]) : int32_t(uint32_t(uint64_t(from.integers[i])));
  }
}

/// The index at which bisection of `vector` would insert x: before elements that equal x, or after them if `isRight`.
template <typename T, typename At> static int64_t bisect(const Tensor &vector, T x, bool isRight, At at) {
  int64_t low = 0, high = vector.shape[0];
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (isBefore<T>(at(vector, middle * vector.strides[0]), x, isRight))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void Evaluator::load(const Instruction &instruction, Register &to) {
  const Tensor &tensor = instruction.tensor;
  for (size_t i = 0; i < size_t(lanes); ++i) {
    int64_t element = 0;
    for (int dim = 0; dim < tensor.rank; ++dim)
      if (tensor.shape[dim] > 1)
        element += tensor.strides[dim] *
                   std::clamp<int64_t>(integers(instruction.operands[size_t(dim)])[i], 0, tensor.shape[dim] - 1);
    if (isFloat(tensor.dtype))
      to.reals[i] = realAt(tensor, element);
    else
      to.integers[i] = integerAt(tensor, element);
  }
}

void Evaluator::search(const Instruction &instruction, Register &to) {
  const Tensor &vector = instruction.tensor;
  const bool isRight = instruction.node->side == SearchSide::Right;
  const size_t x = size_t(instruction.operands[0]);
  for (size_t i = 0; i < size_t(lanes); ++i)
    to.integers[i] = isFloat(vector.dtype) ? bisect(vector, results[x].reals[i], isRight, realAt)
                                           : bisect(vector, results[x].integers[i], isRight, integerAt);
}

} // namespace attune::dsl
