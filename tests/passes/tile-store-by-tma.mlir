// RUN: attune-opt %s -split-input-file -tile-store-by-tma | FileCheck %s

// What a product reads from shared memory, where it lies as the tensor does, goes to memory from there, behind the last product that is started.
// CHECK-LABEL: tile.kernel @sent
// CHECK:         %[[Q:.*]] = tile.map() at(q =
// CHECK:         %[[K:.*]] = tile.map() at(k =
// CHECK-NOT:     tile.scatter
// CHECK:         %[[SHARED:.*]] = sched.exchange
// CHECK:         tile.mma %[[SHARED]]
// CHECK-NEXT:    tile.mma
// CHECK-NEXT:    tile.scatter %[[SHARED]], %OUT[%h, %[[Q]], %[[K]]] : <q 64 x k 128, bf16, shared
// CHECK-NOT:     tile.scatter
// The first tile of a loop that stands in front of it: behind the loop other tiles lie in the ring.
// CHECK-LABEL: tile.kernel @in_front
// CHECK:         %[[SHARED:.*]] = sched.exchange
// CHECK:         tile.mma %[[SHARED]]
// CHECK-NEXT:    tile.scatter %[[SHARED]]
// CHECK:         sched.for_tiles
// CHECK:         tile.mma
// CHECK-NOT:     tile.scatter
// Of another type than the tensor's, in no shared memory, by other indices, or in the registers' order there: registers as they are.
// CHECK-LABEL: tile.kernel @as_it_is
// CHECK-COUNT-4: tile.scatter %{{.*}} : <k 128 x q 64, f32, register
// CHECK-NOT:     tile.scatter
// CHECK-LABEL: tile.kernel @in_another_order
// CHECK:         tile.scatter %{{.*}} : <k 128 x q 64, f32, register
// CHECK-NOT:     tile.scatter

!ds = !tile.tile<k 128 x q 64, f32, register, #sched.fragment<c, warps 8>>
!ring = !tile.tile<stage 2 x q 64 x k 128, bf16, shared, #sched.swizzle<128>>
!shared = !tile.tile<q 64 x k 128, bf16, shared, #sched.swizzle<128>>
!ring_of_keys = !tile.tile<stage 2 x k 128 x q 64, bf16, shared, #sched.swizzle<128>>
!shared_keys = !tile.tile<k 128 x q 64, bf16, shared, #sched.swizzle<128>>
!keys = !tile.tile<k 128 x d 64, bf16, shared, #sched.swizzle<128>>
!queries = !tile.tile<q 64 x d 64, bf16, shared, #sched.swizzle<128>>
!dq = !tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>
!dk = !tile.tile<k 128 x d 64, f32, register, #sched.fragment<c, warps 8>>
!left = !tile.tile<k 128 x q 64, bf16, register, #sched.fragment<a, warps 8>>
!qs = !tile.tile<q 64, i32, register, #sched.fragment<columns, warps 8>>
!ks = !tile.tile<k 128, i32, register, #sched.fragment<rows, warps 8>>

tile.kernel @sent(out: out [h, q, k] bf16) grid [h, q by 64, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %OUT = tile.param "out" {tile.name = "OUT"} : !tile.view<3, bf16>
  %h = tile.block_index "h" {tile.name = "h"} : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %none = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  %x = arith.constant 0.0 : f32
  %ring = sched.shared "ds_ring" at 0 : !ring
  %keys = sched.shared "keys" at 0 : !keys
  %queries = sched.shared "queries" at 0 : !queries
  %ds = tile.splat %x : f32 -> !ds
  %qs = tile.map() at(q = %q0) -> !qs {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !ks {
  ^bb0(%k: i32):
    %below = arith.cmpi slt, %k, %Sk : i32
    %place = arith.select %below, %k, %none : i32
    tile.yield %place : i32
  }
  tile.scatter %ds, %OUT[%h, %qs, %ks] : !ds, !tile.view<3, bf16>(i32, !qs, !ks)
  %left = tile.convert %ds : !ds -> !left
  %shared = sched.exchange %ds into %ring[%zero] : !ds, !ring -> !shared
  %dq = tile.mma %shared, %keys : !shared, !keys -> !dq
  %dk = tile.mma %left, %queries : !left, !queries -> !dk
}

tile.kernel @in_front(out: out [h, q, k] bf16) grid [h, q by 64, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %OUT = tile.param "out" {tile.name = "OUT"} : !tile.view<3, bf16>
  %h = tile.block_index "h" {tile.name = "h"} : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %none = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  %x = arith.constant 0.0 : f32
  %ring = sched.shared "ds_ring" at 0 : !ring
  %keys = sched.shared "keys" at 0 : !keys
  %queries = sched.shared "queries" at 0 : !queries
  %ds = tile.splat %x : f32 -> !ds
  %qs = tile.map() at(q = %q0) -> !qs {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !ks {
  ^bb0(%k: i32):
    %below = arith.cmpi slt, %k, %Sk : i32
    %place = arith.select %below, %k, %none : i32
    tile.yield %place : i32
  }
  tile.scatter %ds, %OUT[%h, %qs, %ks] : !ds, !tile.view<3, bf16>(i32, !qs, !ks)
  %left = tile.convert %ds : !ds -> !left
  %shared = sched.exchange %ds into %ring[%zero] : !ds, !ring -> !shared
  %dq = tile.mma %shared, %keys : !shared, !keys -> !dq
  sched.for_tiles (%n) = (%zero) below %Sk {
    sched.next %Sk : i32
  }
  %dk = tile.mma %left, %queries : !left, !queries -> !dk
}

tile.kernel @as_it_is(out: out [h, q, k] bf16, wide: out [h, q, k] f32) grid [h, q by 64, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %OUT = tile.param "out" : !tile.view<3, bf16>
  %WIDE = tile.param "wide" : !tile.view<3, f32>
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %odd = arith.addi %k0, %h : i32
  %zero = arith.constant 0 : i32
  %x = arith.constant 0.0 : f32
  %ring = sched.shared "ds_ring" at 0 : !ring
  %keys = sched.shared "keys" at 0 : !keys
  %ds = tile.splat %x : f32 -> !ds
  %other = tile.splat %x : f32 -> !ds
  %qs = tile.map() at(q = %q0) -> !qs {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !ks {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  %shifted = tile.map() at(k = %odd) -> !ks {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  tile.scatter %ds, %WIDE[%h, %qs, %ks] : !ds, !tile.view<3, f32>(i32, !qs, !ks)
  tile.scatter %other, %OUT[%h, %qs, %ks] : !ds, !tile.view<3, bf16>(i32, !qs, !ks)
  tile.scatter %ds, %OUT[%h, %ks, %qs] : !ds, !tile.view<3, bf16>(i32, !ks, !qs)
  tile.scatter %ds, %OUT[%h, %qs, %shifted] : !ds, !tile.view<3, bf16>(i32, !qs, !ks)
  %shared = sched.exchange %ds into %ring[%zero] : !ds, !ring -> !shared
  %dq = tile.mma %shared, %keys : !shared, !keys -> !dq
}

tile.kernel @in_another_order(out: out [h, q, k] bf16) grid [h, q by 64, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %OUT = tile.param "out" {tile.name = "OUT"} : !tile.view<3, bf16>
  %h = tile.block_index "h" {tile.name = "h"} : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %none = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  %x = arith.constant 0.0 : f32
  %ring = sched.shared "ds_ring" at 0 : !ring_of_keys
  %keys = sched.shared "keys" at 0 : !keys
  %queries = sched.shared "queries" at 0 : !queries
  %ds = tile.splat %x : f32 -> !ds
  %qs = tile.map() at(q = %q0) -> !qs {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !ks {
  ^bb0(%k: i32):
    %below = arith.cmpi slt, %k, %Sk : i32
    %place = arith.select %below, %k, %none : i32
    tile.yield %place : i32
  }
  tile.scatter %ds, %OUT[%h, %qs, %ks] : !ds, !tile.view<3, bf16>(i32, !qs, !ks)
  %left = tile.convert %ds : !ds -> !left
  %shared = sched.exchange %ds into %ring[%zero] : !ds, !ring_of_keys -> !shared_keys
  %dq = tile.mma %shared, %keys : !shared_keys, !keys -> !dq
  %dk = tile.mma %left, %queries : !left, !queries -> !dk
}
