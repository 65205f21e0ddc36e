// The five products of attention's backward pass, for a fixed tile of keys over the tiles of queries that see one of
// them: the gradients of K and V are carried in registers, that of Q is added in memory.
!scores = !tile.tile<q 64 x k 64, f32, register>
!rounded = !tile.tile<q 64 x k 64, bf16, register>
!queries = !tile.tile<q 64 x d 64, bf16, shared>
!rows = !tile.tile<q 64, f32, register>
!keys = !tile.tile<k 64 x d 64, f32, register>
!values = !tile.tile<k 64 x dv 64, f32, register>

tile.kernel @attention_backward(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16,
                                d_o: in [b, h, q, dv 64] bf16, lse: in [b, h, q] f32, delta: in [b, h, q] f32,
                                dq: accumulate [b, h, q, d 64] f32, dk: out [b, h, k, d 64] f32, dv: out [b, h, k, dv 64] bf16)
    grid [b, h, k by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %DO = tile.param "d_o" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %DELTA = tile.param "delta" : !tile.view<3, f32>
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %DK = tile.param "dk" : !tile.view<4, f32>
  %DV = tile.param "dv" : !tile.view<4, bf16>
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %Sq63 = arith.addi %Sq, %c63 : i32
  %tiles = arith.divsi %Sq63, %c64 : i32
  // Causal: queries before the first key of the tile see nothing of it.
  %first = arith.divsi %k0, %c64 : i32
  %dom = tile.domain q by 64 [%first, %tiles) partial
  %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
  %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
  %dk0 = tile.splat %zero : f32 -> !keys
  %dv0 = tile.splat %zero : f32 -> !values
  %r:2 = tile.for_blocks (%q0, %partial) in %dom iter_args(%dk = %dk0 : !keys, %dv = %dv0 : !values) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %do = tile.load %DO[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x dv 64, bf16, shared>
    %lse = tile.load %LSE[%b, %h, %q0] limit %Sq : !tile.view<3, f32> -> !rows
    %delta = tile.load %DELTA[%b, %h, %q0] limit %Sq : !tile.view<3, f32> -> !rows
    %s = tile.mma %q, %k : !queries, !tile.tile<k 64 x d 64, bf16, shared> -> !scores
    // Causal: what a key hides from a query has no gradient, nor has a key past the last.
    %p = tile.map(%s, %lse : !scores, !rows) at(q = %q0, k = %k0) -> !scores {
    ^bb0(%e: f32, %l: f32, %row: i32, %key: i32):
      %scaled = arith.mulf %e, %scale : f32
      %d = arith.subf %scaled, %l : f32
      %w = math.exp %d : f32
      %seen = arith.cmpi sle, %key, %row : i32
      %inside = arith.cmpi slt, %key, %Sk : i32
      %visible = arith.andi %seen, %inside : i1
      %y = arith.select %visible, %w, %zero : f32
      tile.yield %y : f32
    }
    %dp = tile.mma %do, %v : !tile.tile<q 64 x dv 64, bf16, shared>, !tile.tile<k 64 x dv 64, bf16, shared> -> !scores
    %ds = tile.map(%p, %dp, %delta : !scores, !scores, !rows) -> !scores {
    ^bb0(%w: f32, %e: f32, %l: f32):
      %d = arith.subf %e, %l : f32
      %y = arith.mulf %w, %d : f32
      tile.yield %y : f32
    }
    %p16 = tile.convert %p : !scores -> !rounded
    %ds16 = tile.convert %ds : !scores -> !rounded
    %dv1 = tile.mma %p16, %do add %dv : !values, !rounded, !tile.tile<q 64 x dv 64, bf16, shared> -> !values
    %dk1 = tile.mma %ds16, %q add %dk : !keys, !rounded, !queries -> !keys
    %dq = tile.mma %ds16, %k : !rounded, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x d 64, f32, register>
    %dqs = tile.map(%dq : !tile.tile<q 64 x d 64, f32, register>) -> !tile.tile<q 64 x d 64, f32, register> {
    ^bb0(%e: f32):
      %y = arith.mulf %e, %scale : f32
      tile.yield %y : f32
    }
    tile.accumulate %dqs, %DQ[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
    tile.yield %dk1, %dv1 : !keys, !values
  }
  %dks = tile.map(%r#0 : !keys) -> !keys {
  ^bb0(%e: f32):
    %y = arith.mulf %e, %scale : f32
    tile.yield %y : f32
  }
  tile.store %dks, %DK[%b, %h, %k0] limit %Sk : !keys, !tile.view<4, f32>
  tile.store %r#1, %DV[%b, %h, %k0] limit %Sk : !values, !tile.view<4, bf16>
}
