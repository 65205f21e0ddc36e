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

// ALiBi: the scale is the last factor, the slope is divided by it, and finite times any distance.
// CHECK-LABEL: tile.kernel @alibi
// CHECK-DAG: %[[INVERSE:.*]] = arith.constant 8.000000e+00 : f32
// CHECK-DAG: %[[LARGEST:.*]] = arith.constant 7.9{{.*}}E+28 : f32
// CHECK: %[[DIVIDED:.*]] = arith.mulf %{{.*}}, %[[INVERSE]] : f32
// CHECK: math.copysign %[[LARGEST]], %[[DIVIDED]]
// CHECK: arith.cmpf ogt, %{{.*}}, %[[LARGEST]] : f32
// CHECK: %[[SLOPE:.*]] = arith.select
// CHECK: %[[BIAS:.*]] = arith.mulf %[[SLOPE]], %{{.*}} : f32
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[BIAS]] : f32
// CHECK: %[[X:.*]] = arith.mulf %[[SUM]], %{{.*}} : f32
// CHECK-NEXT: tile.yield %[[X]]
attn.attention @alibi dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.subi %k, %q : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %0, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}

// A slope that tanh bounds is divided without a clamp.
// CHECK-LABEL: tile.kernel @bounded_slope
// CHECK: math.tanh
// CHECK-NOT: math.copysign
// CHECK: arith.addf
attn.attention @bounded_slope dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %t = math.tanh %0 : f32
  %1 = arith.subi %k, %q : i32
  %2 = arith.sitofp %1 : i32 to f32
  %3 = arith.mulf %t, %2 : f32
  %4 = arith.addf %s, %3 : f32
  attn.yield %4 : f32
} mask {
}

// A loaded bias may be the smallest finite number: it is not divided.
// CHECK-LABEL: tile.kernel @bias
// CHECK: %[[LOADED:.*]] = tile.element
// CHECK: arith.addf %{{.*}}, %[[LOADED]] : f32
attn.attention @bias dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<bias, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%k] : (i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
