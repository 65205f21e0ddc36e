// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -canonicalize -cse | FileCheck %s

// The scale leaves the scores; exp becomes exp2 of the difference times one factor.
// log2(e) * 0.125 = 0.18033688
// CHECK-LABEL: tile.kernel @scaled
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant 0.180336878 : f32
// CHECK-DAG:     %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK:         tile.for_blocks
// CHECK:           %[[S:.*]] = tile.mma
// CHECK:           %[[X:.*]] = tile.map(%[[S]] : {{.*}} only_if
// CHECK-NOT:       arith.mulf
// CHECK:           tile.reduce max %[[X]]
// CHECK:           tile.map(%[[X]],
// CHECK:             %[[DIFFERENCE:.*]] = arith.subf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:        %[[EXPONENT:.*]] = arith.mulf %[[DIFFERENCE]], %[[FACTOR]] : f32
// CHECK-NEXT:        math.exp2 %[[EXPONENT]] : f32
// CHECK-NOT:       math.exp %
// LSE gets the scale back.
// CHECK:           arith.mulf %{{.*}}, %[[SCALE]]
// CHECK-NEXT:      arith.cmpf
// CHECK-NEXT:      math.log
attn.attention @scaled dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// A negative factor would turn the maximum into a minimum: it stays in the scores.
// CHECK-LABEL: tile.kernel @negative
// CHECK:         tile.for_blocks
// CHECK:           %[[S:.*]] = tile.mma
// CHECK-NEXT:      tile.map(%[[S]] :
// CHECK:             arith.mulf
// CHECK:           tile.reduce max
// CHECK:           math.exp2
attn.attention @negative dtype bf16 head_dim 64 x 64 scale -0.125 score {
} mask {
}

// An exponential of the score alone: one factor, the scale's, the sign's and log2(e).
// CHECK-LABEL: tile.kernel @sigmoid
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant -0.180336878 : f32
// CHECK:         tile.for_blocks
// CHECK:           %[[S:.*]] = tile.mma
// CHECK-NEXT:      arith.addi
// CHECK:           tile.map(%{{.*}} : {{.*}}) ->
// CHECK-NEXT:      ^bb0(%[[X:.*]]: f32):
// CHECK-NEXT:        %[[EXPONENT:.*]] = arith.mulf %[[X]], %[[FACTOR]] : f32
// CHECK-NEXT:        math.exp2 %[[EXPONENT]] : f32
// CHECK:           } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the score", tile.name = "p"}
attn.attention @sigmoid dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "sigmoid"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %one = arith.constant 1.0 : f32
  %0 = arith.negf %x : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %one, %1 : f32
  %3 = arith.divf %one, %2 : f32
  attn.yield %3 : f32
}

// Kernels that are precise round as the formula does.
// CHECK-LABEL: tile.kernel @precise_sigmoid
// CHECK:         math.exp %
// CHECK-NOT:     math.exp2
attn.attention @precise_sigmoid dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "sigmoid", precise} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %one = arith.constant 1.0 : f32
  %0 = arith.negf %x : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %one, %1 : f32
  %3 = arith.divf %one, %2 : f32
  attn.yield %3 : f32
}
