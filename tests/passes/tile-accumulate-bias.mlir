// RUN: attune-opt %s --split-input-file --attn-to-tile=granularity=16 --canonicalize --tile-scale-queries --tile-fold-factors --tile-fold-softmax-scale --canonicalize --tile-hoist-invariants --tile-stage-biases --canonicalize --cse --tile-accumulate-bias | FileCheck %s

// The product starts from a staged bias where warpgroups take turns, with or without their own softmax beside their products, and where they come as they do.
// CHECK-LABEL: tile.kernel @turns
// CHECK: %[[BIAS:.*]] = tile.map(%{{.*}} : !tile.tile<q 128 x k 64, bf16, shared>
// CHECK: tile.mma %{{.*}} add %[[BIAS]]
attn.attention @turns dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @both
// CHECK: %[[BIAS:.*]] = tile.map(%{{.*}} : !tile.tile<q 128 x k 64, bf16, shared>
// CHECK: tile.mma %{{.*}} add %[[BIAS]]
attn.attention @both dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, overlap = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @neither
// CHECK: %[[BIAS:.*]] = tile.map(%{{.*}} : !tile.tile<q 128 x k 64, bf16, shared>
// CHECK: tile.mma %{{.*}} add %[[BIAS]]
attn.attention @neither dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A warpgroup that is alone would wait for the bias with nothing beside it: it adds behind the product.
// CHECK-LABEL: tile.kernel @alone
// CHECK: %[[S:.*]] = tile.mma
// CHECK-NOT: add
// CHECK: tile.map(%[[S]], %{{.*}} : {{.*}}, !tile.tile<q 128 x k 64, bf16, shared>
attn.attention @alone dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, overlap = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
