// Attention whose keys four blocks share: each leaves its part of O and the part's LSE in the workspace, and a second kernel combines them.
!rows = !tile.tile<q 16, f32, register>
!scores = !tile.tile<q 16 x k 32, f32, register>
!output = !tile.tile<q 16 x dv 24, f32, register>

tile.launch @split_keys [@partial, @combine dependent]

tile.kernel @partial(q: in [b, h, q, d 16] f32, k: in [b, h, k, d 16] f32, v: in [b, h, k, dv 24] f32,
                     part_o: workspace [split 4, b, h, q, dv 24] f32, part_lse: workspace [split 4, b, h, q] f32)
    grid [b, h, q by 16, split 4] dtype f32 plan <q 16 x k 32, warps = 1, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %share = tile.block_index "split" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, f32>
  %K = tile.param "k" : !tile.view<4, f32>
  %V = tile.param "v" : !tile.view<4, f32>
  %PO = tile.param "part_o" : !tile.view<5, f32>
  %PL = tile.param "part_lse" : !tile.view<4, f32>
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.25 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %Sk31 = arith.addi %Sk, %c31 : i32
  %tiles = arith.divsi %Sk31, %c32 : i32
  %tiles3 = arith.addi %tiles, %c3 : i32
  %each = arith.divsi %tiles3, %c4 : i32
  %first = arith.muli %share, %each : i32
  %past = arith.addi %first, %each : i32
  %end = arith.minsi %past, %tiles : i32
  %dom = tile.domain k by 32 [%first, %end) partial
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, f32> -> !tile.tile<q 16 x d 16, f32, shared>
  %m0 = tile.splat %hidden : f32 -> !rows
  %l0 = tile.splat %zero : f32 -> !rows
  %a0 = tile.splat %zero : f32 -> !output
  %r:3 = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : !rows, %l = %l0 : !rows, %acc = %a0 : !output) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, f32> -> !tile.tile<k 32 x d 16, f32, shared>
    %s = tile.mma %q, %k : !tile.tile<q 16 x d 16, f32, shared>, !tile.tile<k 32 x d 16, f32, shared> -> !scores
    %x = tile.map(%s : !scores) at(k = %k0) -> !scores {
    ^bb0(%e: f32, %key: i32):
      %scaled = arith.mulf %e, %scale : f32
      %seen = arith.cmpi slt, %key, %Sk : i32
      %visible = arith.select %seen, %scaled, %hidden : f32
      tile.yield %visible : f32
    }
    %m1 = tile.reduce max %x over "k" init %m : !rows, !scores -> !rows
    %p = tile.map(%x, %m1 : !scores, !rows) -> !scores {
    ^bb0(%e: f32, %top: f32):
      %d = arith.subf %e, %top : f32
      %w = math.exp %d : f32
      tile.yield %w : f32
    }
    %alpha = tile.map(%m, %m1 : !rows, !rows) -> !rows {
    ^bb0(%before: f32, %top: f32):
      %d = arith.subf %before, %top : f32
      %w = math.exp %d : f32
      tile.yield %w : f32
    }
    %l1 = tile.map(%l, %alpha : !rows, !rows) -> !rows {
    ^bb0(%e: f32, %w: f32):
      %n = arith.mulf %e, %w : f32
      tile.yield %n : f32
    }
    %l2 = tile.reduce sum %p over "k" init %l1 : !rows, !scores -> !rows
    %acc1 = tile.map(%acc, %alpha : !output, !rows) -> !output {
    ^bb0(%e: f32, %w: f32):
      %n = arith.mulf %e, %w : f32
      tile.yield %n : f32
    }
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, f32> -> !tile.tile<k 32 x dv 24, f32, shared>
    %acc2 = tile.mma %p, %v add %acc1 : !output, !scores, !tile.tile<k 32 x dv 24, f32, shared> -> !output
    tile.yield %m1, %l2, %acc2 : !rows, !rows, !output
  }
  // A share without keys has l = 0 and LSE = -inf.
  %o = tile.map(%r#2, %r#1 : !output, !rows) -> !output {
  ^bb0(%e: f32, %l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %n = arith.divf %e, %l : f32
    %y = arith.select %none, %zero, %n : f32
    tile.yield %y : f32
  }
  %lse = tile.map(%r#0, %r#1 : !rows, !rows) -> !rows {
  ^bb0(%m: f32, %l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %log = math.log %l : f32
    %sum = arith.addf %m, %log : f32
    %y = arith.select %none, %hidden, %sum : f32
    tile.yield %y : f32
  }
  tile.store %o, %PO[%share, %b, %h, %q0] limit %Sq : !output, !tile.view<5, f32>
  tile.store %lse, %PL[%share, %b, %h, %q0] limit %Sq : !rows, !tile.view<4, f32>
}

tile.kernel @combine(part_o: workspace [split 4, b, h, q, dv 24] f32, part_lse: workspace [split 4, b, h, q] f32,
                     o: out [b, h, q, dv 24] f32, lse: optional out [b, h, q] f32)
    grid [b, h, q by 16] dtype f32 plan <q 16 x k 32, warps = 1, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %PO = tile.param "part_o" : !tile.view<5, f32>
  %PL = tile.param "part_lse" : !tile.view<4, f32>
  %O = tile.param "o" : !tile.view<4, f32>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %dom = tile.domain split by 1 [%c0, %c4) full
  %m0 = tile.splat %hidden : f32 -> !rows
  %l0 = tile.splat %zero : f32 -> !rows
  %a0 = tile.splat %zero : f32 -> !output
  %r:3 = tile.for_blocks (%s, %partial) in %dom iter_args(%m = %m0 : !rows, %l = %l0 : !rows, %acc = %a0 : !output) {
    %x = tile.load %PL[%s, %b, %h, %q0] limit %Sq : !tile.view<4, f32> -> !rows
    %o = tile.load %PO[%s, %b, %h, %q0] limit %Sq : !tile.view<5, f32> -> !output
    %m1 = tile.map(%m, %x : !rows, !rows) -> !rows {
    ^bb0(%before: f32, %e: f32):
      %y = arith.maxnumf %before, %e : f32
      tile.yield %y : f32
    }
    %w = tile.map(%x, %m1 : !rows, !rows) -> !rows {
    ^bb0(%e: f32, %top: f32):
      %none = arith.cmpf oeq, %e, %hidden : f32
      %d = arith.subf %e, %top : f32
      %y = math.exp %d : f32
      %n = arith.select %none, %zero, %y : f32
      tile.yield %n : f32
    }
    %alpha = tile.map(%m, %m1 : !rows, !rows) -> !rows {
    ^bb0(%e: f32, %top: f32):
      %none = arith.cmpf oeq, %e, %hidden : f32
      %d = arith.subf %e, %top : f32
      %y = math.exp %d : f32
      %n = arith.select %none, %zero, %y : f32
      tile.yield %n : f32
    }
    %l1 = tile.map(%l, %alpha, %w : !rows, !rows, !rows) -> !rows {
    ^bb0(%e: f32, %a: f32, %more: f32):
      %n = arith.mulf %e, %a : f32
      %y = arith.addf %n, %more : f32
      tile.yield %y : f32
    }
    %acc1 = tile.map(%acc, %alpha, %o, %w : !output, !rows, !output, !rows) -> !output {
    ^bb0(%e: f32, %a: f32, %part: f32, %more: f32):
      %n = arith.mulf %e, %a : f32
      %p = arith.mulf %part, %more : f32
      %y = arith.addf %n, %p : f32
      tile.yield %y : f32
    }
    tile.yield %m1, %l1, %acc1 : !rows, !rows, !output
  }
  %out = tile.map(%r#2, %r#1 : !output, !rows) -> !output {
  ^bb0(%e: f32, %l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %n = arith.divf %e, %l : f32
    %y = arith.select %none, %zero, %n : f32
    tile.yield %y : f32
  }
  %lse = tile.map(%r#0, %r#1 : !rows, !rows) -> !rows {
  ^bb0(%m: f32, %l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %log = math.log %l : f32
    %sum = arith.addf %m, %log : f32
    %y = arith.select %none, %hidden, %sum : f32
    tile.yield %y : f32
  }
  tile.store %out, %O[%b, %h, %q0] limit %Sq : !output, !tile.view<4, f32>
  tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : !rows, !tile.view<3, f32>
}
