//===- RunSimulate.h - attune run --simulate ------------------------------===//
#pragma once

#include "tools/attune/RunData.h"

namespace attune::cli {

/// Runs the schedule in the simulator: on the problem that is asked for, or on those that show most of it. Reports, and
/// gives the exit code.
int simulateRun(const RunFlags &flags, const Request &request, bool given, RunData &data);

} // namespace attune::cli
