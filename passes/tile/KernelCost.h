//===- KernelCost.h - Predicts the time of a tile kernel from its ops ---------===//
//
// Counts what a launch of a kernel at stage tile does, from its ops, and predicts its time with the kernel's plan:
// warps, roles, depths of rings. The kernel may compute anything. tile-plan-kernels ranks plans by it.
//
//     KernelCost cost = kernelCost(kernel, *findArch("sm_90a"), {{"b", 8}, {"h", 16}, {"q", 8192}, {"k", 8192}});
//     cost.seconds, cost.limitedBy                       // 1.3e-4, "memory"
//
// Counts of a launch are the sum over its blocks, all of which are taken to do what a block in the middle of the grid
// does. The time is that of the blocks that run on a multiprocessor together, one after another:
//
//     max(memory, cycles of the units * blocks, cycles of the units for one block + latencies of its iterations)
//
// where the units of a multiprocessor overlap in part. Counts follow from the ops alone. The time follows from counts,
// rates of the architecture, and its constants, which attune-fit-cost can fit (arch/ProgramCalibration.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arch/ArchInfo.h"
#include "arch/ProgramCalibration.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attune::tile {
class KernelOp;
}

namespace attune {

/// Extents of axes. An axis that is not there has 4096 elements, or 16 if the grid has a block for each of its elements.
using Extents = std::map<std::string, int64_t>;

/// What a launch does, and who does it.
struct LaunchCounts {
  double blocks = 0;         ///< thread blocks of the launch, or tiles of work
  double readBytes = 0;      ///< from global memory to registers and shared memory
  double writtenBytes = 0;   ///< from registers and shared memory to global memory
  double tensorBytes = 0;    ///< all operands once: the least that is moved between memory and level 2
  double flops = 0;          ///< of products
  double specialResults = 0; ///< of special functions
  double aluResults = 0;     ///< of other arithmetic on elements of tiles
  double sharedBytes = 0;    ///< that products read from shared memory, and that tiles converted to it write
  double iterations = 0;     ///< of loops over tiles
  int tileRegisters = 0;     ///< of a thread, for register tiles
  int64_t sharedMemory = 0;  ///< bytes of a block
  int64_t warps = 1;         ///< that compute
  int64_t producerWarps = 0; ///< in addition to `warps`
  int64_t wantedBlocks = 1;  ///< per multiprocessor, for which a thread's registers have to suffice
  int64_t stages = 1;        ///< of the deepest ring in a loop
  int64_t copiedBytes = 0;   ///< to shared memory in an iteration, the most of any loop
};

struct KernelCost : LaunchCounts {
  int registers = 0;   ///< of a thread, for tiles and what goes with them
  int spilled = 0;     ///< registers that a thread lacks
  int blocksPerSm = 0; ///< 0: a block does not fit
  double seconds = 0;
  std::string_view limitedBy = {}; ///< the busiest unit, or "latencies"
  /// Seconds of each unit if that unit alone limited the launch, the busiest first.
  std::vector<std::pair<std::string_view, double>> units = {};
};

/// The counts of a launch of `kernel`, which has a plan.
LaunchCounts countsOf(tile::KernelOp kernel, const Extents &extents = {});

/// The time of a launch with `counts`. Precondition: a GPU.
KernelCost predictCost(const LaunchCounts &counts, const ArchInfo &arch, const ProgramCalibration &calibration);

/// Both, with the constants of `arch`.
KernelCost kernelCost(tile::KernelOp kernel, const ArchInfo &arch, const Extents &extents = {});

} // namespace attune
