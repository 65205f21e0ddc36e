// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -tile-split-row-sums -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-lazy-rescale -tile-interleave-functions | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -tile-split-row-sums -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-lazy-rescale -tile-interleave-functions -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// The score's tanh is computed alone; exponentials stand between the steps of their sum.
// CHECK-LABEL: tile.kernel @softcap
// CHECK:         tile.map(%{{.*}}) -> !tile.tile<q 128 x k 64, f32
// CHECK:           math.tanh
// CHECK:         } {interleaved, tile.name = "x"}
// CHECK-NOT:     paced
// CHECK:         math.exp2
// CHECK-NOT:     paced
// CHECK:         math.tanh
// CHECK:         } {interleaved, tile.name = "x"}
// CHECK-NOT:     paced

// Of two blocks of 8 columns and both rows, one factor for all, which waits for the first element of the blocks before.
// SCHED-LABEL: sched.kernel @softcap
// SCHED:         %[[PACED:.*]] = sched.registers "interleaved" : <q 128, f32
// SCHED-NEXT:    sched.set %[[FACTOR:.*]], %[[PACED]][%c0{{.*}}, %c0
// SCHED-NEXT:    scf.for %[[JJ:.*]] = %c0{{.*}} to %c4
// SCHED:           sched.get %[[PACED]][%c0{{.*}}, %c0
// SCHED:           math.tanh
// SCHED:           %[[FIRST:.*]] = sched.get %{{.*}}[%c0{{.*}}, %{{.*}}, %c0
// SCHED:           %[[NEXT:.*]] = sched.after %{{.*}}, %[[FIRST]]
// SCHED-NEXT:      sched.set %[[NEXT]], %[[PACED]][%c0{{.*}}, %c0

// The half of the exponentials in front of the wait for the product is alone, with an addend for each row; the other half is summed.
// CHECK-LABEL: tile.kernel @half
// CHECK-NOT:     paced
// CHECK:         columns 0 to 32
// CHECK:         math.exp2
// CHECK:         } {interleaved
// CHECK:         columns 32 to 64
// CHECK-NOT:     paced

// SCHED-LABEL: sched.kernel @half
// SCHED:         %[[PACED:.*]] = sched.registers "interleaved" : <q 128, f32
// SCHED-NEXT:    scf.for %[[R:.*]] = %c0{{.*}} to %c2
// SCHED:           sched.set %{{.*}}, %[[PACED]][%c0{{.*}}, %[[R]]]
// SCHED:         scf.for %{{.*}} = %c0{{.*}} to %c2
// SCHED:           math.exp2
// SCHED:           scf.for %[[R:.*]] = %c0{{.*}} to %c2
// SCHED:             sched.after
// SCHED-NEXT:        sched.set %{{.*}}, %[[PACED]][%c0{{.*}}, %[[R]]]

// Two functions an element keep the unit busy as they are; one without an op in front has nothing to wait by.
// CHECK-LABEL: tile.kernel @two
// CHECK-NOT:     paced
// A division is one of two, and float32-accurate functions are many instructions.
// CHECK-LABEL: tile.kernel @other
// CHECK-NOT:     paced
// CHECK-LABEL: tile.kernel @sigmoid
// CHECK-NOT:     paced
// CHECK-LABEL: tile.kernel @accurate
// CHECK-NOT:     paced
attn.attention @softcap dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.constant 0.03 : f32
  %d = arith.constant 30.0 : f32
  %x = arith.mulf %s, %c : f32
  %t = math.tanh %x : f32
  %y = arith.mulf %t, %d : f32
  attn.yield %y : f32
} mask {
}
attn.attention @half dtype bf16 head_dim 128 x 128 scale 0.0625 score {
} mask {
}
attn.attention @two dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.constant 0.03 : f32
  %x = arith.mulf %s, %c : f32
  %t = math.tanh %x : f32
  %u = math.tanh %t : f32
  attn.yield %u : f32
} mask {
}
attn.attention @other dtype bf16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %x = math.tanh %s : f32
  attn.yield %x : f32
} mask {
}
attn.attention @sigmoid dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.constant -2.0 : f32
  %one = arith.constant 1.0 : f32
  %x = arith.mulf %s, %c : f32
  %e = math.exp2 %x : f32
  %d = arith.addf %e, %one : f32
  %y = arith.divf %one, %d : f32
  attn.yield %y : f32
} mask {
}
attn.attention @accurate dtype bf16 head_dim 64 x 64 scale 0.125 attributes {precise} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.constant 0.03 : f32
  %x = arith.mulf %s, %c : f32
  %t = math.tanh %x : f32
  attn.yield %t : f32
} mask {
}

// What follows from the function fills the time to the next one.
// CHECK-LABEL: tile.kernel @followed
// CHECK:         math.exp2
// CHECK-NOT:     paced
attn.attention @followed dtype bf16 head_dim 64 x 64 scale 1.250000e-01 attributes {normaliser = "none"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %two = arith.constant 2.0 : f32
  %0 = arith.mulf %x, %two : f32
  %1 = math.exp2 %0 : f32
  %2 = arith.addf %1, %two : f32
  %3 = arith.mulf %2, %2 : f32
  %4 = arith.addf %3, %two : f32
  %5 = arith.mulf %4, %4 : f32
  attn.yield %5 : f32
}
