// RUN: attune-opt %s -sched-verify -split-input-file -verify-diagnostics -o /dev/null

// What a lane stores is at its row plus the step, in each turn of the loop: all of `rows`, in the place of `terms`.
sched.kernel @all_rows(sums: accumulate [b, h, q, d 32] f32, o: out [b, h, q, d 32] f32) grid [b, h, q by 64] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 8192 dtype f32 plan <q 64 x k 16, warps = 1, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %four = arith.constant 4 : i32
  %eight = arith.constant 8 : i32
  %c16 = arith.constant 16 : i32
  %c64 = arith.constant 64 : i32
  %value = arith.constant 1.0 : f32
  %SUMS = tile.param "sums" : !tile.view<4, f32>
  %O = tile.param "o" : !tile.view<4, f32>
  %Sq = tile.axis_extent "q" : i32
  %thread = sched.thread_id : i32
  %lane = sched.lane_id : i32
  %lane_row = arith.divui %lane, %four : i32
  sched.for_work grid (%number) {
    %sums = sched.slice %SUMS[%zero, %zero] : !tile.view<4, f32> -> !tile.view<2, f32>
    %o = sched.slice %O[%zero, %zero] : !tile.view<4, f32> -> !tile.view<2, f32>
    %terms = sched.shared "terms" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared>
    scf.for %i = %zero to %four step %one : i32 {
      %at = arith.muli %i, %c16 : i32
      %row = arith.addi %lane_row, %at : i32
      sched.store_shared %value, %terms[%zero, %row, %zero] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared>
    }
    sched.fence_async
    sched.barrier
    %first = arith.cmpi eq, %lane, %zero : i32
    scf.if %first {
      sched.add_rows 64 of %terms[%zero, %zero] to %sums[%zero] : !tile.tile<stage 1 x q 64 x d 32, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.barrier
    %rows = sched.shared "rows" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    scf.for %i = %zero to %four step %one : i32 {
      %at = arith.muli %i, %c16 : i32
      sched.store_shared %value, %rows[%zero, %lane_row, %zero] step [%at, %zero] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    }
    sched.barrier
    scf.for %copy = %zero to %eight step %one : i32 {
      %past = arith.muli %copy, %eight : i32
      %row = arith.addi %lane_row, %past : i32
      %inside = arith.cmpi slt, %row, %Sq : i32
      scf.if %inside {
        sched.copy_to_global %rows[%row, %zero] to %o[%row] : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>, !tile.view<2, f32>
      }
    }
  }
}

// -----

sched.kernel @last_rows_missing(sums: accumulate [b, h, q, d 32] f32, o: out [b, h, q, d 32] f32) grid [b, h, q by 64] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 8192 dtype f32 plan <q 64 x k 16, warps = 1, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %four = arith.constant 4 : i32
  %eight = arith.constant 8 : i32
  %c16 = arith.constant 16 : i32
  %c64 = arith.constant 64 : i32
  %value = arith.constant 1.0 : f32
  %SUMS = tile.param "sums" : !tile.view<4, f32>
  %O = tile.param "o" : !tile.view<4, f32>
  %Sq = tile.axis_extent "q" : i32
  %thread = sched.thread_id : i32
  %lane = sched.lane_id : i32
  %lane_row = arith.divui %lane, %four : i32
  sched.for_work grid (%number) {
    %sums = sched.slice %SUMS[%zero, %zero] : !tile.view<4, f32> -> !tile.view<2, f32>
    %o = sched.slice %O[%zero, %zero] : !tile.view<4, f32> -> !tile.view<2, f32>
    %terms = sched.shared "terms" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared>
    scf.for %i = %zero to %four step %one : i32 {
      %at = arith.muli %i, %c16 : i32
      %row = arith.addi %lane_row, %at : i32
      // expected-note @below {{the other op is here}}
      sched.store_shared %value, %terms[%zero, %row, %zero] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared>
    }
    sched.fence_async
    sched.barrier
    %first = arith.cmpi eq, %lane, %zero : i32
    scf.if %first {
      sched.add_rows 64 of %terms[%zero, %zero] to %sums[%zero] : !tile.tile<stage 1 x q 64 x d 32, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.barrier
    %rows = sched.shared "rows" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    scf.for %i = %zero to %three step %one : i32 {
      %at = arith.muli %i, %c16 : i32
      sched.store_shared %value, %rows[%zero, %lane_row, %zero] step [%at, %zero] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    }
    sched.barrier
    scf.for %copy = %zero to %eight step %one : i32 {
      %past = arith.muli %copy, %eight : i32
      %row = arith.addi %lane_row, %past : i32
      %inside = arith.cmpi slt, %row, %Sq : i32
      scf.if %inside {
        // expected-error @below {{'sched.copy_to_global' op reads stage 0 of rows, whose bytes hold terms}}
        // expected-note @below {{with Sq}}
        sched.copy_to_global %rows[%row, %zero] to %o[%row] : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>, !tile.view<2, f32>
      }
    }
  }
}
