//===- CopySteps.cpp - Copies between global and shared memory ------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

/// Each active lane copies 16 bytes from a shared tile to a tensor.
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

Go sim::copyAsync(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const View &view = machine.program.views[step.at[1]];
  const int64_t bytes = step.number[0], count = bytes / bytesOf(buffer.element);
  for (int lane = 0; lane < lanes; ++lane) {
    if (!warp.has(lane))
      continue;
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    int64_t column = at(2), stage = at(3), row = at(4);
    if (!inside(machine, warp, step, buffer, stage, row, column, count))
      return Go::Stop;
    Copy copy{lane, buffer.place(stage, row, column), step.op, bytes, {}};
    if (warp.get<bool>(step.in[5], lane)) {
      const std::byte *from = machine.global(warp, step, view, baseOf(step.in[0], lane), {at(1), column}, count);
      if (!from)
        return Go::Stop;
      std::memcpy(copy.data.data(), from, size_t(bytes));
    }
    if (std::optional<Fault> fault = machine.memory.startCopy(machine.actor(warp, step, lane), copy.to, bytes, false))
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

/// The address of a tensor's element (batch, head, row, column), or null where the indices are out of bounds or the row
/// is not below `limit`. A tensor of lower rank is treated as having leading dimensions of extent 1.
static std::byte *boxElement(const Machine &machine, int tensor, int64_t limit, std::array<int64_t, 4> at) {
  if (at[2] >= limit)
    return nullptr;
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

/// Reads and checks the operands of load_box and store_box. `at` becomes the box's position in the tensor: the values
/// of the step's inputs `first` to `first` + 3. `column` becomes the box's column in shared memory: the value of the
/// input `columnInput`.
static bool boxOperands(Machine &machine, Warp &warp, const Step &step, int first, std::array<int64_t, 4> &at,
                        int64_t stage, int64_t row, int columnInput, int64_t &column) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  for (int i = 0; i < 4; ++i)
    if (!machine.uniform(warp, step, first + i, at[i]))
      return false;
  if (!machine.uniform(warp, step, columnInput, column))
    return false;
  // The last swizzle panel of a tile's row may be partly empty; the TMA box is as wide as the whole panel.
  const int64_t columns = std::clamp<int64_t>(buffer.columns - column, 1, map.columns);
  if (!inside(machine, warp, step, buffer, stage, row, column, columns) ||
      !inside(machine, warp, step, buffer, stage, row + map.rows - 1, column, columns))
    return false;
  if (column % map.columns) {
    machine.fail(warp, step,
                 fmt::format("starts at column {}, which is not the first of a panel of {}", column, map.columns));
    return false;
  }
  return aligned(machine, warp, step, buffer, buffer.place(stage, row / 8 * 8, column)) &&
         (row % 8 == 0 || map.panel == 128 ||
          (machine.fail(warp, step,
                        fmt::format("takes {} from row {}, which is not a multiple of 8", buffer.name, row)),
           false));
}

/// Reads the limit of a box's rows, the step's last input, where it has one, and checks that the box has a row before it.
static bool boxLimit(Machine &machine, Warp &warp, const Step &step, int rowInput, int64_t &limit) {
  limit = std::numeric_limits<int64_t>::max();
  int64_t row = 0;
  if (!step.number[0])
    return true;
  if (!machine.uniform(warp, step, step.inputs - 1, limit) || !machine.uniform(warp, step, rowInput, row))
    return false;
  if (row < limit)
    return true;
  machine.fail(warp, step,
               fmt::format("has no row before its limit: it begins at row {}, the limit is {}", row, limit));
  return false;
}

Go sim::loadBox(Machine &machine, Warp &warp, const Step &step) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  Step onRing = step;
  onRing.at[0] = step.at[2];
  int64_t stage, first, limit, sharedRow = 0;
  std::array<int64_t, 4> at;
  if (!machine.single(warp, step) || !machine.uniform(warp, step, 4, stage) ||
      (step.inputs - step.number[0] > 6 && !machine.uniform(warp, step, 6, sharedRow)) ||
      !boxLimit(machine, warp, step, /*rowInput=*/2, limit) || !machine.ringReady(warp, onRing, warp.first()) ||
      !boxOperands(machine, warp, step, 0, at, stage, sharedRow, 5, first))
    return Go::Stop;
  if (!(machine.launch.params->mapped >> map.number & 1))
    return machine.fail(
        warp, step,
        fmt::format("reads {}, which the launch has not described to TMA", machine.program.tensors[map.tensor].name));
  RingState &ring = machine.rings[step.at[2]];
  if (stage >= int64_t(ring.full.size()))
    return machine.fail(warp, step,
                        fmt::format("signals stage {} of {}, which has {}", stage,
                                    machine.program.rings[step.at[2]].name, ring.full.size()));
  const bool isOwn = ring.by.warp == warp.index && warp.has(ring.by.lane);
  if (!ring.fence || (!isOwn && ring.fence > warp.knows(warp.first()).seen[ring.by.agent()]))
    return machine.fail(warp, step,
                        fmt::format("signals {}, whose init_ring no fence_init has shown to TMA",
                                    machine.program.rings[step.at[2]].name),
                        ring.by.op);
  Landing landing{step.op, step.at[2], int(stage), {}, {}, 0};
  const int64_t bytes = bytesOf(buffer.element), chunk = 16 / bytes;
  landing.bytes = map.rows * map.columns * bytes;
  landing.data.resize(landing.bytes);
  std::byte *data = landing.data.data();
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; column += chunk) {
      landing.places.push_back({buffer.place(stage, sharedRow + row, first + column), 16});
      for (int64_t i = 0; i < chunk; ++i, data += bytes)
        if (const std::byte *from =
                boxElement(machine, map.tensor, limit, {at[0], at[1], at[2] + row, at[3] + column + i}))
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

static void addFloat(std::byte *to, const std::byte *from) {
  float sum, term;
  std::memcpy(&sum, to, 4);
  std::memcpy(&term, from, 4);
  sum += term;
  std::memcpy(to, &sum, 4);
}

Go sim::storeBox(Machine &machine, Warp &warp, const Step &step) {
  const TensorMap &map = machine.program.maps[step.at[0]];
  const SharedBuffer &buffer = machine.program.shared[step.at[1]];
  int64_t stage, first, firstColumn, limit;
  std::array<int64_t, 4> at;
  if (!machine.single(warp, step) || !machine.uniform(warp, step, 0, stage) || !machine.uniform(warp, step, 1, first) ||
      !boxLimit(machine, warp, step, /*rowInput=*/4, limit) ||
      !boxOperands(machine, warp, step, 2, at, stage, first, 6, firstColumn))
    return Go::Stop;
  BoxStore box{warp.first(), step.op, {}};
  const int64_t bytes = bytesOf(buffer.element), chunk = 16 / bytes;
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; column += chunk) {
      // TMA does not read shared memory for elements that are out of the tensor's bounds.
      std::byte *to[8] = {};
      for (int64_t i = 0; i < chunk; ++i)
        to[i] = boxElement(machine, map.tensor, limit, {at[0], at[1], at[2] + row, at[3] + column + i});
      if (std::ranges::count(to, nullptr) == std::ssize(to))
        continue;
      int64_t from = buffer.place(stage, first + row, firstColumn + column);
      if (std::optional<Fault> fault = machine.memory.startRead(machine.actor(warp, step, warp.first()), from, 16))
        return machine.fail(warp, step, "reads", buffer, stage, *fault);
      box.reads.push_back({from, 16});
      for (int64_t i = 0; i < chunk; ++i)
        if (to[i])
          step.flag ? addFloat(to[i], machine.memory.at(from + i * bytes))
                    : void(std::memcpy(to[i], machine.memory.at(from + i * bytes), bytes));
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
    for (int64_t column = 0; column < buffer.columns; ++column)
      addFloat(at + 4 * column, machine.memory.at(from + 4 * column));
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
  if (group.empty()) // an empty group also counts towards the `pending` of wait_boxes
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
      warp.fences[size_t(lane)] = warp.now;
  ++warp.now;
  return Go::Next;
}
