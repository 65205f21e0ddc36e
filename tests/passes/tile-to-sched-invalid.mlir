// What tile-to-sched cannot write.
// RUN: attune-opt %s -split-input-file -tile-assign-layouts -tile-to-sched=arch=sm_80 -verify-diagnostics

tile.kernel @kernel() grid [] dtype bf16 plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  // expected-error @below {{is paced, for which it needs one tanh or exp2 of its element, by way of an op of that and of what is the same along a row, and a multiple of 16 columns}}
  %p = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) -> !tile.tile<q 64 x k 32, f32, register> {
  ^bb0(%x: f32):
    %n = arith.negf %x : f32
    tile.yield %n : f32
  } {paced}
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  // expected-error @below {{only reductions over k of an accumulator are supported here}}
  %m = tile.reduce max %s over "q" : !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<k 32, f32, register>
}
