// Products that only start, and waits for them.
// RUN: attune-opt %s -split-input-file -tile-verify-schedule -verify-diagnostics
// RUN: not attune-opt %s -split-input-file -tile-verify-schedule=form=other 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: form 'other' is not one of layouts, copies, stages

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q_ring = sched.shared "q" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k_ring = sched.shared "k" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %q = sched.slot %q_ring[%c0] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
      %k = sched.slot %k_ring[%c0] : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      %t = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      sched.mma_wait pending 1 completes(%s) : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
      %x = tile.map(%s : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>) -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {
      ^bb0(%e: f32):
        tile.yield %e : f32
      }
      sched.mma_wait pending 0 completes(%t) : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
    }
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q_ring = sched.shared "q" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k_ring = sched.shared "k" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %q = sched.slot %q_ring[%c0] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
      %k = sched.slot %k_ring[%c0] : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // expected-error @below {{'tile.mma' op says when it runs, which the order of ops says by now}}
      %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.at = #sched.at<order 1>}
    }
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q_ring = sched.shared "q" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k_ring = sched.shared "k" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %q = sched.slot %q_ring[%c0] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
      %k = sched.slot %k_ring[%c0] : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // expected-note @below {{the product}}
      %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      // expected-error @below {{'tile.map' op reads a product that is under way; sched.mma_wait must stand between}}
      %x = tile.map(%s : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>) -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {
      ^bb0(%e: f32):
        tile.yield %e : f32
      }
    }
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q_ring = sched.shared "q" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k_ring = sched.shared "k" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %q = sched.slot %q_ring[%c0] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
      %k = sched.slot %k_ring[%c0] : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      %t = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      // expected-error @below {{'sched.mma_wait' op leaves 0 products under way, but 1 were started after the last that it completes}}
      sched.mma_wait pending 0 completes(%s) : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
    }
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q_ring = sched.shared "q" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k_ring = sched.shared "k" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %q = sched.slot %q_ring[%c0] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
      %k = sched.slot %k_ring[%c0] : !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // expected-note @below {{the product}}
      %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
      // expected-error @below {{'sched.for_tiles' op is reached while a product is under way; sched.mma_wait must stand between}}
      sched.for_tiles (%i) = (%c0) below %c0 {
        sched.next %c0 : i32
      }
    }
  }
}

// -----

// The conversion gives the P that the next iteration multiplies, in the registers of this iteration's P.
tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %v_ring = sched.shared "v" at 0 : !tile.tile<stage 1 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      %zero = arith.constant 0.0 : f32
      %s = tile.splat %zero : f32 -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
      %first = tile.convert %s : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> -> !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
      %none = tile.splat %zero : f32 -> !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
      %v = sched.slot %v_ring[%c0] : !tile.tile<stage 1 x k 64 x dv 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
      %p_end, %o_end = sched.for_tiles (%i) = (%c0) below %c0 tiles(%p = %first : !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>, %o = %none : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>) {
        // expected-note @below {{the product}}
        %next_o = tile.mma %p, %v add %o : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>, <q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>, <k 64 x dv 64, bf16, shared, #sched.swizzle<128>> -> <q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>> {sched.async}
        // expected-error @below {{'tile.convert' op gives the next value of the left operand of a product that is under way; sched.mma_wait must stand between}}
        %next_p = tile.convert %s : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>> -> !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
        sched.mma_wait pending 0 completes(%next_o) : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
        sched.next %c0, %next_p, %next_o : i32, !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>, !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
      }
    }
  }
}
