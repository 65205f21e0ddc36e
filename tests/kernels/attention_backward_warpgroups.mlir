// The backward pass of attention_backward.mlir with a schedule for warpgroups: a role copies tiles of Q and dO ahead, two
// other warps of it load LSE and delta, and a third takes dQ to memory; two warpgroups multiply.
!scores = !tile.tile<q 128 x k 128, f32, register>
!rounded = !tile.tile<q 128 x k 128, bf16, register>
!queries = !tile.tile<q 128 x d 64, bf16, shared>
!rows = !tile.tile<q 128, f32, register>
!shared_rows = !tile.tile<q 128, f32, shared>
!keys = !tile.tile<k 128 x d 64, f32, register>
!values = !tile.tile<k 128 x dv 64, f32, register>

tile.kernel @attention_backward_warpgroups(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16,
                                d_o: in [b, h, q, dv 64] bf16, lse: in [b, h, q] f32, delta: in [b, h, q] f32,
                                dq: accumulate [b, h, q, d 64] f32, dk: out [b, h, k, d 64] f32, dv: out [b, h, k, dv 64] bf16)
    grid [b, h, k by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4, registers 32>, #sched.role<"consumer", warps 8, registers 232>]} {
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
  %c127 = arith.constant 127 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %log2e = arith.constant 1.44269504 : f32
  %exponent_scale = arith.constant 0.180336881 : f32
  %c1 = arith.constant 1 : i32
  %Sq63 = arith.addi %Sq, %c127 : i32
  %tiles = arith.divsi %Sq63, %c128 : i32
  // Causal: queries before the first key of the tile see nothing of it, those of its own tile some.
  %first = arith.divsi %k0, %c128 : i32
  %after = arith.addi %first, %c1 : i32
  %full = arith.minsi %after, %tiles : i32
  %dom = tile.domain q by 128 [%first, %full) partial [%full, %tiles) full
  %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
  %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x dv 64, bf16, shared>
  %dk0 = tile.splat %zero : f32 -> !keys
  %dv0 = tile.splat %zero : f32 -> !values
  %r:2 = tile.for_blocks (%q0, %partial) in %dom iter_args(%dk = %dk0 : !keys, %dv = %dv0 : !values) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %do = tile.load %DO[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x dv 64, bf16, shared>
    %lse_rows = tile.map() at(q = %q0) -> !rows {
    ^bb0(%row: i32):
      %e = tile.element %LSE[%b, %h, %row] in_range [true, true, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %y = arith.mulf %e, %log2e : f32
      tile.yield %y : f32
    }
    %lse = tile.convert %lse_rows {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, sched.at = #sched.at<order 1>} : !rows -> !shared_rows
    %delta_rows = tile.map() at(q = %q0) -> !rows {
    ^bb0(%row: i32):
      %e = tile.element %DELTA[%b, %h, %row] in_range [true, true, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      tile.yield %e : f32
    }
    %delta = tile.convert %delta_rows {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, sched.at = #sched.at<order 2>} : !rows -> !shared_rows
    %s = tile.mma %q, %k : !queries, !tile.tile<k 128 x d 64, bf16, shared> -> !scores {sched.async, sched.at = #sched.at<order 0>}
    // exp(scale s - LSE). A key past the last is a row of zeros, whose gradients are not stored.
    %w = tile.map(%s, %lse : !scores, !shared_rows) -> !scores {
    ^bb0(%e: f32, %l: f32):
      %minus = arith.negf %l : f32
      %x = math.fma %e, %exponent_scale, %minus : f32
      %y = math.exp2 %x : f32
      tile.yield %y : f32
    } {sched.at = #sched.at<order 1>}
    %p = tile.map(%w : !scores) at(q = %q0, k = %k0) only_if %partial -> !scores {
    ^bb0(%e: f32, %row: i32, %key: i32):
      %seen = arith.cmpi sle, %key, %row : i32
      %y = arith.select %seen, %e, %zero : f32
      tile.yield %y : f32
    } {sched.at = #sched.at<order 1>}
    %dp = tile.mma %do, %v : !tile.tile<q 128 x dv 64, bf16, shared>, !tile.tile<k 128 x dv 64, bf16, shared> -> !scores {sched.async, sched.at = #sched.at<order 0>}
    %ds = tile.map(%p, %dp, %delta : !scores, !scores, !shared_rows) -> !scores {
    ^bb0(%share: f32, %e: f32, %l: f32):
      %d = arith.subf %e, %l : f32
      %y = arith.mulf %share, %d : f32
      tile.yield %y : f32
    } {sched.at = #sched.at<order 2>}
    // Rows of dQ are the other axis: both warpgroups' dS, in two stages, so that they meet once a tile, beside dV.
    %ds_shared = tile.convert %ds {sched.ring = #sched.ring<stages 2>, sched.at = #sched.at<order 3>} : !scores -> !tile.tile<q 128 x k 128, bf16, shared>
    // dK while dQ goes to memory.
    %ds16 = tile.convert %ds {sched.at = #sched.at<order 3>} : !scores -> !rounded
    %p16 = tile.convert %p {sched.at = #sched.at<order 4>} : !scores -> !rounded
    %dv1 = tile.mma %p16, %do add %dv : !values, !rounded, !tile.tile<q 128 x dv 64, bf16, shared> -> !values {sched.async, sched.at = #sched.at<order 4>}
    %dq = tile.mma %ds_shared, %k : !tile.tile<q 128 x k 128, bf16, shared>, !tile.tile<k 128 x d 64, bf16, shared> -> !tile.tile<q 128 x d 64, f32, register> {sched.async, sched.at = #sched.at<order 5>}
    %dk1 = tile.mma %ds16, %q add %dk : !keys, !rounded, !queries -> !keys {sched.async, sched.at = #sched.at<order 6>}
    %dqs = tile.map(%dq : !tile.tile<q 128 x d 64, f32, register>) -> !tile.tile<q 128 x d 64, f32, register> {
    ^bb0(%e: f32):
      %y = arith.mulf %e, %scale : f32
      tile.yield %y : f32
    }
    // By a warp that does nothing else: the others go on while it waits for TMA.
    tile.accumulate %dqs, %DQ[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 1, "producer" warp 1>} : !tile.tile<q 128 x d 64, f32, register>, !tile.view<4, f32>
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
