// Elements that go to places of their own, by a branch for each that has one.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s

// The number is compared once, in one branch for all elements; the extents are the view's.
// CHECK-LABEL: sched.kernel @places
// CHECK:         %[[ROWS:.*]] = sched.extent %{{.*}}, 0 : <2, f32>
// CHECK:         %[[OWN:.*]] = arith.cmpi ult, %b, %[[ROWS]] : i32
// CHECK:         %[[COLUMNS:.*]] = sched.extent %{{.*}}, 1 : <2, f32>
// CHECK:         scf.if %[[OWN]] {
// CHECK:           scf.for
// CHECK:             %[[INDEX:.*]] = sched.get %{{.*}} : <q 64 x k 32, i32
// CHECK:             %[[IN:.*]] = arith.cmpi ult, %[[INDEX]], %[[COLUMNS]] : i32
// CHECK:             scf.if %[[IN]] {
// CHECK-NEXT:          %[[X:.*]] = sched.get %{{.*}} : <q 64 x k 32, f32
// CHECK-NEXT:          sched.add_elements %[[X]] to %{{.*}}[%b, %[[INDEX]]] : <2, f32>
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             sched.store_element %{{.*}}, %{{.*}}[%b, %{{.*}}] : f32, <2, bf16>
// Integers by additions of their own.
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             sched.add_integer %{{.*}} to %{{.*}}[%b, %{{.*}}] : <2, i64>

!values = !tile.tile<q 64 x k 32, f32, register>
!indices = !tile.tile<q 64 x k 32, i32, register>

tile.kernel @places(sums: workspace [b, n] f32, out: out [b, n] bf16, counts: workspace [b, n] i64) grid [b, n by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %n0 = tile.block_index "n" : i32
  %c = arith.constant 1.0 : f32
  %S = tile.param "sums" : !tile.view<2, f32>
  %O = tile.param "out" : !tile.view<2, bf16>
  %x = tile.map() at(q = %n0) -> !values {
  ^bb0(%q: i32):
    %f = arith.sitofp %q : i32 to f32
    tile.yield %f : f32
  }
  %i = tile.map() at(q = %n0, k = %n0) -> !indices {
  ^bb0(%q: i32, %k: i32):
    %d = arith.subi %q, %k : i32
    tile.yield %d : i32
  }
  tile.scatter add %x, %S[%b, %i] : !values, !tile.view<2, f32> (i32, !indices)
  tile.scatter %x, %O[%b, %i] : !values, !tile.view<2, bf16> (i32, !indices)
  %C = tile.param "counts" : !tile.view<2, i64>
  tile.scatter add %i, %C[%b, %i] : !indices, !tile.view<2, i64> (i32, !indices)
}
