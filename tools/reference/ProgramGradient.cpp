#include "tools/reference/ProgramGradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attune::reference {

static double slopeOfPow(double a, double b) { return b == 0 ? 0 : b * std::pow(a, b - 1); }

void ProgramGradient::propagate(const Instruction &instruction, double y, double g, const RowInterpreter &row,
                                int64_t key) {
  auto value = [&](size_t i) { return row.valueAt(instruction.operands[i], key); };
  auto add = [&](size_t i, double gradient) { gradients[size_t(instruction.operands[i])] += gradient; };
  const double a = instruction.operands.empty() ? 0 : value(0), b = instruction.operands.size() > 1 ? value(1) : 0;
  constexpr double ln2 = std::numbers::ln2;
  switch (instruction.op) {
  case Op::Add:
    return add(0, g), add(1, g);
  case Op::Sub:
    return add(0, g), add(1, -g);
  case Op::Mul:
    return add(0, g * b), add(1, g * a);
  case Op::Div:
    return add(0, g / b), add(1, -g * a / b / b);
  case Op::Min:
    return add(0, a < b ? g : a == b ? g / 2 : 0), add(1, a < b ? 0 : a == b ? g / 2 : g);
  case Op::Max:
    return add(0, a > b ? g : a == b ? g / 2 : 0), add(1, a > b ? 0 : a == b ? g / 2 : g);
  case Op::Neg:
    return add(0, -g);
  case Op::Abs:
    return add(0, a > 0 ? g : a < 0 ? -g : 0);
  case Op::Exp:
    return add(0, g * y);
  case Op::Exp2:
    return add(0, g * y * ln2);
  case Op::Log:
    return add(0, g / a);
  case Op::Log2:
    return add(0, g / (a * ln2));
  case Op::Tanh:
    return add(0, slopes == Slopes::OfResults ? g * (1 - y * y) : g / (std::cosh(a) * std::cosh(a)));
  case Op::Sin:
    return add(0, g * std::cos(a));
  case Op::Cos:
    return add(0, -g * std::sin(a));
  case Op::Tan:
    return add(0, g / (std::cos(a) * std::cos(a)));
  case Op::Sqrt:
    return add(0, g / (2 * std::sqrt(a)));
  case Op::Rsqrt:
    return add(0, -g / (2 * a * std::sqrt(a)));
  case Op::Pow:
    return add(0, g * slopeOfPow(a, b)), add(1, a == 0 && b >= 0 ? 0 : g * y * std::log(a));
  case Op::Sigmoid:
    return add(0, slopes == Slopes::OfResults ? g * y * (1 - y) : g / ((1 + std::exp(-a)) * (1 + std::exp(a))));
  case Op::Log1p:
    return add(0, g / (1 + a));
  case Op::Atan:
    return add(0, g / (1 + a * a));
  case Op::Erf:
    return add(0, g * std::exp(-a * a) * std::numbers::inv_sqrtpi * 2);
  case Op::Atan2:
    if (const double square = a * a + b * b; square != 0)
      add(0, g * b / square), add(1, -g * a / square);
    return;
  case Op::CopySign:
    return add(0, a == 0 ? 0 : std::signbit(a) == std::signbit(b) ? g : -g);
  case Op::Select:
    return add(a != 0 ? 1 : 2, g);
  case Op::Cast:
    if (instruction.operandType == DType::F32)
      add(0, g);
    return;
  default: // leaves, and what is constant between its steps
    return;
  }
}

double ProgramGradient::run(const RowInterpreter &row, int64_t key, double g, const OfLoad &ofLoad) {
  std::fill(gradients.begin(), gradients.end(), 0);
  gradients.back() = g;
  double ofInput = 0;
  for (size_t i = gradients.size(); i-- > 0;) {
    const Instruction &instruction = program.instructions[i];
    if (gradients[i] == 0 || instruction.type != DType::F32)
      continue;
    if (instruction.op == Op::Input)
      ofInput += gradients[i];
    if (instruction.op == Op::Load && instruction.tensor->size() != 0) {
      int64_t element = 0;
      for (size_t d = 0; d < instruction.operands.size(); ++d)
        element += instruction.strides[d] * std::clamp<int64_t>(int64_t(row.valueAt(instruction.operands[d], key)), 0,
                                                                instruction.tensor->shape[d] - 1);
      ofLoad(instruction, element, gradients[i]);
    }
    propagate(instruction, row.valueAt(int(i), key), gradients[i], row, key);
  }
  return ofInput;
}

} // namespace attune::reference
