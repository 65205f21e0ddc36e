// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --canonicalize --tile-split-relative-positions | FileCheck %s

// CHECK-LABEL: tile.kernel @alibi
// CHECK: %[[Q0:.*]] = tile.block_index "q"
// CHECK: tile.for_blocks (%[[K0:[^,]*]],
// CHECK: %[[APART:.*]] = arith.subi %[[K0]], %[[Q0]] : i32
// CHECK: %[[START:.*]] = arith.sitofp %[[APART]]
// CHECK: at(q = %[[Q0]], k = %[[K0]], k = %[[START]] : f32, q = %{{.*}} : f32)
// CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %[[COLUMN:.*]]: f32, %[[ROW:.*]]: f32):
// CHECK: arith.subf %[[COLUMN]], %[[ROW]] : f32
attn.attention @alibi dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.subi %k, %q : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %0, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}
