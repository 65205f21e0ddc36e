// RUN: attune-opt %s --split-input-file --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants --tile-stage-biases --canonicalize --cse | FileCheck %s

// CHECK-LABEL: tile.kernel @dense
// CHECK-DAG: %[[Q0:.*]] = tile.block_index "q"
// CHECK-DAG: %[[H:.*]] = tile.block_index "h"
// CHECK-DAG: %[[BIAS:.*]] = tile.param "tensors.bias"
// CHECK: tile.for_blocks (%[[K0:[^,]*]],
// CHECK: %[[S:.*]] = tile.mma
// CHECK: %[[WINDOW:.*]] = tile.window %[[BIAS]][%[[H]], %[[Q0]], %[[K0]]] {tile.name = "bias_tile"} : <3, bf16> -> <q 128 x k 64, bf16, shared>
// CHECK: tile.map(%[[S]], %[[WINDOW]] :
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[ELEMENT:[^:]*]]: f32,
// CHECK: arith.addf %{{.*}}, %[[ELEMENT]]
// CHECK-NOT: tile.element
// CHECK: tile.store
attn.attention @dense dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A leading index that the block computes; two tensors.
// CHECK-LABEL: tile.kernel @two
// CHECK: tile.window %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] {{.*}} : <3, f16> -> <q 128 x k 64, f16, shared>
// CHECK: tile.window %{{.*}}[%{{.*}}, %{{.*}}] {{.*}} : <2, f32> -> <q 128 x k 64, f32, shared>
// CHECK-NOT: tile.element
// CHECK: tile.store
attn.attention @two dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, f16, rank 3>, #attn.tensor<b, f32, rank 2>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c2 = arith.constant 2 : i32
  %pair = arith.divsi %h, %c2 : i32
  %0 = attn.load "a"[%pair, %q, %k] : (i32, i32, i32) -> f32
  %1 = attn.load "b"[%q, %k] : (i32, i32) -> f32
  %2 = arith.mulf %s, %0 : f32
  %3 = arith.addf %2, %1 : f32
  attn.yield %3 : f32
} mask {
}

// -----

// Left to the lanes: another order of q and k, an index off by one, integers, a leading index that varies.
// CHECK-LABEL: tile.kernel @others
// CHECK-NOT: tile.window
// CHECK: tile.store
attn.attention @others dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, bf16, rank 2>, #attn.tensor<c, i32, rank 2>, #attn.tensor<d, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c1 = arith.constant 1 : i32
  %next = arith.addi %k, %c1 : i32
  %0 = attn.load "a"[%k, %q] : (i32, i32) -> f32
  %1 = attn.load "a"[%q, %next] : (i32, i32) -> f32
  %2 = attn.load "c"[%q, %k] : (i32, i32) -> i32
  %3 = arith.sitofp %2 : i32 to f32
  %4 = attn.load "d"[%q, %q, %k] : (i32, i32, i32) -> f32
  %5 = arith.addf %s, %0 : f32
  %6 = arith.addf %5, %1 : f32
  %7 = arith.addf %6, %3 : f32
  %8 = arith.addf %7, %4 : f32
  attn.yield %8 : f32
} mask {
}

// -----

// A plan without `stage_biases`.
// CHECK-LABEL: tile.kernel @by_lane
// CHECK-NOT: tile.window
// CHECK: tile.element
attn.attention @by_lane dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
