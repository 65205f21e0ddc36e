#variant = #attn.variant<{
  "name": "causal",
  "mask": "q >= k"
}>
module attributes {attn.variant = #variant} {
  tile.kernel @causal(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 256] dtype f16 plan <q 256 x k 96, warps = 16, blocks_per_sm = 1> attributes {sched.longest_first, sched.persistent, sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 16>], sched.ping_pong} {
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c96_i32 = arith.constant 96 : i32
    %c95_i32 = arith.constant 95 : i32
    %c256_i32 = arith.constant 256 : i32
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
    %0 = arith.addi %q0, %c256_i32 : i32
    %q_end = arith.minsi %0, %Sq {tile.name = "q_end"} : i32
    %1 = arith.minsi %q_end, %Sk : i32
    %2 = arith.addi %1, %c95_i32 : i32
    %tiles_end = arith.divsi %2, %c96_i32 {tile.name = "tiles_end"} : i32
    %domain = tile.domain k by 96 [%c0_i32, %tiles_end) full
    %own_row = tile.warpgroup_row %q0 by 64 {tile.name = "own_row"} : i32
    %3 = arith.addi %own_row, %c64_i32 : i32
    %q_end_0 = arith.minsi %3, %Sq {tile.name = "q_end"} : i32
    %4 = arith.minsi %q_end_0, %Sk : i32
    %5 = arith.addi %4, %c95_i32 : i32
    %visible_end = arith.divsi %5, %c96_i32 {tile.name = "visible_end"} : i32
    %6 = arith.cmpi slt, %own_row, %Sq : i32
    %own_end = arith.select %6, %visible_end, %c0_i32 {tile.name = "own_end"} : i32
    %7 = arith.addi %own_row, %c1_i32 : i32
    %full_to = arith.minsi %7, %Sk {tile.name = "full_to"} : i32
    %q_tile = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 2>, tile.name = "q_tile"} : <4, f16> -> <q 256 x d 16, f16, shared>
    %m_init = tile.splat %neg_inf {tile.name = "m"} : f32 -> <q 256, f32, register>
    %l_init = tile.splat %c0_f32 {tile.name = "l"} : f32 -> <q 256, f32, register>
    %acc_init = tile.splat %c0_f32 {tile.name = "acc"} : f32 -> <q 256 x dv 16, f32, register>
    %m_end, %l_end, %acc_end = tile.for_blocks (%k0, %partial) in %domain within [%c0_i32, %own_end) iter_args(%m = %m_init : !tile.tile<q 256, f32, register>, %l = %l_init : !tile.tile<q 256, f32, register>, %acc = %acc_init : !tile.tile<q 256 x dv 16, f32, register>) {
      %k_tile = tile.load %K[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>, tile.name = "k_tile"} : <4, f16> -> <k 96 x d 16, f16, shared>
      %s = tile.mma %q_tile, %k_tile : <q 256 x d 16, f16, shared>, <k 96 x d 16, f16, shared> -> <q 256 x k 96, f32, register> {tile.name = "s"}
      %8 = arith.addi %k0, %c96_i32 : i32
      %9 = arith.cmpi sgt, %8, %full_to : i32
      %x = tile.map(%s : !tile.tile<q 256 x k 96, f32, register>) at(q = %q0, k = %c0_i32) only_if %9 -> !tile.tile<q 256 x k 96, f32, register> {
      ^bb0(%s_qk: f32, %q: i32, %k: i32):
        %10 = arith.addi %q, %c1_i32 : i32
        %row_end = arith.minsi %10, %Sk {tile.name = "row_end"} : i32
        %11 = arith.subi %row_end, %k0 overflow<nsw> : i32
        %12 = arith.minsi %11, %c96_i32 : i32
        %13 = arith.maxsi %12, %c0_i32 : i32
        %14 = arith.cmpi slt, %k, %13 : i32
        %15 = arith.select %14, %s_qk, %neg_inf : f32
        tile.yield %15 : f32
      } {tile.name = "x"}
      %m_next = tile.reduce  max %x over "k" init %m : !tile.tile<q 256, f32, register>, <q 256 x k 96, f32, register> -> <q 256, f32, register> {tile.name = "m_next"}
      %m_base = tile.map(%m_next : !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%m_next_q: f32):
        %10 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
        %11 = arith.select %10, %c0_f32, %m_next_q : f32
        tile.yield %11 : f32
      } {tile.name = "m_base"}
      %alpha = tile.map(%m, %m_base : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%m_q: f32, %m_base_q: f32):
        %10 = arith.subf %m_q, %m_base_q : f32
        %11 = arith.mulf %10, %c0.360673755_f32 : f32
        %12 = math.exp2 %11 : f32
        tile.yield %12 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "alpha"}
      %acc_1 = tile.map(%acc, %alpha : !tile.tile<q 256 x dv 16, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x dv 16, f32, register> {
      ^bb0(%acc_qdv: f32, %alpha_q: f32):
        %10 = arith.mulf %acc_qdv, %alpha_q : f32
        tile.yield %10 : f32
      } {tile.name = "acc"}
      %p = tile.map(%x, %m_base : !tile.tile<q 256 x k 96, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x k 96, f32, register> {
      ^bb0(%x_qk: f32, %m_base_q: f32):
        %10 = arith.subf %x_qk, %m_base_q : f32
        %11 = arith.mulf %10, %c0.360673755_f32 : f32
        %12 = math.exp2 %11 : f32
        tile.yield %12 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "p"}
      %l_2 = tile.map(%l, %alpha : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%l_q: f32, %alpha_q: f32):
        %10 = arith.mulf %l_q, %alpha_q : f32
        tile.yield %10 : f32
      } {tile.name = "l"}
      %l_next = tile.reduce  sum %p over "k" init %l_2 : !tile.tile<q 256, f32, register>, <q 256 x k 96, f32, register> -> <q 256, f32, register> per_lane {tile.name = "l"}
      %p_f16 = tile.convert %p {tile.name = "p"} : <q 256 x k 96, f32, register> -> <q 256 x k 96, f16, register>
      %v_tile = tile.load %V[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 3>, tile.name = "v_tile"} : <4, f16> -> <k 96 x dv 16, f16, shared>
      %acc_next = tile.mma %p_f16, %v_tile add %acc_1 : !tile.tile<q 256 x dv 16, f32, register>, <q 256 x k 96, f16, register>, <k 96 x dv 16, f16, shared> -> <q 256 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %m_next, %l_next, %acc_next : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>, !tile.tile<q 256 x dv 16, f32, register>
    }
    %l_total = tile.combine_lanes  sum %l_end {tile.name = "l"} : <q 256, f32, register>
    %inverse_l = tile.map(%l_total : !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
    ^bb0(%l_q: f32):
      %8 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %9 = arith.divf %c1_f32, %l_q : f32
      %10 = arith.select %8, %c0_f32, %9 : f32
      tile.yield %10 : f32
    } {tile.name = "inverse_l"}
    %out = tile.map(%acc_end, %inverse_l : !tile.tile<q 256 x dv 16, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x dv 16, f32, register> {
    ^bb0(%acc_qdv: f32, %inverse_l_q: f32):
      %8 = arith.mulf %acc_qdv, %inverse_l_q : f32
      tile.yield %8 : f32
    } {tile.name = "out"}
    %lse = tile.map(%m_end, %l_total : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
    ^bb0(%m_q: f32, %l_q: f32):
      %8 = arith.mulf %m_q, %c0.25_f32 : f32
      %9 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %10 = math.log %l_q : f32
      %11 = arith.addf %8, %10 : f32
      %12 = arith.select %9, %neg_inf, %11 : f32
      tile.yield %12 : f32
    } {tile.name = "lse"}
    %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : <q 256, f32, register>, <3, f32>
    %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %out, %O[%b, %h, %q0] limit %Sq : <q 256 x dv 16, f32, register>, <4, f16>
  }
}
