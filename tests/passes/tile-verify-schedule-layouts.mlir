// Register tiles are fragments, shared operands of products swizzled.
// RUN: attune-opt %s -split-input-file -tile-verify-schedule=form=layouts -verify-diagnostics

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  // expected-error @below {{'tile.splat' op has a register tile without a fragment layout: '!tile.tile<q 128, f32, register>'}}
  %x = tile.splat %zero : f32 -> !tile.tile<q 128, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%c0, %c0, %c0] limit %c0 : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %k = tile.load %Q[%c0, %c0, %c0] limit %c0 : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
  // expected-error @below {{'tile.mma' op reads shared memory without a swizzle: '!tile.tile<k 64 x d 64, bf16, shared>'}}
  %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
}
