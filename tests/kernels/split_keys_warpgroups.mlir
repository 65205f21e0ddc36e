// split_keys.mlir in bf16, with a schedule for warpgroups of the kernel that multiplies: four of them, each with 64 rows, take
// turns, in blocks that take one share after another.
!rows = !tile.tile<q 256, f32, register>
!scores = !tile.tile<q 256 x k 64, f32, register>
!rounded = !tile.tile<q 256 x k 64, bf16, register>
!output = !tile.tile<q 256 x dv 64, f32, register>
!sum_rows = !tile.tile<q 128, f32, register>
!sum = !tile.tile<q 128 x dv 64, f32, register>

tile.launch @split_keys [@partial, @combine dependent]

tile.kernel @partial(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16,
                     part_o: workspace [split 4, b, h, q, dv 64] f32, part_lse: workspace [split 4, b, h, q] f32)
    grid [b, h, q by 256, split 4] dtype bf16 plan <q 256 x k 64, warps = 16, blocks_per_sm = 1> attributes {sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 16>], sched.ping_pong} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %share = tile.block_index "split" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %PO = tile.param "part_o" : !tile.view<5, f32>
  %PL = tile.param "part_lse" : !tile.view<4, f32>
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.125 : f32
  %exponent_scale = arith.constant 0.180336881 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %Sk63 = arith.addi %Sk, %c63 : i32
  %tiles = arith.divsi %Sk63, %c64 : i32
  %tiles3 = arith.addi %tiles, %c3 : i32
  %each = arith.divsi %tiles3, %c4 : i32
  %first = arith.muli %share, %each : i32
  %past = arith.addi %first, %each : i32
  %end = arith.minsi %past, %tiles : i32
  // The last tile of keys may be ragged.
  %whole = arith.divsi %Sk, %c64 : i32
  %full = arith.minsi %end, %whole : i32
  %ragged = arith.maxsi %full, %first : i32
  %dom = tile.domain k by 64 [%first, %ragged) full [%ragged, %end) partial
  %q = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 256 x d 64, bf16, shared>
  %m0 = tile.splat %hidden : f32 -> !rows
  %l0 = tile.splat %zero : f32 -> !rows
  %a0 = tile.splat %zero : f32 -> !output
  %r:3 = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : !rows, %l = %l0 : !rows, %acc = %a0 : !output) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 4>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 256 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !scores {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}
    %x = tile.map(%s : !scores) at(k = %k0) only_if %partial -> !scores {
    ^bb0(%e: f32, %key: i32):
      %seen = arith.cmpi slt, %key, %Sk : i32
      %visible = arith.select %seen, %e, %hidden : f32
      tile.yield %visible : f32
    }
    %m1 = tile.reduce max %x over "k" init %m : !rows, !scores -> !rows
    %base = tile.map(%m1 : !rows) -> !rows {
    ^bb0(%e: f32):
      %none = arith.cmpf oeq, %e, %hidden : f32
      %n = arith.select %none, %zero, %e : f32
      tile.yield %n : f32
    }
    %p = tile.map(%x, %base : !scores, !rows) -> !scores {
    ^bb0(%e: f32, %top: f32):
      %d = arith.subf %e, %top : f32
      %n = arith.mulf %d, %exponent_scale : f32
      %w = math.exp2 %n : f32
      tile.yield %w : f32
    }
    %alpha = tile.map(%m, %base : !rows, !rows) -> !rows {
    ^bb0(%before: f32, %top: f32):
      %d = arith.subf %before, %top : f32
      %n = arith.mulf %d, %exponent_scale : f32
      %w = math.exp2 %n : f32
      tile.yield %w : f32
    }
    %l1 = tile.map(%l, %alpha : !rows, !rows) -> !rows {
    ^bb0(%e: f32, %w: f32):
      %n = arith.mulf %e, %w : f32
      tile.yield %n : f32
    }
    %l2 = tile.reduce sum %p over "k" init %l1 : !rows, !scores -> !rows per_lane {sched.at = #sched.at<order 2>}
    %acc1 = tile.map(%acc, %alpha : !output, !rows) -> !output {
    ^bb0(%e: f32, %w: f32):
      %n = arith.mulf %e, %w : f32
      tile.yield %n : f32
    } {sched.at = #sched.at<order 3>}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 4>, sched.at = #sched.at<order 1, stage 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    %p16 = tile.convert %p {sched.at = #sched.at<order 4>} : !scores -> !rounded
    %acc2 = tile.mma %p16, %v add %acc1 : !output, !rounded, !tile.tile<k 64 x dv 64, bf16, shared> -> !output {sched.async, sched.at = #sched.at<order 1, stage 1, ping_pong "products">}
    tile.yield %m1, %l2, %acc2 : !rows, !rows, !output
  }
  // A share without keys has l = 0 and LSE = -inf.
  %l = tile.combine_lanes sum %r#1 : !rows
  %inverse = tile.map(%l : !rows) -> !rows {
  ^bb0(%e: f32):
    %none = arith.cmpf oeq, %e, %zero : f32
    %n = arith.divf %one, %e : f32
    %y = arith.select %none, %zero, %n : f32
    tile.yield %y : f32
  }
  %o = tile.map(%r#2, %inverse : !output, !rows) -> !output {
  ^bb0(%e: f32, %w: f32):
    %y = arith.mulf %e, %w : f32
    tile.yield %y : f32
  }
  %lse = tile.map(%r#0, %l : !rows, !rows) -> !rows {
  ^bb0(%m: f32, %e: f32):
    %none = arith.cmpf oeq, %e, %zero : f32
    %log = math.log %e : f32
    %sum = math.fma %m, %scale, %log : f32
    %y = arith.select %none, %hidden, %sum : f32
    tile.yield %y : f32
  }
  tile.store %o, %PO[%share, %b, %h, %q0] limit %Sq : !output, !tile.view<5, f32>
  tile.store %lse, %PL[%share, %b, %h, %q0] limit %Sq : !rows, !tile.view<4, f32>
}

tile.kernel @combine(part_o: workspace [split 4, b, h, q, dv 64] f32, part_lse: workspace [split 4, b, h, q] f32,
                     o: out [b, h, q, dv 64] f32, lse: optional out [b, h, q] f32)
    grid [b, h, q by 128] dtype f32 plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> {
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
  %one = arith.constant 1.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %dom = tile.domain split by 1 [%c0, %c4) full
  %m0 = tile.splat %hidden : f32 -> !sum_rows
  %l0 = tile.splat %zero : f32 -> !sum_rows
  %a0 = tile.splat %zero : f32 -> !sum
  %r:3 = tile.for_blocks (%s, %partial) in %dom iter_args(%m = %m0 : !sum_rows, %l = %l0 : !sum_rows, %acc = %a0 : !sum) {
    %x = tile.load %PL[%s, %b, %h, %q0] limit %Sq : !tile.view<4, f32> -> !sum_rows
    %o = tile.load %PO[%s, %b, %h, %q0] limit %Sq : !tile.view<5, f32> -> !sum
    %m1 = tile.map(%m, %x : !sum_rows, !sum_rows) -> !sum_rows {
    ^bb0(%before: f32, %e: f32):
      %y = arith.maxnumf %before, %e : f32
      tile.yield %y : f32
    }
    %w = tile.map(%x, %m1 : !sum_rows, !sum_rows) -> !sum_rows {
    ^bb0(%e: f32, %top: f32):
      %none = arith.cmpf oeq, %e, %hidden : f32
      %d = arith.subf %e, %top : f32
      %y = math.exp %d : f32
      %n = arith.select %none, %zero, %y : f32
      tile.yield %n : f32
    }
    %alpha = tile.map(%m, %m1 : !sum_rows, !sum_rows) -> !sum_rows {
    ^bb0(%e: f32, %top: f32):
      %none = arith.cmpf oeq, %e, %hidden : f32
      %d = arith.subf %e, %top : f32
      %y = math.exp %d : f32
      %n = arith.select %none, %zero, %y : f32
      tile.yield %n : f32
    }
    %l1 = tile.map(%l, %alpha, %w : !sum_rows, !sum_rows, !sum_rows) -> !sum_rows {
    ^bb0(%e: f32, %a: f32, %more: f32):
      %n = arith.mulf %e, %a : f32
      %y = arith.addf %n, %more : f32
      tile.yield %y : f32
    }
    %acc1 = tile.map(%acc, %alpha, %o, %w : !sum, !sum_rows, !sum, !sum_rows) -> !sum {
    ^bb0(%e: f32, %a: f32, %part: f32, %more: f32):
      %n = arith.mulf %e, %a : f32
      %p = arith.mulf %part, %more : f32
      %y = arith.addf %n, %p : f32
      tile.yield %y : f32
    }
    tile.yield %m1, %l1, %acc1 : !sum_rows, !sum_rows, !sum
  }
  %inverse = tile.map(%r#1 : !sum_rows) -> !sum_rows {
  ^bb0(%l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %n = arith.divf %one, %l : f32
    %y = arith.select %none, %zero, %n : f32
    tile.yield %y : f32
  }
  %out = tile.map(%r#2, %inverse : !sum, !sum_rows) -> !sum {
  ^bb0(%e: f32, %w: f32):
    %y = arith.mulf %e, %w : f32
    tile.yield %y : f32
  }
  %lse = tile.map(%r#0, %r#1 : !sum_rows, !sum_rows) -> !sum_rows {
  ^bb0(%m: f32, %l: f32):
    %none = arith.cmpf oeq, %l, %zero : f32
    %log = math.log %l : f32
    %sum = arith.addf %m, %log : f32
    %y = arith.select %none, %hidden, %sum : f32
    tile.yield %y : f32
  }
  tile.store %out, %O[%b, %h, %q0] limit %Sq : !sum, !tile.view<4, f32>
  tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : !sum_rows, !tile.view<3, f32>
}
