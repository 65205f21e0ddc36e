// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-specialize-warps -canonicalize -cse | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -canonicalize -cse | FileCheck %s --check-prefix=OVERLAP
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-ping-pong -tile-specialize-warps -tile-pipeline-stages -canonicalize -cse | FileCheck %s --check-prefix=TURNS
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-ping-pong -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -sched-expand-searches -canonicalize -cse -sched-assign-shared-memory -sched-verify | FileCheck %s --check-prefix=SCHED

// Every load is a ring, which one role fills and the other reads. Each role runs the loop over work; a tile of it takes the rings of K
// and V where the one before left them, and the stage and phase of Q's ring from its number.
// ROLES-LABEL: tile.kernel @full
// ROLES-SAME:  sched.persistent, sched.ping_pong, sched.roles = [#sched.role<"producer", warps 4, registers {{[0-9]+}}>, #sched.role<"consumer", warps {{[0-9]+}}, registers {{[0-9]+}}>]}
// ROLES-NOT:     tile.load
// ROLES-DAG:     %[[Q:.*]] = sched.shared "q_ring" at 0 : <stage 2 x q 128 x d 64
// ROLES-DAG:     %[[QR:.*]] = sched.ring "q_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// ROLES-DAG:     %[[KR:.*]] = sched.ring "k_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// ROLES-DAG:     %[[VR:.*]] = sched.ring "v_barriers" at 0 filled_by 1 emptied_by 8 : <2>
// ROLES:         %[[TASKS:.*]] = sched.shared "tasks" at 0 : <stage 2 x message 1 x field 4, i32, shared>
// ROLES:         sched.init_ring %[[QR]]
// ROLES:         sched.fence_init
// ROLES:         sched.barrier
// ROLES:         sched.role "producer" warps 4 registers 24
// ROLES:           sched.thread_id in_role
// ROLES:           sched.elect
// ROLES:           sched.for_work persistent from %{{.*}} below %[[TILES:.*]] carries (%c0_i32, %c0_i32) (%{{.*}}, %[[COUNT:.*]], %[[STAGE0:.*]], %[[PHASE0:.*]]) {
// ROLES:             %[[NEXT:.*]] = arith.addi %{{.*}} {tile.name = "next_number"}
// ROLES:             %[[IS:.*]] = arith.cmpi ult, %[[NEXT]], %[[TILES]]
// ROLES:             %[[MORE:.*]] = arith.extui %[[IS]]
// ROLES:             %[[WALKS:.*]] = arith.divui %[[COUNT]], %c2_i32
// ROLES:             %[[QSTAGE:.*]] = arith.remui %[[COUNT]], %c2_i32
// ROLES:             %[[QPHASE:.*]] = arith.andi %[[WALKS]], %c1_i32
// ROLES:             sched.acquire %[[QR]][%[[QSTAGE]]] phase %[[QPHASE]]
// ROLES-NEXT:        sched.send %[[B:.*]], %[[H:.*]], %[[Q0:.*]], %[[MORE]] to %[[TASKS]][%[[QSTAGE]]]
// ROLES-NEXT:        sched.copy_tile {{.*}} to %[[Q]][%[[QSTAGE]]] signal %[[QR]]
// ROLES:             %{{.*}}, %[[AFTER1:.*]], %[[AFTER2:.*]] = sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:[^)]*]]) = (%c0_i32, %[[STAGE0]], %[[PHASE0]]) {{.*}} keeps {
// ROLES:               sched.acquire %[[KR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:               sched.copy_tile {{.*}} signal %[[KR]]
// ROLES:               sched.acquire %[[VR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:               sched.copy_tile {{.*}} signal %[[VR]]
// ROLES:               arith.xori %[[PHASE]]
// ROLES:             %[[NEXT0:.*]] = sched.uniform %[[AFTER1]]
// ROLES:             %[[NEXT1:.*]] = sched.uniform %[[AFTER2]]
// ROLES:             sched.next %[[NEXT]], %[[NEXT0]], %[[NEXT1]]
// ROLES:         sched.role "consumer" warps 8 registers 240
// ROLES-NEXT:      sched.for_work received carries (%c0_i32, %c0_i32) (%[[COUNT:.*]], %[[STAGE0:.*]], %[[PHASE0:.*]]) {
// ROLES:             %[[QSTAGE:.*]] = arith.remui %[[COUNT]], %c2_i32
// ROLES:             sched.wait %[[QR]][%[[QSTAGE]]]
// ROLES-NEXT:        %[[WORK:.*]]:4 = sched.receive from %[[TASKS]][%[[QSTAGE]]]
// ROLES:             sched.uniform %[[WORK]]#2
// ROLES:             sched.slot %[[Q]][%[[QSTAGE]]]
// ROLES:             %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[AFTER4:.*]], %[[AFTER5:.*]] = sched.for_tiles (%[[TILE:.*]], %[[STAGE:.*]], %[[PHASE:[^)]*]]) = (%c0_i32, %[[STAGE0]], %[[PHASE0]]) {{.*}} keeps {
// ROLES:               sched.wait %[[KR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:               tile.mma
// ROLES-NEXT:          sched.release %[[KR]][%[[STAGE]]]
// ROLES:               sched.wait %[[VR]][%[[STAGE]]] phase %[[PHASE]]
// ROLES:               tile.mma
// ROLES-NEXT:          sched.release %[[VR]][%[[STAGE]]]
// ROLES:             sched.release %[[QR]][%[[QSTAGE]]]
// ROLES:             %[[NEXT0:.*]] = sched.uniform %[[AFTER4]]
// ROLES:             %[[NEXT1:.*]] = sched.uniform %[[AFTER5]]
// ROLES:             sched.next %[[WORK]]#3, %[[NEXT0]], %[[NEXT1]]

// The loop is rotated: V of the tile before, then the softmax between the two waits.
// OVERLAP-LABEL: tile.kernel @full
// OVERLAP:       sched.role "consumer"
// OVERLAP:         %m_end, %l_end, %acc_end, %first_tile_end, %[[STAGE_END:.*]], %[[PHASE_END:.*]] = sched.for_tiles
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
// OVERLAP:         %[[NEXT0:.*]] = sched.uniform %[[STAGE_END]]
// OVERLAP:         %[[NEXT1:.*]] = sched.uniform %[[PHASE_END]]
// OVERLAP:         sched.next %{{.*}}, %[[NEXT0]], %[[NEXT1]]

// A turn is handed out once, before the first tile of work.
// TURNS-LABEL: tile.kernel @full
// TURNS:         sched.arrive_warps %[[NEXT:.*]] threads 256
// TURNS:         sched.for_work received
// TURNS:         sched.sync_warps %{{.*}} threads 256
// TURNS-NEXT:    tile.mma {{.*}}sched.async
// TURNS:         tile.mma {{.*}}sched.async
// TURNS-NEXT:    sched.arrive_warps %[[NEXT]] threads 256

// One instruction for each 16 of the contracted axis; the stage is full when all bytes of its boxes are there. O has shared memory of its
// own, which is written again once the boxes of the tile before have been read; the last ones are read before the block ends.
// SCHED-LABEL: sched.kernel @full({{.*}}) grid {{.*}} arch "sm_90a" threads 384
// SCHED:         sched.shared "o_tile" at 32768 : <stage 1 x q 128 x dv 64
// SCHED:         sched.expect_bytes 16384 on
// SCHED:         sched.load_box
// SCHED:         sched.role "consumer"
// SCHED:         sched.for_work received
// SCHED:           sched.mma_fence
// SCHED:           sched.mma_async
// SCHED:           sched.mma_commit
// SCHED:           sched.mma_wait pending 0
// SCHED:           sched.wait_boxes pending 0
// SCHED:           sched.sync_warps %[[OWN:.*]] threads 128
// SCHED:           sched.store_matrix
// SCHED:           sched.fence_async
// SCHED:           sched.sync_warps %[[OWN]] threads 128
// SCHED:           sched.store_box
// SCHED-NEXT:      sched.commit_boxes
// SCHED:           sched.next
// SCHED:         scf.if
// SCHED-NEXT:      sched.wait_boxes pending 0
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, q_stages = 2, ping_pong = true>} score {
} mask {
}

// A warpgroup visits the tiles that its own 64 rows see, and passes over the block's before and after them: it waits for their stages and releases them. Of a window the last tile
// comes first: the n-th in place is the n-th from the end, for both roles.
// ROLES-LABEL: tile.kernel @window
// ROLES:         sched.role "producer"
// ROLES-NOT:       tile.warpgroup_row
// ROLES:           sched.for_tiles (%[[PLACE:[A-Za-z0-9_.]+]], {{.*}}) = (%[[FIRST:[A-Za-z0-9_.]+]], {{.*}}) below %[[END:[A-Za-z0-9_.]+]] keeps {
// ROLES:             %[[SUM:.*]] = arith.addi %[[FIRST]], %[[END]]
// ROLES:             %[[MIRRORED:.*]] = arith.subi %[[SUM]], %[[PLACE]]
// ROLES:             %[[TILE:.*]] = arith.subi %[[MIRRORED]], %c1_i32
// ROLES:             arith.muli %[[TILE]], %c64_i32 {tile.name = "k0"}
// ROLES:         sched.role "consumer"
// ROLES:           tile.warpgroup_row %{{.*}} by 64
// ROLES:           %[[OWN_END:.*]] = arith.minsi {{.*}} {tile.name = "own_end"}
// ROLES:           %[[OWN_BEGIN:.*]] = arith.minsi %{{.*}}, %[[OWN_END]]
// ROLES:           %[[BEFORE0:.*]], %[[BEFORE1:.*]], %[[BEFORE2:.*]] = sched.for_tiles {{.*}} below %[[OWN_BEGIN]] keeps {
// ROLES:             sched.wait %[[KR:.*]][%[[STAGE:.*]]] phase
// ROLES-NEXT:        sched.release %[[KR]][%[[STAGE]]]
// ROLES-NEXT:        sched.wait %[[VR:.*]][%[[STAGE]]] phase
// ROLES-NEXT:        sched.release %[[VR]][%[[STAGE]]]
// ROLES:           %{{.*}}, %{{.*}}, %{{.*}}, %[[AFTER3:.*]], %[[AFTER4:.*]], %[[AFTER5:.*]] = sched.for_tiles ({{.*}}) = (%[[BEFORE0]], %[[BEFORE1]], %[[BEFORE2]]) below %[[OWN_END]] {{.*}} keeps {
// ROLES:             tile.mma
// ROLES:           sched.for_tiles ({{.*}}) = (%[[AFTER3]], %[[AFTER4]], %[[AFTER5]]) below %{{.*}} keeps {
// ROLES-NEXT:        arith.addi
// ROLES-NEXT:        sched.wait %[[KR]]
// ROLES-NEXT:        sched.release %[[KR]]
// Each warpgroup has a turn for each of the block's tiles but one: the first that it works on, or, if it works on none, the last.
// TURNS-LABEL: tile.kernel @window
// TURNS:         tile.warpgroup_row
// TURNS:         %[[WORK_BEFORE:[^,]*]], %{{.*}}, %{{.*}} = sched.for_tiles {{.*}} keeps {
// TURNS:           sched.wait
// TURNS:           %[[MORE:.*]] = arith.cmpi slt, %{{.*}}, %[[END:.*]] : i32
// TURNS-NEXT:      scf.if %[[MORE]] {
// TURNS-NEXT:        sched.sync_warps %[[OWN:.*]] threads 256
// TURNS-NEXT:        sched.arrive_warps %[[NEXT:.*]] threads 256
// TURNS-NEXT:      }
// TURNS-NEXT:      sched.release
// TURNS:         %m_end, %l_end, %acc_end, %[[WORKED_TO:[^,]*]], {{.*}} = sched.for_tiles
// TURNS-NOT:       sched.sync_warps
// TURNS:           tile.mma {{.*}}sched.async
// TURNS:           sched.for_tiles
// TURNS:             sched.sync_warps %[[OWN]] threads 256
// TURNS:         %[[WORKED:.*]] = arith.cmpi ne, %[[WORKED_TO]], %[[WORK_BEFORE]]
// TURNS:         sched.for_tiles {{.*}} below %[[END]] keeps {
// TURNS:           %[[MORE:.*]] = arith.cmpi slt
// TURNS:           %[[TURN:.*]] = arith.ori %[[WORKED]], %[[MORE]]
// TURNS-NEXT:      scf.if %[[TURN]]
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, q_stages = 2, ping_pong = true>} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  %c256 = arith.constant 256 : i32
  %1 = arith.subi %q, %k : i32
  %2 = arith.cmpi slt, %1, %c256 : i32
  %3 = arith.andi %0, %2 : i1
  attn.yield %3 : i1
}

// Room for O beside Q, but not for Q twice: the ring of Q has one stage, whose phase is the parity of the tile's number.
// ROLES-LABEL: tile.kernel @wide
// ROLES-SAME:    sched.overlap, sched.persistent, sched.roles
// ROLES:         %[[QR:.*]] = sched.ring "q_barriers" at 0 filled_by 1 emptied_by 8 : <1>
// ROLES:         sched.for_work persistent {{.*}} (%{{.*}}, %[[COUNT:.*]], %{{.*}}, %{{.*}}) {
// ROLES:           %[[QPHASE:.*]] = arith.andi %[[COUNT]], %c1_i32
// ROLES:           sched.acquire %[[QR]][%c0_i32] phase %[[QPHASE]]
// ROLES:         sched.role "consumer"
// ROLES:           sched.release %[[QR]][%c0_i32]
// With `overlap` V of a tile is waited for when its softmax ends, before the product with V of the tile before is: that product runs beside the softmax.
// OVERLAP-LABEL: tile.kernel @wide
// OVERLAP-NOT:     turns
// OVERLAP:       %[[VR:.*]] = sched.ring "v_barriers"
// OVERLAP:       sched.role "consumer"
// OVERLAP:         sched.for_tiles (%{{.*}}, %[[STAGE0:.*]], %[[PHASE0:.*]]) =
// OVERLAP:           sched.wait %[[VR]][%[[STAGE0]]] phase %[[PHASE0]]
// OVERLAP:           sched.for_tiles (%{{.*}}, %[[STAGE:.*]], %[[PHASE:.*]], %[[VSTAGE:.*]]) = {{.*}} keeps
// OVERLAP:             tile.mma {{.*}}sched.async
// OVERLAP-NOT:         sched.wait %[[VR]]
// OVERLAP:             tile.mma {{.*}}sched.async
// OVERLAP:             sched.mma_wait pending 1
// OVERLAP:             math.exp 
// OVERLAP:             sched.wait %[[VR]][%[[STAGE]]] phase %[[PHASE]]
// OVERLAP-NEXT:        sched.mma_wait pending 0
// OVERLAP-NEXT:        sched.release %[[VR]][%[[VSTAGE]]]
// TURNS-LABEL: tile.kernel @wide
// TURNS-NOT:     sched.arrive_warps
// TURNS-LABEL: tile.kernel @widest
attn.attention @wide dtype bf16 head_dim 192 x 192 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, persistent = true, overlap = true>} score {
} mask {
}

// No room for O beside Q: a block has one tile of work, and stores O over Q, which is filled once and not released.
// ROLES-LABEL: tile.kernel @widest
// ROLES-SAME:    sched.ping_pong, sched.roles = {{.*}}}
// ROLES:         %[[QR:.*]] = sched.ring "q_barriers" at 0 filled_by 1 emptied_by 8 : <1>
// ROLES:         sched.for_work grid (
// ROLES-NOT:     sched.acquire %[[QR]]
// ROLES:         sched.role "consumer"
// ROLES-NEXT:      sched.for_work grid (
// ROLES:           sched.wait %[[QR]][%c0_i32] phase %c0_i32
// ROLES-NOT:       sched.release %[[QR]]
// SCHED-LABEL: sched.kernel @widest
// SCHED:         sched.shared "o_tile" at 0 over
// SCHED:         sched.store_box
// SCHED:         sched.commit_boxes
// SCHED-NEXT:    sched.wait_boxes pending 0
attn.attention @widest dtype bf16 head_dim 256 x 256 scale 0.125 score {
} mask {
}

// The producer searches, with a few registers more, and says with Q what the first tile is, with K what the next one is and whether the mask
// decides within this one. The consumers do not search.
// ROLES-LABEL: tile.kernel @blocks
// ROLES:         %[[TASKS:.*]] = sched.shared "tasks" at 0 : <stage 2 x message 1 x field 8, i32, shared>
// ROLES:         %[[VISITS:.*]] = sched.shared "visits" at 0 : <stage 2 x message 1 x field 2, i32, shared>
// ROLES:         sched.role "producer" warps 4 registers 40
// ROLES:           %[[FIRST:[^ ,]*]], %{{.*}} = sched.next_visible from %{{.*}} below %{{[^ ]*}} {
// ROLES:             tile.touches
// ROLES:           sched.send %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]] to %[[TASKS]]
// ROLES:         sched.role "consumer" warps 8 registers 232
// ROLES-NOT:       sched.next_visible
// ROLES-NOT:       tile.touches
attn.attention @blocks dtype bf16 head_dim 64 x 64 scale 0.125 attributes {pattern = #attn.blocks<pattern, 128 x 64>, tensors = [#attn.tensor<pattern, i8, rank 3>]} score {
} mask {
}

// Where the tiles of keys follow from tables, the producer's first warp claims tiles of work.
// ROLES-LABEL: tile.kernel @documents
// ROLES:         %[[KR:.*]] = sched.ring "k_barriers"
// ROLES:         %[[TASKS:.*]] = sched.shared "tasks" at 0 : <stage 2 x message 1 x field 8, i32, shared>
// ROLES:         %[[VISITS:.*]] = sched.shared "visits" at 0 : <stage 2 x message 1 x field 2, i32, shared>
// ROLES:         sched.role "producer" warps 4 registers 40
// ROLES:           sched.for_work persistent from %{{.*}} below %[[TILES:.*]] carries (%c0_i32, %c0_i32) (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {
// ROLES-NEXT:        %[[COUNTER:.*]] = tile.param "work_counter"
// ROLES-NEXT:        %[[CLAIMED:.*]] = sched.claim_work %[[COUNTER]]
// ROLES:             %[[B:.*]] = sched.nonnegative %{{.*}} {tile.name = "b"}
// ROLES:             %[[H:.*]] = sched.nonnegative %{{.*}} {tile.name = "h"}
// ROLES:             %[[Q0:.*]] = arith.muli %{{.*}}, %c128_i32 overflow<nsw> {tile.name = "q0"}
// With the first tile it finds that of each warpgroup's rows.
// ROLES:           %[[FIRST:[^ ,]*]], {{.*}}, %[[BEGINS:[^ ,]*]]:2 = sched.next_visible from %{{.*}} below %{{.*}} parts i32, i32
// ROLES:             sched.visible %{{.*}}, %{{.*}} parts
// ROLES:           %[[NUMBER:.*]] = sched.shuffle %[[CLAIMED]], %c0_i32
// ROLES:           %[[IS:.*]] = arith.cmpi ult, %[[NUMBER]], %[[TILES]]
// ROLES:           %[[MORE:.*]] = arith.extui %[[IS]]
// ROLES:           sched.send %[[B]], %[[H]], %[[Q0]], %[[MORE]], %[[FIRST]], %[[BEGINS]]#0, %[[BEGINS]]#1 to %[[TASKS]]
// What a search finds out about 32 tiles is carried along; the tile's bit says whether it is full.
// ROLES:           sched.for_tiles (%[[TILE:[^,]*]], %[[STAGE:[^,]*]], %{{[^,]*}}, %[[ORIGIN:[^,]*]], %[[VISIBLE:[^,]*]], %[[FULL:[^,)]*]]) = (%[[FIRST]],
// ROLES:             %[[NEXT:[^ ,]*]], %{{.*}} = sched.next_visible from %{{.*}} below %{{.*}} seen %[[ORIGIN]], %[[VISIBLE]], %[[FULL]]
// ROLES:             %[[PLACE:.*]] = arith.subi %[[TILE]], %[[ORIGIN]]
// ROLES:             arith.shrui %[[FULL]], %[[PLACE]]
// ROLES:             %[[PARTIAL:.*]] = arith.extui
// ROLES:             sched.acquire %[[KR]][%[[STAGE]]]
// ROLES-NEXT:        sched.send %[[NEXT]], %[[PARTIAL]] to %[[VISITS]][%[[STAGE]]]
// ROLES-NEXT:        sched.copy_tile {{.*}} signal %[[KR]]
// ROLES:             sched.next %[[NEXT]],
// ROLES:           sched.next %[[NUMBER]], %{{.*}}, %{{.*}} : i32, i32, i32
// ROLES:         sched.role "consumer" warps 8 registers 232
// ROLES-NOT:       sched.next_visible
// ROLES:           %[[TASK:.*]]:7 = sched.receive from %[[TASKS]]
// ROLES:           %[[FIRST:.*]] = sched.uniform %[[TASK]]#4
// ROLES:           %[[ISFIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}}
// ROLES:           %[[PART:.*]] = arith.select %[[ISFIRST]], %[[TASK]]#5, %[[TASK]]#6
// ROLES:           %[[OWN:.*]] = sched.uniform %[[PART]]
// ROLES:           %[[BEGIN:.*]] = arith.minsi %[[OWN]]
// ROLES:           sched.for_tiles (%{{.*}}, %{{.*}}, %{{.*}}) = (%[[FIRST]], %{{.*}}) below %[[BEGIN]]
// ROLES-NOT:         tile.mma
// ROLES:           sched.for_tiles (%{{.*}}, %[[STAGE:.*]], %{{.*}}) = (
// ROLES:             sched.wait %[[KR]][%[[STAGE]]]
// ROLES:             tile.mma
// ROLES-NEXT:        %[[VISIT:.*]]:2 = sched.receive from %[[VISITS]][%[[STAGE]]]
// ROLES-NEXT:        %[[NEXT:.*]] = sched.uniform %[[VISIT]]#0
// ROLES-NEXT:        %[[FLAG:.*]] = sched.uniform %[[VISIT]]#1
// ROLES-NEXT:        %[[PARTIAL:.*]] = arith.cmpi ne, %[[FLAG]]
// ROLES-NEXT:        sched.release %[[KR]][%[[STAGE]]]
// ROLES:             only_if %[[PARTIAL]]
// ROLES:             sched.next %[[NEXT]],
// What is received is read beside the first product, in the first tile as in the others.
// OVERLAP-LABEL: tile.kernel @documents
// OVERLAP:       sched.role "consumer"
// OVERLAP:         tile.mma {{.*}}sched.async
// OVERLAP-NEXT:    sched.receive
// OVERLAP:         sched.mma_wait pending 0
// OVERLAP-NEXT:    sched.release
// OVERLAP:         sched.for_tiles
// OVERLAP:           tile.mma {{.*}}sched.async
// OVERLAP:           tile.mma {{.*}}sched.async
// OVERLAP-NEXT:      sched.receive
// OVERLAP:           sched.mma_wait pending 1
// OVERLAP-NEXT:      sched.release
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}

// Without room for O beside Q a block has one tile of work: the first tile of keys is all that is sent with Q.
// ROLES-LABEL: tile.kernel @widest_documents
// ROLES:         %[[TASKS:.*]] = sched.shared "tasks" at 0 : <stage 1 x message 1 x field 4, i32, shared>
// ROLES:           %[[FIRST:[^ ,]*]], {{.*}}, %[[BEGINS:[^ ,]*]]:2 = sched.next_visible
// ROLES:           sched.send %[[FIRST]], %[[BEGINS]]#0, %[[BEGINS]]#1 to %[[TASKS]][%c0_i32]
// ROLES:         sched.role "consumer"
// ROLES:           sched.for_work grid
// ROLES:             sched.wait
// ROLES-NEXT:        %[[TASK:.*]]:3 = sched.receive from %[[TASKS]][%c0_i32]
// ROLES-NEXT:        %[[FIRST:.*]] = sched.uniform %[[TASK]]#0
// ROLES:             sched.for_tiles (%{{.*}}, %{{.*}}, %{{.*}}) = (%[[FIRST]],
attn.attention @widest_documents dtype bf16 head_dim 256 x 256 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  attn.yield %2 : i1
}
