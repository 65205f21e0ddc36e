// Loads outside of loops that follow each other are copied together, and awaited where one of them is read: what stands before
// runs meanwhile. A tile of one value goes to memory from registers, without a copy in shared memory.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies | FileCheck %s
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// CHECK-LABEL: tile.kernel @rows
// CHECK-NOT:     tile.remarks
// CHECK:         sched.barrier
// CHECK-NOT:     sched.wait_copies
// CHECK-COUNT-2: sched.copy_tile
// CHECK-NEXT:    sched.commit_copies
// CHECK-NEXT:    tile.store
// CHECK-NEXT:    sched.wait_copies pending 0
// CHECK-NEXT:    sched.barrier
// CHECK-COUNT-2: sched.slot
// CHECK-NEXT:    tile.map
// CHECK-NOT:     sched.copy_tile

// SCHED-LABEL: sched.kernel @rows
// SCHED:         sched.commit_copies
// SCHED-NOT:     sched.store_shared
// SCHED-NOT:     sched.barrier
// SCHED:         sched.store_elements
// SCHED:         sched.wait_copies pending 0
// SCHED-NEXT:    sched.barrier
tile.kernel @rows(dq: workspace [b, h, q, d 64] f32, o: in [b, h, q, dv 64] bf16, do: in [b, h, q, dv 64] bf16, delta: workspace [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %O = tile.param "o" : !tile.view<4, bf16>
  %DO = tile.param "do" : !tile.view<4, bf16>
  %DELTA = tile.param "delta" : !tile.view<3, f32>
  %dq = tile.splat %zero : f32 -> <q 64 x d 64, f32, register>
  %o_tile = tile.load %O[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x dv 64, bf16, shared>
  %do_tile = tile.load %DO[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x dv 64, bf16, shared>
  tile.store %dq, %DQ[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
  %products = tile.map(%o_tile, %do_tile : !tile.tile<q 64 x dv 64, bf16, shared>, !tile.tile<q 64 x dv 64, bf16, shared>) -> !tile.tile<q 64 x dv 64, f32, register> {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  }
  %delta = tile.reduce sum %products over "dv" : <q 64 x dv 64, f32, register> -> <q 64, f32, register>
  tile.store %delta, %DELTA[%b, %h, %q0] limit %Sq : !tile.tile<q 64, f32, register>, !tile.view<3, f32>
}
