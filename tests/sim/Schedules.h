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
  int queryStages = 0;   ///< of Q's ring in persistent blocks; 0: a block has one tile of work
  bool pingPong = false; ///< warpgroups ping-pong: one runs its products while another runs its softmax
  bool overlap = false;  ///< the product with V runs beside the next softmax; with turns where maxima are held

  std::string describe() const;
  void applyTo(CompileOptions &options) const;
};

/// None is a default one; each is for head dims up to 64.
std::vector<Schedule> schedulesFor(const std::string &arch);

/// The case's kernel with the schedule, as sched text; over another grid than that of its queries where `grid` is one.
Expected<std::string> schedText(const Case &test, const Schedule &schedule, const std::string &grid = "");

/// What runs a case in the simulator. Persistent blocks are so few that each has several tiles of work, where there are
/// several.
Launcher launcher(const Simulation &simulation, const Case &test, uint64_t seed);

/// Runs the text on the case, whose options hold its schedule, and compares O and LSE with float64.
Verdict simulate(const Simulation &simulation, const Case &test, const Expectation &expected, uint64_t seed);

} // namespace attune::tests
