// Retention: causal linear attention whose state decays by a factor per token and head,
//
//     o[q] = sum of exp(rate[h] * (q - k)) (q[q] . k[k]) v[k] over k <= q
//
// The decayed keys of a chunk go through shared memory, where an asynchronous product reads them while the product of
// the converted state is still under way: the two tiles must not share memory.
!state = !tile.tile<d 64 x dv 64, f32, register>
!scores = !tile.tile<q 64 x k 64, f32, register>
!output = !tile.tile<q 64 x dv 64, f32, register>

tile.kernel @retention(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16, o: out [b, h, q, dv 64] bf16)
    grid [b, h] dtype bf16 attributes {tensors = [#attn.tensor<"rate", f32, rank 1>]} {
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
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %f64 = arith.constant 64.0 : f32
  %rates = tile.param "tensors.rate" : !tile.view<1, f32>
  %rate = tile.element %rates[%h] in_range [true] : !tile.view<1, f32> (i32) -> f32
  %chunk_rate = arith.mulf %rate, %f64 : f32
  %chunk_decay = math.exp %chunk_rate : f32

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
    %decayed_before = tile.map(%before : !output) at(q = %c0) -> !output {
    ^bb0(%value: f32, %q: i32):
      %tokens_after = arith.addi %q, %c1 : i32
      %distance = arith.sitofp %tokens_after : i32 to f32
      %exponent = arith.mulf %distance, %rate : f32
      %decay = math.exp %exponent : f32
      %decayed = arith.mulf %value, %decay : f32
      tile.yield %decayed : f32
    }

    // This chunk.
    %scores = tile.mma %queries, %keys : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !scores
    %causal = tile.map(%scores : !scores) at(q = %c0, k = %c0) -> !scores {
    ^bb0(%score: f32, %q: i32, %k: i32):
      %visible = arith.cmpi sle, %k, %q : i32
      %tokens_between = arith.subi %q, %k : i32
      %distance = arith.sitofp %tokens_between : i32 to f32
      %exponent = arith.mulf %distance, %rate : f32
      %decay = math.exp %exponent : f32
      %decayed = arith.mulf %score, %decay : f32
      %kept = arith.select %visible, %decayed, %zero : f32
      tile.yield %kept : f32
    }
    %weights = tile.convert %causal : !scores -> !tile.tile<q 64 x k 64, bf16, register>
    %result = tile.mma %weights, %values add %decayed_before : !output, !tile.tile<q 64 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !output
    tile.store %result, %O[%b, %h, %first] limit %tokens : !output, !tile.view<4, bf16>

    %decayed_keys = tile.map(%keys : !tile.tile<k 64 x d 64, bf16, shared>) at(k = %c0) -> !tile.tile<k 64 x d 64, f32, register> {
    ^bb0(%key: f32, %k: i32):
      %tokens_left = arith.subi %c63, %k : i32
      %distance = arith.sitofp %tokens_left : i32 to f32
      %exponent = arith.mulf %distance, %rate : f32
      %decay = math.exp %exponent : f32
      %decayed = arith.mulf %key, %decay : f32
      tile.yield %decayed : f32
    }
    %decayed_state = tile.map(%state : !state) -> !state {
    ^bb0(%value: f32):
      %decayed = arith.mulf %value, %chunk_decay : f32
      tile.yield %decayed : f32
    }
    %rounded_keys = tile.convert %decayed_keys : !tile.tile<k 64 x d 64, f32, register> -> !tile.tile<k 64 x d 64, bf16, shared>
    %next = tile.mma %rounded_keys, %values add %decayed_state : !state, !tile.tile<k 64 x d 64, bf16, shared>, !tile.tile<k 64 x dv 64, bf16, shared> -> !state
    tile.yield %next : !state
  }
}
