// RUN: attune-opt %s -split-input-file --sched-unswitch-masks | FileCheck %s

// A full tile waits for both products and maps them without a branch. The last mask keeps its branch, on a condition that
// the device compiler cannot prove true.
// CHECK-LABEL: sched.kernel @unswitched
// CHECK: sched.mma_commit
// CHECK-NEXT: sched.mma_commit
// CHECK: %[[LATE:.*]] = arith.cmpi sgt
// CHECK: %[[EARLY:.*]] = arith.cmpi slt
// CHECK: %[[ANY:.*]] = arith.ori %[[LATE]], %[[EARLY]]
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK-NEXT: sched.mma_wait pending 1 completes(%s)
// CHECK: sched.set %{{.*}}, %s[
// CHECK: sched.mma_wait pending 0 completes(%dp)
// CHECK: sched.set %{{.*}}, %dp[
// CHECK: scf.if %[[LATE]] {
// CHECK-NEXT: sched.set
// CHECK: scf.if %[[EARLY]] {
// CHECK-NEXT: sched.set
// CHECK: %[[WORD:.*]] = arith.extui %[[ANY]]
// CHECK: %[[HIDDEN:.*]] = sched.opaque %[[WORD]]
// CHECK: %[[HOLDS:.*]] = arith.cmpi ne, %[[HIDDEN]]
// CHECK: scf.if %[[HOLDS]] {
// CHECK-NEXT: sched.set %{{.*}}, %dp[
// CHECK: } else {
// CHECK-NEXT: sched.mma_wait pending 1 completes(%s)
// CHECK: sched.mma_wait pending 0 completes(%dp)
// CHECK: sched.set %{{.*}}, %dp[
// CHECK-NOT: scf.if
// CHECK: sched.mma_commit
sched.kernel @unswitched(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 1 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_wait pending 0 completes(%dp) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %dp[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %dp[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %n, %end : i32
        scf.if %late {
          sched.set %zero, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        %any = arith.ori %late, %early : i1
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        scf.if %any {
          sched.set %zero, %dp[%c0, %c4, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}

// -----

// The condition of the branch is made where no mask has it.
// CHECK-LABEL: sched.kernel @disjunction
// CHECK: %[[LATE:.*]] = arith.cmpi sgt
// CHECK: %[[EARLY:.*]] = arith.cmpi slt
// CHECK: %[[ANY:.*]] = arith.ori %[[LATE]], %[[EARLY]]
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK: scf.if %[[LATE]] {
// CHECK: scf.if %[[EARLY]] {
// CHECK-NOT: sched.opaque
// CHECK: } else {
// CHECK: sched.mma_wait pending 0 completes(%dp)
sched.kernel @disjunction(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 1 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_wait pending 0 completes(%dp) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %dp[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %dp[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %n, %end : i32
        scf.if %late {
          sched.set %zero, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}

// -----

// The condition differs between threads, which must wait for a product together: the branch holds the masks alone.
// CHECK-LABEL: sched.kernel @lanes
// CHECK: sched.mma_wait pending 0
// CHECK: %[[ANY:.*]] = arith.ori
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK-NEXT: scf.if
// CHECK-NEXT: sched.set
// CHECK: scf.if
// CHECK-NEXT: sched.set
// CHECK-NEXT: }
// CHECK-NEXT: sched.set %{{.*}}, %dp[
// CHECK-NOT: else
// CHECK: sched.mma_commit
sched.kernel @lanes(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 1 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_wait pending 0 completes(%dp) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %dp[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %dp[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %thread, %end : i32
        scf.if %late {
          sched.set %zero, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        %any = arith.ori %late, %early : i1
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        scf.if %any {
          sched.set %zero, %dp[%c0, %c4, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}

// -----

// Dropout is not duplicated.
// CHECK-LABEL: sched.kernel @dropout
// CHECK: sched.philox
// CHECK-NOT: sched.philox
// CHECK: scf.if
// CHECK-NEXT: scf.if
// CHECK-NOT: else
sched.kernel @dropout(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 1 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %r:4 = sched.philox counter %i, %c0, %c0, %c0 key %c0, %c0
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_wait pending 0 completes(%dp) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %dp[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %dp[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %n, %end : i32
        scf.if %late {
          sched.set %zero, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        %any = arith.ori %late, %early : i1
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        scf.if %any {
          sched.set %zero, %dp[%c0, %c4, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}

// -----

// Nor are ops before masks that read memory.
// CHECK-LABEL: sched.kernel @reads
// CHECK: sched.mma_wait pending 0
// CHECK: scf.if
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.element
// CHECK-NOT: else
sched.kernel @reads(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 1 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_wait pending 0 completes(%dp) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %dp[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %dp[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %n, %end : i32
        scf.if %late {
          %id = tile.element %lse[%c0, %c0, %c0] in_range [true, true, true] : !tile.view<3, f32> (i32, i32, i32) -> f32
          sched.set %id, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        %any = arith.ori %late, %early : i1
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        scf.if %any {
          sched.set %zero, %dp[%c0, %c4, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}

// -----

// Masks that follow one product, as in the forward pass, stay as they are.
// CHECK-LABEL: sched.kernel @one_product
// CHECK: scf.if
// CHECK-NEXT: sched.set
// CHECK-NEXT: }
// CHECK: scf.if
// CHECK-NEXT: sched.set
// CHECK-NEXT: }
// CHECK-NEXT: scf.if
// CHECK-NEXT: sched.set
// CHECK-NEXT: }
// CHECK-NEXT: sched.mma_commit
sched.kernel @one_product(lse: in [b, h, q] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  %end = tile.param "q_offset" : i32
  sched.role "consumer" warps 4 {
    sched.for_work grid (%number) {
      %thread = sched.thread_id in_role : i32
      sched.for_tiles (%n) = (%c0) below %c4 {
        %s = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        %dp = sched.registers "dp" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        sched.mma_commit
        sched.mma_commit
        sched.mma_wait pending 0 completes(%s) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %x = sched.get %s[%c0, %i, %c0] : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
          sched.set %x, %s[%c0, %i, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %next = arith.addi %n, %c1 : i32
        %late = arith.cmpi sgt, %n, %end : i32
        scf.if %late {
          sched.set %zero, %s[%c0, %c0, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        %early = arith.cmpi slt, %n, %end : i32
        %any = arith.ori %late, %early : i1
        scf.if %early {
          sched.set %zero, %s[%c0, %c1, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        scf.if %any {
          sched.set %zero, %dp[%c0, %c4, %c0] : f32, !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
        }
        sched.mma_commit
        sched.next %next : i32
      }
    }
  }
}
