// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --tile-fold-factors | FileCheck %s

// The softmax scale and the divisor of the softcap become one factor.
// CHECK-LABEL: tile.kernel @softcap
// CHECK-NOT: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: %[[C:.*]] = arith.constant 0.00416666688 : f32
// CHECK: %[[Y:.*]] = arith.mulf %{{.*}}, %[[C]] : f32
// CHECK: math.tanh %[[Y]] : f32
attn.attention @softcap dtype bf16 head_dim 64 x 64 scale 1.250000e-01 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.constant 30.0 : f32
  %0 = arith.divf %s, %c : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %c : f32
  attn.yield %2 : f32
} mask {
}
