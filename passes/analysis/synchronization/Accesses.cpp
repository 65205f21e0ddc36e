//===- Accesses.cpp - Machine: shared memory, messages, TMA boxes, products --===//

#include "passes/analysis/synchronization/Machine.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

//===----------------------------------------------------------------------===//
// Places in shared memory
//===----------------------------------------------------------------------===//

std::optional<Place> Machine::place(Warp &warp, const Step &step, int buffer, Slot stage, Slot row, int64_t rows,
                                    int64_t offset) {
  const SharedBuffer &shared = program.buffers[size_t(buffer)];
  Place place{buffer, warp.get(stage, warp.first()), 0};
  if (place.stage < 0 || place.stage >= shared.stages) {
    fail(&warp, step.op,
         "names stage " + Twine(place.stage) + " of " + sched::SharedOp(shared.op).getName() + ", which has " +
             Twine(shared.stages));
    return std::nullopt;
  }
  const uint32_t all = uint32_t((uint64_t(1) << shared.blocks) - 1);
  if (row.at < 0 || shared.blocks == 1) {
    place.blocks = all;
    return place;
  }
  const int64_t height = shared.rowsAtOnce();
  for (int lane = 0; lane < 32; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    const int64_t first = std::max<int64_t>(warp.get(row, lane) + offset, 0);
    for (int64_t block = first / height; block <= (first + rows - 1) / height && block < shared.blocks; ++block)
      place.blocks |= 1u << block;
    if (!row.varies)
      break;
  }
  return place;
}

Machine::Go Machine::faultAt(Warp &warp, const Step &step, StringRef verb, const Place &place, const Fault &fault) {
  const SharedBuffer &shared = program.buffers[size_t(place.buffer)];
  return fail(&warp, step.op,
              verb + " stage " + Twine(place.stage) + " of " + sched::SharedOp(shared.op).getName() + ", " + fault.what,
              fault.other);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// The actor (table in Clock.h) to which accesses of the active lanes of `warp` are assigned. Only lane 0 and one other
/// lane are tracked as single lanes; an access by a third single lane counts as Lanes::Each.
Lanes Machine::activeLanes(Warp &warp) {
  if (llvm::popcount(warp.mask) != 1)
    return Lanes::Each;
  if (warp.first() == 0)
    return Lanes::First;
  if (warp.other < 0)
    warp.other = warp.first();
  return warp.first() == warp.other ? Lanes::Other : Lanes::Each;
}

Accessor Machine::accessor(Warp &warp, const Step &step) {
  const Lanes lanes = isa<sched::LoadMatrixOp, sched::MmaAsyncOp>(step.op) ? Lanes::Together : activeLanes(warp);
  if (lanes == Lanes::Each)
    warp.apart |= warp.mask;
  return {{warp.index, lanes}, warp.now, &warp.knows(), step.op};
}

Machine::Go Machine::access(Warp &warp, const Step &step) {
  switch (step.action) {
  case Action::Send:
  case Action::Receive:
    return message(warp, step);
  case Action::LoadBox:
    return loadBox(warp, step);
  case Action::StoreBox:
  case Action::AddRows:
    return readBox(warp, step);
  case Action::CommitBoxes:
  case Action::WaitBoxes:
    return boxGroup(warp, step);
  case Action::CommitCopies:
  case Action::WaitCopies:
    return copyGroup(warp, step);
  case Action::FenceAsync: {
    // The fence covers stores of the lanes that execute it.
    Clock clock(components.count);
    for (Lanes lanes : allLanes)
      if (warp.mask == ~0u || lanes == activeLanes(warp))
        clock[components.fenced({warp.index, lanes})] = warp.now;
    learn(warp, clock);
    ++warp.now;
    return Go::Next;
  }
  default:
    break;
  }
  const bool steps = step.in.size() > 2 && step.in[2].at >= 0;
  std::optional<Place> at =
      place(warp, step, step.shared, step.in[0], step.in[1], 1, steps ? warp.get(step.in[2], warp.first()) : 0);
  if (!at)
    return Go::Stop;
  if (step.action == Action::Copy) {
    if (Memory::Result fault = memory.startCopy(accessor(warp, step), *at))
      return faultAt(warp, step, "copies into", *at, *fault);
    warp.copies.open.push_back({step.op, {*at}, {}});
    return Go::Next;
  }
  const bool writes = step.action == Action::Write;
  const Memory::Result fault =
      writes ? memory.write(accessor(warp, step), *at) : memory.read(accessor(warp, step), *at);
  if (fault)
    return faultAt(warp, step, writes ? "writes" : "reads", *at, *fault);
  if (writes)
    warp.stored |= warp.mask;
  return Go::Next;
}

Machine::Go Machine::message(Warp &warp, const Step &step) {
  std::optional<Place> at = place(warp, step, step.shared, step.in[0], Slot(), 1);
  if (!at)
    return Go::Stop;
  auto &fields = messages[size_t(step.shared)][size_t(at->stage)];
  const bool sends = step.action == Action::Send;
  const Memory::Result fault = sends ? memory.write(accessor(warp, step), *at) : memory.read(accessor(warp, step), *at);
  if (fault)
    return faultAt(warp, step, sends ? "sends into" : "receives", *at, *fault);
  if (sends) {
    for (size_t i = 1; i < step.in.size(); ++i)
      fields[i - 1] = warp.get(step.in[i], warp.first());
    warp.stored |= warp.mask;
    return Go::Next;
  }
  for (auto [i, out] : llvm::enumerate(step.out))
    if (out.at >= 0)
      warp.values[size_t(out.at)] = fields[i];
  return Go::Next;
}

Machine::Go Machine::loadBox(Warp &warp, const Step &step) {
  const int64_t stage = warp.get(step.in[0], warp.first());
  if (checkRing(warp, step, stage) == Go::Stop)
    return Go::Stop;
  RingState &ring = rings[size_t(step.ring)];
  StringRef name = sched::RingOp(program.rings[size_t(step.ring)]).getName();
  if (!ring.fenced)
    return fail(&warp, step.op,
                "signals " + name + ", which TMA may not see; sched.fence_init must follow its init_ring");
  std::optional<Place> at = place(warp, step, step.shared, step.in[0], Slot(), 1);
  if (!at)
    return Go::Stop;
  Phase &phase = ring.full[size_t(stage)];
  const unsigned component = components.full(unsigned(step.ring), stage);
  if (warp.knows()[component] < phase.number)
    return fail(&warp, step.op,
                "fills " + name + ", stage " + Twine(stage) +
                    ", without having waited for it; sched.acquire must stand in front");
  if (Memory::Result fault = memory.copy(accessor(warp, step), *at, component, phase.number + 1))
    return faultAt(warp, step, "fills", *at, *fault);
  if (checkWork(warp, step) == Go::Stop)
    return Go::Stop;
  phase.brought += step.number;
  return completeIfDone(warp, step, phase, component);
}

/// Executes ops by which TMA reads shared memory: store_box and add_rows.
Machine::Go Machine::readBox(Warp &warp, const Step &step) {
  std::optional<Place> at = place(warp, step, step.shared, step.in[0], step.in[1], step.number);
  if (!at)
    return Go::Stop;
  if (Memory::Result fault = memory.startRead(accessor(warp, step), *at))
    return faultAt(warp, step, "reads", *at, *fault);
  warp.boxes[warp.mask].open.push_back({step.op, {*at}, {}});
  return checkWork(warp, step);
}

/// Checks that all TMA boxes of a tile of work have the same tile index along each axis of the grid, and that a launch
/// stores each box once.
Machine::Go Machine::checkWork(Warp &warp, const Step &step) {
  auto &places = record->places[{launch.block, warp.tilesBefore}];
  auto axes = program.axes();
  places.resize(axes.size());
  for (const GridPlace &along : step.grid) {
    const int64_t row = warp.get(step.in[along.input], warp.first()), at = row / along.by;
    if (isa<sched::LoadBoxOp>(step.op) && row >= launch.extentOf(axes[along.axis].getName()))
      continue; // the box is outside of the tensor, and TMA fills it with zeros
    auto &[known, op] = places[along.axis];
    if (op && known != at)
      return fail(&warp, step.op,
                  "is for tile " + Twine(at) + " along " + axes[along.axis].getName().getValue() +
                      ", where another role takes tile " + Twine(known) + " in the same tile of work",
                  op);
    known = at;
    op = step.op;
  }
  // A box stored twice is an error only if the output has all axes of the grid: otherwise all tiles of work along a
  // missing axis store the same box.
  auto store = dyn_cast<sched::StoreBoxOp>(step.op);
  if (!store || store.getAdds() || step.grid.size() != axes.size())
    return Go::Next;
  std::array<int64_t, 4> box;
  for (size_t i = 0; i < 4; ++i)
    box[i] = warp.get(step.in[i + 2], warp.first());
  if (!record->stored.insert({store.getMap().getAsOpaquePointer(), box}).second)
    return fail(&warp, step.op,
                "stores the box at [" + Twine(box[0]) + ", " + Twine(box[1]) + ", " + Twine(box[2]) + ", " +
                    Twine(box[3]) + "] a second time; a launch writes each row of an output once");
  return Go::Next;
}

Machine::Go Machine::boxGroup(Warp &warp, const Step &step) {
  Groups &groups = warp.boxes[warp.mask];
  if (step.action == Action::WaitBoxes) {
    complete(warp, groups, size_t(step.number), activeLanes(warp));
    return Go::Next;
  }
  groups.closed.push_back(std::move(groups.open));
  groups.open.clear();
  return Go::Next;
}

/// Commits a group of cp.async copies, or waits for groups. All lanes of a warp have the same groups.
Machine::Go Machine::copyGroup(Warp &warp, const Step &step) {
  if (step.action == Action::CommitCopies) {
    warp.copies.closed.push_back(std::move(warp.copies.open));
    warp.copies.open.clear();
    return Go::Next;
  }
  for (; warp.copies.closed.size() > size_t(step.number); warp.copies.closed.pop_front())
    for (const Asynchronous &copy : warp.copies.closed.front())
      memory.endCopy(accessor(warp, step), copy.reads.front());
  return Go::Next;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Completes all committed groups except the newest `pending` groups. `lanes` are the lanes that have waited.
void Machine::complete(Warp &warp, Groups &groups, size_t pending, Lanes lanes) {
  for (; groups.closed.size() > pending; groups.closed.pop_front())
    for (const Asynchronous &work : groups.closed.front()) {
      for (const Place &place : work.reads)
        memory.endRead({{warp.index, lanes}, warp.now, &warp.knows(), work.op}, place);
      for (int which : work.registers)
        if (--warp.registers[size_t(which)].underWay == 0)
          warp.registers[size_t(which)].unnamed = true;
    }
}

static StringRef registersName(Value registers) {
  auto op = registers.getDefiningOp<sched::RegistersOp>();
  return op ? op.getName() : "a register tile";
}

Machine::Go Machine::product(Warp &warp, const Step &step) {
  switch (step.action) {
  case Action::Multiply:
    return multiply(warp, step);
  case Action::MmaFence:
    for (RegisterState &state : warp.registers)
      state.touched = false;
    return Go::Next;
  case Action::MmaCommit:
    warp.products.closed.push_back(std::move(warp.products.open));
    warp.products.open.clear();
    return Go::Next;
  case Action::MmaWait:
    complete(warp, warp.products, size_t(step.number), Lanes::Together);
    for (int which : step.registers) {
      RegisterState &state = warp.registers[size_t(which)];
      StringRef name = registersName(program.registers[size_t(which)]);
      if (state.underWay)
        return fail(&warp, step.op,
                    "completes " + name + ", whose product may still be under way; it is in one of the newest " +
                        Twine(step.number) + " groups or in none",
                    state.op);
      state.unnamed = false;
    }
    return Go::Next;
  default:
    return touch(warp, step);
  }
}

Machine::Go Machine::multiply(Warp &warp, const Step &step) {
  Asynchronous work{step.op, {}, {}};
  for (int which : step.registers)
    if (warp.registers[size_t(which)].touched)
      return fail(&warp, step.op,
                  "uses " + registersName(program.registers[size_t(which)]) +
                      ", which ordinary instructions have touched; a sched.mma_fence must stand between");
  std::optional<Place> right = place(warp, step, step.shared, step.in[0], Slot(), 1), left;
  if (!right)
    return Go::Stop;
  work.reads.push_back(*right);
  if (step.left >= 0) {
    // A warp multiplies 16 of the warpgroup's 64 rows.
    if (!(left = place(warp, step, step.left, step.in[1], step.in[2], 16, warp.firstThread / 32 % 4 * 16)))
      return Go::Stop;
    work.reads.push_back(*left);
  }
  for (const Asynchronous &other : warp.products.open)
    if (other.op == step.op && other.reads == work.reads)
      return Go::Next; // the same product for another slice of the contracted axis, already recorded
  for (auto [i, at] : llvm::enumerate(work.reads))
    if (Memory::Result fault = memory.startRead(accessor(warp, step), at))
      return faultAt(warp, step, "reads", at, *fault);
  for (int which : step.registers) {
    RegisterState &state = warp.registers[size_t(which)];
    ++state.underWay;
    state.op = step.op;
    work.registers.push_back(which);
  }
  warp.products.open.push_back(std::move(work));
  return Go::Next;
}

/// Checks ordinary instructions that access register buffers of asynchronous products.
Machine::Go Machine::touch(Warp &warp, const Step &step) {
  for (auto [which, op] : llvm::zip(step.registers, step.touching)) {
    RegisterState &state = warp.registers[size_t(which)];
    StringRef name = registersName(program.registers[size_t(which)]);
    if (state.underWay)
      return fail(&warp, op,
                  "touches " + name + " while a product on it is under way; sched.mma_wait must stand between",
                  state.op);
    if (state.unnamed)
      return fail(&warp, op, "touches " + name + ", which no sched.mma_wait names as complete since its product",
                  state.op);
    state.touched = true;
  }
  return Go::Next;
}
