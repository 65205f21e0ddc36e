module attributes {attn.variant = "{\22name\22: \22documents\22, \22mask\22: \22ids[q] == ids[k]\22, \22tensors\22: {\22ids\22: {\22dtype\22: \22i32\22, \22rank\22: 1}}}"} {
  sched.kernel @documents(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 14704 dtype f16 plan <tile_q = 128, tile_k = 16, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, copy_warps = 4, persistent = true, q_stages = 2, turns = true> attributes {bounds = [#tile.bounds<"ids.q", "ids" dim 0 along "q" by 128>, #tile.bounds<"ids.k", "ids" dim 0 along "k" by 16>, #tile.bounds<"ids.part", "ids" dim 0 along "q" by 64>], tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %false = arith.constant false
    %c3_i32 = arith.constant 3 : i32
    %cst = arith.constant 3.276800e+04 : f32
    %cst_0 = arith.constant -3.40282347E+38 : f32
    %c8_i32 = arith.constant 8 : i32
    %c5_i32 = arith.constant 5 : i32
    %true = arith.constant true
    %c15_i32 = arith.constant 15 : i32
    %c64_i32 = arith.constant 64 : i32
    %cst_1 = arith.constant 0xFF800000 : f32
    %cst_2 = arith.constant 0.000000e+00 : f32
    %cst_3 = arith.constant 2.500000e-01 : f32
    %cst_4 = arith.constant 1.000000e+00 : f32
    %cst_5 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c128_i32 = arith.constant 128 : i32
    %c1_i32 = arith.constant 1 : i32
    %c32_i32 = arith.constant 32 : i32
    %c0_i32 = arith.constant 0 : i32
    %0 = tile.param "o" : !tile.view<4, f16>
    %1 = sched.tensor_map %0 swizzle <32> {tile.name = "o_map"} : <4, f16> -> <64 x 16, f16>
    %2 = tile.param "k" : !tile.view<4, f16>
    %3 = sched.tensor_map %2 swizzle <32> {tile.name = "k_map"} : <4, f16> -> <16 x 16, f16>
    %4 = tile.param "q" : !tile.view<4, f16>
    %5 = sched.tensor_map %4 swizzle <32> {tile.name = "q_map"} : <4, f16> -> <128 x 16, f16>
    %6 = tile.param "v" : !tile.view<4, f16>
    %7 = sched.tensor_map %6 swizzle <32> {tile.name = "v_map"} : <4, f16> -> <16 x 16, f16>
    %8 = sched.shared "q_ring" at 0 : <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>
    %9 = sched.shared "o_tile" at 8192 : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>
    %10 = sched.ring "q_barriers" at 14608 filled_by 1 emptied_by 9 : <2>
    %11 = sched.shared "k_ring" at 12288 : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
    %12 = sched.ring "k_barriers" at 14640 filled_by 33 emptied_by 288 : <2>
    %13 = sched.shared "v_ring" at 13312 : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
    %14 = sched.ring "v_barriers" at 14672 filled_by 1 emptied_by 8 : <2>
    %15 = sched.shared "column_ids_ring" at 14336 : <stage 2 x k 16, i32, shared>
    %16 = sched.shared "tasks" at 14464 : <stage 2 x message 1 x field 8, i32, shared>
    %17 = sched.shared "visits" at 14592 : <stage 2 x message 1 x field 2, i32, shared>
    %18 = sched.thread_id : i32
    %19 = arith.cmpi eq, %18, %c0_i32 : i32
    scf.if %19 {
      sched.init_ring %10 : <2>
      sched.init_ring %12 : <2>
      sched.init_ring %14 : <2>
      sched.fence_init
    }
    sched.barrier
    sched.wait_bounds
    sched.role "producer" warps 4 registers 40 {
      %20 = sched.thread_id in_role : i32
      %21 = arith.divui %20, %c32_i32 : i32
      %22 = arith.cmpi eq, %21, %c1_i32 : i32
      scf.if %22 {
        %24 = sched.elect {tile.name = "elected"}
        sched.for_work received tile_q 128 longest_first carries (%c0_i32, %c0_i32) (%arg0, %arg1, %arg2) {
          %25 = arith.divui %arg0, %c2_i32 : i32
          %26 = arith.remui %arg0, %c2_i32 {tile.name = "q_stage"} : i32
          %27 = arith.andi %25, %c1_i32 {tile.name = "q_phase"} : i32
          sched.wait %10[%26] phase %27 : <2>
          %28:5 = sched.receive from %16[%26] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32
          %29 = sched.uniform %28#4 {tile.name = "first_tile"} : i32
          %30 = sched.uniform %28#0 {tile.name = "b"} : i32
          %31 = sched.uniform %28#1 {tile.name = "h"} : i32
          %32 = tile.axis_extent "k" {tile.name = "Sk"} : i32
          %33 = tile.param "group" {tile.name = "group"} : i32
          %34 = arith.divsi %31, %33 {tile.name = "kv_head"} : i32
          %35 = arith.addi %32, %c15_i32 : i32
          %36 = arith.divsi %35, %c16_i32 {tile.name = "tiles_end"} : i32
          %37:3 = sched.for_tiles (%arg3, %arg4, %arg5) = (%29, %arg1, %arg2) below %36 keeps {
            %40 = arith.muli %arg3, %c16_i32 {tile.name = "k0"} : i32
            sched.wait %12[%arg4] phase %arg5 : <2>
            %41:2 = sched.receive from %17[%arg4] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
            %42 = sched.uniform %41#0 {tile.name = "next_tile"} : i32
            sched.release %12[%arg4] by_lanes : <2>
            scf.if %24 {
              sched.acquire %14[%arg4] phase %arg5 : <2>
              sched.expect_bytes 512 on %14[%arg4] : <2>
              sched.load_box %7[%30, %34, %40, %c0_i32] to %13[%arg4] signal %14 : <16 x 16, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <2>
            }
            %43 = arith.xori %arg5, %c1_i32 : i32
            %44 = arith.addi %arg4, %c1_i32 : i32
            %45 = arith.cmpi eq, %44, %c2_i32 : i32
            %46 = arith.select %45, %c0_i32, %44 {tile.name = "next_stage"} : i32
            %47 = arith.select %45, %43, %arg5 {tile.name = "next_phase"} : i32
            sched.next %42, %46, %47 : i32, i32, i32
          } {tile.names = ["tile", "stage", "phase"]}
          sched.sync_lanes
          sched.release %10[%26] : <2>
          %38 = sched.uniform %37#1 : i32
          %39 = sched.uniform %37#2 : i32
          sched.next %28#3, %38, %39 : i32, i32, i32
        } {tile.names = ["count", "first_stage", "first_phase"]}
      }
      %23 = arith.cmpi slt, %20, %c32_i32 : i32
      scf.if %23 {
        %24 = sched.elect {tile.name = "elected"}
        sched.for_work claimed tile_q 128 longest_first carries (%c0_i32, %c0_i32) (%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {
          %25 = sched.claim_work {tile.name = "claimed"} : i32
          %26 = tile.axis_extent "q" {tile.name = "Sq"} : i32
          %27 = tile.axis_extent "k" {tile.name = "Sk"} : i32
          %28 = tile.param "group" {tile.name = "group"} : i32
          %29 = arith.divsi %arg1, %28 {tile.name = "kv_head"} : i32
          %30 = arith.addi %27, %c15_i32 : i32
          %31 = arith.divsi %30, %c16_i32 {tile.name = "tiles_end"} : i32
          %32 = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<1, i32>
          %33 = arith.divsi %arg2, %c128_i32 : i32
          %34 = arith.muli %33, %c2_i32 {tile.name = "q_entry"} : i32
          %35 = tile.element %32[%34] in_range [true] {tile.name = "ids_q_min"} : <1, i32> (i32) -> i32
          %36 = arith.addi %34, %c1_i32 {tile.name = "q_entry"} : i32
          %37 = tile.element %32[%36] in_range [true] {tile.name = "ids_q_max"} : <1, i32> (i32) -> i32
          %38 = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<1, i32>
          %39 = arith.subi %26, %c1_i32 overflow<nsw> : i32
          %40 = tile.param "ids.part" {tile.name = "ids.part"} : !tile.view<1, i32>
          %41 = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
          %42 = arith.minsi %arg2, %39 {tile.name = "seen_row"} : i32
          %43 = arith.divsi %42, %c64_i32 : i32
          %44 = arith.muli %43, %c2_i32 {tile.name = "q_entry"} : i32
          %45 = tile.element %40[%44] in_range [true] {tile.name = "ids_q_min"} : <1, i32> (i32) -> i32
          %46 = arith.addi %44, %c1_i32 {tile.name = "q_entry"} : i32
          %47 = tile.element %40[%46] in_range [true] {tile.name = "ids_q_max"} : <1, i32> (i32) -> i32
          %48 = arith.addi %arg2, %c64_i32 overflow<nsw> : i32
          %49 = arith.minsi %48, %39 {tile.name = "seen_row"} : i32
          %50 = arith.divsi %49, %c64_i32 : i32
          %51 = arith.muli %50, %c2_i32 {tile.name = "q_entry"} : i32
          %52 = tile.element %40[%51] in_range [true] {tile.name = "ids_q_min"} : <1, i32> (i32) -> i32
          %53 = arith.addi %51, %c1_i32 {tile.name = "q_entry"} : i32
          %54 = tile.element %40[%53] in_range [true] {tile.name = "ids_q_max"} : <1, i32> (i32) -> i32
          %tile, %origin, %visible, %full, %begins:2 = sched.next_visible from %c0_i32 below %31 parts i32, i32 {
          ^bb0(%arg6: i32):
            %63 = arith.muli %arg6, %c2_i32 {tile.name = "k_entry"} : i32
            %64 = tile.element %38[%63] in_range [true] {tile.name = "ids_k_min"} : <1, i32> (i32) -> i32
            %65 = arith.addi %63, %c1_i32 {tile.name = "k_entry"} : i32
            %66 = tile.element %38[%65] in_range [true] {tile.name = "ids_k_max"} : <1, i32> (i32) -> i32
            %67 = arith.cmpi sle, %35, %66 : i32
            %68 = arith.cmpi sle, %64, %37 : i32
            %69 = arith.andi %67, %68 : i1
            %70 = arith.cmpi sle, %37, %64 : i32
            %71 = arith.cmpi sle, %66, %35 : i32
            %72 = arith.andi %70, %71 : i1
            %73 = arith.cmpi sle, %45, %66 : i32
            %74 = arith.cmpi sle, %64, %47 : i32
            %75 = arith.andi %73, %74 : i1
            %76 = arith.cmpi sle, %52, %66 : i32
            %77 = arith.cmpi sle, %64, %54 : i32
            %78 = arith.andi %76, %77 : i1
            sched.visible %69, %72 parts %75, %78
          } {tile.name = "next_tile"}
          %55 = sched.shuffle %25, %c0_i32 {tile.name = "next_number"} : i32
          %56 = arith.divui %arg3, %c2_i32 : i32
          %57 = arith.remui %arg3, %c2_i32 {tile.name = "q_stage"} : i32
          %58 = arith.andi %56, %c1_i32 {tile.name = "q_phase"} : i32
          %59 = sched.more_work %55 {tile.name = "more"} : i32
          scf.if %24 {
            sched.acquire %10[%57] phase %58 : <2>
            sched.send %arg0, %arg1, %arg2, %59, %tile, %begins#0, %begins#1 to %16[%57] : <stage 2 x message 1 x field 8, i32, shared>
            sched.expect_bytes 4096 on %10[%57] : <2>
            sched.load_box %5[%arg0, %arg1, %arg2, %c0_i32] to %8[%57] signal %10 : <128 x 16, f16>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <2>
          }
          %60:6 = sched.for_tiles (%arg6, %arg7, %arg8, %arg9, %arg10, %arg11) = (%tile, %arg4, %arg5, %origin, %visible, %full) below %31 keeps {
            %63 = arith.muli %arg6, %c16_i32 {tile.name = "k0"} : i32
            %64 = arith.addi %arg6, %c1_i32 {tile.name = "next_tile"} : i32
            %tile_6, %origin_7, %visible_8, %full_9 = sched.next_visible from %64 below %31 seen %arg9, %arg10, %arg11 {
            ^bb0(%arg12: i32):
              %75 = arith.muli %arg12, %c2_i32 {tile.name = "k_entry"} : i32
              %76 = tile.element %38[%75] in_range [true] {tile.name = "ids_k_min"} : <1, i32> (i32) -> i32
              %77 = arith.addi %75, %c1_i32 {tile.name = "k_entry"} : i32
              %78 = tile.element %38[%77] in_range [true] {tile.name = "ids_k_max"} : <1, i32> (i32) -> i32
              %79 = arith.cmpi sle, %35, %78 : i32
              %80 = arith.cmpi sle, %76, %37 : i32
              %81 = arith.andi %79, %80 : i1
              %82 = arith.cmpi sle, %37, %76 : i32
              %83 = arith.cmpi sle, %78, %35 : i32
              %84 = arith.andi %82, %83 : i1
              sched.visible %81, %84
            } {tile.name = "next_tile"}
            %65 = arith.subi %arg6, %arg9 overflow<nsw> : i32
            %66 = arith.shrui %arg11, %65 : i32
            %67 = arith.trunci %66 : i32 to i1
            %68 = arith.xori %67, %true : i1
            %69 = arith.extui %68 : i1 to i32
            scf.if %24 {
              sched.acquire %12[%arg7] phase %arg8 : <2>
              sched.send %tile_6, %69 to %17[%arg7] : <stage 2 x message 1 x field 2, i32, shared>
              sched.expect_bytes 512 on %12[%arg7] : <2>
              sched.load_box %3[%arg0, %29, %63, %c0_i32] to %11[%arg7] signal %12 : <16 x 16, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <2>
            }
            scf.if %68 {
              %75 = sched.read_thread_id {tile.name = "thread"} : i32
              %76 = arith.remui %75, %c32_i32 {tile.name = "lane"} : i32
              sched.acquire %12[%arg7] phase %arg8 : <2>
              %77 = sched.registers "column_ids" : <k 16, i32, register, #sched.fragment<threads, warps 1>>
              %78 = arith.minsi %76, %c15_i32 : i32
              %79 = arith.addi %63, %78 overflow<nsw> {tile.name = "k"} : i32
              %80 = tile.element %41[%79] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
              sched.set %80, %77[%c0_i32] : i32, <k 16, i32, register, #sched.fragment<threads, warps 1>>
              %81 = arith.cmpi slt, %76, %c16_i32 : i32
              scf.if %81 {
                %82 = sched.get %77[%c0_i32] : <k 16, i32, register, #sched.fragment<threads, warps 1>> -> i32
                sched.store_shared %82, %15[%arg7, %c0_i32, %76] : i32, <stage 2 x k 16, i32, shared>
              }
            }
            sched.sync_lanes
            sched.commit %12[%arg7] : <2>
            %70 = arith.xori %arg8, %c1_i32 : i32
            %71 = arith.addi %arg7, %c1_i32 : i32
            %72 = arith.cmpi eq, %71, %c2_i32 : i32
            %73 = arith.select %72, %c0_i32, %71 {tile.name = "next_stage"} : i32
            %74 = arith.select %72, %70, %arg8 {tile.name = "next_phase"} : i32
            sched.next %tile_6, %73, %74, %origin_7, %visible_8, %full_9 : i32, i32, i32, i32, i32, i32
          } {tile.names = ["tile", "stage", "phase", "origin", "visible", "full"]}
          %61 = sched.uniform %60#1 : i32
          %62 = sched.uniform %60#2 : i32
          sched.next %55, %61, %62 : i32, i32, i32
        } {tile.names = ["b", "h", "q0", "count", "first_stage", "first_phase"]}
      }
    }
    sched.role "consumer" warps 8 registers 232 {
      %20 = sched.thread_id in_role : i32
      %21 = arith.divui %20, %c128_i32 : i32
      %22 = sched.uniform %21 {tile.name = "warpgroup"} : i32
      %23 = arith.addi %22, %c5_i32 overflow<nsw> {tile.name = "own_turn"} : i32
      %24 = arith.addi %22, %c1_i32 overflow<nsw> : i32
      %25 = arith.remui %24, %c2_i32 : i32
      %26 = arith.addi %25, %c5_i32 overflow<nsw> {tile.name = "next_turn"} : i32
      %27 = arith.cmpi eq, %22, %c1_i32 : i32
      scf.if %27 {
        sched.arrive_warps %26 threads 256
      }
      sched.for_work received tile_q 128 longest_first carries (%c0_i32, %c0_i32) (%arg0, %arg1, %arg2) {
        %30 = sched.thread_id in_role {tile.name = "thread"} : i32
        %31 = arith.remui %30, %c32_i32 {tile.name = "lane"} : i32
        %32 = arith.divui %30, %c32_i32 {tile.name = "warp"} : i32
        %33 = arith.divui %31, %c4_i32 {tile.name = "lane_row"} : i32
        %34 = arith.remui %31, %c4_i32 {tile.name = "quad_lane"} : i32
        %35 = arith.muli %34, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
        %36 = arith.muli %32, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
        %37 = arith.divui %arg0, %c2_i32 : i32
        %38 = arith.remui %arg0, %c2_i32 {tile.name = "q_stage"} : i32
        %39 = arith.andi %37, %c1_i32 {tile.name = "q_phase"} : i32
        sched.wait %10[%38] phase %39 : <2>
        %40:7 = sched.receive from %16[%38] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32, i32, i32
        %41 = sched.uniform %40#4 {tile.name = "first_tile"} : i32
        %42 = sched.uniform %40#2 {tile.name = "q0"} : i32
        %43 = tile.axis_extent "q" {tile.name = "Sq"} : i32
        %44 = tile.axis_extent "k" {tile.name = "Sk"} : i32
        %45 = arith.addi %44, %c15_i32 : i32
        %46 = arith.divsi %45, %c16_i32 {tile.name = "tiles_end"} : i32
        %47 = arith.muli %22, %c64_i32 overflow<nsw> : i32
        %48 = arith.addi %42, %47 overflow<nsw> {tile.name = "own_row"} : i32
        %49 = arith.cmpi eq, %48, %42 : i32
        %50 = arith.select %49, %40#5, %40#6 : i32
        %51 = sched.uniform %50 {tile.name = "own_begin"} : i32
        %52 = sched.registers "m" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %cst_1, %52[%c0_i32, %arg3] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %53 = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %cst_2, %53[%c0_i32, %arg3] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %54 = sched.registers "acc" : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %95 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
              %96 = arith.addi %95, %arg5 overflow<nsw> : i32
              sched.set %cst_2, %54[%c0_i32, %arg4, %96] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %55 = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
        %56 = sched.registers "row_ids" : <q 128, i32, register, #sched.fragment<rows, warps 8>>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %95 = arith.addi %36, %33 overflow<nsw> : i32
          %96 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
          %97 = arith.addi %95, %96 overflow<nsw> : i32
          %98 = arith.addi %42, %97 overflow<nsw> {tile.name = "q"} : i32
          %99 = tile.element %55[%98] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
          sched.set %99, %56[%c0_i32, %arg3] : i32, <q 128, i32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %57 = arith.minsi %51, %46 : i32
        %58:3 = sched.for_tiles (%arg3, %arg4, %arg5) = (%41, %arg1, %arg2) below %57 keeps {
          sched.wait %12[%arg4] phase %arg5 : <2>
          %95:2 = sched.receive from %17[%arg4] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
          %96 = sched.uniform %95#0 {tile.name = "next_tile"} : i32
          %97 = arith.cmpi slt, %96, %46 : i32
          scf.if %97 {
            sched.sync_warps %23 threads 256
            sched.arrive_warps %26 threads 256
          }
          sched.release %12[%arg4] by_lanes : <2>
          sched.wait %14[%arg4] phase %arg5 : <2>
          sched.release %14[%arg4] : <2>
          %98 = arith.xori %arg5, %c1_i32 : i32
          %99 = arith.addi %arg4, %c1_i32 : i32
          %100 = arith.cmpi eq, %99, %c2_i32 : i32
          %101 = arith.select %100, %c0_i32, %99 {tile.name = "next_stage"} : i32
          %102 = arith.select %100, %98, %arg5 {tile.name = "next_phase"} : i32
          sched.next %96, %101, %102 : i32, i32, i32
        } {tile.names = ["tile", "stage", "phase"]}
        %59:3 = sched.for_tiles (%arg3, %arg4, %arg5) = (%58#0, %58#1, %58#2) below %46 keeps {
          %95 = arith.muli %arg3, %c16_i32 {tile.name = "k0"} : i32
          sched.wait %12[%arg4] phase %arg5 : <2>
          %96 = sched.registers "s" : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
          sched.mma_fence
          %97 = arith.muli %22, %c64_i32 overflow<nsw> {tile.name = "warpgroup_row"} : i32
          sched.mma_async %96, %8[%38, %97, %c0_i32], %11[%arg4, %c0_i32, %c0_i32] accumulate %false : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          sched.mma_commit
          %98:2 = sched.receive from %17[%arg4] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
          %99 = sched.uniform %98#0 {tile.name = "next_tile"} : i32
          %100 = sched.uniform %98#1 {tile.name = "partial"} : i32
          %101 = arith.cmpi ne, %100, %c0_i32 {tile.name = "partial"} : i32
          %102 = arith.addi %95, %c16_i32 : i32
          %103 = arith.cmpi sgt, %102, %44 : i32
          %104 = arith.subi %44, %95 overflow<nsw> : i32
          %105 = arith.minsi %104, %c16_i32 : i32
          %106 = arith.maxsi %105, %c0_i32 : i32
          sched.mma_wait pending 0 completes(%96) : !tile.tile<q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
          scf.if %103 {
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %116 = arith.subi %106, %35 overflow<nsw> : i32
              %117 = sched.columns_below %116 {tile.name = "columns"}
              scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %arg8 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %118 = arith.muli %arg6, %c2_i32 overflow<nsw> : i32
                  %119 = arith.addi %118, %arg8 overflow<nsw> : i32
                  %120 = sched.get %96[%c0_i32, %arg7, %119] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %121 = arith.muli %arg7, %c2_i32 overflow<nsw> : i32
                  %122 = arith.addi %121, %arg8 overflow<nsw> : i32
                  %123 = sched.test_bit %117[%122]
                  %124 = arith.select %123, %120, %cst_1 : f32
                  sched.set %124, %96[%c0_i32, %arg7, %119] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "j"}
            } {sched.unroll, tile.name = "r"}
          }
          scf.if %101 {
            %116 = sched.registers "ids_pair" : <k 8, i32, register, #sched.fragment<columns, warps 8>>
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %117 = arith.muli %arg6, %c8_i32 overflow<nsw> : i32
              %118 = arith.addi %35, %117 overflow<nsw> : i32
              %first, %second = sched.load_pair %15[%arg4, %c0_i32, %118] : <stage 2 x k 16, i32, shared> -> i32, i32
              sched.set %first, %116[%c0_i32, %c0_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
              sched.set %second, %116[%c0_i32, %c1_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
              scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %arg8 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %119 = arith.muli %arg8, %c2_i32 overflow<nsw> : i32
                  %120 = arith.addi %119, %arg7 overflow<nsw> : i32
                  %121 = sched.get %96[%c0_i32, %arg6, %120] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %122 = sched.get %56[%c0_i32, %arg8] : <q 128, i32, register, #sched.fragment<rows, warps 8>> -> i32
                  %123 = sched.get %116[%c0_i32, %arg7] : <k 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
                  %124 = arith.cmpi eq, %122, %123 : i32
                  %125 = arith.select %124, %121, %cst_1 : f32
                  sched.set %125, %96[%c0_i32, %arg6, %120] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                } {sched.unroll, tile.name = "r"}
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          }
          sched.release %12[%arg4] by_lanes : <2>
          %107 = sched.registers "m_next" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %52[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            sched.set %116, %107[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %122 = arith.muli %arg6, %c2_i32 overflow<nsw> : i32
              %123 = sched.get %96[%c0_i32, %arg7, %122] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %124 = arith.addi %122, %c1_i32 overflow<nsw> : i32
              %125 = sched.get %96[%c0_i32, %arg7, %124] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %126 = sched.get %107[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %127 = arith.maxnumf %123, %125 : f32
              %128 = arith.maxnumf %126, %127 : f32
              sched.set %128, %107[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "j"}
            %117 = sched.get %107[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %118 = sched.shuffle_xor %117, 1 : f32
            %119 = arith.maxnumf %117, %118 : f32
            %120 = sched.shuffle_xor %119, 2 : f32
            %121 = arith.maxnumf %119, %120 : f32
            sched.set %121, %107[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          %108 = sched.registers "m_base" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %107[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %117 = arith.cmpf oeq, %116, %cst_1 : f32
            %118 = arith.select %117, %cst_2, %116 : f32
            sched.set %118, %108[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %52[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %117 = sched.get %108[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %118 = arith.subf %116, %117 : f32
            %119 = arith.mulf %118, %cst_5 : f32
            %120 = math.exp2 %119 : f32
            sched.set %120, %52[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %53[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %117 = sched.get %52[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %118 = arith.mulf %116, %117 : f32
            sched.set %118, %53[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          %109 = sched.registers "p" : <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg8 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %116 = arith.muli %arg7, %c2_i32 overflow<nsw> : i32
                %117 = arith.addi %116, %arg8 overflow<nsw> : i32
                %118 = sched.get %96[%c0_i32, %arg6, %117] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %119 = sched.get %108[%c0_i32, %arg7] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %120 = arith.subf %118, %119 : f32
                %121 = arith.mulf %120, %cst_5 : f32
                %122 = math.exp2 %121 : f32
                sched.set %122, %96[%c0_i32, %arg6, %117] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                %123 = sched.get %53[%c0_i32, %arg7] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %124 = arith.addf %123, %122 : f32
                sched.set %124, %53[%c0_i32, %arg7] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "r"}
          } {sched.unroll, tile.name = "half"}
          scf.for %arg6 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
            %116 = arith.remui %arg6, %c2_i32 : i32
            %117 = arith.divui %arg6, %c2_i32 : i32
            %118 = arith.muli %116, %c2_i32 overflow<nsw> : i32
            %119 = sched.get %96[%c0_i32, %117, %118] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
            %120 = arith.addi %118, %c1_i32 overflow<nsw> : i32
            %121 = sched.get %96[%c0_i32, %117, %120] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
            %122 = sched.pack %119, %121 : f16
            sched.set %122, %109[%c0_i32, %c0_i32, %arg6] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          } {sched.unroll, tile.name = "e"}
          %110 = arith.xori %arg5, %c1_i32 : i32
          %111 = arith.addi %arg4, %c1_i32 : i32
          %112 = arith.cmpi eq, %111, %c2_i32 : i32
          %113 = arith.select %112, %c0_i32, %111 {tile.name = "next_stage"} : i32
          %114 = arith.select %112, %110, %arg5 {tile.name = "next_phase"} : i32
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %107[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %117 = arith.maxnumf %116, %cst_0 : f32
            sched.set %117, %107[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          %115:5 = sched.for_tiles (%arg6, %arg7, %arg8, %arg9, %arg10) = (%99, %113, %114, %arg4, %arg5) below %46 keeps {
            %116 = arith.muli %arg6, %c16_i32 {tile.name = "k0"} : i32
            sched.wait %12[%arg7] phase %arg8 : <2>
            sched.sync_warps %23 threads 256
            %117 = sched.registers "s" : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            sched.mma_fence
            sched.mma_async %117, %8[%38, %97, %c0_i32], %11[%arg7, %c0_i32, %c0_i32] accumulate %false : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
            sched.mma_commit
            sched.wait %14[%arg9] phase %arg10 : <2>
            sched.mma_fence
            sched.mma_async %54, %109[%c0_i32, %c0_i32], %13[%arg9, %c0_i32, %c0_i32] accumulate %true transpose : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
            sched.mma_commit
            sched.arrive_warps %26 threads 256
            %118:2 = sched.receive from %17[%arg7] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
            %119 = sched.uniform %118#0 {tile.name = "next_tile"} : i32
            %120 = sched.uniform %118#1 {tile.name = "partial"} : i32
            %121 = arith.cmpi ne, %120, %c0_i32 {tile.name = "partial"} : i32
            %122 = arith.addi %116, %c16_i32 : i32
            %123 = arith.cmpi sgt, %122, %44 : i32
            %124 = arith.subi %44, %116 overflow<nsw> : i32
            %125 = arith.minsi %124, %c16_i32 : i32
            %126 = arith.maxsi %125, %c0_i32 : i32
            sched.mma_wait pending 1 completes(%117) : !tile.tile<q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            scf.if %123 {
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %141 = arith.subi %126, %35 overflow<nsw> : i32
                %142 = sched.columns_below %141 {tile.name = "columns"}
                scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %arg13 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %143 = arith.muli %arg11, %c2_i32 overflow<nsw> : i32
                    %144 = arith.addi %143, %arg13 overflow<nsw> : i32
                    %145 = sched.get %117[%c0_i32, %arg12, %144] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %146 = arith.muli %arg12, %c2_i32 overflow<nsw> : i32
                    %147 = arith.addi %146, %arg13 overflow<nsw> : i32
                    %148 = sched.test_bit %142[%147]
                    %149 = arith.select %148, %145, %cst_1 : f32
                    sched.set %149, %117[%c0_i32, %arg12, %144] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "j"}
              } {sched.unroll, tile.name = "r"}
            }
            scf.if %121 {
              %141 = sched.registers "ids_pair" : <k 8, i32, register, #sched.fragment<columns, warps 8>>
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %142 = arith.muli %arg11, %c8_i32 overflow<nsw> : i32
                %143 = arith.addi %35, %142 overflow<nsw> : i32
                %first, %second = sched.load_pair %15[%arg7, %c0_i32, %143] : <stage 2 x k 16, i32, shared> -> i32, i32
                sched.set %first, %141[%c0_i32, %c0_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
                sched.set %second, %141[%c0_i32, %c1_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
                scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %arg13 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %144 = arith.muli %arg13, %c2_i32 overflow<nsw> : i32
                    %145 = arith.addi %144, %arg12 overflow<nsw> : i32
                    %146 = sched.get %117[%c0_i32, %arg11, %145] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %147 = sched.get %56[%c0_i32, %arg13] : <q 128, i32, register, #sched.fragment<rows, warps 8>> -> i32
                    %148 = sched.get %141[%c0_i32, %arg12] : <k 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
                    %149 = arith.cmpi eq, %147, %148 : i32
                    %150 = arith.select %149, %146, %cst_1 : f32
                    sched.set %150, %117[%c0_i32, %arg11, %145] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "r"}
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "j"}
            }
            sched.release %12[%arg7] by_lanes : <2>
            sched.mma_wait pending 0 completes(%54, %109) : !tile.tile<q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
            sched.release %14[%arg9] : <2>
            %127 = arith.xori %arg8, %c1_i32 : i32
            %128 = arith.addi %arg7, %c1_i32 : i32
            %129 = arith.cmpi eq, %128, %c2_i32 : i32
            %130 = arith.select %129, %c0_i32, %128 {tile.name = "next_stage"} : i32
            %131 = arith.select %129, %127, %arg8 {tile.name = "next_phase"} : i32
            %132 = sched.registers "p" : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            %133 = sched.registers "sum" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              sched.set %cst_2, %133[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %arg13 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %141 = arith.muli %arg12, %c2_i32 overflow<nsw> : i32
                  %142 = arith.addi %141, %arg13 overflow<nsw> : i32
                  %143 = sched.get %117[%c0_i32, %arg11, %142] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %144 = sched.get %107[%c0_i32, %arg12] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %145 = arith.subf %143, %144 : f32
                  %146 = arith.mulf %145, %cst_5 : f32
                  %147 = math.exp2 %146 : f32
                  sched.set %147, %132[%c0_i32, %arg11, %142] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  %148 = sched.get %133[%c0_i32, %arg12] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %149 = arith.addf %148, %147 : f32
                  sched.set %149, %133[%c0_i32, %arg12] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "r"}
            } {sched.unroll, tile.name = "half"}
            scf.for %arg11 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
              %141 = arith.remui %arg11, %c2_i32 : i32
              %142 = arith.divui %arg11, %c2_i32 : i32
              %143 = arith.muli %141, %c2_i32 overflow<nsw> : i32
              %144 = sched.get %132[%c0_i32, %142, %143] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %145 = arith.addi %143, %c1_i32 overflow<nsw> : i32
              %146 = sched.get %132[%c0_i32, %142, %145] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %147 = sched.pack %144, %146 : f16
              sched.set %147, %109[%c0_i32, %c0_i32, %arg11] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
            } {sched.unroll, tile.name = "e"}
            %134 = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %141 = sched.get %53[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %142 = sched.get %133[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %143 = arith.addf %141, %142 : f32
              sched.set %143, %134[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            %135 = sched.get %133[%c0_i32, %c0_i32] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %136 = arith.cmpf uge, %135, %cst : f32
            %137 = sched.get %133[%c0_i32, %c1_i32] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %138 = arith.cmpf uge, %137, %cst : f32
            %139 = arith.ori %136, %138 : i1
            %140 = sched.any_lane %139 {tile.name = "moves"}
            scf.if %140 {
              %141 = sched.registers "m_next" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %145 = sched.get %107[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %145, %141[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %151 = arith.muli %arg11, %c2_i32 overflow<nsw> : i32
                  %152 = sched.get %117[%c0_i32, %arg12, %151] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %153 = arith.addi %151, %c1_i32 overflow<nsw> : i32
                  %154 = sched.get %117[%c0_i32, %arg12, %153] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %155 = sched.get %141[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %156 = arith.maxnumf %152, %154 : f32
                  %157 = arith.maxnumf %155, %156 : f32
                  sched.set %157, %141[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                } {sched.unroll, tile.name = "j"}
                %146 = sched.get %141[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %147 = sched.shuffle_xor %146, 1 : f32
                %148 = arith.maxnumf %146, %147 : f32
                %149 = sched.shuffle_xor %148, 2 : f32
                %150 = arith.maxnumf %148, %149 : f32
                sched.set %150, %141[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              %142 = sched.registers "alpha" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %145 = sched.get %107[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %146 = sched.get %141[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %147 = arith.subf %145, %146 : f32
                %148 = arith.mulf %147, %cst_5 : f32
                %149 = math.exp2 %148 : f32
                sched.set %149, %142[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              %143 = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %145 = sched.get %53[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %146 = sched.get %142[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %147 = arith.mulf %145, %146 : f32
                sched.set %147, %143[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %arg13 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %145 = arith.muli %arg11, %c2_i32 overflow<nsw> : i32
                    %146 = arith.addi %145, %arg13 overflow<nsw> : i32
                    %147 = sched.get %54[%c0_i32, %arg12, %146] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %148 = sched.get %142[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %149 = arith.mulf %147, %148 : f32
                    sched.set %149, %54[%c0_i32, %arg12, %146] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "j"}
              } {sched.unroll, tile.name = "r"}
              %144 = sched.registers "p" : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %arg12 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %arg13 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %145 = arith.muli %arg12, %c2_i32 overflow<nsw> : i32
                    %146 = arith.addi %145, %arg13 overflow<nsw> : i32
                    %147 = sched.get %117[%c0_i32, %arg11, %146] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %148 = sched.get %141[%c0_i32, %arg12] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %149 = arith.subf %147, %148 : f32
                    %150 = arith.mulf %149, %cst_5 : f32
                    %151 = math.exp2 %150 : f32
                    sched.set %151, %144[%c0_i32, %arg11, %146] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                    %152 = sched.get %143[%c0_i32, %arg12] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %153 = arith.addf %152, %151 : f32
                    sched.set %153, %143[%c0_i32, %arg12] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "r"}
              } {sched.unroll, tile.name = "half"}
              scf.for %arg11 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
                %145 = arith.remui %arg11, %c2_i32 : i32
                %146 = arith.divui %arg11, %c2_i32 : i32
                %147 = arith.muli %145, %c2_i32 overflow<nsw> : i32
                %148 = sched.get %144[%c0_i32, %146, %147] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %149 = arith.addi %147, %c1_i32 overflow<nsw> : i32
                %150 = sched.get %144[%c0_i32, %146, %149] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %151 = sched.pack %148, %150 : f16
                sched.set %151, %109[%c0_i32, %c0_i32, %arg11] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
              } {sched.unroll, tile.name = "e"}
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %145 = sched.get %141[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %145, %107[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %145 = sched.get %143[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %145, %134[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
            }
            scf.for %arg11 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %141 = sched.get %134[%c0_i32, %arg11] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              sched.set %141, %53[%c0_i32, %arg11] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            sched.next %119, %130, %131, %arg7, %arg8 : i32, i32, i32, i32, i32
          } {tile.names = ["tile", "stage", "phase", "v_stage", "v_phase"]}
          sched.wait %14[%115#3] phase %115#4 : <2>
          sched.mma_fence
          sched.mma_async %54, %109[%c0_i32, %c0_i32], %13[%115#3, %c0_i32, %c0_i32] accumulate %true transpose : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
          sched.mma_commit
          sched.mma_wait pending 0 completes(%54, %109) : !tile.tile<q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          sched.release %14[%115#3] : <2>
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %116 = sched.get %107[%c0_i32, %arg6] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            sched.set %116, %52[%c0_i32, %arg6] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          sched.next %46, %115#1, %115#2 : i32, i32, i32
        } {tile.names = ["first_tile", "first_stage", "first_phase"]}
        %60:7 = sched.receive from %16[%38] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32, i32, i32
        %61 = sched.uniform %60#0 {tile.name = "b"} : i32
        %62 = sched.uniform %60#1 {tile.name = "h"} : i32
        %63 = sched.read_thread_id {tile.name = "thread"} : i32
        %64 = arith.remui %63, %c32_i32 {tile.name = "lane"} : i32
        %65 = arith.remui %64, %c4_i32 {tile.name = "quad_lane"} : i32
        %66 = arith.divui %63, %c32_i32 {tile.name = "warp"} : i32
        %67 = arith.muli %66, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
        %68 = arith.divui %64, %c4_i32 {tile.name = "lane_row"} : i32
        %69 = sched.uniform %60#2 {tile.name = "q0"} : i32
        sched.release %10[%38] : <2>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %95 = sched.get %53[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %96 = sched.shuffle_xor %95, 1 : f32
          %97 = arith.addf %95, %96 : f32
          %98 = sched.shuffle_xor %97, 2 : f32
          %99 = arith.addf %97, %98 : f32
          sched.set %99, %53[%c0_i32, %arg3] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %70 = sched.registers "inverse_l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %95 = sched.get %53[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %96 = arith.cmpf oeq, %95, %cst_2 : f32
          %97 = arith.divf %cst_4, %95 : f32
          %98 = arith.select %96, %cst_2, %97 : f32
          sched.set %98, %70[%c0_i32, %arg3] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %95 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
              %96 = arith.addi %95, %arg5 overflow<nsw> : i32
              %97 = sched.get %54[%c0_i32, %arg4, %96] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %98 = sched.get %70[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %99 = arith.mulf %97, %98 : f32
              sched.set %99, %54[%c0_i32, %arg4, %96] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %95 = sched.get %52[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %96 = sched.get %53[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %97 = arith.mulf %95, %cst_3 : f32
          %98 = arith.cmpf oeq, %96, %cst_2 : f32
          %99 = math.log %96 : f32
          %100 = arith.addf %97, %99 : f32
          %101 = arith.select %98, %cst_1, %100 : f32
          sched.set %101, %52[%c0_i32, %arg3] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %71 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
        %72 = sched.is_null %71 : <3, f32>
        %73 = arith.xori %72, %true : i1
        %74 = sched.slice %71[%61, %62] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
        scf.if %73 {
          %95 = arith.cmpi eq, %65, %c0_i32 : i32
          scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %96 = arith.addi %67, %68 overflow<nsw> : i32
            %97 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
            %98 = arith.addi %96, %97 overflow<nsw> : i32
            %99 = arith.addi %69, %98 overflow<nsw> {tile.name = "row"} : i32
            %100 = arith.cmpi slt, %99, %43 : i32
            %101 = arith.andi %95, %100 : i1
            scf.if %101 {
              %102 = sched.get %52[%c0_i32, %arg3] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              sched.store_element %102, %74[%99] : f32, <1, f32>
            }
          } {sched.unroll, tile.name = "r"}
        }
        %75 = arith.remui %63, %c128_i32 : i32
        %76 = arith.cmpi eq, %75, %c0_i32 : i32
        scf.if %76 {
          sched.wait_boxes pending 0
        }
        sched.sync_warps %24 threads 128
        %77 = arith.divui %64, %c16_i32 : i32
        %78 = arith.remui %64, %c16_i32 : i32
        %79 = sched.get %54[%c0_i32, %c0_i32, %c0_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %80 = sched.get %54[%c0_i32, %c0_i32, %c1_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %81 = sched.pack %79, %80 : f16
        %82 = sched.get %54[%c0_i32, %c0_i32, %c2_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %83 = sched.get %54[%c0_i32, %c0_i32, %c3_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %84 = sched.pack %82, %83 : f16
        %85 = sched.get %54[%c0_i32, %c1_i32, %c0_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %86 = sched.get %54[%c0_i32, %c1_i32, %c1_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %87 = sched.pack %85, %86 : f16
        %88 = sched.get %54[%c0_i32, %c1_i32, %c2_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %89 = sched.get %54[%c0_i32, %c1_i32, %c3_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %90 = sched.pack %88, %89 : f16
        %91 = arith.addi %67, %78 overflow<nsw> : i32
        %92 = arith.muli %77, %c8_i32 overflow<nsw> : i32
        sched.store_matrix %81, %84, %87, %90 to %9[%c0_i32, %91, %92] : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>
        sched.fence_async
        sched.sync_warps %24 threads 128
        scf.if %76 {
          %95 = arith.muli %22, %c64_i32 overflow<nsw> {tile.name = "warpgroup_row"} : i32
          %96 = arith.addi %69, %95 overflow<nsw> : i32
          sched.store_box %9[%c0_i32, %95] to %1[%61, %62, %96, %c0_i32] : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>, <64 x 16, f16>
          sched.commit_boxes
        }
        %93 = sched.uniform %59#1 : i32
        %94 = sched.uniform %59#2 : i32
        sched.next %60#3, %93, %94 : i32, i32, i32
      } {tile.names = ["count", "first_stage", "first_phase"]}
      %28 = arith.remui %20, %c128_i32 : i32
      %29 = arith.cmpi eq, %28, %c0_i32 : i32
      scf.if %29 {
        sched.wait_boxes pending 0
      }
    }
  }
}
