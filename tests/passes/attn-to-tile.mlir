// RUN: attune-opt %s -split-input-file -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 | FileCheck %s

// The block's query tile, its keys up to the diagonal, the online softmax, and the stores.
// CHECK-LABEL: tile.kernel @causal dtype bf16 head_dim 64 x 64 plan <tile_q = 64, tile_k = 32,
// CHECK:         %[[END:.*]] = arith.divsi {{.*}} {tile.name = "tiles_end"}
// CHECK:         %[[FULL:.*]] = arith.divsi {{.*}} {tile.name = "full_end"}
// CHECK:         %[[DOM:.*]] = tile.domain k by 32 [%c0_i32, %[[FULL]]) full [%[[FULL]], %[[END]]) partial
// CHECK:         %[[Q:.*]] = tile.load {{.*}} -> <q 64 x d 64, bf16, shared>
// CHECK:         %[[LOOP:.*]]:3 = tile.for_blocks (%{{.*}}, %[[PARTIAL:.*]]) in %[[DOM]] iter_args(
// CHECK:           %[[K:.*]] = tile.load {{.*}} -> <k 32 x d 64, bf16, shared>
// CHECK:           %[[S:.*]] = tile.mma %[[Q]], %[[K]]
// CHECK:           %[[SCALED:.*]] = tile.map(%[[S]] :
// CHECK:             arith.mulf %{{.*}}, %cst
// CHECK:           %[[X:.*]] = tile.map(%[[SCALED]] : {{.*}} only_if %[[PARTIAL]]
// CHECK:             arith.cmpi slt
// CHECK:             arith.cmpi sge
// CHECK:             arith.select
// CHECK:           %[[M:.*]] = tile.reduce max %[[X]] over "k"
// CHECK:           tile.map(%[[M]] :
// CHECK:             arith.cmpf oeq
// CHECK:           } {tile.name = "m_base"}
// CHECK:           } {tile.name = "alpha"}
// CHECK:           %[[ACC:.*]] = tile.map({{.*}}
// CHECK:           } {tile.name = "acc"}
// CHECK:           %[[P:.*]] = tile.map(%[[X]],
// CHECK:           %[[L:.*]] = tile.reduce sum %[[P]] over "k"
// CHECK:           %[[PB:.*]] = tile.convert %[[P]] {{.*}} -> <q 64 x k 32, bf16, register>
// CHECK:           %[[V:.*]] = tile.load {{.*}} -> <k 32 x dv 64, bf16, shared>
// CHECK:           %[[O:.*]] = tile.mma %[[PB]], %[[V]] add %[[ACC]]
// CHECK:           tile.yield %[[M]], %[[L]], %[[O]]
// CHECK:         tile.store {{.*}} optional
// CHECK:         tile.store
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// Without a mask only the last tile is partial, and the map hides what lies past Sk.
// CHECK-LABEL: tile.kernel @full
// CHECK-DAG:     %[[SK:.*]] = tile.param "Sk"
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full [%{{.*}}, %{{.*}}) partial
// CHECK:         only_if
// CHECK:           %[[IN:.*]] = arith.cmpi slt, %{{.*}}, %[[SK]] : i32
// CHECK:           arith.select %[[IN]]
attn.attention @full dtype f16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// -----

// Head dims are padded to the matrix instruction's 16.
// CHECK-LABEL: tile.kernel @padded dtype bf16 head_dim 40 x 72
// CHECK:         -> <q 64 x d 48, bf16, shared>
// CHECK:         -> <k 32 x dv 80, bf16, shared>
attn.attention @padded dtype bf16 head_dim 40 x 72 scale 0.125 score {
} mask {
}

// -----

// Dropout comes between the row sum and the product with V.
// CHECK-LABEL: tile.kernel @dropped
// CHECK:         tile.reduce sum
// CHECK:         tile.dropout
// CHECK:         tile.mma
attn.attention @dropped dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout} score {
} mask {
}

// -----

// The keys of a row are one interval: two comparisons with its ends.
// CHECK-LABEL: tile.kernel @window
// CHECK:       tile.map({{.*}} only_if
// CHECK:       ^bb0(%{{.*}}: f32, %[[Q:.*]]: i32, %[[K:.*]]: i32):
// CHECK:         %[[END:.*]] = arith.minsi {{.*}} {tile.name = "row_end"}
// CHECK-NEXT:    %[[BELOW:.*]] = arith.cmpi slt, %[[K]], %[[END]]
// CHECK:         arith.subi %[[Q]],
// CHECK:         %[[ABOVE:.*]] = arith.cmpi sge, %[[K]],
// CHECK-NEXT:    arith.andi %[[ABOVE]], %[[BELOW]]
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c64 = arith.constant 64 : i32
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = arith.subi %q, %k : i32
  %2 = arith.cmpi slt, %1, %c64 : i32
  %3 = arith.andi %0, %2 : i1
  attn.yield %3 : i1
}
