//===- ScheduleBlocks.cpp - Compute the position of a block's tile from the block index ------===//
//
// The pass is for the CPU target, which runs a tile.kernel as it is, with one tile of work per block. In scheduled
// kernels `tile-to-sched` and `tile-specialize-warps` write the same arithmetic.
//
// Tiles of one head (one point of all grid axes but the last) are numbered from the last tile to the first: CPU threads
// take blocks in the order of their numbers, and under a causal mask the last tile takes longest.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/sched/WorkOrder.h"

namespace attune {
#define GEN_PASS_DEF_SCHEDULEBLOCKS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct ScheduleBlocks : attune::impl::ScheduleBlocksBase<ScheduleBlocks> {
  using ScheduleBlocksBase::ScheduleBlocksBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      SmallVector<tile::BlockIndexOp> indices;
      kernel.walk([&](tile::BlockIndexOp index) { indices.push_back(index); });
      if (indices.empty())
        continue;
      auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
      WorkOrder order(builder, kernel.getLoc(), kernel.getGrid(), {.longest = sched::LongTiles::Last});
      const SmallVector<Value> place = order.place(order.first());
      for (tile::BlockIndexOp index : indices) {
        index.getResult().replaceAllUsesWith(place[index.getPosition()]);
        index.erase();
      }
    }
  }
};

} // namespace
