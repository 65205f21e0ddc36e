// The rectified product of activations with a block-sparse weight matrix: y = max(x w, 0). The blocks of w that the
// captured tensor `blocks` [row blocks, column blocks] marks as zero are neither loaded nor multiplied.
!sums = !tile.tile<q 64 x e 64, f32, register>

tile.kernel @block_sparse_product(x: in [b, n, q, r 64] bf16, w: in [n, m, r 64, e 64] bf16, y: out [b, m, q, e 64] bf16)
    grid [b, m, q by 64] dtype bf16
    attributes {tensors = [#attn.tensor<"blocks", i8, rank 2>]} {
  %b = tile.block_index "b" : i32
  %m = tile.block_index "m" : i32
  %row = tile.block_index "q" : i32
  %rows = tile.axis_extent "q" : i32
  %row_blocks = tile.axis_extent "n" : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %blocks = tile.param "tensors.blocks" : !tile.view<2, i8>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32

  // The loop visits the row blocks n whose block (n, m) is there.
  %domain = tile.domain n by 1 [%c0, %row_blocks) full where {
  ^bb0(%n: i32):
    %there = tile.element %blocks[%n, %m] in_range [false, false] : !tile.view<2, i8> (i32, i32) -> i1
    tile.yield %there, %true : i1, i1
  }
  %empty = tile.splat %zero : f32 -> !sums
  %product = tile.for_blocks (%n, %partial) in %domain iter_args(%sums = %empty : !sums) {
    %x = tile.load %X[%b, %n, %row] limit %rows : !tile.view<4, bf16> -> !tile.tile<q 64 x r 64, bf16, shared>
    %w = tile.load %W[%n, %m, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<r 64 x e 64, bf16, shared>
    %more = tile.mma %x, %w add %sums : !sums, !tile.tile<q 64 x r 64, bf16, shared>, !tile.tile<r 64 x e 64, bf16, shared> -> !sums
    tile.yield %more : !sums
  }
  %rectified = tile.map(%product : !sums) -> !sums {
  ^bb0(%sum: f32):
    %positive = arith.maxnumf %sum, %zero : f32
    tile.yield %positive : f32
  }
  tile.store %rectified, %Y[%b, %m, %row] limit %rows : !sums, !tile.view<4, bf16>
}
