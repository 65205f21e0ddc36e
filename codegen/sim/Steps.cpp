//===- Steps.cpp - What each step does --------------------------------------===//
//
// Sched ops and control flow, for the lanes of one warp. Operands are in the order that Machine.h gives.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Machine.h"
#include "codegen/sim/Numbers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

static uint32_t maskOf(Warp &warp, Slot condition) {
  if (!condition.varies)
    return warp.get<bool>(condition, 0) ? allLanes : 0;
  uint32_t mask = 0;
  for (int lane = 0; lane < lanes; ++lane)
    mask |= uint32_t(warp.get<bool>(condition, lane)) << lane;
  return mask;
}

static Go go(Warp &warp, uint32_t position) {
  warp.position = position;
  return Go::Jump;
}

Go sim::jump(Machine &, Warp &warp, const Step &step) { return go(warp, step.target); }

Go sim::skipUnless(Machine &, Warp &warp, const Step &step) {
  return warp.get<bool>(step.in[0], 0) ? Go::Next : go(warp, step.target);
}

Go sim::maskIf(Machine &, Warp &warp, const Step &step) {
  warp.masks.push_back(warp.mask);
  uint32_t mask = warp.mask & maskOf(warp, step.in[0]);
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::maskElse(Machine &, Warp &warp, const Step &step) {
  uint32_t mask = warp.masks.back() & ~maskOf(warp, step.in[0]);
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::maskBegin(Machine &, Warp &warp, const Step &) {
  warp.masks.push_back(warp.mask);
  return Go::Next;
}

Go sim::maskEnd(Machine &, Warp &warp, const Step &) {
  warp.mask = warp.masks.back();
  warp.masks.pop_back();
  return Go::Next;
}

Go sim::loopTest(Machine &, Warp &warp, const Step &step) {
  if (!step.in[0].varies && !step.in[1].varies)
    return warp.get<int32_t>(step.in[0], 0) < warp.get<int32_t>(step.in[1], 0) ? Go::Next : go(warp, step.target);
  uint32_t mask = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane) && warp.get<int32_t>(step.in[0], lane) < warp.get<int32_t>(step.in[1], lane))
      mask |= 1u << lane;
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::move(Machine &, Warp &warp, const Step &step) {
  size_t bytes = size_t(step.number[0]);
  const std::byte *from = warp.value(step.in[0]);
  std::byte *to = warp.value(step.out[0]);
  if (!step.out[0].varies) {
    std::memcpy(to, from, bytes);
    return Go::Next;
  }
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane))
      std::memcpy(to + lane * bytes, from + (step.in[0].varies ? lane * bytes : 0), bytes);
  return Go::Next;
}

Go sim::roleBegin(Machine &machine, Warp &warp, const Step &step) {
  const Role &role = machine.program.roles[step.at[0]];
  if (warp.index < role.firstWarp || warp.index >= role.firstWarp + role.warps)
    return go(warp, step.target);
  warp.role = step.at[0];
  warp.firstThread = (warp.index - role.firstWarp) * lanes;
  return Go::Next;
}

Go sim::roleEnd(Machine &, Warp &warp, const Step &) {
  warp.role = -1;
  warp.firstThread = warp.index * lanes;
  return Go::Next;
}

static bool inside(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage,
                   int64_t row, int64_t column, int64_t count) {
  if (buffer.holds(stage, row, column, count))
    return true;
  machine.fail(warp, step,
               fmt::format("accesses {} at [{}, {}, {}], outside of its {} x {} x {}", buffer.name, stage, row, column,
                           buffer.stages, buffer.rows, buffer.columns));
  return false;
}

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

Go sim::finishWarp(Machine &machine, Warp &warp, const Step &step) {
  auto left = [&](uint32_t op, const char *what) { return machine.fail(&warp, op, what, step.op); };
  for (const auto &group : warp.copyGroups)
    if (!group.empty())
      return left(group.front().op, "starts a copy that no wait_copies completes");
  if (!warp.copies.empty())
    return left(warp.copies.front().op, "starts a copy that no commit_copies puts in a group");
  if (!warp.boxes.empty() || !warp.boxGroups.empty())
    return left(warp.boxes.empty() ? warp.boxGroups.front().front().op : warp.boxes.front().op,
                "reads shared memory, and no wait_boxes completes it before the thread ends");
  if (!warp.products.empty() || !warp.productGroups.empty())
    for (const auto &group : warp.productGroups)
      if (!group.empty())
        return left(group.front().op, "starts an MMA that no mma_wait completes");
  if (!warp.products.empty())
    return left(warp.products.front().op, "starts an MMA that no mma_commit puts in a group");
  warp.state = Warp::State::Done;
  return Go::Block;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Go sim::threadId(Machine &, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, int32_t(warp.firstThread + lane));
  return Go::Next;
}

Go sim::elect(Machine &, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, lane == warp.elected);
  return Go::Next;
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

Go sim::sendMessage(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    const int64_t stage = warp.get<int32_t>(step.in[0], lane);
    if (!inside(machine, warp, step, buffer, stage, 0, 0, buffer.columns))
      return Go::Stop;
    const int64_t address = buffer.place(stage, 0, 0);
    if (std::optional<Fault> fault = machine.memory.write(machine.actor(warp, step, lane), address, 4 * buffer.columns))
      return machine.fail(warp, step, "writes", buffer, stage, *fault);
    for (int64_t i = 0; i < buffer.columns; ++i) {
      const int32_t value = i + 1 < step.inputs ? warp.get<int32_t>(step.in[i + 1], lane) : 0;
      std::memcpy(machine.memory.at(address + 4 * i), &value, 4);
    }
  }
  return Go::Next;
}

Go sim::receiveMessage(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    const int64_t stage = warp.get<int32_t>(step.in[0], lane);
    if (!inside(machine, warp, step, buffer, stage, 0, 0, buffer.columns))
      return Go::Stop;
    const int64_t address = buffer.place(stage, 0, 0);
    if (std::optional<Fault> fault = machine.memory.read(machine.actor(warp, step, lane), address, 4 * buffer.columns))
      return machine.fail(warp, step, "reads", buffer, stage, *fault);
    for (int64_t i = 0; i < step.number[0]; ++i) {
      int32_t value;
      std::memcpy(&value, machine.memory.at(address + 4 * i), 4);
      warp.set(step.out[i], lane, value);
    }
  }
  return Go::Next;
}

Go sim::anyLane(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  warp.set(step.out[0], 0, maskOf(warp, step.in[0]) != 0);
  return Go::Next;
}

Go sim::uniform(Machine &machine, Warp &warp, const Step &step) {
  int64_t value;
  if (!machine.converged(warp, step) || !machine.uniform(warp, step, 0, value))
    return Go::Stop;
  warp.set(step.out[0], 0, int32_t(value));
  return Go::Next;
}

Go sim::shuffleXor(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, warp.get<float>(step.in[0], lane ^ int(step.number[0])));
  return Go::Next;
}

Go sim::shuffle(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  const size_t bytes = size_t(step.number[0]);
  std::array<std::byte, 8 * lanes> values;
  for (int lane = 0; lane < lanes; ++lane) {
    const int32_t from = warp.get<int32_t>(step.in[1], lane);
    if (from < 0 || from >= lanes)
      return machine.fail(warp, step, fmt::format("takes the value of lane {}; a warp has {}", from, lanes));
    std::memcpy(&values[lane * bytes], warp.value(step.in[0]) + (step.in[0].varies ? from * bytes : 0), bytes);
  }
  std::memcpy(warp.value(step.out[0]), values.data(), lanes * bytes);
  return Go::Next;
}

Go sim::philox(Machine &, Warp &warp, const Step &step) {
  bool varies = step.out[0].varies;
  for (int lane = 0; lane < (varies ? lanes : 1); ++lane) {
    auto word = [&](int i) { return warp.get<uint32_t>(step.in[i], lane); };
    std::array<uint32_t, 4> random = philox7({word(0), word(1), word(2), word(3)}, {word(4), word(5)});
    for (int i = 0; i < 4; ++i)
      warp.set(step.out[i], lane, random[i]);
  }
  return Go::Next;
}

/// The results of a search.
static void foundTile(Warp &warp, const Step &step, int32_t tile, int32_t origin, uint32_t visible, uint32_t full) {
  warp.set(step.out[1], 0, tile);
  warp.set(step.out[2], 0, origin);
  warp.set(step.out[3], 0, int32_t(visible));
  warp.set(step.out[4], 0, int32_t(full));
}

Go sim::searchBegin(Machine &machine, Warp &warp, const Step &step) {
  int64_t from, bound;
  if (!machine.converged(warp, step) || !machine.uniform(warp, step, 0, from) || !machine.uniform(warp, step, 1, bound))
    return Go::Stop;
  if (step.inputs > 2) {
    std::array<int64_t, 3> seen;
    for (int i = 0; i < 3; ++i)
      if (!machine.uniform(warp, step, 2 + i, seen[i]))
        return Go::Stop;
    if (const int64_t place = from - seen[0]; place >= 0 && place < lanes) {
      if (const uint32_t ahead = uint32_t(seen[1]) >> place) {
        foundTile(warp, step, int32_t(from) + __builtin_ctz(ahead), int32_t(seen[0]), uint32_t(seen[1]),
                  uint32_t(seen[2]));
        return go(warp, step.target);
      }
      from = seen[0] + lanes;
    }
  }
  warp.set(step.out[0], 0, int32_t(std::min<int64_t>(from, std::numeric_limits<int32_t>::max())));
  return Go::Next;
}

Go sim::searchTurn(Machine &, Warp &warp, const Step &step) {
  const int64_t first = warp.get<int32_t>(step.out[0], 0);
  const int32_t bound = warp.get<int32_t>(step.in[0], 0);
  if (first >= bound) {
    foundTile(warp, step, bound, bound, 0, 0);
    for (int64_t part = 0; part < step.number[0]; ++part)
      warp.set(step.out[6 + part], 0, bound);
    return go(warp, step.target);
  }
  warp.mask = bound - first >= lanes ? allLanes : (1u << (bound - first)) - 1;
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[5], lane, int32_t(first + lane));
  return Go::Next;
}

Go sim::searchAnswer(Machine &, Warp &warp, const Step &step) {
  const int32_t first = warp.get<int32_t>(step.out[0], 0);
  const uint32_t asked = warp.mask, visible = asked & maskOf(warp, step.in[0]),
                 full = visible & maskOf(warp, step.in[1]);
  warp.mask = allLanes;
  if (visible) {
    foundTile(warp, step, first + __builtin_ctz(visible), first, visible, full);
    for (int part = 0; part + 2 < step.inputs; ++part) {
      const uint32_t shown = asked & maskOf(warp, step.in[2 + part]);
      warp.set(step.out[6 + part], 0, first + (shown ? __builtin_ctz(shown) : lanes));
    }
    return Go::Pause;
  }
  warp.set(step.out[0], 0, first + std::min(lanes, std::numeric_limits<int32_t>::max() - first));
  return go(warp, step.target);
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

Go sim::registers(Machine &machine, Warp &warp, const Step &step) {
  const RegisterBuffer &buffer = machine.program.registers[step.at[0]];
  RegisterState &state = warp.buffers[step.at[0]];
  if (state.underWay)
    return machine.fail(
        warp, step, fmt::format("makes {} anew while an asynchronous MMA on it is under way", buffer.name), state.op);
  state = {};
  std::fill_n(&warp.registers[buffer.first * lanes], buffer.size() * buffer.words * lanes, poison);
  return Go::Next;
}

Go sim::getElement(Machine &machine, Warp &warp, const Step &step) {
  const RegisterBuffer &buffer = machine.program.registers[step.at[0]];
  if (!machine.touch(warp, step, step.at[0]))
    return Go::Stop;
  bool varies = std::any_of(step.in.begin(), step.in.begin() + step.inputs, [](Slot slot) { return slot.varies; });
  int64_t at = varies ? 0 : machine.element(warp, step, buffer, step.in.data(), 0);
  if (at < 0)
    return Go::Stop;
  bool written = true;
  for (int lane = 0; lane < lanes; ++lane) {
    if (varies) {
      if (!warp.has(lane))
        continue;
      at = machine.element(warp, step, buffer, step.in.data(), lane);
      if (at < 0)
        return Go::Stop;
    }
    const uint32_t *word = &warp.registers[at + lane * buffer.words];
    written &= *word != poison || !warp.has(lane);
    if (buffer.element == Element::I64) {
      int64_t wide;
      std::memcpy(&wide, word, 8);
      warp.set(step.out[0], lane, wide);
    } else if (buffer.element == Element::Bool) {
      warp.set(step.out[0], lane, *word != 0);
    } else {
      warp.set(step.out[0], lane, *word);
    }
  }
  if (!written)
    return machine.fail(warp, step, fmt::format("reads an element of {} that nothing has written", buffer.name));
  return Go::Next;
}

Go sim::setElement(Machine &machine, Warp &warp, const Step &step) {
  const RegisterBuffer &buffer = machine.program.registers[step.at[0]];
  if (!machine.touch(warp, step, step.at[0]))
    return Go::Stop;
  bool varies = std::any_of(step.in.begin() + 1, step.in.begin() + step.inputs, [](Slot slot) { return slot.varies; });
  int64_t at = varies ? 0 : machine.element(warp, step, buffer, &step.in[1], 0);
  if (at < 0)
    return Go::Stop;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    if (varies && (at = machine.element(warp, step, buffer, &step.in[1], lane)) < 0)
      return Go::Stop;
    uint32_t *word = &warp.registers[at + lane * buffer.words];
    if (buffer.element == Element::I64) {
      int64_t wide = warp.get<int64_t>(step.in[0], lane);
      std::memcpy(word, &wide, 8);
    } else if (buffer.element == Element::Bool) {
      *word = warp.get<bool>(step.in[0], lane);
    } else {
      *word = warp.get<uint32_t>(step.in[0], lane);
    }
  }
  return Go::Next;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

Go sim::slice(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const Memory &tensor = machine.launch.tensors[view.tensor];
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    int64_t offset = warp.get<int64_t>(step.in[0], lane);
    for (int i = 1; i < step.inputs && offset != outside; ++i) {
      int32_t index = warp.get<int32_t>(step.in[i], lane);
      int d = view.dropped + i - 1;
      offset = index < 0 || index >= tensor.extents[d] ? outside : offset + index * tensor.strides[d];
    }
    warp.set(step.out[0], lane, offset);
  }
  return Go::Next;
}

Go sim::extent(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  int64_t extent = machine.launch.tensors[view.tensor].extents[view.dropped + step.number[0]];
  warp.set(step.out[0], 0, int32_t(std::min<int64_t>(extent, std::numeric_limits<int32_t>::max())));
  return Go::Next;
}

Go sim::isMapped(Machine &machine, Warp &warp, const Step &step) {
  warp.set(step.out[0], 0, (machine.launch.params->mapped >> step.at[0] & 1) != 0);
  return Go::Next;
}

Go sim::isNull(Machine &machine, Warp &warp, const Step &step) {
  warp.set(step.out[0], 0, machine.launch.tensors[machine.program.views[step.at[0]].tensor].data == nullptr);
  return Go::Next;
}

/// The base of a view in one lane, as a slot that `Machine::global` reads.
static Slot baseOf(Slot view, int lane) { return {view.at + (view.varies ? uint32_t(lane) * 8 : 0), false}; }

Go sim::loadElement(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const Memory &tensor = machine.launch.tensors[view.tensor];
  const int indexCount = step.inputs - 1;
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    if (step.out[0].varies && !warp.has(lane))
      continue;
    std::array<int64_t, 4> indices = {};
    for (int i = 0; i < indexCount; ++i) {
      indices[i] =
          step.at[1] >> i & 1 ? warp.get<int64_t>(step.in[1 + i], lane) : warp.get<int32_t>(step.in[1 + i], lane);
      if (!step.number[i])
        indices[i] = std::max<int64_t>(std::min(indices[i], tensor.extents[view.dropped + i] - 1), 0);
    }
    std::byte *from = machine.global(warp, step, view, baseOf(step.in[0], lane), indices, 1);
    if (!from)
      return Go::Stop;
    auto read = [&]<typename T>(T value) {
      std::memcpy(&value, from, sizeof(T));
      return value;
    };
    switch (machine.program.tensors[view.tensor].element) {
    case Element::F32:
      warp.set(step.out[0], lane, read(float()));
      break;
    case Element::BF16:
      warp.set(step.out[0], lane, fromBf16(read(uint16_t())));
      break;
    case Element::F16:
      warp.set(step.out[0], lane, fromF16(read(uint16_t())));
      break;
    case Element::I32:
      warp.set(step.out[0], lane, read(int32_t()));
      break;
    case Element::I64:
      warp.set(step.out[0], lane, read(int64_t()));
      break;
    case Element::Bool:
      warp.set(step.out[0], lane, read(uint8_t()) != 0);
      break;
    }
  }
  return Go::Next;
}

Go sim::touches(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const int rank = machine.program.tensors[view.tensor].rank - view.dropped;
  const int64_t *extents = &machine.launch.tensors[view.tensor].extents[view.dropped];
  const auto [tileRows, tileColumns, rows, columns] = step.number;
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    if (step.out[0].varies && !warp.has(lane))
      continue;
    std::array<int64_t, 4> indices = {};
    for (int i = 0; i < rank; ++i)
      indices[i] = warp.get<int32_t>(step.in[1 + i], lane);
    for (int i = 0; i + 2 < rank; ++i)
      if (extents[i] == 1) // one plane for all heads or batches
        indices[i] = 0;
    int64_t &i = indices[rank - 2], &j = indices[rank - 1];
    const int64_t row = i, column = j;
    const int64_t rowEnd = std::min((row + tileRows - 1) / rows + 1, extents[rank - 2]);
    const int64_t columnEnd = std::min((column + tileColumns - 1) / columns + 1, extents[rank - 1]);
    bool any = false;
    for (i = row / rows; i < rowEnd; ++i)
      for (j = column / columns; j < columnEnd; ++j) {
        const std::byte *block = machine.global(warp, step, view, baseOf(step.in[0], lane), indices, 1);
        if (!block)
          return Go::Stop;
        any |= *block != std::byte(0);
      }
    warp.set(step.out[0], lane, any);
  }
  return Go::Next;
}

Go sim::storeElement(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    std::array<int64_t, 4> indices = {};
    for (int i = 2; i < step.inputs; ++i)
      indices[i - 2] = warp.get<int32_t>(step.in[i], lane);
    std::byte *to = machine.global(warp, step, view, baseOf(step.in[1], lane), indices, 1);
    if (!to)
      return Go::Stop;
    float value = warp.get<float>(step.in[0], lane);
    Element element = machine.program.tensors[view.tensor].element;
    if (element == Element::F32) {
      std::memcpy(to, &value, 4);
    } else {
      uint16_t bits = element == Element::BF16 ? toBf16(value) : toF16(value);
      std::memcpy(to, &bits, 2);
    }
  }
  return Go::Next;
}

/// Fails on indices outside of a shared tile.
Go sim::copyToGlobal(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const View &view = machine.program.views[step.at[1]];
  const int64_t count = 16 / bytesOf(buffer.element);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    int64_t row = warp.get<int32_t>(step.in[0], lane), column = warp.get<int32_t>(step.in[1], lane);
    if (!inside(machine, warp, step, buffer, 0, row, column, count))
      return Go::Stop;
    int64_t from = buffer.place(0, row, column);
    if (std::optional<Fault> fault = machine.memory.read(machine.actor(warp, step, lane), from, 16))
      return machine.fail(warp, step, "reads", buffer, 0, *fault);
    std::byte *to = machine.global(warp, step, view, baseOf(step.in[2], lane),
                                   {warp.get<int32_t>(step.in[3], lane), column}, count);
    if (!to)
      return Go::Stop;
    std::memcpy(to, machine.memory.at(from), 16);
  }
  return Go::Next;
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

Go sim::copyAsync(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const View &view = machine.program.views[step.at[1]];
  const int64_t count = 16 / bytesOf(buffer.element);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    int64_t column = at(2), stage = at(3), row = at(4);
    if (!inside(machine, warp, step, buffer, stage, row, column, count))
      return Go::Stop;
    Copy copy{lane, buffer.place(stage, row, column), step.op, {}};
    if (warp.get<bool>(step.in[5], lane)) {
      const std::byte *from = machine.global(warp, step, view, baseOf(step.in[0], lane), {at(1), column}, count);
      if (!from)
        return Go::Stop;
      std::memcpy(copy.data.data(), from, 16);
    }
    if (std::optional<Fault> fault = machine.memory.startCopy(machine.actor(warp, step, lane), copy.to, 16, false))
      return machine.fail(warp, step, "fills", buffer, stage, *fault);
    warp.copies.push_back(copy);
  }
  return Go::Next;
}

Go sim::commitCopies(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  warp.copyGroups.push_back(std::move(warp.copies));
  warp.copies.clear();
  return Go::Next;
}

Go sim::waitCopies(Machine &machine, Warp &warp, const Step &step) {
  return machine.converged(warp, step) ? machine.completeCopies(warp, step, size_t(step.number[0])) : Go::Stop;
}

Go sim::barrier(Machine &machine, Warp &warp, const Step &step) {
  return machine.meet(warp, step, 0, machine.program.warps * lanes, true);
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

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
  state.by = {warp.index, warp.first(), warp.now, step.op};
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

/// The stage of a ring op, in `input`; false after a finding.
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
  // A fresh stage counts as emptied in the walk before the first.
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

/// Fails where the arrival of one lane would be for what other lanes have stored.
static bool arriveForOwn(Machine &machine, Warp &warp, const Step &step) {
  if (__builtin_popcount(warp.mask) == 1 && (warp.stored & ~warp.mask))
    machine.fail(
        warp, step,
        "arrives after stores of other lanes, which it does not hand on; a sync_lanes between them is missing");
  return !machine.finding;
}

Go sim::expectBytes(Machine &machine, Warp &warp, const Step &step) {
  int64_t stage;
  if (!arriveForOwn(machine, warp, step) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  int64_t threads = __builtin_popcount(warp.mask);
  machine.rings[step.at[0]].full[stage].bytes += threads * step.number[0];
  return machine.arrive(warp, step, stage, true, threads, machine.release(warp)) ? Go::Pause : Go::Stop;
}

Go sim::commit(Machine &machine, Warp &warp, const Step &step) {
  int64_t stage;
  if (!arriveForOwn(machine, warp, step) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  int64_t threads = __builtin_popcount(warp.mask);
  return machine.arrive(warp, step, stage, true, threads, machine.release(warp)) ? Go::Pause : Go::Stop;
}

Go sim::release(Machine &machine, Warp &warp, const Step &step) {
  int64_t stage;
  if (!machine.converged(warp, step) || !machine.ringReady(warp, step, warp.first()) ||
      !stageOf(machine, warp, step, step.at[0], 0, stage))
    return Go::Stop;
  return machine.arrive(warp, step, stage, false, step.number[0], machine.release(warp)) ? Go::Pause : Go::Stop;
}

Go sim::syncLanes(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  machine.meetLanes(warp);
  return Go::Next;
}

Go sim::syncWarps(Machine &machine, Warp &warp, const Step &step) {
  int64_t id;
  return machine.uniform(warp, step, 0, id) ? machine.meet(warp, step, id, step.number[0], true) : Go::Stop;
}

Go sim::arriveWarps(Machine &machine, Warp &warp, const Step &step) {
  int64_t id;
  return machine.uniform(warp, step, 0, id) ? machine.meet(warp, step, id, step.number[0], false) : Go::Stop;
}

//===----------------------------------------------------------------------===//
// The copy engine
//===----------------------------------------------------------------------===//

/// Fails where a panel of a shared tile does not start as the hardware's swizzle needs it: at a multiple of eight rows
/// of its own.
static bool aligned(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t address) {
  if (address % (8 * buffer.panel) == 0)
    return true;
  machine.fail(warp, step,
               fmt::format("takes {} from byte {}, which is not a multiple of {} as its swizzle needs", buffer.name,
                           address, 8 * buffer.panel));
  return false;
}

/// The element of a tensor at (batch, head, row, column), or null outside of it. Leading dimensions that it lacks have
/// extent 1.
static std::byte *boxElement(const Machine &machine, int tensor, std::array<int64_t, 4> at) {
  const Memory &memory = machine.launch.tensors[tensor];
  const int lacking = 4 - machine.program.tensors[tensor].rank;
  int64_t offset = 0;
  for (int d = 0; d < 4; ++d) {
    if (at[d] < 0 || at[d] >= (d < lacking ? 1 : memory.extents[d - lacking]))
      return nullptr;
    if (d >= lacking)
      offset += at[d] * memory.strides[d - lacking];
  }
  return memory.data + offset * bytesOf(machine.program.tensors[tensor].element);
}

/// Operands of load_box and store_box: position in the tensor, and place in shared memory with column `column`,
/// checked.
static bool boxOperands(Machine &machine, Warp &warp, const Step &step, int first, std::array<int64_t, 4> &at,
                        int64_t stage, int64_t row, int columnInput, int64_t &column) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  for (int i = 0; i < 4; ++i)
    if (!machine.uniform(warp, step, first + i, at[i]))
      return false;
  if (!machine.uniform(warp, step, columnInput, column) ||
      !inside(machine, warp, step, buffer, stage, row, column, map.columns) ||
      !inside(machine, warp, step, buffer, stage, row + map.rows - 1, column, map.columns))
    return false;
  if (column % map.columns) {
    machine.fail(warp, step,
                 fmt::format("starts at column {}, which is not the first of a panel of {}", column, map.columns));
    return false;
  }
  return aligned(machine, warp, step, buffer, buffer.place(stage, row / 8 * 8, column)) &&
         (row % 8 == 0 ||
          (machine.fail(warp, step,
                        fmt::format("takes {} from row {}, which is not a multiple of 8", buffer.name, row)),
           false));
}

Go sim::loadBox(Machine &machine, Warp &warp, const Step &step) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  Step onRing = step;
  onRing.at[0] = step.at[2];
  int64_t stage, first;
  std::array<int64_t, 4> at;
  if (!machine.single(warp, step) || !machine.uniform(warp, step, 4, stage) ||
      !machine.ringReady(warp, onRing, warp.first()) || !boxOperands(machine, warp, step, 0, at, stage, 0, 5, first))
    return Go::Stop;
  if (!(machine.launch.params->mapped >> step.at[0] & 1))
    return machine.fail(warp, step,
                        fmt::format("reads {}, which the launch has not described to the copy engine",
                                    machine.program.tensors[map.tensor].name));
  RingState &ring = machine.rings[step.at[2]];
  if (stage >= int64_t(ring.full.size()))
    return machine.fail(warp, step,
                        fmt::format("signals stage {} of {}, which has {}", stage,
                                    machine.program.rings[step.at[2]].name, ring.full.size()));
  if (!ring.fence || (ring.by.warp != warp.index && ring.fence > warp.knows(warp.first()).seen[ring.by.warp]))
    return machine.fail(warp, step,
                        fmt::format("signals {}, whose init_ring no fence_init has shown to the copy engine",
                                    machine.program.rings[step.at[2]].name),
                        ring.by.op);
  Landing landing{step.op, step.at[2], int(stage), {}, {}, 0};
  const int64_t bytes = bytesOf(buffer.element), chunk = 16 / bytes;
  landing.bytes = map.rows * map.columns * bytes;
  landing.data.resize(landing.bytes);
  std::byte *data = landing.data.data();
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; column += chunk) {
      landing.places.push_back({buffer.place(stage, row, first + column), 16});
      for (int64_t i = 0; i < chunk; ++i, data += bytes)
        if (const std::byte *from = boxElement(machine, map.tensor, {at[0], at[1], at[2] + row, at[3] + column + i}))
          std::memcpy(data, from, bytes);
    }
  for (const Bytes &place : landing.places)
    if (std::optional<Fault> fault =
            machine.memory.startCopy(machine.actor(warp, step, warp.first()), place.address, 16, true))
      return machine.fail(warp, step, "fills", buffer, stage, *fault);
  ++ring.full[stage].underWay;
  machine.landings.push_back(std::move(landing));
  return Go::Pause;
}

Go sim::storeBox(Machine &machine, Warp &warp, const Step &step) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  int64_t stage, first, firstColumn;
  std::array<int64_t, 4> at;
  if (!machine.single(warp, step) || !machine.uniform(warp, step, 0, stage) || !machine.uniform(warp, step, 1, first) ||
      !boxOperands(machine, warp, step, 2, at, stage, first, 5, firstColumn))
    return Go::Stop;
  BoxStore box{warp.first(), step.op, {}};
  const int64_t bytes = bytesOf(buffer.element), chunk = 16 / bytes;
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; column += chunk) {
      int64_t from = buffer.place(stage, first + row, firstColumn + column);
      if (std::optional<Fault> fault = machine.memory.startRead(machine.actor(warp, step, warp.first()), from, 16))
        return machine.fail(warp, step, "reads", buffer, stage, *fault);
      box.reads.push_back({from, 16});
      for (int64_t i = 0; i < chunk; ++i)
        if (std::byte *to = boxElement(machine, map.tensor, {at[0], at[1], at[2] + row, at[3] + column + i}))
          std::memcpy(to, machine.memory.at(from + i * bytes), bytes);
    }
  warp.boxes.push_back(std::move(box));
  return Go::Pause;
}

Go sim::addRows(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const View &view = machine.program.views[step.at[1]];
  int64_t stage, first, to;
  if (!machine.single(warp, step) || !machine.uniform(warp, step, 0, stage) || !machine.uniform(warp, step, 1, first) ||
      !machine.uniform(warp, step, 3, to))
    return Go::Stop;
  BoxStore box{warp.first(), step.op, {}};
  for (int64_t row = 0; row < step.number[0]; ++row) {
    if (!inside(machine, warp, step, buffer, stage, first + row, 0, buffer.columns))
      return Go::Stop;
    int64_t from = buffer.place(stage, first + row, 0);
    if (std::optional<Fault> fault =
            machine.memory.startRead(machine.actor(warp, step, warp.first()), from, buffer.rowBytes()))
      return machine.fail(warp, step, "reads", buffer, stage, *fault);
    box.reads.push_back({from, buffer.rowBytes()});
    std::byte *at = machine.global(warp, step, view, baseOf(step.in[2], warp.first()), {to + row, 0}, buffer.columns);
    if (!at)
      return Go::Stop;
    for (int64_t column = 0; column < buffer.columns; ++column) {
      float sum, term;
      std::memcpy(&sum, at + 4 * column, 4);
      std::memcpy(&term, machine.memory.at(from + 4 * column), 4);
      sum += term;
      std::memcpy(at + 4 * column, &sum, 4);
    }
  }
  warp.boxes.push_back(std::move(box));
  return Go::Pause;
}

Go sim::commitBoxes(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.single(warp, step))
    return Go::Stop;
  std::vector<BoxStore> group;
  for (BoxStore &box : warp.boxes)
    if (box.lane == warp.first())
      group.push_back(std::move(box));
  std::erase_if(warp.boxes, [&](const BoxStore &box) { return box.lane == warp.first(); });
  if (group.empty()) // an empty group counts as well
    group.push_back({warp.first(), step.op, {}});
  warp.boxGroups.push_back(std::move(group));
  return Go::Next;
}

Go sim::waitBoxes(Machine &machine, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane))
      machine.completeBoxes(warp, step, lane, size_t(step.number[0]));
  return Go::Pause;
}

Go sim::fenceAsync(Machine &, Warp &warp, const Step &) {
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane))
      warp.laneFences[lane] = warp.now;
  if (warp.mask == allLanes)
    warp.all.fenced[warp.index] = warp.some.fenced[warp.index] = warp.now;
  ++warp.now;
  return Go::Next;
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// Whether the lane's own address, moved by an exclusive or in the panel, by panels and by rows, is that of the place;
/// else a finding.
static bool stepsKeepSwizzle(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage,
                             int64_t row, int64_t column, int64_t rowStep, int64_t columnStep) {
  if (!buffer.panel)
    return true;
  const int64_t bytes = columnStep * bytesOf(buffer.element);
  const int64_t moved = (buffer.place(stage, row, column) ^ bytes % buffer.panel) +
                        bytes / buffer.panel * (buffer.rows * buffer.panel) + rowStep * buffer.panel;
  if (moved == buffer.place(stage, row + rowStep, column + columnStep))
    return true;
  machine.fail(warp, step,
               fmt::format("steps by [{}, {}] from [{}, {}], which the swizzle of {} does not allow", rowStep,
                           columnStep, row, column, buffer.name));
  return false;
}

Go sim::loadMatrix(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const RegisterBuffer &fragment = machine.program.registers[step.at[1]];
  if (!machine.converged(warp, step) || !machine.touch(warp, step, step.at[1]))
    return Go::Stop;
  int64_t i, j;
  if (!machine.uniform(warp, step, 5, i) || !machine.uniform(warp, step, 6, j))
    return Go::Stop;
  // Lane l gives row l % 8 of matrix l / 8.
  std::array<const std::byte *, lanes> rows;
  for (int lane = 0; lane < lanes; ++lane) {
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    int64_t stage = at(0), row = at(1) + at(3), column = at(2) + at(4);
    if (!inside(machine, warp, step, buffer, stage, row, column, 8) ||
        !inside(machine, warp, step, buffer, stage, at(1), at(2), 8))
      return Go::Stop;
    int64_t address = buffer.place(stage, row, column);
    if (!stepsKeepSwizzle(machine, warp, step, buffer, stage, at(1), at(2), at(3), at(4)))
      return Go::Stop;
    if (address % 16)
      return machine.fail(warp, step, fmt::format("reads a row at byte {}, which is not a multiple of 16", address));
    if (std::optional<Fault> fault = machine.memory.read(machine.actor(warp, step, Actor::wholeWarp), address, 16))
      return machine.fail(warp, step, "reads", buffer, stage, *fault);
    rows[lane] = machine.memory.at(address);
  }
  // Four registers in the order of the array: [i][j][0] on, then the next j, and past a row of one the next i.
  for (int r = 0; r < 4; ++r) {
    int64_t by = r / fragment.shape[2], e = r % fragment.shape[2];
    int64_t atI = fragment.shape[1] == 1 ? i + by : i, atJ = fragment.shape[1] == 1 ? j : j + by;
    if (atI < 0 || atI >= fragment.shape[0] || atJ < 0 || atJ >= fragment.shape[1])
      return machine.fail(warp, step,
                          fmt::format("writes {}[{}][{}], outside of its {} x {}", fragment.name, atI, atJ,
                                      fragment.shape[0], fragment.shape[1]));
    uint32_t *to = &warp.registers[(fragment.first + (atI * fragment.shape[1] + atJ) * fragment.shape[2] + e) * lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      int g = lane / 4, c = lane % 4;
      if (step.flag) {
        uint16_t low, high;
        std::memcpy(&low, rows[r * 8 + 2 * c] + 2 * g, 2);
        std::memcpy(&high, rows[r * 8 + 2 * c + 1] + 2 * g, 2);
        to[lane] = low | uint32_t(high) << 16;
      } else {
        std::memcpy(&to[lane], rows[r * 8 + g] + 4 * c, 4);
      }
    }
  }
  return Go::Next;
}

/// A lane's read of one word or two from shared memory, at a multiple of their bytes.
static Go readWords(Machine &machine, Warp &warp, const Step &step, int lane, int64_t stage, int64_t row,
                    int64_t column, int words) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const int64_t bytes = 4 * words, address = buffer.place(stage, row, column);
  if (address % bytes)
    return machine.fail(warp, step,
                        fmt::format("reads {} bytes at byte {}, which is not a multiple of {}",
                                    words == 1 ? "four" : "eight", address, bytes));
  if (std::optional<Fault> fault = machine.memory.read(machine.actor(warp, step, lane), address, bytes))
    return machine.fail(warp, step, "reads", buffer, stage, *fault);
  for (int word = 0; word < words; ++word) {
    uint32_t value;
    std::memcpy(&value, machine.memory.at(address + 4 * word), 4);
    warp.set(step.out[word], lane, value);
  }
  return Go::Next;
}

Go sim::loadShared(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    const int64_t row = at(1) + at(3), column = at(2) + at(4), count = 4 / bytesOf(buffer.element);
    if (!inside(machine, warp, step, buffer, at(0), row, column, count) ||
        !inside(machine, warp, step, buffer, at(0), at(1), at(2), count) ||
        !stepsKeepSwizzle(machine, warp, step, buffer, at(0), at(1), at(2), at(3), at(4)) ||
        readWords(machine, warp, step, lane, at(0), row, column, 1) == Go::Stop)
      return Go::Stop;
  }
  return Go::Next;
}

Go sim::loadPair(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    if (!inside(machine, warp, step, buffer, at(0), at(1), at(2), 2) ||
        readWords(machine, warp, step, lane, at(0), at(1), at(2), 2) == Go::Stop)
      return Go::Stop;
  }
  return Go::Next;
}

Go sim::storeShared(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    if (!inside(machine, warp, step, buffer, at(1), at(2), at(3), 4 / bytesOf(buffer.element)))
      return Go::Stop;
    int64_t address = buffer.place(at(1), at(2), at(3));
    if (address % 4)
      return machine.fail(warp, step,
                          fmt::format("writes four bytes at byte {}, which is not a multiple of 4", address));
    if (std::optional<Fault> fault = machine.memory.write(machine.actor(warp, step, lane), address, 4))
      return machine.fail(warp, step, "writes", buffer, at(1), *fault);
    warp.stored |= 1u << lane;
    uint32_t value = warp.get<uint32_t>(step.in[0], lane);
    std::memcpy(machine.memory.at(address), &value, 4);
  }
  return Go::Next;
}

Go sim::scaleShared(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const float factor = std::ldexp(1.0f, int(step.number[0]));
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    if (!inside(machine, warp, step, buffer, at(0), at(1), at(2), 8))
      return Go::Stop;
    const int64_t address = buffer.place(at(0), at(1), at(2));
    if (address % 16)
      return machine.fail(warp, step,
                          fmt::format("multiplies 16 bytes at byte {}, which is not a multiple of 16", address));
    const Actor actor = machine.actor(warp, step, lane);
    if (std::optional<Fault> fault = machine.memory.read(actor, address, 16))
      return machine.fail(warp, step, "reads", buffer, at(0), *fault);
    if (std::optional<Fault> fault = machine.memory.write(actor, address, 16))
      return machine.fail(warp, step, "writes", buffer, at(0), *fault);
    warp.stored |= 1u << lane;
    for (int i = 0; i < 8; ++i) {
      uint16_t element;
      std::memcpy(&element, machine.memory.at(address + 2 * i), 2);
      element = toBf16(fromBf16(element) * factor);
      std::memcpy(machine.memory.at(address + 2 * i), &element, 2);
    }
  }
  return Go::Next;
}

Go sim::storeMatrix(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  if (!machine.converged(warp, step))
    return Go::Stop;
  // Lane l gives row l % 8 of matrix l / 8.
  for (int lane = 0; lane < lanes; ++lane) {
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    if (!inside(machine, warp, step, buffer, at(4), at(5), at(6), 8))
      return Go::Stop;
    int64_t address = buffer.place(at(4), at(5), at(6));
    if (address % 16)
      return machine.fail(warp, step, fmt::format("writes a row at byte {}, which is not a multiple of 16", address));
    if (std::optional<Fault> fault = machine.memory.write(machine.actor(warp, step, Actor::wholeWarp), address, 16))
      return machine.fail(warp, step, "writes", buffer, at(4), *fault);
    for (int c = 0; c < 4; ++c) {
      uint32_t pair = warp.get<uint32_t>(step.in[lane / 8], lane % 8 * 4 + c);
      std::memcpy(machine.memory.at(address + 4 * c), &pair, 4);
    }
  }
  return Go::Next;
}

static float widen(Element element, uint16_t bits) { return element == Element::BF16 ? fromBf16(bits) : fromF16(bits); }

/// d[16][columns] += a[16][depth] * b[depth][columns].
template <int depth> static void multiply(float *d, const float (&a)[16][depth], const float *b, int64_t columns) {
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < depth; ++k)
      for (int64_t column = 0; column < columns; ++column)
        d[row * columns + column] += a[row][k] * b[k * columns + column];
}

/// The warp's 16 x 16 of an a fragment of pairs, from register `first` on.
static void unpackLeft(const uint32_t *first, Element element, float (&a)[16][16]) {
  for (int e = 0; e < 4; ++e)
    for (int lane = 0; lane < lanes; ++lane) {
      uint32_t pair = first[e * lanes + lane];
      float *at = &a[lane / 4 + 8 * (e % 2)][8 * (e / 2) + 2 * (lane % 4)];
      at[0] = widen(element, uint16_t(pair));
      at[1] = widen(element, uint16_t(pair >> 16));
    }
}

/// Between c fragments, [columns / 8][4] registers from `first` on, and d[16][columns].
static void unpackSum(const uint32_t *first, int64_t columns, float *d) {
  for (int64_t e = 0; e < columns / 2; ++e)
    for (int lane = 0; lane < lanes; ++lane)
      d[(lane / 4 + 8 * (e % 4 / 2)) * columns + e / 4 * 8 + 2 * (lane % 4) + e % 2] =
          std::bit_cast<float>(first[e * lanes + lane]);
}
static void packSum(const float *d, int64_t columns, uint32_t *first) {
  for (int64_t e = 0; e < columns / 2; ++e)
    for (int lane = 0; lane < lanes; ++lane)
      first[e * lanes + lane] =
          std::bit_cast<uint32_t>(d[(lane / 4 + 8 * (e % 4 / 2)) * columns + e / 4 * 8 + 2 * (lane % 4) + e % 2]);
}

Go sim::mma(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  std::array<uint32_t *, 3> first;
  for (int operand = 0; operand < 3; ++operand) {
    const RegisterBuffer &buffer = machine.program.registers[step.at[operand]];
    if (!machine.touch(warp, step, step.at[operand]))
      return Go::Stop;
    int64_t i, j;
    if (!machine.uniform(warp, step, 2 * operand, i) || !machine.uniform(warp, step, 2 * operand + 1, j))
      return Go::Stop;
    if (i < 0 || i >= buffer.shape[0] || j < 0 || j >= buffer.shape[1])
      return machine.fail(
          warp, step,
          fmt::format("takes {}[{}][{}], outside of its {} x {}", buffer.name, i, j, buffer.shape[0], buffer.shape[1]));
    first[operand] = &warp.registers[(buffer.first + (i * buffer.shape[1] + j) * buffer.shape[2]) * lanes];
  }
  const Element element = machine.program.registers[step.at[1]].element;
  float d[16 * 8];
  unpackSum(first[0], 8, d);
  if (element == Element::I32) { // tf32, m16n8k8
    float a[16][8], b[8 * 8];
    for (int e = 0; e < 4; ++e)
      for (int lane = 0; lane < lanes; ++lane)
        a[lane / 4 + 8 * (e % 2)][lane % 4 + 4 * (e / 2)] = std::bit_cast<float>(first[1][e * lanes + lane] & ~0x1fffu);
    for (int e = 0; e < 2; ++e)
      for (int lane = 0; lane < lanes; ++lane)
        b[(lane % 4 + 4 * e) * 8 + lane / 4] = std::bit_cast<float>(first[2][e * lanes + lane] & ~0x1fffu);
    multiply<8>(d, a, b, 8);
  } else {
    float a[16][16], b[16 * 8];
    unpackLeft(first[1], element, a);
    for (int e = 0; e < 2; ++e)
      for (int lane = 0; lane < lanes; ++lane) {
        uint32_t pair = first[2][e * lanes + lane];
        float *at = &b[(8 * e + 2 * (lane % 4)) * 8 + lane / 4];
        at[0] = widen(element, uint16_t(pair));
        at[8] = widen(element, uint16_t(pair >> 16));
      }
    multiply<16>(d, a, b, 8);
  }
  packSum(d, 8, first[0]);
  return Go::Next;
}

Go sim::mmaAsync(Machine &machine, Warp &warp, const Step &step) {
  const RegisterBuffer &acc = machine.program.registers[step.at[0]];
  const SharedBuffer &right = machine.program.shared[step.at[2]];
  const bool leftShared = step.number[0];
  const int64_t columns = acc.shape[1] * 8;
  if (!machine.converged(warp, step))
    return Go::Stop;
  std::array<int64_t, 7> at = {};
  for (int i = 0; i < step.inputs; ++i)
    if (i != 3 && !machine.uniform(warp, step, i, at[i]))
      return Go::Stop;
  const bool accumulate = warp.get<bool>(step.in[3], 0);
  const int64_t stage = at[0], row = at[1], column = at[2];

  Product product{step.op, {step.at[0], leftShared ? -1 : step.at[1]}, {}};
  for (int buffer : product.registers)
    if (buffer >= 0 && warp.buffers[buffer].touched)
      return machine.fail(warp, step,
                          fmt::format("uses {} without an mma_fence since ordinary instructions touched it",
                                      machine.program.registers[buffer].name));

  const Element element = right.element;
  auto read = [&](const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c,
                  std::array<uint16_t, 8> &chunk) {
    int64_t address = buffer.place(bufferStage, r, c);
    if (std::optional<Fault> fault =
            machine.memory.startRead(machine.actor(warp, step, Actor::wholeWarp), address, 16)) {
      machine.fail(warp, step, "reads", buffer, bufferStage, *fault);
      return false;
    }
    product.reads.push_back({address, 16});
    std::memcpy(chunk.data(), machine.memory.at(address), 16);
    return true;
  };
  auto starts = [&](const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c, int64_t rows,
                    int64_t count) {
    if (!inside(machine, warp, step, buffer, bufferStage, r, c, count) ||
        !inside(machine, warp, step, buffer, bufferStage, r + rows - 1, c, count))
      return false;
    if (r % 8 || c % 16) {
      machine.fail(warp, step,
                   fmt::format("takes {} from row {}, column {}; rows start at multiples of 8, columns of 16",
                               buffer.name, r, c));
      return false;
    }
    return aligned(machine, warp, step, buffer, buffer.place(bufferStage, r, 0));
  };
  std::array<uint16_t, 8> chunk;

  // A warp's 16 of the warpgroup's 64 rows.
  float a[16][16];
  if (leftShared) {
    const SharedBuffer &left = machine.program.shared[step.at[1]];
    int64_t first = at[5] + warp.firstThread / lanes % 4 * 16;
    if (!starts(left, at[4], at[5], at[6], 64, 16))
      return Go::Stop;
    for (int r = 0; r < 16; ++r)
      for (int half = 0; half < 2; ++half) {
        if (!read(left, at[4], first + r, at[6] + 8 * half, chunk))
          return Go::Stop;
        for (int i = 0; i < 8; ++i)
          a[r][8 * half + i] = widen(element, chunk[i]);
      }
  } else {
    const RegisterBuffer &left = machine.program.registers[step.at[1]];
    if (at[4] < 0 || at[4] >= left.shape[0] || at[5] < 0 || at[5] >= left.shape[1])
      return machine.fail(warp, step,
                          fmt::format("takes {}[{}][{}], outside of its {} x {}", left.name, at[4], at[5],
                                      left.shape[0], left.shape[1]));
    unpackLeft(&warp.registers[(left.first + (at[4] * left.shape[1] + at[5]) * 4) * lanes], element, a);
  }

  std::vector<float> b(16 * columns), d(16 * columns);
  if (step.flag) { // stored as [contracted][columns]
    if (!starts(right, stage, row, column, 16, columns))
      return Go::Stop;
    for (int64_t k = 0; k < 16; ++k)
      for (int64_t n = 0; n < columns; n += 8) {
        if (!read(right, stage, row + k, column + n, chunk))
          return Go::Stop;
        for (int i = 0; i < 8; ++i)
          b[k * columns + n + i] = widen(element, chunk[i]);
      }
  } else {
    if (!starts(right, stage, row, column, columns, 16))
      return Go::Stop;
    for (int64_t n = 0; n < columns; ++n)
      for (int half = 0; half < 2; ++half) {
        if (!read(right, stage, row + n, column + 8 * half, chunk))
          return Go::Stop;
        for (int i = 0; i < 8; ++i)
          b[(8 * half + i) * columns + n] = widen(element, chunk[i]);
      }
  }
  uint32_t *sum = &warp.registers[acc.first * lanes];
  if (accumulate)
    unpackSum(sum, columns, d.data());
  multiply<16>(d.data(), a, b.data(), columns);
  packSum(d.data(), columns, sum);
  for (int buffer : product.registers)
    if (buffer >= 0) {
      ++warp.buffers[buffer].underWay;
      warp.buffers[buffer].op = step.op;
    }
  warp.products.push_back(std::move(product));
  return Go::Next;
}

Go sim::mmaFence(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  for (RegisterState &state : warp.buffers)
    state.touched = false;
  return Go::Next;
}

Go sim::mmaCommit(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  warp.productGroups.push_back(std::move(warp.products));
  warp.products.clear();
  return Go::Pause;
}

Go sim::mmaWait(Machine &machine, Warp &warp, const Step &step) {
  return machine.converged(warp, step) ? machine.completeProducts(warp, step, size_t(step.number[0])) : Go::Stop;
}

Go sim::mmaComplete(Machine &machine, Warp &warp, const Step &step) {
  RegisterState &state = warp.buffers[step.at[0]];
  if (state.underWay)
    return machine.fail(
        warp, step,
        fmt::format("names {}, whose MMA may still be under way", machine.program.registers[step.at[0]].name),
        state.op);
  state.unnamed = false;
  return Go::Next;
}
