sched.kernel @every_op(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 32768 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 2>
    attributes {dropout, precise, q_offset, pattern = #attn.blocks<pattern, 64x64>, scalars = [#attn.scalar<cap, f32>],
                tensors = [#attn.tensor<pattern, i8, rank 3>]} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
  %Sk = tile.axis_extent "k" : i32
  %cap = tile.param "scalars.cap" : f32


  %ring = sched.shared "k_ring" at 16384 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %p64 = sched.shared "panels_of_64" at 0 : !tile.tile<k 64 x d 32, f16, shared, #sched.swizzle<64>>
  %p32 = sched.shared "panels_of_32" at 128 : !tile.tile<k 64 x d 16, f16, shared, #sched.swizzle<32>>
  %linear = sched.shared "linear" at 256 : !tile.tile<k 64, f32, shared>
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "q" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "k" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  %m = sched.registers "m" : !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
  %acc = sched.registers "acc" : !tile.tile<q 32 x dv 64, f32, register, #sched.fragment<c, warps 2 x 9223372036854775807>>
  %bias = sched.registers "bias" : !tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>

  sched.for_work grid (%number) {
    %batch = sched.nonnegative %number : i32
    %head = sched.block_id : i32
    %q0 = sched.grid_size : i32
    %lane = sched.lane_id : i32
    %low_half = arith.cmpi slt, %lane, %head : i32
    %votes = sched.ballot %low_half : i32
    %block = sched.read_block_id : i32
    %again = sched.opaque %number : i32
    %kh = sched.slice %K[%batch, %head] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    %row = sched.slice %LSE[%batch, %head] : !tile.view<3, f32> -> !tile.view<1, f32>
    %own = sched.slice %LSE[%batch, %head, %head] : !tile.view<3, f32> -> !tile.view<2, f32>
    %null = sched.is_null %LSE : !tile.view<3, f32>
    %first, %origin, %visible, %full = sched.next_visible from %thread below %Sk {
    ^bb0(%tile: i32):
      %set = tile.touches %pattern[%head, %q0, %tile] tile 128 x 64 blocks 64 x 64 : !tile.view<3, i8>
      sched.visible %set, %set
    }
    %second:4 = sched.next_visible from %first below %Sk seen %origin, %visible, %full {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes
    }
    %third:6 = sched.next_visible from %first below %Sk without %thread, %first parts i32, i32 {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes parts %yes, %yes
    }
    %fourth:4 = sched.next_visible from %first below %Sk {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes
    } groups {
    ^bb0(%group: i32):
      %any = arith.cmpi sge, %group, %first : i32
      sched.visible %any
    }
    %other = sched.shuffle %thread, %q0 : i32
    sched.for_tiles (%n, %stage) = (%first, %thread) below %Sk {
      sched.copy_tile %K[%batch, %head, %n] limit %Sk to %ring[%stage] : !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.copy_async %kh[%n, %thread] to %ring[%stage, %thread] if %null : !tile.view<2, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      %columns = sched.extent %kh, 1 : !tile.view<2, bf16>
      %low = sched.unpack %n[%n] : bf16
      %below = sched.columns_below %n
      %bit = sched.test_bit %below[%n]
      %behind = sched.after %cap, %cap
      sched.commit_copies
      sched.barrier
      %slot = sched.slot %ring[%stage] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.load_matrix %ring[%stage, %n, %thread] to %b[%n, %n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      sched.load_matrix %ring[%stage, %n, %thread] to %b[%n, %n] transpose : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      sched.mma %s[%n, %n], %a[%n, %n], %b[%n, %n] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      %x = sched.get %s[%n, %n, %n] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
      %y = sched.shuffle_xor %x, 1 : f32
      sched.set %y, %m[%n, %n] : f32, !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
      %pair = sched.pack %x, %y : bf16
      %rectified = sched.pack %x, %y relu : f16
      %big, %small = sched.split_tf32 %x
      sched.store_shared %pair, %ring[%stage, %n, %n] : i32, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      %z = sched.load_shared %ring[%stage, %n, %n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
      %r0, %r1, %r2, %r3 = sched.philox counter %n, %n, %n, %n key %n, %n
      sched.copy_to_global %ring[%n, %stage] to %kh[%n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.view<2, bf16>
      sched.store_element %z, %row[%n] : f32, !tile.view<1, f32>
      sched.next %r0, %r1 : i32, i32
    }
    %zero = tile.splat %cap : f32 -> !tile.tile<q 128, f32, register>
    %last = sched.for_tiles (%n) = (%first) below %Sk tiles(%t = %zero : !tile.tile<q 128, f32, register>) {
      sched.next %n, %t : i32, !tile.tile<q 128, f32, register>
    }
  }
}

tile.launch [@first, @hopper dependent]

sched.kernel @first(counter: workspace [counters 1] i32) grid [counters 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.start_next_launch
}

sched.kernel @counts(counts: workspace [word 4, n] i64) grid [n by 32] arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 16 x k 16, warps = 1, blocks_per_sm = 1> {
  %lane = sched.thread_id : i32
  %C = tile.param "counts" : !tile.view<2, i64>
  sched.add_integer %lane to %C[%lane, %lane] : !tile.view<2, i64>
}

sched.kernel @hopper(k: in [b, hkv, k, d 64] bf16, sums: accumulate [b, h, q, d 64] f32, o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32, counter: workspace [counters 1] i32, saved.dropout: out [b, h, q by 16, k by 16, call 32] i8) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 132608 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
  %counter = tile.param "counter" : !tile.view<1, i32>
  %K = tile.param "k" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %lse3 = tile.param "lse" : !tile.view<3, f32>
  %Sk = tile.axis_extent "k" : i32
  %zero = arith.constant 0 : i32
  %k = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
                tensors = [#attn.tensor<pattern, i8, rank 3>]} {
  %q = sched.shared "q_tile" at 16384 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %lse = sched.slice %lse3[%zero] : !tile.view<3, f32> -> !tile.view<2, f32>
  %dq = sched.shared "dq" at 65536 : !tile.tile<stage 1 x q 128 x d 64, f32, shared>
  %kr = sched.ring "k" at 130000 filled_by 1 emptied_by 8 : !sched.ring<2>
  sched.init_ring %kr : !sched.ring<2>
  sched.fence_init
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %omap = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %tasks = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
  sched.wait_launch
  sched.role "producer" warps 4 registers 24 {
    %thread = sched.thread_id in_role : i32
    %one = sched.elect
    sched.for_work persistent from %zero below %Sk (%b, %h) {
      %q0 = sched.nonnegative %b : i32
      sched.send %b, %h to %tasks[%zero] : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
      sched.acquire %kr[%zero] phase %zero : !sched.ring<2>
      sched.expect_bytes 8192 on %kr[%zero] : !sched.ring<2>
      sched.load_box %map[%b, %h, %zero, %zero] to %k[%zero] signal %kr : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      sched.commit %kr[%zero] : !sched.ring<2>
      sched.load_box %map[%b, %h, %zero, %zero] from %q0 to %k[%zero] signal %kr : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      %piece = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<8 x 64, bf16>
      sched.load_box %piece[%b, %h, %zero, %zero] to %k[%zero, %zero] signal %kr : !sched.tensor_map<8 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      sched.copy_window %K[%zscalarsero, %zero, %zero] to %k[%zero] signal %kr : !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      sched.copy_window %K[%zero, %zero, %zero, %zero] to %k[%zero] signal %kr by %map : !sched.tensor_map<64 x 64, bf16>, !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      sched.sync_lanes
      %bias = sched.shared "bias_ring" at 131072 : !tile.tile<stage 2 x distance 191, i32, shared>
      %near = sched.load_shared %bias[%zero, %zero, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32
      %stepped = sched.load_shared %bias[%zero, %zero, %zero] step [%zero, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32
      %left, %right = sched.load_pair %bias[%zero, %b, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32, i32
      %held = sched.registers "near" : !tile.tile<q 128 x k 64, i32, register, #sched.fragment<diagonals, warps 8>>
      sched.set %near, %held[%zero, %zero] : i32, !tile.tile<q 128 x k 64, i32, register, #sched.fragment<diagonals, warps 8>>
      %spread = sched.registers "spread" : !tile.tile<distance 191, i32, register, #sched.fragment<threads, warps 1>>
      sched.store_tile %spread to %bias[%zero] : !tile.tile<distance 191, i32, register, #sched.fragment<threads, warps 1>>, !tile.tile<stage 2 x distance 191, i32, shared>
      sched.next %b : i32
    }
  }
  sched.role "consumer" warps 8 registers 240 {
    sched.for_work persistent from %zero below %Sk carries (%zero, %zero) (%number, %count, %stage, %phase) {
      %same = sched.uniform %stage : i32
      sched.next %number, %count, %same : i32, i32, i32
    } {tile.names = ["number", "count", "stage", "phase"]}
    sched.for_work received carries (%zero) (%count, %stage) {
      %work:4 = sched.receive from %tasks[%stage] : !tile.tile<stage 2 x message 1 x field 4, i32, shared> - i32, i32, i32, i32
      sched.store_matrix %work#3, %work#3, %work#3, %work#3 to %k[%zero, %zero, %zero] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.scale_shared %k[%zero, %zero, %zero] exponent -3 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.next %work#3, %stage : i32, i32
    }
    }
    sched.for_work persistent from %zero below %Sk carries (%zero) (%number, %cou»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»»nt, %stage) {
      %claimed = sched.claim_work %counter : !tile.view<1, i32>
      %next = sched.shuffle %claimed, %zero : i31
      sched.next %next, %stage : i32, i32
    }
    %qt = sched.shared "qt" at 0 : !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.swizzle<128>>
    %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
   `%p = sched.registers "p" : !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
    %o = sched.registers "o" : !tile.tile<q 4294967295 x dv 64, f32, register, #sched.fragment<c, warps 8>>
    %sums = sched.shared "sums" at 0 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
    %SUMS = tile.param "sums" : !tile.view<4, f32>Û    sched.write_tile %sums[%zero] to %SUMS[%zero, %zero, %zero] limit %Sk column_splits 1 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32
    %wide = sched.registers "wide" : !tile.tile<q 64 x d 128, f32, register, #sched.fragment<c, warps 4 x 2>>
    sched.store_tile %wide to %sums[%zero] : !tile.tile<q 64 x d 128, f32, register, <c, warps 4 x 2>>, !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
    %float = arith.constant 1.0 : f32
    sched.for_work grid (%b) {
      %h = sched.nonnegative %b : i32
      %q0 = sched.nonnegative %b : i32
      sched.wait %kr[%zero] phase %zero : !sched.ring<2>
      sched.mma_fence
      sched.mma_async %s, %q[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !:tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_commit
      sched.mma_async %o, %p[%zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_commit
      sched.mma_async %o, %qt[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose transpose_left : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_async %s, %qt[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose_left : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.at<128>>, !tile.tilestage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_commit
      sched.mma_wait pending 1 completes(%s) : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
      sched.mma_wait pending 0
      sched.release %kr[%zero] : !sched.ring<2>
      sched.release %kr[%zero] by_lanes : !sched.ring<2>
      %slot = sched.slot %k[%zero] {sched.at = #sched.at<order 0, stage 0>} : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d  bf16, shared, #sched.swizzle<128>>
      sched.release %kr[%zero] {sched.at = #sched.at<stage 1, order 2>} : !sched.ring<2> reads %slot : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.release %kr[%zero] by_lanes {sched.at = #sched.at<ping_pong "products", order 3, stage 1>} : !sched.ring<2> reads %slot, %slot : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.sync_warps %zero threads 256
      sched.arrive_warps %zero threads 256
      sched.fence_async
      sched.store_box %q[%zero, %zero] to %omap[%b, %h, %q0, %zero] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      %sums_map = sched.tensor_map %SUMS swizzle <128> : !tile.view<4, f32> -> !sched.tensor_map<64 x 32, f32>
      sched.store_box %sums[%zero, %zero] to %sums_map[%b, %h, %q0, %zero] adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 32, f32>
      sched.store_box %sums[%zero, %zero] to %sums_map[%b, %h, %q0, %zero] at %q0 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 32, f32>
      sched.store_shared %float and %float, %sums[%zero, %zero, %zero] : f32, !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
      %sum0, %sum1 = sched.load_elements %lse[%q0, %zero] : !tile.view<2, f32>
      %in_pairs = sched.in_pairs %lse : !tile.view<2, f32>
      sched.store_elements %sum0, %sum1 to %lse[%q0, %zero] : !tile.view<2, f32>
      sched.add_elements %sum0, %sum1 to %lse[%q0, %zero] : !tile.view<2, f32>
      %BYTES = tile.param "saved.dropout
sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <tile_q = 128, ti" : !tile.view<5, i8>
      %bits = sched.load_byte pair %BYTle_k = 64, warps = 4, blocks_per_sm = 2> {
  %0 = sES[%zero, %zero, %zero, %zero, %zero] : !tile.view<5, i8>
      sched.store_byte %bits, %BYTES[%zerched.reo, gisters "s" : !tile.tile<q r_sm 2 shared_bytes128 x d 8, bf16, register, #sched.fragment<a, warps 4>>
}

%zero, %zero, %zero, %zero] : !tile.view<5, i8>
      sched.add_rows 64 of %dq[%zero, %zero] to %lse[%q0] : !tile.tile<stage 1 x q 128 x d 64, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
  }
}
