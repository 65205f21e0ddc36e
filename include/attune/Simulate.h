//===- Simulate.h - Run a schedule without a GPU ----------------------------===//
//
// Executes sched text on tensors in host memory, in a memory that is as unkind as a GPU's may be: copies and
// asynchronous MMAs land as late as a wait allows, warps take turns at random, and what no barrier orders is an error.
// It finds what a run on a GPU finds by luck.
//
//     Expected<std::string> text = emit(variant, {.headDim = 64, ...}, Target::cuda("sm_90a"), Stage::Sched);
//     Expected<Simulation> simulation = Simulation::load({*text, "causal.mlir"});
//     if (!simulation)
//       return report(simulation.error());
//     for (uint64_t seed = 0; seed < 4; ++seed)
//       if (Expected<void> ran = simulation->run({.q = q, .k = k, .v = v, .o = o, .lse = lse}, {.seed = seed}); !ran)
//         return report(ran.error());           // causal.mlir:97:11: error: 'sched.load_matrix' op reads k_ring, ...
//
// A block takes milliseconds: use few heads and a few tiles. What is found and what is not modelled is in
// codegen/sim/Sim.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

#include <memory>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

struct SimulationOptions {
  uint64_t seed = 0;           ///< draws the order of warps and copies; even seeds let copies land as late as they can
  int64_t multiprocessors = 2; ///< for grids: persistentBlocks and keySplits of LaunchParams.h
};

/// A scheduled kernel ready to run. Cheap to copy; const members may be called from any number of threads at once.
class Simulation {
public:
  struct State;

  /// Of text at stage sched, as emit prints it or as edited by hand. It is held to the rules of each op, not to those
  /// of sched-verify: what a schedule does wrong, running it tells. Errors: text that does not parse or is not at stage
  /// sched; an op that the simulator lacks.
  static Expected<Simulation> load(const IrText &text);

  const IrSummary &summary() const;

  /// Problems that lead through what a schedule does, in a second or two. Both have 24 tiles of work, the last one of
  /// each head a quarter full: a block of a persistent kernel takes several, and uses every stage of Q's ring again,
  /// across heads that share keys and across batches. The first has keys before a causal mask's edge, on it and beyond,
  /// and a last tile of them that is a quarter full. The second has that tile alone: a writer is as far ahead of its
  /// readers as its rings let it, by several tiles of work.
  ///
  ///     tiles of 192 x 128:    {2, 4, 2, 433, 353}, {2, 4, 2, 433, 33}
  std::vector<ProblemSizes> exampleSizes() const;

  /// Bytes of workspace that a launch with these sizes needs, as Kernel::workspaceBytes.
  size_t workspaceBytes(const LaunchArgs &args, const SimulationOptions &options = {}) const;

  /// One launch with tensors in host memory, checked as Kernel::launch does. An unset dropout is the variant's where
  /// the text names it, else 0. The error is the first finding, at its line of the text; O and LSE then hold anything.
  Expected<void> run(const LaunchArgs &args, const SimulationOptions &options = {}) const;

private:
  explicit Simulation(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

} // namespace attune
#pragma GCC visibility pop
