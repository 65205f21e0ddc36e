// RUN: attune-opt %s --attn-tile-size=arch=sm_90a --attn-to-tile=granularity=16 --tile-expand-logistic | FileCheck %s
// RUN: attune-opt %s --attn-tile-size=arch=sm_90 --attn-to-tile=granularity=16 --tile-expand-logistic | FileCheck %s --check-prefix=KEPT

// A special function, and the bits of what it leads to: no reciprocal.
// CHECK-LABEL: tile.kernel @silu
// CHECK:         %[[Y:.*]] = arith.negf
// CHECK:         %[[EXPONENT:.*]] = math.fma %[[Y]], %{{.*}}, %{{.*}} : f32
// CHECK:         %[[T:.*]] = math.exp2 %[[EXPONENT]]
// CHECK:         %[[A:.*]] = arith.addf %[[T]], %{{.*}} : f32
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[A]] : f32 to i32
// CHECK:         %[[NEGATED:.*]] = arith.subi %{{.*}}, %[[BITS]] : i32
// CHECK:         %[[SEED:.*]] = arith.bitcast %[[NEGATED]] : i32 to f32
// CHECK:         %[[MINUS:.*]] = arith.negf %[[A]]
// CHECK:         %[[REST:.*]] = math.fma %[[MINUS]], %[[SEED]], %{{.*}} : f32
// CHECK:         %[[P:.*]] = arith.mulf %[[SEED]], %[[REST]] : f32
// CHECK:         arith.maximumf %[[P]], %{{.*}} : f32
// CHECK-NOT:     arith.divf %{{.*}}, %{{.*}} : f32
// CHECK:         tile.yield
// Warp-level products leave no multiply-adds to spare.
// KEPT-LABEL: tile.kernel @silu
// KEPT:         math.exp %
// KEPT:         arith.divf
attn.attention @silu dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %0 = arith.negf %s : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  %4 = arith.mulf %s, %3 : f32
  attn.yield %4 : f32
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %hidden = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %0 = arith.cmpf oeq, %x, %hidden : f32
  %1 = arith.select %0, %zero, %x : f32
  attn.yield %1 : f32
}

// Softmax makes an error of the score one of p, and what is added may cancel.
// CHECK-LABEL: tile.kernel @softmax
// CHECK:         math.exp %
// CHECK:         arith.divf
attn.attention @softmax dtype bf16 head_dim 64 x 64 scale 1.250000e-01 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %0 = arith.negf %s : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  %4 = arith.mulf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}

// CHECK-LABEL: tile.kernel @difference
// CHECK:         math.exp %
// CHECK:         arith.divf
attn.attention @difference dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %0 = arith.negf %s : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  %4 = arith.subf %s, %3 : f32
  attn.yield %4 : f32
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %hidden = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %0 = arith.cmpf oeq, %x, %hidden : f32
  %1 = arith.select %0, %zero, %x : f32
  attn.yield %1 : f32
}

// Another sum than with one, and f16, whose digits the polynomial does not have.
// CHECK-LABEL: tile.kernel @other
// CHECK:         math.exp %
// CHECK:         arith.divf
attn.attention @other dtype bf16 head_dim 64 x 64 scale 1.250000e-01 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %1 = math.exp %s : f32
  %2 = arith.addf %1, %two : f32
  %3 = arith.divf %one, %2 : f32
  attn.yield %3 : f32
} mask {
}

// CHECK-LABEL: tile.kernel @half
// CHECK:         math.exp %
// CHECK:         arith.divf
attn.attention @half dtype f16 head_dim 64 x 64 scale 1.250000e-01 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %1 = math.exp %s : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  attn.yield %3 : f32
} mask {
}

// CHECK-LABEL: tile.kernel @exact
// CHECK:         math.exp %
// CHECK:         arith.divf
attn.attention @exact dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {precise} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %1 = math.exp %s : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  attn.yield %3 : f32
} mask {
}
