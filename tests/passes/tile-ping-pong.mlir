// The products that a loop starts before it waits for one are a turn.
// RUN: attune-opt %s -tile-ping-pong | FileCheck %s

!queries = !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!values = !tile.tile<k 64 x dv 64, bf16, shared, #sched.swizzle<128>>
!scores = !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
!rounded = !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
!sums = !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>

// One that leads and one of the tile before; not one that follows from a product of its own tile, nor one that is complete where it stands.
// CHECK-LABEL: tile.kernel @turns
// CHECK:         tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}
// CHECK-NEXT:    tile.convert {{.*}} {sched.at = #sched.at<order 3>}
// CHECK-NEXT:    tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 1, stage 1, ping_pong "products">}
// CHECK-NEXT:    tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 3>}
// CHECK-NEXT:    tile.mma {{.*}} {sched.at = #sched.at<order 0>}
tile.kernel @turns(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// A turn that the text has written is the only one.
// CHECK-LABEL: tile.kernel @written
// CHECK-NOT:     ping_pong "products"
// CHECK:         tile.convert {{.*}} {sched.at = #sched.at<order 3, ping_pong "functions">}
// CHECK-NOT:     ping_pong "products"
// CHECK-LABEL: tile.kernel @plan_without
tile.kernel @written(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3, ping_pong "functions">} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// The plan asks for none.
// CHECK-NOT:     turn "
tile.kernel @plan_without(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// One warpgroup has nobody to take turns with.
// CHECK-LABEL: tile.kernel @one_warpgroup
// CHECK-NOT:     turn "
tile.kernel @one_warpgroup(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// Two stages are what passing over tiles in turn takes.
// CHECK-LABEL: tile.kernel @one_stage
// CHECK-SAME:    tile.remarks = ["no ping-pong: a warpgroup that skips a tile would keep the tile's stage until its turn, and rings of one stage have no other stage"]
// CHECK-NOT:     turn "
tile.kernel @one_stage(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom within [%i, %i) iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// CHECK-LABEL: tile.kernel @two_stages
// CHECK:         ping_pong "products"
tile.kernel @two_stages(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom within [%i, %i) iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}

// Nor does it matter where all warpgroups work on all tiles.
// CHECK-LABEL: tile.kernel @all_tiles
// CHECK:         ping_pong "products"
tile.kernel @all_tiles(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %none = tile.splat %zero : f32 -> !sums
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc = %none : !sums, %other = %none : !sums) {
    %k = tile.load %K[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !keys
    %v = tile.load %V[%i, %i, %k0] limit %i {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !values
    %s = tile.mma %q, %k : !queries, !keys -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %p = tile.convert %s {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %acc1 = tile.mma %p, %v add %acc : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 1, stage 1>}
    %other1 = tile.mma %p, %v add %other : !sums, !rounded, !values -> !sums {sched.async, sched.at = #sched.at<order 3>}
    %t = tile.mma %q, %k : !queries, !keys -> !scores {sched.at = #sched.at<order 0>}
    tile.yield %acc1, %other1 : !sums, !sums
  }
}
