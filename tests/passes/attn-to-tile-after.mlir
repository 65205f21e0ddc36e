// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=64 split-keys=true" -attn-to-tile=granularity=16 | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=64" -attn-to-tile=granularity=16 | FileCheck %s --check-prefix=WHOLE

// A block of a list of pieces may have none, and then has the tile behind the last: its entry of a table is any.
// CHECK-LABEL: tile.kernel @begins_shares(
// CHECK:         tile.element {{.*}} in_range [true, false] {tile.name = "begins_q_min"}
// WHOLE-LABEL: tile.kernel @begins(
// WHOLE:         tile.element {{.*}} in_range [true, true] {tile.name = "begins_q_min"}
attn.attention @begins dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<begins, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %begin = attn.load "begins"[%q] : (i32) -> i32
  %behind = arith.cmpi sge, %k, %begin : i32
  attn.yield %behind : i1
}
