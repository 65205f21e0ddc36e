// RUN: attune-opt %s -split-input-file -verify-diagnostics -tile-verify="arch=sm_90a"

tile.kernel @holds_floats(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %B = tile.axis_extent "b" : i32
  %f = arith.constant 0.0 : f32
  // expected-error @+1 {{'scf.for' op is left; at the end of tile it counts integers in front of the loop over tiles, and holds nothing else}}
  %sum = scf.for %i = %zero to %B step %one iter_args(%s = %f) -> (f32) : i32 {
    scf.yield %s : f32
  }
}
