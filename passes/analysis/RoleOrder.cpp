//===- RoleOrder.cpp - Roles wait for what they read and write ---------------===//

#include "passes/analysis/RoleOrder.h"

#include "passes/analysis/roles/Machine.h"

using namespace mlir;
using namespace attune;
using namespace attune::roles;

/// How many tiles of work the grid has.
static int64_t countTiles(sched::KernelOp kernel, const Launch &launch) {
  int64_t tiles = 1;
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>()) {
    StringRef name = axis.getName();
    int64_t extent = axis.isFixed() ? axis.getSize()
                     : name == "q"  ? launch.queries
                     : name == "k"  ? launch.keys
                     : name == "h"  ? launch.heads
                     : name == "b"  ? launch.batches
                                    : 1;
    tiles *= llvm::divideCeil(extent, axis.getBy());
  }
  return tiles;
}

/// Each tile of work is taken once by each of the loops over them.
static LogicalResult verifyTaken(const Record &record, const Launch &launch) {
  for (auto [who, numbers] : record.taken) {
    std::vector<int64_t> sorted = numbers;
    llvm::sort(sorted);
    for (int64_t number = 0; number < launch.tiles; ++number) {
      const auto times = llvm::count(sorted, number);
      if (times == 1)
        continue;
      auto diagnostic = who.first->emitOpError() << "takes tile of work " << number << " " << times
                                                 << " times; the blocks of a launch take each once";
      diagnostic.attachNote() << launch.describe() << ", warp " << who.second;
      return failure();
    }
  }
  return success();
}

static SmallVector<Launch> launchesOf(sched::KernelOp kernel, const Program &program) {
  const int64_t tileQ = kernel.getPlan().getTileQ(), tileK = kernel.getPlan().getTileK(),
                stages = kernel.getPlan().getStages();
  SmallVector<Launch> launches;
  bool backwards = false;
  for (int64_t keys : {int64_t(0), tileK + 1, (2 * stages + 1) * tileK}) {
    Launch launch;
    launch.keys = keys;
    launch.queries = std::max(tileQ, keys) + 1;
    launch.heads = program.several ? 2 : 1;
    launch.blocks = program.several ? 2 : 0;
    using Values = Launch::Values;
    for (Values values : {Values::Zero, Values::Most, Values::Mixed, Values::Other}) {
      if (values != Values::Zero && !program.guesses)
        continue;
      launch.values = values;
      launch.backwards = backwards = !backwards;
      launches.push_back(launch);
    }
  }
  return launches;
}

LogicalResult attune::verifyRoleOrder(sched::KernelOp kernel) {
  std::optional<Program> program = Program::of(kernel);
  if (!program)
    return success();
  Machine machine(*program);
  for (Launch launch : launchesOf(kernel, *program)) {
    launch.tiles = countTiles(kernel, launch);
    Record record;
    // Where a block has one tile, the first, a middle and the last one.
    SmallVector<int64_t> blocks{0, launch.tiles / 2, launch.tiles - 1};
    if (program->several)
      blocks = {0, 1};
    else
      launch.blocks = launch.tiles;
    blocks.erase(llvm::unique(blocks), blocks.end());
    for (int64_t block : launch.tiles ? blocks : SmallVector<int64_t>()) {
      launch.block = block;
      if (failed(machine.run(launch, record)))
        return failure();
    }
    if (failed(verifyTaken(record, launch)))
      return failure();
  }
  return success();
}
