//===- Steps.cpp - Functions shared by the files *Steps.cpp ---------------===//

#include "codegen/sim/Steps.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

uint32_t sim::maskOf(Warp &warp, Slot condition) {
  if (!condition.varies)
    return warp.get<bool>(condition, 0) ? allLanes : 0;
  uint32_t mask = 0;
  for (int lane = 0; lane < lanes; ++lane)
    mask |= uint32_t(warp.get<bool>(condition, lane)) << lane;
  return mask;
}

Go sim::go(Warp &warp, uint32_t position) {
  warp.position = position;
  return Go::Jump;
}

bool sim::inside(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t stage, int64_t row,
                 int64_t column, int64_t count) {
  if (buffer.holds(stage, row, column, count))
    return true;
  machine.fail(warp, step,
               fmt::format("accesses {} at [{}, {}, {}], outside of its {} x {} x {}", buffer.name, stage, row, column,
                           buffer.stages, buffer.rows, buffer.columns));
  return false;
}

Slot sim::baseOf(Slot view, int lane) { return {view.at + (view.varies ? uint32_t(lane) * 8 : 0), false}; }

bool sim::aligned(Machine &machine, Warp &warp, const Step &step, const SharedBuffer &buffer, int64_t address) {
  if (address % (8 * buffer.panel) == 0)
    return true;
  machine.fail(warp, step,
               fmt::format("takes {} from byte {}, which is not a multiple of {} as its swizzle needs", buffer.name,
                           address, 8 * buffer.panel));
  return false;
}
