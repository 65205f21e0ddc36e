// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s

// Lanes have 8 columns side by side: a quotient by a multiple of 8 is the same for all of them where the tile begins at a multiple of the divisor, and
// an element that it indexes is loaded once. By 12, it differs from lane to lane.
// CHECK-LABEL: sched.kernel @quotients
// CHECK:         sched.for_tiles
// CHECK:           %[[K0:.*]] = arith.muli %{{.*}}, %c64_i32 {tile.name = "k0"}
// CHECK:           %[[FIRST:.*]] = arith.divsi %[[K0]], %c16_i32
// CHECK-NEXT:      %[[PLACE:.*]] = arith.divui %{{.*}}, %c16_i32
// CHECK-NEXT:      %[[BLOCK:.*]] = arith.addi %[[FIRST]], %[[PLACE]]
// CHECK-NEXT:      tile.element %{{.*}}[%[[BLOCK]]]
// CHECK-NEXT:      %[[OTHER:.*]] = arith.divsi %{{.*}}, %c12_i32
// CHECK-NEXT:      tile.element %{{.*}}[%[[OTHER]]]
tile.kernel @quotients(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, sums: out [b, h, q] f32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {tensors = [#attn.tensor<table, f32, rank 1>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %S = tile.param "sums" : !tile.view<3, f32>
  %table = tile.param "tensors.table" : !tile.view<1, f32>
  %c0 = arith.constant 0 : i32
  %c12 = arith.constant 12 : i32
  %c16 = arith.constant 16 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %tiles = arith.ceildivui %Sk, %c64 : i32
  %dom = tile.domain k by 64 [%c0, %tiles) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %none = tile.splat %zero : f32 -> !tile.tile<q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%sum = %none : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register>
    %x = tile.map(%s : !tile.tile<q 64 x k 64, f32, register>) at(k = %k0) -> !tile.tile<q 64 x k 64, f32, register> {
    ^bb0(%e: f32, %key: i32):
      %block = arith.divsi %key, %c16 : i32
      %of_block = tile.element %table[%block] in_range [false] : !tile.view<1, f32> (i32) -> f32
      %other = arith.divsi %key, %c12 : i32
      %of_other = tile.element %table[%other] in_range [false] : !tile.view<1, f32> (i32) -> f32
      %y = arith.addf %e, %of_block : f32
      %z = arith.addf %y, %of_other : f32
      tile.yield %z : f32
    }
    %next = tile.reduce sum %x over "k" init %sum : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 64, f32, register> -> !tile.tile<q 64, f32, register>
    tile.yield %next : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %S[%b, %h, %q0] limit %Sq : !tile.tile<q 64, f32, register>, !tile.view<3, f32>
}
