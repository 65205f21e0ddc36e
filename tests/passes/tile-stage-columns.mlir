// RUN: attune-opt %s --attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants=conditional-columns --tile-stage-columns --canonicalize --cse | FileCheck %s
// RUN: attune-opt %s --attn-tile-size="arch=sm_90 tile-q=128 tile-k=64 stages=2" --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants=conditional-columns --tile-stage-columns --canonicalize --cse | FileCheck %s --check-prefix=WARPS
// RUN: attune-opt %s --attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" --attn-to-tile=granularity=16 --canonicalize --tile-hoist-invariants=conditional-columns --tile-stage-columns --canonicalize --cse --tile-assign-roles -tile-assign-layouts --tile-overlap-products --tile-pipeline-copies --tile-specialize-warps --tile-pipeline-stages --tile-to-sched=arch=sm_90a --canonicalize --cse | FileCheck %s --check-prefix=SCHED

// A producer warp loads for all tiles what the mask reads in partial ones. Words alone: others stay a vector that lanes load for each other.
// CHECK-LABEL: tile.kernel @documents
// CHECK:         tile.for_blocks (%[[K0:.*]], %[[PARTIAL:.*]]) in
// CHECK:           %[[IDS:.*]] = tile.map() at(k = %[[K0]]) -> !tile.tile<k 64, i32, register> {
// CHECK:           %[[STAGED:.*]] = tile.convert %[[IDS]] {tile.name = "column_ids_tile"} : <k 64, i32, register> -> <k 64, i32, shared>
// CHECK:           %[[LONG:.*]] = tile.map() at(k = %[[K0]]) only_if %[[PARTIAL]] -> !tile.tile<k 64, i64, register> {
// CHECK-NOT:       tile.convert %[[LONG]]
// CHECK:           tile.map(%{{.*}}, %{{.*}}, %{{.*}}, %[[STAGED]], %[[LONG]] : {{.*}} only_if %[[PARTIAL]]

// Without producer warps lanes load all of them.
// WARPS-LABEL: tile.kernel @documents
// WARPS:         tile.map() at({{.*}}) only_if %{{.*}} -> !tile.tile<k 64, i32, register> {
// WARPS-NOT:     -> <k 64, i32, shared>

// They lie beside K, in stages of the same ring, which 33 arrivals fill: that of the thread that copies K, and those of all lanes of its warp, which store the
// ids where the tile is partial. The stage is released by all lanes, when they have read them. Columns are read once for all rows; the loads of the others
// stand before the wait for the product. V is copied by a warp of its own, which learns from the first one which tiles these are.
// SCHED-LABEL: sched.kernel @documents
// SCHED:         sched.ring "q_barriers" at 0 filled_by 1 emptied_by 9 : <2>
// SCHED:         %[[BARRIERS:.*]] = sched.ring "k_barriers" at 0 filled_by 33 emptied_by 288 : <2>
// SCHED:         %[[RING:.*]] = sched.shared "column_ids_ring" at 0 : <stage 2 x k 64, i32, shared>
// SCHED-NOT:     sched.ring "column_ids
// SCHED:         sched.role "producer" warps 4 registers 40
// SCHED:           %[[SECOND:.*]] = arith.cmpi eq, %{{.*}}, %c1_i32
// SCHED:           scf.if %[[SECOND]] {
// SCHED:             sched.for_work received
// SCHED:             sched.for_tiles
// SCHED:               sched.wait %[[BARRIERS]]
// SCHED-NEXT:          sched.receive
// SCHED-NEXT:          sched.uniform
// SCHED-NEXT:          sched.release %[[BARRIERS]]
// SCHED-NEXT:          scf.if
// SCHED-NEXT:            sched.acquire %[[VALUES:.*]][
// SCHED-NEXT:            sched.expect_bytes {{.*}} on %[[VALUES]]
// SCHED-NEXT:            sched.load_box
// SCHED:           sched.for_work persistent
// SCHED:             sched.claim_work
// SCHED:           sched.for_tiles
// SCHED:           scf.if %{{.*}} {
// SCHED-NEXT:        sched.acquire %[[BARRIERS]]
// SCHED-NEXT:        sched.send
// SCHED-NEXT:        sched.expect_bytes {{.*}} on %[[BARRIERS]]
// SCHED-NEXT:        sched.load_box
// SCHED-NEXT:      }
// SCHED-NEXT:      scf.if %{{.*}} {
// SCHED-NEXT:        sched.acquire %[[BARRIERS]]
// SCHED:             %[[HELD:.*]] = sched.registers "column_ids" : <k 64, i32, register, #sched.fragment<threads, warps 1>>
// SCHED:             tile.element
// SCHED:             sched.store_shared %{{.*}}, %[[RING]]
// SCHED:           sched.sync_lanes
// SCHED-NEXT:      sched.commit %[[BARRIERS]]
// SCHED-NOT:       sched.for_work
// SCHED:         sched.role "consumer" warps 8 registers 232
// SCHED:           sched.mma_async
// SCHED:           sched.receive
// SCHED:           scf.if %[[PARTIAL:.*]] {
// SCHED:             tile.element {{.*}} -> i64
// SCHED:           sched.mma_wait pending 0
// SCHED-NOT:       sched.release
// SCHED:           scf.if %[[PARTIAL]] {
// SCHED:             scf.for
// SCHED:               sched.load_pair %[[RING]]
// SCHED:               scf.for
// SCHED:                 scf.for
// SCHED:           sched.release %[[BARRIERS]][%{{.*}}] by_lanes : <2>
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>, #attn.tensor<long, i64, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "ids"[%q] : (i32) -> i32
  %1 = attn.load "ids"[%k] : (i32) -> i32
  %2 = arith.cmpi eq, %0, %1 : i32
  %3 = attn.load "long"[%q] : (i32) -> i64
  %4 = attn.load "long"[%k] : (i32) -> i64
  %5 = arith.cmpi eq, %3, %4 : i64
  %6 = arith.andi %2, %5 : i1
  attn.yield %6 : i1
}
