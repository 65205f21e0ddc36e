//===- Schedules.h - Schedules and cases in the simulator -------------------===//
#pragma once

#include "attune/Simulate.h"
#include "tests/numerics/Runner.h"

#include <string>
#include <vector>

namespace attune::tests {

/// A schedule with every field fixed, so that no compiler has to choose.
struct Schedule {
  std::string arch;
  int tileQ, tileK, warps, stages;
  bool qRegisters;
  int dvWarps = 1;

  std::string describe() const;
  void applyTo(CompileOptions &options) const;
};

/// None is a default one; each is for head dims up to 64.
std::vector<Schedule> schedulesFor(const std::string &arch);

/// The case's schedule as sched text; its options hold a Schedule.
Expected<std::string> schedText(const Case &test, const std::string &arch);

/// Runs the text on the case and compares O and LSE with float64.
Verdict simulate(const Simulation &simulation, const Case &test, const Expectation &expected, uint64_t seed);

} // namespace attune::tests
