// RUN: attune-opt %s -sched-bound-arithmetic | FileCheck %s

// The counter of a loop is below ceil(Sk / 64), so that 64 times it is at most 2^30; nothing bounds the scalar's sum.
// CHECK-LABEL: sched.kernel @k
sched.kernel @k(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, d 64] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0
    dtype bf16 plan <tile_q = 64, tile_k = 64, warps = 4, blocks_per_sm = 1> attributes {scalars = [#attn.scalar<n, i32>]} {
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
    // CHECK: arith.addi %{{.*}} overflow<nsw>
    %next = arith.addi %i, %c1 : i32
    sched.next %next : i32
  }
}
