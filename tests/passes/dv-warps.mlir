// Warps that split the columns of V and O: from the plan to what each lane does.
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=16 warps=8 stages=1 q-registers=false dv-warps=2" | FileCheck %s --check-prefix=PLAN
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=16 warps=8 stages=1 q-registers=false dv-warps=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=16 warps=8 stages=1 q-registers=false dv-warps=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_86 -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// PLAN: #attn.plan<tile_q = 64, tile_k = 16, warps = 8, stages = 1, q_registers = false, blocks_per_sm = {{[0-9]+}}, longest_first = false, dv_warps = 2>

// Dv 264 is padded to two shares of 144 columns; a share of 288 bytes starts with a panel of 32. What has no dv is held by four
// warps, twice.
// CHECK-LABEL: tile.kernel @wide
// CHECK:         tile.load {{.*}} -> <q 64 x d 272, bf16, shared, #sched.swizzle<32>>
// CHECK:         tile.for_blocks
// CHECK:           tile.mma {{.*}} -> <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
// CHECK:           tile.reduce max {{.*}} -> <q 64, f32, register, #sched.fragment<rows, warps 4>>
// CHECK:           tile.convert {{.*}} -> <q 64 x k 16, bf16, register, #sched.fragment<a, warps 4>>
// CHECK:           tile.load {{.*}} -> <k 16 x dv 288, bf16, shared, #sched.swizzle<32>>
// CHECK:           tile.mma {{.*}} -> <q 64 x dv 288, f32, register, #sched.fragment<c, warps 4 x 2>>

// Rows by warp mod 4, columns of V by warp / 4; nine steps of 16 columns; one of the two warps of a row writes its LSE.
// SCHED-LABEL: sched.kernel @wide({{.*}}) grid {{.*}} arch "sm_86" threads 256 blocks_per_sm
// SCHED:         %[[WARP:[A-Za-z0-9_.]+]] = arith.divui {{.*}} {tile.name = "warp"} : i32
// SCHED:         %[[ROWWARP:.*]] = arith.remui %[[WARP]], %c4_i32
// SCHED:         arith.muli %[[ROWWARP]], %c16_i32 {{.*}} {tile.name = "warp_row"} : i32
// SCHED:         %[[DVWARP:.*]] = arith.divui %[[WARP]], %c4_i32 {tile.name = "dv_warp"} : i32
// SCHED:         %[[COLUMN:.*]] = arith.muli %[[DVWARP]], %c144_i32 {{.*}} {tile.name = "warp_column"} : i32
// SCHED:         sched.for_tiles
// SCHED:           sched.load_matrix
// SCHED:           scf.for %{{.*}} = %c0_i32 to %c9_i32
// SCHED:             %[[LANE:.*]] = arith.addi %[[COLUMN]], %{{.*}}
// SCHED:             sched.load_matrix %{{.*}}[%c0_i32, %{{.*}}, %[[LANE]]] step[%c0_i32, %{{.*}}] {{.*}} transpose
// SCHED:           sched.next
// SCHED:         sched.is_null
// SCHED:           %[[QUAD:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// SCHED:           %[[FIRST:.*]] = arith.cmpi eq, %[[DVWARP]], %c0_i32
// SCHED:           %[[WRITER:.*]] = arith.andi %[[QUAD]], %[[FIRST]]
// SCHED:           arith.andi %[[WRITER]],
// SCHED:           sched.store_element
// SCHED:         %[[SHARED:.*]] = arith.addi %[[COLUMN]], %{{.*}}
// SCHED:         sched.store_shared %{{.*}}, %{{.*}}[%c0_i32, %{{.*}}, %[[SHARED]]]
attn.attention @wide dtype bf16 head_dim 264 x 264 scale 0.125 score {
} mask {
}
