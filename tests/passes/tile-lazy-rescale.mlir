// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -tile-split-row-sums -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-lazy-rescale -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=64 stages=2" -attn-to-tile=granularity=16 -tile-fold-softmax-scale -tile-split-row-sums -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages -tile-lazy-rescale -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=SCHED

// The first tile's maximum moves in any case. Behind it the product with V is awaited before the exponentials, which follow from the maximum so far; all that follows from
// another one stands in a branch, where the maximum needs no guard: it is finite.
// CHECK-LABEL: tile.kernel @plain
// CHECK:         sched.role "consumer"
// CHECK:         sched.for_tiles
// CHECK:           %[[M0:.*]] = tile.reduce max %{{.*}} over "k" init %{{.*}} {tile.name = "m_next"}
// CHECK:           tile.map(%[[M0]] : {{.*}} {
// CHECK:           %[[START:.*]] = tile.map(%[[M0]] : {{.*}} {
// CHECK-NEXT:      ^bb0
// CHECK-NEXT:        arith.maxnumf
// CHECK:           sched.for_tiles {{.*}} tiles(%[[M:[A-Za-z0-9_.]+]] = %[[START]] : {{.*}}, %[[L:[A-Za-z0-9_.]+]] = {{.*}}, %[[ACC:[A-Za-z0-9_.]+]] = {{[^=]*}}, %[[P0:[A-Za-z0-9_.]+]] = {{[^=]*}}, %[[ADDEND:[A-Za-z0-9_.]+]] =
// CHECK:             %[[O:.*]] = tile.mma %[[P0]], %{{.*}} add %[[ACC]]
// CHECK:             sched.mma_wait pending 1
// CHECK:             sched.mma_wait pending 0 completes(%[[O]], %[[P0]])
// CHECK-NEXT:        sched.release
// CHECK-NOT:         sched.mma_wait
// CHECK:             %[[E:.*]] = tile.map(%[[X:.*]], %[[ADDEND]] :
// CHECK:               %[[EXPONENT:.*]] = math.fma
// CHECK-NEXT:          math.exp2 %[[EXPONENT]]
// CHECK:             %[[SUM:.*]] = tile.reduce sum %[[E]] over "k" : {{.*}} per_lane
// CHECK:             %[[P:.*]] = tile.convert %[[E]]
// CHECK:             %[[L1:.*]] = tile.map(%[[L]], %[[SUM]] :
// CHECK:             %[[MOVES:.*]] = tile.any %[[SUM]] : {{.*}} {
// CHECK:               arith.cmpf uge
// CHECK:             %[[NEXT:.*]]:5 = scf.if %[[MOVES]]
// CHECK:               %[[M1:.*]] = tile.reduce max %[[X]] over "k" init %[[M]]
// CHECK-NOT:           m_base
// A large maximum has an infinite addend, so that every tile comes here and takes the difference; that of a row without a key is the greatest float.
// CHECK:               %[[A1:.*]] = tile.map(%[[M1]] :
// CHECK:                 math.absf
// CHECK:                 arith.cmpf olt, %{{.*}}, %c16384_f32 : f32
// CHECK:                 arith.select
// CHECK:                 arith.select
// CHECK:               } {tile.name = "addend"}
// CHECK:               tile.map(%[[X]], %[[M1]] :
// CHECK:                 %[[DIFFERENCE:.*]] = arith.subf
// CHECK-NEXT:            %[[EXPONENT1:.*]] = arith.mulf %[[DIFFERENCE]]
// CHECK-NEXT:            math.exp2 %[[EXPONENT1]]
// CHECK:               %[[L2:.*]] = tile.reduce sum
// CHECK:               scf.yield %[[M1]], %[[L2]], %{{.*}}, %{{.*}}, %[[A1]] :
// CHECK:             } else {
// CHECK-NEXT:          scf.yield %[[M]], %[[L1]], %[[O]], %[[P]], %[[ADDEND]] :
// CHECK:             sched.next {{.*}}%[[NEXT]]#0, %[[NEXT]]#1, %[[NEXT]]#2, %[[NEXT]]#3, %[[NEXT]]#4

// SCHED-LABEL: sched.kernel @plain
// SCHED:         %[[MOVES:.*]] = sched.any_lane
// SCHED-NEXT:    scf.if %[[MOVES]] {
// SCHED:           sched.shuffle_xor
// SCHED:           math.exp2
// SCHED:         sched.next

// With `overlap` the next V and the product with V are awaited behind the exponentials of the first half of the columns, which are not packed yet: P's registers are free behind that.
// CHECK-LABEL: tile.kernel @beside
// CHECK-SAME:    sched.overlap, {{.*}}sched.ping_pong, sched.roles = [{{.*}}]}
// CHECK:         sched.role "consumer"
// CHECK:             %[[O:.*]] = tile.mma %[[P0:[A-Za-z0-9_.]+]], %{{.*}} add
// CHECK:             sched.mma_wait pending 1
// CHECK-NEXT:        sched.release
// CHECK-NOT:         sched.{{(mma_)?}}wait
// CHECK:             %[[HALF:.*]] = tile.map(%[[X:.*]], %[[M:.*]] : {{.*}}) columns 0 to 32 ->
// CHECK:               math.exp2
// CHECK:             sched.wait
// CHECK-NEXT:        sched.mma_wait pending 0 completes(%[[O]], %[[P0]])
// CHECK-NEXT:        sched.release
// CHECK-NEXT:        %[[E:.*]] = tile.map(%[[HALF]], %[[M]] : {{.*}}) columns 32 to 64 ->
// CHECK:             tile.reduce sum %[[E]]
// CHECK:             tile.convert %[[E]]
// CHECK:             scf.if
// CHECK-NOT:           mma_wait
// CHECK:             sched.next

// SCHED-LABEL: sched.kernel @beside
// SCHED:           %[[P:.*]] = sched.registers "p" {{.*}}: <q 128 x k 64, bf16
// SCHED:           sched.for_tiles {{.*}} keeps
// SCHED:             sched.mma_wait pending 1
// SCHED-NOT:         sched.set %{{.*}}, %[[P]]{{\[}}
// SCHED:             sched.mma_wait pending 0 completes(%{{.*}}, %[[P]])
// SCHED:             scf.for %{{.*}} = %c0{{.*}} to %c2
// SCHED:               sched.set %{{.*}}, %[[P]]
// SCHED:             scf.for %{{.*}} = %c2{{.*}} to %c4
// SCHED:               math.exp2
// SCHED:               sched.set %{{.*}}, %[[P]]

// Not for dropout, nor where the score counts positions and tiles are searched for.
// CHECK-LABEL: tile.kernel @dropout
// CHECK-NOT:     scf.if {{.*}} -> (
// CHECK-LABEL: tile.kernel @positions
// CHECK:         scf.if {{.*}} -> (
// CHECK-LABEL: tile.kernel @searched
// CHECK-NOT:     scf.if {{.*}} -> (
attn.attention @plain dtype bf16 head_dim 256 x 256 scale 0.0625 score {
} mask {
}
attn.attention @beside dtype bf16 head_dim 128 x 128 scale 0.0625 score {
} mask {
}
attn.attention @dropout dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout} score {
} mask {
}
attn.attention @positions dtype bf16 head_dim 128 x 128 scale 0.0625 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %d = arith.subi %k, %q : i32
  %f = arith.sitofp %d : i32 to f32
  %x = arith.addf %s, %f : f32
  attn.yield %x : f32
} mask {
}
attn.attention @searched dtype bf16 head_dim 128 x 128 scale 0.0625 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %d = arith.subi %k, %q : i32
  %f = arith.sitofp %d : i32 to f32
  %x = arith.addf %s, %f : f32
  attn.yield %x : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %i = attn.load "ids"[%q] : (i32) -> i32
  %j = attn.load "ids"[%k] : (i32) -> i32
  %same = arith.cmpi eq, %i, %j : i32
  attn.yield %same : i1
}
