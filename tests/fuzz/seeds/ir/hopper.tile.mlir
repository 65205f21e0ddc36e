module attributes {attn.variant = "{\22name\22: \22causal\22, \22mask\22: \22q >= k\22}"} {
  tile.kernel @causal(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 256] dtype f16 plan <tile_q = 256, tile_k = 96, warps = 16, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = true, copy_warps = 4, persistent = true, q_stages = 2, turns = true> {
    %cst = arith.constant 0.360673755 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant 2.500000e-01 : f32
    %cst_2 = arith.constant 0.000000e+00 : f32
    %cst_3 = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c96_i32 = arith.constant 96 : i32
    %c95_i32 = arith.constant 95 : i32
    %c256_i32 = arith.constant 256 : i32
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
    %10 = arith.addi %2, %c256_i32 : i32
    %11 = arith.minsi %10, %3 {tile.name = "q_end"} : i32
    %12 = arith.minsi %11, %4 : i32
    %13 = arith.addi %12, %c95_i32 : i32
    %14 = arith.divsi %13, %c96_i32 {tile.name = "tiles_end"} : i32
    %15 = tile.domain k by 96 [%c0_i32, %14) full
    %16 = tile.part_row %2 by 64 {tile.name = "own_row"} : i32
    %17 = arith.addi %16, %c64_i32 : i32
    %18 = arith.minsi %17, %3 {tile.name = "q_end"} : i32
    %19 = arith.minsi %18, %4 : i32
    %20 = arith.addi %19, %c95_i32 : i32
    %21 = arith.divsi %20, %c96_i32 {tile.name = "visible_end"} : i32
    %22 = arith.cmpi slt, %16, %3 : i32
    %23 = arith.select %22, %21, %c0_i32 {tile.name = "own_end"} : i32
    %24 = arith.addi %16, %c1_i32 : i32
    %25 = arith.minsi %24, %4 {tile.name = "full_to"} : i32
    %26 = tile.load %7[%0, %1, %2] limit %3 {tile.name = "q_tile"} : <4, f16> -> <q 256 x d 16, f16, shared>
    %27 = tile.splat %cst_3 {tile.name = "m"} : f32 -> <q 256, f32, register>
    %28 = tile.splat %cst_2 {tile.name = "l"} : f32 -> <q 256, f32, register>
    %29 = tile.splat %cst_2 {tile.name = "acc"} : f32 -> <q 256 x dv 16, f32, register>
    %30:3 = tile.for_blocks (%arg0, %arg1) in %15 within [%c0_i32, %23) iter_args(%arg2 = %27 : !tile.tile<q 256, f32, register>, %arg3 = %28 : !tile.tile<q 256, f32, register>, %arg4 = %29 : !tile.tile<q 256 x dv 16, f32, register>) {
      %37 = tile.load %8[%0, %6, %arg0] limit %4 {tile.name = "k_tile"} : <4, f16> -> <k 96 x d 16, f16, shared>
      %38 = tile.mma %26, %37 : <q 256 x d 16, f16, shared>, <k 96 x d 16, f16, shared> -> <q 256 x k 96, f32, register> {tile.name = "s"}
      %39 = arith.addi %arg0, %c96_i32 : i32
      %40 = arith.cmpi sgt, %39, %25 : i32
      %41 = tile.map(%38 : !tile.tile<q 256 x k 96, f32, register>) at(q = %2, k = %c0_i32) only_if %40 -> !tile.tile<q 256 x k 96, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32):
        %52 = arith.addi %arg6, %c1_i32 : i32
        %53 = arith.minsi %52, %4 {tile.name = "row_end"} : i32
        %54 = arith.subi %53, %arg0 overflow<nsw> : i32
        %55 = arith.minsi %54, %c96_i32 : i32
        %56 = arith.maxsi %55, %c0_i32 : i32
        %57 = arith.cmpi slt, %arg7, %56 : i32
        %58 = arith.select %57, %arg5, %cst_3 : f32
        tile.yield %58 : f32
      } {tile.name = "x"}
      %42 = tile.reduce  max %41 over "k" init %arg2 : !tile.tile<q 256, f32, register>, <q 256 x k 96, f32, register> -> <q 256, f32, register> {tile.name = "m_next"}
      %43 = tile.map(%42 : !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%arg5: f32):
        %52 = arith.cmpf oeq, %arg5, %cst_3 : f32
        %53 = arith.select %52, %cst_2, %arg5 : f32
        tile.yield %53 : f32
      } {tile.name = "m_base"}
      %44 = tile.map(%arg2, %43 : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %52 = arith.subf %arg5, %arg6 : f32
        %53 = arith.mulf %52, %cst : f32
        %54 = math.exp2 %53 : f32
        tile.yield %54 : f32
      } {tile.name = "alpha"}
      %45 = tile.map(%arg4, %44 : !tile.tile<q 256 x dv 16, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x dv 16, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %52 = arith.mulf %arg5, %arg6 : f32
        tile.yield %52 : f32
      } {tile.name = "acc"}
      %46 = tile.map(%41, %43 : !tile.tile<q 256 x k 96, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x k 96, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %52 = arith.subf %arg5, %arg6 : f32
        %53 = arith.mulf %52, %cst : f32
        %54 = math.exp2 %53 : f32
        tile.yield %54 : f32
      } {tile.name = "p"}
      %47 = tile.map(%arg3, %44 : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %52 = arith.mulf %arg5, %arg6 : f32
        tile.yield %52 : f32
      } {tile.name = "l"}
      %48 = tile.reduce  sum %46 over "k" init %47 : !tile.tile<q 256, f32, register>, <q 256 x k 96, f32, register> -> <q 256, f32, register> per_lane {tile.name = "l"}
      %49 = tile.convert %46 {tile.name = "p"} : <q 256 x k 96, f32, register> -> <q 256 x k 96, f16, register>
      %50 = tile.load %9[%0, %6, %arg0] limit %4 {tile.name = "v_tile"} : <4, f16> -> <k 96 x dv 16, f16, shared>
      %51 = tile.mma %49, %50 add %45 : !tile.tile<q 256 x dv 16, f32, register>, <q 256 x k 96, f16, register>, <k 96 x dv 16, f16, shared> -> <q 256 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %42, %48, %51 : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>, !tile.tile<q 256 x dv 16, f32, register>
    }
    %31 = tile.combine_lanes  sum %30#1 {tile.name = "l"} : <q 256, f32, register>
    %32 = tile.map(%31 : !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
    ^bb0(%arg0: f32):
      %37 = arith.cmpf oeq, %arg0, %cst_2 : f32
      %38 = arith.divf %cst_0, %arg0 : f32
      %39 = arith.select %37, %cst_2, %38 : f32
      tile.yield %39 : f32
    } {tile.name = "inverse_l"}
    %33 = tile.map(%30#2, %32 : !tile.tile<q 256 x dv 16, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256 x dv 16, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %37 = arith.mulf %arg0, %arg1 : f32
      tile.yield %37 : f32
    } {tile.name = "out"}
    %34 = tile.map(%30#0, %31 : !tile.tile<q 256, f32, register>, !tile.tile<q 256, f32, register>) -> !tile.tile<q 256, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %37 = arith.mulf %arg0, %cst_1 : f32
      %38 = arith.cmpf oeq, %arg1, %cst_2 : f32
      %39 = math.log %arg1 : f32
      %40 = arith.addf %37, %39 : f32
      %41 = arith.select %38, %cst_3, %40 : f32
      tile.yield %41 : f32
    } {tile.name = "lse"}
    %35 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %34, %35[%0, %1, %2] limit %3 optional : <q 256, f32, register>, <3, f32>
    %36 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %33, %36[%0, %1, %2] limit %3 : <q 256 x dv 16, f32, register>, <4, f16>
  }
}
