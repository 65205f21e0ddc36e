// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=64 stages=3 blocks-per-sm=2 pack-gqa=true split-keys=true" -attn-to-tile=granularity=16 -canonicalize -cse | FileCheck %s

// K and V are views of pages; the extent of k follows from the table, and a sequence's own keys end its loads. Blocks
// are pieces of what the lengths of all sequences say: a loop sums that up and another finds the block's, in both kernels.
// CHECK-LABEL: tile.kernel @pages_shares(q: in [b, h, q, d 64] bf16, k: in [page, hkv, slot 32, d 64] bf16, v: in [page, hkv, slot 32, dv 64] bf16,
// CHECK-SAME:    part_m: workspace [work_item, hkv, row_of_tile] f32, {{.*}}part_acc: workspace [work_item, hkv, row_of_tile, dv 64] f32) grid [work_item, hkv]
// CHECK-SAME:    tile.derived = [#tile.derived<name = "k", rule = "pages", by = 32, of = "tensors.table.1">, #tile.derived<name = "row", rule = "rows">, #tile.derived<name = "work_item", rule = "work_items", by = 64, blocks_per_sm = 2, of = "row">, #tile.derived<name = "row_of_tile", rule = "tile_rows", by = 64, of = "row">, #tile.derived<name = "slot_of_device", rule = "slots", blocks_per_sm = 2>]
// CHECK-DAG:     %[[SK:.*]] = tile.axis_extent "k"
// CHECK-DAG:     %[[LENGTHS:.*]] = tile.param "tensors.lengths"
// CHECK-DAG:     %[[PIECE:.*]] = tile.block_index "work_item"
// CHECK:         %[[ALL:.*]] = scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (i64)
// CHECK:           tile.element %[[LENGTHS]][%[[I]]]
// CHECK:           arith.addi %[[SUM]],
// CHECK:         {tile.name = "sequence", tile.names = ["tiles_of_all"]}
// CHECK:         {tile.name = "even_share"}
// CHECK:         %{{.*}}, %[[B:b_.*]], %[[FIRST:first_.*]], %[[SHARES:.*]] = scf.for %[[I:.*]] = %{{.*}} iter_args(%[[BEGIN:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:           tile.element %[[LENGTHS]][%[[I]]]
// CHECK:           arith.cmpi sle, %[[BEGIN]], %[[PIECE]]
// CHECK:         arith.subi %[[PIECE]], %[[FIRST]]
// CHECK:         %[[ROW:.*]] = arith.muli {{.*}} {tile.name = "row0"}
// CHECK:         %[[LENGTH:.*]] = tile.element %[[LENGTHS]][%[[B]]]
// CHECK:         %[[NATURAL:.*]] = arith.maxsi %[[LENGTH]],
// CHECK:         %[[OWN:.*]] = arith.minsi %[[NATURAL]], %[[SK]] {tile.name = "own_keys"}
// CHECK:         %[[K:.*]] = tile.paged_rows %{{.*}} by %{{.*}} size 32
// CHECK:         %[[V:.*]] = tile.paged_rows %{{.*}} by %{{.*}} size 32
// CHECK:         %[[ROWS:.*]] = arith.select {{.*}} {tile.name = "rows_written"}
// CHECK:         tile.load %{{.*}}[%[[B]], %hkv, %[[ROW]]] limit %[[ROWS]]
// CHECK:         tile.load %[[K]][%[[B]], %hkv, %{{.*}}] limit %[[OWN]]
// CHECK:         tile.load %[[V]][%[[B]], %hkv, %{{.*}}] limit %[[OWN]]
// CHECK:         %[[OF_TILE:.*]] = arith.subi %[[ROWS]], %[[ROW]] {tile.name = "rows_of_tile"}
// CHECK:         tile.store %acc_end, %{{.*}}[%[[PIECE]], %hkv, %{{.*}}] limit %[[OF_TILE]]
// CHECK-LABEL: tile.kernel @pages(part_m: workspace
// CHECK-COUNT-2: = scf.for
// CHECK:         {tile.name = "first_work_item"}
// CHECK:         arith.divui {{.*}} {tile.name = "splits_written"}
attn.attention @pages dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {key_lengths = "lengths", key_pages = #attn.pages<table, 32>, tensors = [#attn.tensor<lengths, i32, rank 1>, #attn.tensor<table, i32, rank 2>]}
    score {} mask {}

// The segments of a window of each query follow each other where a block may have no row: only such are visited backwards.
// CHECK-LABEL: tile.kernel @windows_shares
// CHECK:         tile.domain k by 64 [%{{.*}}, %[[FULL:.*]]) partial [%[[FULL]], %[[END:.*]]) full [%[[END]], %{{.*}}) partial reverse
attn.attention @windows dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<windows, i32, rank 1>]}
    score {} mask {
    ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
      %window = attn.load "windows"[%q] : (i32) -> i32
      %distance = arith.subi %q, %k : i32
      %visible = arith.cmpi slt, %distance, %window : i32
      attn.yield %visible : i1
    }

// A bound that follows from floats, which two kernels may round differently, gives no pieces: every share is written.
// CHECK-LABEL: tile.kernel @floats_shares
// CHECK-SAME:    grid [b, hkv, row by 64, split]
attn.attention @floats dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<lengths, i32, rank 1>]}
    score {} mask {
    ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
      %length = attn.load "lengths"[%b] : (i32) -> i32
      %c3 = arith.constant 3.0 : f32
      %float = arith.sitofp %length : i32 to f32
      %third = arith.divf %float, %c3 : f32
      %begin = arith.fptosi %third : f32 to i32
      %visible = arith.cmpi sge, %k, %begin : i32
      attn.yield %visible : i1
    }
