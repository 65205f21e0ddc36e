// RUN: attune-opt %s -split-input-file -verify-diagnostics -attn-tile-size="arch=sm_90a" | FileCheck %s

// A block stays with one tile of work, Q with one stage, and warpgroups take no turns, where the plan in the text says so.
// CHECK-LABEL: attn.attention @one
// CHECK-SAME: copy_warps = 4>}
attn.attention @one dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4>} score {
} mask {
}

// CHECK-LABEL: attn.attention @persistent
// CHECK-SAME: copy_warps = 4, persistent = true>}
attn.attention @persistent dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @ring
// CHECK-SAME: copy_warps = 4, persistent = true, q_stages = 2, turns = true>}
attn.attention @ring dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true, q_stages = 2, turns = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @both
// CHECK-SAME: copy_warps = 4, turns = true, overlap = true>}
attn.attention @both dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, turns = true, overlap = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @overlap
// CHECK-SAME: copy_warps = 4, overlap = true>}
attn.attention @overlap dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, overlap = true>} score {
} mask {
}

// -----

// expected-error @+1 {{persistent blocks do not fit: they need copy warps, and shared memory for O beside Q, K and V; use smaller tiles or fewer stages, or leave out `persistent`}}
attn.attention @large dtype bf16 head_dim 256 x 256 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true>} score {
} mask {
}

// -----

// expected-error @+1 {{q_stages 2 does not fit: at most 1; use fewer, or smaller tiles}}
attn.attention @twice dtype bf16 head_dim 192 x 192 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true, q_stages = 2>} score {
} mask {
}

// -----

// expected-error @+1 {{q_stages 3 does not fit: at most 2; use fewer, or smaller tiles}}
attn.attention @thrice dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true, q_stages = 3>} score {
} mask {
}
