//===- Steps.h - What steps of several kinds share ------------------------===//
#pragma once

#include "codegen/sim/Machine.h"

#include <array>

namespace attune::sim {

/// The lanes for which a condition holds.
uint32_t maskOf(Warp &warp, Slot condition);

/// Goes on at another step.
Go go(Warp &warp, uint32_t position);

/// Fails where elements lie outside of a shared tile.
bool inside(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage, int64_t row,
            int64_t column, int64_t count);

/// The base of a view in one lane, as a slot that `Machine::global` reads.
Slot baseOf(Slot view, int lane);

/// Fails where a panel of a shared tile does not start as the hardware's swizzle needs it: at a multiple of eight rows
/// of its own.
bool aligned(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t address);

/// The rows of four 8 x 8 matrices of 16-bit elements in shared memory.
struct Matrices {
  std::array<const std::byte *, lanes> rows; ///< lane l gives row l % 8 of matrix l / 8

  /// What a lane receives of a matrix: of row l / 4 the columns 2 (l % 4) and + 1, or transposed of that column the rows.
  uint32_t pair(int matrix, int lane, bool transposed) const;
};

/// Reads them at the places that the step's first inputs give: stage, row, column, and steps of the last two.
bool readMatrices(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, Matrices &matrices);

} // namespace attune::sim
