// RUN: attune-opt %s -attn-tile-size | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=3 q-registers=true" | FileCheck %s --check-prefix=FIXED
// RUN: attune-opt %s -attn-tile-size="arch=sm_86 sram-budget=32768" | FileCheck %s --check-prefix=SMALL
// RUN: attune-opt %s -attn-tile-size=arch=cpu | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: attn.attention @full
// CHECK-SAME: attn.plan = #attn.plan<tile_q = 128, tile_k = {{[0-9]+}}, warps = 4, stages = {{[0-9]}}, q_registers = {{true|false}}, blocks_per_sm = 2, longest_first = false>
// FIXED-LABEL: attn.attention @full
// FIXED-SAME: attn.plan = #attn.plan<tile_q = 64, tile_k = 32, warps = 4, stages = 3, q_registers = true, blocks_per_sm = {{[0-9]}}, longest_first = false>
// SMALL-LABEL: attn.attention @full
// SMALL-SAME: attn.plan = #attn.plan<tile_q = {{64|128}}, tile_k = {{[0-9]+}}, warps = 4,
// CPU-LABEL: attn.attention @full
// CPU-SAME: attn.plan = #attn.plan<tile_q = {{[0-9]+}}, tile_k = {{[0-9]+}}, warps = 1, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = false>
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// q >= k: the last tile of rows has the most keys.
// CHECK-LABEL: attn.attention @causal
// CHECK-SAME: longest_first = true>
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// q >= k && q - k < 256: every tile of rows has about as many.
// CHECK-LABEL: attn.attention @window
// CHECK-SAME: longest_first = false>
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c256 = arith.constant 256 : i32
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = arith.subi %q, %k : i32
  %2 = arith.cmpi slt, %1, %c256 : i32
  %3 = arith.andi %0, %2 : i1
  attn.yield %3 : i1
}

// The tile divides the blocks of the pattern.
// CHECK-LABEL: attn.attention @blocks
// CHECK-SAME: tile_q = 64, tile_k = {{16|48}}, warps = 4,
attn.attention @blocks dtype bf16 head_dim 64 x 64 scale 0.125 attributes {pattern = #attn.blocks<pattern, 64x48>, tensors = [#attn.tensor<pattern, i8, rank 2>]} score {
} mask {
}

// Loads take registers: by rows and columns in the mask, by elements in the score. Without them the tile has 128 keys.
// CHECK-LABEL: attn.attention @documents
// CHECK-SAME: tile_q = 128, tile_k = {{(48|64|80|96|112),}}
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}

// CHECK-LABEL: attn.attention @bias
// CHECK-SAME: tile_q = 128, tile_k = {{(48|64|80|96|112),}}
attn.attention @bias dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
