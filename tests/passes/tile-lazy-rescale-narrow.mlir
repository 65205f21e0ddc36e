// Of one block of 16 columns there is no first half: the product with V is awaited in front of all exponentials, as without overlap.
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=16 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -tile-split-row-sums -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-lazy-rescale | FileCheck %s

// CHECK:         sched.overlap, {{.*}}sched.ping_pong, sched.roles = [{{.*}}]}
// CHECK:         sched.mma_wait pending 1
// CHECK:         sched.mma_wait pending 0
// CHECK-NOT:     columns
// CHECK:         math.exp2
// CHECK-NOT:     columns
// CHECK-NOT:     mma_wait
// CHECK:         scf.if
// CHECK-NOT:     columns
attn.attention @narrow dtype bf16 head_dim 128 x 128 scale 0.0625 score {
} mask {
}
