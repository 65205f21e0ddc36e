//===- ScheduleText.h - The schedule of a kernel in words --------------------===//
//
//     {"copies", "q_ring (2 stages, 128-byte swizzle), k_ring (...), v_ring (...) by TMA"}
//     {"roles", "producer 4 warps of 32 registers, consumer 12 warps of 160 (setmaxnreg)"}
//     {"products", "wgmma, P from registers"}
//     {"overlap", "ping-pong: the products of one warpgroup overlap with the softmax of another"}
//     {"masks", "one loop; partial tiles are masked under a uniform branch"}
//     {"order", "persistent blocks, static: pairs of tiles from both ends of a head"}
//     {"epilogue", "O through o_tile by TMA"}
//
// The text is derived from the IR, not from the plan, so that it describes what the kernel does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include <string>
#include <utility>
#include <vector>

namespace attune::driver {

/// A line of a schedule: the name of a decision and its outcome.
using ScheduleLine = std::pair<std::string, std::string>;

/// Describes how a tile.kernel applies its mask, if it has one, and the order of tiles, if the first tile is not first.
std::vector<ScheduleLine> describeTiles(tile::KernelOp kernel);
std::vector<ScheduleLine> describeSchedule(sched::KernelOp kernel);

} // namespace attune::driver
