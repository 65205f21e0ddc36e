// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_86 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -tile-hoist-invariants=conditional-columns -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_86 -canonicalize -cse | FileCheck %s --check-prefix=COLUMNS

// No tile op but parameters is left; tiles are a lane's arrays, in unrolled loops.
// CHECK-LABEL: sched.kernel @full({{.*}}) grid {{.*}} arch "sm_86" threads 128 blocks_per_sm
// CHECK-NOT:     tile.{{(map|mma|reduce|load|store|splat|convert)}}
// CHECK:         sched.for_work grid (%{{.*}}) {
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

// Loads for each element go column by column: rows are the inner loops.
// CHECK-LABEL: sched.kernel @bias
// CHECK:         tile.element
// CHECK:         sched.set
// CHECK-NEXT:    } {{{.*}}sched.unroll, tile.name = "r"}
// CHECK-NEXT:    } {{{.*}}sched.unroll, tile.name = "e"}
// CHECK-NEXT:    } {{{.*}}sched.unroll, tile.name = "j"}
attn.attention @bias dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<bias, bf16, rank 3>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "bias"[%h, %q, %k] : (i32, i32, i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {
}

// Keys of Philox stay through the loop beside a narrow O, and are made opaque in each tile beside a wide one.
// CHECK-LABEL: sched.kernel @narrow
// CHECK-NOT:     sched.read_thread_id
// CHECK:         sched.philox
// CHECK-LABEL: sched.kernel @wide
// CHECK:         sched.for_tiles
// CHECK:           %[[THREAD:.*]] = sched.read_thread_id
// CHECK:           %[[ZERO:.*]] = arith.divui %[[THREAD]], %c1024_i32 {tile.name = "zero"} : i32
// CHECK:           %[[KEY0:.*]] = arith.addi %{{.*}}, %[[ZERO]] {tile.name = "key0"} : i32
// CHECK:           %[[KEY1:.*]] = arith.addi %{{.*}}, %[[ZERO]] {tile.name = "key1"} : i32
// CHECK:           sched.philox {{.*}}%[[KEY0]], %[[KEY1]]
attn.attention @narrow dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout} score {
} mask {
}
attn.attention @wide dtype bf16 head_dim 128 x 128 scale 0.125 attributes {dropout} score {
} mask {
}

// What a conditional mask loads by key: a lane loads one of 32 keys, all lanes exchange them, rows are the inner loops.
// COLUMNS-LABEL: sched.kernel @documents
// COLUMNS-SAME:    ids.q: workspace [end 2, q by 64] i32, ids.k: workspace [end 2, k by 32] i32
// COLUMNS:         sched.for_tiles
// COLUMNS:           %[[HELD:.*]] = sched.registers "column_ids" : <k 32, i32, register, #sched.fragment<lanes, warps 4>>
// COLUMNS-NEXT:      scf.if %{{.*}} {
// COLUMNS:             tile.element
// COLUMNS:             sched.set %{{.*}}, %[[HELD]]
// COLUMNS-NOT:         sched.shuffle
// COLUMNS:             scf.for
// COLUMNS:               scf.for
// COLUMNS:                 sched.get %[[HELD]]
// COLUMNS-NEXT:            sched.shuffle %{{.*}}, %{{.*}} : i32
// COLUMNS:                 scf.for
// COLUMNS:                   arith.select
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}
