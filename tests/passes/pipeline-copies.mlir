// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=false" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=1 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -canonicalize -cse | FileCheck %s --check-prefix=ONE
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=3 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -canonicalize -cse | FileCheck %s --check-prefix=THREE

// Two stages: the first tile is copied before the loop, each step waits for its own tile and starts the next.
// CHECK-LABEL: tile.kernel @full
// CHECK-NOT:     tile.load
// CHECK-DAG:     %[[KR:.*]] = sched.shared "k_ring" at 0 : <stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
// CHECK-DAG:     %[[VR:.*]] = sched.shared "v_ring" at 0 : <stage 2 x k 32 x dv 64, bf16, shared, #sched.swizzle<128>>
// CHECK:         sched.copy_tile {{.*}} to %{{.*}} : <4, bf16>, <stage 1 x q 64 x d 64,
// CHECK:         scf.if
// CHECK:           sched.copy_tile {{.*}} to %[[KR]][%c0_i32]
// CHECK:           sched.copy_tile {{.*}} to %[[VR]][%c0_i32]
// CHECK:         sched.commit_copies
// CHECK:         sched.for_tiles (%[[TILE:.*]], %[[SLOT:[^)]*]]) =
// CHECK:           %[[NEXT:.*]] = arith.addi %[[TILE]], %c1_i32
// CHECK:           sched.wait_copies pending 0
// CHECK-NEXT:      sched.barrier
// CHECK:           %[[AFTER:.*]] = arith.addi %[[SLOT]], %c1_i32
// CHECK:           %[[FILL:.*]] = arith.remui %[[AFTER]], %c2_i32
// CHECK:           scf.if
// CHECK:             sched.copy_tile {{.*}} to %[[KR]][%[[FILL]]]
// CHECK:           sched.commit_copies
// CHECK:           sched.slot %[[KR]][%[[SLOT]]]
// CHECK:           tile.mma
// CHECK:           sched.slot %[[VR]][%[[SLOT]]]
// CHECK:           tile.mma
// CHECK:           sched.next

// One stage: nothing runs ahead of a whole tile, and each tile is behind its own wait.
// ONE-LABEL: tile.kernel @full
// ONE:         sched.for_tiles
// ONE:           sched.wait_copies
// ONE:           sched.barrier
// ONE:           tile.mma
// ONE:           sched.wait_copies
// ONE:           sched.barrier
// ONE:           tile.mma

// Three stages: one group stays under way while a tile is used.
// THREE-LABEL: tile.kernel @full
// THREE-DAG:     sched.shared "k_ring" at 0 : <stage 3 x k 32 x d 64,
// THREE:         sched.commit_copies
// THREE:         sched.commit_copies
// THREE:         sched.for_tiles (%[[TILE3:.*]], %[[SLOT3:[^)]*]]) =
// THREE:           arith.addi %[[TILE3]], %c2_i32
// THREE:           sched.wait_copies pending 1
// THREE:           arith.addi %[[SLOT3]], %c2_i32
// THREE-NEXT:      arith.remui %{{.*}}, %c3_i32
// THREE:           sched.commit_copies
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// Tiles that follow from a search: the index of the tile that is copied ahead is carried.
// CHECK-LABEL: tile.kernel @documents
// CHECK:         %[[FIRST:[^ ,]*]], %{{.*}} = sched.next_visible from %c0_i32 below %[[END:.*]] {
// CHECK:         ^bb0(%[[N:.*]]: i32):
// CHECK:           tile.element
// CHECK:           sched.visible
// CHECK:         %[[FOLLOWING:.*]] = arith.addi %[[FIRST]], %c1_i32
// CHECK:         %[[SECOND:[^ ,]*]], %{{.*}} = sched.next_visible from %[[FOLLOWING]] below %[[END]] {
// CHECK:         sched.for_tiles (%[[TILE:[^,]*]], %[[AHEAD:[^,]*]], %[[SLOT:[^)]*]]) = (%[[FIRST]], %[[SECOND]], %c0_i32) below %[[END]]
// CHECK:           %[[KMIN:.*]] = tile.element {{.*}} {tile.name = "ids_k_min"}
// CHECK:           %[[PARTIAL:.*]] = arith.xori %{{.*}}, %true
// CHECK:           sched.wait_copies
// CHECK:           arith.cmpi slt, %[[AHEAD]], %[[END]]
// CHECK:           sched.next_visible from %{{.*}} below %[[END]] {
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}

// Segments with a gap between them: what would be a tile of the gap is the first one behind it, for the tile that is
// copied ahead as well.
// CHECK-LABEL: tile.kernel @sinks
// CHECK:         %[[SINKS:.*]] = arith.divsi %{{.*}} {tile.name = "tiles_end"}
// CHECK:         %[[WINDOW:.*]] = arith.maxsi %{{.*}}, %[[SINKS]] {tile.name = "tiles_begin"}
// CHECK:         %[[PAST:.*]] = arith.cmpi sgt, %[[SINKS]], %c0_i32
// CHECK:         %[[BEHIND:.*]] = arith.maxsi %[[WINDOW]], %c0_i32
// CHECK:         %[[FIRST:.*]] = arith.select %[[PAST]], %c0_i32, %[[BEHIND]] {tile.name = "next_tile"}
// CHECK:         sched.for_tiles (%{{[^,]*}}, %[[AHEAD:[^,]*]], %{{.*}}) = (%[[FIRST]],
// CHECK:           %[[AFTER:.*]] = arith.addi %[[AHEAD]], %c1_i32 {tile.name = "next_tile"}
// CHECK:           %[[BEFORE:.*]] = arith.cmpi slt, %[[AFTER]], %[[SINKS]]
// CHECK:           %[[MOST:.*]] = arith.maxsi %[[AFTER]], %[[WINDOW]]
// CHECK:           %[[NEXT:.*]] = arith.select %[[BEFORE]], %[[AFTER]], %[[MOST]] {tile.name = "next_tile"}
// CHECK:           sched.next %[[AHEAD]], %[[NEXT]],
// THREE-LABEL: tile.kernel @sinks
// THREE:         sched.for_tiles (%{{[^,]*}}, %{{[^,]*}}, %[[SECOND:[^,]*]], %{{[^)]*}}) =
// THREE:           arith.addi %[[SECOND]], %c1_i32
attn.attention @sinks dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c4 = arith.constant 4 : i32
  %c100 = arith.constant 100 : i32
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %window = arith.cmpi slt, %distance, %c100 : i32
  %sink = arith.cmpi slt, %k, %c4 : i32
  %near = arith.ori %window, %sink : i1
  %visible = arith.andi %causal, %near : i1
  attn.yield %visible : i1
}
