
sched.kernel @first() grid [n 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
}
sched.kernel @bad() grid [n 4] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  }
  %z = arith.constant 0 : i32
  sched.for_work persistent from %z below %z (%number, %count) {
    sched.wait_launch
    sched.next %number : i32
}

