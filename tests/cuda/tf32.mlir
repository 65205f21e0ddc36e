// RUN: attune-print-cuda %s | FileCheck %s

// float32 by three tf32 products, one fragment of each, operands from shared memory.

// CHECK-NOT:  typedef
// CHECK:        const float *k;  // [b, hkv, k, d 8]
// CHECK:      void split_tf32(float x, unsigned &big, unsigned &small)
// CHECK:      void mma_tf32(
// CHECK:        float scores[1][2][4];  // q 64 x k 16 f32
// CHECK-NEXT:   unsigned q_big
// CHECK:        copy_async_16(k_tile + 512 + swizzle<16, 32>(row, column * 4), k_rows + row * params.k_stride[2] + column);
// CHECK:            const float element = load_shared(q_tile + swizzle<64, 32>(q_row, q_column * 4));
// CHECK-NEXT:       unsigned big, small;
// CHECK-NEXT:       split_tf32(element, big, small);
// CHECK-NEXT:       q_big[0][0][e] = big;
// CHECK-NEXT:       q_small[0][0][e] = small;
// CHECK:          split_tf32({{[a-z_]+}}, high, low);
// CHECK:          mma_tf32(scores[0][j], q_big[0][0], k_big[0][0]);
// CHECK-NEXT:     mma_tf32(scores[0][j], q_small[0][0], k_big[0][0]);
// CHECK:          store_shared(
// CHECK:          o_rows[q0 * params.o_stride[2] + lane] = expf(scores[0][1][3]);

!q_tile = !tile.tile<q 64 x d 8, f32, shared, #sched.swizzle<32>>
!k_tile = !tile.tile<stage 2 x k 16 x d 8, f32, shared, #sched.swizzle<32>>
!scores = !tile.tile<q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
!a = !tile.tile<q 64 x d 16, i32, register, #sched.fragment<a, warps 4>>
!b = !tile.tile<k 8 x d 16, i32, register, #sched.fragment<b, warps 4>>

sched.kernel @exact(k: in [b, hkv, k, d 8] f32, o: out [b, h, q, dv 8] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 8192 dtype f32
    plan <q 64 x k 16, warps = 4, blocks_per_sm = 2> {
  sched.for_work grid (%number) {
    %tile_rows = arith.constant 64 : i32
    %work_queries = tile.axis_extent "q" : i32
    %work_heads = tile.axis_extent "h" : i32
    %work_tiles = arith.ceildivui %work_queries, %tile_rows {tile.name = "q_tiles"} : i32
    %work_place = arith.divui %number, %work_tiles {tile.name = "head"} : i32
    %work_turn = arith.remui %number, %work_tiles : i32
    %b_bits = arith.divui %work_place, %work_heads : i32
    %h_bits = arith.remui %work_place, %work_heads : i32
    %b = sched.nonnegative %b_bits {tile.name = "b"} : i32
    %h = sched.nonnegative %h_bits {tile.name = "h"} : i32
    %row_tile = sched.nonnegative %work_turn : i32
    %q0 = arith.muli %row_tile, %tile_rows overflow<nsw> {tile.name = "q0"} : i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c4 = arith.constant 4 : i32
    %c8 = arith.constant 8 : i32
    %c3 = arith.constant 3 : i32
    %c5 = arith.constant 5 : i32
    %c16 = arith.constant 16 : i32
    %c31 = arith.constant 31 : i32
    %true = arith.constant true
    %K = tile.param "k" : !tile.view<4, f32>
    %O = tile.param "o" : !tile.view<4, f32>
    %k = sched.slice %K[%c0, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %o = sched.slice %O[%b, %h] : !tile.view<4, f32> -> !tile.view<2, f32>
    %qt = sched.shared "q_tile" at 0 : !q_tile
    %kt = sched.shared "k_tile" at 2048 : !k_tile
    %s = sched.registers "scores" : !scores
    %qb = sched.registers "q_big" : !a
    %qs = sched.registers "q_small" : !a
    %kb = sched.registers "k_big" : !b
    %t = sched.thread_id : i32
    %lane = arith.andi %t, %c31 {tile.name = "lane"} : i32
    %g = arith.shrui %lane, %c2 {tile.name = "g"} : i32
    %c = arith.andi %lane, %c3 {tile.name = "c"} : i32
    %r = arith.shrui %t, %c1 {tile.name = "row"} : i32
    %half = arith.andi %t, %c1 : i32
    %column = arith.muli %half, %c4 overflow<nsw> {tile.name = "column"} : i32
    %few = arith.cmpi slt, %r, %c16 : i32
    scf.if %few {
      sched.copy_async %k[%r, %column] to %kt[%c1, %r] if %true : !tile.view<2, f32>, !k_tile
    } else {
      %zero = arith.constant 0.0 : f32
      sched.store_shared %zero, %qt[%c0, %r, %column] : f32, !q_tile
    }
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    scf.for %e = %c0 to %c4 step %c1 : i32 {
      %em = arith.remsi %e, %c2 : i32
      %e8 = arith.muli %em, %c8 overflow<nsw> : i32
      %row = arith.addi %g, %e8 overflow<nsw> {tile.name = "q_row"} : i32
      %ed = arith.divsi %e, %c2 : i32
      %c2x = arith.muli %c, %c2 overflow<nsw> : i32
      %column1 = arith.addi %c2x, %ed overflow<nsw> {tile.name = "q_column"} : i32
      %x = sched.load_shared %qt[%c0, %row, %column1] {tile.name = "element"} : !q_tile -> f32
      %big, %small = sched.split_tf32 %x
      sched.set %big, %qb[%c0, %c0, %e] : i32, !a
      sched.set %small, %qs[%c0, %c0, %e] : i32, !a
    } {sched.unroll, tile.name = "e"}
    scf.for %j = %c0 to %c2 step %c1 : i32 {
      scf.for %e = %c0 to %c2 step %c1 : i32 {
        %j8 = arith.muli %j, %c8 overflow<nsw> : i32
        %row = arith.addi %j8, %g overflow<nsw> : i32
        %c2x = arith.muli %c, %c2 overflow<nsw> : i32
        %column1 = arith.addi %c2x, %e overflow<nsw> : i32
        %x = sched.load_shared %kt[%c1, %row, %column1] : !k_tile -> f32
        %big, %small = sched.split_tf32 %x {tile.names = ["high", "low"]}
        sched.set %big, %kb[%c0, %c0, %e] : i32, !b
        %y = arith.bitcast %small : i32 to f32
        sched.set %y, %s[%c0, %j, %e] : f32, !scores
        %e2 = arith.addi %e, %c2 overflow<nsw> : i32
        sched.set %y, %s[%c0, %j, %e2] : f32, !scores
      } {sched.unroll, tile.name = "e"}
      sched.mma %s[%c0, %j], %qb[%c0, %c0], %kb[%c0, %c0] : !scores, !a, !b
      sched.mma %s[%c0, %j], %qs[%c0, %c0], %kb[%c0, %c0] : !scores, !a, !b
    } {sched.unroll, tile.name = "j"}
    sched.barrier
    %x0 = sched.get %s[%c0, %c0, %c1] : !scores -> f32
    sched.store_shared %x0, %qt[%c0, %g, %c] : f32, !q_tile
    %x1 = sched.get %s[%c0, %c1, %c3] : !scores -> f32
    %e1 = math.exp %x1 : f32
    sched.store_element %e1, %o[%q0, %lane] : f32, !tile.view<2, f32>
    sched.barrier
    sched.copy_to_global %qt[%r, %column] to %o[%r] : !q_tile, !tile.view<2, f32>
  }
}
