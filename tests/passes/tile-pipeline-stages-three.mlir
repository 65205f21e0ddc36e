// A loop of three stages: a first and a second tile in front of the loop over the others, two tiles' rests behind it.
// RUN: attune-opt %s -tile-pipeline-stages | FileCheck %s

// The first tile's scores; the second tile's, and the first one's P; then passes that work on three tiles. What is behind: the product of the tile before the last, then all that is left of
// the last. Turns are taken in all passes but the first: the second stands in front of its loop.
// CHECK-LABEL: tile.kernel @three_stages
// CHECK:         sched.for_tiles (%first_tile, %first_stage, %first_phase)
// CHECK-NEXT:      sched.wait %[[KR:.*]][%first_stage]
// CHECK-NEXT:      sched.slot
// CHECK-NEXT:      %[[S0:.*]] = tile.mma %q,
// CHECK-NOT:       sched.sync_warps
// CHECK:           sched.mma_wait pending 0 completes(%[[S0]])
// CHECK-NEXT:      sched.release %[[KR]][%first_stage]
// CHECK-NEXT:      %[[LEFT:.*]]:2, {{.*}}, %[[BEFORE_LEFT:.*]] = sched.for_tiles (%second_tile, %second_stage, %second_phase, %second_phase_before) = ({{.*}}, %first_phase) {{.*}} = %[[S0]] : {{.*}} keeps {
// CHECK-NEXT:        %[[P0:.*]] = tile.convert
// CHECK-NEXT:        sched.wait %[[KR]][%second_stage]
// CHECK-NEXT:        sched.slot
// CHECK-NEXT:        sched.sync_warps %own_ping_pong
// CHECK-NEXT:        %[[S1:.*]] = tile.mma %q,
// CHECK-NEXT:        sched.arrive_warps %next_ping_pong
// CHECK:             %[[ENDS:.*]]:3, {{.*}}, %[[BEFORE_END:.*]] = sched.for_tiles (%tile, %stage, %phase, %phase_before, %phase_before_before) = ({{.*}}, %second_phase, %second_phase_before) {{.*}} tiles(%[[ACC:.*]] = {{.*}}, %[[S:.*]] = %[[S1]] : {{.*}}, %[[P:.*]] = %[[P0]] : {{.*}} keeps {
// CHECK-NEXT:          %[[NEXT_P:.*]] = tile.convert %[[S]]
// CHECK-NEXT:          sched.wait %[[KR]][%stage]
// CHECK-NEXT:          sched.slot
// CHECK-NEXT:          sched.sync_warps %own_ping_pong
// CHECK-NEXT:          %[[NEXT_S:.*]] = tile.mma %q,
// CHECK-NEXT:          sched.wait %[[VR:.*]][%phase_before_before]
// CHECK-NEXT:          sched.slot %{{.*}}[%phase_before_before]
// CHECK-NEXT:          %[[SUM:.*]] = tile.mma %[[P]], %{{.*}} add %[[ACC]]
// CHECK-NEXT:          sched.arrive_warps %next_ping_pong
// CHECK:               sched.release %[[VR]][%phase_before_before]
// CHECK-NEXT:          sched.next %{{.*}}, %{{.*}}, %{{.*}}, %phase, %phase_before, %[[SUM]], %[[NEXT_S]], %[[NEXT_P]]
// CHECK-NEXT:        } {tile.names = ["tile", "stage", "phase", "phase_before", "phase_before_before"]}
// CHECK-NEXT:        sched.wait %[[VR]][%[[BEFORE_END]]]
// CHECK-NEXT:        sched.slot
// CHECK-NEXT:        tile.mma %[[ENDS]]#2, %{{.*}} add %[[ENDS]]#0
// CHECK:           } {tile.names = ["second_tile", "second_stage", "second_phase", "second_phase_before"]}
// CHECK-NEXT:      %[[LAST_P:.*]] = tile.convert %[[LEFT]]#1
// CHECK-NEXT:      sched.wait %[[VR]][%[[BEFORE_LEFT]]]
// CHECK-NEXT:      sched.slot
// CHECK-NEXT:      tile.mma %[[LAST_P]], %{{.*}} add %[[LEFT]]#0
// CHECK-NOT:       sched.sync_warps
// CHECK:         } {tile.names = ["first_tile", "first_stage", "first_phase"]}
!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!key_ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!value_ring = !tile.tile<stage 3 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>

tile.kernel @three_stages(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<3>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %r = sched.for_tiles (%tile, %k_stage, %v_stage) = (%i, %i, %i) below %n tiles(%acc = %none : !sums) {
        sched.wait %kr[%k_stage] phase %i {sched.at = #sched.at<order 1>} : !sched.ring<2>
        %k = sched.slot %k_ring[%k_stage] {sched.at = #sched.at<order 1>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 1, ping_pong "products">}
        sched.release %kr[%k_stage] : !sched.ring<2> reads %k : !keys
        %p = tile.convert %s {sched.at = #sched.at<order 0, stage 1>} : !scores -> !rounded
        sched.wait %vr[%v_stage] phase %i {sched.at = #sched.at<order 2, stage 2>} : !sched.ring<3>
        %v = sched.slot %v_ring[%v_stage] {sched.at = #sched.at<order 2, stage 2>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 2, stage 2, ping_pong "products">}
        sched.release %vr[%v_stage] {sched.at = #sched.at<order 2, stage 2>} : !sched.ring<3> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_k = arith.xori %k_stage, %one : i32
        %next_v = arith.addi %v_stage, %one : i32
        sched.next %next, %next_k, %next_v, %acc1 : i32, i32, i32, !sums
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}
