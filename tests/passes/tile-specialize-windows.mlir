// RUN: attune-opt %s -attn-to-tile=granularity=16 -canonicalize -tile-hoist-invariants -tile-stage-biases -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-specialize-warps -canonicalize -cse | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -attn-to-tile=granularity=16 -canonicalize -tile-hoist-invariants -tile-stage-biases -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -canonicalize -cse -sched-assign-shared-memory -sched-verify | FileCheck %s --check-prefix=SCHED

// The first warp starts the windows' boxes between those of K and V. All batches read the same windows: their tiles of work at one place
// stand side by side, in both roles.
// ROLES-LABEL: tile.kernel @two
// ROLES-DAG:     %[[AM:.*]] = sched.tensor_map %{{.*}} swizzle <128> {tile.name = "a_map"} : <3, f16> -> <128 x 64, f16>
// ROLES-DAG:     %[[BM:.*]] = sched.tensor_map %{{.*}} swizzle <128> {tile.name = "b_map"} : <2, f32> -> <128 x 32, f32>
// One map reads both: they have one pair of barriers, which two copies fill.
// ROLES-DAG:     %[[AR:.*]] = sched.ring "a_b_barriers" at 0 filled_by 2 emptied_by 8
// ROLES:         sched.role "producer"
// ROLES:           sched.for_work grid (%[[NUMBER:.*]]) {
// ROLES:             arith.remui %[[NUMBER]], %{{.*}} : i32
// ROLES:             {tile.name = "ordered_number"}
// ROLES:           sched.for_tiles
// ROLES:             sched.copy_tile {{.*}} signal
// ROLES:               sched.acquire %[[AR]]
// ROLES-NEXT:          sched.copy_window {{.*}} signal %[[AR]] by %[[AM]]
// ROLES-NEXT:          sched.copy_window {{.*}} signal %[[AR]] by %[[BM]]
// ROLES:             sched.copy_tile {{.*}} signal
// ROLES:         sched.role "consumer"
// ROLES:           sched.for_work grid (%[[NUMBER:.*]]) {
// ROLES:             arith.remui %[[NUMBER]], %{{.*}} : i32
// ROLES:             {tile.name = "ordered_number"}
// ROLES:           sched.wait %[[AR]]
// ROLES-NOT:       sched.wait
// ROLES:           sched.release %[[AR]]
// ROLES-NOT:       sched.release %[[AR]]
// ROLES:           sched.wait

// A leading index is clamped; the tensor's column is not the stage's. Of f16 a fragment of 16 columns at a time, of f32 element by element.
// SCHED-LABEL: sched.kernel @two
// SCHED-NOT:     tile.element
// SCHED:         sched.expect_bytes 16384 on %[[AR:.*]][%{{.*}}] : <2>
// SCHED-NEXT:    sched.load_box %{{.*}}[%c0_i32, %[[H:.*]], %[[Q0:.*]], %c0_i32] from %[[K0:.*]] to %[[A:.*]][%{{.*}}] signal %[[AR]]
// SCHED-NOT:     sched.load_box
// SCHED:         sched.expect_bytes 32768 on %[[AR]][%{{.*}}] : <2>
// SCHED:         sched.load_box %{{.*}}[%c0_i32, %c0_i32, %[[Q0]], %c0_i32] from %[[K0]] to %[[B:.*]][%{{.*}}] signal %[[AR]]
// SCHED:         %[[K32:.*]] = arith.addi %[[K0]], %c32_i32
// SCHED:         sched.load_box %{{.*}}[%c0_i32, %c0_i32, %[[Q0]], %c32_i32] from %[[K32]] to %[[B]][%{{.*}}] signal %[[AR]]
// SCHED:         sched.role "consumer"
// SCHED:           sched.load_matrix %[[A]][{{.*}}] step[{{.*}}] to %[[F:.*]][%c0_i32, %c0_i32]
// SCHED:           sched.get %[[F]]
// SCHED:           sched.unpack {{.*}} : f16
// SCHED:           sched.load_shared %[[B]]
attn.attention @two dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, f16, rank 3>, #attn.tensor<b, f32, rank 2>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c2 = arith.constant 2 : i32
  %pair = arith.divsi %h, %c2 : i32
  %0 = attn.load "a"[%pair, %q, %k] : (i32, i32, i32) -> f32
  %1 = attn.load "b"[%q, %k] : (i32, i32) -> f32
  %2 = arith.mulf %s, %0 : f32
  %3 = arith.addf %2, %1 : f32
  attn.yield %3 : f32
} mask {
}

// Each batch has its own window.
// ROLES-LABEL: tile.kernel @of_batch
// ROLES-NOT:     across_batches
// SCHED-LABEL: sched.kernel @of_batch
// SCHED:         sched.for_work grid (
// SCHED:         sched.role "consumer"
// SCHED:         sched.for_work grid (
attn.attention @of_batch dtype f16 head_dim 64 x 64 scale 1.250000e-01 attributes {tensors = [#attn.tensor<a, f16, rank 3>], attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, stage_biases = true>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "a"[%b, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}
