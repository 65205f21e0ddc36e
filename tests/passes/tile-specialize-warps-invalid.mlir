// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-specialize-warps -verify-diagnostics

// A block has 16 barriers, of which each warpgroup takes two.
// expected-error @below {{has 5 warpgroups, which need more barriers than a block has; plan at most 4}}
tile.kernel @wide() grid [] dtype bf16 plan <tile_q = 320, tile_k = 32, warps = 20, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 20>]} {
}

// -----

// expected-error @below {{has 0 loops over tiles; warps are specialised around one}}
tile.kernel @straight() grid [] dtype bf16 plan <tile_q = 128, tile_k = 32, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
}
