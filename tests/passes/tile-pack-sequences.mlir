// RUN: attune-opt %s -split-input-file -verify-diagnostics -tile-pack-sequences -canonicalize -cse | FileCheck %s

// A block finds the sequence of its tile, and reads where it begins and ends. Rows before the first sequence and after the
// last are sequences of their own. Rows of operands are those of all sequences; in the workspace of tiles a sequence begins
// at a multiple of 128, and a tile is written as a whole.
// CHECK-LABEL: tile.kernel @rows
// CHECK-SAME:    q: in [pack 1, h, q, d 64] bf16
// CHECK-SAME:    delta: workspace [pack 1, h, q] f32, sums: workspace [pack 1, h, q_by_128, d 64] f32
// CHECK-SAME:    grid [h, q_by_64 by 64]
// CHECK-SAME:    tile.derived = [#tile.derived<name = "b", rule = "sequences", of = "tensors.first_q.0">, #tile.derived<name = "key_sequences", rule = "sequences", of = "tensors.first_k.0">, #tile.derived<name = "q_by_64", rule = "sequence_rows", by = 64, of = "q">, #tile.derived<name = "q_by_128", rule = "sequence_rows", by = 128, of = "q">]
// CHECK:         %[[ROW:.*]] = tile.block_index "q_by_64"
// CHECK:         %[[TILE:.*]] = arith.divui %[[ROW]], %c64_i32
// CHECK:         %[[BEFORE:.*]] = arith.subi %[[TILE]], %c1_i32
// CHECK:         %[[FOUND:.*]] = tile.search %{{.*}}, %[[BEFORE]] right tiles 64
// CHECK:         %[[NUMBER:.*]] = arith.minsi %[[FOUND]], %{{.*}} {tile.name = "sequence_number"}
// CHECK:         %[[IS_BEFORE:.*]] = arith.cmpi eq, %[[NUMBER]], %c0_i32
// CHECK:         %[[IS_AFTER:.*]] = arith.cmpi sgt, %[[NUMBER]], %{{.*}}
// CHECK:         %[[FIRST:.*]] = arith.select %[[IS_BEFORE]], %c0_i32, %{{.*}} {tile.name = "first_query"}
// CHECK:         %[[END:.*]] = arith.select %[[IS_AFTER]], %{{.*}} {tile.name = "queries_end"}
// CHECK:         %[[OWN:.*]] = arith.subi %[[END]], %[[FIRST]]
// CHECK:         %[[Q0:.*]] = arith.muli %{{.*}}, %c64_i32 overflow<nsw> {tile.name = "q0"}
// CHECK:         %[[HAS:.*]] = arith.cmpi slt, %[[Q0]], %[[OWN]]
// CHECK:         %[[PADDED:.*]] = arith.muli %{{.*}}, %c128_i32 overflow<nsw> {tile.name = "first_padded_query"}
// CHECK:         %[[ALL:.*]] = tile.axis_extent "q_by_128"
// CHECK:         %[[KEYS:.*]] = arith.subi %{{.*}} {tile.name = "own_keys"}
// CHECK:         %[[IN_SUMS:.*]] = arith.addi %[[PADDED]], %[[Q0]]
// CHECK:         tile.store %{{.*}}, %{{.*}}[%c0_i32, %{{.*}}, %[[IN_SUMS]]] limit %[[ALL]]
// CHECK:         %[[TO:.*]] = arith.select %[[HAS]], %{{.*}}, %c0_i32
// CHECK:         tile.domain k by 64 [%c0_i32, %[[TO]]) full
// CHECK:         tile.map(%{{.*}}) at(q = %[[Q0]])
// CHECK:           %[[LAST:.*]] = arith.subi %[[OWN]], %c1_i32
// CHECK:           %[[IN:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK:           %[[AT:.*]] = arith.addi %[[FIRST]], %[[IN]]
// CHECK:           tile.element %{{.*}}[%c0_i32, %{{.*}}, %[[AT]]]
// CHECK:         %[[TO_ROW:.*]] = arith.addi %[[FIRST]], %[[Q0]]
// CHECK:         tile.store %{{.*}}, %{{.*}}[%c0_i32, %{{.*}}, %[[TO_ROW]]] limit %[[END]]
tile.kernel @rows(q: in [b, h, q, d 64] bf16, o: out [b, h, q, d 64] bf16, delta: workspace [b, h, q] f32, sums: workspace [b, h, q, d 64] f32, k: in [b, hkv, k, d 64] bf16)
    grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 2>
    attributes {tensors = [#attn.tensor<first_q, i32, rank 1>, #attn.tensor<first_k, i32, rank 1>], tile.sequences = #attn.sequences<first_q, first_k>} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %DELTA = tile.param "delta" : !tile.view<3, f32>
  %SUMS = tile.param "sums" : !tile.view<4, f32>
  %tile = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %delta = tile.load %DELTA[%b, %h, %q0] limit %Sq : !tile.view<3, f32> -> !tile.tile<q 64, f32, register>
  %s = tile.splat %zero : f32 -> <q 64 x d 64, f32, register>
  tile.store %s, %SUMS[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%x = %s : !tile.tile<q 64 x d 64, f32, register>) {
    %keys = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %y = tile.map(%x : !tile.tile<q 64 x d 64, f32, register>) at(q = %q0) -> !tile.tile<q 64 x d 64, f32, register> {
    ^bb0(%v: f32, %q: i32):
      %e = tile.element %DELTA[%b, %h, %q] in_range [true, true, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %w = arith.addf %v, %e : f32
      tile.yield %w : f32
    }
    tile.yield %y : !tile.tile<q 64 x d 64, f32, register>
  }
  tile.store %r, %O[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, bf16>
}

// -----

// A kernel without tiles of rows sums over those of all sequences.
// CHECK-LABEL: tile.kernel @sum
// CHECK-SAME:    rows: workspace [pack 1, h, q] f32
// CHECK-NOT:     tile.search
// CHECK:         tile.domain batch by 1 [%c0_i32, %c1_i32) full
tile.kernel @sum(rows: workspace [b, h, q] f32, out: out [h] f32) grid [h by 8] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<first_q, i32, rank 1>], tile.sequences = #attn.sequences<first_q, first_q>} {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %h0 = tile.block_index "h" : i32
  %B = tile.axis_extent "b" : i32
  %H = tile.axis_extent "h" : i32
  %ROWS = tile.param "rows" : !tile.view<3, f32>
  %OUT = tile.param "out" : !tile.view<1, f32>
  %s = tile.splat %zero : f32 -> <h 8, f32, register>
  %dom = tile.domain batch by 1 [%c0, %B) full
  %r = tile.for_blocks (%b, %partial) in %dom iter_args(%x = %s : !tile.tile<h 8, f32, register>) {
    %y = tile.map(%x : !tile.tile<h 8, f32, register>) at(h = %h0) -> !tile.tile<h 8, f32, register> {
    ^bb0(%v: f32, %h: i32):
      %e = tile.element %ROWS[%b, %h, %c0] in_range [false, false, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %w = arith.addf %v, %e : f32
      tile.yield %w : f32
    }
    tile.yield %y : !tile.tile<h 8, f32, register>
  }
  tile.store %r, %OUT[%h0] limit %H : !tile.tile<h 8, f32, register>, !tile.view<1, f32>
}

// -----

// expected-error @+1 {{packed sequences do not take a mask whose visible tiles follow from "ids.q", a table of tensors or functions of q or k; write the mask by positions, b, h and tensors of b and h, or pad the sequences to a batch}}
tile.kernel @tables(ids.q: workspace [bound 2, q by 64] i32, q: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<first_q, i32, rank 1>], tile.sequences = #attn.sequences<first_q, first_q>} {
}
