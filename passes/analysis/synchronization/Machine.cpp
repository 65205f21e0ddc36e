//===- Machine.cpp - Executes the warps of one thread block, their rings and barriers ===//

#include "passes/analysis/synchronization/Machine.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

static Components componentsOf(const Program &program) {
  Components components(unsigned(program.warps));
  for (sched::RingOp ring : program.rings) {
    components.firstOfRing.push_back(components.count);
    components.count += 2 * unsigned(ring.getResult().getType().getStages());
  }
  return components;
}

int64_t Launch::extentOf(StringRef axis) const {
  for (auto [name, extent] : others)
    if (name == axis)
      return extent;
  return llvm::StringSwitch<int64_t>(axis)
      .Cases({"q", tile::rowsAxis}, queries)
      .Case("k", keys)
      .Cases({"h", "hkv"}, heads)
      .Case("b", batches)
      .Case(tile::workItemsAxis, workItems)
      .Default(1);
}

std::string Launch::describe() const {
  std::string text = "with Sq " + std::to_string(queries) + " and Sk " + std::to_string(keys) + ", in block " +
                     std::to_string(block) + " of " + std::to_string(blocks);
  return text;
}

Machine::Machine(const Program &program)
    : program(program), components(componentsOf(program)), memory(program, components) {}

void Machine::reset() {
  memory.reset();
  warps.resize(size_t(program.warps));
  for (auto [i, warp] : llvm::enumerate(warps)) {
    std::vector<int64_t> values = std::move(warp.values);
    values.assign(size_t(program.slots), 0);
    warp = Warp();
    warp.index = unsigned(i);
    warp.firstThread = int(32 * i);
    warp.values = std::move(values);
    warp.all = warp.some = Clock(components.count);
    warp.registers.resize(program.registers.size());
  }
  rings.assign(program.rings.size(), RingState());
  barriers.fill(NamedBarrier());
  messages.clear();
  for (const SharedBuffer &buffer : program.buffers)
    messages.emplace_back(size_t(buffer.stages));
  claimed.clear();
  steps = 0;
  failed = stopped = false;
}

LogicalResult Machine::run(const Launch &of, Record &into) {
  launch = of;
  record = &into;
  reset();
  for (bool any = true; any && !failed && !stopped;) {
    any = false;
    for (size_t i = 0; i < warps.size() && !failed && !stopped; ++i) {
      Warp &warp = warps[launch.backwards ? warps.size() - 1 - i : i];
      while (warp.state == Warp::State::Ready && !failed && !stopped) {
        if (advance(warp) == Go::Block)
          break;
        any = true;
      }
    }
  }
  if (failed)
    return failure();
  return stopped ? success() : finish();
}

Machine::Go Machine::advance(Warp &warp) {
  // Loop bounds that are guesses for values in memory can be huge, so a run has a maximum number of steps.
  if (++steps > maxSteps) {
    stopped = true;
    record->complete = false;
    return Go::Stop;
  }
  const Step &next = program.steps[warp.position];
  const Go go = step(warp, next);
  if (go == Go::Next)
    ++warp.position;
  return go;
}

/// Whether all 32 lanes of a warp must execute the op together. `number` is the step's: 1 for a commit by the warp.
static bool isForWarps(Action action, int64_t number) {
  return action == Action::Release || (action == Action::Commit && number == 1) ||
         (action >= Action::Barrier && action <= Action::ArriveWarps) ||
         (action >= Action::CommitCopies && action <= Action::WaitCopies) ||
         (action >= Action::Multiply && action < Action::Touch);
}

Machine::Go Machine::step(Warp &warp, const Step &step) {
  if (step.action <= Action::End)
    return control(warp, step);
  if (warp.mask != ~0u && isForWarps(step.action, step.number))
    return fail(&warp, step.op,
                "is for whole warps and stands in a branch that " + Twine(llvm::popcount(warp.mask)) +
                    " of the 32 lanes take");
  if (step.action < Action::InitRing) {
    value(warp, step);
    return Go::Next;
  }
  if (step.action < Action::Send)
    return ring(warp, step);
  return step.action < Action::Multiply ? access(warp, step) : product(warp, step);
}

//===----------------------------------------------------------------------===//
// The end of a thread block
//===----------------------------------------------------------------------===//

LogicalResult Machine::finishWarp(Warp &warp) {
  for (const auto &group : warp.products.closed)
    if (!group.empty())
      return fail(&warp, group.front().op, "starts a product that no sched.mma_wait completes"), failure();
  if (!warp.products.open.empty())
    return fail(&warp, warp.products.open.front().op,
                "starts a product that is in no group; sched.mma_commit must follow it"),
           failure();
  warp.copies.closed.push_back(warp.copies.open);
  for (const auto &group : warp.copies.closed)
    if (!group.empty())
      return fail(&warp, group.front().op, "starts a copy that no sched.wait_copies completes"), failure();
  for (auto &[lanes, groups] : warp.boxes) {
    for (const auto &group : groups.closed)
      if (!group.empty())
        return fail(&warp, group.front().op,
                    "reads shared memory until the block has ended; sched.wait_boxes must follow it"),
               failure();
    if (!groups.open.empty())
      return fail(&warp, groups.open.front().op, "is in no group; sched.commit_boxes must follow it"), failure();
  }
  return success();
}

LogicalResult Machine::finish() {
  for (const Warp &warp : warps)
    if (warp.state != Warp::State::Done)
      return reportDeadlock(), failure();
  for (Warp &warp : warps)
    if (llvm::failed(finishWarp(warp)))
      return failure();
  for (auto [r, state] : llvm::enumerate(rings)) {
    sched::RingOp ring = program.rings[r];
    bool released = llvm::any_of(ring.getResult().getUsers(), llvm::IsaPred<sched::ReleaseOp>);
    for (int64_t stage = 0; state.ready && stage < int64_t(state.full.size()); ++stage) {
      const Phase &full = state.full[stage], &empty = state.empty[stage];
      auto left = [&](const Twine &what) {
        fail(nullptr, ring, ring.getName() + ", stage " + Twine(stage) + ", " + what);
        return failure();
      };
      if (full.missing != full.arrivals || full.expected || full.brought)
        return left("is filled in part when the block ends: by " + Twine(full.arrivals - full.missing) + " of " +
                    Twine(full.arrivals) + " arrivals and " + Twine(full.brought) + " of " + Twine(full.expected) +
                    " bytes");
      if (released && empty.missing != empty.arrivals)
        return left("is released in part when the block ends: by " + Twine(empty.arrivals - empty.missing) + " of " +
                    Twine(empty.arrivals) + " arrivals");
      if (released && full.number != empty.number)
        return left("is filled " + Twine(full.number) + " times and released " + Twine(empty.number) + " times");
    }
  }
  return success();
}

/// Reports a deadlock at the op where the first waiting warp waits.
void Machine::reportDeadlock() {
  for (Warp &warp : warps) {
    if (warp.state == Warp::State::Done)
      continue;
    const Step &at = program.steps[warp.position];
    if (at.ring < 0) {
      const NamedBarrier &barrier =
          barriers[at.action == Action::Barrier ? 0 : size_t(warp.get(at.in[0], warp.first()))];
      fail(&warp, at.op,
           "waits for ever: " + Twine(barrier.arrived) + " of " + Twine(barrier.threads) +
               " threads reach the barrier");
      return;
    }
    const bool full = at.action == Action::Wait;
    const int64_t stage = warp.get(at.in[0], warp.first());
    const Phase &phase = (full ? rings[at.ring].full : rings[at.ring].empty)[stage];
    std::string what =
        ("waits for ever: stage " + Twine(stage) + " of " + sched::RingOp(program.rings[at.ring]).getName() +
         (full ? " is filled by " : " is released by ") + Twine(phase.arrivals - phase.missing) + " of " +
         Twine(phase.arrivals) + " arrivals")
            .str();
    if (phase.expected != phase.brought)
      what += " and " + std::to_string(phase.brought) + " of " + std::to_string(phase.expected) + " bytes";
    fail(&warp, at.op, what);
    return;
  }
}

Machine::Go Machine::fail(const Warp *warp, Operation *op, const Twine &what, Operation *other) {
  if (failed)
    return Go::Stop;
  failed = true;
  InFlightDiagnostic diagnostic = op->emitOpError() << what;
  std::string where = launch.describe();
  if (warp)
    where += ", warp " + std::to_string(warp->index) +
             (warp->role >= 0 ? " of " + sched::RoleOp(program.roles[warp->role].op).getName().str() : "");
  diagnostic.attachNote() << where;
  if (other)
    diagnostic.attachNote(other->getLoc()) << "the other op is here";
  return Go::Stop;
}
