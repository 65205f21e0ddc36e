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

/// The first barrier number of each use: `ofWarpgroup` for one barrier per warpgroup, `ofPingPong` for one barrier per
/// warpgroup that guards its ping-pong region, and `ofRole` for the one barrier of all warps of a role, which exchange
/// tiles through shared memory.
inline constexpr int64_t ofWarpgroup = 1, ofPingPong = ofWarpgroup + mostWarpgroups,
                         ofRole = ofPingPong + mostWarpgroups;
static_assert(ofRole < perBlock);

} // namespace attune::barriers
