//===- Program.cpp - Expressions as a flat list of instructions --------------===//
#include "tools/reference/Program.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace attune::reference {

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

namespace {

class Flattener {
public:
  Flattener(Program &program, const Bindings &bindings) : program(program), bindings(bindings) {}

  /// The position of `node`'s instruction.
  Expected<int> visit(const Node &node) {
    if (auto found = positions.find(&node); found != positions.end())
      return found->second;
    Instruction instruction;
    instruction.op = node.op;
    instruction.type = node.type;
    for (const NodeRef &operand : node.operands) {
      Expected<int> position = visit(*operand);
      if (!position)
        return position;
      instruction.operands.push_back(*position);
      instruction.perKey |= program.instructions[size_t(*position)].perKey;
    }
    if (!node.operands.empty())
      instruction.operandType = node.operands.front()->type;
    if (Expected<void> filled = fill(instruction, node); !filled)
      return filled.error();
    int position = int(program.instructions.size());
    program.instructions.push_back(std::move(instruction));
    positions.emplace(&node, position);
    return position;
  }

private:
  Expected<void> fill(Instruction &instruction, const Node &node) {
    switch (node.op) {
    case Op::Invalid:
      return node.error ? *node.error : Error{"the expression is invalid"};
    case Op::Constant:
      instruction.floatValue = node.floatValue;
      instruction.intValue = node.intValue;
      break;
    case Op::Coordinate:
      instruction.coordinate = node.coordinate;
      instruction.perKey = node.coordinate == Coordinate::K;
      break;
    case Op::Input:
      instruction.perKey = true;
      break;
    case Op::Extent:
      instruction.intValue =
          std::array{bindings.batch, bindings.heads, bindings.queryLength, bindings.keyLength}[size_t(node.extent)];
      if (node.extent == Extent::Sk)
        instruction.tensor = bindings.keyLengths;
      if (node.extent == Extent::Sq)
        instruction.tensor = bindings.queryLengths;
      break;
    case Op::Scalar: {
      const HostTensor *bound = find(bindings.scalars, node.name);
      if (!bound)
        return Error{"scalar " + node.name + " is not bound", node.where};
      if (bound->dtype != node.type || bound->size() != 1)
        return Error{"scalar " + node.name + " is bound to " + describe(*bound) + ", but declared " +
                         std::string(name(node.type)),
                     node.where};
      instruction.floatValue = bound->at(0);
      instruction.intValue = bound->intAt(0);
      break;
    }
    case Op::Search:
    case Op::Load: {
      const HostTensor *bound = find(bindings.tensors, node.name);
      if (!bound)
        return Error{"tensor " + node.name + " is not bound", node.where};
      if (bound->dtype != node.elementType || int(bound->shape.size()) != node.rank)
        return Error{"tensor " + node.name + " is bound to " + describe(*bound) + ", but declared " +
                         std::string(name(node.elementType)) + " of rank " + std::to_string(node.rank),
                     node.where};
      instruction.tensor = bound;
      instruction.node = &node;
      instruction.strides.assign(bound->shape.size(), 1);
      for (size_t i = bound->shape.size(); i-- > 1;)
        instruction.strides[i - 1] = instruction.strides[i] * bound->shape[i];
      break;
    }
    default:
      break;
    }
    return {};
  }

  static const HostTensor *find(const std::map<std::string, HostTensor> *from, const std::string &name) {
    if (!from)
      return nullptr;
    auto found = from->find(name);
    return found == from->end() ? nullptr : &found->second;
  }

  static std::string describe(const HostTensor &tensor) {
    std::string text = std::string(name(tensor.dtype)) + "[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
    return text + "]";
  }

  Program &program;
  const Bindings &bindings;
  std::unordered_map<const Node *, int> positions;
};

} // namespace

Expected<Program> Program::compile(const Expr &root, const Bindings &bindings) {
  Program program;
  Expected<int> last = Flattener(program, bindings).visit(root.node());
  if (!last)
    return last.error();
  for (const Instruction &instruction : program.instructions)
    if (instruction.perKey)
      for (int operand : instruction.operands) {
        Instruction &source = program.instructions[size_t(operand)];
        source.widened |= !source.perKey;
      }
  Instruction &value = program.instructions.back();
  value.widened |= !value.perKey;
  return program;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {

int64_t wrap(DType type, uint64_t bits) {
  return type == DType::I32 ? int64_t(int32_t(uint32_t(bits))) : int64_t(bits);
}

int64_t quotient(DType type, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  return b == -1 ? wrap(type, 0 - uint64_t(a)) : wrap(type, uint64_t(a / b));
}

int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/// f32 to integer: truncates, saturates, NaN gives 0.
int64_t saturate(DType type, double value) {
  if (std::isnan(value))
    return 0;
  double end = type == DType::I32 ? 0x1p31 : 0x1p63;
  if (value >= end)
    return type == DType::I32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  if (value < -end)
    return type == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

/// Whether an element comes before x in ascending order, NaN last; an equal one if `right`.
template <typename T> bool precedes(T element, T x, bool right) {
  auto less = [](T a, T b) { return a < b || (a == a && b != b); };
  return right ? !less(x, element) : less(element, x);
}

/// What ops have in common for the interpreter.
enum class Kind { Leaf, Search, Arithmetic, Function, Comparison, Bits, Select, Cast, Invalid };

Kind kindOf(Op op) {
  switch (op) {
  case Op::Constant:
  case Op::Scalar:
  case Op::Extent:
  case Op::Coordinate:
  case Op::Input:
  case Op::Load:
    return Kind::Leaf;
  case Op::Search:
    return Kind::Search;
  case Op::Add:
  case Op::Sub:
  case Op::Mul:
  case Op::Div:
  case Op::Rem:
  case Op::Min:
  case Op::Max:
  case Op::Neg:
  case Op::Abs:
  case Op::CopySign:
    return Kind::Arithmetic;
  case Op::Exp:
  case Op::Exp2:
  case Op::Log:
  case Op::Log2:
  case Op::Tanh:
  case Op::Sin:
  case Op::Cos:
  case Op::Tan:
  case Op::Sqrt:
  case Op::Rsqrt:
  case Op::Pow:
  case Op::Sigmoid:
  case Op::Log1p:
  case Op::Atan:
  case Op::Erf:
  case Op::Atan2:
    return Kind::Function;
  case Op::Lt:
  case Op::Le:
  case Op::Gt:
  case Op::Ge:
  case Op::Eq:
  case Op::Ne:
    return Kind::Comparison;
  case Op::And:
  case Op::Or:
  case Op::Not:
  case Op::BitAnd:
  case Op::BitOr:
  case Op::BitXor:
  case Op::BitNot:
  case Op::Shl:
  case Op::Shr:
    return Kind::Bits;
  case Op::Select:
    return Kind::Select;
  case Op::Cast:
    return Kind::Cast;
  case Op::Invalid:
    break;
  }
  return Kind::Invalid;
}

/// A function that hardware approximates.
bool isFunction(Op op) { return kindOf(op) == Kind::Function; }

bool isInteger(DType type) { return type == DType::I32 || type == DType::I64; }

} // namespace

bool Program::callsFunctions() const {
  return std::any_of(instructions.begin(), instructions.end(),
                     [](const Instruction &instruction) { return isFunction(instruction.op); });
}

RowInterpreter::RowInterpreter(const Program &program, float functionError)
    : program(program), functionError(functionError) {
  for (const Instruction &instruction : program.instructions) {
    Register &result = results.emplace_back();
    if (instruction.type == DType::F32)
      result.floats.resize(maxRun);
    else
      result.ints.resize(maxRun);
  }
}

void RowInterpreter::startRow(int64_t b, int64_t h, int64_t q) {
  row = {wrap(DType::I32, uint64_t(b)), wrap(DType::I32, uint64_t(h)), wrap(DType::I32, uint64_t(q))};
  clampedInRun = false;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.perKey)
      continue;
    evaluate(i, 0, 1, nullptr);
    disturb(i, 0, 1);
    if (!instruction.widened)
      continue;
    Register &result = results[i];
    if (instruction.type == DType::F32)
      std::fill(result.floats.begin(), result.floats.end(), result.floats[0]);
    else
      std::fill(result.ints.begin(), result.ints.end(), result.ints[0]);
  }
  clampedInRow = clampedInRun;
}

void RowInterpreter::run(int64_t keyBegin, int64_t count, const float *scores) {
  assert(count <= maxRun && "a run is at most maxRun keys");
  clampedInRun = clampedInRow;
  for (size_t i = 0; i < program.instructions.size(); ++i)
    if (program.instructions[i].perKey) {
      evaluate(i, keyBegin, count, scores);
      disturb(i, keyBegin, count);
    }
}

void RowInterpreter::disturb(size_t position, int64_t keyBegin, int64_t count) {
  if (functionError == 0 || !isFunction(program.instructions[position].op))
    return;
  float *floats = results[position].floats.data();
  for (int64_t i = 0; i < count; ++i) {
    uint32_t hash = uint32_t(keyBegin + i + 77 * int64_t(position)) * 0x9E3779B9u;
    floats[i] *= 1 + (hash >> 31 ? functionError : -functionError);
  }
}

int64_t RowInterpreter::intAt(int position, int64_t key) const {
  const Instruction &instruction = program.instructions[size_t(position)];
  return results[size_t(position)].ints[instruction.perKey || instruction.widened ? size_t(key) : 0];
}

double RowInterpreter::valueAt(int position, int64_t key) const {
  const Instruction &instruction = program.instructions[size_t(position)];
  if (instruction.type != DType::F32)
    return double(intAt(position, key));
  return results[size_t(position)].floats[instruction.perKey || instruction.widened ? size_t(key) : 0];
}

bool RowInterpreter::isClamped(const Instruction &load, int64_t key) const {
  for (size_t d = 0; d < load.operands.size(); ++d) {
    const int64_t index = intAt(load.operands[d], key), extent = load.tensor->shape[d];
    if ((index < 0 || index >= extent) && !(load.node->indexRange == IndexRange::Broadcast && extent == 1))
      return load.node->indexRange != IndexRange::Clamped;
  }
  return false;
}

int64_t keysOf(const HostTensor *lengths, int64_t b, int64_t all) {
  return lengths ? std::clamp<int64_t>(lengths->intAt(b), 0, all) : all;
}

void RowInterpreter::countClamped(const std::vector<uint8_t> &visible, ClampedReads &reads) const {
  assert(clampedInRun && "there is nothing to count");
  // Users come after their operands.
  std::vector<std::vector<uint8_t>> evaluated(results.size(), std::vector<uint8_t>(visible.size()));
  evaluated.back() = visible;
  for (size_t i = results.size(); i-- > 0;) {
    const Instruction &user = program.instructions[i];
    for (size_t n = 0; n < user.operands.size(); ++n)
      for (size_t key = 0; key < visible.size(); ++key) {
        const bool guarded = n > 0 && (user.op == Op::Select || user.op == Op::And || user.op == Op::Or);
        const bool when = user.op == Op::And || (user.op == Op::Select && n == 1);
        evaluated[size_t(user.operands[n])][key] |=
            evaluated[i][key] && (!guarded || (intAt(user.operands[0], int64_t(key)) != 0) == when);
      }
    if (user.op == Op::Load)
      for (size_t key = 0; key < visible.size(); ++key)
        if (evaluated[i][key] && isClamped(user, int64_t(key)))
          ++reads[user.node->name];
  }
}

/// The operands and the result of an instruction: `count` keys from the first of a run on.
struct RowInterpreter::Lanes {
  const Instruction &instruction;
  const std::vector<Register> &registers;
  int64_t count;
  float *floats; ///< the result, by type
  int64_t *ints;

  const float *floatsOf(size_t i) const { return registers[size_t(instruction.operands[i])].floats.data(); }
  const int64_t *intsOf(size_t i) const { return registers[size_t(instruction.operands[i])].ints.data(); }

  /// Sets the result of key i to of(i).
  template <typename Of> void setFloats(Of of) const {
    for (int64_t i = 0, end = count; i < end; ++i)
      floats[i] = of(i);
  }
  template <typename Of> void setInts(Of of) const {
    for (int64_t i = 0, end = count; i < end; ++i)
      ints[i] = of(i);
  }

  template <typename Function> void floatUnary(Function function) const {
    setFloats([=, a = floatsOf(0)](int64_t i) { return function(a[i]); });
  }
  template <typename Function> void floatBinary(Function function) const {
    setFloats([=, a = floatsOf(0), b = floatsOf(1)](int64_t i) { return function(a[i], b[i]); });
  }
  template <typename Function> void intUnary(Function function) const {
    setInts([=, a = intsOf(0)](int64_t i) { return function(a[i]); });
  }
  template <typename Function> void intBinary(Function function) const {
    setInts([=, a = intsOf(0), b = intsOf(1)](int64_t i) { return function(a[i], b[i]); });
  }
  template <typename Function> void compare(Function function) const {
    if (instruction.operandType == DType::F32)
      setInts([=, a = floatsOf(0), b = floatsOf(1)](int64_t i) { return function(a[i], b[i]); });
    else
      intBinary(function);
  }

  void search() const;
  void floatArithmetic() const;
  void intArithmetic() const;
  void function() const;
  void comparison() const;
  void bits() const;
  void select() const;
  void cast() const;
};

void RowInterpreter::Lanes::search() const {
  const HostTensor &vector = *instruction.tensor;
  const bool right = instruction.node->side == SearchSide::Right, ofFloats = instruction.operandType == DType::F32;
  for (int64_t i = 0; i < count; ++i) {
    ints[i] = 0;
    for (int64_t n = 0; n < vector.shape[0]; ++n)
      ints[i] += ofFloats ? precedes(vector.at(n), double(floatsOf(0)[i]), right)
                          : precedes(vector.intAt(n), intsOf(0)[i], right);
  }
}

void RowInterpreter::Lanes::floatArithmetic() const {
  switch (instruction.op) {
  case Op::Add:
    floatBinary([](float a, float b) { return a + b; });
    break;
  case Op::Sub:
    floatBinary([](float a, float b) { return a - b; });
    break;
  case Op::Mul:
    floatBinary([](float a, float b) { return a * b; });
    break;
  case Op::Div:
    floatBinary([](float a, float b) { return a / b; });
    break;
  case Op::Min:
    floatBinary([](float a, float b) { return std::fmin(a, b); });
    break;
  case Op::Max:
    floatBinary([](float a, float b) { return std::fmax(a, b); });
    break;
  case Op::Neg:
    floatUnary([](float a) { return -a; });
    break;
  case Op::Abs:
    floatUnary([](float a) { return std::fabs(a); });
    break;
  case Op::CopySign:
    floatBinary([](float a, float b) { return std::signbit(a) == std::signbit(b) ? a : -a; });
    break;
  default:
    assert(false && "kindOf and floatArithmetic disagree");
  }
}

void RowInterpreter::Lanes::intArithmetic() const {
  const DType type = instruction.type;
  switch (instruction.op) {
  case Op::Add:
    intBinary([=](int64_t a, int64_t b) { return wrap(type, uint64_t(a) + uint64_t(b)); });
    break;
  case Op::Sub:
    intBinary([=](int64_t a, int64_t b) { return wrap(type, uint64_t(a) - uint64_t(b)); });
    break;
  case Op::Mul:
    intBinary([=](int64_t a, int64_t b) { return wrap(type, uint64_t(a) * uint64_t(b)); });
    break;
  case Op::Div:
    intBinary([=](int64_t a, int64_t b) { return quotient(type, a, b); });
    break;
  case Op::Rem:
    intBinary([](int64_t a, int64_t b) { return remainder(a, b); });
    break;
  case Op::Min:
    intBinary([](int64_t a, int64_t b) { return std::min(a, b); });
    break;
  case Op::Max:
    intBinary([](int64_t a, int64_t b) { return std::max(a, b); });
    break;
  case Op::Neg:
    intUnary([=](int64_t a) { return wrap(type, 0 - uint64_t(a)); });
    break;
  case Op::Abs:
    intUnary([=](int64_t a) { return a < 0 ? wrap(type, 0 - uint64_t(a)) : a; });
    break;
  default:
    assert(false && "kindOf and intArithmetic disagree");
  }
}

void RowInterpreter::Lanes::function() const {
  switch (instruction.op) {
  case Op::Exp:
    floatUnary([](float a) { return std::exp(a); });
    break;
  case Op::Exp2:
    floatUnary([](float a) { return std::exp2(a); });
    break;
  case Op::Log:
    floatUnary([](float a) { return std::log(a); });
    break;
  case Op::Log2:
    floatUnary([](float a) { return std::log2(a); });
    break;
  case Op::Tanh:
    floatUnary([](float a) { return std::tanh(a); });
    break;
  case Op::Sin:
    floatUnary([](float a) { return std::sin(a); });
    break;
  case Op::Cos:
    floatUnary([](float a) { return std::cos(a); });
    break;
  case Op::Tan:
    floatUnary([](float a) { return std::tan(a); });
    break;
  case Op::Sqrt:
    floatUnary([](float a) { return std::sqrt(a); });
    break;
  case Op::Rsqrt:
    floatUnary([](float a) { return 1 / std::sqrt(a); });
    break;
  case Op::Pow:
    floatBinary([](float a, float b) { return std::pow(a, b); });
    break;
  case Op::Sigmoid:
    floatUnary([](float a) { return 1 / (1 + std::exp(-a)); });
    break;
  case Op::Log1p:
    floatUnary([](float a) { return std::log1p(a); });
    break;
  case Op::Atan:
    floatUnary([](float a) { return std::atan(a); });
    break;
  case Op::Erf:
    floatUnary([](float a) { return std::erf(a); });
    break;
  case Op::Atan2:
    floatBinary([](float a, float b) { return std::atan2(a, b); });
    break;
  default:
    assert(false && "kindOf and function disagree");
  }
}

void RowInterpreter::Lanes::comparison() const {
  switch (instruction.op) {
  case Op::Lt:
    compare([](auto a, auto b) { return a < b; });
    break;
  case Op::Le:
    compare([](auto a, auto b) { return a <= b; });
    break;
  case Op::Gt:
    compare([](auto a, auto b) { return a > b; });
    break;
  case Op::Ge:
    compare([](auto a, auto b) { return a >= b; });
    break;
  case Op::Eq:
    compare([](auto a, auto b) { return a == b; });
    break;
  case Op::Ne:
    compare([](auto a, auto b) { return a != b; });
    break;
  default:
    assert(false && "kindOf and comparison disagree");
  }
}

void RowInterpreter::Lanes::bits() const {
  const DType type = instruction.type;
  const uint64_t shiftMask = type == DType::I32 ? 31 : 63;
  switch (instruction.op) {
  case Op::And:
  case Op::BitAnd:
    intBinary([](int64_t a, int64_t b) { return a & b; });
    break;
  case Op::Or:
  case Op::BitOr:
    intBinary([](int64_t a, int64_t b) { return a | b; });
    break;
  case Op::BitXor:
    intBinary([](int64_t a, int64_t b) { return a ^ b; });
    break;
  case Op::Not:
    intUnary([](int64_t a) -> int64_t { return !a; });
    break;
  case Op::BitNot:
    intUnary([](int64_t a) { return ~a; });
    break;
  case Op::Shl:
    intBinary([=](int64_t a, int64_t b) { return wrap(type, uint64_t(a) << (uint64_t(b) & shiftMask)); });
    break;
  case Op::Shr:
    intBinary([=](int64_t a, int64_t b) { return a >> (uint64_t(b) & shiftMask); });
    break;
  default:
    assert(false && "kindOf and bits disagree");
  }
}

void RowInterpreter::Lanes::select() const {
  const int64_t *condition = intsOf(0);
  if (instruction.type == DType::F32)
    setFloats([=, a = floatsOf(1), b = floatsOf(2)](int64_t i) { return condition[i] ? a[i] : b[i]; });
  else
    setInts([=, a = intsOf(1), b = intsOf(2)](int64_t i) { return condition[i] ? a[i] : b[i]; });
}

void RowInterpreter::Lanes::cast() const {
  const DType type = instruction.type;
  const bool ofFloats = instruction.operandType == DType::F32;
  if (type == DType::F32 && ofFloats)
    floatUnary([](float a) { return a; });
  else if (type == DType::F32)
    setFloats([a = intsOf(0)](int64_t i) { return float(a[i]); });
  else if (isInteger(type) && ofFloats)
    setInts([=, a = floatsOf(0)](int64_t i) { return saturate(type, double(a[i])); });
  else if (isInteger(type))
    intUnary([=](int64_t a) { return wrap(type, uint64_t(a)); });
  else if (ofFloats)
    setInts([a = floatsOf(0)](int64_t i) { return a[i] != 0; });
  else
    intUnary([](int64_t a) { return a != 0; });
}

void RowInterpreter::load(const Lanes &lanes) {
  const Instruction &instruction = lanes.instruction;
  const HostTensor &tensor = *instruction.tensor;
  bool empty = tensor.size() == 0;
  for (int64_t i = 0; i < lanes.count; ++i) {
    int64_t element = 0;
    for (size_t d = 0; d < instruction.operands.size() && !empty; ++d) {
      const int64_t index = lanes.intsOf(d)[i], nearest = std::clamp<int64_t>(index, 0, tensor.shape[d] - 1);
      element += instruction.strides[d] * nearest;
      clampedInRun |= index != nearest;
    }
    if (instruction.type == DType::F32)
      lanes.floats[i] = empty ? float(0) : float(tensor.at(element));
    else
      lanes.ints[i] = empty ? 0 : tensor.intAt(element);
  }
}

void RowInterpreter::leaf(const Lanes &lanes, int64_t keyBegin, const float *scores) {
  const Instruction &instruction = lanes.instruction;
  const int64_t count = lanes.count;
  auto fillInts = [&](int64_t value) { std::fill_n(lanes.ints, count, value); };
  switch (instruction.op) {
  case Op::Constant:
  case Op::Scalar:
    if (instruction.type == DType::F32)
      std::fill_n(lanes.floats, count, float(instruction.floatValue));
    else
      fillInts(instruction.intValue);
    break;
  case Op::Extent:
    fillInts(keysOf(instruction.tensor, row[0], instruction.intValue));
    break;
  case Op::Coordinate:
    if (instruction.coordinate != Coordinate::K)
      fillInts(row[size_t(instruction.coordinate)]);
    else
      for (int64_t i = 0; i < count; ++i)
        lanes.ints[i] = keyBegin + i;
    break;
  case Op::Input:
    assert(scores && "only a score reads s");
    std::copy_n(scores, count, lanes.floats);
    break;
  case Op::Load:
    load(lanes);
    break;
  default:
    assert(false && "kindOf and leaf disagree");
  }
}

void RowInterpreter::evaluate(size_t position, int64_t keyBegin, int64_t count, const float *scores) {
  const Instruction &instruction = program.instructions[position];
  Register &result = results[position];
  const Lanes lanes = {instruction, results, count, result.floats.data(), result.ints.data()};
  switch (kindOf(instruction.op)) {
  case Kind::Leaf:
    return leaf(lanes, keyBegin, scores);
  case Kind::Search:
    return lanes.search();
  case Kind::Arithmetic:
    return instruction.type == DType::F32 ? lanes.floatArithmetic() : lanes.intArithmetic();
  case Kind::Function:
    return lanes.function();
  case Kind::Comparison:
    return lanes.comparison();
  case Kind::Bits:
    return lanes.bits();
  case Kind::Select:
    return lanes.select();
  case Kind::Cast:
    return lanes.cast();
  case Kind::Invalid:
    assert(false && "compile rejects invalid expressions");
  }
}

} // namespace attune::reference
