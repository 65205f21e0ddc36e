// RUN: attune-opt %s -split-input-file -verify-diagnostics -attn-differentiate -attn-tile-size="arch=sm_90a" | FileCheck %s

// The blocks of a backward pass keep the order that the text gives, and dK and dV have the one loop of it.
// CHECK-LABEL: attn.attention @two_loops
// CHECK-NOT:   attn.accumulates_dq
// CHECK-SAME:  attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>
// CHECK-NOT:   attn.accumulates_dq
// CHECK-SAME:  score
attn.attention @two_loops dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// expected-error @+1 {{dp_stages 3 is not between 0 and stages, 2}}
attn.attention @stages dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, dp_stages = 3>} score {} mask {}
