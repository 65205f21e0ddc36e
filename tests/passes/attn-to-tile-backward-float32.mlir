// RUN: attune-opt %s -attn-differentiate -canonicalize -attn-to-tile-backward=granularity=16 | FileCheck %s

// Float32 is no operand of a warpgroup's product, whatever a plan says: two loops, and no sums in memory.
// CHECK:       tile.launch @f32 [@f32_rows, @f32_keys, @f32_queries]
// CHECK-NOT:   dq_sums
// CHECK-NOT:   sched.roles
attn.attention @f32 dtype f32 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
}
