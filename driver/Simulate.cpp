//===- Simulate.cpp - Running sched text in the simulator -------------------===//

#include "attune/Simulate.h"

#include "driver/Lowering.h"
#include "runtime/Launch.h"

#include <algorithm>
#include <cstring>

using namespace attune;

struct Simulation::State {
  IrText text;
  IrSummary summary;
  KernelImage image; ///< the signature and entries, for the tables
  int tileK = 0;
  float dropout = 0;
  Simulator simulator;
  LaunchTables tables{image};
};

Expected<Simulation> Simulation::load(const IrText &text) {
  Expected<driver::Simulated> loaded = driver::simulated(text);
  if (!loaded)
    return loaded.error();
  KernelImage image;
  image.name = loaded->summary.name;
  image.arch = loaded->summary.arch;
  image.signature = loaded->summary.signature;
  image.tileQ = loaded->tileQ;
  image.entries = std::move(loaded->entries);
  if (Expected<void> good = checkSignature(image); !good)
    return good.error();
  Expected<Variant> variant = Variant::fromJson(loaded->summary.variantJson);
  return Simulation(std::make_shared<const State>(text, std::move(loaded->summary), std::move(image), loaded->tileK,
                                                  variant ? variant->dropoutProbability() : 0,
                                                  std::move(loaded->simulator)));
}

const IrSummary &Simulation::summary() const { return state->summary; }

std::vector<ProblemSizes> Simulation::exampleSizes() const {
  const int64_t tileQ = state->image.tileQ, tileK = state->tileK;
  ProblemSizes segments{.batch = 2, .heads = 4, .headsKv = 2, .queries = 2 * tileQ + tileQ / 4 + 1, .keys = 0},
      ahead = segments;
  ahead.keys = tileK / 4 + 1;
  segments.keys = std::max(2 * tileK, tileQ + tileK) + ahead.keys;
  return {segments, ahead};
}

size_t Simulation::workspaceBytes(const LaunchArgs &args, const SimulationOptions &options) const {
  return workspaceSize(state->tables, options.multiprocessors, args);
}

Expected<void> Simulation::run(const LaunchArgs &args, const SimulationOptions &options) const {
  PackedLaunch packed;
  if (Expected<void> good = packLaunch(state->tables, Device{}, options.multiprocessors, state->dropout, args, packed);
      !good)
    return good;
  if (!launcher_has_work(&state->tables.image, &packed))
    return {};
  // 0xff bytes are NaN in every float type, so that reads of workspace that no kernel has written are found in the
  // first run.
  if (args.workspace && !args.keepTables)
    std::memset(args.workspace, 0xff, args.workspaceBytes);
  Expected<void> ran =
      state->simulator.run(packed.params(), {.seed = options.seed, .multiprocessors = options.multiprocessors});
  if (ran || !ran.error().where.known())
    return ran;
  Error finding = ran.error();
  std::string notes = std::move(finding.excerpt);
  finding.excerpt = driver::excerptOf(state->text.text, finding.where) + (notes.empty() ? "" : "\n" + notes);
  return finding;
}
