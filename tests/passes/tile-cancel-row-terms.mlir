// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --tile-fold-softmax-scale --canonicalize --tile-hoist-invariants --tile-cancel-row-terms --canonicalize | FileCheck %s

// The score adds slope * (k - q0); the LSE takes slope * (q - q0) off again.
// CHECK-LABEL: tile.kernel @alibi
// CHECK: %[[Q0:.*]] = tile.block_index "q"
// CHECK: tile.for_blocks
// CHECK: %[[X:.*]] = tile.map({{.*}}) at(q = %[[Q0]], k = %{{.*}})
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[K:.*]]: i32):
// CHECK: arith.subi %[[K]], %[[Q0]] : i32
// CHECK: tile.reduce max
// CHECK: tile.map({{.*}}) at(q = %[[Q0]]) -> !tile.tile<q {{[0-9]+}}, f32, register> {
// CHECK-NEXT: ^bb0(%[[M:.*]]: f32, %{{.*}}: f32, %[[Q:.*]]: i32):
// CHECK: arith.subi %[[Q0]], %[[Q]] : i32
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

// `precise` keeps the formula.
// CHECK-LABEL: tile.kernel @precise
// CHECK: ^bb0(%{{.*}}: f32, %[[Q:.*]]: i32, %[[K:.*]]: i32):
// CHECK: arith.subi %[[K]], %[[Q]] : i32
attn.attention @precise dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {precise, tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.subi %k, %q : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %0, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}
