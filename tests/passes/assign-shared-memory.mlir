// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse -sched-assign-shared-memory | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=3 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse -sched-assign-shared-memory | FileCheck %s --check-prefix=THREE

// K and V: 2 x 32 x 64 x 2 bytes each; Q 64 x 64 x 2 bytes. The output tile takes the place of a ring, which is dead by then.
// CHECK-LABEL: sched.kernel @full
// CHECK-SAME:    shared_bytes 24576
// CHECK:         sched.shared "k_ring" at 0 :
// CHECK:         sched.shared "v_ring" at 8192 :
// CHECK:         sched.shared "q_tile" at 16384 :
// CHECK:         sched.shared "o_tile" at 0 :

// THREE-LABEL: sched.kernel @full
// THREE-SAME:    shared_bytes 32768
// THREE:         sched.shared "k_ring" at 0 :
// THREE:         sched.shared "v_ring" at 12288 :
// THREE:         sched.shared "q_tile" at 24576 :
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}
