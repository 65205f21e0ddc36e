//===- Control.cpp - Machine: jumps, loops, tiles of work and values ---------===//

#include "passes/analysis/synchronization/Machine.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

Machine::Go Machine::control(Warp &warp, const Step &step) {
  switch (step.action) {
  case Action::Jump:
    return jump(warp, step.target);
  case Action::SkipUnless:
    return warp.get(step.in[0], 0) ? Go::Next : jump(warp, step.target);
  case Action::MaskIf:
  case Action::MaskElse:
  case Action::MaskEnd:
    return branch(warp, step);
  case Action::Below:
  case Action::Advance:
  case Action::Turn:
    return loopStep(warp, step);
  case Action::Move:
    move(warp, step);
    return Go::Next;
  case Action::RoleBegin: {
    const Role &role = program.roles[size_t(step.number)];
    if (int(warp.index) < role.firstWarp || int(warp.index) >= role.firstWarp + role.warps)
      return jump(warp, step.target);
    warp.role = int(step.number);
    warp.firstThread = 32 * (int(warp.index) - role.firstWarp);
    return Go::Next;
  }
  case Action::End:
    warp.state = Warp::State::Done;
    return Go::Block;
  default:
    return workStep(warp, step);
  }
}

Machine::Go Machine::branch(Warp &warp, const Step &step) {
  if (step.action == Action::MaskEnd) {
    warp.mask = warp.masks.pop_back_val();
    return Go::Next;
  }
  uint32_t holds = 0;
  for (int lane = 0; lane < 32; ++lane)
    holds |= uint32_t(warp.get(step.in[0], lane) != 0) << lane;
  const bool otherwise = step.action == Action::MaskElse;
  if (!otherwise)
    warp.masks.push_back(warp.mask);
  const uint32_t mask = warp.masks.back() & (otherwise ? ~holds : holds);
  if (!mask)
    return jump(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Machine::Go Machine::loopStep(Warp &warp, const Step &step) {
  const int lane = warp.first();
  auto in = [&](unsigned i) { return warp.get(step.in[i], lane); };
  if (step.action == Action::Below)
    return in(0) < in(1) ? Go::Next : jump(warp, step.target);
  if (step.action == Action::Advance) {
    if (in(1) > in(0) || in(1) >= in(2))
      return Go::Next;
    return fail(&warp, step.op, "goes from tile " + Twine(in(0)) + " to tile " + Twine(in(1)) + " and never ends");
  }
  // If not all iterations have to run (number == 0), the loop goes from the first iteration straight to the last: the
  // iterations in between find no further errors.
  const int64_t counter = in(0), end = in(1), by = std::max<int64_t>(in(2), 1);
  const int64_t next = step.number ? counter + by : counter + (end - 1 - counter) / by * by;
  if (next >= end || next == counter)
    return Go::Next;
  for (int i = 0; i < (step.out[0].varies ? 32 : 1); ++i)
    warp.values[size_t(step.out[0].at + i)] = next;
  return jump(warp, step.target);
}

/// Takes the tile of work whose number is the step's first input, if the number is below the bound (second input).
/// Otherwise WorkBegin jumps to step `otherwise`, and WorkNext continues after the loop over tiles of work.
Machine::Go Machine::takeWork(Warp &warp, const Step &step, int otherwise) {
  const int64_t number = uint32_t(warp.get(step.in[0], warp.first())),
                bound = uint32_t(warp.get(step.in[1], warp.first()));
  const bool taken = number < bound;
  if (taken) {
    if (step.out[0].at >= 0)
      warp.values[size_t(step.out[0].at)] = number;
    if (step.out[1].at >= 0)
      warp.values[size_t(step.out[1].at)] = warp.tilesBefore;
    record->taken[{step.op, warp.index}].push_back(number);
  }
  const bool begins = step.action == Action::WorkBegin;
  if (begins)
    return taken ? Go::Next : jump(warp, otherwise);
  return taken ? jump(warp, step.target) : Go::Next;
}

Machine::Go Machine::workStep(Warp &warp, const Step &step) {
  switch (step.action) {
  case Action::WorkBegin:
    warp.tilesBefore = 0;
    return takeWork(warp, step, step.target);
  case Action::WorkNext:
    ++warp.tilesBefore;
    return takeWork(warp, step, -1);
  case Action::ReceiveBegin:
    warp.tilesBefore = 0;
    if (step.out[0].at >= 0)
      warp.values[size_t(step.out[0].at)] = 0;
    return Go::Next;
  default: // ReceiveNext
    ++warp.tilesBefore;
    if (step.out[0].at >= 0)
      warp.values[size_t(step.out[0].at)] = warp.tilesBefore;
    return warp.get(step.in[0], warp.first()) ? jump(warp, step.target) : Go::Next;
  }
}

void Machine::move(Warp &warp, const Step &step) {
  SmallVector<std::array<int64_t, 32>, 4> kept(step.in.size());
  for (auto [from, values] : llvm::zip(step.in, kept))
    for (int lane = 0; lane < (from.varies ? 32 : 1); ++lane)
      values[size_t(lane)] = warp.get(from, lane);
  for (auto [from, to, values] : llvm::zip(step.in, step.out, kept))
    if (!to.varies)
      warp.values[size_t(to.at)] = values[from.varies ? size_t(warp.first()) : 0];
    else
      for (int lane = 0; lane < 32; ++lane)
        if (warp.mask >> lane & 1)
          warp.values[size_t(to.at + lane)] = values[from.varies ? size_t(lane) : 0];
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void Machine::value(Warp &warp, const Step &step) {
  const Slot out = step.out[0];
  if (out.at < 0)
    return;
  for (int lane = 0; lane < (out.varies ? 32 : 1); ++lane)
    warp.values[size_t(out.at + lane)] = valueIn(warp, step, out.varies ? lane : warp.first());
  if (step.action == Action::ClaimWork)
    claimed.push_back(warp.values[size_t(out.at)]);
}

static uint32_t votes(const Warp &warp, Slot condition) {
  uint32_t word = 0;
  for (int lane = 0; lane < 32; ++lane)
    word |= uint32_t(warp.get(condition, lane) & 1) << lane;
  return word & warp.mask;
}

int64_t Machine::valueIn(Warp &warp, const Step &step, int lane) {
  switch (step.action) {
  case Action::Constant:
    return step.number;
  case Action::ThreadId:
    return warp.firstThread + lane;
  case Action::LaneId:
    return lane;
  case Action::Elect:
    // Lane 1 is elected, not lane 0: a kernel must not rely on the elected lane being the lane 0 that arrives for the
    // warp in sched.release.
    return lane == 1;
  case Action::BlockId:
    return launch.block;
  case Action::GridSize:
    return launch.blocks;
  case Action::Extent:
    return launch.extentOf(extentAxis(step.op));
  case Action::Ballot:
    return int32_t(votes(warp, step.in[0]));
  case Action::AnyLane:
    return votes(warp, step.in[0]) != 0;
  case Action::Shuffle:
    return warp.get(step.in[0], int(warp.get(step.in[1], lane) & 31));
  case Action::ShuffleXor:
    return warp.get(step.in[0], (lane ^ int(step.number)) & 31);
  case Action::ClaimWork:
    // Blocks claim tiles of work round-robin. Lanes other than 0 get -1, which is not the number of any tile of work.
    return lane ? -1 : launch.blocks + launch.block + int64_t(claimed.size()) * launch.blocks;
  case Action::Element:
    return guessElement(warp, step, lane);
  case Action::Integer: {
    std::array<int64_t, 3> operands;
    for (size_t i = 0; i < step.in.size(); ++i)
      operands[i] = warp.get(step.in[i], lane);
    return step.integer->apply(ArrayRef(operands).take_front(step.in.size())).value_or(0);
  }
  default:
    return guess(step, uint64_t(step.number));
  }
}

static uint64_t mix(uint64_t key, uint64_t with) {
  uint64_t mixed = (key ^ (with + 1) * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  return mixed ^ mixed >> 31;
}

/// A guess for a value from registers or parameters. launch.values selects 0, the maximum, or a number from a hash of
/// `key`.
int64_t Machine::guess(const Step &step, uint64_t key) const {
  const bool truth = step.op->getResult(0).getType().isInteger(1);
  if (launch.values == Launch::Values::Zero)
    return 0;
  if (launch.values == Launch::Values::Most)
    return truth ? 1 : launch.keys;
  return int64_t(mix(key, uint64_t(launch.values)) % (truth ? 2 : uint64_t(launch.keys) + 1));
}

/// A guess for an element in memory. In the modes Few, FewOthers and FewMore of launch.values, integers are drawn from
/// 3 or 6 numbers, and half of them grow with the row: elements that a kernel compares with each other (document ids,
/// a tile's minimum and maximum) must sometimes be equal.
int64_t Machine::guessElement(const Warp &warp, const Step &step, int lane) const {
  uint64_t key = uint64_t(step.number);
  int64_t row = 0;
  for (auto [i, index] : llvm::enumerate(step.in)) {
    const bool last = i + 1 == step.in.size();
    if (last || launch.values < Launch::Values::Few)
      key = mix(key, uint64_t(warp.get(index, lane)));
    else
      row += warp.get(index, lane);
  }
  if (launch.values < Launch::Values::Few || step.op->getResult(0).getType().isInteger(1))
    return guess(step, key);
  const uint64_t mixed = mix(key, uint64_t(launch.values)), few = launch.values == Launch::Values::Few ? 3 : 6;
  return int64_t(mixed % few) + (mixed >> 8 & 1 ? row : 0);
}
