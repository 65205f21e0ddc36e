// y = max(sum_n x_n w_n, 0) u: a product after the loop, with a matrix that was copied before it.
!sums = !tile.tile<q 64 x e 64, f32, register>
!out = !tile.tile<q 64 x f 64, f32, register>
tile.kernel @two_layers(x: in [b, n, q, r 64] bf16, w: in [b, n, r 64, e 64] bf16, u: in [b, c, e 64, f 64] bf16, y: out [b, c, q, f 64] bf16)
    grid [b, c, q by 64] dtype bf16 {
  %b = tile.block_index "b" : i32
  %c = tile.block_index "c" : i32
  %row = tile.block_index "q" : i32
  %rows = tile.axis_extent "q" : i32
  %n = tile.axis_extent "n" : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %U = tile.param "u" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %u = tile.load %U[%b, %c, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<e 64 x f 64, bf16, shared>
  %domain = tile.domain n by 1 [%c0, %n) full
  %empty = tile.splat %zero : f32 -> !sums
  %product = tile.for_blocks (%i, %partial) in %domain iter_args(%sums = %empty : !sums) {
    %x = tile.load %X[%b, %i, %row] limit %rows : !tile.view<4, bf16> -> !tile.tile<q 64 x r 64, bf16, shared>
    %w = tile.load %W[%b, %i, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<r 64 x e 64, bf16, shared>
    %more = tile.mma %x, %w add %sums : !sums, !tile.tile<q 64 x r 64, bf16, shared>, !tile.tile<r 64 x e 64, bf16, shared> -> !sums
    tile.yield %more : !sums
  }
  %positive = tile.map(%product : !sums) -> !sums {
  ^bb0(%sum: f32):
    %p = arith.maxnumf %sum, %zero : f32
    tile.yield %p : f32
  }
  %rounded = tile.convert %positive : !sums -> !tile.tile<q 64 x e 64, bf16, register>
  %result = tile.mma %rounded, %u : !tile.tile<q 64 x e 64, bf16, register>, !tile.tile<e 64 x f 64, bf16, shared> -> !out
  tile.store %result, %Y[%b, %c, %row] limit %rows : !out, !tile.view<4, bf16>
}
