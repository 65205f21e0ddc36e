//===- NamedBarriers.h - The uses of a block's named barriers ----------------===//
//
// A thread block has 16 barriers (PTX ISA 9.7.13.1, bar.sync), numbered from 0. `sched.barrier` uses barrier 0. Passes
// that synchronise some of the block's warps use the numbers below.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace attune::barriers {

inline constexpr int64_t perBlock = 16, mostWarpgroups = 4;

/// The first number of each use: one barrier for each warpgroup, one for each warpgroup's ping-pong region, and one for
/// all warps of a role that exchange tiles.
inline constexpr int64_t ofWarpgroup = 1, ofPingPong = ofWarpgroup + mostWarpgroups,
                         ofRole = ofPingPong + mostWarpgroups;
static_assert(ofRole < perBlock);

} // namespace attune::barriers
