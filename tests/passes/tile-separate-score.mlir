// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --tile-separate-score | FileCheck %s

// CHECK-LABEL: tile.kernel @softcap
// CHECK: %[[KEYS:.*]] = tile.axis_extent "k" : i32
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %[[KEYS]], %{{.*}} {tile.name = "has_keys"} : i32
// CHECK: tile.for_blocks
// CHECK: tile.map({{.*}}) at(q = %{{.*}}, k = %{{.*}}) only_if %[[SOME]]
attn.attention @softcap dtype bf16 head_dim 64 x 64 scale 1.250000e-01 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %1 = math.tanh %s : f32
  attn.yield %1 : f32
} mask {
}
