// A product of a tile that warpgroups exchange: with `sched.overlap` it is computed in the iteration after the exchange,
// together with its addition to memory, and the ring of the exchanged tile has mbarriers.
// RUN: attune-opt %s -tile-place-operands -tile-assign-roles -tile-assign-layouts -tile-overlap-products | FileCheck %s --check-prefix=ORDER
// RUN: attune-opt %s -tile-place-operands -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps "-tile-verify-schedule=form=copies" | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -tile-place-operands -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages "-tile-verify-schedule=form=stages" | FileCheck %s --check-prefix=STAGES

// ORDER-LABEL: tile.kernel @overlapped
// ORDER-NOT:     tile.remarks
// ORDER:         tile.for_blocks
// ORDER:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 0>, tile.name = "s"}
// ORDER:           tile.convert {{.*}} {sched.at = #sched.at<order 3>, sched.ring = #sched.ring<stages 2>, tile.name = "ds"}
// ORDER:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 3, stage 1>, tile.name = "dq"}
// ORDER:           tile.accumulate {{.*}} {sched.at = #sched.at<order 3, stage 1>
// ORDER-LABEL: tile.kernel @together
// ORDER-SAME:    tile.remarks = ["no product is deferred to the next tile: 
// ORDER:           tile.mma {{.*}} {sched.async, sched.at = #sched.at<order 3>, tile.name = "dq"}
// ORDER:           tile.accumulate {{.*}} {sched.at = #sched.at<order 3>

// One lane of each of the eight warps arrives once the warp has stored its part, and again once its product has read the tile.
// ROLES-LABEL: tile.kernel @overlapped
// ROLES:         %[[DS:.*]] = sched.shared "ds_ring"
// ROLES:         %[[RING:.*]] = sched.ring "ds_barriers" at 0 filled_by 8 emptied_by 8
// ROLES:         sched.init_ring %[[RING]]
// ROLES:         sched.role "consumer"
// ROLES:           sched.acquire %[[RING]][%[[AT:.*]]] phase %[[PHASE:[a-z0-9_]+]] {sched.at = #sched.at<order 3>}
// ROLES-NEXT:      sched.exchange %{{.*}} into %[[DS]][%[[AT]]] {sched.at = #sched.at<order 3>}
// ROLES-NEXT:      sched.sync_lanes {sched.at = #sched.at<order 3>}
// ROLES-NEXT:      sched.commit %[[RING]][%[[AT]]] by_warp {sched.at = #sched.at<order 3>}
// ROLES-NEXT:      sched.wait %[[RING]][%[[AT]]] phase %[[PHASE]] {sched.at = #sched.at<order 3, stage 1>}
// ROLES-NEXT:      %[[TILE:.*]] = sched.slot %[[DS]][%[[AT]]] {sched.at = #sched.at<order 3, stage 1>}
// ROLES-NEXT:      tile.mma %[[TILE]]
// ROLES-NEXT:      sched.release %[[RING]][%[[AT]]]
// ROLES-LABEL: tile.kernel @together
// ROLES-NOT:     "ds_barriers"
// ROLES:         sched.exchange

// The first tile has no product before it; the product of the last tile comes after the loop. In the loop the product
// reads the stage of the tile before.
// STAGES-LABEL: tile.kernel @overlapped
// STAGES:         sched.role "consumer"
// STAGES:         sched.for_tiles
// STAGES:           sched.exchange
// STAGES-NOT:       tile.mma
// STAGES:           sched.for_tiles (%{{[^,]*}}, %[[STAGE:[^,]*]], %[[PHASE:[^,]*]], %{{[^,]*}}, %{{[^,]*}}, %[[BEFORE:stage_before[^,]*]], %[[PHASE_BEFORE:phase_before[^,]*]],
// STAGES:             sched.acquire %[[RING:.*]][%[[STAGE]]] phase %[[PHASE]]
// STAGES:             sched.exchange %{{.*}} into %[[DS:.*]][%[[STAGE]]]
// STAGES-NEXT:        sched.sync_lanes
// STAGES-NEXT:        sched.commit %[[RING]][%[[STAGE]]] by_warp
// STAGES-NEXT:        sched.wait %[[RING]][%[[BEFORE]]] phase %[[PHASE_BEFORE]]
// STAGES-NEXT:        %[[TILE:.*]] = sched.slot %[[DS]][%[[BEFORE]]]
// STAGES-NEXT:        %[[DQ:.*]] = tile.mma %[[TILE]]
// STAGES:             sched.mma_wait pending 0 completes(%[[DQ]]
// STAGES-NEXT:        sched.release %[[RING]][%[[BEFORE]]]
// STAGES:             sched.next
// STAGES:           sched.wait
// STAGES-NEXT:      sched.slot
// STAGES-NEXT:      tile.mma {{.*}} {sched.async, tile.name = "dq"}
// STAGES-LABEL: tile.kernel @together
// STAGES:         sched.exchange
// STAGES:         sched.sync_warps %{{.*}} threads 256
tile.kernel @overlapped(q: in [b, h, q, d 64] bf16, dq: workspace [b, h, q, d 64] f32, k: in [b, h, k, d 64] bf16) grid [b, h, k by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.overlap, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %k = tile.load %K[%b, %h, %k0] limit %Sk {tile.name = "k_tile"} : <4, bf16> -> <k 128 x d 64, bf16, shared>
  %dom = tile.domain q by 128 [%i, %Sq) full
  tile.for_blocks (%q0, %partial) in %dom {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {tile.name = "q_tile"} : <4, bf16> -> <q 128 x d 64, bf16, shared>
    %s = tile.mma %q, %k : <q 128 x d 64, bf16, shared>, <k 128 x d 64, bf16, shared> -> <q 128 x k 128, f32, register> {tile.name = "s"}
    %ds = tile.convert %s {sched.ring = #sched.ring<stages 2>, tile.name = "ds"} : <q 128 x k 128, f32, register> -> <q 128 x k 128, bf16, shared>
    %dq = tile.mma %ds, %k : <q 128 x k 128, bf16, shared>, <k 128 x d 64, bf16, shared> -> <q 128 x d 64, f32, register> {tile.name = "dq"}
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq : <q 128 x d 64, f32, register>, <4, f32>
    tile.yield
  }
}

tile.kernel @together(q: in [b, h, q, d 64] bf16, dq: workspace [b, h, q, d 64] f32, k: in [b, h, k, d 64] bf16) grid [b, h, k by 128] dtype bf16
    plan <q 128 x k 128, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %i = arith.constant 0 : i32
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %k0 = tile.block_index "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %k = tile.load %K[%b, %h, %k0] limit %Sk {tile.name = "k_tile"} : <4, bf16> -> <k 128 x d 64, bf16, shared>
  %dom = tile.domain q by 128 [%i, %Sq) full
  tile.for_blocks (%q0, %partial) in %dom {
    %q = tile.load %Q[%b, %h, %q0] limit %Sq {tile.name = "q_tile"} : <4, bf16> -> <q 128 x d 64, bf16, shared>
    %s = tile.mma %q, %k : <q 128 x d 64, bf16, shared>, <k 128 x d 64, bf16, shared> -> <q 128 x k 128, f32, register> {tile.name = "s"}
    %ds = tile.convert %s {sched.ring = #sched.ring<stages 2>, tile.name = "ds"} : <q 128 x k 128, f32, register> -> <q 128 x k 128, bf16, shared>
    %dq = tile.mma %ds, %k : <q 128 x k 128, bf16, shared>, <k 128 x d 64, bf16, shared> -> <q 128 x d 64, f32, register> {tile.name = "dq"}
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq : <q 128 x d 64, f32, register>, <4, f32>
    tile.yield
  }
}
