// RUN: attune-opt %s -split-input-file --attn-tile-size --attn-to-tile=granularity=16 | FileCheck %s

// The integer of 50 tanh lies in [-51, 51], so that k minus it does not wrap: the loop over keys ends where its table for
// the rows says, and no element is evaluated ahead. The cast's comparisons with the ends of i32 are decided.
// CHECK-LABEL: tile.kernel @soft
// CHECK-SAME:    fptosi.q: workspace [end 2, q by 128] i32
// CHECK:         %[[MOST:.*]] = tile.element %FPTOSI.Q{{.*}} {tile.name = "fptosi_q_max"}
// CHECK:         tile.domain k by 64 [%c0_i32, %{{.*}}) full [%{{.*}}, %{{.*}}) partial
attn.attention @soft dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<t, f32, rank 1>]} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %t = attn.load "t"[%q] : (i32) -> f32
  %x = math.tanh %t : f32
  %c = arith.constant 50.0 : f32
  %y = arith.mulf %x, %c : f32
  %lo = arith.constant -2147483648.0 : f32
  %hi = arith.constant 2147483648.0 : f32
  %a = arith.cmpf oge, %y, %lo : f32
  %z = arith.cmpf olt, %y, %hi : f32
  %in = arith.andi %a, %z : i1
  %zero = arith.constant 0.0 : f32
  %s = arith.select %in, %y, %zero : f32
  %n = arith.fptosi %s : f32 to i32
  %low = arith.cmpf olt, %y, %lo : f32
  %high = arith.cmpf oge, %y, %hi : f32
  %least = arith.constant -2147483648 : i32
  %most = arith.constant 2147483647 : i32
  %n1 = arith.select %low, %least, %n : i32
  %n2 = arith.select %high, %most, %n1 : i32
  %kn = arith.subi %k, %n2 : i32
  %r = arith.cmpi sle, %kn, %q : i32
  attn.yield %r : i1
}

// -----

// The tanh of a position is below 2: all keys are visible, which needs no table. No domain has a condition.
// CHECK-LABEL: tile.kernel @decided
// CHECK-NOT:     workspace
// CHECK:         tile.domain k by 128 [%c0_i32, %{{[^)]*}}) full
attn.attention @decided dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %x = arith.sitofp %k : i32 to f32
  %t = math.tanh %x : f32
  %two = arith.constant 2.0 : f32
  %0 = arith.cmpf olt, %t, %two : f32
  attn.yield %0 : i1
}

// -----

// The positions of documents that follow each other: tables by rows and by columns, each entry two searches, and one
// search for each row of a block.
// CHECK-LABEL: tile.kernel @packed
// CHECK-SAME:    offsets_count.q: workspace [end 2, q by 128] i32, offsets_count.k: workspace [end 2, k by 64] i32
// CHECK:         tile.domain k by 64 [%c0_i32, %{{.*}}) full where {
// CHECK-LABEL: tile.kernel @packed_bounds
// CHECK:         tile.search %offsets, %{{.*}} right
attn.attention @packed dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<offsets, i32, rank 1>]} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.search "offsets", %q right : i32
  %1 = attn.search "offsets", %k right : i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}
