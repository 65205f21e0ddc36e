// RUN: attune-opt %s --attn-tile-size --attn-to-tile=granularity=16 --tile-assign-roles -tile-assign-layouts --tile-pipeline-copies --tile-to-sched --canonicalize --cse --sched-rematerialize | FileCheck %s

// Branches of the loop, and what follows it, read the thread index and the tile of work again.
// CHECK-LABEL: sched.kernel @plain
// CHECK: sched.for_tiles
// CHECK: scf.if
// CHECK-NEXT: sched.read_thread_id
// CHECK: sched.next
// CHECK: sched.read_block_id
// CHECK: sched.read_thread_id
attn.attention @plain dtype bf16 head_dim 64 x 64 scale 1.250000e-01 score {
} mask {
}
