// RUN: attune-opt %s -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90a" -attn-to-tile-backward=granularity=16 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90a" | FileCheck %s --check-prefix=PLAN

// A thread has no registers for dK and dV of 256 columns, so each has a loop over queries of its own. The loop for dV reads neither V nor delta. Blocks start with
// the first keys, or the last queries, which take longest.
// PLAN:     attn.plan = #attn.plan<tile_q = 64, tile_k = 128, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, producer_warps = 4, dp_stages = 1>
// PLAN-SAME: attn.queries_plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, producer_warps = 4, dp_stages = 1>
// PLAN-SAME: attn.separate_dv
// CHECK:        tile.launch @causal [@causal_rows, @causal_values, @causal_keys, @causal_queries]
// A kernel of rows takes 64 of them, of which several blocks fit on a multiprocessor.
// CHECK-LABEL:  tile.kernel @causal_rows({{.*}}grid [b, h, q by 64]
// CHECK-LABEL:  tile.kernel @causal_values(q: in [b, h, q, d 256] bf16, do: in [b, h, q, dv 256] bf16, lse: in [b, h, q] f32, k: in [b, hkv, k, d 256] bf16, dv: out [b, hkv, k, dv 256] bf16)
// CHECK-SAME:     sched.longest_first = "first_tiles"
// CHECK:          tile.load %Q{{.*}} {sched.ring = #sched.ring<stages 2>
// CHECK:          tile.load %DO{{.*}} {sched.ring = #sched.ring<stages 2>
// CHECK:          %s = tile.mma
// CHECK:          %[[DV:.*]] = tile.mma %{{.*}}, %do_tile add
// CHECK-NOT:      tile.mma
// CHECK:          tile.yield %[[DV]] : !tile.tile<k 128 x dv 256, f32, register>
// CHECK-LABEL:  tile.kernel @causal_keys(
// CHECK-SAME:     dk: out
// CHECK-NOT:      dv: out
// CHECK-SAME:     sched.longest_first = "first_tiles"
// dP is done with dO early in the iteration, so one stage serves it.
// CHECK:          tile.load %Q{{.*}} {sched.ring = #sched.ring<stages 2>
// CHECK:          tile.load %DO{{.*}} {sched.ring = #sched.ring<stages 1>
// CHECK:          %s = tile.mma
// CHECK:          %dp = tile.mma
// CHECK:          tile.mma %{{.*}}, %q_tile add
// CHECK-LABEL:  tile.kernel @causal_queries(
// CHECK-SAME:     sched.longest_first,
// CHECK:          tile.load %K{{.*}} {sched.ring = #sched.ring<stages 2>
// CHECK:          tile.load %V{{.*}} {sched.ring = #sched.ring<stages 1>
// CHECK:          tile.mma %{{.*}}, %k_tile add
attn.attention @causal dtype bf16 head_dim 256 x 256 scale 0.0625 attributes {gradients = #attn.gradients<[]>} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}
