// RUN: attune-opt %s -tile-place-operands -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-specialize-warps -canonicalize -cse | FileCheck %s

!sum = !tile.tile<k 128 x d 64, f32, register>

// Each round has tiles of its own: one search goes through the places of all, of which a round has those from its first segment's begin to its last
// one's end. A place of the gap between the segments is not visible.
// CHECK-LABEL: tile.kernel @rounds
// CHECK:       sched.role "producer"
// CHECK:         %[[BEGIN:.*]] = arith.divsi %k0, %c64_i32
// CHECK:         %[[GAP:.*]] = arith.addi %[[BEGIN]], %c3_i32
// CHECK:         %[[SPAN:.*]] = arith.subi %[[TILES:.*]], %[[BEGIN]]
// CHECK:         %[[WIDTH:.*]] = arith.maxsi %[[SPAN]], %c0_i32 {tile.name = "round_places"}
// CHECK:         %[[PLACES:.*]] = arith.muli %[[WIDTH]], %{{.*}} {tile.name = "places"}
// CHECK:         %[[FIRST:[^ ,]*]], %[[ORIGIN:[^ ,]*]], %[[VISIBLE:[^ ,]*]], %[[FULL:[^ ,]*]] = sched.next_visible from %c0_i32 below %[[PLACES]] {
// CHECK-NEXT:    ^bb0(%[[PLACE:.*]]: i32):
// CHECK-NEXT:      %[[REST:.*]] = arith.remui %[[PLACE]], %[[WIDTH]]
// CHECK-NEXT:      %[[TILE:.*]] = arith.addi %[[BEGIN]], %[[REST]]
// CHECK-NEXT:      %[[ROUND:.*]] = arith.divui %[[PLACE]], %[[WIDTH]]
// CHECK:           arith.cmpi slt, %[[TILE]], %[[GAP]]
// CHECK:           arith.cmpi sge, %[[TILE]], %c64_i32
// CHECK:           arith.cmpi ne, %[[TILE]], %[[ROUND]]
// CHECK:           sched.visible
// CHECK:         sched.send %[[FIRST]] to %tasks
// CHECK:         sched.for_tiles (%[[AT:[^ ,]*]], {{.*}} below %[[PLACES]] {
// CHECK:           arith.divui %[[AT]], %[[WIDTH]] {tile.name = "iteration"}
// CHECK:           sched.next_visible from %{{.*}} below %[[PLACES]] seen
// CHECK:           sched.send %{{.*}} to %visits
// CHECK:       sched.role "consumer"
// CHECK-NOT:     sched.next_visible
// CHECK:         sched.receive from %visits
// CHECK-NOT:     sched.next_visible
tile.kernel @rounds(q: in [b, h, q, d 64] bf16, k: in [b, k, d 64] bf16, sums: out [b, k, d 64] f32) grid [b, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %b = tile.block_index "b" : i32
  %k0 = tile.block_index "k" : i32
  %heads = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<3, bf16>
  %S = tile.param "sums" : !tile.view<3, f32>
  %c3 = arith.constant 3 : i32
  %c64 = arith.constant 64 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %begin = arith.divsi %k0, %c64 : i32
  %gap = arith.addi %begin, %c3 : i32
  %tiles = arith.ceildivui %Sq, %c64 : i32
  %dom = tile.domain q by 64 [%begin, %gap) full [%c64, %tiles) partial times %heads where {
  ^bb0(%n: i32, %iteration: i32):
    %shown = arith.cmpi ne, %n, %iteration : i32
    tile.yield %shown, %true : i1, i1
  }
  %k = tile.load %K[%b, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<3, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
  %none = tile.splat %zero : f32 -> !sum
  %r = tile.for_blocks (%q0, %partial, %h) in %dom iter_args(%sum = %none : !sum) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 128 x d 64, bf16, shared> -> !tile.tile<q 64 x k 128, f32, register>
    %s16 = tile.convert %s : !tile.tile<q 64 x k 128, f32, register> -> !tile.tile<q 64 x k 128, bf16, register>
    %next = tile.mma %s16, %q add %sum : !sum, !tile.tile<q 64 x k 128, bf16, register>, !tile.tile<q 64 x d 64, bf16, shared> -> !sum
    tile.yield %next : !sum
  }
  tile.store %r, %S[%b, %k0] limit %Sk : !sum, !tile.view<3, f32>
}

// Rounds that begin and end with groups: a group of 32 places is one of 32 tiles, and a tile outside of the segments is not visible.
// CHECK-LABEL: tile.kernel @groups
// CHECK:       sched.role "producer"
// CHECK:         %[[FROM:.*]] = arith.andi %[[BEGIN:.*]], %c-32_i32 {tile.name = "round_begin"}
// CHECK:         %[[PLACES:.*]] = arith.muli %[[WIDTH:.*]], %{{.*}} {tile.name = "places"}
// CHECK:         sched.next_visible from %c0_i32 below %[[PLACES]] {
// CHECK-NEXT:    ^bb0(%[[PLACE:.*]]: i32):
// CHECK:           %[[TILE:.*]] = arith.addi %[[FROM]], %{{.*}} {tile.name = "tile"}
// CHECK:           arith.cmpi sge, %[[TILE]], %[[BEGIN]]
// CHECK:           arith.cmpi slt, %[[TILE]], %[[TILES:.*]] :
// CHECK:           %[[LAST:.*]] = arith.subi %[[TILES]], %c1_i32
// CHECK:           %[[ASKED:.*]] = arith.minsi %[[TILE]], %[[LAST]]
// CHECK:           arith.cmpi ne, %[[ASKED]], %{{.*}}
// CHECK:         } groups {
// CHECK-NEXT:    ^bb0(%[[GROUP:.*]]: i32):
// CHECK-NEXT:      %[[PLACE:.*]] = arith.shli %[[GROUP]], %c5_i32
// CHECK-NEXT:      %[[ROUND:.*]] = arith.divui %[[PLACE]], %[[WIDTH]]
// CHECK:           %[[OF:.*]] = arith.shrui %{{.*}}, %c5_i32
// CHECK-NEXT:      %[[ANY:.*]] = arith.cmpi ne, %[[OF]], %[[ROUND]]
// CHECK-NEXT:      sched.visible %[[ANY]]
tile.kernel @groups(q: in [b, h, q, d 64] bf16, k: in [b, k, d 64] bf16, sums: out [b, k, d 64] f32) grid [b, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %b = tile.block_index "b" : i32
  %k0 = tile.block_index "k" : i32
  %heads = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<3, bf16>
  %S = tile.param "sums" : !tile.view<3, f32>
  %c3 = arith.constant 3 : i32
  %c64 = arith.constant 64 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %begin = arith.divsi %k0, %c64 : i32
  %gap = arith.addi %begin, %c3 : i32
  %tiles = arith.ceildivui %Sq, %c64 : i32
  %dom = tile.domain q by 64 [%begin, %gap) full [%c64, %tiles) partial times %heads where {
  ^bb0(%n: i32, %iteration: i32):
    %shown = arith.cmpi ne, %n, %iteration : i32
    tile.yield %shown, %true : i1, i1
  } groups {
  ^bb0(%group: i32, %iteration: i32):
    %any = arith.cmpi ne, %group, %iteration : i32
    tile.yield %any : i1
  }
  %k = tile.load %K[%b, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<3, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
  %none = tile.splat %zero : f32 -> !sum
  %r = tile.for_blocks (%q0, %partial, %h) in %dom iter_args(%sum = %none : !sum) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 128 x d 64, bf16, shared> -> !tile.tile<q 64 x k 128, f32, register>
    %s16 = tile.convert %s : !tile.tile<q 64 x k 128, f32, register> -> !tile.tile<q 64 x k 128, bf16, register>
    %next = tile.mma %s16, %q add %sum : !sum, !tile.tile<q 64 x k 128, bf16, register>, !tile.tile<q 64 x d 64, bf16, shared> -> !sum
    tile.yield %next : !sum
  }
  tile.store %r, %S[%b, %k0] limit %Sk : !sum, !tile.view<3, f32>
}

// Where all warps copy, they search, and know the round of the tile that is copied ahead.
// CHECK-LABEL: tile.kernel @copies
// CHECK:         %[[FIRST:[^ ,]*]], %{{.*}} = sched.next_visible from %c0_i32 below %[[PLACES:.*]] {
// CHECK:         arith.divui %[[FIRST]], %[[WIDTH:.*]] {tile.name = "iteration"}
// CHECK:         sched.for_tiles (%[[AT:[^ ,]*]], %[[AHEAD:[^ ,]*]],
// CHECK:           arith.divui %[[AHEAD]], %[[WIDTH]]
// CHECK:           sched.next_visible from %{{.*}} below %[[PLACES]] {
tile.kernel @copies(q: in [b, h, q, d 64] bf16, k: in [b, k, d 64] bf16, sums: out [b, k, d 64] f32) grid [b, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %k0 = tile.block_index "k" : i32
  %heads = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<3, bf16>
  %S = tile.param "sums" : !tile.view<3, f32>
  %c3 = arith.constant 3 : i32
  %c64 = arith.constant 64 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %begin = arith.divsi %k0, %c64 : i32
  %gap = arith.addi %begin, %c3 : i32
  %tiles = arith.ceildivui %Sq, %c64 : i32
  %dom = tile.domain q by 64 [%begin, %gap) full [%c64, %tiles) partial times %heads where {
  ^bb0(%n: i32, %iteration: i32):
    %shown = arith.cmpi ne, %n, %iteration : i32
    tile.yield %shown, %true : i1, i1
  }
  %k = tile.load %K[%b, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<3, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
  %none = tile.splat %zero : f32 -> !sum
  %r = tile.for_blocks (%q0, %partial, %h) in %dom iter_args(%sum = %none : !sum) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 128 x d 64, bf16, shared> -> !tile.tile<q 64 x k 128, f32, register>
    %s16 = tile.convert %s : !tile.tile<q 64 x k 128, f32, register> -> !tile.tile<q 64 x k 128, bf16, register>
    %next = tile.mma %s16, %q add %sum : !sum, !tile.tile<q 64 x k 128, bf16, register>, !tile.tile<q 64 x d 64, bf16, shared> -> !sum
    tile.yield %next : !sum
  }
  tile.store %r, %S[%b, %k0] limit %Sk : !sum, !tile.view<3, f32>
}
