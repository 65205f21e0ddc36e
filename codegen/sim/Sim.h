//===- Sim.h - An interpreter of scheduled IR, without a GPU ----------------===//
//
// Executes the `sched.kernel`s of a launch, one after the other, on real tensors, warp by warp. The memory model is the
// weakest that PTX allows. A run computes the outputs (O, LSE, ...), or ends with the first error found ("finding"): a
// race, a wait for the wrong phase, a deadlock, an access out of bounds.
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
// The simulator reads the IR only. It shares no code with the passes, with sched-verify or with the CUDA printer. The
// layouts of fragments and swizzled tiles follow the tables of docs/reference/dialects/sched.md (#sched.fragment,
// #sched.swizzle).
//
// Warps. A warp executes one op at a time for its 32 lanes. A value is uniform, or has one number per lane; branches
// and loops on per-lane values run with a lane mask. The scheduler may switch to another warp after each op that
// synchronises or that starts or completes asynchronous work; the seed decides which warp runs next. seed / 2 mod 3
// selects the policy: a random warp each time; the same warp for a long time; or priorities, which let whole roles lag.
// Six consecutive seeds cover every policy with both kinds of TMA timing. Results depend on the seed only if the kernel
// has a race.
//
// Claimed work. Thread blocks are simulated one after another. The seed decides which tiles of work each block claims,
// because on a GPU any block may win any claim. The counter in memory is not modelled.
//
// Roles. A role is a set of warps with a program of its own, such as the producer. Each role runs the tiles of its own
// `for_work`, and only rings and barriers synchronise the roles. Roles that disagree on the tiles of work, on the tiles
// of keys, or on the next stage of a ring cause a deadlock, another finding or a wrong result.
//
// Asynchronous work completes as late as PTX allows, or at a random moment. Until then accesses are restricted, and the
// destination of a copy holds NaN:
//
//     | work             | completes                                         | forbidden until then                 |
//     |------------------|---------------------------------------------------|--------------------------------------|
//     | copy_async       | at the wait_copies that completes its group       | any access to the destination        |
//     | load_box         | even seeds: when no warp can continue; odd seeds: | any access to the destination        |
//     |                  | at a random moment                                |                                      |
//     | mma_async        | at the mma_wait that completes its group          | writes to its shared operands, any   |
//     |                  |                                                   | access to its registers              |
//     | store_box,       | at the wait_boxes that completes its group        | writes to the shared memory that the |
//     | add_rows         |                                                   | op reads                             |
//
// Races are detected by vector clocks, whatever order the warps happen to run in (Flanagan and Freund, "FastTrack",
// 2009). Each warp has a clock that counts its barriers, arrivals and fences. Each lane has a vector clock: for every
// lane of every warp, the last clock value whose accesses are ordered before the next access of this lane. Barriers and
// rings pass these vector clocks on. For every four bytes of shared memory the simulator keeps the last write and each
// warp's last read:
//
//     | access                  | requires                                                                         |
//     |-------------------------|----------------------------------------------------------------------------------|
//     | read                    | the bytes were written by the same thread, or the write is ordered before the    |
//     |                         | read by a barrier or ring                                                        |
//     | write, start of a copy  | the last write and every warp's last read are ordered before the access          |
//     | by tensor cores or TMA  | in addition, the thread that wrote executed fence_async before it arrived at the |
//     |                         | barrier or ring                                                                  |
//
// Each lane is ordered by itself. What one lane has waited for or written says nothing about the other lanes of its
// warp, which may run ahead or lag until sync_lanes or a barrier. A `release` without `by_lanes` is an arrival of lane
// 0: it publishes the accesses of lane 0, and those of the other lanes up to the last sync_lanes or barrier.
// Instructions of a whole warp (ldmatrix, MMAs) count as accesses of all lanes.
//
// Further findings: a barrier reached by more threads than it counts, or twice by a warp; a ring used before its
// init_ring is visible, or by load_box without fence_init; more arrivals at a stage than `filled_by` or `emptied_by`;
// expected bytes that no copy delivers, and copied bytes that were not expected; registers read before they are
// written, or used without the mma_fence or mma_wait that names them; collective ops executed by part of a warp;
// asynchronous work without a wait, and stages without a release, at the end of the block; indices outside of a tensor,
// a shared tile or a lane's array.
//
// Numbers. Arithmetic is float32 with the host's math functions, and products accumulate in float32. The approximations
// that kernels for f16 and bf16 use are not modelled. Otherwise docs/inside/decisions-numerics.md applies.
//
// The shared memory of a block holds NaN before the first write, under every seed. The workspace of a launch holds what
// the caller has put there; by default driver/Simulate.cpp fills it with NaN.
//
// Not modelled: time; register counts and their redistribution (`registers` of a role, which sched.kernel's verifier
// checks); shared-memory banks. The hardware keeps the warps of a warpgroup together at mma_async; here they may drift
// apart.
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
  /// Multiprocessors of the simulated device, at least 1: they determine the number of persistent blocks
  /// (persistentBlocks in LaunchParams.h). A kernel with `for_work grid` has a block for each tile, however many
  /// multiprocessors there are.
  int64_t multiprocessors = 1;
};

/// The kernels of a launch, ready to run. Cheap to copy; all members may be called from any number of threads at once.
class Simulator {
public:
  /// Decodes the `sched.kernel` ops that a launch of `module` starts; `module` may be destroyed afterwards. Fails, and
  /// names the op, for an op that a scheduling pass has yet to lower or that the simulator does not implement.
  static Expected<Simulator> load(mlir::ModuleOp module);

  /// Simulates one launch. `params` is followed by the packed parameters (LaunchParams.h), whose addresses are in host
  /// memory; the packed tensor maps are not read. On success all outputs are complete. The error is the first finding,
  /// at the location of its op; the outputs are then undefined.
  Expected<void> run(const LaunchParams *params, const SimulatorRun &settings = {}) const;

private:
  explicit Simulator(std::vector<std::shared_ptr<const sim::Program>> programs) : programs(std::move(programs)) {}
  std::vector<std::shared_ptr<const sim::Program>> programs; ///< one per kernel, in launch order
};

} // namespace attune
