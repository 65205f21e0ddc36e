// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_86 -canonicalize -cse | FileCheck %s

// No tile op but parameters is left; tiles are a lane's arrays, in unrolled loops.
// CHECK-LABEL: sched.kernel @full arch "sm_86" threads 128 blocks_per_sm
// CHECK-NOT:     tile.{{(map|mma|reduce|load|store|splat|convert)}}
// CHECK:         sched.for_work grid tile_q 64 (%[[B:.*]], %[[H:.*]], %[[Q0:.*]]) {
// CHECK-DAG:       sched.registers "acc" : <q 64 x dv 64, f32, register, #sched.fragment<c, warps 4>>
// CHECK-DAG:       sched.shared "k_ring" at 0
// CHECK:           sched.copy_async
// CHECK:           sched.for_tiles
// CHECK:             sched.load_matrix
// CHECK:             sched.mma
// CHECK:             arith.maxnumf
// CHECK:             sched.shuffle_xor %{{.*}}, 1 : f32
// CHECK:             sched.shuffle_xor %{{.*}}, 2 : f32
// CHECK:             math.exp
// CHECK:             sched.pack
// CHECK:             sched.load_matrix {{.*}} transpose
// CHECK:             sched.mma
// CHECK:             sched.next
// CHECK:           sched.is_null
// CHECK:           sched.store_element
// CHECK:           sched.copy_to_global
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}
