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
attn.attention @whole dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @part dtype bf16 head_dim 128 x 128 scale 0.0883883461 attributes {tensors = [#attn.tensor<bias, f32, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @table dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<t, f32, rank 2>, #attn.tensor<slopes, f32, rank 1>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @half dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, f32, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @half_bias dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, f16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @large dtype bf16 head_dim 64 x 64 scale 1.000000e+00 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// SCALED-LABEL: tile.kernel @function
// SCALED-NOT: tile.scale
attn.attention @function dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
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
attn.attention @none dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
}

// -----

// SCALED-LABEL: tile.kernel @precise
// SCALED-NOT: tile.scale
attn.attention @precise dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {precise, tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A tile of queries that each pass of the loop brings anew.
// SCALED-LABEL: tile.kernel @streamed
// SCALED-NOT: tile.scale
// CHECK-LABEL: tile.kernel @streamed
!queries = !tile.tile<q 128 x d 64, bf16, shared>
!keys = !tile.tile<k 64 x d 64, bf16, shared>
!scores = !tile.tile<q 128 x k 64, f32, register>
tile.kernel @streamed(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, lse: out [b, h, q] f32, tensors.bias: in [i, j] bf16) grid [b, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.stage_biases} {
  %b = tile.block_index "b" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %H = tile.axis_extent "h" : i32
  %c0 = arith.constant 0 : i32
  %eighth = arith.constant 0.125 : f32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %bias = tile.param "tensors.bias" {tile.name = "bias"} : !tile.view<2, bf16>
  %m = tile.splat %zero : f32 -> <q 128, f32, register>
  %dom = tile.domain k by 64 [%c0, %Sk) full times %H
  %r = tile.for_blocks (%k0, %partial, %h) in %dom iter_args(%m0 = %m : !tile.tile<q 128, f32, register>) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %keys = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %keys : !queries, !keys -> !scores
    %x = tile.map(%s : !scores) at(q = %q0, k = %k0) -> !scores {
    ^bb0(%v: f32, %i: i32, %j: i32):
      %e = tile.element %bias[%i, %j] in_range [false, false] {tile.name = "bias"} : !tile.view<2, bf16> (i32, i32) -> f32
      %0 = arith.mulf %v, %eighth : f32
      %1 = arith.addf %0, %e : f32
      tile.yield %1 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 128, f32, register>, !scores -> <q 128, f32, register>
    tile.yield %m1 : !tile.tile<q 128, f32, register>
  }
  tile.store %r, %lse[%b, %c0, %q0] limit %Sq : <q 128, f32, register>, !tile.view<3, f32>
}
