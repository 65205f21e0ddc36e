//===- Steps.h - What steps of several kinds share ------------------------===//
#pragma once

#include "codegen/sim/Machine.h"

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

} // namespace attune::sim
