// The gradients of captured tensors, by what indexes them.
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90 tile-q=64 tile-k=64 warps=4" -attn-to-tile-backward=granularity=16 -canonicalize -cse -verify-diagnostics | FileCheck %s

// A value for each head: what a row adds is summed by the loop over keys, and written; a kernel behind adds up the rows, in an order of its own.
// CHECK:       tile.launch @slopes [@slopes_rows, @slopes_keys, @slopes_queries, @slopes_grad_t]
// CHECK-LABEL: tile.kernel @slopes_queries(
// CHECK-SAME:    grads.t.rows: workspace [b, h, q] f32
// CHECK:         %dq_end, %[[END:.*]] = tile.for_blocks
// CHECK:           %[[ADDED:added.*]] = tile.map(%dp
// CHECK:           %[[SUM:.*]] = tile.reduce sum %[[ADDED]] over "k" init
// CHECK:           tile.yield %{{.*}}, %[[SUM]]
// CHECK:         tile.store %[[END]], %{{.*}}[%b, %h, %q0] limit %Sq
// CHECK-LABEL: tile.kernel @slopes_grad_t(grads.t.rows: workspace [b, h, q] f32, grads.t: out [tensors.t.0] f32
// CHECK-SAME:    grid [tensors.t.0 by 8]
// CHECK:         tile.domain batch by 1 [%{{.*}}, %B) full
// CHECK:         tile.domain row by 128
// CHECK:         tile.reduce sum %{{.*}} over "row"
attn.attention @slopes dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, f32, rank 1>], gradients = #attn.gradients<["t"], deterministic>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "t"[%h] : (i32) -> f32
  %1 = arith.mulf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A value for each key, whatever the row: by the loop over queries, for each head.
// CHECK-LABEL: tile.kernel @columns_keys(
// CHECK-SAME:    grads.t.keys: workspace [b, h, k] f32
// CHECK:         tile.for_blocks {{.*}} iter_args
// CHECK:           %{{.*}}, %{{.*}}, %[[END:.*]] = tile.for_blocks
// CHECK:             tile.reduce sum %{{.*}} over "q" init
// CHECK:           tile.store %[[END]], %{{.*}} limit %Sk
// CHECK-LABEL: tile.kernel @columns_queries(
// CHECK-NOT:     grads.t
// CHECK-LABEL: tile.kernel @columns_grad_t(
attn.attention @columns dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, bf16, rank 2>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "t"[%b, %k] : (i32, i32) -> f32
  %1 = arith.mulf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// -----

// A dense bias: a kernel over its tiles, which adds up the batches that share them; or, where there is one batch, and no head beyond the tensor's, the loop over keys
// writes what it has. Then the tiles that the mask hides are cleared, and a launch leaves the tensor's own kernel out.
// CHECK:       tile.launch @dense [@dense_zeros_t, @dense_rows, @dense_keys, @dense_queries, @dense_grad_t]
// CHECK-LABEL: tile.kernel @dense_queries(
// CHECK-SAME:    grads.t: out [tensors.t.0, tensors.t.1, tensors.t.2] bf16
// CHECK:         tile.for_blocks
// CHECK:           %[[DS:.*]] = tile.map(%ds
// CHECK:           %[[HEAD:.*]] = arith.select %unshared, %h, %c-1
// CHECK:           tile.scatter %[[DS]], %{{.*}}[%[[HEAD]], %q_index, %k_index]
// CHECK:           tile.convert %[[DS]]
// CHECK-LABEL: tile.kernel @dense_zeros_t(
// CHECK-SAME:    grid [tensors.t.0, tensors.t.1 by 128, tensors.t.2 by 64]
// CHECK:         %[[BATCHES:.*]] = arith.subi %B, %c1
// CHECK:         %[[ONE:.*]] = arith.cmpi ult, %[[BATCHES]], %c1
// CHECK:         %[[LAST:.*]] = arith.subi %H, %c1
// CHECK:         %[[HEADS:.*]] = arith.cmpi ult, %[[LAST]], %extent0
// CHECK:         %unshared = arith.andi %[[ONE]], %[[HEADS]] {tile.name = "unshared"} : i1
// CHECK:         %[[KEPT:.*]] = arith.xori %unshared, %true
// CHECK:         %[[COVERED:.*]] = arith.andi %{{.*}}, %[[KEPT]]
// Of heads that the others do not write all of the block.
// CHECK:         %[[ALL:.*]] = arith.select %[[COVERED]], %c-1{{.*}}, %i0 : i32
// CHECK:         tile.scatter %zeros, %{{.*}}[%[[ALL]], %all_rows, %all_columns]
// Of those that they do what lies beyond the sequences; a block of which they write all elements writes none.
// CHECK:         %whole = arith.andi
// CHECK:         %nothing_left = arith.ori %{{.*}}, %whole
// CHECK:         %[[AT:.*]] = arith.select %nothing_left, %c-1{{.*}}, %i0 : i32
// CHECK:         tile.scatter %zeros, %{{.*}}[%[[AT]], %rows, %columns]
// CHECK-LABEL: tile.kernel @dense_grad_t(
// CHECK-SAME:    grads.t: out [tensors.t.0, tensors.t.1, tensors.t.2] bf16) grid [tensors.t.0, q by 64, k by 64]
// CHECK-SAME:    tile.skipped_if = [#tile.bound<"b">, #tile.bound<"h" most "tensors.t.0">]
// CHECK:         %[[TILE:.*]] = tile.domain k by 64 [%{{.*}}, %{{.*}}) full times %{{.*}}
// CHECK:         tile.for_blocks (%{{.*}}, %{{.*}}, %[[ROUND:.*]]) in %[[TILE]]
// CHECK:           arith.divsi %[[ROUND]]
// CHECK:           tile.mma %q_tile, %k_tile
// CHECK:         tile.scatter %{{.*}}, %{{.*}}[%head_place, %{{.*}}, %{{.*}}]
attn.attention @dense dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, bf16, rank 3>], gradients = #attn.gradients<["t"], deterministic>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "t"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// A table by distance: atomic additions to float32, cleared in front and rounded behind, of sums along the diagonals of a warp's 16 rows.
// CHECK:       tile.launch @table [@table_zeros_t, @table_rows, @table_keys, @table_queries, @table_grad_t]
// CHECK-LABEL: tile.kernel @table_queries(
// CHECK:         %[[DS:.*]] = tile.map(%ds
// CHECK:         %[[ADDED:.*]] = tile.map(%[[DS]] : {{.*}}) at(q = %q0) only_if
// CHECK:         %sums = tile.sum_diagonals %[[ADDED]] {{.*}} -> <part 4 x distance 80, f32, register>
// CHECK:         %index = tile.map(%sums : {{.*}}) at(part = %c0{{.*}}, distance = %first_distance)
// CHECK:         tile.scatter add %sums, %{{.*}}[%{{.*}}, %index] : <part 4 x distance 80, f32, register>, <2, f32>(i32, !tile.tile<part 4 x distance 80, i32, register>)
// CHECK-LABEL: tile.kernel @table_zeros_t(grads.t.addends: workspace [tensors.t.0, tensors.t.1] f32) grid [tensors.t.0, tensors.t.1 by 256]
// CHECK:         tile.store %zeros
// CHECK-LABEL: tile.kernel @table_grad_t(
// CHECK:         tile.load %{{.*}} limit
// CHECK:         tile.store
attn.attention @table dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, bf16, rank 2>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %q, %k : i32
  %1 = attn.load "t"[%h, %0] : (i32, i32) -> f32
  %2 = arith.addf %s, %1 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// Buckets of distances, of which many have one place.
// CHECK-LABEL: tile.kernel @buckets_queries(
// CHECK:         tile.scatter add merge %sums, %{{.*}}[%{{.*}}, %index]
attn.attention @buckets dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, bf16, rank 2>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %c16 = arith.constant 16 : i32
  %0 = arith.subi %q, %k : i32
  %1 = arith.shrsi %0, %c4 : i32
  %2 = arith.cmpi slt, %q, %k : i32
  %3 = arith.select %2, %c16, %c0 : i32
  %4 = arith.addi %1, %3 : i32
  %5 = attn.load "t"[%h, %4] : (i32, i32) -> f32
  %6 = arith.addf %s, %5 : f32
  attn.yield %6 : f32
} mask {
}

// -----

// One by something else: each element by itself.
// CHECK-LABEL: tile.kernel @gathered_queries(
// CHECK:         %[[DS:.*]] = tile.map(%ds
// CHECK:         tile.scatter add %[[DS]], %{{.*}}[%{{.*}}, %index] : <q 64 x k 64, f32, register>, <2, f32>(i32, !tile.tile<q 64 x k 64, i32, register>)
attn.attention @gathered dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, bf16, rank 2>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.addi %q, %k : i32
  %1 = attn.load "t"[%h, %0] : (i32, i32) -> f32
  %2 = arith.addf %s, %1 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// The logit of a sink: what a row adds follows from its statistics.
// CHECK-LABEL: tile.kernel @sink_rows(
// CHECK-SAME:    grads.sinks.rows: workspace [b, h, q] f32
// CHECK:         %[[ADDED:.*]] = tile.map(%row_sum, %lse
// CHECK:         tile.store %[[ADDED]]
// CHECK-LABEL: tile.kernel @sink_queries(
// CHECK-NOT:     grads.sinks
// CHECK-LABEL: tile.kernel @sink_grad_sinks(
attn.attention @sink dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {normaliser = "softmax_sink", statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<l, sum, 0.000000e+00 : f32>],
                tensors = [#attn.tensor<sinks, f32, rank 1>], gradients = #attn.gradients<["sinks"]>} score {} mask {} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %neg_inf = arith.constant 0xFF800000 : f32
  %0 = arith.cmpf oeq, %m, %neg_inf : f32
  %1 = arith.select %0, %c0_f32, %m : f32
  attn.yield %1 : f32
} rescale {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32, %base: f32):
  %0 = arith.subf %m, %base : f32
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  %0 = arith.subf %x, %base : f32
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
} divisor {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %inf = arith.constant 0x7F800000 : f32
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %sinks = attn.load "sinks"[%h] : (i32) -> f32
  %0 = arith.cmpf oeq, %l, %c0_f32 : f32
  %1 = arith.select %0, %inf, %m : f32
  %2 = arith.subf %sinks, %1 : f32
  %3 = math.exp %2 : f32
  %4 = arith.addf %l, %3 : f32
  attn.yield %4 : f32
} lse {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %neg_inf = arith.constant 0xFF800000 : f32
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %0 = arith.cmpf oeq, %l, %c0_f32 : f32
  %1 = math.log %l : f32
  %2 = arith.addf %m, %1 : f32
  %3 = arith.select %0, %neg_inf, %2 : f32
  attn.yield %3 : f32
}

// -----

// The same bits in every launch: sums that each have an order, and long accumulators, whose words are integers. Each is rounded and counts in its row.
// CHECK:       tile.launch @ordered [@ordered_zeros_t, @ordered_rows, @ordered_keys, @ordered_queries, @ordered_grad_t]
// CHECK-LABEL: tile.kernel @ordered_queries(
// CHECK:         %[[DS:.*]] = tile.map(%dp
// CHECK:         %sums = tile.sum_diagonals
// CHECK:         %word = tile.map(%sums :
// CHECK:         %addend = tile.map(%sums :
// CHECK:         tile.scatter add %addend, %{{.*}}[%word, %index] : <part 4 x distance 80, i32, register>, <2, i64>(
// CHECK-LABEL: tile.kernel @ordered_zeros_t(grads.t.addends: workspace [word 67, tensors.t.0] i64) grid [word 67, tensors.t.0 by 256]
// CHECK:         tile.store %zeros, %{{.*}}[%word, %i0] limit
// CHECK-LABEL: tile.kernel @ordered_grad_t(
// CHECK:         %[[WORD:.*]] = tile.element %{{.*}}[%row, %entry] in_range [false, false] {{.*}} : <2, i64> (i32, i32) -> i64
// CHECK:         arith.sitofp %[[WORD]] : i64 to f32
// CHECK:         tile.reduce sum %{{.*}} over "row"
attn.attention @ordered dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, f32, rank 1>], gradients = #attn.gradients<["t"], deterministic>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %q, %k : i32
  %1 = attn.load "t"[%0] : (i32) -> f32
  %2 = arith.addf %s, %1 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// expected-error @+1 {{the gradient of captured tensor "t" is asked for, which has rank 0; capture it with rank 1, of one element, and read its element 0}}
attn.attention @scalar dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<t, f32, rank 0>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "t"[] : () -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
