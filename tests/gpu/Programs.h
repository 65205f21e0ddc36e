//===- Programs.h - Hand-written and random tile programs on a target -------===//
#pragma once

#include "tests/kernels/Kernels.h"
#include "tests/numerics/Runner.h"

namespace attune::tests {

/// Compiles the program, launches it, and holds what it has written to its formula.
Verdict checkProgram(const Program &program, const Sizes &sizes, const Target &target);

/// A random program gives what it gives on the CPU target.
Verdict checkRandomProgram(uint64_t seed, const Target &target);

} // namespace attune::tests
