// Where outputs that TMA stores lie in shared memory, and what waits for that memory.
// DEFINE: %{kernel} = sed -e 's/\(dk: out.*d [0-9]*\] \)f32/\1bf16/; s/\(%%DK.*!tile.view<4, \)f32/\1bf16/' %S/../kernels/attention_backward_warpgroups.mlir
// DEFINE: %{passes} = -tile-place-operands -tile-choose-path=arch=sm_90a -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages
// RUN: %{kernel} | attune-opt %{passes} -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefixes=CHECK,ROOM
// RUN: %{kernel} | attune-opt %{passes} "-tile-to-sched=arch=sm_90a sram-budget=210000" -canonicalize -cse | FileCheck %s --check-prefixes=CHECK,LITTLE
// RUN: %{kernel} | sed -e 's/^  tile.store %%r#1, \(.*\)/  %%dvs = tile.map(%%r#1 : !values) -> !values {\n  ^bb0(%%e: f32):\n    %%y = arith.mulf %%e, %%scale : f32\n    tile.yield %%y : f32\n  }\n  tile.store %%dvs, \1/' | attune-opt %{passes} "-tile-to-sched=arch=sm_90a sram-budget=210000" -canonicalize -cse | FileCheck %s --check-prefix=APART

// dK takes the memory of V, of which each warpgroup has read its own rows alone. dV has memory of its own, or that of the sums
// of dQ, where the budget leaves no room: then the warps wait until the last sums have been added to memory.
// ROOM-NOT:      "dv_tile" at 0 over
// ROOM-DAG:      sched.shared "dv_tile" at 0 :
// LITTLE-DAG:    sched.shared "dv_tile" at 0 over %dq_tile
// CHECK-DAG:     sched.shared "dk_tile" at 0 over %1
// CHECK:         sched.role "consumer"
// CHECK:           sched.acquire %[[SUMS:.*]][%c0_i32] phase
// CHECK:           sched.next
// ROOM-NOT:      sched.acquire
// LITTLE:        sched.acquire %[[SUMS]][%c0_i32] phase

// TMA stores both after one fence and one barrier of the warpgroup; one wait serves both.
// CHECK-NOT:     sched.store_box
// CHECK:         sched.fence_async
// CHECK-NEXT:    arith.addi
// CHECK-NEXT:    sched.sync_warps %{{.*}} threads 128
// CHECK-NOT:     sched.sync_warps
// CHECK:         scf.if
// CHECK:           sched.store_box %dk_tile
// CHECK-NEXT:      sched.store_box %dv_tile
// CHECK-NEXT:      sched.commit_boxes
// CHECK-NEXT:      sched.wait_boxes pending 0
// CHECK-NOT:     sched.wait_boxes

// What is computed between the two stores, as with dropout, keeps them apart; dV still takes the memory of dQ's sums.
// APART-DAG:     sched.shared "dv_tile" at 0 over %dq_tile
// APART-DAG:     sched.shared "dk_tile" at 0 over %1
// APART:         sched.role "consumer"
// APART:           sched.acquire %[[SUMS:.*]][%c0_i32] phase
// APART:           sched.next
// APART:         sched.acquire %[[SUMS]][%c0_i32] phase
// APART:         sched.store_box %dk_tile
// APART:         sched.wait_boxes pending 0
// APART:         sched.store_box %dv_tile
// APART:         sched.wait_boxes pending 0
