// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-specialize-warps -canonicalize -cse | FileCheck %s

!queries = !tile.tile<q 128 x d 64, bf16, shared>
!keys = !tile.tile<k 64 x d 64, bf16, shared>
!scores = !tile.tile<q 128 x k 64, f32, register>

// Blocks that take one tile of work after another, with nothing copied in front of the loop: no message goes with it, and both roles
// deal the tiles out to themselves. One lane of the producer walks all of them; the consumers' stages are the same in all lanes.
// The operands of a product, which nothing else reads, have one pair of barriers: two copies fill a stage, which is awaited and left once.
// CHECK-LABEL: tile.kernel @dealt
// CHECK-NOT:     sched.shared "tasks"
// CHECK:         %[[RING:.*]] = sched.ring "q_k_barriers" at 0 filled_by 2 emptied_by 8 : <2>
// CHECK-NOT:     sched.ring
// CHECK:         sched.role "producer"
// CHECK:           scf.if %elected
// CHECK:             %[[BLOCK:.*]] = sched.block_id
// CHECK:             sched.for_work persistent from %[[BLOCK]] below %{{.*}} carries (%c0_i32, %c0_i32) (%{{.*}}, %[[COUNT:.*]], %[[STAGE:.*]], %[[PHASE:.*]]) {
// CHECK:               %[[ROUND:.*]] = arith.addi %[[COUNT]], %c1_i32
// CHECK:               %[[FIRST:.*]] = arith.muli %{{.*}}, %[[ROUND]]
// CHECK:               %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[BLOCK]]
// CHECK-NOT:           sched.send
// CHECK:               %{{.*}}, %[[STAGE_END:.*]], %[[PHASE_END:.*]] = sched.for_tiles ({{.*}}) = (%{{.*}}, %[[STAGE]], %[[PHASE]])
// CHECK:                 sched.acquire %[[RING]]
// CHECK-NEXT:            sched.copy_tile {{.*}} signal %[[RING]]
// CHECK-NEXT:            sched.copy_tile {{.*}} signal %[[RING]]
// CHECK-NOT:           sched.uniform
// CHECK:               sched.next %[[NEXT]], %[[STAGE_END]], %[[PHASE_END]]
// CHECK:         sched.role "consumer"
// CHECK:           %[[BLOCK:.*]] = sched.block_id
// CHECK:           sched.for_work persistent from %[[BLOCK]] below %{{.*}} carries (%c0_i32, %c0_i32) (%{{.*}}, %[[COUNT:.*]], %[[STAGE:.*]], %[[PHASE:.*]]) {
// CHECK:             %[[ROUND:.*]] = arith.addi %[[COUNT]], %c1_i32
// CHECK:             %[[FIRST:.*]] = arith.muli %{{.*}}, %[[ROUND]]
// CHECK:             %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[BLOCK]]
// CHECK-NOT:         sched.receive
// CHECK:             %{{.*}}, %[[STAGE_END:.*]], %[[PHASE_END:.*]] = sched.for_tiles ({{.*}}) = (%{{.*}}, %[[STAGE]], %[[PHASE]])
// CHECK-COUNT-1:       sched.wait %[[RING]]
// CHECK-NOT:           sched.wait
// CHECK:               tile.mma
// CHECK:               sched.release %[[RING]][%{{.*}}] : <2> reads %{{.*}}, %{{.*}} :
// CHECK-NOT:           sched.release
// CHECK:             %[[STAGE_UNIFORM:.*]] = sched.uniform %[[STAGE_END]]
// CHECK:             %[[PHASE_UNIFORM:.*]] = sched.uniform %[[PHASE_END]]
// CHECK:             sched.next %[[NEXT]], %[[STAGE_UNIFORM]], %[[PHASE_UNIFORM]]
tile.kernel @dealt(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %zero = arith.constant 0.0 : f32
  %i = arith.constant 0 : i32
  %columns = arith.constant 64 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<3, f32>
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %tiles = arith.ceildivsi %Sk, %columns : i32
  %dom = tile.domain k by 64 [%i, %tiles) full
  %init = tile.splat %zero : f32 -> !scores
  %sum = tile.for_blocks (%k0, %partial) in %dom iter_args(%before = %init : !scores) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>, tile.name = "q_tile"} : !tile.view<4, bf16> -> !queries
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "k_tile"} : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %next = tile.map(%before, %s : !scores, !scores) -> !scores {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    }
    tile.yield %next : !scores
  }
  %rows = tile.reduce sum %sum over "k" : !scores -> !tile.tile<q 128, f32, register>
  tile.store %rows, %X[%b, %h, %q0] limit %Sq : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
}

// What the same warps compute, one after the other, has one pair of barriers: each of their lanes arrives once for both.
// CHECK-LABEL: tile.kernel @vectors
// CHECK:         %[[K:.*]] = sched.ring "k_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// CHECK:         %[[BOTH:.*]] = sched.ring "x_y_barriers" at 0 filled_by 64 emptied_by 256 : <2>
// CHECK:         %[[YS:.*]] = sched.shared "y_ring"
// CHECK:         sched.role "producer"
// CHECK:           sched.acquire %[[BOTH]]
// CHECK:           sched.store_tile
// CHECK-NOT:       sched.commit
// CHECK:           sched.store_tile %{{.*}} to %[[YS]]
// CHECK-NEXT:      sched.commit %[[BOTH]]
// CHECK:         sched.role "consumer"
// CHECK:           sched.wait %[[K]]
// CHECK:           tile.mma
// CHECK:           sched.wait %[[BOTH]]
// CHECK:           tile.map
// CHECK-NOT:       sched.wait
// CHECK-NOT:       sched.release %[[BOTH]]
// CHECK:           sched.slot %[[YS]]
// CHECK:           sched.release %[[BOTH]][%{{.*}}] by_lanes : <2> reads %{{.*}}, %{{.*}} :
// CHECK-NOT:       sched.release %[[BOTH]]
tile.kernel @vectors(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, u: in [b, h, q] f32, w: in [b, h, q] f32, x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %zero = arith.constant 0.0 : f32
  %i = arith.constant 0 : i32
  %columns = arith.constant 64 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %U = tile.param "u" : !tile.view<3, f32>
  %W = tile.param "w" : !tile.view<3, f32>
  %X = tile.param "x" : !tile.view<3, f32>
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %tiles = arith.ceildivsi %Sk, %columns : i32
  %dom = tile.domain k by 64 [%i, %tiles) full
  %init = tile.splat %zero : f32 -> !scores
  %q = tile.load %Q[%b, %h, %q0] limit %Sq {tile.name = "q_tile"} : !tile.view<4, bf16> -> !queries
  %sum = tile.for_blocks (%k0, %partial) in %dom iter_args(%before = %init : !scores) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "k_tile"} : !tile.view<4, bf16> -> !keys
    %u_rows = tile.map() at(q = %q0) -> !tile.tile<q 128, f32, register> {
    ^bb0(%row: i32):
      %e = tile.element %U[%b, %h, %row] in_range [true, true, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      tile.yield %e : f32
    }
    %u = tile.convert %u_rows {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, tile.name = "x"} : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, f32, shared>
    %w_rows = tile.map() at(q = %q0) -> !tile.tile<q 128, f32, register> {
    ^bb0(%row: i32):
      %e = tile.element %W[%b, %h, %row] in_range [true, true, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      tile.yield %e : f32
    }
    %w = tile.convert %w_rows {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, tile.name = "y"} : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, f32, shared>
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %one = tile.map(%s, %u : !scores, !tile.tile<q 128, f32, shared>) -> !scores {
    ^bb0(%x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile.yield %z : f32
    }
    %next = tile.map(%before, %one, %w : !scores, !scores, !tile.tile<q 128, f32, shared>) -> !scores {
    ^bb0(%a: f32, %x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      %t = arith.addf %a, %z : f32
      tile.yield %t : f32
    }
    tile.yield %next : !scores
  }
  %rows = tile.reduce sum %sum over "k" : !scores -> !tile.tile<q 128, f32, register>
  tile.store %rows, %X[%b, %h, %q0] limit %Sq : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
}
