// Canonicalisation: what a loop over tiles carries for nothing.
// RUN: attune-opt %s -canonicalize | FileCheck %s

sched.kernel @carried() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 256 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %end = arith.constant 9 : i32
  %counts = sched.shared "counts" at 0 : !tile.tile<stage 1 x q 64, i32, shared>
  // A value that stays, and one that only its own next value follows from, are gone; one that is read stays, and one that is kept.
  // CHECK:      %{{.*}}, %{{.*}}, %[[KEPT:.*]] = sched.for_tiles (%[[TILE:.*]], %[[READ:.*]], %[[LEFT:.*]]) = (%{{.*}}, %{{.*}}, %{{.*}}) below %{{.*}} keeps {
  %r:5 = sched.for_tiles (%tile, %stays, %flips, %read, %left) = (%c0, %c1, %c0, %c0, %c0) below %end keeps {
    %next = arith.addi %tile, %c1 : i32
    %flipped = arith.xori %flips, %c1 : i32
    // CHECK:      %[[SUM:.*]] = arith.addi %[[READ]], %{{.*}} : i32
    // CHECK-NOT:  arith.xori
    %sum = arith.addi %read, %stays : i32
    // CHECK:      sched.store_shared %[[READ]],
    sched.store_shared %read, %counts[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64, i32, shared>
    %more = arith.addi %left, %c1 : i32
    sched.next %next, %stays, %flipped, %sum, %more : i32, i32, i32, i32, i32
  } {tile.names = ["tile", "stays", "flips", "read", "left"]}
  // CHECK:      } {tile.names = ["tile", "read", "left"]}
  // CHECK:      sched.store_shared %[[KEPT]],
  sched.store_shared %r#4, %counts[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64, i32, shared>
  // CHECK:      sched.store_shared %c1_i32,
  sched.store_shared %r#1, %counts[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64, i32, shared>
}
