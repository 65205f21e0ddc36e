#variant = #attn.variant<{
  "name": "alibi",
  "score": "s + slopes[h] * (k - q)",
  "mask": "q >= k",
  "tensors": {"slopes": {"dtype": "f32", "rank": 1}}
}>
module attributes {attn.variant = #variant} {
  tile.kernel @alibi(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype f16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 3> attributes {sched.longest_first, tensors = [#attn.tensor<slopes, f32, rank 1>]} {
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %cst = arith.constant 7.92281625E+28 : f32
    %cst_0 = arith.constant 3.40282347E+38 : f32
    %c4_f32 = arith.constant 4.000000e+00 : f32
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c63_i32 = arith.constant 63 : i32
    %c128_i32 = arith.constant 128 : i32
    %b = tile.block_index "b" {tile.name = "b"} : i32
    %h = tile.block_index "h" {tile.name = "h"} : i32
    %q0 = tile.block_index "q" {tile.name = "q0"} : i32
    %Sq = tile.axis_extent "q" {tile.name = "Sq"} : i32
    %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
    %group = tile.param "group" {tile.name = "group"} : i32
    %kv_head = arith.divsi %h, %group {tile.name = "kv_head"} : i32
    %Q = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
    %K = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
    %V = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
    %0 = arith.addi %q0, %c128_i32 : i32
    %q_end = arith.minsi %0, %Sq {tile.name = "q_end"} : i32
    %1 = arith.minsi %q_end, %Sk : i32
    %2 = arith.addi %1, %c63_i32 : i32
    %tiles_end = arith.divsi %2, %c64_i32 {tile.name = "tiles_end"} : i32
    %domain = tile.domain k by 64 [%c0_i32, %tiles_end) full
    %3 = arith.addi %q0, %c1_i32 : i32
    %full_to = arith.minsi %3, %Sk {tile.name = "full_to"} : i32
    %q_tile = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 1>, tile.name = "q_tile"} : <4, f16> -> <q 128 x d 16, f16, shared>
    %q_tile_fragment = tile.convert %q_tile {tile.name = "q_tile_fragment"} : <q 128 x d 16, f16, shared> -> <q 128 x d 16, f16, register>
    %m_init = tile.splat %neg_inf {tile.name = "m"} : f32 -> <q 128, f32, register>
    %l_init = tile.splat %c0_f32 {tile.name = "l"} : f32 -> <q 128, f32, register>
    %acc_init = tile.splat %c0_f32 {tile.name = "acc"} : f32 -> <q 128 x dv 16, f32, register>
    %slopes = tile.param "tensors.slopes" {tile.name = "slopes"} : !tile.view<1, f32>
    %slopes_h = tile.element %slopes[%h] in_range [false] {tile.name = "slopes"} : <1, f32> (i32) -> f32
    %4 = arith.mulf %slopes_h, %c4_f32 : f32
    %5 = math.absf %slopes_h : f32
    %6 = arith.cmpf ogt, %5, %cst_0 : f32
    %7 = math.copysign %cst, %4 : f32
    %8 = arith.select %6, %4, %7 : f32
    %9 = math.absf %4 : f32
    %10 = arith.cmpf ogt, %9, %cst : f32
    %11 = arith.select %10, %8, %4 : f32
    %k_extent = tile.axis_extent "k" : i32
    %c0_i32_1 = arith.constant 0 : i32
    %has_keys = arith.cmpi sgt, %k_extent, %c0_i32_1 {tile.name = "has_keys"} : i32
    %m_end, %l_end, %acc_end = tile.for_blocks (%k0, %partial) in %domain iter_args(%m = %m_init : !tile.tile<q 128, f32, register>, %l = %l_init : !tile.tile<q 128, f32, register>, %acc = %acc_init : !tile.tile<q 128 x dv 16, f32, register>) {
      %k_tile = tile.load %K[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "k_tile"} : <4, f16> -> <k 64 x d 16, f16, shared>
      %s = tile.mma %q_tile_fragment, %k_tile : <q 128 x d 16, f16, register>, <k 64 x d 16, f16, shared> -> <q 128 x k 64, f32, register> {tile.name = "s"}
      %12 = arith.subi %k0, %q0 : i32
      %distance = arith.sitofp %12 {tile.name = "distance"} : i32 to f32
      %x = tile.map(%s : !tile.tile<q 128 x k 64, f32, register>) at(q = %q0, k = %k0, k = %distance : f32, q = %c0_f32 : f32) only_if %has_keys -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%s_qk: f32, %q: i32, %k: i32, %k_f32: f32, %q_f32: f32):
        %15 = arith.subf %k_f32, %q_f32 : f32
        %16 = arith.mulf %11, %15 : f32
        %17 = arith.addf %s_qk, %16 : f32
        tile.yield %17 : f32
      } {tile.comment = "the bias is divided by the score's factor, which multiplies the sum", tile.name = "x"}
      %13 = arith.addi %k0, %c64_i32 : i32
      %14 = arith.cmpi sgt, %13, %full_to : i32
      %x_2 = tile.map(%x : !tile.tile<q 128 x k 64, f32, register>) at(q = %q0, k = %c0_i32) only_if %14 -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%x_qk: f32, %q: i32, %k: i32):
        %15 = arith.addi %q, %c1_i32 : i32
        %row_end = arith.minsi %15, %Sk {tile.name = "row_end"} : i32
        %16 = arith.subi %row_end, %k0 overflow<nsw> : i32
        %17 = arith.minsi %16, %c64_i32 : i32
        %18 = arith.maxsi %17, %c0_i32 : i32
        %19 = arith.cmpi slt, %k, %18 : i32
        %20 = arith.select %19, %x_qk, %neg_inf : f32
        tile.yield %20 : f32
      } {tile.name = "x"}
      %m_next = tile.reduce  max %x_2 over "k" init %m : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> {tile.name = "m_next"}
      %m_base = tile.map(%m_next : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%m_next_q: f32):
        %15 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
        %16 = arith.select %15, %c0_f32, %m_next_q : f32
        tile.yield %16 : f32
      } {tile.name = "m_base"}
      %alpha = tile.map(%m, %m_base : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%m_q: f32, %m_base_q: f32):
        %15 = arith.subf %m_q, %m_base_q : f32
        %16 = arith.mulf %15, %c0.360673755_f32 : f32
        %17 = math.exp2 %16 : f32
        tile.yield %17 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "alpha"}
      %max_moved = tile.any %alpha : <q 128, f32, register> {
      ^bb0(%alpha_q: f32):
        %c1_f32_5 = arith.constant 1.000000e+00 : f32
        %15 = arith.cmpf une, %alpha_q, %c1_f32_5 : f32
        tile.yield %15 : i1
      } {tile.name = "max_moved"}
      %acc_3 = tile.map(%acc, %alpha : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) only_if %max_moved -> !tile.tile<q 128 x dv 16, f32, register> {
      ^bb0(%acc_qdv: f32, %alpha_q: f32):
        %15 = arith.mulf %acc_qdv, %alpha_q : f32
        tile.yield %15 : f32
      } {tile.name = "acc"}
      %p = tile.map(%x_2, %m_base : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%x_qk: f32, %m_base_q: f32):
        %15 = arith.subf %x_qk, %m_base_q : f32
        %16 = arith.mulf %15, %c0.360673755_f32 : f32
        %17 = math.exp2 %16 : f32
        tile.yield %17 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "p"}
      %l_4 = tile.map(%l, %alpha : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%l_q: f32, %alpha_q: f32):
        %15 = arith.mulf %l_q, %alpha_q : f32
        tile.yield %15 : f32
      } {tile.name = "l"}
      %l_next = tile.reduce  sum %p over "k" init %l_4 : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> per_lane {tile.name = "l"}
      %p_f16 = tile.convert %p {tile.name = "p"} : <q 128 x k 64, f32, register> -> <q 128 x k 64, f16, register>
      %v_tile = tile.load %V[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "v_tile"} : <4, f16> -> <k 64 x dv 16, f16, shared>
      %acc_next = tile.mma %p_f16, %v_tile add %acc_3 : !tile.tile<q 128 x dv 16, f32, register>, <q 128 x k 64, f16, register>, <k 64 x dv 16, f16, shared> -> <q 128 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %m_next, %l_next, %acc_next : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 16, f32, register>
    }
    %l_total = tile.combine_lanes  sum %l_end {tile.name = "l"} : <q 128, f32, register>
    %inverse_l = tile.map(%l_total : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%l_q: f32):
      %12 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %13 = arith.divf %c1_f32, %l_q : f32
      %14 = arith.select %12, %c0_f32, %13 : f32
      tile.yield %14 : f32
    } {tile.name = "inverse_l"}
    %out = tile.map(%acc_end, %inverse_l : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 16, f32, register> {
    ^bb0(%acc_qdv: f32, %inverse_l_q: f32):
      %12 = arith.mulf %acc_qdv, %inverse_l_q : f32
      tile.yield %12 : f32
    } {tile.name = "out"}
    %lse = tile.map(%m_end, %l_total : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%m_q: f32, %l_q: f32):
      %12 = arith.mulf %m_q, %c0.25_f32 : f32
      %13 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %14 = math.log %l_q : f32
      %15 = arith.addf %12, %14 : f32
      %16 = arith.select %13, %neg_inf, %15 : f32
      tile.yield %16 : f32
    } {tile.name = "lse"}
    %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : <q 128, f32, register>, <3, f32>
    %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %out, %O[%b, %h, %q0] limit %Sq : <q 128 x dv 16, f32, register>, <4, f16>
  }
}
