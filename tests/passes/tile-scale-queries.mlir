// RUN: attune-opt %s --split-input-file --attn-to-tile=granularity=16 --tile-scale-queries | FileCheck %s --check-prefix=SCALED
// RUN: attune-opt %s --split-input-file --attn-to-tile=granularity=16 --tile-scale-queries --tile-fold-factors --canonicalize | FileCheck %s

// The scale is a power of two: Q takes all of it, and the bias is neither multiplied nor divided.
// SCALED-LABEL: tile.kernel @whole
// SCALED: %[[LOADED:.*]] = tile.load {{.*}} -> <q 128 x d 64, bf16, shared>
// SCALED-NEXT: %[[Q:.*]] = tile.scale %[[LOADED]] exponent -3 {tile.comment = "a power of two of the score's factor, so that a bias is divided by 1 or more", tile.name = "q_tile"} : <q 128 x d 64, bf16, shared>
// SCALED: tile.mma %[[Q]],
// SCALED: arith.constant 8.000000e+00 : f32
// CHECK-LABEL: tile.kernel @whole
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: %[[T:.*]] = tile.element
// CHECK-NEXT: %[[X:.*]] = arith.addf %[[S]], %[[T]] : f32
// CHECK-NEXT: tile.yield %[[X]]
attn.attention @whole dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// What is left is at least 1, by which a finite bias stays finite: 0.088 * 16 = 1.41.
// SCALED-LABEL: tile.kernel @part
// SCALED: tile.scale %{{.*}} exponent -4
// CHECK-LABEL: tile.kernel @part
// CHECK-DAG: %[[LEFT:.*]] = arith.constant 1.41{{.*}} : f32
// CHECK-DAG: %[[INVERSE:.*]] = arith.constant 0.707{{.*}} : f32
// CHECK: %[[T:.*]] = tile.element
// CHECK: %[[DIVIDED:.*]] = arith.mulf %[[T]], %[[INVERSE]] : f32
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[DIVIDED]] : f32
// CHECK: arith.mulf %[[SUM]], %[[LEFT]] : f32
attn.attention @part dtype bf16 head_dim 128 x 128 scale 0.0883883461 attributes {tensors = [#attn.tensor<bias, f32, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// By distance; a divisor and another term beside it.
// SCALED-LABEL: tile.kernel @table
// SCALED: tile.scale %{{.*}} exponent -5
attn.attention @table dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<t, f32, rank 2>, #attn.tensor<slopes, f32, rank 1>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c4 = arith.constant 4.0 : f32
  %0 = arith.divf %s, %c4 : f32
  %1 = attn.load "slopes"[%h] : (i32) -> f32
  %2 = arith.addf %1, %0 : f32
  %3 = arith.subi %q, %k : i32
  %4 = attn.load "t"[%h, %3] : (i32, i32) -> f32
  %5 = arith.addf %2, %4 : f32
  attn.yield %5 : f32
} mask {
}

// -----

// f16 has no exponents for it: only a bias of f16 is divided.
// SCALED-LABEL: tile.kernel @half
// SCALED-NOT: tile.scale
// CHECK-LABEL: tile.kernel @half
// CHECK: %[[T:.*]] = tile.element %{{.*}} : <3, f32>
// CHECK-NEXT: arith.addf %{{.*}}, %[[T]] : f32
attn.attention @half dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, f32, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @half_bias
// CHECK-DAG: %[[INVERSE:.*]] = arith.constant 8.000000e+00 : f32
// CHECK: %[[T:.*]] = tile.element %{{.*}} : <3, f16>
// CHECK: arith.mulf %[[T]], %[[INVERSE]] : f32
attn.attention @half_bias dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, f16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A factor of 1 or more; a function between the product and the bias; no bias; `precise`.
// SCALED-LABEL: tile.kernel @large
// SCALED-NOT: tile.scale
attn.attention @large dtype bf16 head_dim 64 x 64 scale 1.000000e+00 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// SCALED-LABEL: tile.kernel @function
// SCALED-NOT: tile.scale
attn.attention @function dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = math.tanh %s : f32
  %2 = arith.addf %1, %0 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// SCALED-LABEL: tile.kernel @none
// SCALED-NOT: tile.scale
attn.attention @none dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
}

// -----

// SCALED-LABEL: tile.kernel @precise
// SCALED-NOT: tile.scale
attn.attention @precise dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {precise, tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
