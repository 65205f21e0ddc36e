// Sums over heads for blocks of keys: K Q^T V of the queries that each head shows them. Heads are rounds of one loop, of which each visits other
// tiles: the domain's regions take the round.
!scores = !tile.tile<q 64 x k 128, f32, register>
!rounded = !tile.tile<q 64 x k 128, bf16, register>
!sum = !tile.tile<k 128 x dv 64, f32, register>

tile.kernel @head_sums(q: in [b, h, q, d 64] bf16, k: in [b, k, d 64] bf16, v: in [b, h, q, dv 64] bf16, sums: out [b, k, dv 64] f32)
    grid [b, k by 128] dtype bf16
    plan <q 64 x k 128, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %k0 = tile.block_index "k" : i32
  %heads = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<3, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %S = tile.param "sums" : !tile.view<3, f32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %c32 = arith.constant 32 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %Sq63 = arith.addi %Sq, %c63 : i32
  %tiles = arith.divsi %Sq63, %c64 : i32
  %first = arith.minsi %c1, %tiles : i32
  %gap = arith.minsi %c3, %tiles : i32
  %behind = arith.minsi %c5, %tiles : i32
  // The second head sees nothing of the first 32 tiles, and every head leaves out one tile of three; of two tiles in the first segment one is full.
  %dom = tile.domain q by 64 [%first, %gap) full [%behind, %tiles) partial times %heads where {
  ^bb0(%n: i32, %iteration: i32):
    %place = arith.addi %n, %iteration : i32
    %third = arith.remui %place, %c3 : i32
    %shown = arith.cmpi ne, %third, %c0 : i32
    %other = arith.cmpi ne, %iteration, %c1 : i32
    %late = arith.cmpi sge, %n, %c32 : i32
    %any = arith.ori %other, %late : i1
    %visible = arith.andi %shown, %any : i1
    %odd = arith.trunci %n : i32 to i1
    %full = arith.xori %odd, %true : i1
    tile.yield %visible, %full : i1, i1
  } groups {
  ^bb0(%group: i32, %iteration: i32):
    %other = arith.cmpi ne, %iteration, %c1 : i32
    %late = arith.cmpi ne, %group, %c0 : i32
    %any = arith.ori %other, %late : i1
    tile.yield %any : i1
  }
  %k = tile.load %K[%b, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<3, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
  %none = tile.splat %zero : f32 -> !sum
  %r = tile.for_blocks (%q0, %partial, %h) in %dom iter_args(%sum = %none : !sum) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 64 x dv 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 128 x d 64, bf16, shared> -> !scores
    // In partial tiles one query of three is hidden.
    %x = tile.map(%s : !scores) at(q = %q0) only_if %partial -> !scores {
    ^bb0(%e: f32, %row: i32):
      %rest = arith.remsi %row, %c3 : i32
      %seen = arith.cmpi ne, %rest, %c1 : i32
      %y = arith.select %seen, %e, %zero : f32
      tile.yield %y : f32
    }
    %x16 = tile.convert %x : !scores -> !rounded
    %next = tile.mma %x16, %v add %sum : !sum, !rounded, !tile.tile<q 64 x dv 64, bf16, shared> -> !sum
    tile.yield %next : !sum
  }
  tile.store %r, %S[%b, %k0] limit %Sk : !sum, !tile.view<3, f32>
}
