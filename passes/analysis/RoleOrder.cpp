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
    int64_t extent = axis.isFixed() ? axis.getSize() : launch.extentOf(axis.getName());
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

/// Blocks that may share the keys of a loop: the places along axes of a size that is known.
static int64_t countSplits(sched::KernelOp kernel) {
  int64_t shares = 1;
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
    if (axis.isFixed())
      shares *= llvm::divideCeil(axis.getSize(), axis.getBy());
  return shares;
}

/// Sizes of launches: none, a tile and a key, and for each share of the keys tiles for two walks over the stages and one
/// more. The last tile of queries has one row, so that some warpgroups have none. Where a block may have several tiles of
/// work, the first launch has a block for each, the others two; of these one has no keys, whose rings would order the
/// tiles of work.
static SmallVector<Launch> launchesOf(sched::KernelOp kernel, const Program &program) {
  using Values = Launch::Values;
  const int64_t tileQ = kernel.getPlan().getTileQ(), tileK = kernel.getPlan().getTileK(),
                stages = sched::deepestRing(kernel);
  SmallVector<Launch> launches;
  auto add = [&](int64_t keys, int64_t queries, int64_t heads, int64_t batches, int64_t blocks,
                 ArrayRef<Values> values) {
    for (Values taken : values) {
      if (taken != Values::Zero && !program.guesses)
        continue;
      Launch launch;
      launch.keys = keys;
      launch.queries = llvm::alignTo(queries, tileQ) + 1;
      launch.heads = program.several ? heads : 1;
      launch.batches = program.several ? batches : 1;
      launch.workItems = launch.batches * llvm::divideCeil(launch.queries, tileQ) + 1;
      launch.blocks = program.several ? blocks : 0;
      launch.values = taken;
      launch.backwards = launches.size() % 2;
      launches.push_back(launch);
    }
  };
  const int64_t most = (2 * stages + 1) * tileK * countSplits(kernel);
  add(0, tileQ, 1, 2, 0, {Values::Zero});
  add(tileK + 1, tileQ, 3, 2, 2, {Values::Zero, Values::Most});
  add(most, std::max(tileQ, most), 1, 2, 2, {Values::Zero, Values::Most});
  if (program.loads)
    add(2 * most, 2 * tileQ, 2, 1, 2, {Values::Mixed, Values::Few, Values::FewOthers, Values::FewMore});
  if (program.several)
    add(0, tileQ, 3, 2, 2, {Values::Zero});
  return launches;
}

LogicalResult attune::verifyRoleOrder(sched::KernelOp kernel) {
  const Program program = Program::of(kernel);
  Machine machine(program);
  for (Launch launch : launchesOf(kernel, program)) {
    launch.tiles = countTiles(kernel, launch);
    Record record;
    if (launch.blocks == 0)
      launch.blocks = launch.tiles;
    // Where a block has one tile of work, the first, a middle and the last one.
    SmallVector<int64_t> blocks{0, launch.tiles / 2, launch.tiles - 1};
    if (program.several)
      blocks = llvm::to_vector(llvm::seq(launch.blocks));
    blocks.erase(llvm::unique(blocks), blocks.end());
    for (int64_t block : launch.tiles ? blocks : SmallVector<int64_t>()) {
      launch.block = block;
      if (failed(machine.run(launch, record)))
        return failure();
    }
    if (record.complete && failed(verifyTaken(record, launch)))
      return failure();
  }
  return success();
}
