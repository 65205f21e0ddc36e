// Where the tile of a block lies along the axes of the grid.
// RUN: attune-opt %s -split-input-file -tile-schedule-blocks | FileCheck %s

// The last tile of a head comes first.
// CHECK-LABEL: tile.kernel @rows
// CHECK-NOT:     tile.block_index
// CHECK-DAG:     %[[BLOCK:.*]] = sched.block_id : i32
// CHECK-DAG:     %[[SQ:.*]] = tile.axis_extent "q" : i32
// CHECK:         %[[TILES:.*]] = arith.ceildivui %[[SQ]], %{{.*}} : i32
// CHECK:         %[[HEAD:.*]] = arith.divui %[[BLOCK]], %[[TILES]] {{.*}}: i32
// CHECK:         %[[TURN:.*]] = arith.remui %[[BLOCK]], %[[TILES]] : i32
// CHECK:         %[[LAST:.*]] = arith.subi %[[TILES]], %{{.*}} : i32
// CHECK:         %[[TILE:.*]] = arith.subi %[[LAST]], %[[TURN]] : i32
// CHECK:         %[[H:.*]] = arith.remui %[[HEAD]], %{{.*}} : i32
// CHECK:         %[[B:.*]] = arith.divui %[[HEAD]], %{{.*}} : i32
// CHECK-DAG:     %[[BI:.*]] = sched.nonnegative %[[B]]
// CHECK-DAG:     %[[HI:.*]] = sched.nonnegative %[[H]]
// CHECK-DAG:     %[[TI:.*]] = sched.nonnegative %[[TILE]]
// CHECK:         %[[Q0:.*]] = arith.muli %[[TI]], %c64{{.*}} overflow<nsw>
// CHECK:         tile.load %{{.*}}[%[[BI]], %[[HI]], %[[Q0]]]
tile.kernel @rows(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %x = tile.load %X[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> <q 64 x d 64, bf16, shared>
}

// -----

// A place that is asked for twice is computed once.
// CHECK-LABEL: tile.kernel @twice
// CHECK:         %[[K0:.*]] = arith.muli %{{.*}}, %c32{{.*}} overflow<nsw>
// CHECK-NOT:     arith.muli
// CHECK:         tile.store %{{.*}}, %{{.*}}[%{{.*}}, %[[K0]]] limit %[[K0]]
tile.kernel @twice(y: out [b, k] f32) grid [b, k by 32] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %k0 = tile.block_index "k" : i32
  %k1 = tile.block_index "k" : i32
  %b = tile.block_index "b" : i32
  %zero = arith.constant 0.0 : f32
  %y = tile.splat %zero : f32 -> <k 32, f32, register>
  %Y = tile.param "y" : !tile.view<2, f32>
  tile.store %y, %Y[%b, %k0] limit %k1 : <k 32, f32, register>, !tile.view<2, f32>
}

// -----

// A kernel that does not ask for its place stays as it is.
// CHECK-LABEL: tile.kernel @nowhere
// CHECK-NOT:     sched.
tile.kernel @nowhere(y: out [b, k] f32) grid [b] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %Sk = tile.axis_extent "k" : i32
}
