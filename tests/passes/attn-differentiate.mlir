// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -verify-diagnostics | FileCheck %s

// The score by s and by a captured tensor; softmax, which the op leaves out, by x and by the sum of weights.
// CHECK-LABEL: attn.attention @capped
// CHECK-SAME:  normaliser = "softmax"
// CHECK:       } score_grad {
// CHECK:         %[[TANH:.*]] = math.tanh
// CHECK:         %[[SQUARE:.*]] = arith.mulf %[[TANH]], %[[TANH]]
// CHECK:         %[[SLOPE:.*]] = arith.subf %{{.*}}, %[[SQUARE]]
// CHECK:         %[[GRADIENT:.*]] = arith.mulf %g, %[[SLOPE]]
// CHECK:         attn.add_gradient %[[GRADIENT]], "bias"[%h] : (i32)
// CHECK:         attn.yield %[[GRADIENT]]
// CHECK:       } p_grad {
// CHECK:         %[[P:.*]] = math.exp
// CHECK:         %[[DX:.*]] = arith.mulf %g, %[[P]]
// CHECK:         attn.yield %[[DX]]
// CHECK:       } divisor_grad {
// CHECK-NEXT:  ^bb0
// CHECK-NEXT:    attn.yield %g
// CHECK:       } lse_grad {
attn.attention @capped dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<bias, f32, rank 1>], gradients = #attn.gradients<["bias"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h] : (i32) -> f32
  %1 = arith.addf %s, %0 : f32
  %2 = math.tanh %1 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// Without `gradients` nothing is written.
// CHECK-LABEL: attn.attention @forward
// CHECK-NOT:   normaliser
// CHECK-NOT:   p_grad
attn.attention @forward dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {}

// -----

attn.attention @unknown dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'math.acos' has no rule for its derivative; write the expression with others, or do without its gradient}}
  %0 = math.acos %s : f32
  attn.yield %0 : f32
} mask {
}

// -----

// expected-error @+1 {{nothing depends on captured tensor "limits" in a way that has a gradient; leave it out of the gradients}}
attn.attention @masked dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {tensors = [#attn.tensor<limits, f32, rank 1>], gradients = #attn.gradients<["limits"]>} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "limits"[%q] : (i32) -> f32
  %1 = arith.sitofp %k : i32 to f32
  %2 = arith.cmpf olt, %1, %0 : f32
  attn.yield %2 : i1
}

// -----

// expected-error @+1 {{normaliser "bits" has no gradients: p, divisor or lse is 0, infinite or NaN for most finite scores, so that it cannot be checked; write expressions with finite values}}
attn.attention @bits dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {gradients = #attn.gradients<[]>, normaliser = "bits",
                statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<l, sum, 0.0 : f32>]} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %0 = arith.bitcast %x : f32 to i32
  %1 = arith.sitofp %0 : i32 to f32
  attn.yield %1 : f32
} lse {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %m : f32
}
