#variant = #attn.variant<{
  "name": "documents",
  "mask": "ids[q] == ids[k]",
  "tensors": {"ids": {"dtype": "i32", "rank": 1}}
}>
module attributes {attn.variant = #variant} {
  tile.launch [@documents_bounds, @documents dependent]
  tile.kernel @documents(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32, ids.q: workspace [end 2, q by 128] i32, ids.k: workspace [end 2, k by 96] i32) grid [b, h, q by 128] dtype f16 plan <q 128 x k 96, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c128_i32 = arith.constant 128 : i32
    %c96_i32 = arith.constant 96 : i32
    %c95_i32 = arith.constant 95 : i32
    %c0_i32 = arith.constant 0 : i32
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
    %0 = arith.addi %Sk, %c95_i32 : i32
    %tiles_end = arith.divsi %0, %c96_i32 {tile.name = "tiles_end"} : i32
    %IDS.Q = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<2, i32>
    %q_tile = arith.divsi %q0, %c128_i32 {tile.name = "q_tile"} : i32
    %IDS.Q_0 = tile.element %IDS.Q[%c0_i32, %q_tile] in_range [true, true] {tile.name = "ids_q_min"} : <2, i32> (i32, i32) -> i32
    %IDS.Q_1 = tile.element %IDS.Q[%c1_i32, %q_tile] in_range [true, true] {tile.name = "ids_q_max"} : <2, i32> (i32, i32) -> i32
    %IDS.K = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<2, i32>
    %domain = tile.domain k by 96 [%c0_i32, %tiles_end) full where {
    ^bb0(%tile: i32):
      %IDS.K_3 = tile.element %IDS.K[%c0_i32, %tile] in_range [true, true] {tile.name = "ids_k_min"} : <2, i32> (i32, i32) -> i32
      %IDS.K_4 = tile.element %IDS.K[%c1_i32, %tile] in_range [true, true] {tile.name = "ids_k_max"} : <2, i32> (i32, i32) -> i32
      %1 = arith.cmpi sle, %IDS.Q_0, %IDS.K_4 : i32
      %2 = arith.cmpi sle, %IDS.Q_1, %IDS.K_3 : i32
      %3 = arith.cmpi sle, %IDS.K_3, %IDS.Q_1 : i32
      %4 = arith.cmpi sle, %IDS.K_4, %IDS.Q_0 : i32
      %5 = arith.andi %1, %3 : i1
      %6 = arith.andi %2, %4 : i1
      tile.yield %5, %6 : i1, i1
    }
    %q_tile_2 = tile.load %Q[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 1>, tile.name = "q_tile"} : <4, f16> -> <q 128 x d 16, f16, shared>
    %q_tile_fragment = tile.convert %q_tile_2 {tile.name = "q_tile_fragment"} : <q 128 x d 16, f16, shared> -> <q 128 x d 16, f16, register>
    %m_init = tile.splat %neg_inf {tile.name = "m"} : f32 -> <q 128, f32, register>
    %l_init = tile.splat %c0_f32 {tile.name = "l"} : f32 -> <q 128, f32, register>
    %acc_init = tile.splat %c0_f32 {tile.name = "acc"} : f32 -> <q 128 x dv 16, f32, register>
    %ids = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
    %row_ids = tile.map() at(q = %q0) -> !tile.tile<q 128, i32, register> {
    ^bb0(%q: i32):
      %ids_q = tile.element %ids[%q] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
      tile.yield %ids_q : i32
    } {tile.name = "row_ids"}
    %m_end, %l_end, %acc_end = tile.for_blocks (%k0, %partial) in %domain iter_args(%m = %m_init : !tile.tile<q 128, f32, register>, %l = %l_init : !tile.tile<q 128, f32, register>, %acc = %acc_init : !tile.tile<q 128 x dv 16, f32, register>) {
      %k_tile = tile.load %K[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "k_tile"} : <4, f16> -> <k 96 x d 16, f16, shared>
      %s = tile.mma %q_tile_fragment, %k_tile : <q 128 x d 16, f16, register>, <k 96 x d 16, f16, shared> -> <q 128 x k 96, f32, register> {tile.name = "s"}
      %1 = arith.addi %k0, %c96_i32 : i32
      %2 = arith.cmpi sgt, %1, %Sk : i32
      %3 = arith.subi %Sk, %k0 overflow<nsw> : i32
      %4 = arith.minsi %3, %c96_i32 : i32
      %5 = arith.maxsi %4, %c0_i32 : i32
      %x = tile.map(%s : !tile.tile<q 128 x k 96, f32, register>) at(q = %q0, k = %c0_i32) only_if %2 -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%s_qk: f32, %q: i32, %k: i32):
        %6 = arith.cmpi slt, %k, %5 : i32
        %7 = arith.select %6, %s_qk, %neg_inf : f32
        tile.yield %7 : f32
      } {tile.name = "x"}
      %column_ids = tile.map() at(k = %k0) only_if %partial -> !tile.tile<k 96, i32, register> {
      ^bb0(%k: i32):
        %ids_k = tile.element %ids[%k] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
        tile.yield %ids_k : i32
      } {tile.name = "column_ids"}
      %x_3 = tile.map(%x, %row_ids, %column_ids : !tile.tile<q 128 x k 96, f32, register>, !tile.tile<q 128, i32, register>, !tile.tile<k 96, i32, register>) at(q = %q0, k = %k0) only_if %partial -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%x_qk: f32, %row_ids_q: i32, %column_ids_k: i32, %q: i32, %k: i32):
        %6 = arith.cmpi eq, %row_ids_q, %column_ids_k : i32
        %7 = arith.select %6, %x_qk, %neg_inf : f32
        tile.yield %7 : f32
      } {tile.name = "x"}
      %m_next = tile.reduce  max %x_3 over "k" init %m : !tile.tile<q 128, f32, register>, <q 128 x k 96, f32, register> -> <q 128, f32, register> {tile.name = "m_next"}
      %m_base = tile.map(%m_next : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%m_next_q: f32):
        %6 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
        %7 = arith.select %6, %c0_f32, %m_next_q : f32
        tile.yield %7 : f32
      } {tile.name = "m_base"}
      %alpha = tile.map(%m, %m_base : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%m_q: f32, %m_base_q: f32):
        %6 = arith.subf %m_q, %m_base_q : f32
        %7 = arith.mulf %6, %c0.360673755_f32 : f32
        %8 = math.exp2 %7 : f32
        tile.yield %8 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "alpha"}
      %max_moved = tile.any %alpha : <q 128, f32, register> {
      ^bb0(%alpha_q: f32):
        %c1_f32_6 = arith.constant 1.000000e+00 : f32
        %6 = arith.cmpf une, %alpha_q, %c1_f32_6 : f32
        tile.yield %6 : i1
      } {tile.name = "max_moved"}
      %acc_4 = tile.map(%acc, %alpha : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) only_if %max_moved -> !tile.tile<q 128 x dv 16, f32, register> {
      ^bb0(%acc_qdv: f32, %alpha_q: f32):
        %6 = arith.mulf %acc_qdv, %alpha_q : f32
        tile.yield %6 : f32
      } {tile.name = "acc"}
      %p = tile.map(%x_3, %m_base : !tile.tile<q 128 x k 96, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%x_qk: f32, %m_base_q: f32):
        %6 = arith.subf %x_qk, %m_base_q : f32
        %7 = arith.mulf %6, %c0.360673755_f32 : f32
        %8 = math.exp2 %7 : f32
        tile.yield %8 : f32
      } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "p"}
      %l_5 = tile.map(%l, %alpha : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%l_q: f32, %alpha_q: f32):
        %6 = arith.mulf %l_q, %alpha_q : f32
        tile.yield %6 : f32
      } {tile.name = "l"}
      %l_next = tile.reduce  sum %p over "k" init %l_5 : !tile.tile<q 128, f32, register>, <q 128 x k 96, f32, register> -> <q 128, f32, register> per_lane {tile.name = "l"}
      %p_f16 = tile.convert %p {tile.name = "p"} : <q 128 x k 96, f32, register> -> <q 128 x k 96, f16, register>
      %v_tile = tile.load %V[%b, %kv_head, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>, tile.name = "v_tile"} : <4, f16> -> <k 96 x dv 16, f16, shared>
      %acc_next = tile.mma %p_f16, %v_tile add %acc_4 : !tile.tile<q 128 x dv 16, f32, register>, <q 128 x k 96, f16, register>, <k 96 x dv 16, f16, shared> -> <q 128 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %m_next, %l_next, %acc_next : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 16, f32, register>
    }
    %l_total = tile.combine_lanes  sum %l_end {tile.name = "l"} : <q 128, f32, register>
    %inverse_l = tile.map(%l_total : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%l_q: f32):
      %1 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %2 = arith.divf %c1_f32, %l_q : f32
      %3 = arith.select %1, %c0_f32, %2 : f32
      tile.yield %3 : f32
    } {tile.name = "inverse_l"}
    %out = tile.map(%acc_end, %inverse_l : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 16, f32, register> {
    ^bb0(%acc_qdv: f32, %inverse_l_q: f32):
      %1 = arith.mulf %acc_qdv, %inverse_l_q : f32
      tile.yield %1 : f32
    } {tile.name = "out"}
    %lse = tile.map(%m_end, %l_total : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%m_q: f32, %l_q: f32):
      %1 = arith.mulf %m_q, %c0.25_f32 : f32
      %2 = arith.cmpf oeq, %l_q, %c0_f32 : f32
      %3 = math.log %l_q : f32
      %4 = arith.addf %1, %3 : f32
      %5 = arith.select %2, %neg_inf, %4 : f32
      tile.yield %5 : f32
    } {tile.name = "lse"}
    %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : <q 128, f32, register>, <3, f32>
    %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %out, %O[%b, %h, %q0] limit %Sq : <q 128 x dv 16, f32, register>, <4, f16>
  }
  tile.kernel @documents_bounds(ids.q: workspace [end 2, q by 128] i32, ids.k: workspace [end 2, k by 96] i32) grid [share 256] dtype f16 plan <q 128 x k 16, warps = 8, blocks_per_sm = 1> attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %c96_i32 = arith.constant 96 : i32
    %c95_i32 = arith.constant 95 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c256_i32 = arith.constant 256 : i32
    %c255_i32 = arith.constant 255 : i32
    %c8_i32 = arith.constant 8 : i32
    %c7_i32 = arith.constant 7 : i32
    %c128_i32 = arith.constant 128 : i32
    %c127_i32 = arith.constant 127 : i32
    %share = tile.block_index "share" {tile.name = "share"} : i32
    %ids = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
    %IDS.Q = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<2, i32>
    %q = tile.axis_extent "q" {tile.name = "q"} : i32
    %0 = arith.addi %q, %c127_i32 overflow<nsw> : i32
    %entries = arith.divsi %0, %c128_i32 {tile.name = "entries"} : i32
    %1 = arith.addi %entries, %c7_i32 overflow<nsw> : i32
    %groups = arith.divsi %1, %c8_i32 {tile.name = "groups"} : i32
    %2 = arith.addi %groups, %c255_i32 overflow<nsw> : i32
    %each = arith.divsi %2, %c256_i32 {tile.name = "each"} : i32
    %3 = arith.muli %share, %each overflow<nsw> : i32
    %first_group = arith.minsi %3, %groups {tile.name = "first_group"} : i32
    %4 = arith.addi %first_group, %each overflow<nsw> : i32
    %end_group = arith.minsi %4, %groups {tile.name = "end_group"} : i32
    %domain = tile.domain group by 1 [%first_group, %end_group) full
    %5 = arith.subi %q, %c1_i32 overflow<nsw> : i32
    tile.for_blocks (%k0, %partial) in %domain {
      %12 = arith.remsi %k0, %groups : i32
      %first_entry = arith.muli %12, %c8_i32 overflow<nsw> {tile.name = "first_entry"} : i32
      %ids_6 = tile.map() at(row = %c0_i32, entry = %first_entry) -> !tile.tile<row 128 x entry 8, i32, register> {
      ^bb0(%row: i32, %entry: i32):
        %13 = arith.muli %entry, %c128_i32 overflow<nsw> : i32
        %14 = arith.addi %13, %row overflow<nsw> : i32
        %15 = arith.minsi %14, %5 : i32
        %ids_7 = tile.element %ids[%15] in_range [false] : <1, i32> (i32) -> i32
        tile.yield %ids_7 : i32
      } {tile.name = "ids"}
      %least = tile.reduce  min %ids_6 over "row" : <row 128 x entry 8, i32, register> -> <entry 8, i32, register> {tile.name = "least"}
      tile.store %least, %IDS.Q[%c0_i32, %first_entry] limit %entries : <entry 8, i32, register>, <2, i32>
      %greatest = tile.reduce  max %ids_6 over "row" : <row 128 x entry 8, i32, register> -> <entry 8, i32, register> {tile.name = "greatest"}
      tile.store %greatest, %IDS.Q[%c1_i32, %first_entry] limit %entries : <entry 8, i32, register>, <2, i32>
    }
    %IDS.K = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<2, i32>
    %k = tile.axis_extent "k" {tile.name = "k"} : i32
    %6 = arith.addi %k, %c95_i32 overflow<nsw> : i32
    %entries_0 = arith.divsi %6, %c96_i32 {tile.name = "entries"} : i32
    %7 = arith.addi %entries_0, %c7_i32 overflow<nsw> : i32
    %groups_1 = arith.divsi %7, %c8_i32 {tile.name = "groups"} : i32
    %8 = arith.addi %groups_1, %c255_i32 overflow<nsw> : i32
    %each_2 = arith.divsi %8, %c256_i32 {tile.name = "each"} : i32
    %9 = arith.muli %share, %each_2 overflow<nsw> : i32
    %first_group_3 = arith.minsi %9, %groups_1 {tile.name = "first_group"} : i32
    %10 = arith.addi %first_group_3, %each_2 overflow<nsw> : i32
    %end_group_4 = arith.minsi %10, %groups_1 {tile.name = "end_group"} : i32
    %domain_5 = tile.domain group by 1 [%first_group_3, %end_group_4) full
    %11 = arith.subi %k, %c1_i32 overflow<nsw> : i32
    tile.for_blocks (%k0, %partial) in %domain_5 {
      %12 = arith.remsi %k0, %groups_1 : i32
      %first_entry = arith.muli %12, %c8_i32 overflow<nsw> {tile.name = "first_entry"} : i32
      %ids_6 = tile.map() at(row = %c0_i32, entry = %first_entry) -> !tile.tile<row 128 x entry 8, i32, register> {
      ^bb0(%row: i32, %entry: i32):
        %13 = arith.minsi %row, %c95_i32 : i32
        %14 = arith.muli %entry, %c96_i32 overflow<nsw> : i32
        %15 = arith.addi %14, %13 overflow<nsw> : i32
        %16 = arith.minsi %15, %11 : i32
        %ids_7 = tile.element %ids[%16] in_range [false] : <1, i32> (i32) -> i32
        tile.yield %ids_7 : i32
      } {tile.name = "ids"}
      %least = tile.reduce  min %ids_6 over "row" : <row 128 x entry 8, i32, register> -> <entry 8, i32, register> {tile.name = "least"}
      tile.store %least, %IDS.K[%c0_i32, %first_entry] limit %entries_0 : <entry 8, i32, register>, <2, i32>
      %greatest = tile.reduce  max %ids_6 over "row" : <row 128 x entry 8, i32, register> -> <entry 8, i32, register> {tile.name = "greatest"}
      tile.store %greatest, %IDS.K[%c1_i32, %first_entry] limit %entries_0 : <entry 8, i32, register>, <2, i32>
    }
  }
}
