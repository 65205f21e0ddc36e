// Softmax attention in two passes over the keys: the first finds the maximum of each row, the second the weights and the
// output.
!scores = !tile.tile<q 64 x k 64, f32, register>
!rows = !tile.tile<q 64, f32, register>
!output = !tile.tile<q 64 x dv 64, f32, register>

tile.kernel @two_passes(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16, o: out [b, h, q, dv 64] bf16)
    grid [b, h, q by 64] dtype bf16 {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %row = tile.block_index "q" : i32
  %rows = tile.axis_extent "q" : i32
  %tokens = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %c0 = arith.constant 0 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.125 : f32
  %rounded = arith.addi %tokens, %c63 : i32
  %tiles = arith.divsi %rounded, %c64 : i32
  %queries = tile.load %Q[%b, %h, %row] limit %rows : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %domain = tile.domain k by 64 [%c0, %tiles) full

  %least = tile.splat %hidden : f32 -> !rows
  %maximum = tile.for_blocks (%first, %partial) in %domain iter_args(%before = %least : !rows) {
    %keys = tile.load %K[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %scores = tile.mma %queries, %keys : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !scores
    %visible = tile.map(%scores : !scores) at(k = %first) -> !scores {
    ^bb0(%score: f32, %k: i32):
      %there = arith.cmpi slt, %k, %tokens : i32
      %kept = arith.select %there, %score, %hidden : f32
      tile.yield %kept : f32
    }
    %after = tile.reduce max %visible over "k" init %before : !rows, !scores -> !rows
    tile.yield %after : !rows
  }

  %no_weight = tile.splat %zero : f32 -> !rows
  %no_output = tile.splat %zero : f32 -> !output
  %sums, %weighted = tile.for_blocks (%first, %partial) in %domain iter_args(%sum = %no_weight : !rows, %sofar = %no_output : !output) {
    %keys = tile.load %K[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %values = tile.load %V[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    %scores = tile.mma %queries, %keys : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !scores
    %weights = tile.map(%scores, %maximum : !scores, !rows) at(k = %first) -> !scores {
    ^bb0(%score: f32, %most: f32, %k: i32):
      %below = arith.subf %score, %most : f32
      %exponent = arith.mulf %below, %scale : f32
      %weight = math.exp %exponent : f32
      %there = arith.cmpi slt, %k, %tokens : i32
      %kept = arith.select %there, %weight, %zero : f32
      tile.yield %kept : f32
    }
    %more = tile.reduce sum %weights over "k" init %sum : !rows, !scores -> !rows
    %rounded_weights = tile.convert %weights : !scores -> !tile.tile<q 64 x k 64, bf16, register>
    %next = tile.mma %rounded_weights, %values add %sofar : !output, !tile.tile<q 64 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !output
    tile.yield %more, %next : !rows, !output
  }
  %result = tile.map(%weighted, %sums : !output, !rows) -> !output {
  ^bb0(%value: f32, %sum: f32):
    %normalised = arith.divf %value, %sum : f32
    tile.yield %normalised : f32
  }
  tile.store %result, %O[%b, %h, %row] limit %rows : !output, !tile.view<4, bf16>
}
