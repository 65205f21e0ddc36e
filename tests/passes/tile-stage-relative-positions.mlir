// RUN: attune-opt %s --split-input-file --attn-tile-size=arch=sm_90a --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants --tile-stage-relative-positions --canonicalize --cse | FileCheck %s
// RUN: attune-opt %s --split-input-file --attn-tile-size=arch=sm_90 --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants --tile-stage-relative-positions --canonicalize | FileCheck %s --check-prefix=WARPS

// Without producer warps there is nobody to compute them.
// WARPS-LABEL: tile.kernel @relative
// WARPS-NOT: at(distance
// WARPS: tile.element
// WARPS-LABEL: tile.kernel @more
// WARPS-NOT: at(distance

// A relative bias: one load for each distance, from that of the first row and the last key on.
// CHECK-LABEL: tile.kernel @relative
// CHECK-SAME: plan <q [[Q:[0-9]+]] x k [[K:[0-9]+]],
// CHECK-DAG: %[[Q0:.*]] = tile.block_index "q"
// CHECK-DAG: %[[H:.*]] = tile.block_index "h"
// CHECK: tile.for_blocks (%[[K0:[^,]*]],
// CHECK: %[[S:.*]] = tile.mma
// CHECK: %[[APART:.*]] = arith.subi %[[Q0]], %[[K0]] : i32
// CHECK: %[[FIRST:.*]] = arith.subi %[[APART]], %c{{[0-9]+}}_i32 {tile.name = "first_distance"}
// CHECK: %[[COMPUTED:.*]] = tile.map() at(distance = %[[FIRST]]) -> !tile.tile<distance [[N:[0-9]+]], f32, register> {
// CHECK-NEXT: ^bb0(%[[D:.*]]: i32):
// CHECK-NEXT: %[[AT:.*]] = arith.addi %[[D]], %{{.*}} : i32
// CHECK-NEXT: %[[BIAS:.*]] = tile.element %{{.*}}[%[[H]], %[[AT]]]
// CHECK-NEXT: tile.yield %[[BIAS]]
// CHECK: %[[STAGED:.*]] = tile.convert %[[COMPUTED]] {tile.name = "table_tile"} : <distance [[N]], f32, register> -> <distance [[N]], f32, shared>
// CHECK: tile.map(%[[S]], %[[STAGED]] :
// CHECK-NEXT: ^bb0(%[[SCORE:.*]]: f32, %[[ADDEND:.*]]: f32,
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[SCORE]],
// CHECK-NEXT: arith.addf %[[SCALED]], %[[ADDEND]]
// CHECK-NOT: tile.element
attn.attention @relative dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<table, f32, rank 2>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %q, %k : i32
  %1 = attn.extent "Sk" : i32
  %2 = arith.addi %0, %1 : i32
  %3 = attn.load "table"[%h, %2] : (i32, i32) -> f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}

// -----

// What follows from the distance by way of other ops goes with it; coefficients other than one; two values; flags as integers.
// CHECK-LABEL: tile.kernel @more
// CHECK: %[[BUCKET:.*]] = tile.map() at(distance = %{{.*}}) -> !tile.tile<distance [[N:[0-9]+]], f32, register> {
// CHECK: arith.maxsi
// CHECK: arith.muli
// CHECK: tile.element
// CHECK: math.exp
// CHECK: tile.yield %{{.*}} : f32
// CHECK: %[[A:.*]] = tile.convert %[[BUCKET]]
// CHECK: %[[FLAG:.*]] = tile.map() at(distance = %{{.*}}) -> !tile.tile<distance [[N]], i32, register> {
// CHECK: %[[IS:.*]] = tile.element %{{.*}} -> i1
// CHECK: arith.extui %[[IS]] : i1 to i32
// CHECK: %[[B:.*]] = tile.convert %[[FLAG]] {{.*}} -> <distance [[N]], i32, shared>
// CHECK: tile.map(%{{[^,]*}}, %[[A]], %[[B]] :
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %[[WORD:[^:]*]]: i32, %{{.*}}
// CHECK: arith.cmpi ne, %[[WORD]], %c0_i32
attn.attention @more dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<table, f16, rank 1>, #attn.tensor<flags, i8, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %three_q = arith.muli %q, %c3 : i32
  %three_k = arith.muli %c3, %k : i32
  %0 = arith.subi %three_k, %three_q : i32
  %1 = arith.maxsi %0, %c0 : i32
  %2 = arith.muli %1, %1 : i32
  %3 = attn.load "table"[%2] : (i32) -> f32
  %4 = math.exp %3 : f32
  %5 = arith.addf %s, %4 : f32
  %6 = arith.subi %q, %k : i32
  %7 = attn.load "flags"[%6] : (i32) -> i1
  %8 = arith.select %7, %5, %s : f32
  attn.yield %8 : f32
} mask {
}

// -----

// Nothing by distance with a load: by q + k, by q alone, by the head, by 2 q - k, by the score, a distance without a load, and 64 bits.
// CHECK-LABEL: tile.kernel @others
// CHECK-NOT: at(distance
// CHECK-NOT: tile.convert {{.*}} shared>
// CHECK: tile.store
attn.attention @others dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<table, f32, rank 1>, #attn.tensor<wide, i64, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %sum = arith.addi %q, %k : i32
  %0 = attn.load "table"[%sum] : (i32) -> f32
  %1 = attn.load "table"[%q] : (i32) -> f32
  %2 = attn.load "table"[%h] : (i32) -> f32
  %skew = arith.subi %sum, %k : i32
  %skew1 = arith.addi %skew, %skew : i32
  %skew2 = arith.subi %skew1, %k : i32
  %3 = attn.load "table"[%skew2] : (i32) -> f32
  %whole = arith.fptosi %s : f32 to i32
  %4 = attn.load "table"[%whole] : (i32) -> f32
  %apart = arith.subi %k, %q : i32
  %5 = arith.sitofp %apart : i32 to f32
  %6 = attn.load "wide"[%apart] : (i32) -> i64
  %row = arith.extsi %q : i32 to i64
  %product = arith.muli %6, %row : i64
  %7 = arith.sitofp %product : i64 to f32
  %8 = arith.addf %s, %0 : f32
  %9 = arith.addf %8, %1 : f32
  %10 = arith.addf %9, %2 : f32
  %11 = arith.addf %10, %3 : f32
  %12 = arith.addf %11, %4 : f32
  %13 = arith.addf %12, %5 : f32
  %14 = arith.addf %13, %7 : f32
  attn.yield %14 : f32
} mask {
}

// -----

// A comparison of the two positions tells the sign of their distance: T5's buckets. Not one of numbers without a sign, nor of what is added to a position, which may wrap.
// CHECK-LABEL: tile.kernel @sides
// CHECK: tile.map() at(distance = %{{.*}}) -> !tile.tile<distance {{.*}}, f32, register> {
// CHECK-NEXT: ^bb0(%[[D:.*]]: i32):
// CHECK: %[[ISBEFORE:.*]] = arith.cmpi sgt, %[[D]], %c0_i32
// CHECK: arith.select %[[ISBEFORE]]
// CHECK: tile.element
// CHECK-NOT: at(distance
// CHECK: tile.element
// CHECK: tile.element
attn.attention @sides dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<table, f32, rank 1>, #attn.tensor<other, f32, rank 1>, #attn.tensor<third, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %is_before = arith.cmpi slt, %k, %q : i32
  %0 = arith.select %is_before, %c16, %c0 : i32
  %1 = attn.load "table"[%0] : (i32) -> f32
  %unsigned = arith.cmpi ult, %k, %q : i32
  %2 = arith.select %unsigned, %c16, %c0 : i32
  %3 = attn.load "other"[%2] : (i32) -> f32
  %moved = arith.addi %k, %c16 : i32
  %is_behind = arith.cmpi sgt, %moved, %q : i32
  %4 = arith.select %is_behind, %c16, %c0 : i32
  %5 = attn.load "third"[%4] : (i32) -> f32
  %6 = arith.addf %s, %1 : f32
  %7 = arith.addf %6, %3 : f32
  %8 = arith.addf %7, %5 : f32
  attn.yield %8 : f32
} mask {
}
