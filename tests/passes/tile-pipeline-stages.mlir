// What hand-written roles, rings and orders become.
// RUN: attune-opt %s -tile-pipeline-stages | FileCheck %s

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!key_ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!value_ring = !tile.tile<stage 2 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
!other_sums = !tile.tile<q 128 x d 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>

// A loop that is entered at most once: stage 0 of the first tile, a loop over the others, stage 1 of the last tile. Carried beside the indices are those of the tile before, which stage 1 reads;
// of the tiles the accumulator where stage 0 leaves it, the maximum, and P, which stage 0 gives to stage 1. A tile of zeros is not rescaled in front.
// CHECK-LABEL: tile.kernel @two_stages
// CHECK:         %[[NONE:.*]] = tile.splat {{.*}} -> <q 128 x dv 64
// CHECK:         %[[LOW:.*]] = tile.splat {{.*}} -> <q 128, f32
// CHECK:         sched.for_tiles (%[[TILE0:.*]], %[[STAGE0:.*]], %[[PHASE0:.*]]) = (%[[I:.*]], %[[I]], %[[I]]) below %[[N:.*]] tiles(%[[ACC0:.*]] = %[[NONE]] : {{.*}}, %[[M0:.*]] = %[[LOW]] : {{.*}}) {
// CHECK-NEXT:      sched.wait %[[KR:.*]][%[[STAGE0]]] phase %[[PHASE0]] : <2>
// CHECK-NEXT:      %[[K0:.*]] = sched.slot %{{.*}}[%[[STAGE0]]] :
// CHECK-NEXT:      %[[S0:.*]] = tile.mma %{{.*}}, %[[K0]] : {{.*}} {sched.async}
// CHECK-NEXT:      sched.mma_wait pending 0 completes(%[[S0]])
// CHECK-NEXT:      sched.release %[[KR]][%[[STAGE0]]] : <2> reads %[[K0]]
// CHECK-NEXT:      %[[M1:.*]] = tile.reduce max %[[S0]] over "k" init %[[M0]]
// CHECK-NEXT:      %[[P0:.*]] = tile.convert %[[S0]] :
// CHECK-NEXT:      %[[NEXT0:.*]] = arith.addi %[[TILE0]], %{{.*}} : i32
// CHECK-NEXT:      %[[NEXT1:.*]] = arith.xori %[[STAGE0]]
// CHECK-NEXT:      %[[NEXT2:.*]] = arith.xori %[[PHASE0]]
// CHECK-NEXT:      %[[END:.*]]:3, %{{.*}}, %[[STAGE_END:.*]], %[[PHASE_END:.*]], %[[BEFORE_END:.*]], %[[BEFORE_PHASE_END:.*]] = sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:.*]], %stage_before, %phase_before) = (%[[NEXT0]], %[[NEXT1]], %[[NEXT2]], %[[STAGE0]], %[[PHASE0]]) below %[[N]] tiles(%[[ACC:.*]] = %[[ACC0]] : {{.*}}, %[[M:.*]] = %[[M1]] : {{.*}}, %[[P:.*]] = %[[P0]] : {{.*}}) keeps {
// CHECK-NEXT:        sched.wait %[[KR]][%[[STAGE]]] phase %[[PHASE]]
// CHECK-NEXT:        %[[K:.*]] = sched.slot %{{.*}}[%[[STAGE]]]
// CHECK-NEXT:        %[[S:.*]] = tile.mma %{{.*}}, %[[K]] : {{.*}} {sched.async}
// CHECK-NEXT:        sched.wait %[[VR:.*]][%stage_before] phase %phase_before
// CHECK-NEXT:        %[[V:.*]] = sched.slot %{{.*}}[%stage_before]
// CHECK-NEXT:        %[[SUM:.*]] = tile.mma %[[P]], %[[V]] add %[[ACC]] : {{.*}} {sched.async}
// One product started after the scores: K is released behind the wait for them, V where the accumulator is needed.
// CHECK-NEXT:        sched.mma_wait pending 1 completes(%[[S]])
// CHECK-NEXT:        sched.release %[[KR]][%[[STAGE]]] : <2> reads %[[K]]
// CHECK-NEXT:        %[[M2:.*]] = tile.reduce max %[[S]] over "k" init %[[M]]
// CHECK-NEXT:        sched.mma_wait pending 0 completes(%[[SUM]], %[[P]])
// CHECK-NEXT:        sched.release %[[VR]][%stage_before] : <2> reads %[[V]]
// CHECK-NEXT:        %[[SCALED:.*]] = tile.map(%[[SUM]], %[[M2]] :
// CHECK:             }
// CHECK-NEXT:        %[[P1:.*]] = tile.convert %[[S]] :
// CHECK-NEXT:        %[[N0:.*]] = arith.addi %[[TILE]]
// CHECK-NEXT:        %[[N1:.*]] = arith.xori %[[STAGE]]
// CHECK-NEXT:        %[[N2:.*]] = arith.xori %[[PHASE]]
// CHECK-NEXT:        sched.next %[[N0]], %[[N1]], %[[N2]], %[[STAGE]], %[[PHASE]], %[[SCALED]], %[[M2]], %[[P1]]
// CHECK-NEXT:      } {tile.names = ["tile", "stage", "phase", "stage_before", "phase_before"]}
// CHECK-NEXT:      sched.wait %[[VR]][%[[BEFORE_END]]] phase %[[BEFORE_PHASE_END]]
// CHECK-NEXT:      %[[V1:.*]] = sched.slot %{{.*}}[%[[BEFORE_END]]]
// CHECK-NEXT:      %[[LAST:.*]] = tile.mma %[[END]]#2, %[[V1]] add %[[END]]#0 : {{.*}} {sched.async}
// CHECK-NEXT:      sched.mma_wait pending 0 completes(%[[LAST]], %[[END]]#2)
// CHECK-NEXT:      sched.release %[[VR]][%[[BEFORE_END]]] : <2> reads %[[V1]]
// CHECK-NEXT:      sched.next %[[N]], %[[STAGE_END]], %[[PHASE_END]], %[[LAST]], %[[END]]#1
// CHECK-NEXT:    } {tile.names = ["first_tile", "first_stage", "first_phase"]}
tile.kernel @two_stages(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// What stage 1 reads of a tile's scalars is computed again, but a remainder by a number that is not known is carried.
// CHECK-LABEL: tile.kernel @quotient
// CHECK:         sched.for_tiles
// CHECK:           %[[FIRST:.*]] = arith.remui
// CHECK:           sched.for_tiles (%[[TILE:.*]], %{{.*}}, %{{.*}}, %phase_before, %part_before) = (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]]) below %[[N:.*]] tiles(
// CHECK:             %[[PART:.*]] = arith.remui %[[TILE]], %[[N]]
// CHECK:             %[[NEXT:.*]] = arith.addi %part_before,
// CHECK-NEXT:        sched.wait %{{.*}}[%[[NEXT]]] phase %phase_before
// CHECK-NOT:         arith.remui
// CHECK:             sched.next %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[PART]],
// CHECK:           } {tile.names = ["tile", "stage", "phase", "phase_before", "part_before"]}
tile.kernel @quotient(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        %part = arith.remui %tile, %n {tile.name = "part"} : i32
        %next_part = arith.addi %part, %one : i32
        sched.wait %vr[%next_part] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%next_part] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%next_part] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Of other tiles the multiple is computed.
// CHECK-LABEL: tile.kernel @not_zero
// CHECK:         tile.reduce max
// CHECK-NEXT:    tile.map
// CHECK:         tile.convert
// CHECK:         sched.for_tiles
tile.kernel @not_zero(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 1.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// A slot is a place: where both stages read it each names its own, and the stage is carried, not the tile. Only the wait of stage 0 is there; the release stands with its last reader.
// CHECK-LABEL: tile.kernel @slot_of_both
// CHECK:         sched.for_tiles (%{{.*}}, %[[STAGE0:.*]], %{{.*}}) =
// CHECK:           sched.wait
// CHECK:           tile.mma
// CHECK-NOT:       sched.release
// CHECK:           %[[END:.*]]:2, %{{.*}}, %{{.*}}, %{{.*}}, %[[BEFORE_END:.*]] = sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:.*]], %stage_before) = (%{{.*}}, %{{.*}}, %{{.*}}, %[[STAGE0]]) below %{{.*}} tiles(%[[ACC:.*]] = {{.*}}, %[[P:.*]] = {{.*}}) keeps {
// CHECK-NEXT:        sched.wait %[[KR:.*]][%[[STAGE]]] phase %[[PHASE]]
// CHECK-NEXT:        %[[K:.*]] = sched.slot %[[RING:.*]][%[[STAGE]]]
// CHECK-NEXT:        %[[S:.*]] = tile.mma %{{.*}}, %[[K]] :
// CHECK-NEXT:        %[[BEFORE:.*]] = sched.slot %[[RING]][%stage_before]
// CHECK-NEXT:        %[[SUM:.*]] = tile.mma %[[P]], %[[BEFORE]] add %[[ACC]]
// CHECK-NEXT:        sched.mma_wait pending 0 completes(%[[S]], %[[SUM]], %[[P]])
// CHECK-NEXT:        sched.release %[[KR]][%stage_before] : <2> reads %[[BEFORE]]
// CHECK-NEXT:        tile.convert
// CHECK:           %[[LAST:.*]] = sched.slot %[[RING]][%[[BEFORE_END]]]
// CHECK-NEXT:      tile.mma %[[END]]#1, %[[LAST]] add %[[END]]#0
// CHECK-NEXT:      sched.mma_wait pending 0
// CHECK-NEXT:      sched.release %[[KR]][%[[BEFORE_END]]] : <2> reads %[[LAST]]
tile.kernel @slot_of_both(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %zeros = tile.splat %start : f32 -> !other_sums
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %zeros : !other_sums) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        %p = tile.convert %s {sched.at = #sched.at<order 2>} : !scores -> !rounded
        %acc1 = tile.mma %p, %k add %acc : !other_sums, !rounded, !keys -> !other_sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %kr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %k : !keys
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1 : i32, i32, i32, !other_sums
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// What stage 1 reads of the tile before: its number and a tile are carried, scalars that follow from the number are computed
// for it again.
// CHECK-LABEL: tile.kernel @tile_before
// CHECK:         sched.for_tiles (%[[TILE0:.*]], %{{.*}}, %{{.*}}) =
// CHECK:           arith.muli %[[TILE0]]
// CHECK:           sched.for_tiles (%[[TILE:.*]], %{{.*}}, %{{.*}}, %[[BEFORE:.*]]) = (%{{.*}}, %{{.*}}, %{{.*}}, %[[TILE0]])
// CHECK-NEXT:        arith.muli %[[TILE]]
// CHECK:             tile.map(%{{.*}}) at(q = %[[BEFORE]])
// CHECK:             %[[K0_BEFORE:.*]] = arith.muli %[[BEFORE]]
// CHECK:             %[[LATE:.*]] = arith.cmpi sgt, %[[K0_BEFORE]]
// CHECK:             tile.map(%{{.*}}) at(q = %[[K0_BEFORE]]) only_if %[[LATE]]
// CHECK:             sched.next %{{.*}}, %{{.*}}, %{{.*}}, %[[TILE]],
tile.kernel @tile_before(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%m = %low : !rows) {
        %k0 = arith.muli %tile, %n {sched.at = #sched.at<order 0>} : i32
        %own = tile.map() at(q = %k0) -> !rows {
        ^bb0(%row: i32):
          tile.yield %start : f32
        } {sched.at = #sched.at<order 0>}
        %m1 = tile.map(%m, %own : !rows, !rows) at(q = %tile) -> !rows {
        ^bb0(%e: f32, %f: f32, %row: i32):
          %x = arith.addf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 1, stage 1>}
        %late = arith.cmpi sgt, %k0, %n {sched.at = #sched.at<order 0>} : i32
        %m2 = tile.map(%m1 : !rows) at(q = %k0) only_if %late -> !rows {
        ^bb0(%e: f32, %row: i32):
          tile.yield %e : f32
        } {sched.at = #sched.at<order 1, stage 1>}
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %m2 : i32, i32, i32, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Ops of one stage only change places. One that says nothing takes the order of the next that does, and the last come last; an op comes after what it reads, whatever its order. The release
// waits for both products that read K: it is postponed to the second wait, and causes none of its own.
// CHECK-LABEL: tile.kernel @one_stage
// CHECK:         sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:.*]]) =
// CHECK-NEXT:      sched.wait %[[VR:.*]][%[[STAGE]]] phase
// CHECK-NEXT:      sched.wait %[[KR:.*]][%[[STAGE]]] phase
// CHECK-NEXT:      %[[K:.*]] = sched.slot
// CHECK-NEXT:      %[[S:.*]] = tile.mma
// CHECK-NEXT:      %[[T:.*]] = tile.mma
// CHECK-NEXT:      sched.mma_wait pending 1 completes(%[[S]])
// CHECK-NEXT:      %[[M1:.*]] = tile.reduce max %[[S]]
// CHECK-NEXT:      sched.mma_wait pending 0 completes(%[[T]])
// CHECK-NEXT:      sched.release %[[KR]][%[[STAGE]]] : <2> reads %[[K]]
// CHECK-NEXT:      %[[M2:.*]] = tile.reduce max %[[T]]
// CHECK-NEXT:      tile.map(%[[M1]], %[[M2]] :
// CHECK:           }
// CHECK-NEXT:      arith.addi %[[TILE]]
// CHECK-NEXT:      arith.xori
// CHECK-NEXT:      arith.xori
// CHECK-NEXT:      sched.next
// CHECK-NOT:     sched.for_tiles
tile.kernel @one_stage(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 1>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 2>}
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 1>}
        %m2 = tile.reduce max %t over "k" init %m1 : !rows, !scores -> !rows {sched.at = #sched.at<order 4>}
        %m3 = tile.map(%m1, %m2 : !rows, !rows) -> !rows {
        ^bb0(%e: f32, %f: f32):
          tile.yield %f : f32
        } {sched.at = #sched.at<order 3>}
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %m3 : i32, i32, i32, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Without orders ops stay; what is under way when a pass ends is waited for there, and what it reads is released then.
// CHECK-LABEL: tile.kernel @only_async
// CHECK:         sched.for_tiles
// CHECK:           %[[S:.*]] = tile.mma
// CHECK-NEXT:      sched.mma_wait pending 0 completes(%[[S]])
// CHECK-NEXT:      %[[P:.*]] = tile.convert
// CHECK-NEXT:      %[[SUM:.*]] = tile.mma
// CHECK-NEXT:      arith.addi
// CHECK-NEXT:      arith.xori
// CHECK-NEXT:      arith.xori
// CHECK-NEXT:      sched.mma_wait pending 0 completes(%[[SUM]], %[[P]])
// CHECK-NEXT:      sched.release
// CHECK-NEXT:      sched.next
tile.kernel @only_async(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums) {
        %v = sched.slot %v_ring[%stage] : !value_ring -> !values
        %k = sched.slot %k_ring[%stage] : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async}
        %p = tile.convert %s : !scores -> !rounded
        %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async}
        sched.release %vr[%stage] : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1 : i32, i32, i32, !sums
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// A turn is from its first op to its last, in the loop over the tiles behind the first. Two warpgroups: the last gives the first its first turn.
// CHECK-LABEL: tile.kernel @turns
// CHECK:         sched.role "consumer"
// CHECK:           %[[THREAD:.*]] = sched.thread_id in_role : i32
// CHECK:           %[[DIV:.*]] = arith.divui %[[THREAD]], %c128_i32
// CHECK:           %[[GROUP:.*]] = sched.uniform %[[DIV]] {tile.name = "warpgroup"}
// CHECK:           %[[OWN:.*]] = arith.addi %[[GROUP]], %c5_i32{{.*}} overflow<nsw> {tile.name = "own_ping_pong"}
// CHECK:           %[[AFTER:.*]] = arith.remui %{{.*}}, %c2_i32
// CHECK:           %[[NEXT:.*]] = arith.addi %[[AFTER]], %c5_i32{{.*}} {tile.name = "next_ping_pong"}
// CHECK:           %[[LAST:.*]] = arith.cmpi eq, %[[GROUP]], %c1_i32{{.*}}
// CHECK:           scf.if %[[LAST]] {
// CHECK-NEXT:        sched.arrive_warps %[[NEXT]] threads 256
// CHECK-NEXT:      }
// CHECK:           sched.for_tiles
// CHECK-NOT:         sched.sync_warps
// CHECK:             sched.for_tiles
// CHECK:               sched.slot
// CHECK-NEXT:          sched.sync_warps %[[OWN]] threads 256
// CHECK-NEXT:          tile.mma {{.*}} {sched.async}
// CHECK-NEXT:          sched.wait
// CHECK-NEXT:          sched.slot
// CHECK-NEXT:          tile.mma {{.*}} {sched.async}
// CHECK-NEXT:          sched.arrive_warps %[[NEXT]] threads 256
// CHECK-NEXT:          sched.mma_wait pending 1
// CHECK-NOT:     sched.sync_warps
tile.kernel @turns(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1, ping_pong "products">}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Tiles that a warpgroup passes over, in loops before and after, are turns that it hands on, but for one: the first that it works on stands in front of the loop with turns, and if it works on
// none its last counts as that.
// CHECK-LABEL: tile.kernel @passes_over
// CHECK:         %[[FROM:.*]], %{{.*}}, %{{.*}} = sched.for_tiles
// CHECK-NEXT:      sched.wait
// CHECK:           %[[MORE:.*]] = arith.cmpi slt, %{{.*}}, %[[END:.*]] : i32
// CHECK-NEXT:      scf.if %[[MORE]] {
// CHECK-NEXT:        sched.sync_warps %[[OWN:.*]] threads 256
// CHECK-NEXT:        sched.arrive_warps %[[NEXT:.*]] threads 256
// CHECK-NEXT:      }
// CHECK-NEXT:      sched.release
// CHECK:         %{{.*}}, %[[LEFT:.*]], %{{.*}}, %{{.*}} = sched.for_tiles ({{.*}}) = (%[[FROM]],
// CHECK:           sched.for_tiles
// CHECK:         %[[WORKED:.*]] = arith.cmpi ne, %[[LEFT]], %[[FROM]] : i32
// CHECK-NEXT:    sched.for_tiles ({{.*}}) = (%[[LEFT]], {{.*}}) below %[[END]] keeps {
// CHECK-NEXT:      sched.wait
// CHECK-NEXT:      %[[NEXT_TILE:.*]] = arith.addi
// CHECK:           %[[MORE:.*]] = arith.cmpi slt, %[[NEXT_TILE]], %[[END]]
// CHECK-NEXT:      %[[HAS:.*]] = arith.ori %[[WORKED]], %[[MORE]]
// CHECK-NEXT:      scf.if %[[HAS]] {
// CHECK-NEXT:        sched.sync_warps %[[OWN]] threads 256
// CHECK-NEXT:        sched.arrive_warps %[[NEXT]] threads 256
// CHECK-NEXT:      }
// CHECK-NEXT:      sched.release
tile.kernel @passes_over(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %half = tile.axis_extent "q" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %b:3 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %half keeps {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        %next = arith.addi %tile, %one : i32
        sched.release %kr[%stage] : !sched.ring<2>
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase : i32, i32, i32
      } {tile.names = ["tile", "stage", "phase"]}
      %r:5 = sched.for_tiles (%tile, %stage, %phase) = (%b#0, %b#1, %b#2) below %half tiles(%acc = %none : !sums, %m = %low : !rows) keeps {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1, ping_pong "products">}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
      %e:3 = sched.for_tiles (%tile, %stage, %phase) = (%r#2, %r#3, %r#4) below %n keeps {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        %next = arith.addi %tile, %one : i32
        sched.release %kr[%stage] : !sched.ring<2>
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase : i32, i32, i32
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// A loop of one stage has no tile in front: each tile is a turn, and so is each that is passed over.
// CHECK-LABEL: tile.kernel @passes_over_one_stage
// CHECK:         sched.for_tiles
// CHECK-NEXT:      sched.wait
// CHECK-NOT:       scf.if
// CHECK:           sched.sync_warps %[[OWN:.*]] threads 256
// CHECK-NEXT:      sched.arrive_warps %[[NEXT:.*]] threads 256
// CHECK-NEXT:      sched.release
// CHECK:         sched.for_tiles
// CHECK:           sched.sync_warps %[[OWN]] threads 256
// CHECK-NEXT:      tile.mma
// CHECK-NEXT:      tile.mma
// CHECK-NEXT:      sched.arrive_warps %[[NEXT]] threads 256
tile.kernel @passes_over_one_stage(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %half = tile.axis_extent "q" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %b:3 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %half keeps {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        %next = arith.addi %tile, %one : i32
        sched.release %kr[%stage] : !sched.ring<2>
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase : i32, i32, i32
      } {tile.names = ["tile", "stage", "phase"]}
      %r = sched.for_tiles (%tile, %stage, %phase) = (%b#0, %b#1, %b#2) below %n tiles(%m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 1, ping_pong "products">}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 2>}
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 1, ping_pong "products">}
        %m2 = tile.reduce max %t over "k" init %m1 : !rows, !scores -> !rows {sched.at = #sched.at<order 4>}
        %m3 = tile.map(%m1, %m2 : !rows, !rows) -> !rows {
        ^bb0(%e: f32, %f: f32):
          tile.yield %f : f32
        } {sched.at = #sched.at<order 3>}
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %m3 : i32, i32, i32, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Where the tile after is not the one beside it, a loop that goes on from the last one has it carried; else the loop leaves with its bound.
// CHECK-LABEL: tile.kernel @goes_on
// CHECK:         %{{.*}}:2, %{{.*}}, %[[STAGE:.*]], %[[PHASE:.*]], %[[FOLLOWING:.*]] = sched.for_tiles ({{.*}}) = (%[[I:.*]], %[[I]], %[[I]], %[[I]]) below
// CHECK:           %{{.*}}:3, %[[TILE_END:.*]], %[[STAGE_END:.*]], %[[PHASE_END:.*]], %{{.*}}, %{{.*}} = sched.for_tiles
// CHECK:           sched.next %[[N:.*]], %[[STAGE_END]], %[[PHASE_END]], %[[TILE_END]],
// CHECK-NEXT:    } {tile.names = ["first_tile", "first_stage", "first_phase", "following_tile"]}
// CHECK-NEXT:    sched.for_tiles ({{.*}}) = (%[[FOLLOWING]], %[[STAGE]], %[[PHASE]])
tile.kernel @goes_on(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %half = tile.axis_extent "q" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:5 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %half tiles(%acc = %none : !sums, %m = %low : !rows) keeps {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %n : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
      %e:3 = sched.for_tiles (%tile, %stage, %phase) = (%r#2, %r#3, %r#4) below %n keeps {
        sched.wait %kr[%stage] phase %phase : !sched.ring<2>
        sched.release %kr[%stage] : !sched.ring<2>
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase : i32, i32, i32
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// The stage is carried though nothing but the slot reads it.
// CHECK-LABEL: tile.kernel @slot_alone
// CHECK:           sched.for_tiles (%{{.*}}, %{{.*}}, %{{.*}}, %stage_before) =
// CHECK:             sched.slot %[[RING:.*]][%stage]
// CHECK:             sched.slot %[[RING]][%stage_before]
tile.kernel @slot_alone(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %zeros = tile.splat %start : f32 -> !other_sums
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %zeros : !other_sums) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        %p = tile.convert %s {sched.at = #sched.at<order 2>} : !scores -> !rounded
        %acc1 = tile.mma %p, %k add %acc : !other_sums, !rounded, !keys -> !other_sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1 : i32, i32, i32, !other_sums
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// What stage 0 reads of the sum that stage 1 gives in the same pass comes behind it, whatever its order.
// CHECK-LABEL: tile.kernel @behind_the_sum
// CHECK:         sched.for_tiles
// CHECK:           sched.for_tiles
// CHECK:             tile.reduce max
// CHECK-NEXT:        sched.wait
// CHECK-NEXT:        sched.slot
// CHECK-NEXT:        %[[SUM:.*]] = tile.mma {{.*}} add
// CHECK:             sched.mma_wait pending 0 completes(%[[SUM]],
// CHECK:             tile.map(%[[SUM]],
tile.kernel @behind_the_sum(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 0>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// A product that nothing reads is complete before the loop over the others, and when a pass ends; then what it reads is released.
// CHECK-LABEL: tile.kernel @unread
// CHECK:         sched.for_tiles
// CHECK:           tile.convert
// CHECK-NEXT:      %[[T0:.*]] = tile.mma
// CHECK:           sched.mma_wait pending 0 completes(%[[T0]])
// CHECK-NEXT:      sched.release
// CHECK-NEXT:      %{{.*}} = sched.for_tiles
// CHECK:             tile.convert
// CHECK-NEXT:        %[[T:.*]] = tile.mma
// CHECK:             sched.mma_wait pending 0 completes(%[[T]])
// CHECK-NEXT:        sched.release
// CHECK-NEXT:        sched.next
tile.kernel @unread(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 7>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// Nothing goes on from the tile after the last: it is not carried.
// CHECK-LABEL: tile.kernel @ends
// CHECK-NOT:     following_tile
tile.kernel @ends(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:5 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) keeps {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %n : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// A slot follows from the wait for its stage, whose order is later.
// CHECK-LABEL: tile.kernel @awaited
// CHECK:         sched.for_tiles
// CHECK:           sched.for_tiles (%{{.*}}, %stage,
// CHECK-NEXT:        sched.wait %[[KR:.*]][%stage]
// CHECK-NEXT:        sched.slot %{{.*}}[%stage]
// CHECK-NEXT:        tile.mma
// CHECK-NOT:         sched.wait %[[KR]][
tile.kernel @awaited(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %r:2 = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %none : !sums, %m = %low : !rows) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 9>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %m1 = tile.reduce max %s over "k" init %m : !rows, !scores -> !rows {sched.at = #sched.at<order 3>}
        %scaled = tile.map(%acc, %m1 : !sums, !rows) -> !sums {
        ^bb0(%e: f32, %f: f32):
          %x = arith.mulf %e, %f : f32
          tile.yield %x : f32
        } {sched.at = #sched.at<order 5>}
        %p = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !rounded
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// The last op that reads the tile is of stage 1, though it is not the last that is written: there it is released, and there lanes meet before.
// CHECK-LABEL: tile.kernel @released
// CHECK:         sched.for_tiles
// CHECK-NOT:       sched.sync_lanes
// CHECK-NOT:       sched.release
// CHECK:           sched.for_tiles (%{{.*}}, %stage, %{{.*}}, %stage_before) =
// CHECK:             tile.mma {{.*}} add
// CHECK-NEXT:        sched.sync_lanes
// CHECK:             sched.release %[[KR:.*]][%stage_before]
// CHECK:             sched.next
// CHECK:           tile.mma {{.*}} add
// CHECK:           sched.release %[[KR]][%{{.*}}]
tile.kernel @released(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.axis_extent "k" : i32
  %start = arith.constant 0.0 : f32
  %q = sched.shared "q" at 0 : !queries
  %k_ring = sched.shared "k" at 0 : !key_ring
  %v_ring = sched.shared "v" at 0 : !value_ring
  %kr = sched.ring "k" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  %vr = sched.ring "v" at 0 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work grid (%number) {
      %none = tile.splat %start : f32 -> !sums
      %low = tile.splat %start : f32 -> !rows
      %zeros = tile.splat %start : f32 -> !other_sums
      %r = sched.for_tiles (%tile, %stage, %phase) = (%i, %i, %i) below %n tiles(%acc = %zeros : !other_sums) {
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0>} : !sched.ring<2>
        %k = sched.slot %k_ring[%stage] {sched.at = #sched.at<order 0>} : !key_ring -> !keys
        %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        %p = tile.convert %s {sched.at = #sched.at<order 2>} : !scores -> !rounded
        %acc1 = tile.mma %p, %k add %acc : !other_sums, !rounded, !keys -> !other_sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
        sched.sync_lanes
        sched.release %kr[%stage] : !sched.ring<2> reads %k : !keys
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1 : i32, i32, i32, !other_sums
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}
