// Causal linear attention in chunks of 64 tokens. For each batch b and head h
//
//     o[q] = sum of (q[q] . k[k]) v[k] over k <= q
//
// A thread block carries the state S = K^T V of all earlier chunks (d x dv, float32) in registers. A chunk takes four
// products: Q S for the earlier chunks, Q K^T and its product with V within the chunk, and K^T V, which is added to S.
!state = !tile.tile<d 64 x dv 64, f32, register>
!scores = !tile.tile<q 64 x k 64, f32, register>
!output = !tile.tile<q 64 x dv 64, f32, register>

tile.kernel @linear_attention(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16, o: out [b, h, q, dv 64] bf16)
    grid [b, h] dtype bf16 {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %tokens = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %c0 = arith.constant 0 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32

  %rounded = arith.addi %tokens, %c63 : i32
  %chunks = arith.divsi %rounded, %c64 : i32
  %domain = tile.domain k by 64 [%c0, %chunks) full
  %empty = tile.splat %zero : f32 -> !state
  %last = tile.for_blocks (%first, %partial) in %domain iter_args(%state = %empty : !state) {
    %queries = tile.load %Q[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
    %keys = tile.load %K[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %values = tile.load %V[%b, %h, %first] limit %tokens : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>

    // The earlier chunks.
    %rounded_state = tile.convert %state : !state -> !tile.tile<d 64 x dv 64, bf16, shared>
    %before = tile.mma %queries, %rounded_state : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<d 64 x dv 64, bf16, shared> -> !output

    // This chunk.
    %scores = tile.mma %queries, %keys : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !scores
    %causal = tile.map(%scores : !scores) at(q = %c0, k = %c0) -> !scores {
    ^bb0(%score: f32, %q: i32, %k: i32):
      %visible = arith.cmpi sle, %k, %q : i32
      %kept = arith.select %visible, %score, %zero : f32
      tile.yield %kept : f32
    }
    %weights = tile.convert %causal : !scores -> !tile.tile<q 64 x k 64, bf16, register>
    %result = tile.mma %weights, %values add %before : !output, !tile.tile<q 64 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !output
    tile.store %result, %O[%b, %h, %first] limit %tokens : !output, !tile.view<4, bf16>

    %next = tile.mma %keys, %values add %state : !state, !tile.tile<k 64 x d 64, bf16, shared>, !tile.tile<k 64 x dv 64, bf16, shared> -> !state
    tile.yield %next : !state
  }
}
