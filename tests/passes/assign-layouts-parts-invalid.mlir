// What has no layout by part and distance.
// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-assign-layouts -verify-diagnostics

tile.kernel @parts(table: workspace [b, n] f32) grid [b, n by 128] dtype bf16 plan <q 128 x k 32, warps = 4, blocks_per_sm = 1> {
  %c = arith.constant 0.0 : f32
  %x = tile.splat %c : f32 -> !tile.tile<q 128 x k 32, f32, register>
  // expected-error @+1 {{sums 8 parts of the rows of '!tile.tile<q 128 x k 32, f32, register, #sched.fragment<c, warps 4>>'; a part has to be what a warp holds of whole rows}}
  %sums = tile.sum_diagonals %x : !tile.tile<q 128 x k 32, f32, register> -> !tile.tile<part 8 x distance 48, f32, register>
}

// -----

tile.kernel @shared(table: workspace [b, n] f32) grid [b, n by 128] dtype bf16 plan <q 128 x k 32, warps = 4, blocks_per_sm = 1> {
  %c = arith.constant 0.0 : f32
  %x = tile.splat %c : f32 -> !tile.tile<q 128 x k 32, f32, register>
  %sums = tile.sum_diagonals %x : !tile.tile<q 128 x k 32, f32, register> -> !tile.tile<part 4 x distance 64, f32, register>
  // expected-error @+1 {{has '!tile.tile<part 4 x distance 64, f32, register, #sched.fragment<distances, warps 4>>' in registers; distances of parts are taken by tile.map and tile.scatter}}
  %shared = tile.convert %sums : !tile.tile<part 4 x distance 64, f32, register> -> !tile.tile<part 4 x distance 64, f32, shared>
}
