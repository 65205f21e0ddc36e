//===- Schedules.cpp - Schedules and cases in the simulator -----------------===//

#include "tests/sim/Schedules.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;

std::string Schedule::describe() const {
  return fmt::format("{}: {} x {}, {} warps, {} stages{}{}", arch, tileQ, tileK, warps, stages, qRegisters ? ", Q in registers" : "",
                     dvWarps > 1 ? fmt::format(", {} split dv", dvWarps) : "");
}

void Schedule::applyTo(CompileOptions &options) const {
  options.tileQ = tileQ;
  options.tileK = tileK;
  options.warps = warps;
  options.stages = stages;
  options.qRegisters = qRegisters;
  options.dvWarps = dvWarps;
}

std::vector<Schedule> attune::tests::schedulesFor(const std::string &arch) {
  if (arch == "sm_90a")
    return {{arch, 128, 64, 8, 2, false},  {arch, 128, 128, 8, 2, false}, {arch, 64, 64, 4, 2, false},
            {arch, 64, 32, 4, 3, false},   {arch, 192, 64, 12, 2, false}, {arch, 128, 96, 8, 3, false},
            {arch, 128, 176, 8, 2, false}, {arch, 192, 96, 12, 3, false}, {arch, 64, 128, 4, 4, false}};
  return {{arch, 64, 32, 4, 1, false},    {arch, 64, 64, 4, 1, true},    {arch, 128, 32, 4, 2, true},   {arch, 128, 64, 4, 2, false},
          {arch, 128, 64, 8, 1, true},    {arch, 64, 48, 4, 3, true},    {arch, 128, 128, 8, 1, false}, {arch, 64, 16, 4, 3, false},
          {arch, 64, 32, 8, 1, false, 2}, {arch, 32, 32, 4, 2, true, 2}, {arch, 32, 16, 8, 3, false, 4}};
}

Expected<std::string> attune::tests::schedText(const Case &test, const std::string &arch) {
  return emit(*test.variant, optionsOf(test), Target::cuda(arch), Stage::Sched);
}

Verdict attune::tests::simulate(const Simulation &simulation, const Case &test, const Expectation &expected, uint64_t seed) {
  auto launch = [&](const LaunchArgs &args) { return simulation.run(args, {.seed = seed}); };
  return judge(test, expected, run(Device{}, launch, test));
}
