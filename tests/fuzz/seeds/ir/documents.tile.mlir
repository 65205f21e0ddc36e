module attributes {attn.variant = "{\22name\22: \22documents\22, \22mask\22: \22ids[q] == ids[k]\22, \22tensors\22: {\22ids\22: {\22dtype\22: \22i32\22, \22rank\22: 1}}}"} {
  tile.kernel @documents(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype f16 plan <tile_q = 128, tile_k = 96, warps = 4, stages = 2, q_registers = true, blocks_per_sm = 2, longest_first = true> attributes {bounds = [#tile.bounds<"ids.q", "ids" dim 0 along "q" by 128>, #tile.bounds<"ids.k", "ids" dim 0 along "k" by 96>], tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %cst = arith.constant 0.360673755 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant 2.500000e-01 : f32
    %cst_2 = arith.constant 0.000000e+00 : f32
    %cst_3 = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c2_i32 = arith.constant 2 : i32
    %c128_i32 = arith.constant 128 : i32
    %c0_i32 = arith.constant 0 : i32
    %c96_i32 = arith.constant 96 : i32
    %c95_i32 = arith.constant 95 : i32
    %0 = tile.block_index "b" {tile.name = "b"} : i32
    %1 = tile.block_index "h" {tile.name = "h"} : i32
    %2 = tile.block_index "q" {tile.name = "q0"} : i32
    %3 = tile.axis_extent "q" {tile.name = "Sq"} : i32
    %4 = tile.axis_extent "k" {tile.name = "Sk"} : i32
    %5 = tile.param "group" {tile.name = "group"} : i32
    %6 = arith.divsi %1, %5 {tile.name = "kv_head"} : i32
    %7 = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
    %8 = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
    %9 = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
    %10 = arith.addi %4, %c95_i32 : i32
    %11 = arith.divsi %10, %c96_i32 {tile.name = "tiles_end"} : i32
    %12 = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<1, i32>
    %13 = arith.divsi %2, %c128_i32 : i32
    %14 = arith.muli %13, %c2_i32 {tile.name = "q_entry"} : i32
    %15 = tile.element %12[%14] in_range [true] {tile.name = "ids_q_min"} : <1, i32> (i32) -> i32
    %16 = arith.addi %14, %c1_i32 {tile.name = "q_entry"} : i32
    %17 = tile.element %12[%16] in_range [true] {tile.name = "ids_q_max"} : <1, i32> (i32) -> i32
    %18 = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<1, i32>
    %19 = tile.domain k by 96 [%c0_i32, %11) full where {
    ^bb0(%arg0: i32):
      %33 = arith.muli %arg0, %c2_i32 {tile.name = "k_entry"} : i32
      %34 = tile.element %18[%33] in_range [true] {tile.name = "ids_k_min"} : <1, i32> (i32) -> i32
      %35 = arith.addi %33, %c1_i32 {tile.name = "k_entry"} : i32
      %36 = tile.element %18[%35] in_range [true] {tile.name = "ids_k_max"} : <1, i32> (i32) -> i32
      %37 = arith.cmpi sle, %15, %36 : i32
      %38 = arith.cmpi sle, %17, %34 : i32
      %39 = arith.cmpi sle, %34, %17 : i32
      %40 = arith.cmpi sle, %36, %15 : i32
      %41 = arith.andi %37, %39 : i1
      %42 = arith.andi %38, %40 : i1
      tile.yield %41, %42 : i1, i1
    }
    %20 = tile.load %7[%0, %1, %2] limit %3 {tile.name = "q_tile"} : <4, f16> -> <q 128 x d 16, f16, shared>
    %21 = tile.splat %cst_3 {tile.name = "m"} : f32 -> <q 128, f32, register>
    %22 = tile.splat %cst_2 {tile.name = "l"} : f32 -> <q 128, f32, register>
    %23 = tile.splat %cst_2 {tile.name = "acc"} : f32 -> <q 128 x dv 16, f32, register>
    %24 = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
    %25 = tile.map() at(q = %2) -> !tile.tile<q 128, i32, register> {
    ^bb0(%arg0: i32):
      %33 = tile.element %24[%arg0] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
      tile.yield %33 : i32
    } {tile.name = "row_ids"}
    %26:3 = tile.for_blocks (%arg0, %arg1) in %19 iter_args(%arg2 = %21 : !tile.tile<q 128, f32, register>, %arg3 = %22 : !tile.tile<q 128, f32, register>, %arg4 = %23 : !tile.tile<q 128 x dv 16, f32, register>) {
      %33 = tile.load %8[%0, %6, %arg0] limit %4 {tile.name = "k_tile"} : <4, f16> -> <k 96 x d 16, f16, shared>
      %34 = tile.mma %20, %33 : <q 128 x d 16, f16, shared>, <k 96 x d 16, f16, shared> -> <q 128 x k 96, f32, register> {tile.name = "s"}
      %35 = arith.addi %arg0, %c96_i32 : i32
      %36 = arith.cmpi sgt, %35, %4 : i32
      %37 = arith.subi %4, %arg0 overflow<nsw> : i32
      %38 = arith.minsi %37, %c96_i32 : i32
      %39 = arith.maxsi %38, %c0_i32 : i32
      %40 = tile.map(%34 : !tile.tile<q 128 x k 96, f32, register>) at(q = %2, k = %c0_i32) only_if %36 -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32):
        %54 = arith.cmpi slt, %arg7, %39 : i32
        %55 = arith.select %54, %arg5, %cst_3 : f32
        tile.yield %55 : f32
      } {tile.name = "x"}
      %41 = tile.map() at(k = %arg0) only_if %arg1 -> !tile.tile<k 96, i32, register> {
      ^bb0(%arg5: i32):
        %54 = tile.element %24[%arg5] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
        tile.yield %54 : i32
      } {tile.name = "column_ids"}
      %42 = tile.map(%40, %25, %41 : !tile.tile<q 128 x k 96, f32, register>, !tile.tile<q 128, i32, register>, !tile.tile<k 96, i32, register>) at(q = %2, k = %arg0) only_if %arg1 -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32):
        %54 = arith.cmpi eq, %arg6, %arg7 : i32
        %55 = arith.select %54, %arg5, %cst_3 : f32
        tile.yield %55 : f32
      } {tile.name = "x"}
      %43 = tile.reduce  max %42 over "k" init %arg2 : !tile.tile<q 128, f32, register>, <q 128 x k 96, f32, register> -> <q 128, f32, register> {tile.name = "m_next"}
      %44 = tile.map(%43 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32):
        %54 = arith.cmpf oeq, %arg5, %cst_3 : f32
        %55 = arith.select %54, %cst_2, %arg5 : f32
        tile.yield %55 : f32
      } {tile.name = "m_base"}
      %45 = tile.map(%arg2, %44 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %54 = arith.subf %arg5, %arg6 : f32
        %55 = arith.mulf %54, %cst : f32
        %56 = math.exp2 %55 : f32
        tile.yield %56 : f32
      } {tile.name = "alpha"}
      %46 = tile.any %45 : <q 128, f32, register> {
      ^bb0(%arg5: f32):
        %cst_4 = arith.constant 1.000000e+00 : f32
        %54 = arith.cmpf une, %arg5, %cst_4 : f32
        tile.yield %54 : i1
      } {tile.name = "max_moved"}
      %47 = tile.map(%arg4, %45 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) only_if %46 -> !tile.tile<q 128 x dv 16, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %54 = arith.mulf %arg5, %arg6 : f32
        tile.yield %54 : f32
      } {tile.name = "acc"}
      %48 = tile.map(%42, %44 : !tile.tile<q 128 x k 96, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 96, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %54 = arith.subf %arg5, %arg6 : f32
        %55 = arith.mulf %54, %cst : f32
        %56 = math.exp2 %55 : f32
        tile.yield %56 : f32
      } {tile.name = "p"}
      %49 = tile.map(%arg3, %45 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %54 = arith.mulf %arg5, %arg6 : f32
        tile.yield %54 : f32
      } {tile.name = "l"}
      %50 = tile.reduce  sum %48 over "k" init %49 : !tile.tile<q 128, f32, register>, <q 128 x k 96, f32, register> -> <q 128, f32, register> per_lane {tile.name = "l"}
      %51 = tile.convert %48 {tile.name = "p"} : <q 128 x k 96, f32, register> -> <q 128 x k 96, f16, register>
      %52 = tile.load %9[%0, %6, %arg0] limit %4 {tile.name = "v_tile"} : <4, f16> -> <k 96 x dv 16, f16, shared>
      %53 = tile.mma %51, %52 add %47 : !tile.tile<q 128 x dv 16, f32, register>, <q 128 x k 96, f16, register>, <k 96 x dv 16, f16, shared> -> <q 128 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %43, %50, %53 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 16, f32, register>
    }
    %27 = tile.combine_lanes  sum %26#1 {tile.name = "l"} : <q 128, f32, register>
    %28 = tile.map(%27 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32):
      %33 = arith.cmpf oeq, %arg0, %cst_2 : f32
      %34 = arith.divf %cst_0, %arg0 : f32
      %35 = arith.select %33, %cst_2, %34 : f32
      tile.yield %35 : f32
    } {tile.name = "inverse_l"}
    %29 = tile.map(%26#2, %28 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 16, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %33 = arith.mulf %arg0, %arg1 : f32
      tile.yield %33 : f32
    } {tile.name = "out"}
    %30 = tile.map(%26#0, %27 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %33 = arith.mulf %arg0, %cst_1 : f32
      %34 = arith.cmpf oeq, %arg1, %cst_2 : f32
      %35 = math.log %arg1 : f32
      %36 = arith.addf %33, %35 : f32
      %37 = arith.select %34, %cst_3, %36 : f32
      tile.yield %37 : f32
    } {tile.name = "lse"}
    %31 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %30, %31[%0, %1, %2] limit %3 optional : <q 128, f32, register>, <3, f32>
    %32 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %29, %32[%0, %1, %2] limit %3 : <q 128 x dv 16, f32, register>, <4, f16>
  }
}
