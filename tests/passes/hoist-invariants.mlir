// RUN: attune-opt %s -split-input-file -tile-hoist-invariants | FileCheck %s
// RUN: attune-opt %s -split-input-file -tile-hoist-invariants=conditional-columns | FileCheck %s --check-prefix=COLUMNS

// Of one map: what no coordinate reaches goes to the block, what only q or only k reaches to a vector.
// CHECK-LABEL: tile.kernel @levels
// CHECK:         %[[H:.*]] = tile.block_index "h"
// CHECK:         %[[BLOCK:.*]] = math.exp2 %{{.*}} : f32
// CHECK:         %[[ROW:.*]] = tile.map() at(q = %{{.*}}) -> !tile.tile<q 64, f32, register> {
// CHECK:           math.sin
// CHECK:         tile.for_blocks
// CHECK:           %[[COLUMN:.*]] = tile.map() at(k = %{{.*}}) -> !tile.tile<k 32, f32, register> {
// CHECK:             math.cos
// CHECK:           tile.map(
// CHECK-NOT:         math.sin
// CHECK-NOT:         math.cos
// CHECK-NOT:         math.exp2
// CHECK:             arith.addf %{{.*}}, %[[BLOCK]] : f32
tile.kernel @levels(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %k0) -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %hf = arith.sitofp %h : i32 to f32
      %e = math.exp2 %hf : f32
      %qf = arith.sitofp %q : i32 to f32
      %sine = math.sin %qf : f32
      %kf = arith.sitofp %k : i32 to f32
      %cosine = math.cos %kf : f32
      %0 = arith.addf %v, %e : f32
      %1 = arith.addf %0, %sine : f32
      %2 = arith.addf %1, %cosine : f32
      tile.yield %2 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}

// A conditional map keeps what follows from the loop's axis: a vector would be computed for each tile. Rows leave the loop.
// CHECK-LABEL: tile.kernel @conditional
// CHECK:         %[[ROW:.*]] = tile.map() at(q = %{{.*}}) -> !tile.tile<q 64, i32, register> {
// CHECK:         tile.for_blocks
// CHECK-NOT:       tile<k 32, i32
// CHECK:           tile.map(%{{.*}}, %[[ROW]] : {{.*}} only_if
// CHECK:             tile.element

// Where lanes share vectors, what it loads by key comes from a map under the same condition, and a load by what was loaded takes that along; what
// is not loaded stays.
// COLUMNS-LABEL: tile.kernel @conditional
// COLUMNS:         tile.for_blocks (%[[K0:.*]], %[[PARTIAL:.*]]) in
// COLUMNS:           %[[COLUMN:.*]] = tile.map() at(k = %[[K0]]) only_if %[[PARTIAL]] -> !tile.tile<k 32, i32, register> {
// COLUMNS:             %[[ID:.*]] = tile.element %{{.*}}[%{{.*}}]
// COLUMNS:             tile.element %{{.*}}[%[[ID]]]
// COLUMNS:           tile.map(%{{.*}}, %{{.*}}, %[[COLUMN]] : {{.*}} only_if %[[PARTIAL]]
// COLUMNS-NOT:         tile.element
// COLUMNS:             arith.divsi
tile.kernel @conditional(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %ids = tile.param "tensors.ids" : !tile.view<1, i32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %k0) only_if %partial -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %0 = tile.element %ids[%q] in_range [false] : !tile.view<1, i32> (i32) -> i32
      %id = tile.element %ids[%k] in_range [false] : !tile.view<1, i32> (i32) -> i32
      %1 = tile.element %ids[%id] in_range [false] : !tile.view<1, i32> (i32) -> i32
      %c7 = arith.constant 7 : i32
      %chunk = arith.divsi %k, %c7 : i32
      %sum = arith.addi %0, %chunk : i32
      %2 = arith.cmpi eq, %sum, %1 : i32
      %3 = arith.select %2, %v, %zero : f32
      tile.yield %3 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : !tile.tile<q 64, f32, register>, !tile.view<3, f32>
}

// A tile of 64 queries from a multiple of 64 has one quotient by 128, one of 32 keys one by 64; not by 80, nor by a quotient of another origin.
// CHECK-LABEL: tile.kernel @quotients
// CHECK:         %[[Q0:.*]] = tile.block_index "q"
// CHECK:         %[[ROW:.*]] = arith.divsi %[[Q0]], %{{.*}} : i32
// CHECK:         tile.for_blocks (%[[K0:.*]], %
// CHECK:           %[[COLUMN:.*]] = arith.divsi %[[K0]], %{{.*}} : i32
// CHECK:           %[[FLAG:.*]] = tile.element %{{.*}}[%[[ROW]], %[[COLUMN]]]
// CHECK:           tile.map() at(k = %[[K0]])
// CHECK:             arith.divsi
// CHECK:             arith.addi %[[FLAG]]
// CHECK:           tile.map() at(k = %{{.*}})
// CHECK:             arith.divsi
tile.kernel @quotients(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> attributes {tensors = [#attn.tensor<blocks, i32, rank 2>]} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c80 = arith.constant 80 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %blocks = tile.param "tensors.blocks" : !tile.view<2, i32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %shifted = arith.addi %k0, %c1 : i32
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %k0) -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %row = arith.divsi %q, %c128 : i32
      %column = arith.divsi %k, %c64 : i32
      %flag = tile.element %blocks[%row, %column] in_range [false, false] : !tile.view<2, i32> (i32, i32) -> i32
      %other = arith.divsi %k, %c80 : i32
      %sum = arith.addi %flag, %other : i32
      %f = arith.sitofp %sum : i32 to f32
      %0 = arith.addf %v, %f : f32
      tile.yield %0 : f32
    }
    %y = tile.map(%x : !tile.tile<q 64 x k 32, f32, register>) at(k = %shifted) -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %k: i32):
      %column = arith.divsi %k, %c64 : i32
      %f = arith.sitofp %column : i32 to f32
      %0 = arith.addf %v, %f : f32
      tile.yield %0 : f32
    }
    %m1 = tile.reduce max %y over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}

// -----

// Rounds of a loop that have one tile load its elements once; what follows from the round stays.
// CHECK-LABEL: tile.kernel @rounds
// CHECK:         %[[ANY:.*]] = arith.cmpi sgt, %{{.*}}, %c0
// CHECK:         %tile_bias = tile.map(%{{.*}} : !tile.tile<q 64 x k 32, f32, register>) at(q = %{{.*}}, k = %{{.*}}) only_if %[[ANY]] -> !tile.tile<q 64 x k 32, f32, register> {
// CHECK:           tile.element
// CHECK:         tile.for_blocks
// CHECK-NOT:       tile.element %TENSORS.BIAS
// CHECK:           tile.map(%{{.*}}, %tile_bias : {{.*}}) at(q = %{{.*}}, k = %{{.*}})
// CHECK:             tile.element %TENSORS.OTHER[%{{.*}}, %{{.*}}, %{{.*}}]
tile.kernel @rounds(tensors.bias: in [i, j] f32, tensors.other: in [n, i, j] f32, lse: out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %bias = tile.param "tensors.bias" {tile.name = "bias"} : !tile.view<2, f32>
  %other = tile.param "tensors.other" {tile.name = "other"} : !tile.view<3, f32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %c1) partial times %Sq
  %r = tile.for_blocks (%k0, %partial, %iteration) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %c0) -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %e = tile.element %bias[%q, %k] in_range [false, false] {tile.name = "bias"} : !tile.view<2, f32> (i32, i32) -> f32
      %o = tile.element %other[%iteration, %q, %k] in_range [false, false, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %0 = arith.addf %v, %e : f32
      %1 = arith.addf %0, %o : f32
      tile.yield %1 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}

// -----

// What producer warps bring as a window stays where it is read.
// CHECK-LABEL: tile.kernel @windows
// CHECK-NOT:     tile.map
// CHECK:         tile.for_blocks
// CHECK:           tile.map
// CHECK:             tile.element %TENSORS.BIAS
tile.kernel @windows(tensors.bias: in [i, j] f32, tensors.other: in [n, i, j] f32, lse: out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], sched.stage_biases} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %bias = tile.param "tensors.bias" {tile.name = "bias"} : !tile.view<2, f32>
  %other = tile.param "tensors.other" {tile.name = "other"} : !tile.view<3, f32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %c1) partial times %Sq
  %r = tile.for_blocks (%k0, %partial, %iteration) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %c0) -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %e = tile.element %bias[%q, %k] in_range [false, false] {tile.name = "bias"} : !tile.view<2, f32> (i32, i32) -> f32
      %o = tile.element %other[%iteration, %q, %k] in_range [false, false, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %0 = arith.addf %v, %e : f32
      %1 = arith.addf %0, %o : f32
      tile.yield %1 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}

// -----

// A search is done once for each row and for each column, in a conditional map too.
// CHECK-LABEL: tile.kernel @searches
// CHECK:         %[[ROW:.*]] = tile.map() at(q = %{{.*}}) -> !tile.tile<q 64, i32, register> {
// CHECK:           tile.search
// CHECK:         tile.for_blocks (%[[K0:.*]], %[[PARTIAL:.*]]) in
// CHECK:           %[[COLUMN:.*]] = tile.map() at(k = %[[K0]]) -> !tile.tile<k 32, i32, register> {
// CHECK:             tile.search
// CHECK:           tile.map(%{{.*}}, %[[ROW]], %[[COLUMN]] : {{.*}} only_if %[[PARTIAL]]
// CHECK-NOT:         tile.search
// COLUMNS-LABEL: tile.kernel @searches
// COLUMNS:         tile.for_blocks (%[[K0:.*]], %[[PARTIAL:.*]]) in
// COLUMNS:           tile.map() at(k = %[[K0]]) only_if %[[PARTIAL]] -> !tile.tile<k 32, i32, register> {
// COLUMNS:             tile.search
tile.kernel @searches(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> attributes {tensors = [#attn.tensor<offsets, i32, rank 1>]} {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %offsets = tile.param "tensors.offsets" : !tile.view<1, i32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %m = tile.splat %zero : f32 -> <q 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m0 = %m : !tile.tile<q 64, f32, register>) {
    %x = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) at(q = %q0, k = %k0) only_if %partial -> !tile.tile<q 64 x k 32, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %row = tile.search %offsets, %q right : !tile.view<1, i32>, i32
      %column = tile.search %offsets, %k right : !tile.view<1, i32>, i32
      %same = arith.cmpi eq, %row, %column : i32
      %0 = arith.select %same, %v, %hidden : f32
      tile.yield %0 : f32
    }
    %m1 = tile.reduce max %x over "k" init %m0 : !tile.tile<q 64, f32, register>, <q 64 x k 32, f32, register> -> <q 64, f32, register>
    tile.yield %m1 : !tile.tile<q 64, f32, register>
  }
  tile.store %r, %lse[%b, %h, %q0] limit %Sq : <q 64, f32, register>, <3, f32>
}
