// What tile-to-sched cannot write.
// RUN: attune-opt %s -split-input-file -tile-assign-layouts -tile-to-sched=arch=sm_80 -verify-diagnostics

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  // expected-error @below {{is interleaved, which takes one tanh or exp2 of the element, through one op with a value that is the same along a row, and a multiple of 16 columns}}
  %p = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) -> !tile.tile<q 64 x k 32, f32, register> {
  ^bb0(%x: f32):
    %n = arith.negf %x : f32
    tile.yield %n : f32
  } {interleaved}
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  %l = tile.splat %zero : f32 -> <k 32, f32, register>
  %rows = tile.reduce max %s over "q" init %l : !tile.tile<k 32, f32, register>, !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<k 32, f32, register>
  // expected-error @below {{tests a tile that does not lie along the rows of products; test a vector that a reduction along their columns gives}}
  %any = tile.any %rows : !tile.tile<k 32, f32, register> {
  ^bb0(%x: f32):
    %is = arith.cmpf une, %x, %zero : f32
    tile.yield %is : i1
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  // expected-error @below {{has 24 of d, which matrix instructions take as rows, 16 at a time; make it a multiple of 16}}
  %s = tile.splat %zero : f32 -> <d 24 x k 32, f32, register>
}

// -----

tile.kernel @kernel(x: out [h, q, k] bf16) grid [h, q by 64, k by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %X = tile.param "x" : !tile.view<3, bf16>
  %h = tile.block_index "h" : i32
  %s = tile.splat %zero : f32 -> <q 64 x k 64, f32, register>
  // expected-error @below {{is marked sched.eights, and is none whose last two indices count along the rows and columns of f32 in registers, 32 columns for each warp, to 16 bits; leave the mark out}}
  tile.scatter %s, %X[%h, %h, %h] {sched.eights, sched.pairs} : <q 64 x k 64, f32, register>, <3, bf16>(i32, i32, i32)
}

// -----

tile.kernel @kernel(x: out [h, q, k] bf16) grid [h, q by 64, k by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %X = tile.param "x" : !tile.view<3, bf16>
  %h = tile.block_index "h" : i32
  %s = tile.splat %zero : f32 -> <k 64 x q 64, f32, register>
  %shared = tile.convert %s : <k 64 x q 64, f32, register> -> <k 64 x q 64, bf16, shared>
  // expected-error @below {{takes a tile from shared memory that warps exchange, in panels of 128 bytes, its rows and columns those of the last two indices; scatter registers}}
  tile.scatter %shared, %X[%h, %h, %h] : <k 64 x q 64, bf16, shared>, <3, bf16>(i32, i32, i32)
}
