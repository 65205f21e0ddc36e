//===- Rings.cpp - Machine: full and empty barriers of rings, named barriers -===//

#include "passes/analysis/synchronization/Machine.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

//===----------------------------------------------------------------------===//
// Clocks of lanes
//===----------------------------------------------------------------------===//

/// The vector clock (Clock.h) that an arrival of the lanes in the mask `lanes` publishes. The warp's time advances, so
/// that the clock does not cover later events of the warp.
Clock Machine::handOn(Warp &warp, uint32_t lanes) {
  Clock clock = warp.all;
  if (warp.someMask & lanes)
    clock.join(warp.some);
  auto handsOn = [&](Lanes of) {
    switch (of) {
    case Lanes::Together:
      return true;
    case Lanes::Each:
      return (warp.apart & ~lanes) == 0;
    case Lanes::First:
      return (lanes & 1) != 0;
    case Lanes::Other:
      return warp.other >= 0 && (lanes >> warp.other & 1);
    }
    llvm_unreachable("not one of Lanes");
  };
  for (Lanes of : allLanes)
    if (handsOn(of))
      clock[components.seen({warp.index, of})] = warp.now;
  ++warp.now;
  return clock;
}

/// Joins `what`, the clock published by an arrival, into the clock of the active lanes, which have waited for that
/// arrival.
void Machine::learn(Warp &warp, const Clock &what) {
  if (warp.mask == ~0u) {
    warp.all.join(what);
    if (warp.someMask)
      warp.some.join(what);
    return;
  }
  if (warp.someMask != warp.mask) {
    if (warp.mask & ~warp.someMask)
      warp.some = warp.all;
    warp.someMask = warp.mask;
  }
  warp.some.join(what);
}

/// Applies the effect of sync_lanes or a barrier to the warp's clocks: every lane is then ordered after everything that
/// each lane of the warp has done or waited for.
void Machine::synchronizeLanes(Warp &warp) {
  warp.all.join(handOn(warp, ~0u));
  warp.someMask = warp.apart = warp.stored = 0;
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

Machine::Go Machine::ring(Warp &warp, const Step &step) {
  switch (step.action) {
  case Action::InitRing:
    return initRing(warp, step);
  case Action::FenceInit:
    for (RingState &ring : rings)
      ring.fenced |= ring.ready && ring.by == Actor{warp.index, activeLanes(warp)};
    return Go::Next;
  case Action::Acquire:
    return waitFor(warp, step, false);
  case Action::Wait:
    return waitFor(warp, step, true);
  case Action::ExpectBytes:
    return arrive(warp, step, true, llvm::popcount(warp.mask));
  case Action::Commit:
    return arrive(warp, step, true, step.number ? step.number : llvm::popcount(warp.mask));
  case Action::Release:
    return arrive(warp, step, false, step.number);
  case Action::SyncLanes:
    synchronizeLanes(warp);
    return Go::Next;
  case Action::Barrier:
    return synchronize(warp, step, 0, 32 * int64_t(warps.size()), true);
  default:
    return synchronize(warp, step, warp.get(step.in[0], warp.first()), step.number, step.action == Action::SyncWarps);
  }
}

Machine::Go Machine::initRing(Warp &warp, const Step &step) {
  sched::RingOp ring = program.rings[step.ring];
  RingState &state = rings[step.ring];
  auto phase = [&](uint64_t arrivals) {
    Phase phase;
    phase.arrivals = phase.missing = int64_t(arrivals);
    phase.gathered = phase.complete = Clock(components.count);
    return phase;
  };
  const auto stages = size_t(ring.getResult().getType().getStages());
  state.ready = true;
  state.by = {warp.index, activeLanes(warp)};
  state.at = warp.now;
  state.full.assign(stages, phase(ring.getFilledBy()));
  state.empty.assign(stages, phase(ring.getEmptiedBy()));
  return Go::Next;
}

/// Checks that a barrier orders the initialisation of the step's ring before this step, and that the ring has `stage`.
Machine::Go Machine::checkRing(Warp &warp, const Step &step, int64_t stage) {
  sched::RingOp ring = program.rings[step.ring];
  const RingState &state = rings[step.ring];
  const bool isOwn = state.by == Actor{warp.index, activeLanes(warp)};
  if (!state.ready || (!isOwn && warp.knows()[components.seen(state.by)] < state.at))
    return fail(&warp, step.op,
                "uses " + ring.getName() + ", whose sched.init_ring no barrier orders before; one must stand between");
  const int64_t stages = ring.getResult().getType().getStages();
  if (stage < 0 || stage >= stages)
    return fail(&warp, step.op,
                "names stage " + Twine(stage) + " of " + ring.getName() + ", which has " + Twine(stages));
  return Go::Next;
}

/// Waits for the next phase of the given parity after the phases that the warp's clock covers. An mbarrier wait by
/// parity cannot tell that phase from later ones, so it is an error if a later phase may be complete by then.
Machine::Go Machine::waitFor(Warp &warp, const Step &step, bool full) {
  const int64_t stage = warp.get(step.in[0], warp.first()), number = warp.get(step.in[1], warp.first());
  if (checkRing(warp, step, stage) == Go::Stop)
    return Go::Stop;
  StringRef name = sched::RingOp(program.rings[step.ring]).getName();
  if (number != 0 && number != 1)
    return fail(&warp, step.op, "waits for phase " + Twine(number) + " of " + name + "; phases are 0 and 1");
  const Phase &phase = (full ? rings[step.ring].full : rings[step.ring].empty)[stage];
  const uint32_t known = warp.knows()[full ? components.full(step.ring, stage) : components.empty(step.ring, stage)];
  // An acquire of a new ring with phase 0 passes at once, as if the stage had been released before.
  const uint32_t parity = uint32_t(full ? number : number ^ 1), until = known + ((known & 1) == parity);
  if (phase.number < until) {
    warp.state = Warp::State::Blocked;
    return Go::Block;
  }
  if (phase.number > until)
    return fail(&warp, step.op,
                "waits for phase " + Twine(number) + " of " + name + ", stage " + Twine(stage) + ", which may be " +
                    (full ? "filled" : "released") +
                    " once more by then; nothing makes the other side wait for this op");
  if (until)
    learn(warp, phase.complete);
  return Go::Next;
}

Machine::Go Machine::arrive(Warp &warp, const Step &step, bool full, int64_t count) {
  const int64_t stage = warp.get(step.in[0], warp.first());
  if (checkRing(warp, step, stage) == Go::Stop)
    return Go::Stop;
  StringRef name = sched::RingOp(program.rings[step.ring]).getName();
  Phase &phase = (full ? rings[step.ring].full : rings[step.ring].empty)[stage];
  const unsigned component = full ? components.full(step.ring, stage) : components.empty(step.ring, stage);
  const char *does = full ? "fills " : "releases ";
  // One lane arrives for its warp (arrive_as_warp), or each active lane arrives.
  const bool asWarp = step.number == 1 && (step.action == Action::Commit || step.action == Action::Release);
  const uint32_t arriving = asWarp ? 1u : warp.mask;
  if (full && llvm::popcount(arriving) == 1 && (warp.stored & ~arriving))
    return fail(&warp, step.op,
                "arrives in one lane for what other lanes have stored; a sched.sync_lanes must stand between");
  if (!full && (phase.arrived >> warp.index & 1))
    return fail(&warp, step.op,
                "releases " + name + ", stage " + Twine(stage) +
                    ", a second time before its other readers have; a reader releases once what it has waited for");
  if (warp.knows()[component] < phase.number)
    return fail(&warp, step.op,
                does + name + ", stage " + Twine(stage) + ", without having waited for it; " +
                    (full ? "sched.acquire" : "sched.wait") + " must stand in front");
  if (count > phase.missing)
    return fail(&warp, step.op,
                does + name + ", stage " + Twine(stage) + ", by more arrivals than the " + Twine(phase.arrivals) +
                    " that the ring counts");
  phase.missing -= count;
  if (!full)
    phase.arrived |= 1u << warp.index;
  if (step.action == Action::ExpectBytes)
    phase.expected += step.number * count;
  phase.gathered.join(handOn(warp, arriving));
  return completeIfDone(warp, step, phase, component);
}

Machine::Go Machine::completeIfDone(Warp &warp, const Step &step, Phase &phase, unsigned component) {
  if (phase.missing)
    return Go::Next;
  if (phase.brought > phase.expected)
    return fail(&warp, step.op,
                "completes a stage of " + sched::RingOp(program.rings[step.ring]).getName() + " with " +
                    Twine(phase.brought) + " bytes of copies where sched.expect_bytes names " + Twine(phase.expected));
  if (phase.brought < phase.expected)
    return Go::Next;
  phase.gathered[component] = ++phase.number;
  phase.complete = phase.gathered;
  phase.gathered.clear();
  phase.missing = phase.arrivals;
  phase.expected = phase.brought = 0;
  phase.arrived = 0;
  for (Warp &other : warps)
    if (other.state == Warp::State::Blocked && program.steps[other.position].ring == step.ring)
      other.state = Warp::State::Ready;
  return Go::Next;
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

/// Arrives at the named barrier `id` (bar.sync if `waits`, else bar.arrive). With `waits` the warp blocks until all
/// `threads` threads have arrived.
Machine::Go Machine::synchronize(Warp &warp, const Step &step, int64_t id, int64_t threads, bool waits) {
  if (id < (step.action == Action::Barrier ? 0 : 1) || id >= int64_t(barriers.size()))
    return fail(&warp, step.op, "names barrier " + Twine(id) + "; those of warps are 1 to 15");
  NamedBarrier &barrier = barriers[size_t(id)];
  if (barrier.arrived == 0) {
    barrier = {threads, 0, 0, 0, step.op, Clock(components.count)};
  } else if (barrier.threads != threads) {
    return fail(&warp, step.op,
                "reaches barrier " + Twine(id) + " for " + Twine(threads) + " threads, where others do for " +
                    Twine(barrier.threads),
                barrier.op);
  }
  if (barrier.warps >> warp.index & 1)
    return fail(&warp, step.op,
                "reaches barrier " + Twine(id) + " a second time before all of its " + Twine(threads) +
                    " threads have once",
                barrier.op);
  if (waits)
    synchronizeLanes(warp);
  barrier.gathered.join(handOn(warp, ~0u));
  barrier.warps |= 1u << warp.index;
  barrier.arrived += 32;
  barrier.op = step.op;
  if (barrier.arrived < threads) {
    if (!waits)
      return Go::Next;
    barrier.waiting |= 1u << warp.index;
    warp.state = Warp::State::Blocked;
    return Go::Block;
  }
  for (Warp &other : warps)
    if (barrier.waiting >> other.index & 1) {
      learn(other, barrier.gathered);
      other.state = Warp::State::Ready;
      ++other.position;
    }
  if (waits)
    learn(warp, barrier.gathered);
  barrier = {};
  return Go::Next;
}
