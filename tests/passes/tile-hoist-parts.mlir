// RUN: attune-opt %s -split-input-file -tile-hoist-parts -canonicalize -cse | FileCheck %s

// Blocks of 64 in tiles of 64 queries and 128 keys, with queries in the loop: two parts along k. A hash of the query's block
// takes more operations than reading a bit.
// CHECK-LABEL: tile.kernel @blocks
// CHECK:         tile.for_blocks (%[[Q0:[A-Za-z0-9_]+]], %{{.*}}) in
// CHECK:           %[[PARTS:.*]] = tile.bits 2 {
// CHECK-NEXT:      ^bb0(%[[PART:.*]]: i32):
// CHECK:             %[[I:.*]] = arith.remui %[[PART]], %{{.*}} : i32
// CHECK-NEXT:        %[[OFFSET:.*]] = arith.muli %[[I]], %{{.*}} : i32
// CHECK-NEXT:        %[[K:.*]] = arith.addi %{{.*}}, %[[OFFSET]] : i32
// CHECK-NEXT:        arith.divsi %[[Q0]], %{{.*}} : i32
// CHECK:             %[[SEES:.*]] = arith.cmpi eq
// CHECK-NEXT:        tile.yield %[[SEES]] : i1
// CHECK-NEXT:      } {tile.name = "parts"}
// CHECK-NEXT:      tile.map(%{{.*}}) at(q = %[[Q0]], k = %[[K0:[A-Za-z0-9_]+]])
// CHECK-NEXT:      ^bb0(%[[X:[A-Za-z0-9_]+]]: f32, %{{.*}}: i32, %[[KEY:[A-Za-z0-9_]+]]: i32):
// CHECK-NEXT:        %[[IN:.*]] = arith.subi %[[KEY]], %[[K0]] : i32
// CHECK-NEXT:        %[[NUMBER:.*]] = arith.divsi %[[IN]], %{{.*}} : i32
// CHECK-NEXT:        %[[SHIFTED:.*]] = arith.shrui %[[PARTS]], %[[NUMBER]] : i32
// CHECK-NEXT:        %[[BIT:.*]] = arith.andi %[[SHIFTED]], %{{.*}} : i32
// CHECK-NEXT:        %[[HOLDS:.*]] = arith.cmpi ne, %[[BIT]], %{{.*}} : i32
// CHECK-NEXT:        arith.select %[[HOLDS]], %[[X]],
tile.kernel @blocks(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, sums: out [b, hkv, k] f32) grid [b, hkv, k by 128] dtype bf16 plan <q 64 x k 128, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %hkv = tile.block_index "hkv" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %end = tile.axis_extent "q" : i32
  %s = tile.splat %zero : f32 -> <q 64 x k 128, f32, register>
  %dom = tile.domain q by 64 [%c0, %end) partial
  %r = tile.for_blocks (%q0, %partial) in %dom iter_args(%x = %s : !tile.tile<q 64 x k 128, f32, register>) {
    %y = tile.map(%x : !tile.tile<q 64 x k 128, f32, register>) at(q = %q0, k = %k0) -> !tile.tile<q 64 x k 128, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %row = arith.divsi %q, %c64 : i32
      %column = arith.divsi %k, %c64 : i32
      %0 = arith.muli %row, %c5 : i32
      %1 = arith.xori %0, %c3 : i32
      %2 = arith.muli %1, %c5 : i32
      %3 = arith.xori %2, %c3 : i32
      %4 = arith.muli %3, %c5 : i32
      %5 = arith.xori %4, %c3 : i32
      %6 = arith.muli %5, %c5 : i32
      %7 = arith.xori %6, %c3 : i32
      %8 = arith.muli %7, %c5 : i32
      %9 = arith.xori %8, %c3 : i32
      %10 = arith.muli %9, %c5 : i32
      %11 = arith.xori %10, %c3 : i32
      %12 = arith.muli %11, %c5 : i32
      %13 = arith.xori %12, %c3 : i32
      %sees = arith.cmpi eq, %13, %column : i32
      %chosen = arith.select %sees, %v, %zero : f32
      tile.yield %chosen : f32
    }
    tile.yield %y : !tile.tile<q 64 x k 128, f32, register>
  }
  %SUMS = tile.param "sums" : !tile.view<3, f32>
  %sum = tile.reduce sum %r over "q" : !tile.tile<q 64 x k 128, f32, register> -> !tile.tile<k 128, f32, register>
  tile.store %sum, %SUMS[%b, %hkv, %k0] limit %Sk : !tile.tile<k 128, f32, register>, !tile.view<3, f32>
}

// -----

// A few operations stay, as does a condition on the remainder, which is not the same in a part.
// CHECK-LABEL: tile.kernel @cheap
// CHECK-NOT:     tile.bits
tile.kernel @cheap(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, sums: out [b, hkv, k] f32) grid [b, hkv, k by 128] dtype bf16 plan <q 64 x k 128, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %hkv = tile.block_index "hkv" : i32
  %k0 = tile.block_index "k" : i32
  %Sk = tile.axis_extent "k" : i32
  %end = tile.axis_extent "q" : i32
  %s = tile.splat %zero : f32 -> <q 64 x k 128, f32, register>
  %dom = tile.domain q by 64 [%c0, %end) partial
  %r = tile.for_blocks (%q0, %partial) in %dom iter_args(%x = %s : !tile.tile<q 64 x k 128, f32, register>) {
    %y = tile.map(%x : !tile.tile<q 64 x k 128, f32, register>) at(q = %q0, k = %k0) -> !tile.tile<q 64 x k 128, f32, register> {
    ^bb0(%v: f32, %q: i32, %k: i32):
      %row = arith.divsi %q, %c64 : i32
      %column = arith.divsi %k, %c64 : i32
      %sees = arith.cmpi eq, %row, %column : i32
      %0 = arith.remsi %q, %c64 : i32
      %1 = arith.muli %0, %c5 : i32
      %2 = arith.xori %1, %c3 : i32
      %3 = arith.muli %2, %c5 : i32
      %4 = arith.xori %3, %c3 : i32
      %5 = arith.muli %4, %c5 : i32
      %6 = arith.xori %5, %c3 : i32
      %7 = arith.muli %6, %c5 : i32
      %8 = arith.xori %7, %c3 : i32
      %9 = arith.muli %8, %c5 : i32
      %10 = arith.xori %9, %c3 : i32
      %11 = arith.muli %10, %c5 : i32
      %12 = arith.xori %11, %c3 : i32
      %13 = arith.muli %12, %c5 : i32
      %14 = arith.xori %13, %c3 : i32
      %15 = arith.cmpi eq, %14, %column : i32
      %both = arith.ori %sees, %15 : i1
      %chosen = arith.select %both, %v, %zero : f32
      tile.yield %chosen : f32
    }
    tile.yield %y : !tile.tile<q 64 x k 128, f32, register>
  }
  %SUMS = tile.param "sums" : !tile.view<3, f32>
  %sum = tile.reduce sum %r over "q" : !tile.tile<q 64 x k 128, f32, register> -> !tile.tile<k 128, f32, register>
  tile.store %sum, %SUMS[%b, %hkv, %k0] limit %Sk : !tile.tile<k 128, f32, register>, !tile.view<3, f32>
}
