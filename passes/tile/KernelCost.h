//===- KernelCost.h - Predicts the time of a tile kernel from its ops ---------===//
//
// Counts the work of a launch of a kernel in the tile dialect from the kernel's ops, and predicts the time of the
// launch with the kernel's plan: warps, roles, depths of rings. The kernel may compute anything. tile-plan-kernels
// ranks plans by the predicted time.
//
//     KernelCost cost = kernelCost(kernel, *findArch("sm_90a"), {{"b", 8}, {"h", 16}, {"q", 8192}, {"k", 8192}});
//     cost.seconds, cost.limitedBy                       // 1.3e-4, "memory"
//
// Every thread block of a launch is assumed to do what a block in the middle of the grid does. The time of the launch
// is the greatest of three times, plus a part of the lesser ones that does not overlap:
//
//     global memory      bytes that all blocks read and write
//     units              products, special functions, arithmetic, shared memory of all blocks; units overlap in part
//     latencies          for each block of those that run one after another on a multiprocessor:
//                        the block's own work of the units, and the latencies of its loop iterations
//
// Counts follow from the ops alone. The time follows from the counts, the rates of the architecture, and constants of
// the architecture that attune-fit-cost can fit (arch/ProgramCalibration.h).
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

/// Extents of axes by name. An axis without an entry is assumed to have 4096 elements, or 16 if the grid has a block
/// for each element of the axis.
using Extents = std::map<std::string, int64_t>;

/// The work of one launch (sums over all of its blocks), and the resources of a thread block.
struct LaunchCounts {
  double blocks = 0;         ///< thread blocks of the launch, or tiles of work
  double readBytes = 0;      ///< from global memory to registers and shared memory
  double writtenBytes = 0;   ///< from registers and shared memory to global memory
  double tensorBytes = 0;    ///< of all operands, each once: the least traffic between memory and L2
  double flops = 0;          ///< of products
  double specialResults = 0; ///< of special functions
  double aluResults = 0;     ///< of other arithmetic on elements of tiles
  double sharedBytes = 0;    ///< that products read from shared memory, and that tile.convert writes to it
  double iterations = 0;     ///< of loops over tiles
  int tileRegisters = 0;     ///< of a thread, for register tiles
  int64_t sharedMemory = 0;  ///< bytes of a block
  int64_t warps = 1;         ///< that compute
  int64_t producerWarps = 0; ///< in addition to `warps`
  int64_t wantedBlocks = 1;  ///< blocks that the registers of a multiprocessor have to suffice for
  int64_t stages = 1;        ///< of the deepest ring in a loop
  int64_t copiedBytes = 0;   ///< copied to shared memory in one iteration, the most of any loop
};

struct KernelCost : LaunchCounts {
  int registers = 0;   ///< that a thread needs for tiles, addresses and bounds
  int spilled = 0;     ///< registers that a thread lacks
  int blocksPerSm = 0; ///< 0: a block does not fit
  double seconds = 0;
  std::string_view limitedBy = {}; ///< the busiest unit, or "latencies"
  /// For each unit, the seconds of the launch if that unit alone limited it; the busiest unit first.
  std::vector<std::pair<std::string_view, double>> units = {};
};

/// The counts of a launch of `kernel`, which has a plan.
LaunchCounts countsOf(tile::KernelOp kernel, const Extents &extents = {});

/// The time of a launch with `counts`. Precondition: `arch` is a GPU. If a block does not fit on a multiprocessor,
/// blocksPerSm and seconds are 0.
KernelCost predictCost(const LaunchCounts &counts, const ArchInfo &arch, const ProgramCalibration &calibration);

/// Counts the work of a launch of `kernel`, which has a plan, and predicts its time with the constants of `arch`.
KernelCost kernelCost(tile::KernelOp kernel, const ArchInfo &arch, const Extents &extents = {});

} // namespace attune
