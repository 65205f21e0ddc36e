// Every op, attribute and optional part of the sched dialect, through text and through the generic form.
// RUN: attune-opt %s | attune-opt | FileCheck %s
// RUN: attune-opt %s --mlir-print-op-generic | attune-opt | FileCheck %s
// RUN: attune-opt %s > %t.once && attune-opt %t.once > %t.twice && cmp %t.once %t.twice

// CHECK-LABEL: sched.kernel @every_op arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 32768 dtype bf16 head_dim 64 x 64
// CHECK-SAME: plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> attributes {dropout, pattern = #attn.blocks<pattern, 64x64>, precise, q_offset
// CHECK-SAME: scalars = [#attn.scalar<cap, f32>], tensors = [#attn.tensor<pattern, i8, rank 3>]}
sched.kernel @every_op arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 32768 dtype bf16 head_dim 64 x 64
    plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true>
    attributes {dropout, precise, q_offset, pattern = #attn.blocks<pattern, 64x64>, scalars = [#attn.scalar<cap, f32>],
                tensors = [#attn.tensor<pattern, i8, rank 3>]} {
  // Launch parameters are read by the ops of the tile dialect.
  // CHECK: tile.param "k" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %pattern = tile.param "pattern" : !tile.view<3, i8>
  %Sk = tile.param "Sk" : i32
  %cap = tile.param "cap" : f32

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
  // CHECK: sched.registers "bias" : <k 64, f32, register, #sched.fragment<columns, warps 4>>
  %bias = sched.registers "bias" : !tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>
  // CHECK: %[[THREAD:.*]] = sched.thread_id : i32
  %thread = sched.thread_id : i32

  // CHECK: sched.for_work grid tile_q 128 longest_first (%[[BATCH:.*]], %[[HEAD:.*]], %[[Q0:.*]]) {
  sched.for_work grid tile_q 128 longest_first (%batch, %head, %q0) {
    // CHECK: %[[KH:.*]] = sched.slice %{{.*}}[%[[BATCH]], %[[HEAD]]] : <4, bf16> -> <2, bf16>
    %kh = sched.slice %K[%batch, %head] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    %row = sched.slice %LSE[%batch, %head] : !tile.view<3, f32> -> !tile.view<1, f32>
    // CHECK: sched.is_null %{{.*}} : <3, f32>
    %null = sched.is_null %LSE : !tile.view<3, f32>
    // CHECK: sched.next_visible %{{.*}}[%[[HEAD]], %[[Q0]]] from %[[THREAD]] below %{{.*}} tile 128 x 64 blocks 64 x 64 : <3, i8>
    %first = sched.next_visible %pattern[%head, %q0] from %thread below %Sk tile 128 x 64 blocks 64 x 64 : !tile.view<3, i8>
    // CHECK: sched.for_tiles (%[[N:.*]], %[[STAGE:.*]]) = (%{{.*}}, %[[THREAD]]) below %{{.*}} {
    sched.for_tiles (%n, %stage) = (%first, %thread) below %Sk {
      // CHECK: sched.copy_tile %{{.*}}[%[[BATCH]], %[[HEAD]], %[[N]]] limit %{{.*}} to %[[RING]][%[[STAGE]]] : <4, bf16>, <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      sched.copy_tile %K[%batch, %head, %n] limit %Sk to %ring[%stage] : !tile.view<4, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.copy_async %[[KH]][%[[N]], %[[THREAD]]] to %[[RING]][%[[STAGE]], %[[THREAD]]] if %{{.*}} : <2, bf16>, <stage 2 x
      sched.copy_async %kh[%n, %thread] to %ring[%stage, %thread] if %null : !tile.view<2, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
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
      // CHECK: %{{.*}}, %{{.*}} = sched.split_tf32 %{{.*}}
      %big, %small = sched.split_tf32 %x
      // CHECK: sched.store_shared %{{.*}}, %[[RING]][%[[STAGE]], %[[N]], %[[N]]] : i32, <stage 2 x
      sched.store_shared %pair, %ring[%stage, %n, %n] : i32, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
      // CHECK: sched.load_shared %[[RING]][%[[STAGE]], %[[N]], %[[N]]] : <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
      %z = sched.load_shared %ring[%stage, %n, %n] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
      // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = sched.philox counter %[[N]], %[[N]], %[[N]], %[[N]] key %[[N]], %[[N]]
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
  // CHECK: sched.for_work persistent tile_q 64 (
  sched.for_work persistent tile_q 64 (%batch, %head, %q0) {
  }
  // CHECK: sched.for_work atomic tile_q 64 (
  sched.for_work atomic tile_q 64 (%batch, %head, %q0) {
  }
  // CHECK: sched.for_work split tile_q 64 (
  sched.for_work split tile_q 64 (%batch, %head, %q0) {
  }
}
