// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=64 stages=3 blocks-per-sm=2 pack-groups=true split-keys=true" -attn-to-tile=granularity=16 -canonicalize -cse | FileCheck %s

// K and V are views of pages; the extent of k follows from the table, and a sequence's own keys end its loads. Shares are
// by what the lengths of all sequences say: a loop over these in front of the tiles, in both kernels.
// CHECK-LABEL: tile.kernel @pages_shares(q: in [b, h, q, d 64] bf16, k: in [page, hkv, slot 32, d 64] bf16, v: in [page, hkv, slot 32, dv 64] bf16,
// CHECK-SAME:    tile.derived = [#tile.derived<name = "k", rule = "pages", by = 32, of = "tensors.table.1">, #tile.derived<name = "row", rule = "rows">, #tile.derived<name = "split", rule = "shares", by = 64, blocks_per_sm = 4>, #tile.derived<name = "slot_of_device", rule = "slots", blocks_per_sm = 2>]
// CHECK-DAG:     %[[SK:.*]] = tile.axis_extent "k"
// CHECK-DAG:     %[[LENGTHS:.*]] = tile.param "tensors.lengths"
// CHECK:         %[[LENGTH:.*]] = tile.element %[[LENGTHS]][%b]
// CHECK:         %[[NATURAL:.*]] = arith.maxsi %[[LENGTH]],
// CHECK:         %[[OWN:.*]] = arith.minsi %[[NATURAL]], %[[SK]] {tile.name = "own_keys"}
// CHECK:         %[[READ:.*]] = arith.minsi %{{.*}}, %[[SK]] {tile.name = "keys_read"}
// CHECK:         %[[K:.*]] = tile.paged_rows %{{.*}} by %{{.*}} size 32
// CHECK:         %[[V:.*]] = tile.paged_rows %{{.*}} by %{{.*}} size 32
// CHECK:         %[[ALL:.*]] = scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (i32)
// CHECK:           tile.element %[[LENGTHS]][%[[I]]]
// CHECK:           arith.addi %[[SUM]],
// CHECK:         {tile.name = "even_share"}
// CHECK:         %[[EACH:.*]] = arith.maxsi {{.*}} {tile.name = "tiles_each"}
// CHECK:         %[[ROWS:.*]] = arith.select {{.*}} {tile.name = "rows_written"}
// CHECK:         tile.load %{{.*}}[%b, %hkv, %row0] limit %[[ROWS]]
// CHECK:         tile.load %[[K]][%b, %hkv, %{{.*}}] limit %[[READ]]
// CHECK:         tile.load %[[V]][%b, %hkv, %{{.*}}] limit %[[OWN]]
// CHECK:         tile.store %acc_end, %{{.*}} limit %[[ROWS]]
// CHECK-LABEL: tile.kernel @pages(part_m: workspace
// CHECK:         scf.for
// CHECK:         arith.minsi {{.*}} {tile.name = "shares_written"}
attn.attention @pages dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {key_lengths = "lengths", key_pages = #attn.pages<table, 32>, tensors = [#attn.tensor<lengths, i32, rank 1>, #attn.tensor<table, i32, rank 2>]}
    score {} mask {}
