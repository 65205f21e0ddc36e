//===- PipelineStages.cpp - Loops over tiles run as their ops say ------------===//
//
// Materialises what `sched.at` and `sched.async` say of the ops of loops: the order of a pass, the first tile in
// front of the loop and the last one's rest behind it, waits for products, turns. It decides nothing: the passes before,
// or a hand in the text, have.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "passes/Passes.h"
#include "passes/sched/pipeline/Stages.h"

namespace attune {
#define GEN_PASS_DEF_PIPELINESTAGES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::ForTilesOp;

namespace {

bool startsProducts(ForTilesOp loop) {
  return llvm::any_of(loop.getBody().front(), [](Operation &op) { return op.hasAttr(sched::asyncAttr); });
}

/// The loop with its ops in their order: where they are of two stages, the one over the tiles after the first.
FailureOr<ForTilesOp> inOrder(ForTilesOp loop, pipeline::LoopStages &stages) {
  if (failed(stages.verify()))
    return failure();
  if (stages.overlapsTiles())
    return pipeline::expandStages(loop, stages);
  pipeline::reorder(loop, stages);
  return loop;
}

LogicalResult pipeline(sched::RoleOp role, ForTilesOp loop) {
  pipeline::LoopStages stages(loop);
  if (!stages.isPlaced() && !startsProducts(loop)) {
    pipeline::meetForExchanges(role, loop.getBody().front());
    return success();
  }
  FailureOr<ForTilesOp> steady = inOrder(loop, stages);
  if (failed(steady))
    return failure();
  if (stages.overlapsTiles()) {
    pipeline::waitForProducts(*(*steady)->getBlock());
    pipeline::meetForExchanges(role, *(*steady)->getBlock());
  }
  pipeline::waitForProducts(steady->getBody().front());
  pipeline::meetForExchanges(role, steady->getBody().front());
  pipeline::takeTurns(role, *steady);
  return success();
}

/// Of a kernel whose warps all copy: what stage 1 reads of the last tile is awaited by all before it.
LogicalResult pipeline(ForTilesOp loop) {
  pipeline::LoopStages stages(loop);
  if (!stages.isPlaced())
    return success();
  FailureOr<ForTilesOp> steady = inOrder(loop, stages);
  if (failed(steady))
    return failure();
  if (stages.overlapsTiles()) {
    OpBuilder builder(steady->getContext());
    builder.setInsertionPointAfter(*steady);
    sched::WaitCopiesOp::create(builder, steady->getLoc(), 0);
    sched::BarrierOp::create(builder, steady->getLoc());
  }
  return success();
}

struct PipelineStages : attune::impl::PipelineStagesBase<PipelineStages> {
  using PipelineStagesBase::PipelineStagesBase;

  void runOnOperation() override {
    SmallVector<std::pair<sched::RoleOp, ForTilesOp>> loops;
    getOperation().walk([&](sched::ForWorkOp work) {
      if (auto role = work->getParentOfType<sched::RoleOp>())
        for (auto loop : work.getBody().getOps<ForTilesOp>())
          loops.push_back({role, loop});
    });
    for (auto [role, loop] : loops)
      if (failed(pipeline(role, loop)))
        return signalPassFailure();
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (kernel.getBody().getOps<sched::RoleOp>().empty() && failed(pipelineAlike(kernel)))
        return signalPassFailure();
    getOperation().walk([](Operation *op) { op->removeAttr(sched::atAttr); });
  }

  /// Where all warps do the same.
  static LogicalResult pipelineAlike(tile::KernelOp kernel) {
    auto takesTurns = [](Operation *op) {
      return op->hasAttr(sched::asyncAttr) || (sched::placeOf(op) && sched::placeOf(op).getTurn());
    };
    if (holds<Operation *>(kernel, takesTurns))
      tile::remark(kernel, "what sched.async says, and turns, are not followed: they are for kernels with roles");
    SmallVector<ForTilesOp> loops;
    kernel.walk([&](ForTilesOp loop) { loops.push_back(loop); });
    return success(llvm::all_of(loops, [](ForTilesOp loop) { return succeeded(pipeline(loop)); }));
  }
};

} // namespace
