//===- WarpSteps.cpp - Votes, shuffles, messages and barriers -------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include "codegen/sim/Numbers.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

Go sim::threadId(Machine &, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, int32_t(warp.firstThread + lane));
  return Go::Next;
}

Go sim::laneId(Machine &, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, int32_t(lane));
  return Go::Next;
}

Go sim::elect(Machine &, Warp &warp, const Step &step) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.set(step.out[0], lane, lane == warp.elected);
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

Go sim::ballot(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  warp.set(step.out[0], 0, int32_t(maskOf(warp, step.in[0])));
  return Go::Pause;
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

/// Sets each lane's output to the input value of lane `from(lane)`.
template <typename From> static void gather(Warp &warp, const Step &step, size_t bytes, From from) {
  std::array<std::byte, 8 * lanes> values;
  for (int lane = 0; lane < lanes; ++lane)
    std::memcpy(&values[lane * bytes], warp.value(step.in[0]) + (step.in[0].varies ? from(lane) * bytes : 0), bytes);
  std::memcpy(warp.value(step.out[0]), values.data(), lanes * bytes);
}

Go sim::shuffleXor(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  gather(warp, step, size_t(step.number[1]), [&](int lane) { return lane ^ int(step.number[0]); });
  return Go::Next;
}

Go sim::shuffle(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  for (int lane = 0; lane < lanes; ++lane)
    if (const int32_t from = warp.get<int32_t>(step.in[1], lane); from < 0 || from >= lanes)
      return machine.fail(warp, step, fmt::format("takes the value of lane {}; a warp has {}", from, lanes));
  gather(warp, step, size_t(step.number[0]), [&](int lane) { return warp.get<int32_t>(step.in[1], lane); });
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

Go sim::barrier(Machine &machine, Warp &warp, const Step &step) {
  return machine.synchronize(warp, step, 0, machine.program.warps * lanes, true);
}

Go sim::syncLanes(Machine &machine, Warp &warp, const Step &step) {
  if (!machine.converged(warp, step))
    return Go::Stop;
  machine.synchronizeLanes(warp);
  return Go::Next;
}

Go sim::syncWarps(Machine &machine, Warp &warp, const Step &step) {
  int64_t id;
  return machine.uniform(warp, step, 0, id) ? machine.synchronize(warp, step, id, step.number[0], true) : Go::Stop;
}

Go sim::arriveWarps(Machine &machine, Warp &warp, const Step &step) {
  int64_t id;
  return machine.uniform(warp, step, 0, id) ? machine.synchronize(warp, step, id, step.number[0], false) : Go::Stop;
}
