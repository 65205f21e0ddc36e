// RUN: attune-opt %s -split-input-file -attn-differentiate -attn-to-tile-backward=granularity=16 -verify-diagnostics

// expected-error @+1 {{has no attn.plan; run attn-tile-size first}}
attn.attention @unplanned dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>} score {} mask {}

// -----

// expected-error @+1 {{has attn.separate_dv and attn.accumulates_dq, with which one loop computes dQ, dK and dV; leave one out}}
attn.attention @both dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {gradients = #attn.gradients<[]>, attn.separate_dv, attn.accumulates_dq, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {} mask {}
