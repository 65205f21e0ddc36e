// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --tile-fold-softmax-scale --canonicalize --tile-hoist-invariants --tile-split-relative-positions --tile-cancel-row-terms --canonicalize | FileCheck %s

// The score adds slope * column; the LSE takes slope * row off again.
// CHECK-LABEL: tile.kernel @alibi
// CHECK: %[[SLOPE:.*]] = tile.element
// CHECK: tile.for_blocks
// CHECK: tile.map({{.*}} k = %{{[^ ]*}} : f32
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %[[COLUMN:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[BIAS:.*]] = arith.mulf %[[SLOPE]], %[[COLUMN]]
// CHECK: arith.addf %{{.*}}, %[[BIAS]]
// CHECK: tile.reduce max
// CHECK: tile.map({{.*}}) at(q = %{{.*}} : f32) -> !tile.tile<q {{[0-9]+}}, f32, register> {
// CHECK-NEXT: ^bb0(%[[M:.*]]: f32, %{{.*}}: f32, %[[ROW:.*]]: f32):
// CHECK: %[[SHIFT:.*]] = arith.mulf %[[SLOPE]], %[[ROW]]
// CHECK: arith.subf %[[M]], %[[SHIFT]]
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

// q - k: the factor changes sign.
// CHECK-LABEL: tile.kernel @backward
// CHECK: %[[SLOPE:.*]] = tile.element
// CHECK: %[[NEGATIVE:.*]] = arith.negf %[[SLOPE]]
// CHECK: arith.mulf %[[NEGATIVE]], %{{.*}}
attn.attention @backward dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.subi %q, %k : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %0, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}

// `precise` and f16 keep the formula.
// CHECK-LABEL: tile.kernel @precise
// CHECK: arith.subf %{{.*}}, %{{.*}} : f32
// CHECK-LABEL: tile.kernel @half
// CHECK: arith.subf %{{.*}}, %{{.*}} : f32
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
attn.attention @half dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.subi %k, %q : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %0, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}
