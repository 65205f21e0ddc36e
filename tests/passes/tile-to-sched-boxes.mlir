// Register tiles that warpgroups exchange, and add to memory.
// DEFINE: %{passes} = -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages
// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir %{passes} | FileCheck %s --check-prefix=MEET
// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s
// RUN: sed 's/%%DQ\[%%b, %%h, %%q0\] limit %%Sq/%%DQ[%%b, %%h, %%q0] limit %%c128/' %S/../kernels/attention_backward_warpgroups.mlir | attune-opt %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SHORT

// RUN: sed 's/^    tile.accumulate .*/&\n&/' %S/../kernels/attention_backward_warpgroups.mlir | attune-opt %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=TWICE
// RUN: attune-opt %S/../kernels/split_keys_warpgroups.mlir -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=OWN
// Both warpgroups write a stage of dS, start dV, and meet in front of dQ, once.
// MEET:         sched.role "consumer"
// MEET:         sched.for_tiles
// MEET:           %[[DS:.*]] = sched.exchange %{{.*}} into %{{.*}}[%[[STAGE:.*]]] :
// MEET-NOT:       sched.sync_warps
// MEET:           tile.mma {{.*}} {sched.async}
// MEET:           %[[ALL:.*]] = arith.constant 10 : i32
// MEET-NEXT:      sched.sync_warps %[[ALL]] threads 256
// MEET-NEXT:      tile.mma %[[DS]],
// MEET-NOT:       sched.sync_warps
// MEET:           sched.next

// Each warpgroup's rows of dQ are a box for each panel of 32 floats, which are added once those of the tile before have been read. The last are awaited at the end.
// CHECK:         %[[DQ:.*]] = sched.shared "dq_tile" {{.*}} : <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
// CHECK:         sched.role "consumer"
// CHECK:         sched.for_tiles
// CHECK:           sched.store_matrix {{.*}} step[
// CHECK:           sched.wait_boxes pending 0
// CHECK:           sched.sync_warps %{{.*}} threads 128
// CHECK:           sched.store_shared {{.*}} and {{.*}}, %[[DQ]][{{.*}}] step[
// CHECK:           sched.fence_async
// CHECK-NEXT:      sched.sync_warps %{{.*}} threads 128
// CHECK:           sched.store_box %[[DQ]]{{.*}} adds
// CHECK-NEXT:      sched.store_box %[[DQ]]{{.*}} adds
// CHECK-NEXT:      sched.commit_boxes
// CHECK:         sched.wait_boxes pending 0

// Rows that end before the view's axis does: lanes add their own.
// SHORT:         sched.role "consumer"
// SHORT-NOT:     adds
// SHORT:         sched.add_elements

// Tiles that are added to one view go through one buffer.
// TWICE:         sched.shared "dq_tile"
// TWICE-NOT:     sched.shared "dq_tile"
// TWICE-COUNT-4: sched.store_box {{.*}} adds
// TWICE-NOT:     adds

// What the copy engine does not store, warpgroups of persistent blocks store each for itself: none waits for another's rows.
// OWN-LABEL:     sched.kernel @partial
// OWN:           %[[PART:.*]] = sched.shared "part_o_tile"
// OWN:           sched.role "consumer"
// OWN:           math.log
// OWN-NOT:       threads 512
// OWN:           sched.sync_warps %[[GROUP:.*]] threads 128
// OWN:           sched.store_shared {{.*}} and {{.*}}, %[[PART]]
// OWN:           sched.sync_warps %[[GROUP]] threads 128
// OWN:           sched.copy_to_global %[[PART]]
// OWN-NOT:       threads 512

// Elements of a row are loaded in one branch, two at a time.
// OWN-LABEL:     sched.kernel @combine
// OWN:           %[[VIEW:.*]] = sched.slice %{{.*}} {tile.name = "part_o_head"}
// OWN:           scf.if
// OWN-NEXT:        scf.for
// OWN-NOT:           scf.for
// OWN-NOT:           scf.if
// OWN:               sched.load_elements %[[VIEW]]
