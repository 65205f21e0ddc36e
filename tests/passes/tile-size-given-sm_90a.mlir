// RUN: attune-opt %s -split-input-file -verify-diagnostics -attn-tile-size="arch=sm_90a" | FileCheck %s

// A block stays with one tile of work, Q with one stage, and warpgroups take no turns, where the plan in the text says so.
// CHECK-LABEL: attn.attention @one
// CHECK-SAME: producer_warps = 4>}
attn.attention @one dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
}

// CHECK-LABEL: attn.attention @persistent
// CHECK-SAME: producer_warps = 4, persistent = true>}
attn.attention @persistent dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @ring
// CHECK-SAME: producer_warps = 4, persistent = true, q_stages = 2, ping_pong = true>}
attn.attention @ring dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, q_stages = 2, ping_pong = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @both
// CHECK-SAME: producer_warps = 4, ping_pong = true, overlap = true>}
attn.attention @both dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true, overlap = true>} score {
} mask {
}

// CHECK-LABEL: attn.attention @overlap
// CHECK-SAME: producer_warps = 4, overlap = true>}
attn.attention @overlap dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, overlap = true>} score {
} mask {
}

// -----

// expected-error @+1 {{tile 128 x 64 needs 262272 bytes of shared memory (Q 65536, K 65536, V 65536, barriers 128, O 65536), above the budget of 232448 bytes; use smaller tiles, fewer stages, no persistent blocks or a larger budget}}
attn.attention @large dtype bf16 head_dim 256 x 256 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true>} score {
} mask {
}

// -----

// expected-error @+1 {{tile 128 x 64 needs 245920 bytes of shared memory (Q 98304, K 49152, V 49152, barriers 160, O 49152), above the budget of 232448 bytes; use smaller tiles, fewer stages, no persistent blocks or a larger budget}}
attn.attention @twice dtype bf16 head_dim 192 x 192 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, q_stages = 2>} score {
} mask {
}

// -----

// expected-error @+1 {{query-stages 3 is not 1 or 2}}
attn.attention @thrice dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, q_stages = 3>} score {
} mask {
}
