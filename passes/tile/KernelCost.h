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
// where the units of a multiprocessor overlap in part. The constants are set by hand on 173 plans of seven cases
// on one H200 (docs/log/programs.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arch/ArchInfo.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attune::tile {
class KernelOp;
}

namespace attune {

/// Extents of axes. An axis that is not there has 4096 elements, or 16 if the grid has a block for each of its elements.
using Extents = std::map<std::string, int64_t>;

struct KernelCost {
  double blocks = 0;         ///< thread blocks of the launch, or tiles of work
  double readBytes = 0;      ///< from global memory to registers and shared memory
  double writtenBytes = 0;   ///< from registers and shared memory to global memory
  double tensorBytes = 0;    ///< all operands once: the least that is moved between memory and level 2
  double flops = 0;          ///< of products
  double specialResults = 0; ///< of special functions
  double aluResults = 0;     ///< of other arithmetic on elements of tiles
  double sharedBytes = 0;    ///< that products read from shared memory, and that tiles converted to it write
  double iterations = 0;     ///< of loops over tiles
  int registers = 0;         ///< of a thread, for tiles and what goes with them
  int spilled = 0;           ///< registers that a thread lacks
  int64_t sharedMemory = 0;  ///< bytes of a block
  int blocksPerSm = 0;       ///< 0: a block does not fit
  double seconds = 0;
  std::string limitedBy; ///< the busiest unit, or "latencies"
  /// Seconds of each unit if that unit alone limited the launch, the busiest first.
  std::vector<std::pair<std::string, double>> units;
};

KernelCost kernelCost(tile::KernelOp kernel, const ArchInfo &arch, const Extents &extents = {});

} // namespace attune
