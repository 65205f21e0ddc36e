// RUN: attune-opt %s --sched-rematerialize | FileCheck %s

// In a role too, however deep its loop over work stands: the thread index that is read again is the role's.
// CHECK-LABEL: sched.kernel @role
// CHECK: sched.for_work
// CHECK-NOT: sched.thread_id
// CHECK: scf.if
// CHECK-NEXT: sched.read_thread_id
// CHECK: sched.store_element
// CHECK: sched.next
// CHECK: %[[BLOCK:.*]] = sched.read_block_id
// CHECK-NEXT: %[[BBITS:.*]] = arith.divui %[[BLOCK]], %[[HEADS:.*]] : i32
// CHECK-NEXT: %[[B:.*]] = sched.nonnegative %[[BBITS]]
// CHECK-NEXT: %[[HBITS:.*]] = arith.remui %[[BLOCK]], %[[HEADS]] : i32
// CHECK-NEXT: %[[H:.*]] = sched.nonnegative %[[HBITS]]
// CHECK: sched.read_thread_id
// CHECK: sched.store_element %{{.*}}, %{{.*}}[%[[B]], %[[H]], %
sched.kernel @role(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 256 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  %x = arith.constant 1.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.role "producer" warps 4 {
    scf.if %true {
      sched.for_work grid (%number) {
        %heads = tile.axis_extent "h" : i32
        %b_bits = arith.divui %number, %heads : i32
        %h_bits = arith.remui %number, %heads : i32
        %b = sched.nonnegative %b_bits : i32
        %h = sched.nonnegative %h_bits : i32
        %thread = sched.thread_id in_role : i32
        %lane = arith.remui %thread, %c32 : i32
        sched.for_tiles (%n) = (%c0) below %c32 {
          %s = sched.registers "s" : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.if %true {
            sched.store_element %x, %lse[%b, %h, %lane] : f32, !tile.view<3, f32>
          }
          sched.next %c32 : i32
        }
        sched.store_element %x, %lse[%b, %h, %lane] : f32, !tile.view<3, f32>
      }
    }
  }
  sched.role "consumer" warps 4 {
  }
}

// A persistent block's count of tiles is not read again: only where the tile of work is. What follows from a lane too is kept.
// CHECK-LABEL: sched.kernel @persistent
// CHECK: sched.for_work persistent from %{{.*}} below %{{.*}} (%[[NUMBER:.*]], %[[COUNT:.*]]) {
// CHECK: %[[MIXED:.*]] = arith.addi
// CHECK: sched.store_element %{{.*}}, %{{.*}}[%[[MIXED]], %{{.*}}
// CHECK: %[[AGAIN:.*]] = sched.opaque %[[NUMBER]]
// CHECK-NEXT: %[[BBITS:.*]] = arith.divui %[[AGAIN]], %[[HEADS:.*]] : i32
// CHECK-NEXT: %[[B:.*]] = sched.nonnegative %[[BBITS]]
// CHECK-NEXT: %[[HBITS:.*]] = arith.remui %[[AGAIN]], %[[HEADS]] : i32
// CHECK-NEXT: %[[H:.*]] = sched.nonnegative %[[HBITS]]
// CHECK-NEXT: sched.store_element %{{.*}}, %{{.*}}[%[[B]], %[[H]], %[[COUNT]]]
sched.kernel @persistent(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %x = arith.constant 1.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.for_work persistent from %c0 below %c32 (%number, %count) {
    %heads = tile.axis_extent "h" : i32
    %b_bits = arith.divui %number, %heads : i32
    %h_bits = arith.remui %number, %heads : i32
    %b = sched.nonnegative %b_bits : i32
    %h = sched.nonnegative %h_bits : i32
    %thread = sched.thread_id : i32
    %mixed = arith.addi %b, %thread : i32
    sched.store_element %x, %lse[%mixed, %c0, %c0] : f32, !tile.view<3, f32>
    sched.for_tiles (%n) = (%c0) below %c32 {
      %s = sched.registers "s" : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
      sched.next %c32 : i32
    }
    sched.store_element %x, %lse[%b, %h, %count] : f32, !tile.view<3, f32>
    sched.next %c32 : i32
  }
}

// Of a tile of work that another role sent, what is needed after the loop is received again there, as uniform as it was, and numbers that follow from it
// are computed again; but once, not after a loop that holds no tiles in registers too.
// CHECK-LABEL: sched.kernel @received
// CHECK: sched.for_work received
// CHECK: %[[FIRST:.*]]:4 = sched.receive
// CHECK: %[[FROM:.*]] = sched.uniform %[[FIRST]]#2
// CHECK-NOT: arith.addi
// CHECK: sched.for_tiles
// CHECK: %[[AGAIN:.*]]:4 = sched.receive
// CHECK: %[[ROW:.*]] = sched.uniform %[[AGAIN]]#2
// CHECK: %[[END:.*]] = arith.addi %[[ROW]], %c32
// CHECK: sched.for_tiles {{.*}} below %[[END]]
// CHECK-NOT: sched.receive
// CHECK: sched.next
// CHECK-NEXT: }
// CHECK-NEXT: sched.store_element %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %[[ROW]]]
// CHECK: sched.next %[[AGAIN]]#3
sched.kernel @received(lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 32 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %x = arith.constant 1.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %tasks = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
  sched.for_work received (%count) {
    %work:4 = sched.receive from %tasks[%c0] : !tile.tile<stage 2 x message 1 x field 4, i32, shared> -> i32, i32, i32, i32
    %row = sched.uniform %work#2 : i32
    %end = arith.addi %row, %c32 : i32
    sched.for_tiles (%n) = (%c0) below %row {
      %s = sched.registers "s" : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
      sched.store_element %x, %lse[%c0, %c0, %n] : f32, !tile.view<3, f32>
      sched.next %row : i32
    }
    sched.for_tiles (%n) = (%c0) below %end {
      sched.store_element %x, %lse[%c0, %c0, %n] : f32, !tile.view<3, f32>
      sched.next %end : i32
    }
    sched.store_element %x, %lse[%c0, %c0, %row] : f32, !tile.view<3, f32>
    sched.next %work#3 : i32
  }
}
