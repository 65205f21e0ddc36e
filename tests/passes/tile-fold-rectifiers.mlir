// RUN: attune-opt %s --attn-tile-size=arch=sm_90a --attn-to-tile=granularity=16 --canonicalize --tile-place-operands --tile-choose-path=arch=sm_90a --tile-assign-roles --tile-assign-layouts --tile-fold-rectifiers | FileCheck %s
// RUN: attune-opt %s --attn-tile-size=arch=sm_80 --attn-to-tile=granularity=16 --canonicalize --tile-place-operands --tile-choose-path=arch=sm_80 --tile-assign-roles --tile-assign-layouts --tile-fold-rectifiers | FileCheck %s
// RUN: attune-opt %s --attn-tile-size=arch=sm_80 --attn-to-tile=granularity=16 --canonicalize --tile-place-operands --tile-choose-path=arch=sm_80 --tile-assign-roles --tile-assign-layouts --tile-fold-rectifiers --tile-overlap-products --tile-ping-pong --tile-pipeline-copies --tile-specialize-warps --tile-pipeline-stages --tile-to-sched=arch=sm_80 | FileCheck %s --check-prefix=SCHED

// CHECK-LABEL: tile.kernel @relu
// CHECK-NOT:     arith.maximumf
// CHECK:         tile.convert %{{.*}} relu {tile.name = "p"} : <q {{.*}} -> <q {{.*}}, bf16, register, #sched.fragment<a,
// SCHED-LABEL: sched.kernel @relu
// SCHED:         sched.pack %{{.*}}, %{{.*}} relu : bf16
attn.attention @relu dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %p = arith.maximumf %x, %zero : f32
  attn.yield %p : f32
}

// What dropout keeps is as it was.
// CHECK-LABEL: tile.kernel @dropped
// CHECK-NOT:     arith.maximumf
// CHECK:         tile.dropout
// CHECK:         tile.convert %{{.*}} relu
attn.attention @dropped dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none", dropout} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %p = arith.maximumf %x, %zero : f32
  attn.yield %p : f32
}

// Another bound, a factor behind the maximum, and floats that are not packed keep it.
// CHECK-LABEL: tile.kernel @above_one
// CHECK:         arith.maximumf
// CHECK-NOT:     relu
attn.attention @above_one dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %one = arith.constant 1.0 : f32
  %p = arith.maximumf %x, %one : f32
  attn.yield %p : f32
}

// CHECK-LABEL: tile.kernel @squared
// CHECK:         arith.maximumf
// CHECK-NOT:     relu
attn.attention @squared dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %0 = arith.maximumf %x, %zero : f32
  %p = arith.mulf %0, %0 : f32
  attn.yield %p : f32
}

// CHECK-LABEL: tile.kernel @wide
// CHECK:         arith.maximumf
// CHECK-NOT:     relu
attn.attention @wide dtype f32 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %p = arith.maximumf %x, %zero : f32
  attn.yield %p : f32
}

// The max of expressions gives 0 for NaN.
// CHECK-LABEL: tile.kernel @of_numbers
// CHECK:         arith.maxnumf
// CHECK-NOT:     relu
attn.attention @of_numbers dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %p = arith.maxnumf %x, %zero : f32
  attn.yield %p : f32
}

// A map that does nothing else is gone.
// CHECK-LABEL: tile.kernel @alone
// CHECK:         %[[X:.*]] = tile.map({{.*}} only_if
// CHECK-NOT:     tile.map
// CHECK:         tile.convert %[[X]] relu {tile.name = "p"} : <q {{.*}} -> <q {{.*}}, bf16, register, #sched.fragment<a,
attn.attention @alone dtype bf16 head_dim 64 x 64 scale 1.0 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %zero = arith.constant 0.0 : f32
  %p = arith.maximumf %x, %zero : f32
  attn.yield %p : f32
}
