//===- Steps.h - Functions shared by the files *Steps.cpp -----------------===//
#pragma once

#include "codegen/sim/Machine.h"

namespace attune::sim {

/// The bit mask of the lanes in which a condition is true.
uint32_t maskOf(Warp &warp, Slot condition);

/// Sets the warp's position to another step.
Go go(Warp &warp, uint32_t position);

/// Checks that `count` elements from (stage, row, column) on lie inside a shared tile.
bool inside(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage, int64_t row,
            int64_t column, int64_t count);

/// One lane's value of the slot `view`, as a uniform slot (Machine::global takes only uniform slots). The slot `view`
/// holds the base offset of a view, which may differ between lanes.
Slot baseOf(Slot view, int lane);

/// Checks that `address`, where a panel of a shared tile starts, is a multiple of the bytes of eight panel rows, as the
/// hardware's swizzle requires.
bool aligned(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t address);

} // namespace attune::sim
