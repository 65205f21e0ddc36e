//===- RunProgram.h - attune run of a program of one's own -----------------===//
//
// A program is a text of stage tile or sched that was not made from a variant: its operands have any names and axes.
//
//     attune run linear.mlir --extents b=2,h=4,k=1024 --operand q=q.npy --expect o=o.npy
//
// Extents of axes come from --extents and from files; operands without a source are random.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/attune/RunData.h"

namespace attune::cli {

/// Adds --extents, --operand, --expect and --tolerance.
void addProgramFlags(CLI::App &verb, RunFlags &flags);

/// Whether the request is a program: its text is of no variant, and it has other operands than attention has, or a flag
/// of programs is given. Error: such a flag beside a variant.
Result<bool> runsAsProgram(const RunFlags &flags, const Request &request);

/// Compiles and runs, or simulates, a program, compares results with --expect, and prints what it finds. Returns the
/// exit code.
int runProgram(const RunFlags &flags, const Request &request);

} // namespace attune::cli
