// How deep rings are and who fills them, where the text leaves it open.
// RUN: attune-opt %s -split-input-file -tile-assign-roles | FileCheck %s

// One role fills rings, with its first warp; what the text says of a ring stays, and of registers.
// CHECK-LABEL: tile.kernel @some
// CHECK-SAME:    sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 8, registers 232>]
// CHECK:         tile.load %Q{{.*}} {sched.ring = #sched.ring<stages 1, "producer" warp 0>}
// CHECK:           tile.load %K{{.*}} {sched.ring = #sched.ring<stages 3, "producer" warp 0>}
// CHECK:           tile.load %V{{.*}} {sched.ring = #sched.ring<stages 4, "producer" warp 2>}
// What warps that compute exchange no role fills.
// CHECK:           tile.convert %{{.*}} {sched.ring = #sched.ring<stages 2>}
tile.kernel @some(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, dv 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1>
    attributes {sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 8, registers 232>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 4, "producer" warp 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
    %shared = tile.convert %s {sched.ring = #sched.ring<stages 2>} : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, shared>
    %o = tile.mma %shared, %v : !tile.tile<q 128 x k 64, bf16, shared>, !tile.tile<k 64 x dv 64, bf16, shared> -> !tile.tile<q 128 x dv 64, f32, register>
    tile.yield
  }
}

// -----

// Two stages in the loop, and the registers that go with the tiles. Without roles all warps fill rings.
// CHECK-LABEL: tile.kernel @open
// CHECK-SAME:    sched.roles = [#sched.role<"copy", warps 4, registers 24>, #sched.role<"compute", warps 8, registers 240>]
// CHECK:           tile.load %K{{.*}} {sched.ring = #sched.ring<stages 2, "copy" warp 0>}
tile.kernel @open(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    tile.yield
  }
}

// CHECK-LABEL: tile.kernel @alike
// CHECK:           tile.load %K{{.*}} {sched.ring = #sched.ring<stages 2>}
tile.kernel @alike(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    tile.yield
  }
}

// -----

// Warps that do the same meet twice.
// CHECK-LABEL: tile.kernel @twice
// CHECK-SAME:    tile.remarks = ["the ring of x is not used: without roles all warps meet before and after its stores"]
// CHECK:         tile.convert %{{.*}} {tile.name = "x"} :
tile.kernel @twice(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %x = tile.convert %s {sched.ring = #sched.ring<stages 2>, tile.name = "x"} : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, shared>
}

// -----

// What a loop adds to memory is taken there by a warp that fills no ring: the second, or the third.
// CHECK-LABEL: tile.kernel @added
// CHECK:           tile.accumulate {{.*}} {sched.ring = #sched.ring<stages 1, "copy" warp 1>}
tile.kernel @added(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %also = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "copy" warp 0>} : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// CHECK-LABEL: tile.kernel @beside
// CHECK:           tile.accumulate {{.*}} {sched.ring = #sched.ring<stages 1, "copy" warp 2>}
tile.kernel @beside(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %also = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "copy" warp 1>} : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// Where all warps fill rings, lanes add what they hold.
// CHECK-LABEL: tile.kernel @busy
// CHECK-SAME:    tile.remarks = ["what is added to x goes element by element: all warps of role copy fill rings"]
// CHECK-NOT:     tile.accumulate {{.*}}sched.ring
tile.kernel @busy(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"copy", warps 4>, #sched.role<"compute", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %also = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2, "copy" warp 1>} : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %rows = tile.map() at(k = %k0) -> !tile.tile<k 128, f32, register> {
    ^bb0(%row: i32):
      tile.yield %zero : f32
    }
    %vector = tile.convert %rows {sched.ring = #sched.ring<stages 2, "copy" warps 2 to 3>} : !tile.tile<k 128, f32, register> -> !tile.tile<k 128, f32, shared>
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}

// -----

// Not where warps have no roles.
// CHECK-LABEL: tile.kernel @plain
// CHECK-SAME:    tile.remarks = ["the ring to x is not used: without roles lanes take to memory what they hold"]
// CHECK-NOT:     tile.accumulate {{.*}}sched.ring
tile.kernel @plain(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: accumulate [b, h, k, e 128] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %K = tile.param "k" : !tile.view<4, bf16>
  %X = tile.param "x" : !tile.view<4, f32>
  %dom = tile.domain k by 128 [%c0, %Sk) full
  %x = tile.splat %zero : f32 -> !tile.tile<k 128 x e 128, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    %also = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<k 128 x d 64, bf16, shared>
    tile.accumulate %x, %X[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.tile<k 128 x e 128, f32, register>, !tile.view<4, f32>
    tile.yield
  }
}
