//===- SharedSteps.cpp - Loads and stores of shared memory ----------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include "codegen/sim/Numbers.h"

#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

/// The column that is `step` columns after `column`. In a swizzled tile the whole panels of `step` are added, and the
/// remainder is applied by exclusive or within the panel.
static int64_t steppedColumn(const SharedBuffer &buffer, int64_t column, int64_t step) {
  if (!buffer.panel)
    return column + step;
  const int64_t panel = buffer.panel / bytesOf(buffer.element);
  return (column / panel + step / panel) * panel + (column % panel ^ step % panel);
}

/// Checks that a row step and a column step are compatible with the swizzle. A kernel computes the stepped address from
/// the lane's base address: by an exclusive or within the panel, and by adding whole panels and rows. The result must
/// be the address of the row and column after the steps.
static bool stepsKeepSwizzle(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage,
                             int64_t row, int64_t column, int64_t rowStep, int64_t columnStep) {
  if (!buffer.panel)
    return true;
  const int64_t bytes = columnStep * bytesOf(buffer.element);
  const int64_t moved = (buffer.place(stage, row, column) ^ bytes % buffer.panel) +
                        bytes / buffer.panel * (buffer.rows * buffer.panel) + rowStep * buffer.panel;
  if (moved == buffer.place(stage, row + rowStep, steppedColumn(buffer, column, columnStep)))
    return true;
  machine.fail(warp, step,
               fmt::format("steps by [{}, {}] from [{}, {}], which the swizzle of {} does not allow", rowStep,
                           columnStep, row, column, buffer.name));
  return false;
}

namespace {
/// The rows of four 8 x 8 matrices of 16-bit elements in shared memory.
struct Matrices {
  std::array<const std::byte *, lanes> rows; ///< lane l provides the address of row l % 8 of matrix l / 8

  /// The pair of elements that lane l receives from a matrix by ldmatrix: row l / 4, columns 2 (l % 4) and 2 (l % 4) +
  /// 1. With `transposed`, rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
  uint32_t pair(int matrix, int lane, bool transposed) const;
};
} // namespace

uint32_t Matrices::pair(int matrix, int lane, bool transposed) const {
  const int g = lane / 4, c = lane % 4;
  uint32_t both;
  if (!transposed) {
    std::memcpy(&both, rows[matrix * 8 + g] + 4 * c, 4);
    return both;
  }
  uint16_t low, high;
  std::memcpy(&low, rows[matrix * 8 + 2 * c] + 2 * g, 2);
  std::memcpy(&high, rows[matrix * 8 + 2 * c + 1] + 2 * g, 2);
  return low | uint32_t(high) << 16;
}

/// Reads four matrices. Each lane gives the address of one row by the step's first inputs: stage, row, column, row
/// step, column step.
static bool readMatrices(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer,
                         Matrices &matrices) {
  if (!machine.converged(warp, step))
    return false;
  for (int lane = 0; lane < lanes; ++lane) {
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    int64_t stage = at(0), row = at(1) + at(3), column = steppedColumn(buffer, at(2), at(4));
    if (!inside(machine, warp, step, buffer, stage, row, column, 8) ||
        !inside(machine, warp, step, buffer, stage, at(1), at(2), 8))
      return false;
    int64_t address = buffer.place(stage, row, column);
    if (!stepsKeepSwizzle(machine, warp, step, buffer, stage, at(1), at(2), at(3), at(4)))
      return false;
    if (address % 16) {
      machine.fail(warp, step, fmt::format("reads a row at byte {}, which is not a multiple of 16", address));
      return false;
    }
    if (std::optional<Fault> fault = machine.memory.read(machine.actor(warp, step, Actor::wholeWarp), address, 16)) {
      machine.fail(warp, step, "reads", buffer, stage, *fault);
      return false;
    }
    matrices.rows[lane] = machine.memory.at(address);
  }
  return true;
}

Go sim::loadMatrix(Machine &machine, Warp &warp, const Step &step) {
  const SharedBuffer &buffer = machine.program.shared[step.at[0]];
  const RegisterBuffer &fragment = machine.program.registers[step.at[1]];
  int64_t i, j;
  Matrices matrices;
  if (!machine.converged(warp, step) || !machine.touch(warp, step, step.at[1]) || !machine.uniform(warp, step, 5, i) ||
      !machine.uniform(warp, step, 6, j) || !readMatrices(machine, warp, step, buffer, matrices))
    return Go::Stop;
  // The four registers of ldmatrix are consecutive elements of the fragment from [i][j][0] on: the last index is
  // fastest, then j, or i where the fragment has extent 1 along j.
  for (int r = 0; r < 4; ++r) {
    int64_t by = r / fragment.shape[2], e = r % fragment.shape[2];
    int64_t atI = fragment.shape[1] == 1 ? i + by : i, atJ = fragment.shape[1] == 1 ? j : j + by;
    if (atI < 0 || atI >= fragment.shape[0] || atJ < 0 || atJ >= fragment.shape[1])
      return machine.fail(warp, step,
                          fmt::format("writes {}[{}][{}], outside of its {} x {}", fragment.name, atI, atJ,
                                      fragment.shape[0], fragment.shape[1]));
    uint32_t *to = &warp.registers[(fragment.first + (atI * fragment.shape[1] + atJ) * fragment.shape[2] + e) * lanes];
    for (int lane = 0; lane < lanes; ++lane)
      to[lane] = matrices.pair(r, lane, step.flag);
  }
  return Go::Next;
}

/// Reads one or two 32-bit words of a lane from shared memory; the address must be aligned to their size.
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
    const int64_t row = at(1) + at(3), column = steppedColumn(buffer, at(2), at(4)),
                  count = 4 / bytesOf(buffer.element);
    if (!inside(machine, warp, step, buffer, at(0), row, column, 1) ||
        !inside(machine, warp, step, buffer, at(0), at(1), at(2), 1) ||
        !stepsKeepSwizzle(machine, warp, step, buffer, at(0), at(1), at(2), at(3), at(4)) ||
        readWords(machine, warp, step, lane, at(0), row, column / count * count, 1) == Go::Stop)
      return Go::Stop;
    if (count == 1)
      continue;
    const uint16_t half = uint16_t(warp.get<uint32_t>(step.out[0], lane) >> (16 * (column % 2)));
    warp.set(step.out[0], lane, buffer.element == Element::BF16 ? fromBf16(half) : fromF16(half));
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
    const int64_t bytes = 4 * step.number[0], row = at(2) + at(4), column = steppedColumn(buffer, at(3), at(5));
    if (!inside(machine, warp, step, buffer, at(1), row, column, bytes / bytesOf(buffer.element)) ||
        !stepsKeepSwizzle(machine, warp, step, buffer, at(1), at(2), at(3), at(4), at(5)))
      return Go::Stop;
    int64_t address = buffer.place(at(1), row, column);
    if (address % bytes)
      return machine.fail(warp, step,
                          fmt::format("writes {} bytes at byte {}, which is not a multiple of that", bytes, address));
    if (std::optional<Fault> fault = machine.memory.write(machine.actor(warp, step, lane), address, bytes))
      return machine.fail(warp, step, "writes", buffer, at(1), *fault);
    warp.stored |= 1u << lane;
    for (int64_t word = 0; word < step.number[0]; ++word) {
      const uint32_t value = warp.get<uint32_t>(step.in[word ? 6 : 0], lane);
      std::memcpy(machine.memory.at(address) + 4 * word, &value, 4);
    }
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
  // Lane l provides the address of row l % 8 of matrix l / 8 (stmatrix).
  for (int lane = 0; lane < lanes; ++lane) {
    auto at = [&](int input) -> int64_t { return warp.get<int32_t>(step.in[input], lane); };
    const int64_t row = at(5) + at(7), column = steppedColumn(buffer, at(6), at(8));
    if (!inside(machine, warp, step, buffer, at(4), row, column, 8) ||
        !stepsKeepSwizzle(machine, warp, step, buffer, at(4), at(5), at(6), at(7), at(8)))
      return Go::Stop;
    int64_t address = buffer.place(at(4), row, column);
    if (address % 16)
      return machine.fail(warp, step, fmt::format("writes a row at byte {}, which is not a multiple of 16", address));
    if (std::optional<Fault> fault = machine.memory.write(machine.actor(warp, step, lane), address, 16))
      return machine.fail(warp, step, "writes", buffer, at(4), *fault);
    // Lane 4 r + c / 2 holds element (r, c) of a matrix, in a pair with its neighbour in the row.
    for (int c = 0; c < 8; ++c) {
      const int matrixRow = step.flag ? c : lane % 8, matrixColumn = step.flag ? lane % 8 : c;
      const auto pair = warp.get<uint32_t>(step.in[lane / 8], matrixRow * 4 + matrixColumn / 2);
      const auto bits = uint16_t(pair >> 16 * (matrixColumn % 2));
      std::memcpy(machine.memory.at(address + 2 * c), &bits, 2);
    }
  }
  return Go::Next;
}
