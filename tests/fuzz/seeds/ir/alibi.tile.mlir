module attributes {attn.variant = "{\22name\22: \22alibi\22, \22score\22: \22s + slopes[h] * (k - q)\22, \22mask\22: \22q >= k\22, \22tensors\22: {\22slopes\22: {\22dtype\22: \22f32\22, \22rank\22: 1}}}"} {
  tile.kernel @alibi(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype f16 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = true, blocks_per_sm = 3, longest_first = true> attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} {
    %cst = arith.constant 0.360673755 : f32
    %cst_0 = arith.constant 2.500000e-01 : f32
    %cst_1 = arith.constant 4.000000e+00 : f32
    %cst_2 = arith.constant 1.000000e+00 : f32
    %cst_3 = arith.constant 0.000000e+00 : f32
    %cst_4 = arith.constant 0xFF800000 : f32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c63_i32 = arith.constant 63 : i32
    %c128_i32 = arith.constant 128 : i32
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
    %10 = arith.addi %2, %c128_i32 : i32
    %11 = arith.minsi %10, %3 {tile.name = "q_end"} : i32
    %12 = arith.minsi %11, %4 : i32
    %13 = arith.addi %12, %c63_i32 : i32
    %14 = arith.divsi %13, %c64_i32 {tile.name = "tiles_end"} : i32
    %15 = tile.domain k by 64 [%c0_i32, %14) full
    %16 = arith.addi %2, %c1_i32 : i32
    %17 = arith.minsi %16, %4 {tile.name = "full_to"} : i32
    %18 = tile.load %7[%0, %1, %2] limit %3 {tile.name = "q_tile"} : <4, f16> -> <q 128 x d 16, f16, shared>
    %19 = tile.splat %cst_4 {tile.name = "m"} : f32 -> <q 128, f32, register>
    %20 = tile.splat %cst_3 {tile.name = "l"} : f32 -> <q 128, f32, register>
    %21 = tile.splat %cst_3 {tile.name = "acc"} : f32 -> <q 128 x dv 16, f32, register>
    %22 = tile.param "tensors.slopes" {tile.name = "slopes"} : !tile.view<1, f32>
    %23 = tile.element %22[%1] in_range [false] {tile.name = "slopes"} : <1, f32> (i32) -> f32
    %24 = arith.mulf %23, %cst_1 : f32
    %25 = tile.axis_extent "k" : i32
    %c0_i32_5 = arith.constant 0 : i32
    %26 = arith.cmpi sgt, %25, %c0_i32_5 {tile.name = "has_keys"} : i32
    %27:3 = tile.for_blocks (%arg0, %arg1) in %15 iter_args(%arg2 = %19 : !tile.tile<q 128, f32, register>, %arg3 = %20 : !tile.tile<q 128, f32, register>, %arg4 = %21 : !tile.tile<q 128 x dv 16, f32, register>) {
      %34 = tile.load %8[%0, %6, %arg0] limit %4 {tile.name = "k_tile"} : <4, f16> -> <k 64 x d 16, f16, shared>
      %35 = tile.mma %18, %34 : <q 128 x d 16, f16, shared>, <k 64 x d 16, f16, shared> -> <q 128 x k 64, f32, register> {tile.name = "s"}
      %36 = arith.subi %arg0, %2 : i32
      %37 = arith.sitofp %36 {tile.name = "distance"} : i32 to f32
      %38 = tile.map(%35 : !tile.tile<q 128 x k 64, f32, register>) at(q = %2, k = %arg0, k = %37 : f32, q = %cst_3 : f32) only_if %26 -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32, %arg8: f32, %arg9: f32):
        %53 = arith.subf %arg8, %arg9 : f32
        %54 = arith.mulf %24, %53 : f32
        %55 = arith.addf %arg5, %54 : f32
        tile.yield %55 : f32
      } {tile.name = "x"}
      %39 = arith.addi %arg0, %c64_i32 : i32
      %40 = arith.cmpi sgt, %39, %17 : i32
      %41 = tile.map(%38 : !tile.tile<q 128 x k 64, f32, register>) at(q = %2, k = %c0_i32) only_if %40 -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%arg5: f32, %arg6: i32, %arg7: i32):
        %53 = arith.addi %arg6, %c1_i32 : i32
        %54 = arith.minsi %53, %4 {tile.name = "row_end"} : i32
        %55 = arith.subi %54, %arg0 overflow<nsw> : i32
        %56 = arith.minsi %55, %c64_i32 : i32
        %57 = arith.maxsi %56, %c0_i32 : i32
        %58 = arith.cmpi slt, %arg7, %57 : i32
        %59 = arith.select %58, %arg5, %cst_4 : f32
        tile.yield %59 : f32
      } {tile.name = "x"}
      %42 = tile.reduce  max %41 over "k" init %arg2 : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> {tile.name = "m_next"}
      %43 = tile.map(%42 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32):
        %53 = arith.cmpf oeq, %arg5, %cst_4 : f32
        %54 = arith.select %53, %cst_3, %arg5 : f32
        tile.yield %54 : f32
      } {tile.name = "m_base"}
      %44 = tile.map(%arg2, %43 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %53 = arith.subf %arg5, %arg6 : f32
        %54 = arith.mulf %53, %cst : f32
        %55 = math.exp2 %54 : f32
        tile.yield %55 : f32
      } {tile.name = "alpha"}
      %45 = tile.any %44 : <q 128, f32, register> {
      ^bb0(%arg5: f32):
        %cst_6 = arith.constant 1.000000e+00 : f32
        %53 = arith.cmpf une, %arg5, %cst_6 : f32
        tile.yield %53 : i1
      } {tile.name = "max_moved"}
      %46 = tile.map(%arg4, %44 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) only_if %45 -> !tile.tile<q 128 x dv 16, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %53 = arith.mulf %arg5, %arg6 : f32
        tile.yield %53 : f32
      } {tile.name = "acc"}
      %47 = tile.map(%41, %43 : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 64, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %53 = arith.subf %arg5, %arg6 : f32
        %54 = arith.mulf %53, %cst : f32
        %55 = math.exp2 %54 : f32
        tile.yield %55 : f32
      } {tile.name = "p"}
      %48 = tile.map(%arg3, %44 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
      ^bb0(%arg5: f32, %arg6: f32):
        %53 = arith.mulf %arg5, %arg6 : f32
        tile.yield %53 : f32
      } {tile.name = "l"}
      %49 = tile.reduce  sum %47 over "k" init %48 : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register> per_lane {tile.name = "l"}
      %50 = tile.convert %47 {tile.name = "p"} : <q 128 x k 64, f32, register> -> <q 128 x k 64, f16, register>
      %51 = tile.load %9[%0, %6, %arg0] limit %4 {tile.name = "v_tile"} : <4, f16> -> <k 64 x dv 16, f16, shared>
      %52 = tile.mma %50, %51 add %46 : !tile.tile<q 128 x dv 16, f32, register>, <q 128 x k 64, f16, register>, <k 64 x dv 16, f16, shared> -> <q 128 x dv 16, f32, register> {tile.name = "acc"}
      tile.yield %42, %49, %52 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 16, f32, register>
    }
    %28 = tile.combine_lanes  sum %27#1 {tile.name = "l"} : <q 128, f32, register>
    %29 = tile.map(%28 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32):
      %34 = arith.cmpf oeq, %arg0, %cst_3 : f32
      %35 = arith.divf %cst_2, %arg0 : f32
      %36 = arith.select %34, %cst_3, %35 : f32
      tile.yield %36 : f32
    } {tile.name = "inverse_l"}
    %30 = tile.map(%27#2, %29 : !tile.tile<q 128 x dv 16, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 16, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %34 = arith.mulf %arg0, %arg1 : f32
      tile.yield %34 : f32
    } {tile.name = "out"}
    %31 = tile.map(%27#0, %28 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%arg0: f32, %arg1: f32):
      %34 = arith.mulf %arg0, %cst_0 : f32
      %35 = arith.cmpf oeq, %arg1, %cst_3 : f32
      %36 = math.log %arg1 : f32
      %37 = arith.addf %34, %36 : f32
      %38 = arith.select %35, %cst_4, %37 : f32
      tile.yield %38 : f32
    } {tile.name = "lse"}
    %32 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
    tile.store %31, %32[%0, %1, %2] limit %3 optional : <q 128, f32, register>, <3, f32>
    %33 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
    tile.store %30, %33[%0, %1, %2] limit %3 : <q 128 x dv 16, f32, register>, <4, f16>
  }
}
