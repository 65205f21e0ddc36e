// RUN: attune-opt %s -attn-tile-size="arch=sm_80 tile-q=64 tile-k=32 warps=4 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s

// Products and reductions say what they compute by the names of the tiles, and folds where a term of the formula went.
// CHECK-LABEL: sched.kernel @alibi
// CHECK:       tile.comment = "S = Q K^T"
// CHECK:       tile.comment = "m_next: the greatest of X along k, and of m"
// CHECK:       tile.comment = "exp as exp2: log2(e) multiplies the difference"
// CHECK:       tile.comment = "l: the sum of P along k, and of l"
// CHECK:       tile.comment = "ACC += P V"
attn.attention @alibi dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %slope = arith.constant 0.5 : f32
  %d = arith.subi %k, %q : i32
  %f = arith.sitofp %d : i32 to f32
  %t = arith.mulf %f, %slope : f32
  %x = arith.addf %s, %t : f32
  attn.yield %x : f32
} mask {
}
