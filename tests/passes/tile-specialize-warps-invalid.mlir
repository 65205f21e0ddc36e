// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-specialize-warps -verify-diagnostics

// A block has 16 barriers, of which each warpgroup takes two.
// expected-error @below {{has 5 warpgroups, which need more barriers than a block has; plan at most 4}}
tile.kernel @wide() grid [] dtype bf16 plan <q 320 x k 32, warps = 20, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 20>]} {
}

// -----

// expected-error @below {{has no loop over tiles; warps are specialised around one at least}}
tile.kernel @straight() grid [] dtype bf16 plan <q 128 x k 32, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
}

// -----

tile.kernel @first(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    // expected-error @below {{'tile.accumulate' op goes to memory by one warp, which waits for it, and is not the first, which copies; name one from warp 1 on}}
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 0>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @many(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    // expected-error @below {{'tile.accumulate' op goes to memory by one warp, which waits for it, and is not the first, which copies; name one from warp 1 on}}
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warps 1 to 2>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @both(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %also = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "copy" warp 2>} : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    // expected-error @below {{'tile.accumulate' op has a ring of warp 2, which is to take tiles to memory as well as bring some; give it another}}
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 2>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @outside(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  // expected-error @below {{'tile.accumulate' op stands in no loop over tiles, and fills no ring; leave sched.ring out}}
  tile.accumulate %x, %X[%b, %h, %c0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 1>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @short(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    // expected-error @below {{'tile.accumulate' op takes to memory what TMA cannot: it takes 64 rows a warpgroup to a tensor of four dimensions, up to the end of its axis, as floats or, stored, 16 bits; leave sched.ring out}}
    tile.accumulate %x, %X[%b, %h, %k0] limit %c0 {sched.ring = #sched.ring<stages 1, "copy" warp 1>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @computed(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %row = arith.extui %partial : i1 to i32
    // expected-error @below {{'tile.accumulate' op goes to a place that follows from what the loop computes, which another role does not; leave sched.ring out}}
    tile.accumulate %x, %X[%b, %h, %row] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 1>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @reads_too(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %before = tile.load %X[%b, %h, %k0] limit %Sk : !tile.view<4, f32> -> !tile.tile<k 128 x e 128, f32, shared>
    // expected-error @below {{'tile.accumulate' op goes to a tensor that the kernel reads, maybe before TMA has written it; leave sched.ring out}}
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 1>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

tile.kernel @grouped(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %two = arith.constant 2 : i32
  %G = tile.group_rows %X by %two : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    // expected-error @below {{'tile.accumulate' op takes to memory what TMA cannot: it takes 64 rows a warpgroup to a tensor of four dimensions, up to the end of its axis, as floats or, stored, 16 bits; leave sched.ring out}}
    tile.accumulate %x, %G[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1, "copy" warp 1>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}
