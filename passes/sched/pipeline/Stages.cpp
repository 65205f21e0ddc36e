#include "passes/sched/pipeline/Stages.h"

using namespace mlir;

namespace attune::pipeline {

using sched::ForTilesOp;

LoopStages::LoopStages(ForTilesOp loop) : loop(loop), dependences(loop.getBody().front()) {
  Block &body = loop.getBody().front();
  int64_t following = std::numeric_limits<int64_t>::max();
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    auto at = op.getAttrOfType<sched::AtAttr>(sched::atAttr);
    placed |= bool(at);
    if (at)
      following = at.getOrder();
    places[&op] = {at ? at.getStage() : 0, following};
    overlaps |= at && at.getStage() > 0;
  }
  for (Operation &op : body.without_terminator())
    for (Value value : BlockDependences::readBy(&op))
      readBy[stageOf(&op)].insert(value);
}

int64_t LoopStages::stageOf(Value value) const {
  Operation *producer = value.getDefiningOp();
  return producer && producer->getBlock() == &loop.getBody().front() ? stageOf(producer) : 0;
}

Value LoopStages::nextOf(BlockArgument carried) { return loop.getNext().getValues()[carried.getArgNumber()]; }

SmallVector<Operation *> LoopStages::sourcesInPass(Operation *op) const {
  SmallVector<Operation *> sources;
  for (Operation *source : dependences.sourcesOf(op))
    if (stageOf(source) == stageOf(op))
      sources.push_back(source);
  if (stageOf(op) == 0)
    for (Value value : BlockDependences::readBy(op))
      if (auto carried = dyn_cast<BlockArgument>(value); carried && carried.getOwner() == op->getBlock()) {
        Value next = loop.getNext().getValues()[carried.getArgNumber()];
        if (stageOf(next) == 1)
          sources.push_back(next.getDefiningOp());
      }
  return sources;
}

LogicalResult LoopStages::verify() {
  for (Operation &op : loop.getBody().front().without_terminator())
    for (Operation *source : dependences.sourcesOf(&op))
      if (stageOf(source) > stageOf(&op)) {
        op.emitError("is of stage 0 and reads what is of stage 1, which is computed one tile later; give it stage 1")
                .attachNote(source->getLoc())
            << "what it reads";
        return failure();
      }
  return success();
}

SmallVector<Operation *> LoopStages::inOrder(std::optional<int64_t> stage) {
  SmallVector<Operation *> written, ordered;
  for (Operation &op : loop.getBody().front().without_terminator())
    if (!stage || stageOf(&op) == *stage)
      written.push_back(&op);
  llvm::sort(written, [&](Operation *a, Operation *b) {
    const int64_t first = places[a].order, second = places[b].order;
    return first != second ? first < second : a->isBeforeInBlock(b);
  });
  llvm::SmallPtrSet<Operation *, 32> done;
  auto put = [&](auto &put, Operation *op) -> void {
    if ((stage && stageOf(op) != *stage) || !done.insert(op).second)
      return;
    SmallVector<Operation *> sources = sourcesInPass(op);
    llvm::sort(sources, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *source : sources)
      put(put, source);
    ordered.push_back(op);
  };
  for (Operation *op : written)
    put(put, op);
  return ordered;
}

void reorder(ForTilesOp loop, LoopStages &stages) {
  Operation *end = loop.getNext();
  for (Operation *op : stages.inOrder())
    op->moveBefore(end);
}

} // namespace attune::pipeline
