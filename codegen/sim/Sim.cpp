//===- Sim.cpp - Launches in the simulator: parameters, grids, claims -------===//

#include "codegen/sim/Sim.h"

#include "codegen/sim/Decode.h"
#include "codegen/sim/Machine.h"
#include "ir/sched/LaunchMaps.h"
#include "ir/tile/Signature.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

using namespace attune;
using namespace attune::sim;

Expected<Simulator> Simulator::load(mlir::ModuleOp module) {
  Expected<llvm::SmallVector<tile::LaunchedKernel>> kernels = tile::launchedKernels(module);
  if (!kernels)
    return kernels.error();
  const KernelSignature signature = tile::signatureOf(llvm::ArrayRef(*kernels));
  std::vector<std::shared_ptr<const Program>> programs;
  const auto scheduled = llvm::map_to_vector(
      *kernels, [](const tile::LaunchedKernel &launched) { return mlir::cast<sched::KernelOp>(launched.op); });
  const sched::LaunchMaps maps(scheduled);
  for (sched::KernelOp kernel : scheduled) {
    Expected<std::shared_ptr<const Program>> program = decode(kernel, signature, maps);
    if (!program)
      return program.error();
    programs.push_back(std::move(*program));
  }
  return Simulator(std::move(programs));
}

/// The 8 bytes at byte `offset` of the packed parameters, as an integer.
static int64_t word(const LaunchParams *params, size_t offset) {
  int64_t bits;
  std::memcpy(&bits, reinterpret_cast<const std::byte *>(params) + offset, 8);
  return bits;
}

/// Reads a tensor's address, strides and extents from the packed parameters.
static Memory memoryOf(const sim::Tensor &tensor, const LaunchParams &params) {
  Memory memory{reinterpret_cast<std::byte *>(word(&params, tensor.offset)), {}, {}};
  for (int d = 0; d < tensor.rank; ++d) {
    memory.strides[d] = word(&params, tensor.offset + 8 * size_t(1 + d));
    memory.extents[d] = word(&params, tensor.offset + 8 * size_t(1 + tensor.rank + d));
  }
  return memory;
}

static int64_t valueOf(const Parameter &parameter, const LaunchParams &params) {
  if (parameter.offset)
    return word(&params, *parameter.offset);
  const std::string &name = parameter.name;
  if (name == "seed")
    return int64_t(params.seedPointer ? *params.seedPointer : params.seed);
  if (name == "offset")
    return int64_t(params.offsetPointer ? *params.offsetPointer : params.offset);
  if (name == "keep_scale") {
    int32_t bits;
    std::memcpy(&bits, &params.keepScale, 4);
    return bits;
  }
  return name == "group" ? params.group : name == "q_offset" ? params.qOffset : int64_t(params.dropThreshold);
}

/// Distributes the claimed tiles of work over the thread blocks. The first `blocks` tiles are not claimed, because each
/// block starts with one of them. Of the remaining tiles, an even seed gives each to a random block; an odd seed gives
/// all to one block. Both can happen on a GPU, where blocks may have any speed.
static std::vector<std::vector<int64_t>> assignClaims(int64_t tiles, int64_t blocks, uint64_t seed) {
  std::vector<std::vector<int64_t>> claims(blocks);
  std::mt19937_64 random(seed);
  for (int64_t tile = blocks; tile < tiles; ++tile)
    claims[(seed % 2 ? seed / 2 : random()) % uint64_t(blocks)].push_back(tile);
  return claims;
}

/// Simulates one kernel of the launch, unless its conditions (tensor maps, sizes) skip it.
static Expected<void> runProgram(const Program &program, const LaunchParams *params, const SimulatorRun &settings) {
  auto extentOf = [&](const Axis &axis) {
    return axis.size ? axis.size : axis.offset ? word(params, *axis.offset) : 1;
  };
  auto holds = [&](const Bound &bound) {
    return extentOf(bound.axis) >= 1 && extentOf(bound.axis) <= extentOf(bound.most);
  };
  if (!program.mapped.holds(params->mapped))
    return {};
  if (!program.skippedIf.empty() && std::ranges::all_of(program.skippedIf, holds))
    return {};
  Launch launch;
  launch.params = params;
  launch.tiles = 1;
  for (const Axis &axis : program.grid)
    launch.tiles *= (extentOf(axis) + axis.by - 1) / axis.by;
  launch.blocks = !program.persistent
                      ? launch.tiles
                      : persistentBlocks(launch.tiles, std::max<int64_t>(settings.multiprocessors, 1), program.claims);
  if (program.claims)
    launch.claims = assignClaims(launch.tiles, launch.blocks, settings.seed);
  for (const sim::Tensor &tensor : program.tensors)
    launch.tensors.push_back(memoryOf(tensor, *params));
  for (const Parameter &parameter : program.parameters)
    launch.parameters.push_back(valueOf(parameter, *params));
  Machine machine(program, launch, settings.seed);
  for (int64_t block = 0; block < std::min(launch.blocks, launch.tiles); ++block)
    if (Expected<void> ran = machine.run(block); !ran)
      return ran;
  return {};
}

Expected<void> Simulator::run(const LaunchParams *params, const SimulatorRun &settings) const {
  for (const auto &program : programs)
    if (Expected<void> ran = runProgram(*program, params, settings); !ran)
      return ran;
  return {};
}
