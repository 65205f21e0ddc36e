//===- DecodeControl.cpp - Translating control flow to jumps --------------===//

#include "codegen/sim/Decoder.h"

#include "codegen/sim/Apply.h"
#include "codegen/sim/Numbers.h"

using namespace mlir;
using namespace attune;
using namespace attune::sim;

void Decoder::block(Block &block) {
  for (Operation &each : block) {
    if (error)
      return;
    op(&each);
  }
}

void Decoder::moveAll(Operation *op, ValueRange from, ValueRange to) {
  // All moves take effect at once, like the assignment of block arguments. A source that is also a target is copied
  // first, before any target is written.
  SmallVector<Slot> sources;
  for (auto [source, target] : llvm::zip(from, to)) {
    Slot at = slot(source);
    if (source != target && llvm::is_contained(to, source)) {
      Slot copy = allocate(source.getType(), at.varies);
      Step &step = emit(op, sim::move);
      step.in[0] = at;
      step.out[0] = copy;
      step.number[0] = widthOf(source.getType());
      at = copy;
    }
    sources.push_back(at);
  }
  for (auto [i, target] : llvm::enumerate(to)) {
    if (from[i] == target)
      continue;
    Step &step = emit(op, sim::move);
    step.in[0] = sources[i];
    step.out[0] = slot(target);
    step.number[0] = widthOf(target.getType());
  }
}

void Decoder::branch(scf::IfOp op) {
  Value condition = op.getCondition();
  bool byLane = varies(condition);
  size_t test = program->steps.size();
  emit(op, byLane ? sim::maskIf : sim::skipUnless, condition);
  block(*op.thenBlock());
  if (op.getNumResults())
    moveAll(op, op.thenYield()->getOperands(), op.getResults());
  size_t middle = program->steps.size();
  bool hasElse = op.elseBlock() && (!llvm::hasSingleElement(*op.elseBlock()) || op.getNumResults());
  if (hasElse) {
    if (byLane)
      emit(op, sim::maskElse, condition);
    else
      emit(op, sim::jump);
    program->steps[test].target = uint32_t(byLane ? middle : middle + 1);
    block(*op.elseBlock());
    if (op.getNumResults())
      moveAll(op, op.elseYield()->getOperands(), op.getResults());
    program->steps[middle].target = uint32_t(program->steps.size());
  } else {
    program->steps[test].target = uint32_t(middle);
  }
  if (byLane)
    emit(op, sim::maskEnd);
}

void Decoder::loop(Operation *op, ValueRange inits, ValueRange arguments, Value bound, Block &body,
                   llvm::function_ref<void()> advance) {
  bool byLane = varies(arguments[0]) || varies(bound);
  moveAll(op, inits, arguments);
  if (byLane)
    emit(op, sim::maskBegin);
  size_t head = program->steps.size();
  emit(op, sim::loopTest, {arguments[0], bound});
  block(body);
  if (error)
    return;
  advance();
  emit(op, sim::jump).target = uint32_t(head);
  program->steps[head].target = uint32_t(program->steps.size());
  if (byLane)
    emit(op, sim::maskEnd);
}

void Decoder::role(sched::RoleOp op) {
  int firstWarp = 0;
  if (!program->roles.empty())
    firstWarp = program->roles.back().firstWarp + program->roles.back().warps;
  size_t begin = program->steps.size();
  emit(op, sim::roleBegin, {}, {int(program->roles.size())});
  program->roles.push_back({op.getName().str(), firstWarp, int(op.getWarps())});
  block(op.getBody().front());
  emit(op, sim::roleEnd);
  program->steps[begin].target = uint32_t(program->steps.size());
}

void Decoder::work(sched::ForWorkOp op) {
  program->hasWork = true;
  if (op.getOrder() == sched::WorkOrder::Grid) {
    emit(op, sim::blockId).out[0] = slot(op.getNumber());
    return block(op.getBody().front());
  }
  const bool received = op.getOrder() == sched::WorkOrder::Received;
  program->persistent |= !received;
  program->claims |= !op.getBody().getOps<sched::ClaimWorkOp>().empty();
  // Sets the outputs of a step that starts or continues the loop: the index of the tile of work and the count of
  // completed tiles. A loop of order `received` has no index; its step returns the count in output 0. All outputs are
  // uniform, even where the index comes from a shuffle.
  auto take = [&](Step &step, size_t target) {
    step.out[0] = slot(received ? op.getCount() : op.getNumber());
    step.out[1] = slot(op.getCount());
    step.target = uint32_t(target);
  };
  moveAll(op, op.getInits(), op.getCarried());
  size_t begin = program->steps.size();
  SmallVector<Value> from;
  if (!received)
    from = {op.getFirst(), op.getBound()};
  take(emit(op, received ? sim::receiveBegin : sim::workBegin, from), begin + 1);
  block(op.getBody().front());
  if (error)
    return;
  // The index of the next tile of work may be a carried value of the loop, so the index is copied before the carried
  // values are overwritten.
  Value next = op.getNext().getValues().front();
  const Slot following = allocate(next.getType(), varies(next));
  Step &keep = emit(op, sim::move, next);
  keep.out[0] = following;
  keep.number[0] = widthOf(next.getType());
  moveAll(op, op.getNextCarried(), op.getCarried());
  from = {next};
  if (!received)
    from.push_back(op.getBound());
  Step &step = emit(op, received ? sim::receiveNext : sim::workNext, from);
  step.in[0] = following;
  take(step, begin + 1);
  if (!received)
    program->steps[begin].target = uint32_t(program->steps.size());
}

void Decoder::count(scf::ForOp op) {
  if (!op.getInductionVar().getType().isInteger(32))
    return fail(opIndex(op), "counts in another type than i32");
  SmallVector<Value> inits{op.getLowerBound()}, arguments{op.getInductionVar()};
  llvm::append_range(inits, op.getInitArgs());
  llvm::append_range(arguments, op.getRegionIterArgs());
  for (auto [argument, result] : llvm::zip(op.getRegionIterArgs(), op.getResults()))
    slots[result] = slot(argument);
  return loop(op, inits, arguments, op.getUpperBound(), *op.getBody(), [&] {
    moveAll(op, op.getYieldedValues(), op.getRegionIterArgs());
    Step &step = emit(op, &apply<[](int32_t i, int32_t by) { return add(i, by); }, int32_t, int32_t>,
                      {op.getInductionVar(), op.getStep()});
    step.out[0] = slot(op.getInductionVar());
  });
}

void Decoder::tiles(sched::ForTilesOp op) {
  if (!op.getTiles().empty())
    return fail(opIndex(op), "carries tiles; the simulator runs what the scheduling passes leave at their end");
  if (op.getKeeps())
    for (auto [argument, result] : llvm::zip(op.getBody().getArguments(), op.getKept()))
      slots[result] = slot(argument);
  return loop(op, op.getInits(), op.getBody().getArguments(), op.getBound(), op.getBody().front(),
              [&] { moveAll(op, op.getNext().getValues(), op.getBody().getArguments()); });
}
