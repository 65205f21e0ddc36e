//===- RunProgram.h - attune run, tune and explain of a program of one's own -===//
//
// A program is a text of stage tile or sched that was not made from a variant: its operands have any names and axes.
//
//     attune run linear.mlir --extents b=2,h=4,k=1024 --operand q=q.npy --expect o=o.npy
//     attune explain linear.mlir --extents b=2,h=4,k=1024
//     attune tune linear.mlir --extents b=2,h=4,k=1024 --output tuned.mlir --times linear.json
//
// Extents of axes come from --extents and from files; operands without a source are random.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/attune/RunData.h"

namespace attune::cli {

/// Adds --extents to a verb.
void addExtents(CLI::Option_group &group, RunFlags &flags);
/// Adds --extents and --operand and, where the verb checks results, --expect and --tolerance.
void addProgramFlags(CLI::App &verb, RunFlags &flags, bool checks);

/// The extents of --extents, by axis.
Result<std::map<std::string, int64_t>> readExtents(const RunFlags &flags, const Request &request);

/// The operands, captured tensors and scalars of a program's launch.
Result<RunData> programData(const RunFlags &flags, const Request &request);

struct ProgramTuning {
  double seconds = 0;    ///< to spend
  size_t candidates = 0; ///< the most plans that are timed
  size_t top = 0;        ///< plans that are printed
  std::string output;    ///< file for the text with the quickest plan; empty: none
  std::string timesFile; ///< file for the times of the timed plans (driver/ProgramTimes.h); empty: none
};
/// attune tune of a program whose text leaves plans open: times the plans, prints the best, and writes the files. Returns
/// the exit code.
int tuneProgram(const RunFlags &flags, const Request &request, const ProgramTuning &tuning);

/// attune explain of such a program: its counts and the `top` plans that are predicted to be the quickest.
int explainProgram(const RunFlags &flags, const Request &request, size_t top);

/// Whether the request is a program: its text is of no variant, and it has other operands than attention has, or a flag
/// of programs is given. Error: such a flag beside a variant.
Result<bool> runsAsProgram(const RunFlags &flags, const Request &request);

/// Compiles and runs, or simulates, a program, compares results with --expect, and prints what it finds. Returns the
/// exit code.
int runProgram(const RunFlags &flags, const Request &request);

} // namespace attune::cli
