//===- NamedBarriers.h - Which barriers of a block serve what ----------------===//
//
// A block has 16 barriers (PTX ISA 9.7.13.1, bar.sync), numbered from 0, which `sched.barrier` takes. Passes that let
// some of a block's warps wait for each other take theirs here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace attune::barriers {

inline constexpr int64_t perBlock = 16, mostWarpgroups = 4;

/// Those that follow each other for the warpgroups of a block, and the one of all warps of a role that exchange tiles.
inline constexpr int64_t ofWarpgroup = 1, ofPingPong = ofWarpgroup + mostWarpgroups,
                         ofRole = ofPingPong + mostWarpgroups;
static_assert(ofRole < perBlock);

} // namespace attune::barriers
