//===- Sim.cpp - Scheduled IR, executed without a GPU -----------------------===//

#include "codegen/sim/Sim.h"

#include "codegen/sim/Decode.h"
#include "codegen/sim/Machine.h"
#include "ir/sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

using namespace attune;
using namespace attune::sim;

Expected<Simulator> Simulator::load(mlir::ModuleOp module) {
  auto kernels = llvm::to_vector(module.getOps<sched::KernelOp>());
  if (kernels.size() != 1)
    return Error{"the module holds " + std::to_string(kernels.size()) + " sched.kernel ops; the simulator takes one"};
  Expected<std::shared_ptr<const Program>> program = decode(kernels.front());
  if (!program)
    return program.error();
  return Simulator(*program);
}

/// Words of 8 bytes behind LaunchParams: scalars, then address, strides and extents of each captured tensor.
static int64_t word(const LaunchParams *params, size_t index) {
  int64_t bits;
  std::memcpy(&bits, reinterpret_cast<const std::byte *>(params + 1) + 8 * index, 8);
  return bits;
}

static Memory memoryOf(const Program &program, const Tensor &tensor, const LaunchParams &params) {
  auto fixed = [](const void *data, std::array<int64_t, 4> extents, const int64_t (&strides)[3], bool hasColumns) {
    Memory memory{static_cast<std::byte *>(const_cast<void *>(data)), extents, {strides[0], strides[1], strides[2], 1}};
    if (!hasColumns)
      memory.extents[3] = 1;
    return memory;
  };
  const int64_t b = params.batch, h = params.heads, hkv = params.kvHeads, sq = params.queryLength,
                sk = params.keyLength;
  if (tensor.captured < 0) {
    if (tensor.name == "q")
      return fixed(params.q, {b, h, sq, program.headDim}, params.qStride, true);
    if (tensor.name == "k")
      return fixed(params.k, {b, hkv, sk, program.headDim}, params.kStride, true);
    if (tensor.name == "v")
      return fixed(params.v, {b, hkv, sk, program.headDimV}, params.vStride, true);
    if (tensor.name == "o")
      return fixed(params.o, {b, h, sq, program.headDimV}, params.oStride, true);
    return fixed(params.lse, {b, h, sq, 1}, params.lseStride, false);
  }
  size_t at = size_t(program.scalars);
  for (int i = 0; i < tensor.captured; ++i)
    at += 1 + 2 * size_t(program.capturedRanks[i]);
  Memory memory{reinterpret_cast<std::byte *>(word(&params, at)), {}, {}};
  for (int d = 0; d < tensor.rank; ++d) {
    memory.strides[d] = word(&params, at + 1 + d);
    memory.extents[d] = word(&params, at + 1 + tensor.rank + d);
  }
  return memory;
}

static int64_t valueOf(const Parameter &parameter, const LaunchParams &params) {
  if (parameter.scalar >= 0)
    return word(&params, size_t(parameter.scalar));
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
  return name == "B"          ? params.batch
         : name == "H"        ? params.heads
         : name == "Hkv"      ? params.kvHeads
         : name == "group"    ? params.group
         : name == "Sq"       ? params.queryLength
         : name == "Sk"       ? params.keyLength
         : name == "q_offset" ? params.qOffset
                              : int64_t(params.dropThreshold);
}

/// Which of the tiles that no block has from the start each block gets. Blocks are simulated one by one, and may be of
/// any speed: each claim goes to any of them, or, for odd seeds, all go to one.
static std::vector<std::vector<int64_t>> dealClaims(int64_t tiles, int64_t blocks, uint64_t seed) {
  std::vector<std::vector<int64_t>> claims(blocks);
  std::mt19937_64 random(seed);
  for (int64_t tile = blocks; tile < tiles; ++tile)
    claims[(seed % 2 ? seed / 2 : random()) % uint64_t(blocks)].push_back(tile);
  return claims;
}

Expected<void> Simulator::run(const LaunchParams *params, const SimulatorRun &settings) const {
  Launch launch;
  launch.params = params;
  launch.tiles = (params->queryLength + program->tileQ - 1) / program->tileQ * params->heads * int64_t(params->batch);
  launch.blocks = !program->persistent
                      ? launch.tiles
                      : persistentBlocks(launch.tiles, std::max<int64_t>(settings.multiprocessors, 1), program->claims);
  if (program->claims)
    launch.claims = dealClaims(launch.tiles, launch.blocks, settings.seed);
  for (const Tensor &tensor : program->tensors)
    launch.tensors.push_back(memoryOf(*program, tensor, *params));
  for (const Parameter &parameter : program->parameters)
    launch.parameters.push_back(valueOf(parameter, *params));
  Machine machine(*program, launch, settings.seed);
  for (int64_t block = 0; block < std::min(launch.blocks, launch.tiles); ++block)
    if (Expected<void> ran = machine.run(block); !ran)
      return ran;
  return {};
}
