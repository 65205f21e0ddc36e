// What ops say of when they run goes with them, in the role that they stand in.
// RUN: attune-opt %s -tile-assign-roles -tile-specialize-warps | FileCheck %s
// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-specialize-warps | FileCheck %s --check-prefix=OTHERS

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>

// Rows that the text gives other warps have rings of their own, beside the copies: each lane arrives for what it stored, and read.
// OTHERS:        %[[LSE:.*]] = sched.ring {{.*}} filled_by 64 emptied_by 256
// OTHERS:        %[[DELTA:.*]] = sched.ring {{.*}} filled_by 64 emptied_by 256
// OTHERS:        %[[DQ:.*]] = sched.shared "dq_tile" at 0 : <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
// OTHERS:        %[[OF_DQ:.*]] = sched.ring "dq_barriers" {{.*}} filled_by 8 emptied_by 1
// What goes to memory: a warp awaits a stage, has TMA take it, and empties it.
// OTHERS:        sched.role "producer"
// OTHERS:          %[[SECOND:.*]] = arith.constant 1 : i32
// OTHERS-NEXT:     arith.cmpi eq, %{{.*}}, %[[SECOND]]
// OTHERS:          sched.for_tiles
// OTHERS:            sched.wait %[[OF_DQ]]
// OTHERS-NEXT:       scf.if
// OTHERS-NEXT:         sched.write_tile %[[DQ]]{{.*}} column_splits 1 adds
// OTHERS:            sched.sync_lanes
// OTHERS-NEXT:       sched.release %[[OF_DQ]]
// OTHERS:          arith.divui
// OTHERS-NEXT:     %[[FROM:.*]] = arith.constant 2 : i32
// OTHERS-NEXT:     arith.cmpi sge, %{{.*}}, %[[FROM]]
// OTHERS:          sched.acquire %[[LSE]]
// OTHERS:          tile.map() {{.*}} #sched.fragment<threads, warps 2>
// OTHERS:          sched.commit %[[LSE]]
// OTHERS:          sched.acquire %[[DELTA]]
// OTHERS:          sched.commit %[[DELTA]]
// OTHERS:          sched.copy_tile
// OTHERS:        sched.role "consumer"
// OTHERS:          sched.wait %[[LSE]]
// OTHERS:          sched.sync_lanes
// OTHERS-NEXT:     sched.release %[[LSE]]{{.*}} by_lanes
// The warps that compute fill it, and behind the loop await that it is empty.
// OTHERS:          sched.acquire %[[OF_DQ]]
// OTHERS-NEXT:     sched.store_tile %{{.*}} to %[[DQ]]
// OTHERS-NEXT:     sched.sync_lanes
// OTHERS-NEXT:     sched.commit %[[OF_DQ]]
// OTHERS-NOT:      tile.accumulate
// OTHERS:          sched.next
// OTHERS:          sched.acquire %[[OF_DQ]]

// The producer fills the rings in its own order.
// CHECK-LABEL: tile.kernel @staged
// CHECK:         sched.role "producer"
// CHECK-NOT:       sched.at
// CHECK:           sched.store_tile
// CHECK-NOT:       sched.at
// CHECK:         sched.role "consumer"
// The load's order is that of the wait for its ring, a slot has its first reader's, and neither has a turn. Behind a product that only starts a release has none of its own.
// CHECK:           sched.wait %[[KR:.*]][%stage] phase %phase {sched.at = #sched.at<order 2>}
// CHECK:           %[[K:.*]] = sched.slot %{{.*}}[%stage] {sched.at = #sched.at<order 3>}
// CHECK:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 3, ping_pong "products">}
// CHECK:           sched.slot %{{.*}}[%stage] {sched.at = #sched.at<order 5, stage 1>}
// CHECK:           tile.map
// CHECK:           } {sched.at = #sched.at<order 5, stage 1>}
// CHECK:           sched.release %[[KR]][%stage] by_lanes {sched.at = #sched.at<order 5, stage 1>} : <2> reads %[[K]],
tile.kernel @staged(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !scores
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !scores) {
    %k = tile.load %K[%i, %i, %k0] limit %i {sched.at = #sched.at<order 2>} : !tile.view<4, bf16> -> !keys
    %columns = tile.map() at(k = %k0) -> !tile.tile<k 64, f32, register, #sched.fragment<threads, warps 1>> {
    ^bb0(%key: i32):
      tile.yield %zero : f32
    } {sched.at = #sched.at<order 0>}
    %staged = tile.convert %columns {sched.ring = #sched.ring<stages 2, "producer" warp 0>} : !tile.tile<k 64, f32, register, #sched.fragment<threads, warps 1>> -> !tile.tile<k 64, f32, shared>
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 3, ping_pong "products">}
    %acc1 = tile.map(%acc, %s, %staged : !scores, !scores, !tile.tile<k 64, f32, shared>) -> !scores {
    ^bb0(%a: f32, %e: f32, %c: f32):
      %x = arith.addf %a, %e : f32
      tile.yield %x : f32
    } {sched.at = #sched.at<order 5, stage 1>}
    tile.yield %acc1 : !scores
  }
}
