// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pair-elements | FileCheck %s
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-pair-elements -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// What counts with the columns from a tile's origin on: the others of its indices are those of the row, or the same for all.
// CHECK-LABEL: tile.kernel @pairs
// CHECK:         tile.element %bias[%h, %{{.*}}, %{{.*}}] in_range [true, false, false] {sched.pairs} :
// CHECK:         tile.element %{{.*}}[%{{.*}}, %{{.*}}] in_range [false, false] {sched.row_pairs} : <2, bf16>
// CHECK:         tile.element %{{.*}}[%{{.*}}, %{{.*}}] in_range [false, false] : <2, bf16>
// CHECK:         tile.element %{{.*}}[%{{.*}}, %{{.*}}] in_range [false, false] : <2, i32>
// CHECK:         tile.scatter %{{.*}}, %{{.*}}[%h, %{{.*}}, %{{.*}}] {sched.eights, sched.pairs} :
// CHECK:         tile.scatter %{{.*}}, %{{.*}}[%h, %{{.*}}, %{{.*}}] : <q 64
// CHECK:         tile.scatter %{{.*}}, %{{.*}}[%h, %{{.*}}, %{{.*}}] {sched.row_pairs} : <q 64

// One question for all threads: whether the views lie in pairs, and the whole tile in them. Then no index is asked.
// SCHED-LABEL: sched.kernel @pairs
// SCHED-DAG:     %[[BIAS:.*]] = sched.in_pairs %bias {tile.name = "bias_in_pairs"} : <3, bf16>
// SCHED-DAG:     %[[TABLE:.*]] = sched.in_pairs %table {tile.name = "table_in_pairs"} : <2, bf16>
// SCHED-DAG:     %[[OUT:.*]] = sched.in_pairs %OUT {tile.name = "out_in_pairs"} : <3, bf16>
// SCHED:         %[[KEYS:.*]] = sched.extent %bias, 2
// SCHED:         %[[K_END:.*]] = arith.addi %k0, %c32
// SCHED:         %[[IN_BIAS:.*]] = arith.cmpi sle, %[[K_END]], %[[KEYS]]
// SCHED:         %[[A:.*]] = arith.andi %[[BIAS]], %[[IN_BIAS]]
// SCHED:         %[[B:.*]] = arith.andi %[[A]], %[[TABLE]]
// SCHED:         %[[ROWS:.*]] = sched.extent %table, 0
// SCHED:         %[[IN_ROWS:.*]] = arith.cmpi sle, %[[K_END]], %[[ROWS]]
// SCHED:         %[[C:.*]] = arith.andi %[[B]], %[[IN_ROWS]]
// SCHED:         %[[COLUMNS:.*]] = sched.extent %table, 1
// SCHED:         %[[Q_END:.*]] = arith.addi %q0, %c64
// SCHED:         %[[IN_COLUMNS:.*]] = arith.cmpi sle, %[[Q_END]], %[[COLUMNS]]
// SCHED:         %[[ALL:.*]] = arith.andi %[[C]], %[[IN_COLUMNS]]
// SCHED:         scf.if %[[ALL]] {
// SCHED:           sched.registers "bias_pairs" : <q 64 x k 8, f32, register, #sched.fragment<c, warps 4>>
// Of rows a lane has a view of its own, from its first pair on.
// SCHED:           %[[OWN:.*]] = sched.slice %table[%{{.*}}, %{{.*}}] {tile.name = "own_table"} : <2, bf16> -> <2, bf16>
// SCHED:           scf.for %[[J:.*]] = %c0
// SCHED:             scf.for %[[R:.*]] = %c0
// The row's index is q + 1, which is clamped.
// SCHED:               %[[MOST:.*]] = arith.minsi
// SCHED:               %[[ROW:.*]] = arith.maxsi %[[MOST]]
// SCHED:               sched.load_elements %bias[%h, %[[ROW]], %k{{.*}}] : <3, bf16>
// Of rows: the pair at the lane's first column in the lane of the first row, at the second in that of the next.
// SCHED:             scf.for %[[R:.*]] = %c0
// SCHED:               %[[COLUMN:.*]] = arith.muli %[[J]], %c8
// SCHED:               %[[DOWN:.*]] = arith.muli %[[R]], %c8
// SCHED:               %[[X:.*]], %[[Y:.*]] = sched.load_elements %[[OWN]][%[[COLUMN]], %[[DOWN]]] : <2, bf16>
// SCHED:               %[[AWAY:.*]] = arith.select %[[ODD:.*]], %[[X]], %[[Y]] : f32
// SCHED:               %[[GOT:.*]] = sched.shuffle_xor %[[AWAY]], 4
// SCHED:               arith.select %[[ODD]], %[[GOT]], %[[X]] : f32
// SCHED:               arith.select %[[ODD]], %[[Y]], %[[GOT]] : f32
// SCHED:         } else {
// SCHED-NOT:       sched.load_elements
// SCHED:           tile.element %bias[%h, %{{.*}}, %{{.*}}] in_range [true, false, false] :
// Columns end at the tile's end, at Sk, or at the view's. In eights, the four lanes of a row have 32 columns, eight each.
// SCHED:         arith.cmpi sle, %[[Q_END]], %{{.*}}
// SCHED:         arith.cmpi sle, %[[K_END]], %{{.*}}
// SCHED:         arith.cmpi sle, %[[K_END]], %k_extent
// SCHED:         scf.if %{{.*}} {
// SCHED:           %[[BLOCK:.*]] = arith.muli %[[QUAD:.*]], %c8_i32
// SCHED:           %[[FIRST:.*]] = arith.addi %{{.*}}, %[[BLOCK]]
// SCHED:           %[[OWN_ROWS:.*]] = sched.slice %OUT[%h, %{{.*}}, %[[FIRST]]] {tile.name = "own_out"} : <3, bf16> -> <2, bf16>
// SCHED:           sched.store_eights{{ ?}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] quad %[[QUAD]] to %[[OWN_ROWS]][%{{.*}}, %{{.*}}] : <2, bf16>
// SCHED:         } else {
// SCHED-NEXT:      scf.if %{{.*}} {
// SCHED-NOT:       arith.cmpi
// SCHED:           sched.store_elements %{{.*}}, %{{.*}} to %OUT[%h, %{{.*}}, %{{.*}}] : <3, bf16>
// SCHED:         } else {
// SCHED-NOT:       sched.store_elements
// SCHED:         scf.if %{{.*}} {
// SCHED:           %[[OWN_OUT:.*]] = sched.slice %OUT[%h, %{{.*}}, %{{.*}}] {tile.name = "own_out"} : <3, bf16> -> <2, bf16>
// SCHED:           sched.shuffle_xor
// SCHED:           sched.store_elements %{{.*}}, %{{.*}} to %[[OWN_OUT]][%{{.*}}, %{{.*}}] : <2, bf16>

!values = !tile.tile<q 64 x k 32, f32, register>

tile.kernel @pairs(out: out [h, q, k] bf16) grid [h, q by 64, k by 32] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<bias, bf16, rank 3>, #attn.tensor<table, bf16, rank 2>, #attn.tensor<numbers, i32, rank 2>]} {
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %none = arith.constant -1 : i32
  %c1 = arith.constant 1 : i32
  %Sk = tile.axis_extent "k" : i32
  %bias = tile.param "tensors.bias" : !tile.view<3, bf16>
  %numbers = tile.param "tensors.numbers" : !tile.view<2, i32>
  %O = tile.param "out" : !tile.view<3, bf16>
  %x = tile.map() at(q = %q0, k = %k0) -> !values {
  ^bb0(%q: i32, %k: i32):
    %next = arith.addi %q, %c1 : i32
    %0 = tile.element %bias[%h, %next, %k] in_range [true, false, false] : !tile.view<3, bf16> (i32, i32, i32) -> f32
    // A parameter that is read in the map alone is asked in front of it, too.
    %table = tile.param "tensors.table" : !tile.view<2, bf16>
    // Rows and columns in each other's places, an index of both, and integers.
    %1 = tile.element %table[%k, %q] in_range [false, false] : !tile.view<2, bf16> (i32, i32) -> f32
    %d = arith.subi %q, %k : i32
    %2 = tile.element %table[%d, %k] in_range [false, false] : !tile.view<2, bf16> (i32, i32) -> f32
    %n = tile.element %numbers[%q, %k] in_range [false, false] : !tile.view<2, i32> (i32, i32) -> i32
    %f = arith.sitofp %n : i32 to f32
    %3 = arith.addf %0, %1 : f32
    %4 = arith.addf %2, %f : f32
    %5 = arith.addf %3, %4 : f32
    tile.yield %5 : f32
  }
  %rows = tile.map() at(q = %q0) -> !tile.tile<q 64, i32, register> {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %columns = tile.map() at(k = %k0) -> !tile.tile<k 32, i32, register> {
  ^bb0(%k: i32):
    %below = arith.cmpi slt, %k, %Sk : i32
    %place = arith.select %below, %k, %none : i32
    tile.yield %place : i32
  }
  %places = tile.map() at(q = %q0) -> !tile.tile<q 64, i32, register> {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %keys = tile.map() at(k = %k0) -> !tile.tile<k 32, i32, register> {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  // From 1 on.
  %shifted = tile.map() at(k = %k0) -> !tile.tile<k 32, i32, register> {
  ^bb0(%k: i32):
    %after = arith.addi %k, %c1 : i32
    tile.yield %after : i32
  }
  tile.scatter %x, %O[%h, %rows, %columns] : !values, !tile.view<3, bf16> (i32, !tile.tile<q 64, i32, register>, !tile.tile<k 32, i32, register>)
  tile.scatter %x, %O[%h, %rows, %shifted] : !values, !tile.view<3, bf16> (i32, !tile.tile<q 64, i32, register>, !tile.tile<k 32, i32, register>)
  tile.scatter %x, %O[%h, %keys, %places] : !values, !tile.view<3, bf16> (i32, !tile.tile<k 32, i32, register>, !tile.tile<q 64, i32, register>)
}
