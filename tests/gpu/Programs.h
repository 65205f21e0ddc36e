//===- Programs.h - Hand-written and random tile programs on a target -------===//
#pragma once

#include "tests/kernels/Kernels.h"
#include "tests/numerics/Runner.h"

namespace attune::tests {

/// Compiles the program, launches it, and holds what it has written to its formula.
Verdict checkProgram(const Program &program, const Sizes &sizes, const Target &target);

/// A random program gives what it gives on the CPU target.
Verdict checkRandomProgram(uint64_t seed, const Target &target);

/// Times programs that are written with a schedule beside the same without one, and prints a line for each; or `texts`,
/// files that begin with the name of such a program and hold another schedule of it, which are checked first. Returns 1
/// where one did not run, or is wrong.
int timePrograms(const Target &target, const std::vector<std::string> &texts = {});

} // namespace attune::tests
