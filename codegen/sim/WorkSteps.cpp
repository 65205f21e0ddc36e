//===- WorkSteps.cpp - Loops over tiles of work ---------------------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

using namespace attune;
using namespace attune::sim;

/// Starts the tile of work whose number is the step's first input. Returns false if the number is not below the second
/// input, the number of all tiles (no work is left), or if an input is not uniform.
static bool takeWork(Machine &machine, Warp &warp, const Step &step) {
  int64_t number, bound;
  if (!machine.uniform(warp, step, 0, number) || !machine.uniform(warp, step, 1, bound) ||
      uint32_t(number) >= uint32_t(bound))
    return false;
  warp.set(step.out[0], 0, int32_t(number));
  warp.set(step.out[1], 0, int32_t(warp.tilesBefore));
  return true;
}

Go sim::blockId(Machine &machine, Warp &warp, const Step &step) {
  warp.set(step.out[0], 0, int32_t(machine.block));
  return Go::Next;
}

Go sim::gridSize(Machine &machine, Warp &warp, const Step &step) {
  warp.set(step.out[0], 0, int32_t(machine.launch.blocks));
  return Go::Next;
}

Go sim::workBegin(Machine &machine, Warp &warp, const Step &step) {
  warp.tilesBefore = 0;
  if (takeWork(machine, warp, step))
    return Go::Next;
  return machine.finding ? Go::Stop : go(warp, step.target);
}

Go sim::workNext(Machine &machine, Warp &warp, const Step &step) {
  ++warp.tilesBefore;
  if (takeWork(machine, warp, step))
    return go(warp, step.target);
  return machine.finding ? Go::Stop : Go::Next;
}

Go sim::claimWork(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  const std::vector<int64_t> &own = machine.launch.claims[machine.block];
  const size_t turn = machine.claimed++;
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane,
             lane ? poison : uint32_t(turn < own.size() ? own[turn] : machine.launch.tiles + machine.block));
  return Go::Pause;
}

Go sim::receiveBegin(Machine &, Warp &warp, const Step &step) {
  warp.tilesBefore = 0;
  warp.set(step.out[0], 0, int32_t(0));
  return Go::Next;
}

Go sim::receiveNext(Machine &machine, Warp &warp, const Step &step) {
  int64_t more;
  if (!machine.uniform(warp, step, 0, more))
    return Go::Stop;
  warp.set(step.out[0], 0, int32_t(++warp.tilesBefore));
  return more ? go(warp, step.target) : Go::Next;
}
