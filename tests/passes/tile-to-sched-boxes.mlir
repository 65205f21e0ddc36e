// Register tiles that warpgroups exchange, and add to memory.
// DEFINE: %{passes} = -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages
// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir %{passes} | FileCheck %s --check-prefix=MEET
// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s
// RUN: sed -e 's/ {sched.ring = #sched.ring<stages 1, "producer" warp 1>}//' -e 's/%%DQ\[%%b, %%h, %%q0\] limit %%Sq/%%DQ[%%b, %%h, %%q0] limit %%c128/' %S/../kernels/attention_backward_warpgroups.mlir | attune-opt %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SHORT

// RUN: sed 's/^    tile.accumulate .*/&\n&/' %S/../kernels/attention_backward_warpgroups.mlir | attune-opt %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=TWICE
// RUN: attune-opt %S/../kernels/split_keys_warpgroups.mlir -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=OWN
// Both warpgroups write a stage of dS, start dV, and meet in front of dQ, once.
// MEET:         sched.role "consumer"
// MEET:         sched.for_tiles
// MEET:           %[[DS:.*]] = sched.exchange %{{.*}} into %{{.*}}[%[[STAGE:.*]]] :
// MEET-NOT:       sched.sync_warps
// MEET:           tile.mma {{.*}} {sched.async}
// MEET:           %[[ALL:.*]] = arith.constant 9 : i32
// MEET-NEXT:      sched.sync_warps %[[ALL]] threads 256
// MEET-NEXT:      tile.mma %[[DS]],
// MEET-NOT:       sched.sync_warps
// MEET:           sched.next

// Each warpgroup's rows of dQ are a box for each panel of 32 floats. One lane of the role that fills rings has them added, and the stage is empty once they have been read. Rows of odd number store other columns.
// CHECK:         %[[DQ:.*]] = sched.shared "dq_tile" {{.*}} : <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
// CHECK:         sched.role "producer"
// CHECK:           %[[ONE:.*]] = sched.elect
// CHECK:           sched.for_tiles
// CHECK:             sched.wait %[[RING:.*]][
// CHECK-NEXT:        scf.if %[[ONE]]
// CHECK:               scf.if
// CHECK-NEXT:            sched.store_box %[[DQ]][%{{.*}}, %c0_i32] {{.*}}, %c0_i32] adds
// CHECK-NEXT:            sched.store_box %[[DQ]][%{{.*}}, %c0_i32] {{.*}}, %c32_i32] adds
// CHECK-NEXT:            arith.addi
// CHECK-NEXT:            sched.store_box %[[DQ]][%{{.*}}, %c64_i32] {{.*}}, %c0_i32] adds
// CHECK-NEXT:            sched.store_box %[[DQ]][%{{.*}}, %c64_i32] {{.*}}, %c32_i32] adds
// CHECK:               sched.commit_boxes
// CHECK-NEXT:          sched.wait_boxes pending 0
// CHECK:             sched.sync_lanes
// CHECK-NEXT:        sched.release %[[RING]]
// CHECK:         sched.role "consumer"
// CHECK:         sched.for_tiles
// CHECK:           sched.acquire %[[RING]]
// CHECK:           %[[ODD:.*]] = arith.cmpi ne, %{{.*}}, %c0_i32 {tile.name = "odd_row"}
// CHECK:           %[[FIRST:.*]] = arith.select %[[ODD]]
// CHECK:           sched.store_shared %[[FIRST]] and %{{.*}}, %[[DQ]][{{.*}}] step[
// CHECK:           sched.fence_async
// CHECK-NEXT:      sched.sync_lanes
// CHECK-NEXT:      sched.commit %[[RING]]{{.*}} by_warp

// Rows that end before the view's axis does: lanes add their own.
// SHORT:         sched.role "consumer"
// SHORT-NOT:     adds
// SHORT:         sched.add_elements

// Of two additions each has a ring, which one warp empties.
// TWICE-COUNT-2: sched.shared "dq_tile"
// TWICE:         sched.role "producer"
// TWICE-COUNT-8: sched.store_box {{.*}} adds
// TWICE-NOT:     adds

// What TMA does not store, warpgroups of persistent blocks store each for itself: none waits for another's rows.
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
