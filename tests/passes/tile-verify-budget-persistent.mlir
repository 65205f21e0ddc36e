// Q's stages and a persistent block's tile of O count too.
// RUN: not attune-opt %s -tile-verify="arch=sm_90a sram-budget=57343" 2>&1 | FileCheck %s
// RUN: attune-opt %s -tile-verify="arch=sm_90a sram-budget=57344"

// CHECK: error: 'tile.kernel' op needs 57344 bytes of shared memory (q_tile 2 x 16384, k_tile 2 x 4096, o 16384), above the budget of 57343; lower stages, tile_k or tile_q
tile.kernel @kernel(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 32, warps = 8, blocks_per_sm = 1> attributes {sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%c0, %c0, %c0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "q_tile"} : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 128, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 128, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "k_tile"} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    tile.yield %l0 : !tile.tile<q 128, f32, register>
  }
  %O = tile.param "o" : !tile.view<4, bf16>
  %o = tile.splat %zero : f32 -> <q 128 x dv 64, f32, register>
  tile.store %o, %O[%c0, %c0, %c0] limit %Sk : !tile.tile<q 128 x dv 64, f32, register>, !tile.view<4, bf16>
}
