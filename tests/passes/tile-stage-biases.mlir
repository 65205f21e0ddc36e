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
attn.attention @dense dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
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
attn.attention @two dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, f16, rank 3>, #attn.tensor<b, f32, rank 2>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
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
attn.attention @others dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, bf16, rank 2>, #attn.tensor<c, i32, rank 2>, #attn.tensor<d, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
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
attn.attention @by_lane dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// Beside the five products of gradients one stage is enough: it is read at their beginning.
// CHECK-LABEL: tile.kernel @gradients
// CHECK: tile.for_blocks (%[[Q0:[^,]*]],
// CHECK: tile.window %{{.*}}[%[[Q0]], %{{.*}}] {sched.ring = #sched.ring<stages 1>, tile.name = "bias_tile"} : <2, bf16> -> <q 64 x k 128, bf16, shared>
// CHECK-NOT: tile.element
!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 128 x d 64, bf16, shared>
!scores = !tile.tile<q 64 x k 128, f32, register>
!rounded = !tile.tile<q 64 x k 128, bf16, register>
!sum = !tile.tile<k 128 x d 64, f32, register>
tile.kernel @gradients(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, dq: out [b, h, q, d 64] f32, dk: out [b, h, k, d 64] f32, tensors.bias: in [i, j] bf16) grid [b, h, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>], sched.stage_biases} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %DK = tile.param "dk" : !tile.view<4, f32>
  %bias = tile.param "tensors.bias" {tile.name = "bias"} : !tile.view<2, bf16>
  %keys = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !keys
  %none = tile.splat %zero : f32 -> !sum
  %dom = tile.domain q by 64 [%c0, %Sq) full
  %dk, %dv = tile.for_blocks (%q0, %partial) in %dom iter_args(%dk0 = %none : !sum, %dv0 = %none : !sum) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %s = tile.mma %q, %keys : !queries, !keys -> !scores
    %x = tile.map(%s : !scores) at(q = %q0, k = %k0) -> !scores {
    ^bb0(%v: f32, %i: i32, %j: i32):
      %e = tile.element %bias[%i, %j] in_range [false, false] {tile.name = "bias"} : !tile.view<2, bf16> (i32, i32) -> f32
      %0 = arith.addf %v, %e : f32
      tile.yield %0 : f32
    }
    %dp = tile.mma %q, %keys : !queries, !keys -> !scores
    %ds = tile.map(%x, %dp : !scores, !scores) -> !scores {
    ^bb0(%p: f32, %d: f32):
      %0 = arith.mulf %p, %d : f32
      tile.yield %0 : f32
    }
    %p = tile.convert %x : !scores -> !rounded
    %r = tile.convert %ds : !scores -> !rounded
    %dv1 = tile.mma %p, %q add %dv0 : !sum, !rounded, !queries -> !sum
    %dk1 = tile.mma %r, %q add %dk0 : !sum, !rounded, !queries -> !sum
    %dq = tile.mma %r, %keys : !rounded, !keys -> !tile.tile<q 64 x d 64, f32, register>
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
    tile.yield %dk1, %dv1 : !sum, !sum
  }
  tile.store %dk, %DK[%b, %h, %k0] limit %Sk : !sum, !tile.view<4, f32>
}
