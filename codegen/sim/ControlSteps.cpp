//===- ControlSteps.cpp - Jumps, branches, loops and roles ----------------===//
//
// Each function executes one step of the simulator for one warp. The comments in Machine.h list the inputs, outputs and
// fields of each step.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Steps.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

Go sim::jump(Machine &, Warp &warp, const Step &step) { return go(warp, step.target); }

Go sim::skipUnless(Machine &, Warp &warp, const Step &step) {
  return warp.get<bool>(step.in[0], 0) ? Go::Next : go(warp, step.target);
}

Go sim::maskIf(Machine &, Warp &warp, const Step &step) {
  warp.masks.push_back(warp.mask);
  uint32_t mask = warp.mask & maskOf(warp, step.in[0]);
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::maskElse(Machine &, Warp &warp, const Step &step) {
  uint32_t mask = warp.masks.back() & ~maskOf(warp, step.in[0]);
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::maskBegin(Machine &, Warp &warp, const Step &) {
  warp.masks.push_back(warp.mask);
  return Go::Next;
}

Go sim::maskEnd(Machine &, Warp &warp, const Step &) {
  warp.mask = warp.masks.back();
  warp.masks.pop_back();
  return Go::Next;
}

Go sim::loopTest(Machine &, Warp &warp, const Step &step) {
  if (!step.in[0].varies && !step.in[1].varies)
    return warp.get<int32_t>(step.in[0], 0) < warp.get<int32_t>(step.in[1], 0) ? Go::Next : go(warp, step.target);
  uint32_t mask = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane) && warp.get<int32_t>(step.in[0], lane) < warp.get<int32_t>(step.in[1], lane))
      mask |= 1u << lane;
  if (!mask)
    return go(warp, step.target);
  warp.mask = mask;
  return Go::Next;
}

Go sim::move(Machine &, Warp &warp, const Step &step) {
  size_t bytes = size_t(step.number[0]);
  const std::byte *from = warp.value(step.in[0]);
  std::byte *to = warp.value(step.out[0]);
  if (!step.out[0].varies) {
    std::memcpy(to, from, bytes);
    return Go::Next;
  }
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.has(lane))
      std::memcpy(to + lane * bytes, from + (step.in[0].varies ? lane * bytes : 0), bytes);
  return Go::Next;
}

Go sim::roleBegin(Machine &machine, Warp &warp, const Step &step) {
  const Role &role = machine.program.roles[step.at[0]];
  if (warp.index < role.firstWarp || warp.index >= role.firstWarp + role.warps)
    return go(warp, step.target);
  warp.role = step.at[0];
  warp.firstThread = (warp.index - role.firstWarp) * lanes;
  return Go::Next;
}

Go sim::roleEnd(Machine &, Warp &warp, const Step &) {
  warp.role = -1;
  warp.firstThread = warp.index * lanes;
  return Go::Next;
}

Go sim::finishWarp(Machine &machine, Warp &warp, const Step &step) {
  auto left = [&](uint32_t op, const char *what) { return machine.fail(&warp, op, what, step.op); };
  for (const auto &group : warp.copyGroups)
    if (!group.empty())
      return left(group.front().op, "starts a copy that no wait_copies completes");
  if (!warp.copies.empty())
    return left(warp.copies.front().op, "starts a copy that no commit_copies puts in a group");
  if (!warp.boxes.empty() || !warp.boxGroups.empty())
    return left(warp.boxes.empty() ? warp.boxGroups.front().front().op : warp.boxes.front().op,
                "reads shared memory, and no wait_boxes completes it before the thread ends");
  for (const auto &group : warp.productGroups)
    if (!group.empty())
      return left(group.front().op, "starts an MMA that no mma_wait completes");
  if (!warp.products.empty())
    return left(warp.products.front().op, "starts an MMA that no mma_commit puts in a group");
  warp.state = Warp::State::Done;
  return Go::Block;
}
