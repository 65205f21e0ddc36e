sched.kernel @bad() grid [] arch "longest_first" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.role "a" warps 4 registers 9223372036854775807 {
  }
  sched.role "b" warps 8 registers 232 {
 
 }
}

