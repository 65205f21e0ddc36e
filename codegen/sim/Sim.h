//===- Sim.h - Scheduled IR, executed without a GPU -------------------------===//
//
// Runs the `sched.kernel`s of a launch, one after the other, on real tensors, warp by warp, in a memory that is as
// unkind as the PTX memory model allows. A run computes O and LSE, or ends with the first finding: a race, a wait for
// the wrong phase, a deadlock, an access out of bounds.
//
//     Expected<Simulator> simulator = Simulator::load(module);
//     for (uint64_t seed = 0; seed < 4; ++seed)
//       if (Expected<void> ran = simulator->run(params, {.seed = seed}); !ran)
//         std::puts(ran.error().text().c_str());
//
//     causal.mlir:97:11: error: 'sched.load_matrix' op reads k_ring, stage 1, while a copy into it is under way
//                               (block 0, warp 2, seed 0)
//     note: the other is 'sched.copy_async' op at causal.mlir:58:9
//
// Only the IR counts: the simulator knows nothing of the passes that made it, of sched-verify, or of the CUDA that
// would be printed. Where lanes hold what is in the tables of docs/dialects/sched.md (#sched.fragment, #sched.swizzle),
// nowhere else.
//
// Warps. A warp executes one op for its 32 lanes at a time. Values are uniform or have one number per lane; branches
// and loops on the latter run with a mask. After each op that synchronises or touches asynchronous work another warp
// may go on: which one is drawn by the seed. By seed / 2 mod 3 warps take turns at random, stay in turn for long, or go
// by priorities that keep whole roles behind, so that six seeds see every kind. Results do not depend on the seed
// unless the kernel has a race.
//
// Claimed work. Blocks run one after another; which tiles of work each claims is drawn by the seed, for any claim may
// be any block's. The counter itself is not modelled.
//
// Work. Each role takes the tiles of its own `for_work`, and nothing but rings and barriers keeps it beside the others:
// roles that disagree on the tiles of work, on the tiles of keys that they visit, or on where a ring goes on, are found
// by what they wait for or by the result.
//
// Asynchronous work lands late. Nothing may look before that, and the destination of a copy holds NaN:
//
//     | work             | lands                                             | until then                           |
//     |------------------|---------------------------------------------------|--------------------------------------|
//     | copy_async       | at the wait_copies that completes its group, or   | nobody touches the destination       |
//     | load_box         | even seeds: when no warp can go on; odd ones: at  | nobody touches the destination       |
//     |                  | a random moment                                   |                                      |
//     | mma_async        | at the mma_wait that completes its group          | nobody writes its shared operands,   |
//     |                  |                                                   | nobody touches its registers         |
//     | store_box,       | at the wait_boxes that completes its group        | nobody writes what it reads          |
//     | add_rows         |                                                   |                                      |
//
// Races are found by the order of events, not by luck. Each warp counts its barriers, arrivals and fences, and its lanes
// know up to which count they have seen each lane of each warp: barriers and rings hand this knowledge on (vector
// clocks; Flanagan and Freund, "FastTrack", 2009). For every four bytes of shared memory the last write and the last
// read of each warp are kept:
//
//     | access                  | needs                                                                            |
//     |-------------------------|----------------------------------------------------------------------------------|
//     | read                    | bytes that were written, by the same thread or before something that the reader  |
//     |                         | has waited for                                                                   |
//     | write, start of a copy  | the same of the last write, and of every warp's last read                        |
//     | by tensor cores or copy | also a fence_async of the thread that wrote, before it handed on                 |
//     | engine                  |                                                                                  |
//
// What one lane has waited for or done, the other lanes of its warp have not: they may run ahead of it, or stay behind,
// until sync_lanes or a barrier. `release` is an arrival of lane 0, which hands on what lane 0 has done, and of other
// lanes what they had done when all last met. A warp that acts as one (ldmatrix, MMAs) has acted in all of its lanes.
//
// Also found: a barrier that more threads reach than it is for, or a warp twice; a ring used before its init_ring is
// visible, or by load_box without fence_init; more arrivals at a stage than `filled_by` or `emptied_by`; bytes that are
// expected but not copied, or copied but not expected; registers read before they are written, or used without the
// mma_fence or the mma_wait that names them; collective ops that part of a warp executes; work that nobody waits for,
// and stages that nobody releases, at the end of the block; indices outside of a tensor, a shared tile or a lane's
// array.
//
// Numbers. Float32 arithmetic with the host's math functions: the short forms that a kernel for f16 or bf16 uses are
// not modelled, and products are summed in float32. Everything else as docs/design.md has it.
//
// The workspace of a launch and the shared memory of a block hold NaN before the first write, under every seed.
//
// Not modelled: time, registers and their redistribution (`registers` of a role; sched.kernel's verifier counts them),
// and banks. Warps of a warpgroup, which the hardware keeps together at mma_async, may drift apart here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/LaunchParams.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mlir {
class ModuleOp;
}

namespace attune {

namespace sim {
struct Program;
}

struct SimulatorRun {
  uint64_t seed = 0;
  /// For the grid of `for_work persistent`, at least 1: as many blocks as persistentBlocks
  /// (LaunchParams.h) gives. Order grid has one for each tile.
  int64_t multiprocessors = 1;
};

/// A kernel ready to run. Cheap to copy; all members may be called from any number of threads at once.
class Simulator {
public:
  /// Of the `sched.kernel` ops that a launch of `module`, which the simulator does not keep, starts. Errors: an op that
  /// is not expanded or that the simulator lacks, naming it.
  static Expected<Simulator> load(mlir::ModuleOp module);

  /// One launch. `params` is followed by what LaunchParams.h says, in host memory; tensor maps are not read. O and LSE
  /// are complete on success. The error is the first finding, at the location of its op; O and LSE then hold anything.
  Expected<void> run(const LaunchParams *params, const SimulatorRun &settings = {}) const;

private:
  explicit Simulator(std::vector<std::shared_ptr<const sim::Program>> programs) : programs(std::move(programs)) {}
  std::vector<std::shared_ptr<const sim::Program>> programs; ///< in the order of the launch
};

} // namespace attune
