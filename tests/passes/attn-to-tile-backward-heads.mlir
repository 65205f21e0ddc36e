// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size=arch=sm_90a -attn-to-tile-backward=granularity=16 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size=arch=sm_90 -attn-to-tile-backward=granularity=16 -canonicalize -cse | FileCheck %s --check-prefix=NESTED

// All five products are in one loop, whose rounds are the heads of a group. What depends on the head is asked of each tile of each round; the rest has
// segments and cuts. Warp-level products have loops within a loop over the heads.
// CHECK-LABEL: tile.kernel @window_keys
// CHECK-SAME:    sched.roles
// CHECK:         %[[FIRST:.*]] = arith.muli %hkv, %group
// CHECK:         %[[DOMAIN:.*]] = tile.domain q by 128 [%tiles_begin, %tiles_end) full times %group where {
// CHECK-NEXT:    ^bb0(%[[TILE:.*]]: i32, %[[ROUND:.*]]: i32):
// CHECK-NEXT:      %[[H:.*]] = arith.addi %[[FIRST]], %[[ROUND]] {tile.name = "h"}
// CHECK:           %[[WINDOW:.*]] = tile.element %windows[%[[H]]]
// CHECK:           %[[ANY:.*]] = arith.cmpi slt, %{{.*}}, %[[WINDOW]]
// CHECK:           %[[ALL:.*]] = arith.cmpi slt, %{{.*}}, %[[WINDOW]]
// CHECK-NEXT:      tile.yield %[[ANY]], %[[ALL]]
// CHECK-NEXT:    }
// CHECK:         %full_from =
// CHECK-NOT:     %full_to
// CHECK:         tile.for_blocks (%q0, %partial, %iteration) in %[[DOMAIN]]
// NESTED-LABEL: tile.kernel @window_keys
// NESTED:         tile.domain h by 1
// NESTED:           tile.domain q by {{[0-9]+}} [%tiles_begin, %tiles_end) full{{$}}
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, tensors = [#attn.tensor<windows, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = arith.subi %q, %k : i32
  %2 = attn.load "windows"[%h] : (i32) -> i32
  %3 = arith.cmpi slt, %1, %2 : i32
  %4 = arith.andi %0, %3 : i1
  attn.yield %4 : i1
}

// -----

// The segments enclose what any head sees: 64 keys ahead.
// CHECK-LABEL: tile.kernel @union_keys
// CHECK:         arith.subi %k0, %c64_i32
// CHECK:         tile.domain q by 128 [%tiles_begin, %tiles_end) full times %group where {
// CHECK-NEXT:    ^bb0(%{{.*}}: i32, %{{.*}}: i32):
attn.attention @union dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c4 = arith.constant 4 : i32
  %c64 = arith.constant 64 : i32
  %0 = arith.cmpi slt, %h, %c4 : i32
  %1 = arith.cmpi sge, %q, %k : i32
  %2 = arith.addi %q, %c64 : i32
  %3 = arith.cmpi sge, %2, %k : i32
  %4 = arith.select %0, %1, %3 : i1
  attn.yield %4 : i1
}

// -----

// CHECK-LABEL: tile.kernel @blocks_keys
// CHECK:         tile.domain q by 64 [%tiles_begin, %tiles_end) full times %group where {
// CHECK-NEXT:    ^bb0(%[[TILE:.*]]: i32, %[[ROUND:.*]]: i32):
// CHECK-NEXT:      %[[H:.*]] = arith.addi %{{.*}}, %[[ROUND]]
// CHECK:           tile.touches %shown[%[[H]], %{{.*}}, %k0] tile 64 x 128 blocks 64 x 128
attn.attention @blocks dtype bf16 head_dim 128 x 128 scale 0.125 attributes {gradients = #attn.gradients<[]>, tensors = [#attn.tensor<shown, i8, rank 3>], pattern = #attn.blocks<shown, 64 x 128>} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// Groups of 32 tiles are asked in each round, too.
// CHECK-LABEL: tile.kernel @documents_keys
// CHECK:         tile.domain q by 128 [%{{.*}}, %tiles_end) full times %group where {
// CHECK-NEXT:    ^bb0(%[[TILE:.*]]: i32, %[[ROUND:.*]]: i32):
// CHECK:         } groups {
// CHECK-NEXT:    ^bb0(%[[GROUP:.*]]: i32, %[[ROUND:.*]]: i32):
// CHECK-NEXT:      arith.addi %{{.*}}, %[[ROUND]] {tile.name = "h"}
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c4 = arith.constant 4 : i32
  %0 = arith.cmpi slt, %h, %c4 : i32
  %1 = attn.load "ids"[%q] : (i32) -> i32
  %2 = attn.load "ids"[%k] : (i32) -> i32
  %3 = arith.cmpi eq, %1, %2 : i32
  %4 = arith.ori %0, %3 : i1
  attn.yield %4 : i1
}
