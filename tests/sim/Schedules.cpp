//===- Schedules.cpp - Schedules and cases in the simulator -----------------===//

#include "tests/sim/Schedules.h"

#include <algorithm>
#include <fmt/format.h>
#include <regex>

using namespace attune;
using namespace attune::tests;

std::string Schedule::describe() const {
  return fmt::format("{}: {} x {}, {} warps, {} stages{}{}{}{}{}", arch, tileQ, tileK, warps, stages,
                     qRegisters ? ", Q in registers" : "", dvWarps > 1 ? fmt::format(", {} split dv", dvWarps) : "",
                     queryStages ? fmt::format(", persistent with {} of Q", queryStages) : "",
                     pingPong ? ", ping-pong" : "", overlap ? ", overlapping" : "");
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
    return {{arch, 128, 64, 8, 2, false, 1, 2, true},
            {arch, 128, 128, 8, 2, false, 1, 0, false, true},
            {arch, 64, 64, 4, 2, false, 1, 1, false, true},
            {arch, 64, 32, 4, 3, false, 1, 0},
            {arch, 192, 64, 12, 2, false, 1, 2, true},
            {arch, 128, 96, 8, 3, false, 1, 1, false, true},
            {arch, 128, 176, 8, 2, false, 1, 0},
            {arch, 192, 96, 12, 3, false, 1, 0, true},
            {arch, 64, 128, 4, 4, false, 1, 3, false, true},
            {arch, 128, 64, 8, 2, false, 1, 0, true},
            {arch, 128, 64, 8, 2, false, 1, 2},
            {arch, 192, 64, 12, 2, false, 1, 2},
            {arch, 128, 64, 8, 2, false, 1, 2, true, true},
            {arch, 256, 48, 16, 2, false, 1, 2, true},
            {arch, 256, 32, 16, 3, false, 1, 1}};
  return {{arch, 64, 32, 4, 1, false},   {arch, 64, 64, 4, 1, true},    {arch, 128, 32, 4, 2, true},
          {arch, 128, 64, 4, 2, false},  {arch, 128, 64, 8, 1, true},   {arch, 64, 48, 4, 3, true},
          {arch, 128, 128, 8, 1, false}, {arch, 64, 16, 4, 3, false},   {arch, 64, 32, 8, 1, false, 2},
          {arch, 32, 32, 4, 2, true, 2}, {arch, 32, 16, 8, 3, false, 4}};
}

Expected<std::string> attune::tests::schedText(const Case &test, const Schedule &schedule, const std::string &grid) {
  CompileOptions options = optionsOf(test);
  schedule.applyTo(options);
  const Target target = Target::cuda(schedule.arch);
  Expected<std::string> tile = emit(*test.variant, options, target, Stage::Tile);
  if (!tile)
    return tile;
  // These have no option; which work a block takes, and in which order, is the cost model's to choose.
  static const std::regex chosen(
      ", sched\\.(persistent|ping_pong|overlap)\\b|sched\\.(persistent|ping_pong|overlap), "),
      roles("sched\\.roles = "), queryRing("(= tile\\.load %Q\\[[^{]*\\{sched\\.ring = #sched\\.ring<stages )[0-9]+");
  const std::string marks = std::string(schedule.queryStages ? "sched.persistent, " : "") +
                            (schedule.pingPong ? "sched.ping_pong, " : "") +
                            (schedule.overlap ? "sched.overlap, " : "");
  std::string text = std::regex_replace(*tile, chosen, "");
  if (std::regex_search(text, roles)) {
    text = std::regex_replace(text, roles, marks + "sched.roles = ");
    text = std::regex_replace(text, queryRing, fmt::format("$01{}", std::max(schedule.queryStages, 1)));
  }
  if (!grid.empty())
    text = std::regex_replace(text, std::regex(" grid \\[[^\\]]*\\]"), " grid [" + grid + "]");
  return emitFromText({text, "kernel.mlir"}, {}, target, Stage::Sched);
}

Launcher attune::tests::launcher(const Simulation &simulation, const Case &test, uint64_t seed) {
  const auto &queries = test.problem.q.shape;
  const int64_t tileQ = test.options.tileQ.value(),
                tiles = queries[0] * queries[1] * ((queries[2] + tileQ - 1) / tileQ);
  // Several tiles a block, or one, or, where the first block has two, one in the last.
  const int64_t multiprocessors =
      seed % 4 == 3 ? tiles - seed / 4 % 2 : std::clamp<int64_t>(tiles / 2, 1, 1 + int64_t(seed % 4));
  return {
      Device{},
      [=](const LaunchArgs &args) { return simulation.workspaceBytes(args, {.multiprocessors = multiprocessors}); },
      [=](const LaunchArgs &args) { return simulation.run(args, {.seed = seed, .multiprocessors = multiprocessors}); }};
}

Verdict attune::tests::simulate(const Simulation &simulation, const Case &test, const Expectation &expected,
                                uint64_t seed) {
  return judge(test, expected, run(launcher(simulation, test, seed), test));
}
