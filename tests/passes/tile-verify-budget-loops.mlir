// Loops one after the other: the ring of one loop may reuse the memory of the ring before it.
// RUN: attune-opt %s -tile-verify="arch=sm_90 sram-budget=16384"
// RUN: not attune-opt %s -tile-verify="arch=sm_90 sram-budget=16383" 2>&1 | FileCheck %s

// CHECK: error: 'tile.kernel' op needs 16384 bytes of shared memory (q_tile 8192, second 2 x 4096), above the budget of 16383; lower stages, tile_k or tile_q
tile.kernel @kernel(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, o: out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%c0, %c0, %c0] limit %Sk {tile.name = "q_tile"} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "first", sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 32 x d 64, bf16, shared> -> !tile.tile<q 64 x k 32, f32, register>
    %l1 = tile.reduce sum %s over "k" init %l0 : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<q 64, f32, register>
    tile.yield %l1 : !tile.tile<q 64, f32, register>
  }
  %t = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %r : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "second"} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 32 x d 64, bf16, shared> -> !tile.tile<q 64 x k 32, f32, register>
    %l1 = tile.reduce sum %s over "k" init %l0 : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<q 64, f32, register>
    tile.yield %l1 : !tile.tile<q 64, f32, register>
  }
}
