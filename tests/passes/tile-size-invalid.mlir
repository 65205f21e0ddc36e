// RUN: attune-opt %s -split-input-file -verify-diagnostics -attn-tile-size="sram-budget=20480"

// expected-error @+1 {{the smallest tile 64 x 16 needs 24576 bytes of shared memory (Q 16384, K 4096, V 4096), above the budget of 20480 bytes; raise the budget or reduce the head dim}}
attn.attention @budget dtype bf16 head_dim 128 x 128 scale 0.125 score {
} mask {
}

// -----

// expected-error @+1 {{the smallest tile 16 x 16 needs 24576 bytes of shared memory (Q 10240, K 10240, V 4096), above the budget of 20480 bytes; raise the budget or reduce the head dim}}
attn.attention @wide dtype bf16 head_dim 320 x 128 scale 0.125 score {
} mask {
}

// -----

// expected-error @+1 {{tile 64 x 32 with 4 warps does not fit: at most 4 such blocks share a multiprocessor, not 9; use fewer blocks or smaller tiles}}
attn.attention @blocks dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 64, tile_k = 32, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 9, longest_first = false>} score {
} mask {
}

// -----

// expected-error @+1 {{dv-warps 8 is not supported; use 1, 2 or 4}}
attn.attention @dv_warps dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 16, tile_k = 32, warps = 8, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false, dv_warps = 8>} score {
} mask {
}

// -----

// expected-error @+1 {{tile 128 x 64 needs 32768 bytes of shared memory (Q 16384, K 8192, V 8192), above the budget of 20480 bytes; use smaller tiles, fewer stages or a larger budget}}
attn.attention @given dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false>} score {
} mask {
}
