module attributes {attn.variant = "{\22name\22: \22plain\22}"} {
  tile.kernel @plain(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype f16 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = true, blocks_per_sm = 3, longest_first = false> {
    %cst = arith.constant 0.360673755 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant 2.500000e-01 : f32
    %cst_2 = arith.constant 0.000000e+00 : f32
    %cst_3 = arith.constant 0xFF800000 : f32
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c63_i32 = arith.constant 63 : i32
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
    %10 = arith.addi %4, %c63_i32 : i32
    %11 = arith.divsi %10, %c64_i32 {tile.name = "tiles_end"} : i32
    %12 = tile.domain k by 64 [%c0_i32, %11) full
    %13 = tile.load %7[%0, %1, %2] limit %3 {tile.name = "q_tile"} : <4, f16> -> <q 128 x d 16, f16, shared>
    %14 = tile.splat %cst_3 {tile.name = "m"} : f32 -> <q 128, f32, register>
    %15 = tile.splat %cst_2 {tile.name = "l"} : f32 -> <q 128, f32, register>
    %16 = tile.splat %cst_2 {tile.name = "acc"} : f32 -> <q 128 x dv 16, f32, register>
    %17:3 = tile.for_blocks (%arg0, %arg1) in %12 iter_args(%arg2 = %14 : !tile.tile<q 128, f32, register>, %arg3 = %15 : !tile.tile<q 128, f32, register>, %arg4 = %16 : !tile.tile<q 128 x dv 16, f32, register>) {
      %24 = tile.load %8[%0, %6, %arg0] limit %4 {tile.name = "k_tile"} : <4, f16> -> <k 64 x d 16, f16, shared>
      %25 = tile.mma %13, %24 : <q 128 x d 16, f16, shared>, <k 64 x d 16, f16, shared> -> <q 128 x k 64, f32, register> {tile.name = "s"}
      %26 = arith.addi %arg0, %c64_i32 : i32
      %27 = arith.cmpi sgt, %26, %4 : i32
      %28 = arith.subi %4, %arg0 overflow<nsw> : i32
      %29 = arith.minsi %28, %c64_i32 : i32
      %30 = arith.maxsi %29, %c0_i32 : i32
      %31 = tile.map(%25 : !tile.tile<q 128 x k 64, f32, register>) at(q = %2, k = %c0_i32) only_if %27 -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32):
        %43 = arith.cmpi slt, %arg7, %30 : i32
        %44 = arith.select %43, %arg5, %cst_3 : f32
        tile.yield %44 : f32
      } {tile.name = "x"}
      %32 = tile.reduce  max %31 over "k" init %arg2 : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> {tile.name = "m_next"}
      %33 = tile.map(%32 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32):
        %43 = arith.cmpf oeq, %arg5, %cst_3 : f32
        %44 = arith.select %43, %cst_2, %arg5 : f32
        tile.yield %44 : f32
      } {tile.name = "m_base"}
      %34 = tile.map(%arg2, %33 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %43 = arith.subf %arg5, %arg6 : f32
        %44 = arith.mulf %43, %cst : f32
        %45 = math.exp2 %44 : f32
        tile.yield %45 : f32
      } {tile.name = "alpha"}
      %35 = tile.any %34 : <q 128, f32, register> {
      ^bb0(%arg5: f32):
        %cst_4 = arith.constant 1.000000e+00 : f32
        %43 = arith.cmpf une, %arg5, %cst_4 : f32
        tile.yield %43 : i1
      } {tile.name = "max_moved"}
      %36 = tile.map(%arg4, %34 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) only_if %35 -> !tile.tile<q 128 x dv 16, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %43 = arith.mulf %arg5, %arg6 : f32
        tile.yield %43 : f32
      } {tile.name = "acc"}
      %37 = tile.map(%31, %33 : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %43 = arith.subf %arg5, %arg6 : f32
        %44 = arith.mulf %43, %cst : f32
        %45 = math.exp2 %44 : f32
        tile.yield %45 : f32
      } {tile.name = "p"}
      %38 = tile.map(%arg3, %34 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %43 = arith.mulf %arg5, %arg6 : f32
        tile.yield %43 : f32
      } {tile.name = "l"}
      %39 = tile.reduce  sum %37 over "k" init %38 : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> per_lane {tile.name = "l"}
      %40 = tile.convert %37 {tile.name = "p"} : <q 128 x k 64, f32, register> -> <q 128 x k 64, f16, register>
      %41 = tile.load %9[%0, %6, %arg0] limit %4 {tile.name = "v_tile"} : <4, f16> -> <k 64 x dv 16, f16, shared>
      %42 = tile.mma %40, %41 add %36 : !tile.tile<q 128 x dv 16, f32, register>, <q 128 x k 64, f16, register>, <k 64 x dv 16, f16, shared> -> <q 128 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %32, %39, %42 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 16, f32, register>
    }
    %18 = tile.combine_lanes  sum %17#1 {tile.name = "l"} : <q 128, f32, register>
    %19 = tile.map(%18 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32):
      %24 = arith.cmpf oeq, %arg0, %cst_2 : f32
      %25 = arith.divf %cst_0, %arg0 : f32
      %26 = arith.select %24, %cst_2, %25 : f32
      tile.yield %26 : f32
    } {tile.name = "inverse_l"}
    %20 = tile.map(%17#2, %19 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 16, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %24 = arith.mulf %arg0, %arg1 : f32
      tile.yield %24 : f32
    } {tile.name = "out"}
    %21 = tile.map(%17#0, %18 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %24 = arith.mulf %arg0, %cst_1 : f32
      %25 = arith.cmpf oeq, %arg1, %cst_2 : f32
      %26 = math.log %arg1 : f32
      %27 = arith.addf %24, %26 : f32
      %28 = arith.select %25, %cst_3, %27 : f32
      tile.yield %28 : f32
    } {tile.name = "lse"}
    %22 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %21, %22[%0, %1, %2] limit %3 optional : <q 128, f32, register>, <3, f32>
    %23 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %20, %23[%0, %1, %2] limit %3 : <q 128 x dv 16, f32, register>, <4, f16>
  }
}
