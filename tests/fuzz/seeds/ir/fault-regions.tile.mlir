tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Sk = tile.axis_extent "k" : i32
  %yes = arith.constant true
  %domain = tile.domain k by 64 [%c0, %Sk) full where {
  ^bb0(%n: i32):
    %below = arith.cmpi slt, %late, %n : i32
    tile.yield %below, %yes : i1, i1
  } groups {
  ^bb0(%tiles: i32):
    %late = arith.addi %tiles, %c0 : i32
    %any = arith.cmpi slt, %late, %c0 : i32
    tile.yield %any : i1
  } {tile.name = }
}
