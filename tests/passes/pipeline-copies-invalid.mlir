// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -verify-diagnostics

tile.kernel @reversed() grid [] dtype bf16 plan <tile_q = 64, tile_k = 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  // expected-error @below {{a reversed domain that leaves tiles out is not supported by this schedule; visit it forward}}
  %dom = tile.domain k by 32 [%c0, %c8) full reverse where {
  ^bb0(%n: i32):
    %even = arith.cmpi slt, %n, %c2 : i32
    tile.yield %even, %even : i1, i1
  }
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @reversed_gap() grid [] dtype bf16 plan <tile_q = 64, tile_k = 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  // expected-error @below {{a reversed domain that leaves tiles out is not supported by this schedule; visit it forward}}
  %dom = tile.domain k by 32 [%c0, %c2) full [%c4, %c8) partial reverse
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}
