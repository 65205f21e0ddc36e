//===- RingSteps.cpp - Full and empty mbarriers of rings ------------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

Go sim::initRing(Machine &machine, Warp &warp, const Step &step) {
  const Ring &ring = machine.program.rings[step.at[0]];
  if (!machine.single(warp, step))
    return Go::Stop;
  Actor actor = machine.actor(warp, step, warp.first());
  if (std::optional<Fault> fault = machine.memory.placeBarriers(actor, ring.offset, 16 * ring.stages))
    return machine.fail(warp, step, fmt::format("initialises {} {}", ring.name, fault->what), fault->other);
  auto phase = [&](int64_t arrivals) {
    return Phase{arrivals, arrivals, 0, 0, 0, Knowledge(machine.program.agents), Knowledge(machine.program.agents)};
  };
  RingState &state = machine.rings[step.at[0]];
  state.ready = true;
  state.by = actor;
  state.full.assign(ring.stages, phase(ring.filledBy));
  state.empty.assign(ring.stages, phase(ring.emptiedBy));
  return Go::Next;
}

Go sim::fenceInit(Machine &machine, Warp &warp, const Step &) {
  for (RingState &ring : machine.rings)
    if (ring.ready && !ring.fence && ring.by.warp == warp.index && warp.has(ring.by.lane))
      ring.fence = warp.now;
  ++warp.now;
  return Go::Next;
}

/// Sets `stage` from input number `input` of an op on the ring number `ring`. Returns false, after reporting an error,
/// if the ring has no such stage.
static bool stageOf(Machine &machine, Warp &warp, const Step &step, int ring, int input, int64_t &stage) {
  if (!machine.uniform(warp, step, input, stage))
    return false;
  if (stage >= 0 && stage < machine.program.rings[ring].stages)
    return true;
  machine.fail(warp, step,
               fmt::format("names stage {} of {}, which has {}", stage, machine.program.rings[ring].name,
                           machine.program.rings[ring].stages));
  return false;
}

static Go waitFor(Machine &machine, Warp &warp, const Step &step, bool full) {
  int64_t stage, phase;
  if (!machine.ringReady(warp, step, warp.first()) || !stageOf(machine, warp, step, step.at[0], 0, stage) ||
      !machine.uniform(warp, step, 1, phase))
    return Go::Stop;
  if (phase != 0 && phase != 1)
    return machine.fail(warp, step, fmt::format("waits for phase {}; phases are 0 and 1", phase));
  // An acquire waits for the parity opposite to `phase`. A fresh mbarrier counts as having completed the phase of
  // parity 1, so the first acquire of a stage, with `phase` 0, does not block.
  int parity = int(full ? phase : phase ^ 1);
  const Phase &at = (full ? machine.rings[step.at[0]].full : machine.rings[step.at[0]].empty)[stage];
  if (int(at.number & 1) == parity) {
    warp.state = Warp::State::AtRing;
    warp.ring = step.at[0];
    warp.stage = int(stage);
    warp.parity = parity;
    warp.full = full;
    return Go::Block;
  }
  machine.learn(warp, at.complete);
  return Go::Pause;
}

Go sim::acquire(Machine &machine, Warp &warp, const Step &step) { return waitFor(machine, warp, step, false); }
Go sim::wait(Machine &machine, Warp &warp, const Step &step) { return waitFor(machine, warp, step, true); }

/// Reports an error where a single lane of `arriving` arrives after other lanes of its warp have stored to shared
/// memory: the arrival of one lane does not publish the stores of other lanes.
static bool arriveForOwn(Machine &machine, Warp &warp, const Step &step, uint32_t arriving) {
  if (__builtin_popcount(arriving) == 1 && (warp.stored & ~arriving))
    machine.fail(
        warp, step,
        "arrives after stores of other lanes, which it does not hand on; a sync_lanes between them is missing");
  return !machine.finding;
}

Go sim::expectBytes(Machine &machine, Warp &warp, const Step &step) {
  int64_t stage;
  if (!arriveForOwn(machine, warp, step, warp.mask) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  int64_t threads = __builtin_popcount(warp.mask);
  machine.rings[step.at[0]].full[stage].bytes += threads * step.number[0];
  return machine.arrive(warp, step, stage, true, threads, machine.handOn(warp, warp.mask)) ? Go::Pause : Go::Stop;
}

Go sim::commit(Machine &machine, Warp &warp, const Step &step) {
  const bool byWarp = step.number[0];
  if (byWarp && !machine.converged(warp, step))
    return Go::Stop;
  const uint32_t arriving = byWarp ? 1 : warp.mask;
  int64_t stage;
  if (!arriveForOwn(machine, warp, step, arriving) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  return machine.arrive(warp, step, stage, true, __builtin_popcount(arriving), machine.handOn(warp, arriving))
             ? Go::Pause
             : Go::Stop;
}

Go sim::release(Machine &machine, Warp &warp, const Step &step) {
  int64_t stage;
  if (!machine.converged(warp, step) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  // A release with one arrival is an arrival of lane 0 for its warp; in any other release all lanes arrive.
  const uint32_t arriving = step.number[0] == 1 ? 1 : allLanes;
  return machine.arrive(warp, step, stage, false, step.number[0], machine.handOn(warp, arriving)) ? Go::Pause
                                                                                                  : Go::Stop;
}
