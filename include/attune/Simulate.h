//===- Simulate.h - Run a schedule without a GPU ----------------------------===//
//
// Executes sched text on tensors in host memory, under the worst timing that a GPU allows: copies and asynchronous MMAs
// complete as late as a wait permits, warps are interleaved at random, and conflicting accesses that no barrier orders
// are an error. The simulator thus finds faults that a run on a GPU shows only by chance.
//
//     Expected<std::string> text = emit(variant, {.headDim = 64, ...}, Target::cuda("sm_90a"), Stage::Sched);
//     Expected<Simulation> simulation = Simulation::load({*text, "causal.mlir"});
//     if (!simulation)
//       return report(simulation.error());
//     for (uint64_t seed = 0; seed < 4; ++seed)
//       if (Expected<void> ran = simulation->run({.q = q, .k = k, .v = v, .o = o, .lse = lse}, {.seed = seed}); !ran)
//         return report(ran.error());           // causal.mlir:97:11: error: 'sched.load_matrix' op reads k_ring, ...
//
// A block takes milliseconds: use few heads and a few tiles. codegen/sim/Sim.h lists what the simulator finds and what
// it does not model.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

#include <memory>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

struct SimulationOptions {
  uint64_t seed = 0;           ///< of the order of warps and copies; if even, copies complete as late as possible
  int64_t multiprocessors = 2; ///< assumed for the sizes of grids: persistentBlocks and keySplits of LaunchParams.h
};

/// A scheduled kernel ready to run. Cheap to copy; const members may be called from any number of threads at once.
class Simulation {
public:
  struct State;

  /// Loads text of stage sched, as emit prints it or edited by hand. The ops' own verifiers run, but not sched-verify,
  /// so that the simulation can find the schedule's mistakes. Errors: text that does not parse or is not of stage
  /// sched; an op that the simulator lacks.
  static Expected<Simulation> load(const IrText &text);

  const IrSummary &summary() const;

  /// Two problems that exercise all of a schedule, in a second or two. Both have 24 tiles of work, and the last tile of
  /// each head is a quarter full. A block of a persistent kernel computes several of the tiles and reuses every stage
  /// of Q's ring, across heads that share keys and across batches. The first problem has tiles of keys before, on and
  /// after the edge of a causal mask, and a last tile of keys that is a quarter full. The second problem has only this
  /// last tile of keys, so that a writer runs several tiles of work ahead of its readers, as far as its rings allow.
  ///
  ///     tiles of 192 x 128:    {2, 4, 2, 433, 353}, {2, 4, 2, 433, 33}
  std::vector<ProblemSizes> exampleSizes() const;

  /// Bytes of workspace that a launch with these sizes needs, as Kernel::workspaceBytes.
  size_t workspaceBytes(const LaunchArgs &args, const SimulationOptions &options = {}) const;

  /// Runs one launch with tensors in host memory, with the checks of Kernel::launch. An unset dropout probability is
  /// the variant's if the text names it, else 0. The error is the first fault that is found, with its line of the text;
  /// O and LSE are then unspecified.
  Expected<void> run(const LaunchArgs &args, const SimulationOptions &options = {}) const;

private:
  explicit Simulation(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

} // namespace attune
#pragma GCC visibility pop
