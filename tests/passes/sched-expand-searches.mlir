// RUN: attune-opt %s -split-input-file -sched-expand-searches | FileCheck %s

// The lanes ask for 32 tiles at a time; of the results the loop carries those that are read.
// CHECK-LABEL: sched.kernel @search
// CHECK-NOT:     sched.next_visible
// CHECK:         %{{.*}}, %[[END:.*]] = sched.for_tiles (%[[WINDOW:.*]], %[[FOUND:.*]]) = (%c5{{.*}}, %[[BOUND:.*]]) below %[[BOUND]] keeps {
// CHECK-DAG:       %[[LANE:.*]] = sched.lane_id
// CHECK:           %[[ASKED:.*]] = arith.addi %[[WINDOW]], %[[LANE]] overflow<nsw> {tile.name = "asked"}
// CHECK:           %[[TILE:.*]] = arith.minsi %[[ASKED]], %{{.*}}
// CHECK:           %[[IS:.*]] = arith.cmpi sge, %[[TILE]]
// CHECK:           %[[INSIDE:.*]] = arith.cmpi slt, %[[ASKED]], %[[BOUND]]
// CHECK:           %[[VISIBLE:.*]] = arith.andi %[[IS]], %[[INSIDE]]
// CHECK:           %[[VOTES:.*]] = sched.ballot %[[VISIBLE]]
// CHECK:           %[[SOME:.*]] = arith.cmpi ne, %[[VOTES]]
// CHECK:           %[[ZEROS:.*]] = math.cttz %[[VOTES]]
// CHECK:           %[[AT:.*]] = arith.addi %[[WINDOW]], %[[ZEROS]]
// CHECK:           %[[NEXT:.*]] = arith.select %[[SOME]], %[[AT]], %[[BOUND]]
// CHECK:           %[[AFTER:.*]] = arith.addi %[[WINDOW]], %c32
// CHECK:           %[[ON:.*]] = arith.select %[[SOME]], %[[BOUND]], %[[AFTER]]
// CHECK:           sched.next %[[ON]], %[[NEXT]] : i32, i32
// CHECK:         arith.sitofp %[[END]]
sched.kernel @search(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c5 = arith.constant 5 : i32
  %bound = arith.constant 60 : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.for_work grid (%number) {
    %n, %origin, %visible, %full = sched.next_visible from %c5 below %bound {
    ^bb0(%tile: i32):
      %is = arith.cmpi sge, %tile, %number : i32
      sched.visible %is, %is
    }
    %x = arith.sitofp %n : i32 to f32
    sched.store_element %x, %lse[%c5, %c5, %c5] : f32, !tile.view<3, f32>
  }
}

// -----

// Windows that begin in a gap begin behind it; its tiles are not visible.
// CHECK-LABEL: sched.kernel @gaps
// CHECK:         sched.for_tiles (%[[WINDOW:.*]], %[[FOUND:.*]]) =
// CHECK:           %[[ASKED:.*]] = arith.addi %[[WINDOW]], %{{.*}} {tile.name = "asked"}
// CHECK-DAG:       %[[BEFORE:.*]] = arith.cmpi slt, %[[ASKED]], %c9
// CHECK-DAG:       %[[BEHIND:.*]] = arith.cmpi sge, %[[ASKED]], %c40
// CHECK:           arith.ori %[[BEFORE]], %[[BEHIND]]
// CHECK:           sched.ballot
// CHECK:           %[[BEHIND:.*]] = arith.addi %[[WINDOW]], %c32
// CHECK:           %[[AFTER:.*]] = arith.select %{{.*}}, %{{.*}}, %[[BEHIND]]
// CHECK:           %[[IN:.*]] = arith.cmpi slt, %[[AFTER]], %c9
// CHECK:           %[[JUMP:.*]] = arith.maxsi %[[AFTER]], %c40
// CHECK:           %[[ON:.*]] = arith.select %[[IN]], %[[AFTER]], %[[JUMP]]
// CHECK:           sched.next %[[ON]]
sched.kernel @gaps(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c5 = arith.constant 5 : i32
  %c9 = arith.constant 9 : i32
  %c40 = arith.constant 40 : i32
  %bound = arith.constant 60 : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.for_work grid (%number) {
    %n, %origin, %visible, %full = sched.next_visible from %c5 below %bound without %c9, %c40 {
    ^bb0(%tile: i32):
      %is = arith.cmpi sge, %tile, %number : i32
      sched.visible %is, %is
    }
    %x = arith.sitofp %n : i32 to f32
    sched.store_element %x, %lse[%c5, %c5, %c5] : f32, !tile.view<3, f32>
  }
}

// -----

// A tile that lies in one block loads a flag; one that touches several loops over them.
// CHECK-LABEL: sched.kernel @pattern
// CHECK-NOT:     tile.touches
// CHECK:         tile.element {{.*}} in_range [false, false, false]
// CHECK:         sched.for_tiles
// CHECK:           sched.for_tiles
// CHECK:             tile.element {{.*}} in_range [false, true, true]
sched.kernel @pattern(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<pattern, i8, rank 3>], pattern = #attn.blocks<pattern, 64 x 64>} {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
  sched.for_work grid (%number) {
    %in = tile.touches %pattern[%number, %c0, %c0] tile 64 x 32 blocks 64 x 64 : !tile.view<3, i8>
    %several = tile.touches %pattern[%number, %c0, %c0] tile 128 x 32 blocks 64 x 64 : !tile.view<3, i8>
    %any = arith.ori %in, %several : i1
    %x = arith.select %any, %one, %zero : f32
    sched.store_element %x, %lse[%c0, %c0, %c0] : f32, !tile.view<3, f32>
  }
}

// -----

// Where the end is more than two windows away, a window moves ahead to the first group that may hold a visible tile: here
// behind the window, as the next tile is likely to be in it.
// CHECK-LABEL: sched.kernel @groups
// CHECK:         sched.for_tiles (%[[WINDOW:.*]], %[[FOUND:.*]]) =
// CHECK:           %[[VOTES:.*]] = sched.ballot
// CHECK:           %[[AFTER:.*]] = arith.addi %[[WINDOW]], %c32
// CHECK:           %[[FROM:.*]] = arith.select %{{.*}}, %{{.*}}, %[[AFTER]]
// CHECK:           %[[FAR:.*]] = arith.subi %{{.*}}, %c64{{.*}} {tile.name = "far"}
// CHECK:           %{{.*}}, %[[MOVED:.*]] = sched.for_tiles (%[[AHEAD:.*]], %{{.*}}) = (%[[FROM]], %[[FROM]]) below %[[FAR]] keeps {
// CHECK:             %[[FIRST:.*]] = arith.shrui %[[AHEAD]], %c5
// CHECK:             %[[LAST:.*]] = arith.shrui %{{.*}}, %c5
// CHECK:             %[[ASKED:.*]] = arith.addi %[[FIRST]], %{{.*}}
// CHECK:             %[[GROUP:.*]] = arith.minsi %[[ASKED]], %[[LAST]] {tile.name = "group"}
// CHECK:             %[[MAY:.*]] = arith.cmpi sge, %[[GROUP]]
// CHECK:             %[[GROUPS:.*]] = sched.ballot %[[MAY]]
// CHECK:             %[[ZEROS:.*]] = math.cttz %[[GROUPS]]
// CHECK:             %[[AT:.*]] = arith.addi %[[FIRST]], %[[ZEROS]]
// CHECK:             %[[BEGIN:.*]] = arith.shli %[[AT]], %c5
// CHECK:             %[[NEXT:.*]] = arith.maxsi %[[AHEAD]], %[[BEGIN]]
// CHECK:             %[[SOME:.*]] = arith.cmpi ne, %[[GROUPS]]
// CHECK:             %[[ON:.*]] = arith.select %[[SOME]], %{{.*}}, %[[NEXT]]
// CHECK:             sched.next %[[ON]], %[[NEXT]] : i32, i32
// CHECK:           sched.next %[[MOVED]], %{{.*}} : i32, i32
//
// A search whose answers are kept asks groups first.
// CHECK:         sched.for_tiles (%[[WINDOW:[^ ,]*]], %{{.*}}) =
// CHECK:           %{{.*}}, %[[MOVED:.*]] = sched.for_tiles (%{{.*}}, %{{.*}}) = (%[[WINDOW]], %[[WINDOW]]) below %{{.*}} keeps {
// CHECK:           arith.addi %[[MOVED]], %{{.*}} {tile.name = "asked"}
// CHECK:           %[[AFTER:.*]] = arith.addi %[[MOVED]], %c32
// CHECK:           %[[ON:.*]] = arith.select %{{.*}}, %{{.*}}, %[[AFTER]]
// CHECK:           sched.next %[[ON]]
sched.kernel @groups(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c5 = arith.constant 5 : i32
  %bound = arith.constant 600 : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.for_work grid (%number) {
    %n, %origin, %visible, %full = sched.next_visible from %c5 below %bound {
    ^bb0(%tile: i32):
      %is = arith.cmpi sge, %tile, %number : i32
      sched.visible %is, %is
    } groups {
    ^bb0(%group: i32):
      %may = arith.cmpi sge, %group, %number : i32
      sched.visible %may
    }
    %x = arith.sitofp %n : i32 to f32
    sched.store_element %x, %lse[%c5, %c5, %c5] : f32, !tile.view<3, f32>
    %n1, %origin1, %visible1, %full1 = sched.next_visible from %c5 below %bound {
    ^bb0(%tile: i32):
      %is = arith.cmpi sge, %tile, %number : i32
      sched.visible %is, %is
    } groups {
    ^bb0(%group: i32):
      %may = arith.cmpi sge, %group, %number : i32
      sched.visible %may
    }
    %y = arith.sitofp %visible1 : i32 to f32
    sched.store_element %y, %lse[%c5, %c5, %n1] : f32, !tile.view<3, f32>
  }
}
