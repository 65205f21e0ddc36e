// RUN: attune-opt %s -tile-recompute-maps | FileCheck %s

!tile = !tile.tile<q 64 x k 64, f32, register>

// What the first map computes of s the second one computes again, behind its first input, as it would need two values
// of it; the third one needs one, which may be kept, and the last reads another tile.
// CHECK-LABEL: tile.kernel @twice
// CHECK:         tile.map(%{{[^,]*}} :
// CHECK-NOT:       sched.after
// CHECK:         tile.map(%{{.*}}, %{{.*}} :
// CHECK-NEXT:    ^bb0(%[[DP:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT:      %[[AGAIN:.*]] = sched.after %[[S]], %[[DP]]
// CHECK-NEXT:      %[[SCALED:.*]] = arith.mulf %[[AGAIN]], %{{.*}} : f32
// CHECK-NEXT:      math.tanh %[[SCALED]]
// CHECK-NOT:     sched.after
tile.kernel @twice(o: out [b, q, k] f32) grid [b, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c = arith.constant 0.125 : f32
  %d = arith.constant 0.5 : f32
  %s = tile.splat %c : f32 -> !tile
  %dp = tile.splat %d : f32 -> !tile
  %x = tile.map(%s : !tile) -> !tile {
  ^bb0(%e: f32):
    %0 = arith.mulf %e, %c : f32
    %1 = math.tanh %0 : f32
    tile.yield %1 : f32
  }
  %ds = tile.map(%dp, %s : !tile, !tile) -> !tile {
  ^bb0(%g: f32, %e: f32):
    %0 = arith.mulf %e, %c : f32
    %1 = math.tanh %0 : f32
    %2 = arith.mulf %g, %1 : f32
    %3 = arith.addf %2, %0 : f32
    tile.yield %3 : f32
  }
  %other = tile.map(%dp, %s : !tile, !tile) -> !tile {
  ^bb0(%g: f32, %e: f32):
    %0 = arith.mulf %e, %c : f32
    %1 = math.tanh %0 : f32
    %2 = arith.subf %g, %1 : f32
    tile.yield %2 : f32
  }
  %last = tile.map(%ds, %x, %other : !tile, !tile, !tile) -> !tile {
  ^bb0(%a: f32, %e: f32, %f: f32):
    %0 = arith.mulf %e, %c : f32
    %1 = arith.addf %a, %0 : f32
    %2 = arith.addf %1, %f : f32
    tile.yield %2 : f32
  }
  %b = tile.block_index "b" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %O = tile.param "o" : !tile.view<3, f32>
  tile.store %last, %O[%b, %q0] limit %Sq : !tile, !tile.view<3, f32>
}
