// RUN: attune-opt %s -tile-split-row-sums | FileCheck %s

// A carried sum of which the loop reads nothing but the last value is left split over lanes.
// CHECK-LABEL: tile.kernel @sum
// CHECK:         %[[R:.*]] = tile.for_blocks
// CHECK:           tile.reduce sum %{{.*}} over "k" init %{{.*}} per_lane
// CHECK:         %[[L:.*]] = tile.combine_lanes sum %[[R]]
// CHECK:         tile.store %[[L]]
tile.kernel @sum(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %p = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %factor = tile.splat %zero : f32 -> <q 64, f32, register>
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %scaled = tile.map(%l0, %factor : !tile.tile<q 64, f32, register>, !tile.tile<q 64, f32, register>) -> !tile.tile<q 64, f32, register> {
    ^bb0(%x: f32, %a: f32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    %l1 = tile.reduce sum %p over "k" init %scaled : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %l1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}

// A maximum is needed whole in each step.
// CHECK-LABEL: tile.kernel @max
// CHECK-NOT:     per_lane
// CHECK-NOT:     tile.combine_lanes
tile.kernel @max(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %p = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %m1 = tile.reduce max %p over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}
