//===- Work.cpp - A role's loop over tiles of work, and messages about them ---===//

#include "passes/sched/roles/WarpSpecializer.h"

namespace attune::roles {

//===----------------------------------------------------------------------===//
// Tiles of work
//===----------------------------------------------------------------------===//

size_t WarpSpecializer::carriedCount(size_t end) const {
  size_t count = 0;
  for (const auto &loop : ArrayRef(loops).take_front(end))
    count += loop->carriedCount();
  return count;
}

ValueRange WarpSpecializer::carriedFor(sched::ForWorkOp work, size_t i) {
  if (!persistent)
    return {};
  return work.getCarried().slice(carriedCount(i), loops[i]->carriedCount());
}

void WarpSpecializer::nameWork(sched::ForWorkOp work, ArrayRef<StringRef> first) {
  SmallVector<StringRef> names(first);
  while (names.size() < first.size() + carriedCount(loops.size()))
    names.append({"first_stage", "first_phase"});
  work->setAttr(tile::namesAttr, builder.getStrArrayAttr(names));
}

WorkOrder WarpSpecializer::workOrder(WorkOrder::Assignment assignment) {
  bool windows = false, shared = true;
  for (const auto &loop : loops)
    if (loop->hasWindows())
      windows = true, shared &= loop->sharesWindows();
  return {builder,
          loc,
          kernel.getGrid(),
          {.assignment = assignment,
           .longest = sched::longTilesOf(kernel),
           .acrossFirstAxis = windows && shared && assignment != WorkOrder::Assignment::Claims,
           .rowsTogether = rowsInHalfOfLevel2(kernel.getOperandsAttr(), kernel.getGrid())}};
}

WarpSpecializer::Work WarpSpecializer::numberedWork() {
  WorkOrder numbers = workOrder(assignment());
  if (!persistent)
    return {sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Grid), numbers};
  numbers.prepare();
  Value first = numbers.first();
  auto loop = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Persistent, first, numbers.total(), ringStart());
  nameWork(loop, {"number", "count"});
  return {loop, numbers};
}

WarpSpecializer::Work WarpSpecializer::receivedWork() {
  auto loop = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Received, Value(), Value(), ringStart());
  nameWork(loop, {"count"});
  return {loop, workOrder(WorkOrder::Assignment::Once)};
}

Position WarpSpecializer::queryPosition(sched::ForWorkOp work) {
  if (!persistent || (once.empty() && !tasks))
    return {i32(0), i32(0)};
  Value count = work.getCount(), stages = i32(taskStages());
  Value walks = arith::DivUIOp::create(builder, loc, count, stages);
  return {tile::named(arith::RemUIOp::create(builder, loc, count, stages), "q_stage"),
          tile::named(arith::AndIOp::create(builder, loc, walks, i32(1)), "q_phase")};
}

void WarpSpecializer::nextWork(sched::ForWorkOp work, ValueRange positions, Value following, bool wholeWarp) {
  if (!persistent)
    return;
  builder.setInsertionPointToEnd(&work.getBody().front());
  SmallVector<Value> next{following};
  for (Value position : positions)
    next.push_back(wholeWarp ? sched::UniformOp::create(builder, loc, position.getType(), position).getResult()
                             : position);
  sched::NextOp::create(builder, loc, next);
}

Value WarpSpecializer::claimWork() {
  const Type view = tile::findOperand(kernel, tile::workCounter).getViewType();
  Value counter = tile::named(tile::ParamOp::create(builder, loc, view, tile::workCounter), tile::workCounter);
  return tile::named(sched::ClaimWorkOp::create(builder, loc, builder.getI32Type(), counter), "claimed");
}

//===----------------------------------------------------------------------===//
// Messages about tiles of work
//===----------------------------------------------------------------------===//

void WarpSpecializer::declareTasks(int64_t followers) {
  if (!searches() && !claims && (!persistent || once.empty()))
    return;
  int64_t fields = taskPlaceFields();
  for (const auto &loop : loops)
    fields += (loop->searches() ? 1 : 0) + loop->searchedParts();
  tasks = declareMessages("tasks", taskStages(), fields);
  if (!once.empty())
    taskBarriers = once.front().barriers;
  else
    taskBarriers = sched::RingOp::create(builder, loc, sched::RingType::get(builder.getContext(), taskStages()),
                                         "task_barriers", 0, /*filledBy=*/1, /*emptiedBy=*/warps + followers);
}

WarpSpecializer::Task WarpSpecializer::receiveTask(Position query, ArrayRef<Operation *> ops,
                                                   function_ref<void(Value, Value)> tell, bool begins) {
  sched::WaitOp::create(builder, loc, taskBarriers, query.stage, query.phase);
  unsigned fields = unsigned(taskPlaceFields());
  const unsigned place = fields;
  for (const auto &loop : loops)
    fields += (loop->searches() ? 1 : 0) + (begins ? unsigned(loop->searchedParts()) : 0);
  auto message =
      sched::ReceiveOp::create(builder, loc, SmallVector<Type>(fields, builder.getI32Type()), tasks, query.stage);
  Task task;
  unsigned next = place;
  for (const auto &loop : loops)
    if (loop->searches())
      task.firsts.push_back(field(message, next++, "first_tile"));
  llvm::append_range(task.begins, message.getResults().drop_front(next));
  if (!persistent)
    return task;
  for (Operation *op : ops)
    if (auto index = dyn_cast<tile::BlockIndexOp>(op))
      tell(index->getResult(0), field(message, index.getPosition(), tile::nameOf(index.getResult())));
  const unsigned more = place - 1 - unsigned(told.size());
  task.more = message.getResult(more);
  for (auto [i, op] : llvm::enumerate(told))
    tell(op->getResult(0), field(message, more + 1 + unsigned(i), tile::nameOf(op->getResult(0))));
  return task;
}

void WarpSpecializer::releaseTask(Position query) {
  if (!tasks || !persistent || !once.empty())
    return;
  sched::SyncLanesOp::create(builder, loc);
  sched::ReleaseOp::create(builder, loc, taskBarriers, query.stage);
}

} // namespace attune::roles
