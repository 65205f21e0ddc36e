//===- ProductSteps.cpp - Matrix instructions -----------------------------===//
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

static float widen(Element element, uint16_t bits) { return element == Element::BF16 ? fromBf16(bits) : fromF16(bits); }

/// d[16][columns] += a[16][depth] * b[depth][columns].
template <int depth> static void multiply(float *d, const float (&a)[16][depth], const float *b, int64_t columns) {
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < depth; ++k)
      for (int64_t column = 0; column < columns; ++column)
        d[row * columns + column] += a[row][k] * b[k * columns + column];
}

/// Unpacks the warp's 16 x 16 tile of operand a. Each lane holds eight elements of the tile, in four registers of two
/// elements. `first` is the first register of lane 0.
static void unpackLeft(const uint32_t *first, Element element, float (&a)[16][16]) {
  for (int e = 0; e < 4; ++e)
    for (int lane = 0; lane < lanes; ++lane) {
      uint32_t pair = first[e * lanes + lane];
      float *at = &a[lane / 4 + 8 * (e % 2)][8 * (e / 2) + 2 * (lane % 4)];
      at[0] = widen(element, uint16_t(pair));
      at[1] = widen(element, uint16_t(pair >> 16));
    }
}

/// Copies the accumulator fragment to d[16][columns]. The fragment has [columns / 8][4] registers per lane, from
/// `first` on. The function packSum copies d back to the fragment.
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
  if (element == Element::I32) { // operands are tf32 in 32-bit registers: m16n8k8
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

namespace {

/// Reads the operands of an mma_async (wgmma). The functions return false if they have reported an error.
struct AsyncOperands {
  Machine &machine;
  Warp &warp;
  const Step &step;
  Product &product; ///< records which shared memory is read: it must not be written until the MMA completes

  /// Checks that a tile of `rows` x `count` elements at (r, c) is inside the buffer and aligned for its swizzle.
  bool starts(const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c, int64_t rows, int64_t count) const;
  bool read(const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c,
            std::array<uint16_t, 8> &chunk) const;
  /// Reads this warp's 16 rows of operand a, which has 64 rows. `at` holds the values of the step's inputs.
  bool readLeft(const std::array<int64_t, 7> &at, float (&a)[16][16]) const;
  /// Reads operand b as b[16][columns].
  bool readRight(int64_t stage, int64_t row, int64_t column, int64_t columns, float *b) const;
};

} // namespace

bool AsyncOperands::starts(const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c, int64_t rows,
                           int64_t count) const {
  if (!inside(machine, warp, step, buffer, bufferStage, r, c, count) ||
      !inside(machine, warp, step, buffer, bufferStage, r + rows - 1, c, count))
    return false;
  if (r % 8 || c % 16) {
    machine.fail(
        warp, step,
        fmt::format("takes {} from row {}, column {}; rows start at multiples of 8, columns of 16", buffer.name, r, c));
    return false;
  }
  return aligned(machine, warp, step, buffer, buffer.place(bufferStage, r, 0));
}

bool AsyncOperands::read(const SharedBuffer &buffer, int64_t bufferStage, int64_t r, int64_t c,
                         std::array<uint16_t, 8> &chunk) const {
  int64_t address = buffer.place(bufferStage, r, c);
  if (std::optional<Fault> fault = machine.memory.startRead(machine.actor(warp, step, Actor::wholeWarp), address, 16)) {
    machine.fail(warp, step, "reads", buffer, bufferStage, *fault);
    return false;
  }
  product.reads.push_back({address, 16});
  std::memcpy(chunk.data(), machine.memory.at(address), 16);
  return true;
}

bool AsyncOperands::readLeft(const std::array<int64_t, 7> &at, float (&a)[16][16]) const {
  const Element element = machine.program.shared[step.at[2]].element;
  std::array<uint16_t, 8> chunk;
  if (step.number[0]) {
    const SharedBuffer &left = machine.program.shared[step.at[1]];
    const int64_t ofWarp = warp.firstThread / lanes % 4 * 16, first = at[5] + ofWarp;
    if (step.number[1]) { // a is transposed: the first dimension of a is contracted
      if (!starts(left, at[4], at[5], at[6], 16, 64))
        return false;
      for (int k = 0; k < 16; ++k)
        for (int half = 0; half < 2; ++half) {
          if (!read(left, at[4], at[5] + k, at[6] + ofWarp + 8 * half, chunk))
            return false;
          for (int i = 0; i < 8; ++i)
            a[8 * half + i][k] = widen(element, chunk[i]);
        }
      return true;
    }
    if (!starts(left, at[4], at[5], at[6], 64, 16))
      return false;
    for (int r = 0; r < 16; ++r)
      for (int half = 0; half < 2; ++half) {
        if (!read(left, at[4], first + r, at[6] + 8 * half, chunk))
          return false;
        for (int i = 0; i < 8; ++i)
          a[r][8 * half + i] = widen(element, chunk[i]);
      }
  } else {
    const RegisterBuffer &left = machine.program.registers[step.at[1]];
    if (at[4] < 0 || at[4] >= left.shape[0] || at[5] < 0 || at[5] >= left.shape[1])
      return machine.fail(warp, step,
                          fmt::format("takes {}[{}][{}], outside of its {} x {}", left.name, at[4], at[5],
                                      left.shape[0], left.shape[1])),
             false;
    unpackLeft(&warp.registers[(left.first + (at[4] * left.shape[1] + at[5]) * 4) * lanes], element, a);
  }
  return true;
}

bool AsyncOperands::readRight(int64_t stage, int64_t row, int64_t column, int64_t columns, float *b) const {
  const SharedBuffer &right = machine.program.shared[step.at[2]];
  const Element element = right.element;
  std::array<uint16_t, 8> chunk;
  if (step.flag) { // b is transposed: the first dimension of b is contracted
    if (!starts(right, stage, row, column, 16, columns))
      return false;
    for (int64_t k = 0; k < 16; ++k)
      for (int64_t n = 0; n < columns; n += 8) {
        if (!read(right, stage, row + k, column + n, chunk))
          return false;
        for (int i = 0; i < 8; ++i)
          b[k * columns + n + i] = widen(element, chunk[i]);
      }
  } else {
    if (!starts(right, stage, row, column, columns, 16))
      return false;
    for (int64_t n = 0; n < columns; ++n)
      for (int half = 0; half < 2; ++half) {
        if (!read(right, stage, row + n, column + 8 * half, chunk))
          return false;
        for (int i = 0; i < 8; ++i)
          b[(8 * half + i) * columns + n] = widen(element, chunk[i]);
      }
  }
  return true;
}

Go sim::mmaAsync(Machine &machine, Warp &warp, const Step &step) {
  const RegisterBuffer &acc = machine.program.registers[step.at[0]];
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

  const AsyncOperands operands{machine, warp, step, product};
  float a[16][16];
  if (!operands.readLeft(at, a))
    return Go::Stop;
  std::vector<float> b(16 * columns), d(16 * columns);
  if (!operands.readRight(stage, row, column, columns, b.data()))
    return Go::Stop;
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
