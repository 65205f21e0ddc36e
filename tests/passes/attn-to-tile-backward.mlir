// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90 tile-q=64 tile-k=64 warps=4" -attn-to-tile-backward=granularity=16 -canonicalize -cse -verify-diagnostics | FileCheck %s
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90" -verify-diagnostics | FileCheck %s --check-prefix=PLANS

// Each loop has a plan of its own, with warps of 32 rows where their accumulators fit.
// PLANS: attn.attention @causal
// PLANS-SAME: attn.plan = #attn.plan<tile_q = 32, tile_k = 64, warps = 2, stages = 2
// PLANS-SAME: attn.queries_plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 2

// One kernel for what rows need, one for dK and dV over the queries that see a tile of keys, those of the group's heads in turn, one for dQ.
// CHECK:       tile.launch @causal [@causal_rows, @causal_keys, @causal_queries]
// CHECK-LABEL: tile.kernel @causal_rows(o: in [b, h, q, dv 64] bf16, do: in [b, h, q, dv 64] bf16, lse: in [b, h, q] f32, delta: workspace [b, h, q] f32)
// CHECK:         tile.reduce sum %{{.*}} over "dv"
// CHECK:         tile.store %{{.*}}, %DELTA
// CHECK-LABEL: tile.kernel @causal_keys(
// CHECK-SAME:    dk: out [b, hkv, k, d 64] bf16, dv: out [b, hkv, k, dv 64] bf16) grid [b, hkv, k by 64]
// CHECK:         %[[FIRST:.*]] = arith.muli %hkv, %group
// CHECK:         %[[DOMAIN:.*]] = tile.domain q by 64 [%tiles_begin, %tiles_end) full times %group
// CHECK:         tile.for_blocks (%q0, %{{.*}}, %iteration) in %[[DOMAIN]] iter_args
// CHECK:             arith.addi %[[FIRST]], %iteration
// CHECK:             %[[S:.*]] = tile.mma %q_tile, %k_tile
// CHECK:             %[[DP:.*]] = tile.mma %do_tile, %v_tile
// P is one of the inputs, not computed again. The mask hides it behind dS: no branch stands between the exponentials and what follows.
// CHECK:             %[[DS:.*]] = tile.map(%[[DP]], %delta, %[[P:[a-z0-9_]*]] :
// CHECK-NOT:         math.exp
// CHECK:             tile.map(%[[P]] {{.*}} only_if
// CHECK:             tile.map(%[[DS]], %p_{{[0-9]+}} : {{.*}} only_if
// CHECK:             tile.mma %{{.*}}, %do_tile add
// CHECK:             tile.mma %{{.*}}, %q_tile add
// CHECK-LABEL: tile.kernel @causal_queries(
// CHECK-SAME:    dq: out [b, h, q, d 64] bf16) grid [b, h, q by 64]
// CHECK:         tile.domain k by 64
// CHECK:         %[[DS:.*]] = tile.map(%{{.*}}, %delta, %
// CHECK:         tile.map(%[[DS]] {{.*}} only_if
// CHECK:         tile.mma %{{.*}}, %k_tile add
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// Without statistics of rows there is nothing to prepare.
// CHECK: tile.launch @pointwise [@pointwise_keys, @pointwise_queries]
attn.attention @pointwise dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {normaliser = "none", gradients = #attn.gradients<[]>} score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}

// -----

// expected-error @+1 {{no plan of the loop over queries has these choices of persistent, query-stages and overlap together; leave one out}}
attn.attention @planned dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {gradients = #attn.gradients<[]>, attn.plan = #attn.plan<tile_q = 64, tile_k = 64, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, overlap = true>} score {} mask {}

// -----
