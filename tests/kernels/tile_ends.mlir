// The least element of each 48 rows, reduced along columns, and the greatest, as 64 bits, reduced along rows that four warps share.
!columns = !tile.tile<t 16 x row 32, i32, register>
!rows = !tile.tile<row 64 x t 16, i64, register>
!least = !tile.tile<t 16, i32, register>
!greatest = !tile.tile<t 16, i64, register>

tile.kernel @tile_ends(x: in [b, q] i32, least: out [b, t] i32, greatest: out [b, t] i64)
    grid [b, t by 16] dtype f32 plan <q 64 x k 16, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %t0 = tile.block_index "t" : i32
  %Sq = tile.axis_extent "q" : i32
  %T = tile.axis_extent "t" : i32
  %X = tile.param "x" : !tile.view<2, i32>
  %LEAST = tile.param "least" : !tile.view<2, i32>
  %GREATEST = tile.param "greatest" : !tile.view<2, i64>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c47 = arith.constant 47 : i32
  %c48 = arith.constant 48 : i32
  %shift = arith.constant 33 : i64
  %most = arith.constant 2147483647 : i32
  %end = arith.subi %Sq, %c1 : i32
  %start = tile.splat %most : i32 -> !least
  %dom = tile.domain row by 32 [%c0, %c2) full
  %least = tile.for_blocks (%row0, %partial) in %dom iter_args(%before = %start : !least) {
    %read = tile.map() at(t = %t0, row = %row0) -> !columns {
    ^bb0(%t: i32, %row: i32):
      %own = arith.minsi %row, %c47 : i32
      %first = arith.muli %t, %c48 : i32
      %i = arith.addi %first, %own : i32
      %j = arith.minsi %i, %end : i32
      %e = tile.element %X[%b, %j] in_range [true, false] : !tile.view<2, i32> (i32, i32) -> i32
      tile.yield %e : i32
    }
    %next = tile.reduce min %read over "row" init %before : !least, !columns -> !least
    tile.yield %next : !least
  }
  %wide = tile.map() at(row = %c0, t = %t0) -> !rows {
  ^bb0(%row: i32, %t: i32):
    %own = arith.minsi %row, %c47 : i32
    %first = arith.muli %t, %c48 : i32
    %i = arith.addi %first, %own : i32
    %j = arith.minsi %i, %end : i32
    %e = tile.element %X[%b, %j] in_range [true, false] : !tile.view<2, i32> (i32, i32) -> i32
    %e64 = arith.extsi %e : i32 to i64
    %high = arith.shli %e64, %shift : i64
    tile.yield %high : i64
  }
  %greatest = tile.reduce max %wide over "row" : !rows -> !greatest
  tile.store %least, %LEAST[%b, %t0] limit %T : !least, !tile.view<2, i32>
  tile.store %greatest, %GREATEST[%b, %t0] limit %T : !greatest, !tile.view<2, i64>
}
