// Y = X W for each head, with a schedule for warpgroups: of one role a warp copies tiles of X and another one takes tiles of Y to
// memory; two warpgroups multiply.
tile.kernel @head_products(x: in [b, h, q, d 64] bf16, w: in [b, h, r, e 96] bf16, y: out [b, h, q, e 96] bf16, z: accumulate [b, h, q, e 96] f32)
    grid [b, h] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1>
    attributes {sched.roles = [#sched.role<"move", warps 4>, #sched.role<"multiply", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %D = tile.axis_extent "r" : i32
  %c0 = arith.constant 0 : i32
  %c127 = arith.constant 127 : i32
  %c128 = arith.constant 128 : i32
  %half = arith.constant 0.5 : f32
  %X = tile.param "x" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %Z = tile.param "z" : !tile.view<4, f32>
  %rounded = arith.addi %Sq, %c127 : i32
  %tiles = arith.divsi %rounded, %c128 : i32
  %dom = tile.domain q by 128 [%c0, %tiles) full
  %w = tile.load %W[%b, %h, %c0] limit %D : !tile.view<4, bf16> -> !tile.tile<d 64 x e 96, bf16, shared>
  tile.for_blocks (%q0, %partial) in %dom {
    %x = tile.load %X[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 3>} : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
    %y = tile.mma %x, %w : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<d 64 x e 96, bf16, shared> -> !tile.tile<q 128 x e 96, f32, register>
    tile.store %y, %Y[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2, "move" warp 1>} : !tile.tile<q 128 x e 96, f32, register>, !tile.view<4, bf16>
    %z = tile.map(%y : !tile.tile<q 128 x e 96, f32, register>) -> !tile.tile<q 128 x e 96, f32, register> {
    ^bb0(%element: f32):
      %scaled = arith.mulf %element, %half : f32
      tile.yield %scaled : f32
    }
    tile.accumulate %z, %Z[%b, %h, %q0] limit %Sq : !tile.tile<q 128 x e 96, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}
