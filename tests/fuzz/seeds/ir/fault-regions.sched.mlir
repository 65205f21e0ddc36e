sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Sk = tile.axis_extent "k" : i32
  %found:4 = sched.next_visible from %c0 below %Sk {
  ^bb0(%tile: i32):
    %yes = arith.cmpi sge, %late, %tile : i32
    sched.visible %yes, %yes
  } groups {
  ^bb0(%group: i32):
    %late = arith.addi %group, %c0 : i32
    %some = arith.cmpi sge, %late, %c0 : i32
    sched.visible %some
  }
}
