// RUN: attune-print-cuda %s | FileCheck %s

// Integers that are added to int64 in memory keep their sign, and need no result of the addition.

// CHECK:     long long *words;  // [word 2, n]
// CHECK:     void add_int64(long long *address, int x) {
// CHECK:       red.global.add.u64
// CHECK:     add_int64(params.words + {{.*}}params.words_stride[0]{{.*}}, {{.*}});
sched.kernel @count(words: workspace [word 2, n] i64) grid [n by 32] arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype f32
    plan <q 16 x k 16, warps = 1, blocks_per_sm = 1> {
  %W = tile.param "words" : !tile.view<2, i64>
  %one = arith.constant 1 : i32
  %lane = sched.thread_id : i32
  sched.for_work grid (%n) {
    %added = arith.subi %one, %lane : i32
    sched.add_integer %added to %W[%one, %lane] : !tile.view<2, i64>
  }
}
