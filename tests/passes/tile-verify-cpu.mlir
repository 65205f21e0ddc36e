// RUN: attune-opt %s -split-input-file -tile-verify=arch=cpu -verify-diagnostics

// What producer warps bring and warpgroups hold is for a GPU; sm_90a has both, the CPU target neither.

tile.kernel @scaled(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q0 = tile.block_index "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%q0, %q0, %q0] limit %q0 : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  // expected-error @below {{'tile.scale' op is for a GPU's warps and shared memory, which the CPU target lacks; start from attn text or the variant}}
  %scaled = tile.scale %q exponent -3 : !tile.tile<q 128 x d 64, bf16, shared>
}

// -----

tile.kernel @parts(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q0 = tile.block_index "q" : i32
  // expected-error @below {{'tile.warpgroup_row' op is for a GPU's warps and shared memory, which the CPU target lacks; start from attn text or the variant}}
  %row = tile.warpgroup_row %q0 by 64 : i32
}
