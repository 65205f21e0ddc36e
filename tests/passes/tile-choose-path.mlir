// Programs that warps cannot be specialised around.
// RUN: attune-opt %s -split-input-file -tile-choose-path | FileCheck %s

// CHECK: tile.kernel @no_loop
// CHECK-SAME: plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false>
// CHECK-SAME: tile.remarks = ["products are warp-level and all warps copy: warps are specialised around another shape of program; it has 0 loops over tiles, not one"]
tile.kernel @no_loop(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4, persistent = true, q_stages = 2, turns = true, overlap = true, stage_biases = true> {
}

// -----

// CHECK: tile.kernel @one_load
// CHECK-SAME: it loads 0 tiles outside the loop and 1 in it, not one before and two in it"]
tile.kernel @one_load(k: in [b, h, k, d 64] bf16) grid [b, h] dtype bf16
    plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, copy_warps = 4> {
  %c0 = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%c0, %c0) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%c0, %c0, %k0] limit %c0 : !tile.view<4, bf16> -> <k 32 x d 64, bf16, shared>
  }
}

// -----

// Without copy warps there is nothing to choose.
// CHECK: tile.kernel @plain
// CHECK-NOT: tile.remarks
tile.kernel @plain(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <tile_q = 64, tile_k = 32, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false> {
}
