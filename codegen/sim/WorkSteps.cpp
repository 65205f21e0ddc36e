//===- WorkSteps.cpp - Loops over tiles of work ---------------------------===//
//
// Operands are in the order that Machine.h gives.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

/// The number of the block's tile of a round: persistent blocks take one of each round of tiles, or, longest first and
/// where there are more tiles than blocks, pairs.
static int64_t workNumber(const Machine &machine, int64_t round, bool longestFirst) {
  const int64_t blocks = machine.launch.blocks;
  const bool pairs = longestFirst && machine.program.persistent && machine.launch.tiles > blocks;
  const int64_t deal = round / 2, dealt = deal * blocks + (machine.block + deal * (blocks * 5 / 8)) % blocks;
  return pairs ? dealt * 2 + round % 2 : round * blocks + machine.block;
}

/// Takes the tile of work with the number `tile`, where there is one. Query tiles of a head stand side by side, then
/// heads, then batches, or those of all batches at one place; pairs are from both ends of a head. Where tiles are
/// claimed, those at one place of a group of heads stand side by side.
static bool takeWork(Machine &machine, Warp &warp, const Step &step, int64_t number, bool pairs) {
  warp.tile = number;
  if (warp.tile >= machine.launch.tiles)
    return false;
  const int64_t tiles = machine.launch.queryTiles, heads = machine.launch.heads, batch = machine.launch.batch;
  if (step.number[0]) {
    const int64_t ofBatch = tiles * heads, run = pairs && ofBatch % 2 == 0 ? 2 : 1, place = number / run;
    number = place % batch * ofBatch + place / batch * run + number % run;
  }
  int64_t head = number / tiles, tile = number % tiles;
  if (machine.program.claims) {
    const int64_t all = heads * batch, most = std::max<int64_t>(machine.launch.blocks * machine.program.tileQ / 384, 1);
    const int64_t groups = (all + most - 1) / most, ofGroup = (all + groups - 1) / groups,
                  first = head / ofGroup * ofGroup;
    const int64_t count = std::min(ofGroup, all - first), place = number - first * tiles;
    head = first + place % count, tile = place / count;
  }
  if (pairs)
    tile = tile % 2 ? tile / 2 : tiles - 1 - tile / 2;
  else if (step.flag)
    tile = tiles - 1 - tile;
  warp.work = {int32_t(head / heads), int32_t(head % heads), int32_t(tile * machine.program.tileQ)};
  for (int i = 0; i < 3; ++i)
    warp.set(step.out[i], 0, warp.work[i]);
  warp.set(step.out[3], 0, int32_t(warp.tilesBefore));
  return true;
}

/// The block's tile number `count`.
static bool takeOwnWork(Machine &machine, Warp &warp, const Step &step) {
  return takeWork(machine, warp, step, workNumber(machine, warp.tilesBefore, step.flag),
                  step.flag && machine.program.persistent);
}

Go sim::workBegin(Machine &machine, Warp &warp, const Step &step) {
  warp.tilesBefore = 0;
  return takeOwnWork(machine, warp, step) ? Go::Next : go(warp, step.target);
}

Go sim::workNext(Machine &machine, Warp &warp, const Step &step) {
  ++warp.tilesBefore;
  return takeOwnWork(machine, warp, step) ? go(warp, step.target) : Go::Next;
}

Go sim::claimBegin(Machine &machine, Warp &warp, const Step &step) {
  warp.tilesBefore = 0;
  takeWork(machine, warp, step, machine.block, /*pairs=*/false); // the grid has no more blocks than tiles
  return Go::Next;
}

Go sim::claimNext(Machine &machine, Warp &warp, const Step &step) {
  int64_t number;
  if (!machine.uniform(warp, step, 0, number))
    return Go::Stop;
  ++warp.tilesBefore;
  return takeWork(machine, warp, step, uint32_t(number), /*pairs=*/false) ? go(warp, step.target) : Go::Next;
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

Go sim::readWork(Machine &, Warp &warp, const Step &step) {
  for (int i = 0; i < 3; ++i)
    warp.set(step.out[i], 0, warp.work[i]);
  return Go::Next;
}

Go sim::moreWork(Machine &machine, Warp &warp, const Step &step) {
  if (!step.inputs) {
    warp.set(step.out[0], 0, int32_t(workNumber(machine, warp.tilesBefore + 1, step.flag) < machine.launch.tiles));
    return Go::Next;
  }
  for (int lane = 0; lane < lanes; ++lane) // its number may come from a shuffle
    warp.set(step.out[0], lane, int32_t(warp.get<uint32_t>(step.in[0], lane) < machine.launch.tiles));
  return Go::Next;
}
