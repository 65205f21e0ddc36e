#include "tools/attune/RunSimulate.h"

#include "tools/attune/Output.h"
#include "tools/attune/RunCheck.h"
#include "tools/attune/RunLaunch.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::cli;

/// One problem in the simulator, under as many orders of events as asked for.
static int simulateData(const RunFlags &flags, const Request &request, const Simulation &simulation, bool given,
                        RunData &data) {
  if (Expected<void> filled = fillData(flags, request, simulation.summary().signature, given, data); !filled)
    return report({filled.error()});
  if (!data.ofBackward.empty())
    if (Expected<double> ran = runForward(flags, request, Target::cpu(), data); !ran)
      return report({ran.error()});
  LaunchArgs args = hostArgs(flags, Device{}, data);
  args.workspaceBytes = simulation.workspaceBytes(args);
  Expected<std::vector<std::max_align_t>> workspace = hostWorkspace(args.workspaceBytes);
  if (!workspace)
    return report({workspace.error()});
  args.workspace = workspace->data();
  if (simulation.summary().signature.dropout)
    args.dropout = request.variant ? request.variant->dropoutProbability() : float(flags.dropout.value_or(0));
  for (int seed = 0; seed < flags.simulate; ++seed) {
    data.poisonResults();
    if (Expected<void> ran = simulation.run(args, {.seed = uint64_t(seed)}); !ran)
      return report({ran.error()});
    if (flags.noCheck || !request.variant)
      continue;
    Expected<Check> checked = checkResults(flags, *request.variant, data);
    if (!checked)
      return report({checked.error()});
    if (!checked->pass()) {
      printError("error: with seed {} the results differ from the float64 reference: {}\n", seed,
                 checked->difference());
      return failed;
    }
    if (seed + 1 == flags.simulate)
      checked->printErrors();
  }
  return done;
}

int attune::cli::simulateRun(const RunFlags &flags, const Request &request, bool given, RunData &data) {
  if (!request.target.isCuda())
    return report(usageError("--simulate is for a GPU's schedule; name its architecture, for example --arch sm_90a"));
  if (!flags.cuda.empty())
    return report(usageError("--simulate runs the schedule, which CUDA text does not change; leave out --cuda"));
  if (flags.json || !flags.dump.empty() || flags.repeats || flags.checked)
    return report(usageError("--simulate only tells what it finds; leave out --json, --dump, --repeats and --checked"));
  // A schedule given as text runs as it is: what sched-verify would reject, too.
  bool isSchedule = request.summary && request.summary->stage == Stage::Sched;
  Expected<std::string> text = isSchedule ? request.text->text : emitStage(request, Stage::Sched);
  if (!text)
    return report({text.error()});
  Expected<Simulation> simulation =
      Simulation::load({*text, request.text ? request.text->file : request.label + ".mlir"});
  if (!simulation)
    return report({simulation.error()});
  std::vector<ProblemSizes> problems;
  if (!given && !request.shape)
    problems = simulation->exampleSizes();
  for (const ProblemSizes &sizes : problems) {
    Shape &shape = data.shape;
    shape = {sizes.batch, sizes.heads, sizes.headsKv, sizes.queries, sizes.keys, shape.headDim, shape.headDimV};
    print("  {:<14} {}\n", "shape", shape.text());
    if (int code = simulateData(flags, request, *simulation, given, data); code != done)
      return code;
  }
  if (problems.empty())
    if (int code = simulateData(flags, request, *simulation, given, data); code != done)
      return code;
  print("  {:<14} {} orders of events of {} for {}, no finding\n", "simulated", flags.simulate, request.label,
        request.target.text());
  return done;
}
