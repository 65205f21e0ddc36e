// RUN: attune-opt %s '-attn-to-tile-map=tile-q=64 tile-k=32' -canonicalize -cse | FileCheck %s

// The loop of a forward kernel with one number a tile; `slopes` is the score's alone.
// CHECK: tile.launch [@packed_bounds, @packed dependent]
// CHECK: tile.kernel @packed(queries: in [b, h, q] i32, keys: in [k] i32, classes: out [b, h, row, column] i32, ids.q: workspace [end 2, q by 64] i32, ids.k: workspace [end 2, k by 32] i32, ids.k_groups: workspace [end 2, k by 1024] i32)
// CHECK-SAME: grid [b, h, q by 64]
// CHECK-SAME: tensors = [#attn.tensor<ids, i32, rank 1>]
// CHECK: %row = arith.divsi %q, %c64_i32
// CHECK: %domain = tile.domain k by 32 [%c0_i32, %full_end) full [%full_end, %tiles_end) partial where {
// CHECK: tile.for_blocks (%k0, %partial) in %domain {
// CHECK:   %column = arith.divsi %k0, %c32_i32
// CHECK:   [[END:%.*]] = arith.addi %column, %c1_i32
// CHECK:   %class = arith.select %partial, %c1_i32, %c2_i32
// CHECK:   [[STORED:%.*]] = tile.splat %class : i32 -> <column 8, i32, register>
// CHECK:   tile.store [[STORED]], %CLASSES[%b, %h, %row, %column] limit [[END]]
// CHECK: tile.kernel @packed_bounds(
attn.attention @packed dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>, #attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %slope = attn.load "slopes"[%h] : (i32) -> f32
  %x = arith.addf %s, %slope : f32
  attn.yield %x : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %of_query = attn.load "ids"[%q] : (i32) -> i32
  %of_key = attn.load "ids"[%k] : (i32) -> i32
  %same = arith.cmpi eq, %of_query, %of_key : i32
  attn.yield %same : i1
}
