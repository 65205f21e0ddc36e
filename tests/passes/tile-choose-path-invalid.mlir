// A kernel with ops that only producer warps serve has no other path.
// RUN: attune-opt %s -split-input-file -tile-choose-path -verify-diagnostics

// Parts of rows are those of warpgroups.
// expected-error @below {{cannot be scheduled around producer warps, for which some of its ops are: it has no loop over tiles}}
tile.kernel @parts(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %q0 = tile.block_index "q" : i32
  %own = tile.warpgroup_row %q0 by 64 : i32
}
