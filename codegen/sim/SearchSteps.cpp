//===- SearchSteps.cpp - Searches for the next visible tile ---------------===//
//
// Operands are in the order that Machine.h gives.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

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

Go sim::touches(Machine &machine, Warp &warp, const Step &step) {
  const View &view = machine.program.views[step.at[0]];
  const int rank = machine.program.tensors[view.tensor].rank - view.dropped;
  const int64_t *extents = &machine.launch.tensors[view.tensor].extents[view.dropped];
  const auto [tileRows, tileColumns, rows, columns] = step.number;
  for (int lane = 0; lane < (step.out[0].varies ? lanes : 1); ++lane) {
    if (step.out[0].varies && !warp.has(lane))
      continue;
    std::array<int64_t, maxRank> indices = {};
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
