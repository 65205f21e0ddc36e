// A loop of two stages where all warps copy: what stage 1 reads is copied one tile less ahead, and read in the pass behind.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-pipeline-stages | FileCheck %s

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!scores = !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
!rounded = !tile.tile<q 64 x k 64, bf16, register, #sched.fragment<a, warps 4>>
!out = !tile.tile<q 64 x dv 64, f32, register, #sched.fragment<c, warps 4>>

// Three stages: K two tiles ahead, V one. One group is under way when a pass begins.
// CHECK-LABEL: tile.kernel @staged
// CHECK:         %[[KR:.*]] = sched.shared "k_ring" at 0 : <stage 3
// CHECK:         %[[VR:.*]] = sched.shared "v_ring" at 0 : <stage 3
// CHECK:         sched.copy_tile {{.*}} to %[[KR]][%c0_i32
// CHECK-NOT:     sched.copy_tile {{.*}} to %[[VR]]
// CHECK:         sched.commit_copies
// CHECK:         sched.copy_tile {{.*}} to %[[KR]][%c1_i32
// CHECK:         sched.copy_tile {{.*}} to %[[VR]][%c0_i32
// CHECK:         sched.commit_copies
// If there is a tile: its stage 0.
// CHECK:         sched.for_tiles
// CHECK:           sched.wait_copies pending 1
// CHECK-NEXT:      sched.barrier
// CHECK:           sched.copy_tile {{.*}} to %[[KR]]
// CHECK:           sched.copy_tile {{.*}} to %[[VR]]
// CHECK:           sched.commit_copies
// CHECK:           tile.mma
// CHECK:           %[[FIRST:.*]] = tile.convert
// The tiles behind it: S of each, O of the one before.
// CHECK:           sched.for_tiles (%{{.*}}, %[[SLOT:.*]], %[[BEFORE:.*]]) = {{.*}} %[[FIRST]]
// CHECK:             sched.wait_copies pending 1
// CHECK-NEXT:        sched.barrier
// CHECK:             sched.commit_copies
// CHECK:             %[[K:.*]] = sched.slot %[[KR]][%[[SLOT]]]
// CHECK:             tile.mma %{{.*}}, %[[K]]
// CHECK:             %[[V:.*]] = sched.slot %[[VR]][%[[BEFORE]]]
// CHECK:             tile.mma %{{.*}}, %[[V]] add
// CHECK:             sched.next
// The last tile's stage 1, once all has been copied.
// CHECK:           sched.wait_copies pending 0
// CHECK-NEXT:      sched.barrier
// CHECK:           sched.slot %[[VR]]
// CHECK:           tile.mma {{.*}} add
// CHECK:           sched.next
// CHECK:         sched.wait_copies pending 0
// CHECK-NEXT:    sched.barrier
tile.kernel @staged(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16, o: out [b, h, q, dv 64] f32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, f32>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !out
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !out) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>, tile.name = "k"} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>, tile.name = "v"} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    %s = tile.mma %q, %k : !queries, !tile.tile<k 64 x d 64, bf16, shared> -> !scores {sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 2>} : !scores -> !rounded
    %o = tile.mma %p, %v add %acc : !out, !rounded, !tile.tile<k 64 x dv 64, bf16, shared> -> !out {sched.at = #sched.at<order 1, stage 1>}
    tile.yield %o : !out
  }
  tile.store %r, %O[%b, %h, %q0] limit %Sq : !out, !tile.view<4, f32>
}
