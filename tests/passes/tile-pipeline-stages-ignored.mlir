// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir -tile-place-operands -tile-choose-path=arch=sm_90 -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages | FileCheck %s

// Where an architecture has no warpgroups a program loses its copy warps, and what its text says of stages with them: it is told.
// CHECK: tile.kernel @attention_backward_warpgroups
// CHECK: tile.remarks = [{{.*}}"products are warp-level and all warps copy: sm_90 has no warpgroup-level products", "what sched.at and sched.async say is not followed: it is for kernels with roles"]
// CHECK-NOT: sched.at
