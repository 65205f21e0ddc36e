// Rows in blocks of 16, of which a warp accesses 512 bytes at a time.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_90 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s --check-prefix=OLD
// RUN: not attune-opt %s -tile-verify=arch=cpu 2>&1 | FileCheck %s --check-prefix=CPU

// A warp has 16 rows, and a lane four elements of each eight columns, 128 elements apart. Rows past the limit are 0 in what is loaded.
// CHECK-LABEL: sched.kernel @sums
// CHECK:         %[[HEAD:.*]] = sched.slice %{{.*}}[%{{.*}}, %{{.*}}] {tile.name = "sums_head"} : <4, f32> -> <2, f32>
// CHECK:         %[[ROW:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK:         %[[LANE:.*]] = arith.muli %{{.*}}, %c4_i32
// CHECK:         %[[BLOCK:.*]] = arith.divui %[[ROW]], %c16_i32
// CHECK:         scf.if
// CHECK:           %[[OWN:.*]] = sched.slice %[[HEAD]][%[[BLOCK]], %[[LANE]]] {{.*}} : <2, f32> -> <1, f32>
// CHECK:           scf.for %[[J:.*]] = %c0_i32 to %c6_i32
// CHECK:             %[[PLACE:.*]] = arith.muli %[[J]], %c128_i32
// CHECK:             %[[X:.*]], %{{.*}}, %{{.*}}, %[[W:.*]] = sched.load_elements four %[[OWN]][%[[PLACE]]] : <1, f32>
// CHECK:             arith.select %{{.*}}, %[[X]], %c0_f32
// CHECK:             arith.select %{{.*}}, %[[W]], %c0_f32
// CHECK:         scf.if
// CHECK:           sched.store_elements %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}] : <1, f32>
// CHECK:         scf.if
// CHECK:           sched.add_elements %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}] : <1, f32>
// Where no instruction adds four, each has one of its own.
// OLD:           sched.store_elements %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} to
// OLD:           %[[PLACE:.*]] = arith.muli %{{.*}}, %c128_i32
// OLD:           sched.add_elements %{{[^,]*}} to %[[OWN:.*]][%[[PLACE]]] : <1, f32>
// OLD:           %[[THIRD:.*]] = arith.addi %[[PLACE]], %c3_i32
// OLD-NEXT:      sched.add_elements %{{[^,]*}} to %[[OWN]][%[[THIRD]]] : <1, f32>
// CPU: 'tile.blocked_rows' op is for a GPU's warps and shared memory, which the CPU target lacks; start from attn text or the variant
tile.kernel @sums(sums: workspace [b, h, q by 16, place 768] f32, others: workspace [b, h, q by 16, place 768] f32) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %S = tile.param "sums" : !tile.view<4, f32>
  %O = tile.param "others" : !tile.view<4, f32>
  %rows = tile.blocked_rows %S columns 48 : !tile.view<4, f32>
  %others = tile.blocked_rows %O columns 48 : !tile.view<4, f32>
  %x = tile.load %rows[%b, %h, %q0] limit %Sq : !tile.view<4, f32> -> !tile.tile<q 64 x d 48, f32, register>
  tile.store %x, %rows[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 48, f32, register>, !tile.view<4, f32>
  tile.accumulate %x, %others[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 48, f32, register>, !tile.view<4, f32>
}
