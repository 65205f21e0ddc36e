// RUN: attune-print-cuda %s | FileCheck %s

// Philox, a ring of two stages whose slot is carried, a block pattern, f16.

// CHECK:      //   variant  dropped, f16, d 64, dropout
// CHECK:      //   pattern  pattern, blocks of 64 x 64
// CHECK:      uint4 philox(
// CHECK:        const long long seed = params.seed_pointer ? *params.seed_pointer : params.seed;
// CHECK-NEXT:   const int seed_low = (int)seed;
// CHECK:        int window = 0, first = tiles;
// CHECK-NEXT:   #pragma unroll 1
// CHECK-NEXT:   for (; window < tiles;) {
// CHECK-NEXT:     const bool is_set = load_bool(params.pattern +
// CHECK-NEXT:         clamp_index(h, params.pattern_extent[0]) * params.pattern_stride[0] +
// CHECK:          const unsigned votes = ballot(is_set);
// CHECK-NEXT:     const bool votes_is_not_0 = votes != 0u;
// CHECK-NEXT:     const int next_first = votes_is_not_0 ? window + trailing_zeros(votes) : tiles;
// CHECK-NEXT:     window = votes_is_not_0 ? tiles : window + 64;
// CHECK-NEXT:     first = next_first;
// CHECK-NEXT:   }
// CHECK:        #pragma unroll 1
// CHECK-NEXT:   for (int tile = first, ahead = second, slot = 0; tile < tiles;) {
// CHECK-NEXT:     const uint4 keep = philox(q0 + thread, tile * 4, wrap_add(wrap_mul(b, params.heads), h), 0, seed_low,
// CHECK-NEXT:         (int)(seed >> 32ll));
// CHECK-NEXT:     const bool any_thread_above_tile = any_lane(thread > tile);
// CHECK-NEXT:     if (any_thread_above_tile) {
// CHECK-NEXT:       __syncthreads();
// CHECK-NEXT:     }
// CHECK-NEXT:     const bool kept = (keep.x & 65535u) >= (unsigned)params.drop_threshold;
// CHECK-NEXT:     probs[0][0] = kept ? probs[0][0] : 0.0f;
// CHECK-NEXT:     const float chosen_keep_scale = (keep.w >> 16) >= (unsigned)params.drop_threshold ? params.keep_scale : 0.0f;
// CHECK-NEXT:     probs[0][1] = chosen_keep_scale;
// CHECK-NEXT:     const unsigned pair = pack_f16(probs[0][0], probs[0][1]);
// CHECK-NEXT:     store_shared(ring + slot * 8192 + swizzle<64, 128>(thread, 0), pair & 0xffff0000u);
// CHECK-NEXT:     const int next_ahead = tile + 2;
// CHECK-NEXT:     tile = ahead;
// CHECK-NEXT:     ahead = next_ahead;
// CHECK-NEXT:     slot = 1 - slot;
// CHECK-NEXT:   }

!ring = !tile.tile<stage 2 x k 64 x d 64, f16, shared, #sched.swizzle<128>>
!rows = !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>

sched.kernel @dropped(q: in [b, h, q, d 64] f16, k: in [b, hkv, k, d 64] f16) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 16384 dtype f16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 2>
    attributes {dropout, tensors = [#attn.tensor<pattern, i8, rank 3>], pattern = #attn.blocks<pattern, 64 x 64>} {
  sched.for_work grid (%number) {
    %tile_rows = arith.constant 128 : i32
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
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i64
    %low = arith.constant 65535 : i32
    %high = arith.constant -65536 : i32
    %c63 = arith.constant 63 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant 0.0 : f32
    %H = tile.axis_extent "h" : i32
    %Sk = tile.axis_extent "k" : i32
    %threshold = tile.param "drop_threshold" : i32
    %keep_scale = tile.param "keep_scale" : f32
    %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
    %seed = tile.param "seed" : i64
    %seed_low = arith.trunci %seed {tile.name = "seed_low"} : i64 to i32
    %ring = sched.shared "ring" at 0 : !ring
    %p = sched.registers "probs" : !rows
    %t = sched.thread_id : i32
    %u = arith.addi %Sk, %c63 overflow<nsw> : i32
    %tiles = arith.divsi %u, %c64 {tile.name = "tiles"} : i32
    %lane = sched.lane_id : i32
    %window_end, %first = sched.for_tiles (%w, %f) = (%c0, %tiles) below %tiles keeps {
      %i = arith.addi %w, %lane overflow<nsw> : i32
      %set = tile.element %pattern[%h, %q0, %i] in_range [false, false, false] {tile.name = "is_set"} : !tile.view<3, i8> (i32, i32, i32) -> i1
      %votes = sched.ballot %set {tile.name = "votes"} : i32
      %some = arith.cmpi ne, %votes, %c0 : i32
      %zeros = math.cttz %votes : i32
      %at = arith.addi %w, %zeros overflow<nsw> : i32
      %next_first = arith.select %some, %at, %tiles : i32
      %after = arith.addi %w, %c64 overflow<nsw> : i32
      %next_window = arith.select %some, %tiles, %after : i32
      sched.next %next_window, %next_first : i32, i32
    } {tile.names = ["window", "first"]}
    sched.set %zero, %p[%c0, %c0] : f32, !rows
    %ahead0 = arith.addi %first, %c1 overflow<nsw> {tile.name = "second"} : i32
    sched.for_tiles (%n, %ahead, %slot) = (%first, %ahead0, %c0) below %tiles {
      %wide_tile = arith.cmpi sgt, %t, %n : i32
      %x0 = arith.addi %q0, %t overflow<nsw> : i32
      %x1 = arith.muli %n, %c4 overflow<nsw> : i32
      %x2 = arith.muli %b, %H : i32
      %x3 = arith.addi %x2, %h : i32
      %x4 = arith.shrsi %seed, %c32 : i64
      %x5 = arith.trunci %x4 : i64 to i32
      %r:4 = sched.philox counter %x0, %x1, %x3, %c0 key %seed_low, %x5 {tile.name = "keep"}
      %any = sched.any_lane %wide_tile
      scf.if %any {
        sched.barrier
      }
      %half = arith.andi %r#0, %low : i32
      %kept = arith.cmpi uge, %half, %threshold {tile.name = "kept"} : i32
      %v = sched.get %p[%c0, %c0] : !rows -> f32
      %y = arith.select %kept, %v, %zero : f32
      sched.set %y, %p[%c0, %c0] : f32, !rows
      %upper = arith.shrui %r#3, %c16 : i32
      %kept2 = arith.cmpi uge, %upper, %threshold : i32
      %y2 = arith.select %kept2, %keep_scale, %zero : f32
      sched.set %y2, %p[%c0, %c1] : f32, !rows
      %p0 = sched.get %p[%c0, %c0] : !rows -> f32
      %p1 = sched.get %p[%c0, %c1] : !rows -> f32
      %pair = sched.pack %p0, %p1 : f16 {tile.name = "pair"}
      %upper_half = arith.andi %pair, %high : i32
      sched.store_shared %upper_half, %ring[%slot, %t, %c0] : i32, !ring
      %n2 = arith.addi %n, %c2 overflow<nsw> : i32
      %other = arith.subi %c1, %slot overflow<nsw> : i32
      sched.next %ahead, %n2, %other : i32, i32, i32
    } {tile.names = ["tile", "ahead", "slot"]}
  }
}
