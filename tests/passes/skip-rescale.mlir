// RUN: attune-opt %s -tile-skip-rescale | FileCheck %s

// CHECK-LABEL: tile.kernel @rescaled
// CHECK:         tile.for_blocks
// CHECK:           %[[MOVED:.*]] = tile.any %[[ALPHA:.*]] : <q 64, f32, register> {
// CHECK:             arith.cmpf une, %{{.*}}, %{{.*}} : f32
// CHECK:           tile.map(%[[ACC:.*]], %[[ALPHA]] : {{.*}}) only_if %[[MOVED]] ->
// CHECK:             arith.mulf
tile.kernel @rescaled(v: in [b, hkv, k, dv 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %end = tile.axis_extent "k" : i32
  %v = tile.param "v" : !tile.view<4, bf16>
  %o = tile.param "o" : !tile.view<4, bf16>
  %p = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %alpha = tile.splat %zero : f32 -> <q 64, f32, register>
  %acc = tile.splat %zero : f32 -> <q 64 x dv 64, f32, register>
  %dom = tile.domain k by 32 [%c0, %end) partial
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%acc0 = %acc : !tile.tile<q 64 x dv 64, f32, register>) {
    %scaled = tile.map(%acc0, %alpha : !tile.tile<q 64 x dv 64, f32, register>, !tile.tile<q 64, f32, register>) -> !tile.tile<q 64 x dv 64, f32, register> {
    ^bb0(%x: f32, %a: f32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    %pb = tile.convert %p : <q 64 x k 32, f32, register> -> <q 64 x k 32, bf16, register>
    %vt = tile.load %v[%b, %h, %k0] limit %end : <4, bf16> -> <k 32 x dv 64, bf16, shared>
    %acc1 = tile.mma %pb, %vt add %scaled : !tile.tile<q 64 x dv 64, f32, register>, <q 64 x k 32, bf16, register>, <k 32 x dv 64, bf16, shared> -> <q 64 x dv 64, f32, register>
    tile.yield %acc1 : !tile.tile<q 64 x dv 64, f32, register>
  }
  tile.store %r, %o[%b, %h, %q0] limit %Sq : <q 64 x dv 64, f32, register>, <4, bf16>
}
