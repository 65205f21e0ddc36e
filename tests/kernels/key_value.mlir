// K^T V, the state of linear attention: a carried accumulator over all keys, contracted along the axis by whose rows both operands are stored.
!state = !tile.tile<d 64 x dv 32, f32, register>

tile.kernel @key_value(k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 32] bf16, state: out [b, h, d 64, dv 32] f32,
                       sums: out [b, h, d 64] f32)
    grid [b, h] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %S = tile.param "state" : !tile.view<4, f32>
  %N = tile.param "sums" : !tile.view<3, f32>
  %c0 = arith.constant 0 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %Sk31 = arith.addi %Sk, %c31 : i32
  %tiles = arith.divsi %Sk31, %c32 : i32
  %dom = tile.domain k by 32 [%c0, %tiles) full
  %s0 = tile.splat %zero : f32 -> !state
  %n0 = tile.splat %zero : f32 -> !tile.tile<d 64, f32, register>
  %r:2 = tile.for_blocks (%k0, %partial) in %dom iter_args(%s = %s0 : !state, %n = %n0 : !tile.tile<d 64, f32, register>) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>} : !tile.view<4, bf16> -> !tile.tile<k 32 x dv 32, bf16, shared>
    %s1 = tile.mma %k, %v add %s : !state, !tile.tile<k 32 x d 64, bf16, shared>, !tile.tile<k 32 x dv 32, bf16, shared> -> !state
    // The sum of the keys: a reduction along rows.
    %wide = tile.map(%k : !tile.tile<k 32 x d 64, bf16, shared>) -> !tile.tile<k 32 x d 64, f32, register> {
    ^bb0(%e: f32):
      %y = arith.addf %e, %zero : f32
      tile.yield %y : f32
    }
    %n1 = tile.reduce sum %wide over "k" init %n : !tile.tile<d 64, f32, register>, !tile.tile<k 32 x d 64, f32, register> -> !tile.tile<d 64, f32, register>
    tile.yield %s1, %n1 : !state, !tile.tile<d 64, f32, register>
  }
  tile.store %r#0, %S[%b, %h, %c0] limit %c64 : !state, !tile.view<4, f32>
  tile.store %r#1, %N[%b, %h, %c0] limit %c64 : !tile.tile<d 64, f32, register>, !tile.view<3, f32>
}
