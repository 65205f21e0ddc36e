// RUN: attune-opt %s --split-input-file --attn-to-tile=granularity=16 --canonicalize --tile-add-fallback-kernels --tile-hoist-invariants --tile-stage-biases --canonicalize --cse | FileCheck %s

// The kernel in front reads elements, and starts where TMA cannot read the bias.
// CHECK: tile.launch [@dense_elements, @dense]
// CHECK: tile.kernel @dense_elements
// CHECK-NOT: sched.stage_biases
// CHECK-SAME: tile.fallback_of = @dense
// CHECK-NOT: tile.window
// CHECK: tile.element %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}]
// CHECK: tile.kernel @dense(
// CHECK-NOT: tile.fallback_of
// CHECK-SAME: sched.stage_biases
// CHECK-NOT: tile.element
// CHECK: tile.window
// CHECK-NOT: tile.element
attn.attention @dense dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// Nothing is brought to shared memory: one kernel, and no launch.
// CHECK-NOT: tile.launch
// CHECK: tile.kernel @rows(
// CHECK-NOT: tile.kernel
attn.attention @rows dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 2>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q] : (i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
