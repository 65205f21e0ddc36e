//===- ProgramGradient.h - The slope of an expression --------------------------===//
//
// Reverse-mode differentiation of a Program at one key of a row that a RowInterpreter has just run, in float64 from its
// float32 values. Kinks as docs/inside/decisions-numerics.md has them: abs has the slope 0 at 0, a minimum and a maximum of two equal values
// half for each.
//
//     ProgramGradient gradient(*score, ProgramGradient::Slopes::Exact);
//     double ds = gradient.run(row, key, dx, [&](const Instruction &load, int64_t element, double g) { ... });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Program.h"

#include <functional>

namespace attune::reference {

class ProgramGradient {
public:
  /// Gets each read of a captured tensor of floats, the element that it reads (row-major, clamped), and its gradient.
  using OfLoad = std::function<void(const Instruction &load, int64_t element, double gradient)>;

  /// Slopes of functions from their arguments, or from their results as a kernel has them: 1 - y * y of y = tanh(a).
  enum class Slopes { Exact, OfResults };
  ProgramGradient(const Program &program, Slopes slopes)
      : program(program), slopes(slopes), gradients(program.instructions.size()) {}

  /// The gradient of the input s, where that of the program's value is `g`. `key` counts from the run's first.
  double run(const RowInterpreter &row, int64_t key, double g, const OfLoad &ofLoad);

private:
  void propagate(const Instruction &instruction, double y, double g, const RowInterpreter &row, int64_t key);

  const Program &program;
  Slopes slopes;
  std::vector<double> gradients; ///< of each instruction's value
};

} // namespace attune::reference
