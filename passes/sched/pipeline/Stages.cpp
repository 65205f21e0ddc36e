//===- Stages.cpp - Stage and order of the ops of a loop over tiles -----------===//

#include "passes/sched/pipeline/Stages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace attune::pipeline {

using sched::ForTilesOp;

LoopStages::LoopStages(ForTilesOp loop, int64_t expanded)
    : loop(loop), dependences(loop.getBody().front()), expanded(expanded) {
  Block &body = loop.getBody().front();
  int64_t following = std::numeric_limits<int64_t>::max();
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    auto at = sched::placeOf(&op);
    if (at)
      following = at.getOrder();
    places[&op] = {at ? at.getStage() : 0, following};
    last = std::max(last, places[&op].stage);
  }
  placeReleases();
  for (Operation &op : body.without_terminator())
    for (Value value : BlockDependences::readBy(&op)) {
      readBy[stageOf(&op)].insert(value);
      auto slot = value.getDefiningOp<sched::SlotOp>();
      if (slot && slot->getBlock() == &body && stageOf(&op) > stageOf(slot.getOperation())) {
        repeated.insert(slot.getOperation());
        readBy[1].insert(slot.getStage());
      }
    }
  repeatScalars();
  findWaits();
}

/// Whether `op` divides by a number that is known only at run time, which takes more instructions than a loop has to
/// carry the result.
static bool isDivision(Operation *op) {
  return isa<arith::DivUIOp, arith::DivSIOp, arith::CeilDivUIOp, arith::CeilDivSIOp, arith::FloorDivSIOp,
             arith::RemUIOp, arith::RemSIOp>(op) &&
         op->getResult(0).getType().isInteger(32) && !matchPattern(op->getOperand(1), m_Constant());
}

void LoopStages::repeatScalars() {
  for (Operation &op : llvm::reverse(loop.getBody().front().without_terminator())) {
    const bool computes = op.getNumRegions() == 0 && isMemoryEffectFree(&op) && !isa<sched::SlotOp>(op) &&
                          llvm::none_of(op.getResultTypes(), llvm::IsaPred<tile::TileType>);
    if (!computes || isDivision(&op) || stageOf(&op) > 0 ||
        llvm::none_of(op.getResults(), [&](Value value) { return reads(1, value); }))
      continue;
    repeated.insert(&op);
    readBy[1].insert(op.operand_begin(), op.operand_end());
  }
}

/// The wait for the ring stage that a message comes with. The wait precedes the receive in the same IR block.
static sched::WaitOp waitFor(sched::ReceiveOp receive) {
  for (Operation *op = receive->getPrevNode(); op; op = op->getPrevNode())
    if (auto wait = dyn_cast<sched::WaitOp>(op); wait && wait.getStage() == receive.getStage())
      return wait;
  return {};
}

void LoopStages::placeReleases() {
  Block &body = loop.getBody().front();
  for (auto receive : body.getOps<sched::ReceiveOp>())
    if (sched::WaitOp wait = waitFor(receive)) {
      waits[receive] = wait;
      for (auto release : body.getOps<sched::ReleaseOp>())
        if (release.getRing() == wait.getRing())
          places[release] = std::max(places[release], places[receive]);
    }
  for (auto release : body.getOps<sched::ReleaseOp>()) {
    Place &place = places[release];
    for (Value tile : release.getReads())
      for (Operation *user : tile.getUsers())
        if (Operation *reader = body.findAncestorOpInBlock(*user))
          place = std::max(place, places.lookup(reader));
    if (auto meeting = dyn_cast_or_null<sched::SyncLanesOp>(release->getPrevNode()))
      places[meeting] = place;
  }
}

void LoopStages::findWaits() {
  Block &body = loop.getBody().front();
  for (auto release : body.getOps<sched::ReleaseOp>())
    for (Value tile : release.getReads()) {
      if (auto scale = tile.getDefiningOp<tile::ScaleOp>())
        tile = scale.getTile();
      auto slot = tile.getDefiningOp<sched::SlotOp>();
      if (!slot || slot->getBlock() != &body)
        continue;
      for (auto wait : body.getOps<sched::WaitOp>())
        if (wait.getRing() == release.getRing() && wait.getStage() == slot.getStage())
          waits[slot] = wait;
    }
}

SmallVector<Operation *> LoopStages::sourcesOf(Operation *op) const {
  SmallVector<Operation *> sources(dependences.sourcesOf(op));
  if (Operation *wait = waits.lookup(op))
    sources.push_back(wait);
  return sources;
}

sched::AtAttr LoopStages::placeAfter(Step step) const {
  const Place place = places.lookup(step.op);
  auto at = sched::placeOf(step.op);
  return sched::AtAttr::get(loop.getContext(), step.stage && place.stage ? place.stage - 1 : 0, place.order,
                            at ? at.getPingPong() : StringAttr());
}

StringRef LoopStages::passName() const {
  static constexpr StringRef names[] = {"first", "second", "third", "fourth", "fifth", "sixth", "seventh"};
  static_assert(std::size(names) == sched::AtAttr::lastStage);
  return names[expanded];
}

int64_t LoopStages::writtenStageOfReader(Value value) const {
  int64_t first = last + expanded;
  for (Operation *user : value.getUsers()) {
    Operation *reader = loop.getBody().front().findAncestorOpInBlock(*user);
    if (reader && stageOf(reader) > 0)
      first = std::min(first, places.lookup(reader).stage + expanded);
    else if (repeated.contains(reader))
      for (Value result : reader->getResults())
        first = std::min(first, writtenStageOfReader(result));
  }
  return first;
}

bool LoopStages::crosses(Value value) const { return reads(1, value) && !repeated.contains(value.getDefiningOp()); }

int64_t LoopStages::stageOf(Value value) const {
  Operation *producer = value.getDefiningOp();
  return producer && producer->getBlock() == &loop.getBody().front() ? stageOf(producer) : 0;
}

Value LoopStages::nextOf(BlockArgument carried) const { return loop.getNext().getValues()[carried.getArgNumber()]; }

SmallVector<Step> LoopStages::sourcesInPass(Step step) const {
  SmallVector<Step> sources;
  for (Operation *source : sourcesOf(step.op))
    if (stageOf(source) == step.stage || (step.stage == 1 && repeated.contains(source)))
      sources.push_back({source, step.stage});
  if (step.stage == 0)
    for (Value value : BlockDependences::readBy(step.op))
      if (auto carried = dyn_cast<BlockArgument>(value);
          carried && carried.getOwner() == step.op->getBlock() && stageOfNext(carried) == 1)
        sources.push_back({nextOf(carried).getDefiningOp(), 1});
  llvm::sort(sources, [](Step a, Step b) { return a.op->isBeforeInBlock(b.op); });
  return sources;
}

LogicalResult LoopStages::verify() {
  auto fail = [](Operation *op, int64_t own, int64_t its, StringRef what, int64_t needed, Operation *source) {
    InFlightDiagnostic error = op->emitError();
    error << "is of stage " << own << " and reads what is of stage " << its << what << ", which is computed ";
    if (needed == own + 1)
      error << "one tile";
    else
      error << needed - own << " tiles";
    error << " later; give it stage " << needed;
    error.attachNote(source->getLoc()) << "what it reads";
    return failure();
  };
  Block &body = loop.getBody().front();
  for (Operation &op : body.without_terminator()) {
    const int64_t own = places.lookup(&op).stage;
    for (Operation *source : sourcesOf(&op))
      if (const int64_t its = places.lookup(source).stage; its > own)
        return fail(&op, own, its, "", its, source);
    for (Value value : BlockDependences::readBy(&op)) {
      auto carried = dyn_cast<BlockArgument>(value);
      Operation *source = carried && carried.getOwner() == &body ? nextOf(carried).getDefiningOp() : nullptr;
      if (!source || source->getBlock() != &body)
        continue;
      if (const int64_t its = places.lookup(source).stage; its > own + 1)
        return fail(&op, own, its, " of the tile before", its - 1, source);
    }
  }
  return success();
}

SmallVector<Step> LoopStages::inOrder(std::optional<int64_t> stage) {
  SmallVector<Operation *> written;
  for (Operation &op : loop.getBody().front().without_terminator())
    if (!stage || stageOf(&op) == *stage)
      written.push_back(&op);
  llvm::sort(written, [&](Operation *a, Operation *b) {
    const int64_t first = places[a].order, second = places[b].order;
    return first != second ? first < second : a->isBeforeInBlock(b);
  });
  SmallVector<Step> ordered;
  llvm::DenseSet<std::pair<Operation *, int64_t>> done;
  auto put = [&](auto &put, Step step) -> void {
    if ((stage && step.stage != *stage) || !done.insert({step.op, step.stage}).second)
      return;
    for (Step source : sourcesInPass(step))
      put(put, source);
    ordered.push_back(step);
  };
  for (Operation *op : written)
    put(put, {op, stageOf(op)});
  return ordered;
}

void reorder(ForTilesOp loop, LoopStages &stages) {
  Operation *end = loop.getNext();
  for (Step step : stages.inOrder())
    step.op->moveBefore(end);
}

} // namespace attune::pipeline
