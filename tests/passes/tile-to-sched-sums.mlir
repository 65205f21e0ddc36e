// Tiles in shared memory that are added to global memory.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_90 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s --check-prefix=SCALAR

// Rows that lie side by side in both: TMA adds them, a lane of each warp asks for a row at a time and waits until they are read.
// CHECK-LABEL: sched.kernel @sums
// CHECK:         sched.store_shared %{{.*}}, %[[ROWS:.*]][{{.*}}] : f32, <stage 1 x k 32 x d 64, f32, shared>
// CHECK:         sched.fence_async
// CHECK-NEXT:    sched.barrier
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %lane, %{{.*}} : i32
// CHECK:         scf.if %[[FIRST]] {
// CHECK:           arith.cmpi slt, %[[ROW:.*]], %{{.*}} : i32
// CHECK-NEXT:      scf.if
// CHECK-NEXT:        sched.add_rows 1 of %[[ROWS]]{{.*}} to %{{.*}}[%[[ROW]]] : <stage 1 x k 32 x d 64, f32, shared>, <2, f32>
// CHECK:           sched.commit_boxes
// CHECK-NEXT:      sched.wait_boxes pending 0

// The columns of the view end within the tile: element by element. The buffer takes the place of the first, which all are done with.
// CHECK:         %[[RAGGED:.*]] = sched.shared "{{.*}}" at 0 : <stage 1 x k 32 x e 48, f32, shared>
// CHECK-NEXT:    sched.barrier
// CHECK-NOT:     sched.fence_async
// CHECK:         sched.barrier
// CHECK:         arith.cmpi slt, %{{.*}}, %c40
// CHECK:         scf.if
// CHECK-NEXT:      %[[TERM:.*]] = sched.load_shared %[[RAGGED]]
// CHECK-NEXT:      sched.add_elements %[[TERM]] to %{{.*}} : <2, f32>

// SCALAR-LABEL: sched.kernel @sums
// SCALAR-NOT:     sched.add_rows
// SCALAR:         sched.add_elements
// SCALAR-NOT:     sched.add_rows

!rows = !tile.tile<k 32 x d 64, f32, register>
!ragged = !tile.tile<k 32 x e 48, f32, register>

tile.kernel @sums(x: in [b, k, d 64] f32, y: in [b, k, e 40] f32, sums: accumulate [b, k, d 64] f32, less: accumulate [b, k, e 40] f32)
    grid [b, k by 32] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %X = tile.param "x" : !tile.view<3, f32>
  %Y = tile.param "y" : !tile.view<3, f32>
  %S = tile.param "sums" : !tile.view<3, f32>
  %L = tile.param "less" : !tile.view<3, f32>
  %x = tile.load %X[%b, %k0] limit %Sk : !tile.view<3, f32> -> !rows
  %y = tile.load %Y[%b, %k0] limit %Sk : !tile.view<3, f32> -> !ragged
  %xs = tile.convert %x : !rows -> !tile.tile<k 32 x d 64, f32, shared>
  tile.accumulate %xs, %S[%b, %k0] limit %Sk : !tile.tile<k 32 x d 64, f32, shared>, !tile.view<3, f32>
  %ys = tile.convert %y : !ragged -> !tile.tile<k 32 x e 48, f32, shared>
  tile.accumulate %ys, %L[%b, %k0] limit %Sk : !tile.tile<k 32 x e 48, f32, shared>, !tile.view<3, f32>
}
