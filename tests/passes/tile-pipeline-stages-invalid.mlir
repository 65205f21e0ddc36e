// What a schedule in the text cannot ask for.
// RUN: attune-opt %s -split-input-file -tile-pipeline-stages -verify-diagnostics

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!key_ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!value_ring = !tile.tile<stage 2 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>

// The sum is there a tile later.
tile.kernel @reads_stage_1(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
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
        // expected-note @below {{what it reads}}
        %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        // expected-error @below {{is of stage 0 and reads what is of stage 1, which is computed one tile later; give it stage 1}}
        %back = tile.reduce max %acc1 over "dv" : !sums -> !rows {sched.at = #sched.at<order 7>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}

// -----

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!key_ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!value_ring = !tile.tile<stage 2 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>

// The wait for a slot comes a tile later.
tile.kernel @awaited_later(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
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
        // expected-note @below {{what it reads}}
        sched.wait %kr[%stage] phase %phase {sched.at = #sched.at<order 0, stage 1>} : !sched.ring<2>
        // expected-error @below {{is of stage 0 and reads what is of stage 1, which is computed one tile later; give it stage 1}}
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

// -----

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!key_ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!value_ring = !tile.tile<stage 2 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>

// Nor what lies in shared memory, which the next tile would overwrite.
tile.kernel @staged(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [] dtype bf16
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
        // expected-error @below {{gives '!tile.tile<q 128 x k 64, bf16, shared, #sched.swizzle<128>>' to an op of stage 1, where a loop carries tiles in registers and i32; give it stage 1}}
        %staged = tile.convert %s {sched.at = #sched.at<order 6>} : !scores -> !tile.tile<q 128 x k 64, bf16, shared, #sched.swizzle<128>>
        sched.wait %vr[%stage] phase %phase {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2>
        %v = sched.slot %v_ring[%stage] {sched.at = #sched.at<order 1, stage 1>} : !value_ring -> !values
        %acc1 = tile.mma %staged, %v add %scaled : !sums, !tile.tile<q 128 x k 64, bf16, shared, #sched.swizzle<128>>, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
        sched.release %vr[%stage] {sched.at = #sched.at<order 1, stage 1>} : !sched.ring<2> reads %v : !values
        %next = arith.addi %tile, %one : i32
        %next_stage = arith.xori %stage, %one : i32
        %next_phase = arith.xori %phase, %one : i32
        sched.next %next, %next_stage, %next_phase, %acc1, %m1 : i32, i32, i32, !sums, !rows
      } {tile.names = ["tile", "stage", "phase"]}
    }
  }
}
