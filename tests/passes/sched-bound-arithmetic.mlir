// RUN: attune-opt %s -sched-bound-arithmetic | FileCheck %s

// The counter of a loop is below ceil(Sk / 64), so that 64 times it is at most 2^30; nothing bounds the scalar's sum.
// CHECK-LABEL: sched.kernel @k
sched.kernel @k(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, d 64] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0
    dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {scalars = [#attn.scalar<n, i32>]} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %n = tile.param "scalars.n" : i32
  %Sk = tile.axis_extent "k" : i32
  %tile = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %end = arith.ceildivui %Sk, %c64 : i32
  sched.for_tiles (%i) = (%c0) below %end {
    // CHECK: arith.muli %{{.*}}, %c64{{.*}} overflow<nsw>
    %k0 = arith.muli %i, %c64 : i32
    // CHECK: arith.addi %{{.*}}, %n{{[^<]*$}}
    %y = arith.addi %k0, %n : i32
    // Nor does anything bound the scalar as a float, but tanh is at most 1, and a search at most 2^31 - 1.
    %f = arith.sitofp %n : i32 to f32
    %t = math.tanh %f : f32
    %whole = arith.fptosi %t : f32 to i32
    // CHECK: arith.addi %{{.*}}, %{{.*}} overflow<nsw> : i32
    %shifted = arith.addi %k0, %whole : i32
    %any = arith.fptosi %f : f32 to i32
    // CHECK: arith.addi %{{.*}}, %{{.*}} : i32
    %unbounded = arith.addi %k0, %any : i32
    // CHECK: arith.addi %{{.*}} overflow<nsw>
    %next = arith.addi %i, %c1 : i32
    sched.next %next : i32
  }
}

// The stage of a ring of two returns to 0, whatever the loop does, and a loop hands it to the next one. What a role
// receives has the range of what another role sends: a tile's first row here, and any integer.
// CHECK-LABEL: sched.kernel @roles
sched.kernel @roles(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, d 64] f32) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32
    dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {scalars = [#attn.scalar<n, i32>]} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  %n = tile.param "scalars.n" : i32
  %Sk = tile.axis_extent "k" : i32
  %tile = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %tasks = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
  sched.role "producer" warps 1 {
    sched.for_work persistent from %c0 below %Sk carries (%c0) (%number, %count, %first_stage) {
      %index = sched.nonnegative %number below 16777216 : i32
      // CHECK: arith.muli %{{.*}}, %c64{{.*}} overflow<nsw>
      %q0 = arith.muli %index, %c64 : i32
      sched.send %q0, %n to %tasks[%c0] : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
      %end:2 = sched.for_tiles (%i, %stage) = (%c0, %first_stage) below %n keeps {
        // CHECK: arith.addi %{{.*}}, %c1{{.*}} overflow<nsw>
        %after = arith.addi %stage, %c1 : i32
        %wraps = arith.cmpi eq, %after, %c2 : i32
        %next_stage = arith.select %wraps, %c0, %after : i32
        %next = arith.addi %i, %c1 overflow<nsw> : i32
        sched.next %next, %next_stage : i32, i32
      }
      // CHECK: %[[NEXT:.*]] = arith.addi %{{.*}}, %c1{{[^<]*$}}
      %next_number = arith.addi %number, %c1 : i32
      // CHECK-NEXT: arith.muli %{{.*}}, %c64{{.*}} overflow<nsw>
      %place = arith.muli %end#1, %c64 : i32
      sched.next %next_number, %end#1 : i32, i32
    }
  }
  sched.role "compute" warps 4 {
    sched.for_work received (%count) {
      %work:4 = sched.receive from %tasks[%c0] : !tile.tile<stage 2 x message 1 x field 4, i32, shared> -> i32, i32, i32, i32
      // CHECK: sched.receive
      // CHECK-NEXT: arith.addi %{{.*}}#0, %c64{{.*}} overflow<nsw>
      %q_end = arith.addi %work#0, %c64 : i32
      // CHECK-NEXT: arith.addi %{{.*}}#1, %c64{{[^<]*$}}
      %sum = arith.addi %work#1, %c64 : i32
      // CHECK-NEXT: arith.addi %{{.*}}#3, %c64{{.*}} overflow<nsw>
      %none = arith.addi %work#3, %c64 : i32
      sched.next %c0 : i32
    }
  }
}
