//===- ElementSteps.cpp - Elements of register buffers and views ----------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include "codegen/sim/Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

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

Go sim::isNull(Machine &machine, Warp &warp, const Step &step) {
  warp.set(step.out[0], 0, machine.launch.tensors[machine.program.views[step.at[0]].tensor].data == nullptr);
  return Go::Next;
}

template <typename T> static T elementAt(Element element, const std::byte *from) {
  auto read = [&]<typename Stored>(Stored value) {
    std::memcpy(&value, from, sizeof(Stored));
    return value;
  };
  switch (element) {
  case Element::F32:
    return T(read(float()));
  case Element::BF16:
    return T(fromBf16(read(uint16_t())));
  case Element::F16:
    return T(fromF16(read(uint16_t())));
  case Element::I32:
    return T(read(int32_t()));
  case Element::I64:
    return T(read(int64_t()));
  case Element::Bool:
    return T(read(uint8_t()) != 0);
  }
  return {};
}

Go sim::loadElement(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const Memory &tensor = machine.launch.tensors[view.tensor];
  const int indexCount = step.inputs - 1;
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    if (step.out[0].varies && !warp.has(lane))
      continue;
    std::array<int64_t, maxRank> indices = {};
    for (int i = 0; i < indexCount; ++i) {
      indices[i] =
          step.at[1] >> i & 1 ? warp.get<int64_t>(step.in[1 + i], lane) : warp.get<int32_t>(step.in[1 + i], lane);
      if (!step.number[i])
        indices[i] = std::max<int64_t>(std::min(indices[i], tensor.extents[view.dropped + i] - 1), 0);
    }
    std::byte *from = machine.global(warp, step, view, baseOf(step.in[0], lane), indices, 1);
    if (!from)
      return Go::Stop;
    switch (const Element element = machine.program.tensors[view.tensor].element) {
    case Element::F32:
    case Element::BF16:
    case Element::F16:
      warp.set(step.out[0], lane, elementAt<float>(element, from));
      break;
    case Element::I32:
      warp.set(step.out[0], lane, elementAt<int32_t>(element, from));
      break;
    case Element::I64:
      warp.set(step.out[0], lane, elementAt<int64_t>(element, from));
      break;
    case Element::Bool:
      warp.set(step.out[0], lane, elementAt<bool>(element, from));
      break;
    }
  }
  return Go::Next;
}

/// Executes tile.search, a binary search in a sorted vector, for a value x of type T. number[0]: the rows of a tile
/// where elements count as numbers of tiles, else 0.
template <typename T> static Go searchAs(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const Element element = machine.program.tensors[view.tensor].element;
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    if (step.out[0].varies && !warp.has(lane))
      continue;
    const T x = warp.get<T>(step.in[1], lane);
    int64_t low = 0, high = machine.launch.tensors[view.tensor].extents[0];
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const std::byte *from = machine.global(warp, step, view, baseOf(step.in[0], lane), {middle}, 1);
      if (!from)
        return Go::Stop;
      T at = elementAt<T>(element, from);
      if (const int64_t rows = step.number[0])
        at = T(int64_t(at) / rows + middle);
      if (dsl::isBefore(at, x, step.flag))
        low = middle + 1;
      else
        high = middle;
    }
    warp.set(step.out[0], lane, int32_t(low));
  }
  return Go::Next;
}

Go sim::searchElements(Machine &machine, Warp &warp, const Step &step) {
  const Element element = machine.program.tensors[machine.program.views[step.at[0]].tensor].element;
  return element == Element::I32   ? searchAs<int32_t>(machine, warp, step)
         : element == Element::I64 ? searchAs<int64_t>(machine, warp, step)
                                   : searchAs<float>(machine, warp, step);
}

/// The indices of a lane's element in a view: the int32 inputs of `step` from number `first` on, each plus the offset
/// in View::begins.
static std::array<int64_t, maxRank> indicesAt(Warp &warp, const Step &step, const View &view, int first, int lane) {
  std::array<int64_t, maxRank> indices = {};
  for (int i = first; i < step.inputs; ++i)
    indices[i - first] = warp.get<int32_t>(step.in[i], lane);
  for (size_t i = 0; i < view.begins.size(); ++i)
    indices[i] += warp.get<int32_t>(view.begins[i], lane);
  return indices;
}

/// Calls `body(lane, address)` for each active lane, with the address of `count` consecutive elements of a view; with
/// `laneCount` 1, once for a uniform access. Input number `first` of the step is the view's base offset, the inputs
/// after `first` are the indices.
template <typename Body>
static Go forEachPlace(Machine &machine, Warp &warp, const Step &step, int first, int count, int laneCount, Body body) {
  const View &view = machine.program.views[step.at[0]];
  for (int lane = 0; lane < laneCount; ++lane) {
    if (laneCount > 1 && !warp.has(lane))
      continue;
    std::byte *at = machine.global(warp, step, view, baseOf(step.in[first], lane),
                                   indicesAt(warp, step, view, first + 1, lane), count);
    if (!at)
      return Go::Stop;
    body(lane, at);
  }
  return Go::Next;
}

Go sim::inPairs(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const sim::Tensor &tensor = machine.program.tensors[view.tensor];
  const Memory &at = machine.launch.tensors[view.tensor];
  const int last = tensor.rank - 1;
  const int64_t count = step.number[0];
  bool inPairs = at.strides[last] == 1 && at.extents[last] % count == 0 &&
                 reinterpret_cast<uintptr_t>(at.data) % uintptr_t(count * bytesOf(tensor.element)) == 0;
  for (int d = 0; d < last; ++d)
    inPairs &= at.strides[d] % count == 0;
  warp.set(step.out[0], 0, inPairs);
  return Go::Next;
}

/// Calls forEachPlace for accesses to `count` (two, four or eight) elements by one instruction. Checks that the last
/// dimension has stride 1 and that each address is a multiple of the access's size.
template <typename Body>
static Go forEachGroup(Machine &machine, Warp &warp, const Step &step, int first, int count, int laneCount, Body body) {
  const sim::Tensor &tensor = machine.program.tensors[machine.program.views[step.at[0]].tensor];
  const int64_t bytes = count * bytesOf(tensor.element);
  const char *what = count == 2 ? "a pair" : count == 4 ? "four elements" : "eight elements";
  if (machine.launch.tensors[machine.program.views[step.at[0]].tensor].strides[tensor.rank - 1] != 1)
    return machine.fail(warp, step, fmt::format("accesses {} of {}, whose columns are apart", what, tensor.name));
  bool isAligned = true;
  Go go = forEachPlace(machine, warp, step, first, count, laneCount, [&](int lane, std::byte *at) {
    isAligned &= reinterpret_cast<uintptr_t>(at) % bytes == 0;
    body(lane, at);
  });
  if (go == Go::Next && !isAligned)
    return machine.fail(warp, step,
                        fmt::format("accesses {} of {} at no multiple of its {} bytes", what, tensor.name, bytes));
  return go;
}

static float widened(Element element, const std::byte *from) {
  if (element == Element::F32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return element == Element::BF16 ? fromBf16(bits) : fromF16(bits);
}

static void storeFloat(Element element, float value, std::byte *to) {
  if (element == Element::F32) {
    std::memcpy(to, &value, 4);
    return;
  }
  const uint16_t bits = element == Element::BF16 ? toBf16(value) : toF16(value);
  std::memcpy(to, &bits, 2);
}

Go sim::loadElements(Machine &machine, Warp &warp, const Step &step) {
  const Element element = machine.program.tensors[machine.program.views[step.at[0]].tensor].element;
  const int count = step.at[1];
  auto load = [&](int lane, const std::byte *from) {
    for (int i = 0; i < count; ++i)
      warp.set(step.out[i], lane, widened(element, from + i * bytesOf(element)));
  };
  return forEachGroup(machine, warp, step, 0, count, step.out[0].varies ? lanes : 1, load);
}

Go sim::storeElements(Machine &machine, Warp &warp, const Step &step) {
  const Element element = machine.program.tensors[machine.program.views[step.at[0]].tensor].element;
  const int count = step.at[1];
  return forEachGroup(machine, warp, step, count, count, lanes, [&](int lane, std::byte *to) {
    for (int i = 0; i < count; ++i)
      storeFloat(element, warp.get<float>(step.in[i], lane), to + i * bytesOf(element));
  });
}

Go sim::storeEights(Machine &machine, Warp &warp, const Step &step) {
  const Element element = machine.program.tensors[machine.program.views[step.at[0]].tensor].element;
  return forEachGroup(machine, warp, step, 9, 8, lanes, [&](int lane, std::byte *to) {
    const int block = warp.get<int>(step.in[8], lane);
    for (int i = 0; i < 8; ++i)
      storeFloat(element, warp.get<float>(step.in[2 * block + i % 2], lane / 4 * 4 + i / 2), to + 2 * i);
  });
}

Go sim::storeElement(Machine &machine, Warp &warp, const Step &step) {
  const Element element = machine.program.tensors[machine.program.views[step.at[0]].tensor].element;
  return forEachPlace(machine, warp, step, 1, 1, lanes, [&](int lane, std::byte *to) {
    if (element == Element::BF16 || element == Element::F16) {
      storeFloat(element, warp.get<float>(step.in[0], lane), to);
    } else {
      const size_t bytes = size_t(bytesOf(element)); // a bool takes one byte, in the slot and in the tensor
      std::memcpy(to, warp.value(step.in[0]) + (step.in[0].varies ? lane * bytes : 0), bytes);
    }
  });
}

Go sim::loadByte(Machine &machine, Warp &warp, const Step &step) {
  const int count = step.at[1];
  return forEachPlace(machine, warp, step, 0, count, step.out[0].varies ? lanes : 1,
                      [&](int lane, const std::byte *from) {
                        int32_t bits = 0;
                        std::memcpy(&bits, from, size_t(count));
                        warp.set(step.out[0], lane, bits);
                      });
}

Go sim::storeByte(Machine &machine, Warp &warp, const Step &step) {
  return forEachPlace(machine, warp, step, 1, 1, lanes,
                      [&](int lane, std::byte *to) { *to = std::byte(warp.get<uint32_t>(step.in[0], lane)); });
}

Go sim::addElements(Machine &machine, Warp &warp, const Step &step) {
  const int count = step.at[1];
  auto add = [&](int lane, std::byte *at) {
    for (int i = 0; i < count; ++i) {
      float sum;
      std::memcpy(&sum, at + 4 * i, 4);
      sum += warp.get<float>(step.in[i], lane);
      std::memcpy(at + 4 * i, &sum, 4);
    }
  };
  return count == 1 ? forEachPlace(machine, warp, step, count, count, lanes, add)
                    : forEachGroup(machine, warp, step, count, count, lanes, add);
}

Go sim::addInteger(Machine &machine, Warp &warp, const Step &step) {
  return forEachPlace(machine, warp, step, 1, 1, lanes, [&](int lane, std::byte *at) {
    int64_t sum;
    std::memcpy(&sum, at, 8);
    sum = add(sum, int64_t(warp.get<int32_t>(step.in[0], lane)));
    std::memcpy(at, &sum, 8);
  });
}
