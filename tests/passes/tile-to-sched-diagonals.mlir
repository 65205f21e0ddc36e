// Sums along the diagonals of what a warp holds of an accumulator: lane by lane, then between lanes.
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts | FileCheck %s --check-prefix=LAYOUT
// RUN: attune-opt %s -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-to-sched=arch=sm_80 -canonicalize -cse | FileCheck %s

// A part is a warp's; eight warps hold the same four parts twice, of which the first ones add.
// LAYOUT-LABEL: tile.kernel @diagonals
// LAYOUT:         tile.sum_diagonals %x {{.*}} : <q 128 x k 32, f32, register, #sched.fragment<c, warps 4>> -> <part 4 x distance 64, f32, register, #sched.fragment<distances, warps 4>>
// LAYOUT:         tile.map(%{{.*}} -> !tile.tile<part 4 x distance 64, i32, register, #sched.fragment<distances, warps 4>>
// LAYOUT-LABEL: tile.kernel @twice
// LAYOUT:         tile.sum_diagonals %x : <q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> <part 4 x distance 48

// CHECK-LABEL: sched.kernel @diagonals
// CHECK:         arith.remui %{{.*}}, %c8
// CHECK:         %lane_distance = arith.addi
// 32 rows and 32 columns: eight steps of eight distances, and one behind that stays 0.
// CHECK:         %[[SUMS:.*]] = sched.registers "sums" : <part 4 x distance 64, f32
// CHECK:         %[[STEPS:.*]] = sched.registers "step_sums" : <distance 72, f32, register, #sched.fragment<columns, warps 1>>
// CHECK:         scf.for %[[I:.*]] = %c0{{.*}} to %c2
// CHECK:           scf.for %[[R:.*]] = %c0
// CHECK:             scf.for %[[J:.*]] = %c0
// CHECK:               %[[STEP:.*]] = arith.subi %{{.*}}, %j
// CHECK:               sched.set %{{.*}}, %[[STEPS]][%[[STEP]], %{{.*}}]
// The second column of a pair: a row on.
// CHECK:         scf.for %[[N:.*]] = %c0{{.*}} to %c8
// CHECK:           %[[SENT:.*]] = arith.select
// CHECK:           sched.shuffle %[[SENT]], %{{.*}} : f32
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c8
// CHECK:           arith.select
// Four steps at once, of which each of four lanes is left one.
// CHECK:         scf.for %[[P:.*]] = %c0{{.*}} to %c2
// CHECK:           sched.shuffle_xor %{{.*}}, 18 : f32
// CHECK:           sched.shuffle_xor %{{.*}}, 18 : f32
// CHECK:           sched.shuffle %{{.*}}, %{{.*}} : f32
// CHECK:           sched.set %{{.*}}, %[[SUMS]][%[[P]]]
// Two places a lane, in place of thirty-two.
// CHECK:         scf.for %[[P:.*]] = %c0{{.*}} to %c2
// CHECK:           arith.addi %lane_distance, %{{.*}}
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c2
// CHECK:           sched.add_elements %{{.*}} to %{{.*}}[%b, %{{.*}}] : <2, f32>

// CHECK-LABEL: sched.kernel @twice
// CHECK:         %[[OWN:.*]] = arith.cmpi slt, %warp, %c4
// Two elements a lane, of which the last 16 are none.
// CHECK:         %[[EXISTS:.*]] = arith.cmpi slt, %{{.*}}, %c48
// CHECK:         arith.andi %[[OWN]], %[[EXISTS]]
// CHECK:         sched.add_elements

// One addition where all sums of a warp have one place, or none.
// CHECK-LABEL: sched.kernel @merged
// CHECK:         %[[A:.*]] = sched.get %{{.*}}[%c0{{.*}}] : <part 4 x distance 64, i32
// CHECK:         %[[B:.*]] = sched.get %{{.*}}[%c1{{.*}}] : <part 4 x distance 64, i32
// CHECK:         arith.maxsi %[[A]], %[[B]] : i32
// CHECK-COUNT-5: sched.shuffle_xor
// CHECK:         %one_place = arith.maxsi
// CHECK:         %several_places = sched.any_lane
// CHECK:         scf.if %several_places {
// CHECK:           sched.add_elements %{{.*}} to %{{.*}}[%b, %{{.*}}]
// CHECK:         } else {
// CHECK-COUNT-5:   sched.shuffle_xor
// CHECK:           %total = arith.addf
// CHECK:           arith.cmpi eq, %lane, %c0
// CHECK:           sched.add_elements %total to %{{.*}}[%b, %one_place]

!sums = !tile.tile<part 4 x distance 64, f32, register>
!places = !tile.tile<part 4 x distance 64, i32, register>

tile.kernel @diagonals(table: workspace [b, n] f32) grid [b, n by 128] dtype bf16
    plan <q 128 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %n0 = tile.block_index "n" : i32
  %zero = arith.constant 0 : i32
  %T = tile.param "table" : !tile.view<2, f32>
  %x = tile.map() at(q = %n0) -> !tile.tile<q 128 x k 32, f32, register> {
  ^bb0(%q: i32):
    %f = arith.sitofp %q : i32 to f32
    tile.yield %f : f32
  } {tile.name = "x"}
  %sums = tile.sum_diagonals %x {tile.name = "sums"} : !tile.tile<q 128 x k 32, f32, register> -> !sums
  %index = tile.map(%sums : !sums) at(part = %zero, distance = %n0) -> !places {
  ^bb0(%sum: f32, %part: i32, %distance: i32):
    %row = arith.muli %part, %n0 : i32
    %place = arith.addi %distance, %row : i32
    tile.yield %place : i32
  }
  tile.scatter add %sums, %T[%b, %index] : !sums, !tile.view<2, f32> (i32, !places)
}

tile.kernel @twice(table: workspace [b, n] f32) grid [b, n by 64] dtype bf16
    plan <q 64 x k 32, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %n0 = tile.block_index "n" : i32
  %T = tile.param "table" : !tile.view<2, f32>
  %x = tile.map() at(q = %n0) -> !tile.tile<q 64 x k 32, f32, register> {
  ^bb0(%q: i32):
    %f = arith.sitofp %q : i32 to f32
    tile.yield %f : f32
  } {tile.name = "x"}
  %sums = tile.sum_diagonals %x : !tile.tile<q 64 x k 32, f32, register> -> !tile.tile<part 4 x distance 48, f32, register>
  %index = tile.map() at(distance = %n0) -> !tile.tile<part 4 x distance 48, i32, register> {
  ^bb0(%distance: i32):
    tile.yield %distance : i32
  }
  tile.scatter add %sums, %T[%b, %index] : !tile.tile<part 4 x distance 48, f32, register>, !tile.view<2, f32> (i32, !tile.tile<part 4 x distance 48, i32, register>)
}

tile.kernel @merged(table: workspace [b, n] f32) grid [b, n by 128] dtype bf16
    plan <q 128 x k 32, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %n0 = tile.block_index "n" : i32
  %four = arith.constant 4 : i32
  %T = tile.param "table" : !tile.view<2, f32>
  %x = tile.map() at(q = %n0) -> !tile.tile<q 128 x k 32, f32, register> {
  ^bb0(%q: i32):
    %f = arith.sitofp %q : i32 to f32
    tile.yield %f : f32
  } {tile.name = "x"}
  %sums = tile.sum_diagonals %x {tile.name = "sums"} : !tile.tile<q 128 x k 32, f32, register> -> !sums
  %index = tile.map() at(distance = %n0) -> !places {
  ^bb0(%distance: i32):
    %bucket = arith.shrsi %distance, %four : i32
    tile.yield %bucket : i32
  }
  tile.scatter add merge %sums, %T[%b, %index] : !sums, !tile.view<2, f32> (i32, !places)
}
