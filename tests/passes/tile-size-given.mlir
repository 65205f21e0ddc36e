// RUN: attune-opt %s -attn-tile-size | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-k=64 stages=1" | FileCheck %s --check-prefix=OPTION

// A plan that fits stays as it is, fields that rank nothing included.
// CHECK-LABEL: attn.attention @given
// CHECK-SAME: #attn.plan<tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true>
// An option overrules it.
// OPTION-LABEL: attn.attention @given
// OPTION-SAME: #attn.plan<tile_q = 64, tile_k = 64, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = true>
attn.attention @given dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true>} score {
} mask {
}

// A split of the columns that the cost model would not choose is kept as well.
// CHECK-LABEL: attn.attention @split
// CHECK-SAME: #attn.plan<tile_q = 32, tile_k = 32, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false, dv_warps = 2>
attn.attention @split dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 32, tile_k = 32, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false, dv_warps = 2>} score {
} mask {
}
