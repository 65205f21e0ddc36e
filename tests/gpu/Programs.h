//===- Programs.h - Hand-written and random tile programs on a target -------===//
#pragma once

#include "tests/kernels/Kernels.h"
#include "tests/numerics/Runner.h"

namespace attune::tests {

/// Compiles the program, launches it, and holds what it has written to its formula.
Verdict checkProgram(const Program &program, const Sizes &sizes, const Target &target);

/// A random program gives what it gives on the CPU target.
Verdict checkRandomProgram(uint64_t seed, const Target &target);

/// Milliseconds of a launch at the size at which the program is timed, on a GPU.
Expected<float> timeProgram(const Program &program, const Target &target);

/// Times programs that are written with a schedule beside the same without one, and prints a line for each. Returns 1
/// where one did not run.
int timePrograms(const Target &target);

} // namespace attune::tests
