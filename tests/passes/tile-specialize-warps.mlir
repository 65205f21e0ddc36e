// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -canonicalize -cse | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -tile-overlap-products -canonicalize -cse | FileCheck %s --check-prefix=OVERLAP
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -tile-overlap-products -tile-alternate-warpgroups -canonicalize -cse | FileCheck %s --check-prefix=TURNS
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -tile-overlap-products -tile-alternate-warpgroups -tile-to-sched=arch=sm_90a -canonicalize -cse -sched-assign-shared-memory -sched-verify | FileCheck %s --check-prefix=SCHED

// Every load is a ring, which one role fills and the other reads.
// ROLES-LABEL: tile.kernel @full
// ROLES-SAME:  copy_warps = 4
// ROLES-NOT:     tile.load
// ROLES-DAG:     %[[QR:.*]] = sched.ring "q_barriers" at 0 filled_by 1 emptied_by 8 : <1>
// ROLES-DAG:     %[[KR:.*]] = sched.ring "k_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// ROLES-DAG:     %[[VR:.*]] = sched.ring "v_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// ROLES:         sched.init_ring %[[QR]]
// ROLES:         sched.fence_init
// ROLES:         sched.barrier
// ROLES:         sched.role "producer" warps 4 registers 24
// ROLES:           sched.elect
// ROLES:           sched.copy_tile {{.*}} signal %[[QR]]
// ROLES:           sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:[^)]*]]) =
// ROLES:             sched.acquire %[[KR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:             sched.copy_tile {{.*}} signal %[[KR]]
// ROLES:             sched.acquire %[[VR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:             sched.copy_tile {{.*}} signal %[[VR]]
// ROLES:             arith.xori %[[PHASE]]
// ROLES:         sched.role "consumer" warps 8 registers 240
// ROLES:           sched.wait %[[QR]][%c0_i32] phase %c0_i32
// ROLES:           sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:[^)]*]]) =
// ROLES:             sched.wait %[[KR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:             tile.mma
// ROLES-NEXT:        sched.release %[[KR]][%[[STAGE]]]
// ROLES:             sched.wait %[[VR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:             tile.mma
// ROLES-NEXT:        sched.release %[[VR]][%[[STAGE]]]

// The loop is rotated: V of the tile before, then the softmax between the two waits.
// OVERLAP-LABEL: tile.kernel @full
// OVERLAP:       sched.role "consumer"
// OVERLAP:         sched.for_tiles
// OVERLAP:           tile.mma {{.*}} -> <q 128 x k 64, f32
// OVERLAP:           sched.for_tiles (%{{.*}}, %[[STAGE:.*]], %{{.*}}, %[[VSTAGE:.*]], %{{.*}}) = {{.*}} keeps
// OVERLAP:             %[[S:.*]] = tile.mma {{.*}}sched.async
// OVERLAP:             %[[O:.*]] = tile.mma {{.*}}sched.async
// OVERLAP:             sched.mma_wait pending 1 completes(%[[S]])
// OVERLAP:             sched.release %{{.*}}[%[[STAGE]]]
// OVERLAP:             math.exp 
// OVERLAP:             sched.mma_wait pending 0 completes(%[[O]],
// OVERLAP:             sched.release %{{.*}}[%[[VSTAGE]]]
// OVERLAP:             tile.convert
// OVERLAP:             sched.next
// OVERLAP:           tile.mma

// TURNS-LABEL: tile.kernel @full
// TURNS:         sched.arrive_warps %[[NEXT:.*]] threads 256
// TURNS:         sched.sync_warps %{{.*}} threads 256
// TURNS-NEXT:    tile.mma {{.*}}sched.async
// TURNS:         tile.mma {{.*}}sched.async
// TURNS-NEXT:    sched.arrive_warps %[[NEXT]] threads 256

// One instruction for each 16 of the contracted axis; the stage is full when all bytes of its boxes are there.
// SCHED-LABEL: sched.kernel @full arch "sm_90a" threads 384
// SCHED:         sched.shared "o_tile" at 0 over
// SCHED:         sched.expect_bytes 16384 on
// SCHED:         sched.load_box
// SCHED:         sched.mma_fence
// SCHED:         sched.mma_async
// SCHED:         sched.mma_commit
// SCHED:         sched.mma_wait pending 0
// SCHED:         sched.fence_async
// SCHED:         sched.store_box
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// Both roles search; the producer then has more registers, and most where it looks at a block pattern.
// ROLES-LABEL: tile.kernel @blocks
// ROLES:         sched.role "producer" warps 4 registers 56
// ROLES:             tile.touches
// ROLES:         sched.role "consumer" warps 8 registers 224
attn.attention @blocks dtype bf16 head_dim 64 x 64 scale 0.125 attributes {pattern = #attn.blocks<pattern, 128 x 64>, tensors = [#attn.tensor<pattern, i8, rank 3>]} score {
} mask {
}

// ROLES-LABEL: tile.kernel @documents
// ROLES:         sched.role "producer" warps 4 registers 40
// ROLES:           sched.next_visible
// ROLES:           sched.for_tiles
// ROLES:             sched.next_visible
// ROLES:         sched.role "consumer" warps 8 registers 232
// ROLES:           sched.next_visible
// ROLES:           sched.for_tiles
// ROLES:             {tile.name = "partial"}
// ROLES:             sched.wait
// ROLES:             sched.next_visible
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}
