// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=128 tile-k=128 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="arch=sm_90a tile-q=64 tile-k=144 stages=2" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-specialize-warps -tile-pipeline-stages -tile-to-sched=arch=sm_90a -canonicalize -cse | FileCheck %s --check-prefix=WIDE
// RUN: attune-opt %s -attn-tile-size="arch=sm_90 tile-q=128 tile-k=64" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_90 -canonicalize -cse | FileCheck %s --check-prefix=WIDE

// A row's visible columns are the bits of one word, made before the loop over columns: of a causal row those below its end, of a window's also those
// that are not below its begin.
// CHECK-LABEL: sched.kernel @window
// CHECK:         sched.role "consumer"
// CHECK:         scf.if
// CHECK:           scf.for %{{.*}} = %c0_i32 to %c2_i32
// CHECK:             %[[END:.*]] = sched.columns_below %{{.*}} {tile.name = "columns"}
// CHECK-NEXT:        scf.for %[[J:.*]] = %c0_i32 to %c16_i32
// CHECK-NEXT:          scf.for %[[E:.*]] = %c0_i32 to %c2_i32
// CHECK:                 %[[PAIR:.*]] = arith.muli %[[J]], %c2_i32
// CHECK-NEXT:            %[[INDEX:.*]] = arith.addi %[[PAIR]], %[[E]]
// CHECK-NEXT:            %[[VISIBLE:.*]] = sched.test_bit %[[END]][%[[INDEX]]]
// CHECK-NEXT:            arith.select %[[VISIBLE]], %{{[A-Za-z0-9_.]+}}, %[[HIDE:neg_inf.*]] :
// CHECK:         scf.if
// CHECK:             %[[BEGIN:.*]] = sched.columns_below
// CHECK:                 %[[HIDDEN:.*]] = sched.test_bit %[[BEGIN]]
// CHECK-NEXT:            arith.select %[[HIDDEN]], %[[HIDE]], %{{[A-Za-z0-9_.]+}} :

// Not where a word has too few bits for the tile, nor beside mma.sync, where it has not been measured.
// WIDE-NOT:     sched.columns_below
// WIDE:         arith.cmpi slt
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %c = arith.constant 1024 : i32
  %near = arith.cmpi slt, %distance, %c : i32
  %both = arith.andi %causal, %near : i1
  attn.yield %both : i1
}

// Several intervals of a row are one word too, in the tiles that the warpgroup's own rows do not see whole: neither by the keys in front
// nor by the window.
// CHECK-LABEL: sched.kernel @prefix
// CHECK:         sched.role "consumer"
// CHECK:           %[[FROM:.*]] = arith.muli {{.*}} {tile.name = "own_full_from"}
// CHECK:             %[[BEFORE:.*]] = arith.cmpi slt, %{{.*}}, %[[FROM]]
// CHECK:             %[[OUTSIDE:.*]] = arith.ori %[[BEFORE]], %{{.*}} : i1
// CHECK:             %[[MASKED:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
// CHECK:             scf.if %[[MASKED]]
// CHECK:               %[[FRONT:.*]] = sched.columns_below
// CHECK:               %[[BEGIN:.*]] = sched.columns_below
// CHECK:               %[[END:.*]] = sched.columns_below
// CHECK:               %[[FROM_BEGIN:.*]] = arith.xori %[[BEGIN]], %c-1_i32
// CHECK:               %[[WINDOW:.*]] = arith.andi %[[FROM_BEGIN]], %[[END]] {tile.name = "columns"}
// CHECK:               %[[COLUMNS:.*]] = arith.ori %[[FRONT]], %[[WINDOW]] {tile.name = "columns"}
// CHECK:                 %[[VISIBLE:.*]] = sched.test_bit %[[COLUMNS]]
// CHECK-NEXT:            arith.select %[[VISIBLE]]
attn.attention @prefix dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %front = arith.constant 256 : i32
  %first = arith.cmpi slt, %k, %front : i32
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %c = arith.constant 512 : i32
  %near = arith.cmpi slt, %distance, %c : i32
  %window = arith.andi %causal, %near : i1
  %both = arith.ori %first, %window : i1
  attn.yield %both : i1
}
