// RUN: attune-opt %s -tile-stage-vectors -canonicalize | FileCheck %s
// RUN: attune-opt %s -tile-stage-vectors -canonicalize -tile-assign-roles | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -tile-stage-vectors -canonicalize -tile-assign-roles -tile-assign-layouts | FileCheck %s --check-prefix=LAYOUTS

!queries = !tile.tile<q 128 x d 64, bf16, shared>
!keys = !tile.tile<k 128 x d 64, bf16, shared>
!scores = !tile.tile<q 128 x k 128, f32, register>
!rows = !tile.tile<q 128, f32, register>

// What follows from a loaded vector alone is one map, by shared memory: of rows past the end of a load of zeros. A sum of
// a tile follows from the tile, and a vector that the loop loads along another axis has the loop's own place nowhere.
// CHECK-LABEL: tile.kernel @vectors
// CHECK:         tile.for_blocks (%[[Q0:.*]], %{{.*}}) in
// CHECK:           %[[OTHER:.*]] = tile.load %LSE[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} : <3, f32> -> <q 128, f32, register>
// CHECK:           %[[ROWS:.*]] = tile.map() at(q = %[[Q0]]) -> !tile.tile<q 128, f32, register> {
// CHECK:           ^bb0(%[[ROW:.*]]: i32):
// CHECK:             %[[E:.*]] = tile.element %LSE[%{{.*}}, %{{.*}}, %[[ROW]]] in_range [true, true, false]
// CHECK:             %[[EXISTS:.*]] = arith.cmpi slt, %[[ROW]], %q_extent
// CHECK:             %[[L:.*]] = arith.select %[[EXISTS]], %[[E]], %{{.*}}
// CHECK:             %[[N:.*]] = arith.negf %[[L]]
// CHECK:             tile.yield %[[N]]
// CHECK:           %[[STAGED:.*]] = tile.convert %[[ROWS]] {tile.name = "minus"} : <q 128, f32, register> -> <q 128, f32, shared>
// CHECK:           %[[SUM:.*]] = tile.reduce {{ *}}sum
// CHECK:           tile.map(%{{.*}}, %[[STAGED]], %[[SUM]], %[[OTHER]] : !tile.tile<q 128 x k 128, f32, register>, !tile.tile<q 128, f32, shared>, !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>)

// What is stored stays in registers.
// CHECK:           tile.store %minus{{[_0-9]*}}, %OUT[{{.*}}] limit %{{.*}} : <q 128, f32, register>, <3, f32>

// The last two warps load it.
// ROLES: sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 8, registers 232>]
// ROLES: tile.convert %{{.*}} {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, tile.name = "minus"}
tile.kernel @vectors(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, lse: in [b, h, q] f32, out: out [b, h, q] f32)
    grid [b, h, k by 128] dtype bf16 plan <q 128 x k 128, warps = 8, blocks_per_sm = 1>
    attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %OUT = tile.param "out" : !tile.view<3, f32>
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 -> !rows
  %dom = tile.domain q by 128 [%k0, %Sq) full
  %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !keys
  %r = tile.for_blocks (%q0, %partial) in %dom iter_args(%acc = %none : !rows) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %other = tile.load %LSE[%b, %h, %k0] limit %Sq : !tile.view<3, f32> -> !rows
    %lse = tile.load %LSE[%b, %h, %q0] limit %Sq : !tile.view<3, f32> -> !rows
    %minus = tile.map(%lse : !rows) -> !rows {
    ^bb0(%l: f32):
      %y = arith.negf %l : f32
      tile.yield %y : f32
    } {tile.name = "minus"}
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %sum = tile.reduce sum %s over "k" : !scores -> !rows
    %x = tile.map(%s, %minus, %sum, %other : !scores, !rows, !rows, !rows) -> !scores {
    ^bb0(%e: f32, %m: f32, %t: f32, %o: f32):
      %0 = arith.addf %e, %m : f32
      %1 = arith.addf %0, %t : f32
      %2 = arith.addf %1, %o : f32
      tile.yield %2 : f32
    }
    tile.store %minus, %OUT[%b, %h, %q0] limit %Sq : !rows, !tile.view<3, f32>
    %next = tile.reduce sum %x over "k" init %acc : !rows, !scores -> !rows
    tile.yield %next : !rows
  }
  tile.store %r, %OUT[%b, %h, %k0] limit %Sq : !rows, !tile.view<3, f32>
}

// Without producer warps what is loaded is copied, and tiles compute what follows from it. What is stored stays in registers.
// CHECK-LABEL: tile.kernel @copied
// CHECK:         tile.for_blocks (%[[Q0:.*]], %{{.*}}) in
// CHECK:           %[[COPY:.*]] = tile.load %LSE[%{{.*}}, %{{.*}}, %[[Q0]]] limit %{{.*}} {tile.name = "lse"} : <3, f32> -> <q 128, f32, shared>
// CHECK:           %[[LOADED:.*]] = tile.load %LSE[%{{.*}}, %{{.*}}, %[[Q0]]] limit %{{.*}} {tile.name = "lse"} : <3, f32> -> <q 128, f32, register>
// CHECK:           %[[MINUS:.*]] = tile.map(%[[LOADED]]
// CHECK:           tile.map(%{{.*}}, %[[COPY]] : !tile.tile<q 128 x k 128, f32, register>, !tile.tile<q 128, f32, shared>)
// CHECK-NEXT:      ^bb0(%[[E:.*]]: f32, %[[L:.*]]: f32):
// CHECK-NEXT:        %[[N:.*]] = arith.negf %[[L]]
// CHECK-NEXT:        arith.addf %[[E]], %[[N]]
// CHECK:           tile.store %[[MINUS]]
tile.kernel @copied(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, lse: in [b, h, q] f32, out: out [b, h, q] f32)
    grid [b, h, k by 128] dtype bf16 plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %OUT = tile.param "out" : !tile.view<3, f32>
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 -> !rows
  %dom = tile.domain q by 128 [%k0, %Sq) full
  %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !keys
  %r = tile.for_blocks (%q0, %partial) in %dom iter_args(%acc = %none : !rows) {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %lse = tile.load %LSE[%b, %h, %q0] limit %Sq {tile.name = "lse"} : !tile.view<3, f32> -> !rows
    %minus = tile.map(%lse : !rows) -> !rows {
    ^bb0(%l: f32):
      %y = arith.negf %l : f32
      tile.yield %y : f32
    } {tile.name = "minus"}
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %x = tile.map(%s, %minus : !scores, !rows) -> !scores {
    ^bb0(%e: f32, %m: f32):
      %0 = arith.addf %e, %m : f32
      tile.yield %0 : f32
    }
    tile.store %minus, %OUT[%b, %h, %q0] limit %Sq : !rows, !tile.view<3, f32>
    %next = tile.reduce sum %x over "k" init %acc : !rows, !scores -> !rows
    tile.yield %next : !rows
  }
  tile.store %r, %OUT[%b, %h, %k0] limit %Sq : !rows, !tile.view<3, f32>
}

// Rows that are the same in each tile, and of another sequence. Tiles that they meet by rows read them once.
// CHECK-LABEL: tile.kernel @rounds
// CHECK:         tile.for_blocks (%{{.*}}, %{{.*}}, %[[ROUND:.*]]) in
// CHECK:           %[[ROWS:.*]] = tile.map() at(q = %q0) -> !tile.tile<q 128, f32, register> {
// CHECK:             tile.element %LSE[%[[ROUND]], %h, %{{.*}}] in_range [true, true, false]
// CHECK:           tile.convert %[[ROWS]] {tile.name = "lse"} : <q 128, f32, register> -> <q 128, f32, shared>
// LAYOUTS-LABEL: tile.kernel @rounds
// LAYOUTS:         %[[STAGED:.*]] = tile.convert %{{.*}} {sched.ring = #sched.ring<stages 2, "producer" warps 2 to 3>, tile.name = "lse"}
// LAYOUTS:         tile.mma
// LAYOUTS:         %[[HELD:.*]] = tile.convert %[[STAGED]] {tile.name = "lse"} : <q 128, f32, shared> -> <q 128, f32, register, #sched.fragment<rows, warps 8>>
// LAYOUTS:         %[[X:.*]] = tile.map(%{{.*}}, %[[HELD]] :
// LAYOUTS:         tile.map(%[[X]], %[[HELD]] :
tile.kernel @rounds(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, lse: in [b, h, q] f32, out: out [b, h, q] f32)
    grid [h, q by 128, k by 128] dtype bf16 plan <q 128 x k 128, warps = 8, blocks_per_sm = 1>
    attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %b = tile.axis_extent "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %k0 = tile.block_index "k" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %OUT = tile.param "out" : !tile.view<3, f32>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %start = tile.splat %zero : f32 -> !rows
  %dom = tile.domain k by 128 [%none, %one) full times %b
  %r = tile.for_blocks (%at, %partial, %iteration) in %dom iter_args(%acc = %start : !rows) {
    %q = tile.load %Q[%iteration, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !queries
    %k = tile.load %K[%iteration, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !keys
    %lse = tile.load %LSE[%iteration, %h, %q0] limit %Sq {tile.name = "lse"} : !tile.view<3, f32> -> !rows
    %s = tile.mma %q, %k : !queries, !keys -> !scores
    %x = tile.map(%s, %lse : !scores, !rows) -> !scores {
    ^bb0(%e: f32, %l: f32):
      %0 = arith.subf %e, %l : f32
      tile.yield %0 : f32
    }
    %y = tile.map(%x, %lse : !scores, !rows) -> !scores {
    ^bb0(%e: f32, %l: f32):
      %0 = arith.mulf %e, %l : f32
      tile.yield %0 : f32
    }
    %next = tile.reduce sum %y over "k" init %acc : !rows, !scores -> !rows
    tile.yield %next : !rows
  }
  tile.store %r, %OUT[%none, %h, %q0] limit %Sq : !rows, !tile.view<3, f32>
}
