// S^T V for blocks of queries, added in memory by way of shared memory: whole rows, columns that end within a row, and a vector. S goes to shared
// memory in the other order of its axes.
!scores = !tile.tile<q 64 x k 32, f32, register>
!turned = !tile.tile<k 32 x q 64, bf16, shared>
!whole = !tile.tile<k 32 x dv 64, f32, register>
!ragged = !tile.tile<k 32 x e 48, f32, register>

tile.kernel @shared_sums(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, q, dv 64] bf16, w: in [b, h, q, e 40] bf16,
                         sum_v: accumulate [b, h, k, dv 64] f32, sum_w: accumulate [b, h, k, e 40] f32, sums: accumulate [b, h, k] f32)
    grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %SV = tile.param "sum_v" : !tile.view<4, f32>
  %SW = tile.param "sum_w" : !tile.view<4, f32>
  %S = tile.param "sums" : !tile.view<3, f32>
  %c0 = arith.constant 0 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %Sk31 = arith.addi %Sk, %c31 : i32
  %tiles = arith.divsi %Sk31, %c32 : i32
  %dom = tile.domain k by 32 [%c0, %tiles) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %v = tile.load %V[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x dv 64, bf16, shared>
  %w = tile.load %W[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x e 48, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 32 x d 64, bf16, shared> -> !scores
    %st = tile.convert %s : !scores -> !turned
    %x = tile.mma %st, %v : !turned, !tile.tile<q 64 x dv 64, bf16, shared> -> !whole
    %xs = tile.convert %x : !whole -> !tile.tile<k 32 x dv 64, f32, shared>
    tile.accumulate %xs, %SV[%b, %h, %k0] limit %Sk : !tile.tile<k 32 x dv 64, f32, shared>, !tile.view<4, f32>
    %y = tile.mma %st, %w : !turned, !tile.tile<q 64 x e 48, bf16, shared> -> !ragged
    %ys = tile.convert %y : !ragged -> !tile.tile<k 32 x e 48, f32, shared>
    tile.accumulate %ys, %SW[%b, %h, %k0] limit %Sk : !tile.tile<k 32 x e 48, f32, shared>, !tile.view<4, f32>
    %n = tile.reduce sum %s over "q" : !scores -> !tile.tile<k 32, f32, register>
    %ns = tile.convert %n : !tile.tile<k 32, f32, register> -> !tile.tile<k 32, f32, shared>
    tile.accumulate %ns, %S[%b, %h, %k0] limit %Sk : !tile.tile<k 32, f32, shared>, !tile.view<3, f32>
    tile.yield
  }
}
