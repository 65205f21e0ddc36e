// Programs that warps can be specialised around, and why others cannot.
// RUN: attune-opt %s -split-input-file -tile-choose-path | FileCheck %s
// RUN: attune-opt %s -split-input-file -tile-choose-path=arch=sm_90 | FileCheck %s --check-prefix=OTHER

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// One loop, a copy before it and one in it; a product of 64 rows a warpgroup and 16-bit operands. The plan stays on an architecture that has warpgroups.
// CHECK-LABEL: tile.kernel @taken
// CHECK-SAME:    sched.overlap, sched.persistent, sched.ping_pong, sched.roles = [{{.*}}]} {
// OTHER-LABEL: tile.kernel @taken
// OTHER-SAME:    blocks_per_sm = 1> attributes {tile.remarks = ["products are warp-level and all warps copy: sm_90 has no warpgroup-level products"]}
tile.kernel @taken(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.overlap, sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], sched.ping_pong} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
}

// -----

// What the plan says of producer warps, and of what goes with them, is gone.
// CHECK-LABEL: tile.kernel @no_loop
// CHECK-SAME:    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {tile.remarks = ["products are warp-level and all warps copy: it has no loop over tiles"]}
tile.kernel @no_loop(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.overlap, sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], sched.stage_biases, sched.ping_pong} {
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Loops follow each other, and none is in another.
// CHECK-LABEL: tile.kernel @nested_loops
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a loop over tiles is within another op"]
tile.kernel @nested_loops(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    tile.for_blocks (%k1, %partial1) in %dom {
    }
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Nothing is copied before the loop: the message about a claimed tile of work has barriers of its own.
// CHECK-LABEL: tile.kernel @no_copy_before
// CHECK-NOT:     tile.remarks
// CHECK:         sched.persistent, sched.roles
tile.kernel @no_copy_before(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, work_counter: workspace [one 1] i32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Tiles of work that are dealt out each role finds for itself.
// CHECK-LABEL: tile.kernel @dealt
// CHECK-NOT:     tile.remarks
// CHECK:         sched.persistent, sched.roles
tile.kernel @dealt(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// A block of one tile of work has nothing to say.
// CHECK-LABEL: tile.kernel @nothing_before
// CHECK-NOT:     tile.remarks
// CHECK:         sched.roles
tile.kernel @nothing_before(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// What is loaded to registers is no copy.
// CHECK-LABEL: tile.kernel @no_copy_inside
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it copies no tile in its loop"]
tile.kernel @no_copy_inside(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, register>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// TMA takes boxes of four dimensions.
// CHECK-LABEL: tile.kernel @three_dimensions
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it copies a tile of a tensor that has not four dimensions, the last of a fixed extent"]
tile.kernel @three_dimensions(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: in [h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %X = tile.param "x" : !tile.view<3, bf16>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %x = tile.load %X[%i, %k0] limit %i : !tile.view<3, bf16> -> !keys
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Nor where the width is known at run time.
// CHECK-LABEL: tile.kernel @run_time_width
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it copies a tile of a tensor that has not four dimensions, the last of a fixed extent"]
tile.kernel @run_time_width(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: in [b, h, k, n] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %X = tile.param "x" : !tile.view<4, bf16>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %x = tile.load %X[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !tile.tile<k 32 x n 64, bf16, shared>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// No role is there to copy behind the loop.
// CHECK-LABEL: tile.kernel @copy_behind
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it copies a tile neither before its loops nor in one"]
tile.kernel @copy_behind(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
  %x = tile.load %K[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !keys
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// The producer walks the tiles without computing what the loop does.
// CHECK-LABEL: tile.kernel @place
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a place that it copies from follows from what a loop computes"]
tile.kernel @place(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %end = tile.for_blocks (%k0, %partial) in %dom iter_args(%at = %i : i32) {
    %next = arith.addi %k0, %at : i32
    %k = tile.load %K[%i, %i, %next] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    tile.yield %next : i32
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// A product after the loop reads a tile that was copied before it.
// CHECK-LABEL: tile.kernel @product_after
// CHECK-SAME:    sched.roles =
tile.kernel @product_after(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %other = tile.load %K[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !keys
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
  %s1 = tile.mma %q, %other : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// The producer runs ahead of the first loop, and does not know what this loop computes.
// CHECK-LABEL: tile.kernel @second_place
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a place that it copies from follows from what a loop computes"]
// CHECK-LABEL: tile.kernel @second_domain
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: the tiles of a loop follow from what another loop computes"]
// CHECK-LABEL: tile.kernel @branch
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it has a product in a branch"]
tile.kernel @second_place(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %end = tile.for_blocks (%k0, %partial) in %dom iter_args(%at = %i : i32) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %next = arith.addi %k0, %at : i32
    tile.yield %next : i32
  }
  tile.for_blocks (%k0, %partial) in %dom {
    %place = arith.addi %k0, %end : i32
    %k = tile.load %K[%i, %i, %place] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
}
tile.kernel @second_domain(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %end = tile.for_blocks (%k0, %partial) in %dom iter_args(%at = %i : i32) {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %next = arith.addi %k0, %at : i32
    tile.yield %next : i32
  }
  %rest = tile.domain k by 32 [%i, %end) full
  tile.for_blocks (%k0, %partial) in %rest {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
}
tile.kernel @branch(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %true = arith.constant true
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    scf.if %true {
      %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    }
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Rows of a product are the 64 of each warpgroup.
// CHECK-LABEL: tile.kernel @rows
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a product has 32 rows, not the warpgroups' 64, and columns that they cannot share"]
tile.kernel @rows(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %s1 = tile.mma %k, %q : !keys, !queries -> !tile.tile<k 32 x q 64, f32, register>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// wgmma has 8 to 256 columns.
// CHECK-LABEL: tile.kernel @columns
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a product has 264 columns, which is no multiple of 8 up to 256"]
tile.kernel @columns(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %x = tile.load %Q[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !tile.tile<n 264 x d 64, bf16, shared>
    %s1 = tile.mma %q, %x : !queries, !tile.tile<n 264 x d 64, bf16, shared> -> !tile.tile<q 64 x n 264, f32, register>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// In steps of 8.
// CHECK-LABEL: tile.kernel @odd_columns
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a product has 12 columns, which is no multiple of 8 up to 256"]
tile.kernel @odd_columns(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %x = tile.load %Q[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !tile.tile<n 12 x d 64, bf16, shared>
    %s1 = tile.mma %q, %x : !queries, !tile.tile<n 12 x d 64, bf16, shared> -> !tile.tile<q 64 x n 12, f32, register>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// float32 is multiplied in three TF32 products of a warp.
// CHECK-LABEL: tile.kernel @wide_operands
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: a product's operands are not of 16 bits"]
tile.kernel @wide_operands(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, x: in [b, h, q, d 64] f32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %X = tile.param "x" : !tile.view<4, f32>
  %x = tile.load %X[%i, %i, %i] limit %i : !tile.view<4, f32> -> !tile.tile<q 64 x d 64, f32, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %y = tile.load %X[%i, %i, %k0] limit %i : !tile.view<4, f32> -> !tile.tile<n 32 x d 64, f32, shared>
    %s1 = tile.mma %x, %y : !tile.tile<q 64 x d 64, f32, shared>, !tile.tile<n 32 x d 64, f32, shared> -> !tile.tile<q 64 x n 32, f32, register>
  }
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// All warps of a block write a shared tile.
// CHECK-LABEL: tile.kernel @stored
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it writes a tile of shared memory to global memory"]
tile.kernel @stored(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, o: out [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
  }
  %O = tile.param "o" : !tile.view<4, bf16>
  tile.store %q, %O[%i, %i, %i] limit %i : !queries, !tile.view<4, bf16>
}

// -----

!queries = !tile.tile<q 64 x d 64, bf16, shared>
!keys = !tile.tile<k 32 x d 64, bf16, shared>

// Or add it.
// CHECK-LABEL: tile.kernel @accumulated
// CHECK-SAME:    tile.remarks = ["products are warp-level and all warps copy: it writes a tile of shared memory to global memory"]
tile.kernel @accumulated(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, o: accumulate [b, h, q, d 64] f32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %i = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 32 [%i, %i) full
  %q = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !queries
  %zero = arith.constant 0.0 : f32
  %O = tile.param "o" : !tile.view<4, f32>
  %sums = tile.splat %zero : f32 -> !tile.tile<q 64 x d 64, f32, register>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%i, %i, %k0] limit %i : !tile.view<4, bf16> -> !keys
    %s = tile.mma %q, %k : !queries, !keys -> !tile.tile<q 64 x k 32, f32, register>
    %shared = tile.convert %sums : !tile.tile<q 64 x d 64, f32, register> -> !tile.tile<q 64 x d 64, f32, shared>
    tile.accumulate %shared, %O[%i, %i, %i] limit %i : !tile.tile<q 64 x d 64, f32, shared>, !tile.view<4, f32>
  }
}

// -----

// Without producer warps there is nothing to choose.
// CHECK-LABEL: tile.kernel @plain
// CHECK-NOT:     tile.remarks
tile.kernel @plain(x: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
}
