// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse "-attn-recompute=arch=sm_90a save=score,dropout" -verify-diagnostics | FileCheck %s --check-prefix=SAVE
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse "-attn-recompute=arch=sm_90a memory-budget=1" | FileCheck %s --check-prefix=BUDGET
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-recompute=arch=sm_90a | FileCheck %s --check-prefix=NONE

// Of x and of its gradient alike nothing is left to compute but products once tanh is there: neither s nor what the
// region yields.
// SAVE-LABEL: attn.attention @capped
// SAVE-SAME:  attn.recompute = ["o saved, 67108864 bytes: an output", "lse saved
// SAVE-SAME:  saves = ["score", "dropout"]
// SAVE:       } score
// SAVE-NOT:   attn.saved
// SAVE:       math.tanh %{{.*}} {attn.saved}
// SAVE:       } mask
// SAVE-NOT:   attn.saved

// A budget holds nothing that does not fit.
// BUDGET-LABEL: attn.attention @capped
// BUDGET-SAME:  dropout recomputed, 268435456 bytes, saved {{.*}} ms slower
// BUDGET-NOT:   saves =

// NONE-LABEL: attn.attention @capped
// NONE-NOT:   attn.recompute
// NONE-NOT:   saves =
attn.attention @capped dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout, gradients = #attn.gradients<[]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %cap = arith.constant 50.0 : f32
  %0 = arith.divf %s, %cap : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  attn.yield %2 : f32
} mask {
}
