// Roles and rings that a block does not have.
// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-assign-layouts -tile-specialize-warps -verify-diagnostics

// expected-error @below {{'tile.kernel' op role "c" has 4 warps, but the plan 8}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 4>, #sched.role<"c", warps 4>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op has 1 roles; give two or more, of which the last computes and the others fill rings}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op has a role b that fills no ring; name it in a sched.ring, or leave it out}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 4>, #sched.role<"c", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 4>, #sched.role<"c", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      // expected-error @below {{'tile.load' op has a ring that role "d" fills, but copies and what follows from none of the loop's tiles come from role "a" or "b"}}
      %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "d" warp 0>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op role "a", which fills rings, has 8 warps; give it 4, a warpgroup}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 8>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op role "b" has 4 warps, but the plan 8}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 4>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op with a role that fills rings, warps are whole warpgroups that share the rows of an axis of the plan, 16 each}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 4>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op gives registers to some roles alone; give them to all, or to none}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4, registers 24>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

// expected-error @below {{'tile.kernel' op roles take 65536 registers, of which a block of 384 threads has 64512; give a role fewer}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4, registers 32>, #sched.role<"b", warps 8, registers 240>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // expected-error @below {{'tile.load' op has a ring that role "c" fills, but copies and what follows from none of the loop's tiles come from role "a"}}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "c" warp 0>} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // expected-error @below {{'tile.load' op has a ring that warp 4 of role "a" fills, which has 4}}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "a" warp 4>} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // expected-error @below {{'tile.load' op is copied by one warp, of which one lane starts TMA}}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "a" warps 1 to 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %also = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full where {
  ^bb0(%n: i32):
    %visible = arith.cmpi ne, %n, %c0 : i32
    tile.yield %visible, %visible : i1, i1
  }
  tile.for_blocks (%k0, %partial) in %dom {
    // expected-error @below {{'tile.load' op has a ring that the first producer warp alone has to fill: the messages that name the tiles go with the copies before the loop and with its first copy}}
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "a" warp 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  // expected-error @below {{'tile.load' op has a ring of 2 stages, another ring one of 1; rings that are filled before the loop have the same number of stages}}
  %also = tile.load %Q[%b, %h, %q0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
      %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
      %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    tile.yield
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @below {{'tile.convert' op is exchanged by the warps that compute, which alternate between two stages or more; write #sched.ring<stages 2>, or leave it out}}
  %x = tile.convert %s {sched.ring = #sched.ring<stages 1>} : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, shared>
}

// -----

tile.kernel @bad(lse: in [b, h, k] f32, k: in [b, h, k, d 64] bf16) grid [b, h, k by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"b", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
    // expected-error @below {{'tile.load' op is of single values, which TMA of a role does not bring; load the vector to registers, and convert it}}
    %l = tile.load %LSE[%b, %h, %k0] limit %Sk : !tile.view<3, f32> -> !tile.tile<k 64, f32, shared>
    tile.yield
  }
}
