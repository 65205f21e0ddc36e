//===- PipelineStages.cpp - Move the ops of loops into their order and stage ------------===//
//
// Materialises `sched.at` and `sched.async` of the ops of loops: the order within an iteration, stage 0 of the first
// tile before the loop, the later stages of the last tile after the loop, waits for products, and the barriers of
// ping-pong regions. The pass takes no decision: earlier passes, or the author of hand-written IR, chose the
// attributes.
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

/// Whether an op of the loop has a `sched.at`: a stage, an order or a ping-pong region.
bool isPlaced(ForTilesOp loop) {
  return llvm::any_of(loop.getBody().front(), [](Operation &op) { return bool(sched::placeOf(&op)); });
}

bool startsProducts(ForTilesOp loop) {
  return llvm::any_of(loop.getBody().front(), [](Operation &op) { return op.hasAttr(sched::asyncAttr); });
}

/// The steady-state loop, whose iterations run ops of all stages. `around` is the number of loops that enclose it. Each
/// expansion step adds one enclosing loop, whose body runs at most once, for the tile that the step peels off.
struct Steady {
  ForTilesOp loop;
  int64_t around;
};

FailureOr<Steady> inOrder(ForTilesOp loop) {
  for (int64_t expanded = 0;; ++expanded) {
    pipeline::LoopStages stages(loop, expanded);
    if (!expanded && failed(stages.verify()))
      return failure();
    if (!stages.overlapsTiles()) {
      pipeline::reorder(loop, stages);
      return Steady{loop, 0};
    }
    FailureOr<ForTilesOp> inner = pipeline::expandStages(loop, stages);
    if (failed(inner))
      return failure();
    if (!stages.overlapsMore())
      return Steady{*inner, expanded + 1};
    loop = *inner;
  }
}

LogicalResult pipeline(sched::RoleOp role, ForTilesOp loop) {
  if (!isPlaced(loop) && !startsProducts(loop)) {
    pipeline::synchronizeForExchanges(role, loop.getBody().front());
    return success();
  }
  FailureOr<Steady> steady = inOrder(loop);
  if (failed(steady))
    return failure();
  Block *block = &steady->loop.getBody().front();
  for (int64_t i = 0; i <= steady->around; ++i) {
    pipeline::waitForProducts(*block);
    pipeline::synchronizeForExchanges(role, *block);
    block = block->getParentOp()->getBlock();
  }
  pipeline::addPingPongBarriers(role, steady->loop);
  return success();
}

/// Pipelines a loop of a kernel whose warps all copy. Before the epilogue (the later stages of the last tiles), all
/// warps wait for the copies and synchronise.
LogicalResult pipeline(ForTilesOp loop) {
  if (!isPlaced(loop))
    return success();
  FailureOr<Steady> steady = inOrder(loop);
  if (failed(steady))
    return failure();
  Operation *inner = steady->loop;
  for (int64_t i = 0; i < steady->around; ++i) {
    OpBuilder builder(inner->getContext());
    builder.setInsertionPointAfter(inner);
    sched::WaitCopiesOp::create(builder, inner->getLoc(), 0);
    sched::BarrierOp::create(builder, inner->getLoc());
    inner = inner->getParentOp();
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

  /// Pipelines the loops of a kernel without roles, where all warps run the same program.
  static LogicalResult pipelineAlike(tile::KernelOp kernel) {
    auto hasPingPongLoops = [](Operation *op) {
      return op->hasAttr(sched::asyncAttr) || (sched::placeOf(op) && sched::placeOf(op).getPingPong());
    };
    if (holds<Operation *>(kernel, hasPingPongLoops))
      tile::remark(kernel, "sched.async and ping_pong have no effect: they are for kernels with roles");
    SmallVector<ForTilesOp> loops;
    kernel.walk([&](ForTilesOp loop) { loops.push_back(loop); });
    return success(llvm::all_of(loops, [](ForTilesOp loop) { return succeeded(pipeline(loop)); }));
  }
};

} // namespace
