// Every op, attribute and optional part of the sched dialect, through text and through the generic form.
// RUN: attune-opt %s | attune-opt | FileCheck %s
// RUN: attune-opt %s --mlir-print-op-generic | attune-opt | FileCheck %s
// RUN: attune-opt %s > %t.once && attune-opt %t.once > %t.twice && cmp %t.once %t.twice

// CHECK-LABEL: sched.kernel @every_op({{.*}}) grid {{.*}} arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 32768 dtype bf16
// CHECK-SAME: plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {dropout, pattern = #attn.blocks<pattern, 64x64>, precise, q_offset
// CHECK-SAME: scalars = [#attn.scalar<cap, f32>], tensors = [#attn.tensor<pattern, i8, rank 3>]}
sched.kernel @every_op(k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 32768 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 2>
    attributes {dropout, precise, q_offset, pattern = #attn.blocks<pattern, 64x64>, scalars = [#attn.scalar<cap, f32>],
                tensors = [#attn.tensor<pattern, i8, rank 3>]} {
  // Launch parameters are read by the ops of the tile dialect.
  // CHECK: tile.param "k" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
  %Sk = tile.axis_extent "k" : i32
  %cap = tile.param "scalars.cap" : f32

  // CHECK: %[[RING:.*]] = sched.shared "k_ring" at 16384 : <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.shared "k_ring" at 16384 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // CHECK: sched.shared "panels_of_64" at 0 : <k 64 x d 32, f16, shared, #sched.swizzle<64>>
  %p64 = sched.shared "panels_of_64" at 0 : !tile.tile<k 64 x d 32, f16, shared, #sched.swizzle<64>>
  // CHECK: sched.shared "panels_of_32" at 128 : <k 64 x d 16, f16, shared, #sched.swizzle<32>>
  %p32 = sched.shared "panels_of_32" at 128 : !tile.tile<k 64 x d 16, f16, shared, #sched.swizzle<32>>
  // CHECK: sched.shared "linear" at 256 : <k 64, f32, shared>
  %linear = sched.shared "linear" at 256 : !tile.tile<k 64, f32, shared>
  // CHECK: %[[S:.*]] = sched.registers "s" : <q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  // CHECK: %[[A:.*]] = sched.registers "q" : <q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %a = sched.registers "q" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  // CHECK: %[[B:.*]] = sched.registers "k" : <k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  %b = sched.registers "k" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // CHECK: %[[M:.*]] = sched.registers "m" : <q 128, f32, register, #sched.fragment<rows, warps 4>>
  %m = sched.registers "m" : !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
  // CHECK: sched.registers "acc" : <q 32 x dv 64, f32, register, #sched.fragment<c, warps 2 x 2>>
  %acc = sched.registers "acc" : !tile.tile<q 32 x dv 64, f32, register, #sched.fragment<c, warps 2 x 2>>
  // CHECK: sched.registers "bias" : <k 64, f32, register, #sched.fragment<columns, warps 4>>
  %bias = sched.registers "bias" : !tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>
  // CHECK: %[[THREAD:.*]] = sched.thread_id : i32
  %thread = sched.thread_id : i32

  // CHECK: sched.for_work grid (%[[NUMBER:.*]]) {
  sched.for_work grid (%number) {
    // CHECK: %[[BATCH:.*]] = sched.nonnegative %[[NUMBER]] : i32
    %batch = sched.nonnegative %number : i32
    // CHECK: %[[HEAD:.*]] = sched.block_id : i32
    %head = sched.block_id : i32
    // CHECK: %[[Q0:.*]] = sched.grid_size : i32
    %q0 = sched.grid_size : i32
    // CHECK: sched.lane_id : i32
    %lane = sched.lane_id : i32
    %low_half = arith.cmpi slt, %lane, %head : i32
    // CHECK: sched.ballot %{{.*}} : i32
    %votes = sched.ballot %low_half : i32
    // CHECK: sched.read_block_id : i32
    %block = sched.read_block_id : i32
    // CHECK: sched.opaque %[[NUMBER]] : i32
    %again = sched.opaque %number : i32
    // CHECK: %[[KH:.*]] = sched.slice %{{.*}}[%[[BATCH]], %[[HEAD]]] : <4, bf16> -> <2, bf16>
    %kh = sched.slice %K[%batch, %head] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    %row = sched.slice %LSE[%batch, %head] : !tile.view<3, f32> -> !tile.view<1, f32>
    // CHECK: sched.slice %{{.*}}[%[[BATCH]], %[[HEAD]], %[[HEAD]]] : <3, f32> -> <2, f32>
    %own = sched.slice %LSE[%batch, %head, %head] : !tile.view<3, f32> -> !tile.view<2, f32>
    // CHECK: sched.is_null %{{.*}} : <3, f32>
    %null = sched.is_null %LSE : !tile.view<3, f32>
    // CHECK: %[[FIRST:.*]], %[[ORIGIN:.*]], %[[VISIBLE:.*]], %[[FULL:.*]] = sched.next_visible from %[[THREAD]] below %{{.*}} {
    // CHECK: ^bb0(%[[TILE:.*]]: i32):
    // CHECK: %[[SET:.*]] = tile.touches %{{.*}}[%[[HEAD]], %[[Q0]], %[[TILE]]] tile 128 x 64 blocks 64 x 64 : <3, i8>
    // CHECK: sched.visible %[[SET]], %[[SET]]
    %first, %origin, %visible, %full = sched.next_visible from %thread below %Sk {
    ^bb0(%tile: i32):
      %set = tile.touches %pattern[%head, %q0, %tile] tile 128 x 64 blocks 64 x 64 : !tile.view<3, i8>
      sched.visible %set, %set
    }
    // CHECK: %[[SECOND:.*]], %{{.*}}, %{{.*}}, %{{.*}} = sched.next_visible from %[[FIRST]] below %{{.*}} seen %[[ORIGIN]], %[[VISIBLE]], %[[FULL]] {
    %second:4 = sched.next_visible from %first below %Sk seen %origin, %visible, %full {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes
    }
    // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}:2 = sched.next_visible from %[[FIRST]] below %{{.*}} without %[[THREAD]], %[[FIRST]] parts i32, i32 {
    // CHECK: sched.visible %{{.*}}, %{{.*}} parts %{{.*}}, %{{.*}}
    %third:6 = sched.next_visible from %first below %Sk without %thread, %first parts i32, i32 {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes parts %yes, %yes
    }
    // CHECK: sched.next_visible from %[[FIRST]] below %{{.*}} {
    // CHECK: sched.visible %{{.*}}, %{{.*}}
    // CHECK-NEXT: } groups {
    // CHECK-NEXT: ^bb0(%[[GROUP:.*]]: i32):
    // CHECK-NEXT: %[[ANY:.*]] = arith.cmpi sge, %[[GROUP]], %[[FIRST]] : i32
    // CHECK-NEXT: sched.visible %[[ANY]]{{$}}
    // CHECK-NEXT: }
    %fourth:4 = sched.next_visible from %first below %Sk {
    ^bb0(%tile: i32):
      %yes = arith.constant true
      sched.visible %yes, %yes
    } groups {
    ^bb0(%group: i32):
      %any = arith.cmpi sge, %group, %first : i32
      sched.visible %any
    }
    // CHECK: sched.shuffle %[[THREAD]], %{{.*}} : i32
    %other = sched.shuffle %thread, %q0 : i32
    // CHECK: sched.for_tiles (%[[N:.*]], %[[STAGE:.*]]) = (%{{.*}}, %[[THREAD]]) below %{{.*}} {
    sched.for_tiles (%n, %stage) = (%first, %thread) below %Sk {
      // CHECK: sched.copy_tile %{{.*}}[%[[BATCH]], %[[HEAD]], %[[N]]] limit %{{.*}} to %[[RING]][%[[STAGE]]] : <4, bf16>, <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.copy_tile %K[%batch, %head, %n] limit %Sk to %ring[%stage] : !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.copy_async %[[KH]][%[[N]], %[[THREAD]]] to %[[RING]][%[[STAGE]], %[[THREAD]]] if %{{.*}} : <2, bf16>, <stage 2 x
      sched.copy_async %kh[%n, %thread] to %ring[%stage, %thread] if %null : !tile.view<2, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.extent %[[KH]], 1 : <2, bf16>
      %columns = sched.extent %kh, 1 : !tile.view<2, bf16>
      // CHECK: sched.unpack %[[N]][%[[N]]] : bf16
      %low = sched.unpack %n[%n] : bf16
      // CHECK: %[[BELOW:.*]] = sched.columns_below %[[N]]
      %below = sched.columns_below %n
      // CHECK: sched.test_bit %[[BELOW]][%[[N]]]
      %bit = sched.test_bit %below[%n]
      // CHECK: sched.after %[[CAP:.*]], %[[CAP]]
      %behind = sched.after %cap, %cap
      // CHECK: sched.commit_copies
      sched.commit_copies
      // CHECK: sched.wait_copies pending 1
      sched.wait_copies pending 1
      // CHECK: sched.barrier
      sched.barrier
      // CHECK: sched.slot %[[RING]][%[[STAGE]]] : <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> <k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      %slot = sched.slot %ring[%stage] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.load_matrix %[[RING]][%[[STAGE]], %[[N]], %[[THREAD]]] to %[[B]][%[[N]], %[[N]]] : <stage 2 x
      sched.load_matrix %ring[%stage, %n, %thread] to %b[%n, %n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      // CHECK: sched.load_matrix %[[RING]][%[[STAGE]], %[[N]], %[[THREAD]]] to %[[B]][%[[N]], %[[N]]] transpose : <stage 2 x
      sched.load_matrix %ring[%stage, %n, %thread] to %b[%n, %n] transpose : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      // CHECK: sched.mma %[[S]][%[[N]], %[[N]]], %[[A]][%[[N]], %[[N]]], %[[B]][%[[N]], %[[N]]] : <q 128 x k 64
      sched.mma %s[%n, %n], %a[%n, %n], %b[%n, %n] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
      // CHECK: sched.get %[[S]][%[[N]], %[[N]], %[[N]]] : <q 128 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
      %x = sched.get %s[%n, %n, %n] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
      // CHECK: sched.shuffle_xor %{{.*}}, 1 : f32
      %y = sched.shuffle_xor %x, 1 : f32
      // CHECK: sched.set %{{.*}}, %[[M]][%[[N]], %[[N]]] : f32, <q 128, f32, register, #sched.fragment<rows, warps 4>>
      sched.set %y, %m[%n, %n] : f32, !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
      // CHECK: sched.pack %{{.*}}, %{{.*}} : bf16
      %pair = sched.pack %x, %y : bf16
      // CHECK: sched.pack %{{.*}}, %{{.*}} relu : f16
      %rectified = sched.pack %x, %y relu : f16
      // CHECK: %{{.*}}, %{{.*}} = sched.split_tf32 %{{.*}}
      %big, %small = sched.split_tf32 %x
      // CHECK: sched.store_shared %{{.*}}, %[[RING]][%[[STAGE]], %[[N]], %[[N]]] : i32, <stage 2 x
      sched.store_shared %pair, %ring[%stage, %n, %n] : i32, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.load_shared %[[RING]][%[[STAGE]], %[[N]], %[[N]]] : <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
      %z = sched.load_shared %ring[%stage, %n, %n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
      // CHECK: %{{.*}}:4 = sched.philox counter %[[N]], %[[N]], %[[N]], %[[N]] key %[[N]], %[[N]]
      %r0, %r1, %r2, %r3 = sched.philox counter %n, %n, %n, %n key %n, %n
      // CHECK: sched.copy_to_global %[[RING]][%[[N]], %[[STAGE]]] to %[[KH]][%[[N]]] : <stage 2 x {{.*}}, <2, bf16>
      sched.copy_to_global %ring[%n, %stage] to %kh[%n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.view<2, bf16>
      // CHECK: sched.store_element %{{.*}}, %{{.*}}[%[[N]]] : f32, <1, f32>
      sched.store_element %z, %row[%n] : f32, !tile.view<1, f32>
      // CHECK: sched.next %{{.*}}, %{{.*}} : i32, i32
      sched.next %r0, %r1 : i32, i32
    }
    // Before expansion a loop also carries tiles.
    // CHECK: sched.for_tiles (%[[N:.*]]) = (%{{.*}}) below %{{.*}} tiles(%[[T:.*]] = %{{.*}} : !tile.tile<q 128, f32, register>) {
    // CHECK: sched.next %[[N]], %[[T]] : i32, !tile.tile<q 128, f32, register>
    %zero = tile.splat %cap : f32 -> !tile.tile<q 128, f32, register>
    %last = sched.for_tiles (%n) = (%first) below %Sk tiles(%t = %zero : !tile.tile<q 128, f32, register>) {
      sched.next %n, %t : i32, !tile.tile<q 128, f32, register>
    }
  }
}

tile.launch [@first, @hopper dependent]

// CHECK-LABEL: sched.kernel @first
sched.kernel @first(counter: workspace [counters 1] i32) grid [counters 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // CHECK: sched.start_next_launch
  sched.start_next_launch
}

// CHECK-LABEL: sched.kernel @counts
sched.kernel @counts(counts: workspace [word 4, n] i64) grid [n by 32] arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 16 x k 16, warps = 1, blocks_per_sm = 1> {
  %lane = sched.thread_id : i32
  %C = tile.param "counts" : !tile.view<2, i64>
  // CHECK: sched.add_integer %[[LANE:.*]] to %{{.*}}[%[[LANE]], %[[LANE]]] : <2, i64>
  sched.add_integer %lane to %C[%lane, %lane] : !tile.view<2, i64>
}

// Roles, rings, TMA, asynchronous matrix instructions.
// CHECK-LABEL: sched.kernel @hopper
sched.kernel @hopper(k: in [b, hkv, k, d 64] bf16, sums: accumulate [b, h, q, d 64] f32, o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32, counter: workspace [counters 1] i32, saved.dropout: out [b, h, q by 16, k by 16, call 32] i8) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 132608 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
  %counter = tile.param "counter" : !tile.view<1, i32>
  %K = tile.param "k" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %lse3 = tile.param "lse" : !tile.view<3, f32>
  %Sk = tile.axis_extent "k" : i32
  %zero = arith.constant 0 : i32
  %true = arith.constant true
  %k = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %q = sched.shared "q_tile" at 16384 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %lse = sched.slice %lse3[%zero] : !tile.view<3, f32> -> !tile.view<2, f32>
  %dq = sched.shared "dq" at 65536 : !tile.tile<stage 1 x q 128 x d 64, f32, shared>
  // CHECK: %[[KR:.*]] = sched.ring "k" at 130000 filled_by 1 emptied_by 8 : <2>
  %kr = sched.ring "k" at 130000 filled_by 1 emptied_by 8 : !sched.ring<2>
  // CHECK: sched.init_ring %[[KR]] : <2>
  sched.init_ring %kr : !sched.ring<2>
  // CHECK: sched.fence_init
  sched.fence_init
  // CHECK: %[[MAP:.*]] = sched.tensor_map %{{.*}} swizzle <128> : <4, bf16> -> <64 x 64, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %omap = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %tasks = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
  // CHECK: sched.wait_launch
  sched.wait_launch
  // CHECK: sched.role "producer" warps 4 registers 24 {
  sched.role "producer" warps 4 registers 24 {
    // CHECK: sched.thread_id in_role : i32
    %thread = sched.thread_id in_role : i32
    // CHECK: %{{.*}} = sched.elect
    %one = sched.elect
    // CHECK: sched.for_work persistent from %[[FIRST:.*]] below %[[BOUND:.*]] (%[[B:.*]], %[[H:.*]]) {
    sched.for_work persistent from %zero below %Sk (%b, %h) {
      // CHECK: %[[Q0:.*]] = sched.nonnegative %[[B]] : i32
      %q0 = sched.nonnegative %b : i32
      // CHECK: sched.send %[[B]], %[[H]] to %{{.*}}[%{{.*}}] : <stage 2 x message 1 x field 4, i32, shared>
      sched.send %b, %h to %tasks[%zero] : !tile.tile<stage 2 x message 1 x field 4, i32, shared>
      // CHECK: sched.acquire %[[KR]][%{{.*}}] phase %{{.*}} : <2>
      sched.acquire %kr[%zero] phase %zero : !sched.ring<2>
      // CHECK: sched.expect_bytes 8192 on %[[KR]][%{{.*}}] : <2>
      sched.expect_bytes 8192 on %kr[%zero] : !sched.ring<2>
      // CHECK: sched.load_box %[[MAP]][%[[B]], %[[H]], %{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}] signal %[[KR]] : <64 x 64, bf16>, <stage 2 x k 64 x d 64
      sched.load_box %map[%b, %h, %zero, %zero] to %k[%zero] signal %kr : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      // CHECK: sched.commit %[[KR]][%{{.*}}] : <2>
      sched.commit %kr[%zero] : !sched.ring<2>
      // CHECK: sched.commit %[[KR]][%{{.*}}] by_warp : <2>
      sched.commit %kr[%zero] by_warp : !sched.ring<2>
      // CHECK: sched.load_box %[[MAP]][%[[B]], %[[H]], %{{.*}}, %{{.*}}] from %[[Q0]] to %{{.*}}[%{{.*}}] signal %[[KR]] : <64 x 64, bf16>, <stage 2 x k 64 x d 64
      sched.load_box %map[%b, %h, %zero, %zero] from %q0 to %k[%zero] signal %kr : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      %piece = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<8 x 64, bf16>
      // CHECK: sched.load_box %{{.*}}[%[[B]], %[[H]], %{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}] signal %[[KR]] : <8 x 64, bf16>, <stage 2 x k 64 x d 64
      sched.load_box %piece[%b, %h, %zero, %zero] to %k[%zero, %zero] signal %kr : !sched.tensor_map<8 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      // CHECK: sched.copy_window %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}] signal %[[KR]] by %[[MAP]] : <64 x 64, bf16>, <4, bf16>, <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, <2>
      sched.copy_window %K[%zero, %zero, %zero, %zero] to %k[%zero] signal %kr by %map : !sched.tensor_map<64 x 64, bf16>, !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      // CHECK: sched.sync_lanes
      sched.sync_lanes
      // CHECK: %[[BIAS:.*]] = sched.shared "bias_ring" at 131072 : <stage 2 x distance 191, i32, shared>
      %bias = sched.shared "bias_ring" at 131072 : !tile.tile<stage 2 x distance 191, i32, shared>
      // CHECK: sched.load_shared %[[BIAS]][%{{.*}}, %{{.*}}, %{{.*}}] : <stage 2 x distance 191, i32, shared> -> i32
      %near = sched.load_shared %bias[%zero, %zero, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32
      // CHECK: sched.load_shared %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] step{{ ?}}[%{{.*}}, %{{.*}}] : <stage 2 x distance 191, i32, shared> -> i32
      %stepped = sched.load_shared %bias[%zero, %zero, %zero] step [%zero, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32
      // CHECK: %{{.*}}, %{{.*}} = sched.load_pair %[[BIAS]][%{{.*}}, %{{.*}}, %{{.*}}] : <stage 2 x distance 191, i32, shared> -> i32, i32
      %left, %right = sched.load_pair %bias[%zero, %zero, %zero] : !tile.tile<stage 2 x distance 191, i32, shared> -> i32, i32
      // CHECK: sched.registers "near" : <q 128 x k 64, i32, register, #sched.fragment<diagonals, warps 8>>
      %held = sched.registers "near" : !tile.tile<q 128 x k 64, i32, register, #sched.fragment<diagonals, warps 8>>
      sched.set %near, %held[%zero, %zero] : i32, !tile.tile<q 128 x k 64, i32, register, #sched.fragment<diagonals, warps 8>>
      %spread = sched.registers "spread" : !tile.tile<distance 191, i32, register, #sched.fragment<threads, warps 1>>
      // CHECK: sched.store_tile %{{.*}} to %[[BIAS]][%{{.*}}] : <distance 191, i32, register, #sched.fragment<threads, warps 1>>, <stage 2 x distance 191, i32, shared>
      sched.store_tile %spread to %bias[%zero] : !tile.tile<distance 191, i32, register, #sched.fragment<threads, warps 1>>, !tile.tile<stage 2 x distance 191, i32, shared>
      sched.next %b : i32
    }
  }
  // CHECK: sched.role "consumer" warps 8 registers 240 {
  sched.role "consumer" warps 8 registers 240 {
    // CHECK: sched.for_work persistent from %[[ZERO:.*]] below %{{.*}} carries (%[[ZERO]], %[[ZERO]]) (%[[NUMBER:.*]], %[[COUNT:.*]], %[[STAGE:.*]], %[[PHASE:.*]]) {
    sched.for_work persistent from %zero below %Sk carries (%zero, %zero) (%number, %count, %stage, %phase) {
      // CHECK: %[[SAME:.*]] = sched.uniform %[[STAGE]] : i32
      %same = sched.uniform %stage : i32
      // CHECK: sched.next %[[NUMBER]], %[[COUNT]], %[[SAME]] : i32, i32, i32
      sched.next %number, %count, %same : i32, i32, i32
    } {tile.names = ["number", "count", "stage", "phase"]}
    // CHECK: {tile.names = ["number", "count", "stage", "phase"]}
    // CHECK: sched.for_work received carries (%[[ZERO]]) (%{{.*}}, %[[STAGE:.*]]) {
    sched.for_work received carries (%zero) (%count, %stage) {
      // CHECK: %[[WORK:.*]]:4 = sched.receive from %{{.*}}[%[[STAGE]]] : <stage 2 x message 1 x field 4, i32, shared> -> i32, i32, i32, i32
      %work:4 = sched.receive from %tasks[%stage] : !tile.tile<stage 2 x message 1 x field 4, i32, shared> -> i32, i32, i32, i32
      // CHECK: sched.store_matrix %[[WORK]]#3, %[[WORK]]#3, %[[WORK]]#3, %[[WORK]]#3 to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <stage 2 x k 64 x d 64, bf16
      sched.store_matrix %work#3, %work#3, %work#3, %work#3 to %k[%zero, %zero, %zero] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.store_matrix %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] step{{ ?}}[%{{.*}}, %{{.*}}] transpose : <stage 2 x k 64 x d 64, bf16
      sched.store_matrix %work#3, %work#3, %work#3, %work#3 to %k[%zero, %zero, %zero] step [%zero, %zero] transpose : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.scale_shared %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] exponent -3 : <stage 2 x k 64 x d 64, bf16
      sched.scale_shared %k[%zero, %zero, %zero] exponent -3 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.next %[[WORK]]#3, %[[STAGE]] : i32, i32
      sched.next %work#3, %stage : i32, i32
    }
    sched.for_work persistent from %zero below %Sk carries (%zero) (%number, %count, %stage) {
      // CHECK: %[[CLAIMED:.*]] = sched.claim_work %{{.*}} : <1, i32>
      %claimed = sched.claim_work %counter : !tile.view<1, i32>
      // CHECK: %[[NEXT:.*]] = sched.shuffle %[[CLAIMED]], %[[ZERO]] : i32
      %next = sched.shuffle %claimed, %zero : i32
      // CHECK: sched.next %[[NEXT]], %{{.*}} : i32, i32
      sched.next %next, %stage : i32, i32
    }
    %qt = sched.shared "qt" at 0 : !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.swizzle<128>>
    %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
    %p = sched.registers "p" : !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>
    %o = sched.registers "o" : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>
    %sums = sched.shared "sums" at 0 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
    %SUMS = tile.param "sums" : !tile.view<4, f32>
    // CHECK: sched.write_tile %{{.*}}[%{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} column_splits 1 adds : <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, <4, f32>
    sched.write_tile %sums[%zero] to %SUMS[%zero, %zero, %zero] limit %Sk column_splits 1 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
    // CHECK: sched.write_tile %{{.*}}[%{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} column_splits 2 : <stage 1 x q 128
    sched.write_tile %sums[%zero] to %SUMS[%zero, %zero, %zero] limit %Sk column_splits 2 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
    %wide = sched.registers "wide" : !tile.tile<q 64 x d 128, f32, register, #sched.fragment<c, warps 4 x 2>>
    // CHECK: sched.store_tile %{{.*}} to %{{.*}}[%{{.*}}] : <q 64 x d 128, f32, register, #sched.fragment<c, warps 4 x 2>>, <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
    sched.store_tile %wide to %sums[%zero] : !tile.tile<q 64 x d 128, f32, register, #sched.fragment<c, warps 4 x 2>>, !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
    %float = arith.constant 1.0 : f32
    // CHECK: sched.for_work grid (
    sched.for_work grid (%b) {
      %h = sched.nonnegative %b : i32
      %q0 = sched.nonnegative %b : i32
      // CHECK: sched.wait %[[KR]][%{{.*}}] phase %{{.*}} : <2>
      sched.wait %kr[%zero] phase %zero : !sched.ring<2>
      // CHECK: sched.mma_fence
      sched.mma_fence
      // CHECK: sched.mma_async %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] accumulate %{{.*}} : <q 128 x k 64
      sched.mma_async %s, %q[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.mma_commit
      sched.mma_commit
      // CHECK: sched.mma_async %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} accumulate %{{.*}} transpose : <q 128 x dv 64
      sched.mma_async %o, %p[%zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 8>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_commit
      // CHECK: sched.mma_async %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] accumulate %{{.*}} transpose transpose_left : <q 128 x dv 64
      sched.mma_async %o, %qt[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose transpose_left : !tile.tile<q 128 x dv 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.mma_async %{{.*}} accumulate %{{.*}} transpose_left : <q 128 x k 64
      sched.mma_async %s, %qt[%zero, %zero, %zero], %k[%zero, %zero, %zero] accumulate %true transpose_left : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 2 x k 64 x q 128, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.mma_commit
      // CHECK: sched.mma_wait pending 1 completes(%{{.*}}) : !tile.tile<q 128 x k 64
      sched.mma_wait pending 1 completes(%s) : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
      // CHECK: sched.mma_wait pending 0
      sched.mma_wait pending 0
      // CHECK: sched.release %[[KR]][%{{.*}}] : <2>
      sched.release %kr[%zero] : !sched.ring<2>
      // CHECK: sched.release %[[KR]][%{{.*}}] by_lanes : <2>
      sched.release %kr[%zero] by_lanes : !sched.ring<2>
      // CHECK: %[[SLOT:.*]] = sched.slot %{{.*}}[%{{.*}}] {sched.at = #sched.at<order 0>}
      %slot = sched.slot %k[%zero] {sched.at = #sched.at<order 0, stage 0>} : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.release %[[KR]][%{{.*}}] {sched.at = #sched.at<order 2, stage 1>} : <2> reads %[[SLOT]] : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.release %kr[%zero] {sched.at = #sched.at<stage 1, order 2>} : !sched.ring<2> reads %slot : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.release %[[KR]][%{{.*}}] by_lanes {sched.at = #sched.at<order 3, stage 1, ping_pong "products">} : <2> reads %[[SLOT]], %[[SLOT]] :
      sched.release %kr[%zero] by_lanes {sched.at = #sched.at<ping_pong "products", order 3, stage 1>} : !sched.ring<2> reads %slot, %slot : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.sync_warps %{{.*}} threads 256
      sched.sync_warps %zero threads 256
      // CHECK: sched.arrive_warps %{{.*}} threads 256
      sched.arrive_warps %zero threads 256
      // CHECK: sched.fence_async
      sched.fence_async
      // CHECK: sched.store_box %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}}[%[[B2:.*]], %{{.*}}, %{{.*}}, %{{.*}}] : <stage 1 x q 128
      sched.store_box %q[%zero, %zero] to %omap[%b, %h, %q0, %zero] : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      // CHECK: sched.tensor_map %{{.*}} swizzle <128> : <4, f32> -> <64 x 32, f32>
      %sums_map = sched.tensor_map %SUMS swizzle <128> : !tile.view<4, f32> -> !sched.tensor_map<64 x 32, f32>
      // CHECK: sched.store_box %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] adds : <stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, <64 x 32, f32>
      sched.store_box %sums[%zero, %zero] to %sums_map[%b, %h, %q0, %zero] adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 32, f32>
      // CHECK: sched.store_box %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] at %{{.*}} adds : <stage 1 x q 128
      sched.store_box %sums[%zero, %zero] to %sums_map[%b, %h, %q0, %zero] at %q0 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 32, f32>
      // CHECK: sched.store_shared %{{.*}} and %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : f32, <stage 1 x q 128
      sched.store_shared %float and %float, %sums[%zero, %zero, %zero] : f32, !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
      // CHECK: %[[LEFT:.*]], %[[RIGHT:.*]] = sched.load_elements %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      %sum0, %sum1 = sched.load_elements %lse[%q0, %zero] : !tile.view<2, f32>
      // CHECK: sched.in_pairs %{{.*}} : <2, f32>
      %in_pairs = sched.in_pairs %lse : !tile.view<2, f32>
      // CHECK: sched.in_pairs eights %{{.*}} : <4, bf16>
      %in_eights = sched.in_pairs eights %O : !tile.view<4, bf16>
      // CHECK: sched.store_eights{{ ?}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] quad %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : <4, bf16>
      sched.store_eights [%float, %float, %float, %float, %float, %float, %float, %float] quad %zero to %O[%b, %h, %q0, %zero] : !tile.view<4, bf16>
      // CHECK: sched.store_elements %[[LEFT]], %[[RIGHT]] to %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      sched.store_elements %sum0, %sum1 to %lse[%q0, %zero] : !tile.view<2, f32>
      // CHECK: sched.add_elements %[[LEFT]], %[[RIGHT]] to %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      sched.add_elements %sum0, %sum1 to %lse[%q0, %zero] : !tile.view<2, f32>
      // CHECK: %[[ONE:.*]], %[[TWO:.*]], %[[THREE:.*]], %[[FOUR:.*]] = sched.load_elements four %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      %four:4 = sched.load_elements four %lse[%q0, %zero] : !tile.view<2, f32>
      // CHECK: sched.store_elements %[[ONE]], %[[TWO]], %[[THREE]], %[[FOUR]] to %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      sched.store_elements %four#0, %four#1, %four#2, %four#3 to %lse[%q0, %zero] : !tile.view<2, f32>
      // CHECK: sched.add_elements %[[ONE]], %[[TWO]], %[[THREE]], %[[FOUR]] to %{{.*}}[%{{.*}}, %{{.*}}] : <2, f32>
      sched.add_elements %four#0, %four#1, %four#2, %four#3 to %lse[%q0, %zero] : !tile.view<2, f32>
      %BYTES = tile.param "saved.dropout" : !tile.view<5, i8>
      // CHECK: %[[BITS:.*]] = sched.load_byte pair %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : <5, i8>
      %bits = sched.load_byte pair %BYTES[%zero, %zero, %zero, %zero, %zero] : !tile.view<5, i8>
      // CHECK: sched.store_byte %[[BITS]], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : <5, i8>
      sched.store_byte %bits, %BYTES[%zero, %zero, %zero, %zero, %zero] : !tile.view<5, i8>
      // CHECK: sched.add_rows 64 of %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}}[%{{.*}}] : <stage 1 x q 128 x d 64, f32, shared>, <2, f32>
      sched.add_rows 64 of %dq[%zero, %zero] to %lse[%q0] : !tile.tile<stage 1 x q 128 x d 64, f32, shared>, !tile.view<2, f32>
      // CHECK: sched.commit_boxes
      sched.commit_boxes
      // CHECK: sched.wait_boxes pending 0
      sched.wait_boxes pending 0
    }
  }
}
