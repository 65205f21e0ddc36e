// RUN: attune-opt %s -split-input-file -attn-tile-size="arch=sm_90a tile-q=64 tile-k=64 stages=3 blocks-per-sm=2 pack-gqa=true split-keys=true" -attn-to-tile=granularity=16 | FileCheck %s

// Rows of a tile are those of a key head's query heads; a block has a share of the tiles of keys, and leaves what its loop
// carries. A kernel behind it has a block for 32 columns of each row.
// CHECK:       tile.launch [@causal_shares, @causal dependent]
// CHECK-LABEL: tile.kernel @causal_shares(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, v: in [b, hkv, k, dv 64] bf16,
// CHECK-SAME:    part_m: workspace [b, hkv, split, row] f32, part_l: workspace [b, hkv, split, row] f32, part_acc: workspace [b, hkv, split, row, dv 64] f32) grid [b, hkv, row by 64, split]
// CHECK-SAME:    tile.derived = [#tile.derived<name = "row", rule = "rows">, #tile.derived<name = "split", rule = "splits", by = 64, blocks_per_sm = 2>]
// CHECK:         %[[SHARE:.*]] = tile.block_index "split"
// CHECK:         %[[SHARES:.*]] = tile.axis_extent "split"
// CHECK:         %[[END:.*]] = arith.divsi {{.*}} {tile.name = "tiles_end"}
// CHECK:         %[[EACH:.*]] = arith.divsi %{{.*}}, %[[SHARES]] {tile.name = "tiles_each"}
// CHECK:         %[[FIRST:.*]] = arith.muli %[[SHARE]], %[[EACH]] {tile.name = "split_begin"}
// CHECK:         %[[LAST:.*]] = arith.addi %[[FIRST]], %[[EACH]] {tile.name = "split_end"}
// CHECK:         %[[TO:.*]] = arith.minsi %{{.*}}, %[[END]]
// CHECK:         tile.domain k by 64 [%{{.*}}, %[[TO]])
// CHECK:         %[[ROWS:.*]] = tile.group_rows %{{.*}} by %[[GROUP:[a-z]+]] {{.*}}: <4, bf16>
// CHECK:         %[[LOADED:.*]] = tile.load %[[ROWS]][%{{.*}}, %{{.*}}, %[[ROW0:.*]]] limit %{{.*}} -> <q 64 x d 64, f32, register>
// CHECK:         tile.convert %[[LOADED]] {{.*}} -> <q 64 x d 64, bf16, register>
// A score by head has that of each row.
// CHECK:         tile.map(%{{.*}}) at(q = %[[ROW0]],
// CHECK:           %[[QUERY:.*]] = arith.divui %[[ROW:.*]], %[[GROUP]]
// CHECK:           arith.remui %[[ROW]], %[[GROUP]]
// CHECK:         tile.store %m_end, %{{.*}}[%b, %hkv, %[[SHARE]], %[[ROW0]]]
// CHECK:         tile.store %l_end, %{{.*}}[%b, %hkv, %[[SHARE]], %[[ROW0]]]
// CHECK:         tile.store %acc_end, %{{.*}}[%b, %hkv, %[[SHARE]], %[[ROW0]]]
// CHECK-LABEL: tile.kernel @causal(part_m: workspace
// CHECK-SAME:    o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32) grid [b, hkv, row, panel 2]
// The statistics of all shares, by the normaliser's own rescale.
// CHECK:         tile.for_blocks
// CHECK:           tile.reduce max %part_m over "split"
// CHECK:           } {tile.name = "weight"}
// CHECK:           tile.reduce sum {{.*}} over "split"
// Then the accumulators, each times its weight and the inverse of the divisor.
// CHECK:         } {tile.name = "inverse_l"}
// CHECK:         tile.for_blocks
// CHECK:           tile.reduce sum {{.*}} over "copy" {{.*}} {tile.name = "weight_of_share"}
// CHECK:           tile.reduce sum {{.*}} over "split"
// CHECK:         tile.store {{.*}} optional
// CHECK:         tile.store
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %slope = attn.load "slopes"[%h] : (i32) -> f32
  %distance = arith.subi %k, %q : i32
  %d = arith.sitofp %distance : i32 to f32
  %bias = arith.mulf %slope, %d : f32
  %0 = arith.addf %s, %bias : f32
  attn.yield %0 : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// A sum without statistics: shares are added.
// CHECK:       tile.launch [@sum_shares, @sum dependent]
// CHECK-LABEL: tile.kernel @sum_shares({{.*}}part_acc: workspace
// CHECK-LABEL: tile.kernel @sum(part_acc:
// CHECK-NOT:     weight
// CHECK:         tile.for_blocks
// CHECK:           tile.reduce sum {{.*}} over "split"
attn.attention @sum dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}
