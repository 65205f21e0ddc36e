// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -tile-overlap-products -tile-hold-maxima -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -canonicalize -cse -tile-assign-layouts -tile-specialize-warps -tile-overlap-products -tile-hold-maxima -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// The first tile's maximum moves in any case. Behind it m is in units of the exponent, and moves where an element is far above it: for all that follows from that
// there is one branch, but for O, which is under way until its product has been awaited.
// CHECK-LABEL: tile.kernel @wide
// CHECK:         sched.role "consumer"
// CHECK:         sched.for_tiles
// CHECK:           %[[M0:.*]] = tile.reduce max %{{.*}} over "k" init %{{.*}} {tile.name = "m_next"}
// CHECK:           tile.map(%[[M0]] : {{.*}} {
// CHECK:           %[[START:.*]] = tile.map(%[[M0]] : {{.*}} {
// CHECK:             arith.mulf %{{.*}}, %[[C:.*]] : f32
// CHECK:           } {tile.name = "m"}
// CHECK:           %[[LOOP:.*]]:8 = sched.for_tiles {{.*}} tiles(%{{[a-z0-9]+}} = %[[START]] :
// CHECK:             %[[BASE:[0-9]+]] = tile.map(%[[M:arg[0-9]+]] : !tile.tile<q 128, f32
// CHECK:             } {tile.name = "m_base"}
// CHECK:             %[[D:.*]] = tile.map(%{{.*}}, %[[BASE]] :
// CHECK:               math.fma
// CHECK:             } {tile.name = "d"}
// CHECK:             %[[PEAK:.*]] = tile.reduce peak %[[D]] over "k" : {{.*}} per_lane
// CHECK:             %[[ABOVE:.*]] = tile.map(%[[PEAK]], %[[M]] :
// CHECK:             %[[MOVES:.*]] = tile.any %[[ABOVE]] : {{.*}} {
// CHECK:               arith.cmpf uge, %{{.*}}, %[[ROOM:.*]] : f32
// CHECK:             %[[MAX:.*]] = tile.reduce max %[[D]] over "k" init %[[PEAK]] : {{.*}} only_if %[[MOVES]]
// CHECK:             %[[NEXT:.*]] = tile.map(%[[M]], %[[MAX]] : {{.*}} only_if %[[MOVES]]
// CHECK:             %[[RISE:.*]] = tile.map(%[[MAX]], %[[NEXT]], %[[BASE]] : {{.*}} only_if %[[MOVES]]
// CHECK:             %[[D1:.*]] = tile.map(%[[D]], %[[RISE]] : {{.*}} only_if %[[MOVES]]
// CHECK:             tile.map(%{{.*}}, %[[RISE]] : {{.*}} only_if %[[MOVES]]
// CHECK:             tile.map(%[[D1]] : {{.*}} {
// CHECK-NEXT:        ^bb0
// CHECK-NEXT:          math.exp2
// CHECK:             sched.mma_wait pending 0
// CHECK:             tile.map(%{{.*}}, %[[RISE]] : {{.*}} only_if %[[MOVES]]
// CHECK:             sched.next {{.*}}%[[NEXT]]
// CHECK:           tile.map(%[[LOOP]]

// SCHED-LABEL: sched.kernel @wide
// SCHED:         %[[MOVES:.*]] = sched.any_lane
// SCHED-NEXT:    sched.registers "rise"
// SCHED:         scf.if %[[MOVES]] {
// SCHED:           sched.shuffle_xor
// SCHED:           math.exp2
// SCHED:         scf.if %[[MOVES]] {
// SCHED-NOT:     scf.if %[[MOVES]]
// SCHED:         sched.role

// Not where O is as wide as the tile of keys, nor where the score counts positions.
// CHECK-LABEL: tile.kernel @narrow
// CHECK-NOT:     tile.reduce peak
// CHECK-LABEL: tile.kernel @positions
// CHECK-NOT:     tile.reduce peak
attn.attention @wide dtype bf16 head_dim 256 x 256 scale 0.0625 score {
} mask {
}
attn.attention @narrow dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}
attn.attention @positions dtype bf16 head_dim 256 x 256 scale 0.0625 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %d = arith.subi %k, %q : i32
  %f = arith.sitofp %d : i32 to f32
  %x = arith.addf %s, %f : f32
  attn.yield %x : f32
} mask {
}
