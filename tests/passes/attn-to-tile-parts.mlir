// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=192 tile-k=64" -attn-to-tile=granularity=16 -split-input-file | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=144 stages=2" -attn-to-tile=granularity=16 -split-input-file | FileCheck %s --check-prefix=WIDE

// A warpgroup knows which tiles are full by its own rows; where tables say more of the block's rows, these count as well.
// CHECK-LABEL: tile.kernel @given(
// CHECK:         %[[FROM:.*]] = arith.muli {{.*}} {tile.name = "own_full_from"}
// CHECK:         %[[TO:.*]] = arith.muli {{.*}} {tile.name = "own_full_to"}
// CHECK:         tile.for_blocks (%[[K0:.*]], %[[PARTIAL:[a-z_0-9]+]]) in
// CHECK-DAG:       %[[BEFORE:.*]] = arith.cmpi slt, %[[K0]], %[[FROM]]
// CHECK-DAG:       %[[BEHIND:.*]] = arith.cmpi sge, %[[K0]], %[[TO]]
// CHECK:           %[[OUTSIDE:.*]] = arith.ori %[[BEFORE]], %[[BEHIND]]
// CHECK-NOT:       %[[PARTIAL]]
// CHECK:           tile.map({{.*}} only_if

// One warpgroup has all rows of the block, and a word too few bits for 144 columns: the mask is asked of each element.
// WIDE-LABEL: tile.kernel @given(
// WIDE-NOT:     own_full
// WIDE:         tile.for_blocks (%{{.*}}, %[[PARTIAL:[a-z_0-9]+]]) in
// WIDE:           tile.map({{.*}} only_if %[[PARTIAL]] ->
// WIDE:             arith.subi
// WIDE:             arith.ori
attn.attention @given dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %first = arith.constant 256 : i32
  %window = arith.constant 512 : i32
  %front = arith.cmpi slt, %k, %first : i32
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %near = arith.cmpi slt, %distance, %window : i32
  %both = arith.andi %causal, %near : i1
  %either = arith.ori %front, %both : i1
  attn.yield %either : i1
}

// -----

// CHECK-LABEL: tile.kernel @loaded(
// CHECK:         tile.for_blocks (%{{.*}}, %[[PARTIAL:[a-z_0-9]+]]) in
// CHECK:           %[[OUTSIDE:.*]] = arith.ori
// CHECK:           %[[MASKED:.*]] = arith.andi %[[PARTIAL]], %[[OUTSIDE]] : i1
// CHECK:           tile.map({{.*}} only_if %[[MASKED]] ->
attn.attention @loaded dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<begins, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %first = arith.constant 64 : i32
  %causal = arith.cmpi sge, %q, %k : i32
  %front = arith.cmpi slt, %k, %first : i32
  %begin = attn.load "begins"[%q] : (i32) -> i32
  %behind = arith.cmpi sge, %k, %begin : i32
  %either = arith.ori %front, %behind : i1
  %both = arith.andi %causal, %either : i1
  attn.yield %both : i1
}
