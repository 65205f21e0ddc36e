//===- Kernels.h - Programs that are not attention's forward pass -----------===//
//
// Tile text written by hand, each with problems of several sizes, and plain loops over the formula that hold the
// results. Whoever runs them gives the launch:
//
//     for (const Program &program : programs())
//       for (const Sizes &sizes : program.sizes) {
//         Problem problem = program.problem(sizes);
//         launch(program.text, problem.operands);       // writes what is `out` and `accumulate` in host memory
//         std::string fault = problem.check();          // "" if all is right
//       }
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attune::tests {

/// An operand of a launch in host memory, contiguous.
struct HostOperand {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  Tensor tensor(void *data, Device device = {}) const;
  int64_t elements() const;
  float get(int64_t index) const;
  void set(int64_t index, float value);
};

/// The operands bound to `data`, one address each, in their order. The names are not copied.
LaunchArgs bindOperands(const std::vector<HostOperand> &operands, const std::vector<void *> &data, Device device = {});
/// The same, to the operands' own bytes.
LaunchArgs bindOperands(std::vector<HostOperand> &operands);

struct Sizes {
  int64_t batch, heads, queries, keys;
  std::string text() const;
};

struct Problem {
  std::vector<HostOperand> operands;
  /// Compares what a launch has written with the formula: the first fault, or "".
  std::function<std::string(const std::vector<HostOperand> &)> check;
};

struct Program {
  std::string name, text;
  std::vector<Sizes> sizes;
  std::function<Problem(const Sizes &)> problem;
  /// Its schedule is for warpgroups, and its tiles fit Hopper's shared memory: without warpgroups it falls back.
  bool isForWarpgroups = false;
  /// A size at which it is timed, beside itself without its schedule.
  std::optional<Sizes> timed = {};

  bool runsOn(const std::string &arch) const { return !isForWarpgroups || arch.starts_with("sm_90") || arch.empty(); }
};

const std::vector<Program> &programs();
/// The one called `name`.
const Program &program(const std::string &name);

} // namespace attune::tests
