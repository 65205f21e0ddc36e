//===- AccessOrder.cpp - Verifies the order of accesses to shared memory -----===//

#include "passes/analysis/synchronization/AccessOrder.h"

#include "passes/analysis/synchronization/Events.h"
#include "passes/analysis/synchronization/Machine.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

/// The number of tiles of work (points of the kernel's grid) for the extents of `launch`.
static int64_t tilesOfGrid(sched::KernelOp kernel, const Launch &launch) {
  int64_t tiles = 1;
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>()) {
    int64_t extent = axis.isFixed() ? axis.getSize() : launch.extentOf(axis.getName());
    tiles *= llvm::divideCeil(extent, axis.getBy());
  }
  return tiles;
}

/// Checks that, over all thread blocks of a launch, each loop over tiles of work takes every tile of work exactly once.
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

/// An upper bound of the number of thread blocks over which a key loop is split (split-KV): the blocks along grid axes
/// of fixed size.
static int64_t countSplits(sched::KernelOp kernel) {
  int64_t shares = 1;
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
    if (axis.isFixed())
      shares *= llvm::divideCeil(axis.getSize(), axis.getBy());
  return shares;
}

/// The axes whose extents bound loops over tiles, other than q, k, b, h, hkv and derived axes.
static SmallVector<StringRef> iteratedAxes(sched::KernelOp kernel) {
  SmallVector<Value> open;
  kernel.walk([&](sched::ForTilesOp loop) { open.push_back(loop.getBound()); });
  llvm::SetVector<StringRef> axes;
  llvm::SmallDenseSet<Operation *> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto extent = dyn_cast<tile::AxisExtentOp>(op))
      axes.insert(extent.getAxis());
    if (isa<arith::ArithDialect>(op->getDialect()))
      llvm::append_range(open, op->getOperands());
  }
  for (tile::DerivedAxisAttr axis : tile::derivedAxes(kernel))
    axes.remove(axis.getName());
  return llvm::filter_to_vector(axes, [](StringRef axis) {
    return !llvm::is_contained({"q", "k", "b", "h", "hkv"}, axis) && !axis.contains('.');
  });
}

/// Whether tiles of work are tiles of keys, and loops go over tiles of queries.
static bool isOfKeys(sched::KernelOp kernel) {
  return llvm::any_of(kernel.getGrid().getAsRange<tile::AxisAttr>(),
                      [](tile::AxisAttr axis) { return axis.getName() == "k"; });
}

/// The launches to check: without keys, with one key more than a tile, and with enough tiles of keys for each split to
/// fill all stages of its rings twice and one stage a third time. The last tile of queries has one row, so that some
/// warpgroups have no rows. For persistent blocks the first launch has one block for each tile of work, and the other
/// launches have two blocks. One of the launches with two blocks has no keys: with keys, the waits on the K and V rings
/// may order successive tiles of work and so hide that another synchronisation is missing. Where a tile of work has keys,
/// one launch has five tiles of work in two blocks, with three tiles of queries each, so that rings of two stages begin
/// with either. Where full and partial tiles have code of their own, one launch has a last tile of work with one
/// key, whose tiles are all partial.
static SmallVector<Launch> launchesOf(sched::KernelOp kernel, const Program &program) {
  using Values = Launch::Values;
  const tile::PlanAttr plan = kernel.getPlan();
  const int64_t tileQ = std::max<int64_t>(plan.getSize("q"), 16), tileK = std::max<int64_t>(plan.getSize("k"), 16),
                stages = sched::deepestRing(kernel);
  const SmallVector<StringRef> iterated = iteratedAxes(kernel);
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
      // The simulated extents of other axes than k are chosen so that loops over them have as many tiles as the loop
      // over keys.
      for (StringRef axis : iterated)
        launch.others.push_back({axis, llvm::divideCeil(keys, tileK) * std::max<int64_t>(plan.getSize(axis), 1)});
      launches.push_back(launch);
    }
  };
  const int64_t most = (2 * stages + 1) * tileK * countSplits(kernel);
  add(0, tileQ, 1, 2, 0, {Values::Zero});
  add(tileK + 1, tileQ, 3, 2, 2, {Values::Zero, Values::Most});
  add(most, std::max(tileQ, most), 1, 2, 2, {Values::Zero, Values::Most});
  if (program.branches)
    add(most + tileK + 1, 2 * stages * tileQ, 1, 1, 2, {Values::Zero});
  if (program.loads)
    add(2 * most, 2 * tileQ, 2, 1, 2, {Values::Mixed});
  // With few visible tiles of keys, one role might wait for a tile that another role skips.
  if (program.loads && !program.roles.empty())
    add(2 * most, 2 * tileQ, 2, 1, 2, {Values::Few, Values::FewOthers, Values::FewMore});
  if (program.several)
    add(0, tileQ, 3, 2, 2, {Values::Zero});
  if (program.several && isOfKeys(kernel))
    add(5 * tileK, 2 * tileQ, 1, 1, 2, {Values::Zero});
  return launches;
}

/// Checks that each access names its buffer: the result of a sched.shared.
static LogicalResult verifyBuffers(sched::KernelOp kernel) {
  const WalkResult result = kernel.getBody().walk([](Operation *op) {
    Value shared = sharedOf(op);
    if (!shared || shared.getDefiningOp<sched::SharedOp>())
      return WalkResult::advance();
    op->emitOpError("accesses a shared tile that is not the result of sched.shared");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult attune::verifyAccessOrder(sched::KernelOp kernel) {
  if (failed(verifyBuffers(kernel)))
    return failure();
  const Program program = Program::of(kernel);
  Machine machine(program);
  for (Launch launch : launchesOf(kernel, program)) {
    launch.tiles = tilesOfGrid(kernel, launch);
    Record record;
    // A launch has at most as many persistent blocks as tiles of work.
    launch.blocks = launch.blocks ? std::min(launch.blocks, launch.tiles) : launch.tiles;
    // If each thread block has one tile of work, only the first, a middle and the last block are simulated.
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
