// Which axis of a register tile is rows, and what goes through shared memory.
// RUN: attune-opt %s -split-input-file -tile-place-operands | FileCheck %s

// Read once by rows and once by columns of S: it becomes S^T, in which the first product reads it as it lies; the other reads a copy in shared memory.
// CHECK-LABEL: tile.kernel @gradients
// CHECK-SAME:    tile.remarks = ["an operand of the product (q, d) = (k, q) (k, d) goes through shared memory: its order of axes in registers is another product's"]
// CHECK:         %[[S:.*]] = tile.mma %{{.*}}, %{{.*}} : <k 32 x d 64, bf16, shared>, <q 64 x d 64, bf16, shared> -> <k 32 x q 64, f32, register>
// CHECK-DAG:     %[[SHARED:.*]] = tile.convert %[[S]] {{.*}}: <k 32 x q 64, f32, register> -> <k 32 x q 64, bf16, shared>
// CHECK-DAG:     %[[R2:.*]] = tile.convert %[[S]] : <k 32 x q 64, f32, register> -> <k 32 x q 64, bf16, register>
// CHECK:         %[[R:.*]] = tile.convert %[[S]] : <k 32 x q 64, f32, register> -> <k 32 x q 64, bf16, register>
// CHECK:         tile.mma %[[R]], %{{.*}} : <k 32 x q 64, bf16, register>, <q 64 x d 64, bf16, shared> -> <k 32 x d 64, f32, register>
// CHECK:         tile.mma %[[R2]], %{{.*}} : <k 32 x q 64, bf16, register>, <q 64 x dv 64, bf16, shared> -> <k 32 x dv 64, f32, register>
// CHECK:         tile.mma %[[SHARED]], %{{.*}} : <k 32 x q 64, bf16, shared>, <k 32 x d 64, bf16, shared> -> <q 64 x d 64, f32, register>
tile.kernel @gradients(x: in [b, h, q, d 64] bf16, y: in [b, h, k, d 64] bf16, z: in [b, h, q, dv 64] bf16) grid [b, h, k by 32] dtype bf16
    plan <q 64 x k 32, warps = 2, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %Z = tile.param "z" : !tile.view<4, bf16>
  %x = tile.load %X[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <q 64 x d 64, bf16, shared>
  %y = tile.load %Y[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <k 32 x d 64, bf16, shared>
  %z = tile.load %Z[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <q 64 x dv 64, bf16, shared>
  %s = tile.mma %x, %y : <q 64 x d 64, bf16, shared>, <k 32 x d 64, bf16, shared> -> <q 64 x k 32, f32, register>
  %r = tile.convert %s : <q 64 x k 32, f32, register> -> <q 64 x k 32, bf16, register>
  %r2 = tile.convert %s : <q 64 x k 32, f32, register> -> <q 64 x k 32, bf16, register>
  %dy = tile.mma %r, %x : <q 64 x k 32, bf16, register>, <q 64 x d 64, bf16, shared> -> <k 32 x d 64, f32, register>
  %dz = tile.mma %r2, %z : <q 64 x k 32, bf16, register>, <q 64 x dv 64, bf16, shared> -> <k 32 x dv 64, f32, register>
  %dx = tile.mma %r, %y : <q 64 x k 32, bf16, register>, <k 32 x d 64, bf16, shared> -> <q 64 x d 64, f32, register>
}

// -----

// What memory gives and takes keeps its order; a turned tile between them is converted.
// CHECK-LABEL: tile.kernel @memory
// CHECK:         %[[X:.*]] = tile.load {{.*}} -> <q 64 x d 64, f32, register>
// CHECK-NOT:     tile.convert
// CHECK:         tile.reduce max %[[X]] over "q"
// CHECK:         tile.store %[[X]]
tile.kernel @memory(x: in [b, h, q, d 64] f32, y: out [b, h, q, d 64] f32) grid [b, h, q by 64] dtype f32
    plan <q 64 x k 32, warps = 2, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %X = tile.param "x" : !tile.view<4, f32>
  %Y = tile.param "y" : !tile.view<4, f32>
  %x = tile.load %X[%zero, %zero, %zero] limit %zero : !tile.view<4, f32> -> <q 64 x d 64, f32, register>
  %m = tile.reduce max %x over "q" : !tile.tile<q 64 x d 64, f32, register> -> !tile.tile<d 64, f32, register>
  tile.store %x, %Y[%zero, %zero, %zero] limit %zero : <q 64 x d 64, f32, register>, !tile.view<4, f32>
}

// -----

// A tile in registers whose rows are not the result's, and one that would be the right operand.
// CHECK-LABEL: tile.kernel @right
// CHECK:         %[[P:.*]] = tile.convert %{{.*}} : <d 64 x n 64, f32, register> -> <d 64 x n 64, f32, shared>
// CHECK:         tile.mma %{{.*}}, %[[P]] : <q 64 x d 64, f32, shared>, <d 64 x n 64, f32, shared>
tile.kernel @right(x: in [b, h, q, d 64] f32, y: accumulate [b, h, d 64, n 64] f32) grid [b, h, q by 64] dtype f32
    plan <q 64 x k 32, warps = 2, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %f = arith.constant 0.0 : f32
  %X = tile.param "x" : !tile.view<4, f32>
  %Y = tile.param "y" : !tile.view<4, f32>
  %x = tile.load %X[%zero, %zero, %zero] limit %zero : !tile.view<4, f32> -> <q 64 x d 64, f32, shared>
  %p = tile.splat %f : f32 -> <d 64 x n 64, f32, register>
  tile.accumulate %p, %Y[%zero, %zero, %zero] limit %zero : <d 64 x n 64, f32, register>, !tile.view<4, f32>
  %y = tile.mma %x, %p : <q 64 x d 64, f32, shared>, <d 64 x n 64, f32, register> -> <q 64 x n 64, f32, register>
}

// -----

// What is stored to a dense tensor, too, lies in shared memory as that does, where a role fills rings and another kernel can start in place of this one.
// CHECK-LABEL: tile.kernel @dense(
// CHECK:         tile.convert %{{.*}} : <k 64 x q 64, f32, register> -> <q 64 x k 64, bf16, shared>
// CHECK-LABEL: tile.kernel @dense_elements(
// CHECK:         tile.convert %{{.*}} : <k 64 x q 64, f32, register> -> <k 64 x q 64, bf16, shared>
tile.kernel @dense(x: in [b, h, q, d 64] bf16, y: in [b, h, k, d 64] bf16, out: out [h, q, k] bf16) grid [b, h, k by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %zero = arith.constant 0 : i32
  %k0 = tile.block_index "k" : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %OUT = tile.param "out" : !tile.view<3, bf16>
  %x = tile.load %X[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <q 64 x d 64, bf16, shared>
  %y = tile.load %Y[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <k 64 x d 64, bf16, shared>
  %s = tile.mma %y, %x : <k 64 x d 64, bf16, shared>, <q 64 x d 64, bf16, shared> -> <k 64 x q 64, f32, register>
  %qs = tile.map() at(q = %zero) -> !tile.tile<q 64, i32, register> {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !tile.tile<k 64, i32, register> {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  tile.scatter %s, %OUT[%zero, %qs, %ks] : <k 64 x q 64, f32, register>, <3, bf16>(i32, !tile.tile<q 64, i32, register>, !tile.tile<k 64, i32, register>)
  %r = tile.convert %s : <k 64 x q 64, f32, register> -> <k 64 x q 64, bf16, register>
  %dy = tile.mma %r, %x : <k 64 x q 64, bf16, register>, <q 64 x d 64, bf16, shared> -> <k 64 x d 64, f32, register>
  %dx = tile.mma %r, %y : <k 64 x q 64, bf16, register>, <k 64 x d 64, bf16, shared> -> <q 64 x d 64, f32, register>
}

tile.kernel @dense_elements(x: in [b, h, q, d 64] bf16, y: in [b, h, k, d 64] bf16, out: out [h, q, k] bf16) grid [b, h, k by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], tile.fallback_of = @dense} {
  %zero = arith.constant 0 : i32
  %k0 = tile.block_index "k" : i32
  %X = tile.param "x" : !tile.view<4, bf16>
  %Y = tile.param "y" : !tile.view<4, bf16>
  %OUT = tile.param "out" : !tile.view<3, bf16>
  %x = tile.load %X[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <q 64 x d 64, bf16, shared>
  %y = tile.load %Y[%zero, %zero, %zero] limit %zero : !tile.view<4, bf16> -> <k 64 x d 64, bf16, shared>
  %s = tile.mma %y, %x : <k 64 x d 64, bf16, shared>, <q 64 x d 64, bf16, shared> -> <k 64 x q 64, f32, register>
  %qs = tile.map() at(q = %zero) -> !tile.tile<q 64, i32, register> {
  ^bb0(%q: i32):
    tile.yield %q : i32
  }
  %ks = tile.map() at(k = %k0) -> !tile.tile<k 64, i32, register> {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  tile.scatter %s, %OUT[%zero, %qs, %ks] : <k 64 x q 64, f32, register>, <3, bf16>(i32, !tile.tile<q 64, i32, register>, !tile.tile<k 64, i32, register>)
  %r = tile.convert %s : <k 64 x q 64, f32, register> -> <k 64 x q 64, bf16, register>
  %dy = tile.mma %r, %x : <k 64 x q 64, bf16, register>, <q 64 x d 64, bf16, shared> -> <k 64 x d 64, f32, register>
  %dx = tile.mma %r, %y : <k 64 x q 64, bf16, register>, <k 64 x d 64, bf16, shared> -> <q 64 x d 64, f32, register>
}
