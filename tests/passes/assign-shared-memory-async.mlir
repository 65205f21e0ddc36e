// RUN: attune-opt %s -sched-assign-shared-memory | FileCheck %s

// Both products read their shared operand until the wait for their group. %second is written before that wait, so that it
// has memory of its own; %third is written after the wait for the first product alone, and reuses the memory of %first.
// CHECK-LABEL: sched.kernel @products
// CHECK:         sched.shared "first" at 0 :
// CHECK:         sched.shared "second" at 8192 :
// CHECK:         sched.shared "third" at 0 :
// CHECK:         sched.shared "fourth" at 8192 :
sched.kernel @products(k: in [b, hkv, k, d 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 8192 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %true = arith.constant true
  %acc = sched.registers "acc" : <q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %other = sched.registers "other" : <q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : <q 64 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %first = sched.shared "first" at 0 : <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.mma_fence
  sched.mma_async %acc, %a[%c0, %c0], %first[%c0, %c0, %c0] accumulate %true : <q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 64, bf16, register, #sched.fragment<a, warps 4>>, <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.mma_commit
  %second = sched.shared "second" at 0 : <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.store_shared %c0, %second[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.mma_async %other, %a[%c0, %c0], %second[%c0, %c0, %c0] accumulate %true : <q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 64, bf16, register, #sched.fragment<a, warps 4>>, <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.mma_commit
  sched.mma_wait pending 1 completes(%acc) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %third = sched.shared "third" at 0 : <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.store_shared %c0, %third[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.mma_wait pending 0 completes(%other) : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %fourth = sched.shared "fourth" at 0 : <stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.store_shared %c0, %fourth[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  sched.store_shared %c0, %third[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}
