// When the ops of a loop run, by what they follow from: nothing is known of attention.
// RUN: attune-opt %s -tile-overlap-products | FileCheck %s

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
!rows = !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 8>>
!wide_keys = !tile.tile<k 128 x d 64, bf16, shared, #sched.swizzle<128>>
!wide_values = !tile.tile<k 128 x dv 256, bf16, shared, #sched.swizzle<128>>
!wide_scores = !tile.tile<q 128 x k 128, f32, register, #sched.fragment<c, warps 8>>
!wide_rounded = !tile.tile<q 128 x k 128, bf16, register, #sched.fragment<a, warps 8>>
!wide_sums = !tile.tile<q 128 x dv 256, f32, register, #sched.fragment<c, warps 8>>

// The second product adds to a carried tile what follows from the first: it is the tile's before, and so is the wait for V. Nothing
// writes its left operand before it is complete: the conversion comes last.
// CHECK-LABEL: tile.kernel @sums
// CHECK-NOT:     tile.remarks
// CHECK:         tile.load {{.*}} limit %{{[a-z0-9_]+}} : {{.*}}<q 128 x d 64
// CHECK:         tile.for_blocks
// CHECK-NEXT:      %[[K:.*]] = tile.load {{.*}} {sched.at = #sched.at<order 0>} : {{.*}}<k 64 x d 64
// CHECK-NEXT:      %[[S:.*]] = tile.mma %{{.*}}, %[[K]] : {{.*}} {sched.async, sched.at = #sched.at<order 0>}
// CHECK-NEXT:      %[[P:.*]] = tile.convert %[[S]] {sched.at = #sched.at<order 6>}
// CHECK-NEXT:      %[[V:.*]] = tile.load {{.*}} {sched.at = #sched.at<order 1, stage 1>} : {{.*}}<k 64 x dv 64
// CHECK-NEXT:      tile.mma %[[P]], %[[V]] add {{.*}} {sched.async, sched.at = #sched.at<order 1, stage 1>}
// CHECK-NEXT:      tile.yield
tile.kernel @sums(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %p = tile.convert %s : !scores -> !rounded
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums
    tile.yield %acc1 : !sums
  }
}

// The carried tile is rescaled before: behind the wait for the product, order 5. With `overlap` V is waited for in front of that, order 4. What maps
// load by condition, and follows from nothing, is asked for beside the products, order 2; all else follows them, order 3.
// CHECK-LABEL: tile.kernel @rescaled
// CHECK:         tile.for_blocks
// CHECK:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0>}
// CHECK-NEXT:      tile.map() {{.*}}only_if
// CHECK:           } {sched.at = #sched.at<order 2>}
// CHECK-NEXT:      tile.map({{.*}} only_if
// CHECK:           } {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      %[[M:.*]] = tile.reduce max {{.*}} {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.map(%{{.*}}, %[[M]] :
// CHECK:           } {sched.at = #sched.at<order 5>}
// CHECK-NEXT:      tile.convert {{.*}} {sched.at = #sched.at<order 6>}
// CHECK-NEXT:      tile.load {{.*}} {sched.at = #sched.at<order 4>} : {{.*}}<k 64 x dv 64
// CHECK-NEXT:      tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 1, stage 1>}
tile.kernel @rescaled(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.overlap, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) partial
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %asked = tile.map() at(q = %k0) only_if %partial -> !rows {
    ^bb0(%row: i32):
      tile.yield %zero : f32
    }
    %x = tile.map(%s, %asked : !scores, !rows) only_if %partial -> !scores {
    ^bb0(%e: f32, %row: f32):
      tile.yield %row : f32
    }
    %m = tile.reduce max %x over "k" : !scores -> !rows
    %scaled = tile.map(%acc, %m : !sums, !rows) -> !sums {
    ^bb0(%e: f32, %f: f32):
      %n = arith.mulf %e, %f : f32
      tile.yield %n : f32
    }
    %p = tile.convert %s : !scores -> !rounded
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %acc1 = tile.mma %p, %v add %scaled : !sums, !rounded, !values -> !sums
    tile.yield %acc1 : !sums
  }
}

// A ring of one stage does not hold V of two tiles: `overlap` waits for it where it is read, as without.
// CHECK-LABEL: tile.kernel @one_stage
// CHECK:           tile.load {{.*}} {sched.at = #sched.at<order 1, stage 1>, sched.ring = #sched.ring<stages 1>} : {{.*}}<k 64 x dv 64
tile.kernel @one_stage(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.overlap, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %p = tile.convert %s : !scores -> !rounded
    %v = tile.load %V[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !values
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums
    tile.yield %acc1 : !sums
  }
}

// Two products lead, and what the second follows from, though it is written behind what reads the first; and what is written in front of the first. A product that follows from both but adds to no
// carried tile stays in the pass of its own tile, and one whose sum is read in the loop, too.
// CHECK-LABEL: tile.kernel @two_lead
// CHECK:         tile.for_blocks
// CHECK-NEXT:      tile.splat {{.*}} {sched.at = #sched.at<order 0>}
// CHECK-NEXT:      tile.load {{.*}} {sched.at = #sched.at<order 0>} : {{.*}}<k 64 x d 64
// CHECK-NEXT:      %[[A:.*]] = tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0>}
// CHECK-NEXT:      %[[P:.*]] = tile.convert %[[A]] {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.load {{.*}} {sched.at = #sched.at<order 0>} : {{.*}}<k 64 x dv 64
// CHECK-NEXT:      %[[B:.*]] = tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0>}
// CHECK-NEXT:      %[[R:.*]] = tile.convert %[[B]] {sched.at = #sched.at<order 6>}
// CHECK-NEXT:      tile.mma %[[R]], %{{.*}} add %{{.*}} {sched.async, sched.at = #sched.at<order 1, stage 1>}
// CHECK-NEXT:      %[[P1:.*]] = tile.convert %[[A]] {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      %[[C:.*]] = tile.mma %[[P1]], %{{.*}} add %{{.*}} {sched.async, sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.reduce sum %[[C]] {{.*}} {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.mma %[[P]], %{{.*}} : {{.*}} {sched.async, sched.at = #sched.at<order 3>}
tile.kernel @two_lead(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %o = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !tile.tile<q 128 x dv 64, bf16, shared, #sched.swizzle<128>>
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %written_first = tile.splat %zero : f32 -> !rows
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %a = tile.mma %q, %k : !queries, !keys -> !scores
    %p = tile.convert %a : !scores -> !rounded
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %b = tile.mma %o, %v : !tile.tile<q 128 x dv 64, bf16, shared, #sched.swizzle<128>>, !values -> !scores
    %s = tile.convert %b : !scores -> !rounded
    %acc1 = tile.mma %s, %v add %acc : !sums, !rounded, !values -> !sums
    %p1 = tile.convert %a : !scores -> !rounded
    %other1 = tile.mma %p1, %v add %other : !sums, !rounded, !values -> !sums
    %rows = tile.reduce sum %other1 over "dv" : !sums -> !rows
    %c = tile.mma %p, %v : !rounded, !values -> !sums
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// 128 registers of a thread for the carried tile, 64 for the scores and 32 for the left operand are more than 200.
// CHECK-LABEL: tile.kernel @wide
// CHECK-SAME:    tile.remarks = ["no product is deferred to the next tile: none adds to a tile that its loop carries what the loop computes from another, or registers do not hold its operand meanwhile"]
// CHECK:         tile.for_blocks
// CHECK:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0>}
// CHECK-NEXT:      tile.convert {{.*}} {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.load {{.*}} {sched.at = #sched.at<order 3>}
// CHECK-NEXT:      tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 3>}
tile.kernel @wide(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 256] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 128 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !wide_sums
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !wide_sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !wide_keys
    %s = tile.mma %q, %k : !queries, !wide_keys -> !wide_scores
    %p = tile.convert %s : !wide_scores -> !wide_rounded
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !wide_values
    %acc1 = tile.mma %p, %v add %acc : !wide_sums, !wide_rounded, !wide_values -> !wide_sums
    tile.yield %acc1 : !wide_sums
  }
}

// One op that says when it runs, and the loop is as a hand wrote it.
// CHECK-LABEL: tile.kernel @written
// CHECK-NOT:     tile.remarks
// CHECK-NOT:     sched.async
// CHECK-NOT:     sched.at
// CHECK:         tile.convert {{.*}} {sched.at = #sched.at<order 7>}
// CHECK-NOT:     sched.async
// CHECK-NOT:     sched.at
// CHECK:         tile.kernel @all_copy
tile.kernel @written(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %p = tile.convert %s {sched.at = #sched.at<order 7>} : !scores -> !rounded
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums
    tile.yield %acc1 : !sums
  }
}

// Where all warps copy, products are warp-level: nothing only starts.
// CHECK-NOT:     sched.a
tile.kernel @all_copy(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
  }
}
