#variant = #attn.variant<{
  "name": "causal",
  "mask": "q >= k",
  "dropout": 0.1
}>
module attributes {attn.variant = #variant} {
  sched.kernel @causal(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 3 shared_bytes 4096 dtype f16 plan <q 64 x k 16, warps = 4, blocks_per_sm = 3> attributes {dropout, sched.longest_first} {
    %c3_i32 = arith.constant 3 : i32
    %c32_i64 = arith.constant 32 : i64
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %true = arith.constant true
    %c8_i32 = arith.constant 8 : i32
    %c15_i32 = arith.constant 15 : i32
    %c0_i32 = arith.constant 0 : i32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    %c1_i32 = arith.constant 1 : i32
    %c64_i32 = arith.constant 64 : i32
    sched.for_work grid (%number) {
      %q_extent = tile.axis_extent "q" : i32
      %q_tiles = arith.ceildivui %q_extent, %c64_i32 {tile.name = "q_tiles"} : i32
      %head = arith.divui %number, %q_tiles {tile.name = "head"} : i32
      %0 = arith.remui %number, %q_tiles : i32
      %last_tile = arith.subi %q_tiles, %c1_i32 {tile.name = "last_tile"} : i32
      %1 = arith.subi %last_tile, %0 : i32
      %h_extent = tile.axis_extent "h" : i32
      %2 = arith.remui %head, %h_extent : i32
      %3 = arith.divui %head, %h_extent : i32
      %b = sched.nonnegative %3 {tile.name = "b"} : i32
      %h = sched.nonnegative %2 {tile.name = "h"} : i32
      %q_index = sched.nonnegative %1 {tile.name = "q_index"} : i32
      %q0 = arith.muli %q_index, %c64_i32 overflow<nsw> {tile.name = "q0"} : i32
      %thread = sched.thread_id {tile.name = "thread"} : i32
      %lane = arith.remui %thread, %c32_i32 {tile.name = "lane"} : i32
      %warp = arith.divui %thread, %c32_i32 {tile.name = "warp"} : i32
      %lane_row = arith.divui %lane, %c4_i32 {tile.name = "lane_row"} : i32
      %quad_lane = arith.remui %lane, %c4_i32 {tile.name = "quad_lane"} : i32
      %warp_row = arith.muli %warp, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %Sq = tile.axis_extent "q" {tile.name = "Sq"} : i32
      %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
      %H = tile.axis_extent "h" {tile.name = "H"} : i32
      %group = tile.param "group" {tile.name = "group"} : i32
      %kv_head = arith.divsi %h, %group {tile.name = "kv_head"} : i32
      %Q = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
      %K = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
      %V = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
      %4 = arith.addi %q0, %c64_i32 : i32
      %q_end = arith.minsi %4, %Sq {tile.name = "q_end"} : i32
      %5 = arith.minsi %q_end, %Sk : i32
      %6 = arith.addi %5, %c15_i32 : i32
      %tiles_end = arith.divsi %6, %c16_i32 {tile.name = "tiles_end"} : i32
      %7 = arith.addi %q0, %c1_i32 : i32
      %full_to = arith.minsi %7, %Sk {tile.name = "full_to"} : i32
      %m = sched.registers "m" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %neg_inf, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %l = sched.registers "l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %c0_f32, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %acc = sched.registers "acc" : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %26 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %27 = arith.addi %26, %e overflow<nsw> : i32
            sched.set %c0_f32, %acc[%c0_i32, %j, %27] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %8 = arith.muli %b, %H : i32
      %head_0 = arith.addi %8, %h {tile.name = "head"} : i32
      %seed = tile.param "seed" {tile.name = "seed"} : i64
      %offset = tile.param "offset" {tile.name = "offset"} : i64
      %drop_threshold = tile.param "drop_threshold" {tile.name = "drop_threshold"} : i32
      %k_tile = sched.shared "k_tile" at 0 : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %v_tile = sched.shared "v_tile" at 1024 : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %q_tile = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %q_head = sched.slice %Q[%b, %h] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %9 = arith.divui %thread, %c2_i32 : i32
      %10 = arith.remui %thread, %c2_i32 : i32
      %column = arith.muli %10, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %11 = arith.addi %q0, %9 overflow<nsw> : i32
      %12 = arith.cmpi slt, %11, %Sq : i32
      sched.copy_async %q_head[%11, %column] to %q_tile[%c0_i32, %9] if %12 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %13 = arith.cmpi sgt, %tiles_end, %c0_i32 : i32
      %k_head = sched.slice %K[%b, %kv_head] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %13 {
        %26 = arith.cmpi slt, %9, %c16_i32 : i32
        scf.if %26 {
          %27 = arith.cmpi slt, %9, %Sk : i32
          sched.copy_async %k_head[%9, %column] to %k_tile[%c0_i32, %9] if %27 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %q_tile_fragment = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %14 = arith.remui %lane, %c16_i32 : i32
      %15 = arith.addi %warp_row, %14 overflow<nsw> : i32
      %16 = arith.divui %lane, %c16_i32 : i32
      %17 = arith.muli %16, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %q_tile[%c0_i32, %15, %17] step[%c0_i32, %c0_i32] to %q_tile_fragment[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %v_head = sched.slice %V[%b, %kv_head] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      sched.for_tiles (%tile) = (%c0_i32) below %tiles_end {
        %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        sched.wait_copies pending 0
        sched.barrier
        %26 = arith.cmpi slt, %9, %c16_i32 : i32
        scf.if %26 {
          %thread_21 = sched.read_thread_id {tile.name = "thread"} : i32
          %70 = arith.divui %thread_21, %c2_i32 : i32
          %71 = arith.remui %thread_21, %c2_i32 : i32
          %column_22 = arith.muli %71, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %72 = arith.addi %k0, %70 overflow<nsw> : i32
          %73 = arith.cmpi slt, %72, %Sk : i32
          sched.copy_async %v_head[%72, %column_22] to %v_tile[%c0_i32, %70] if %73 : <2, f16>, <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
        sched.commit_copies
        %s = sched.registers "s" {tile.comment = "S = Q K^T"} : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %70 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %71 = arith.addi %70, %e overflow<nsw> : i32
              sched.set %c0_f32, %s[%c0_i32, %j, %71] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %k_fragment = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %27 = arith.remui %lane, %c8_i32 : i32
        %28 = arith.divui %lane, %c8_i32 : i32
        %29 = arith.remui %28, %c2_i32 : i32
        %30 = arith.addi %17, %27 overflow<nsw> : i32
        %31 = arith.muli %29, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %k_tile[%c0_i32, %30, %31] step[%c0_i32, %c0_i32] to %k_fragment[%c0_i32, %c0_i32] : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %s[%c0_i32, %n], %q_tile_fragment[%c0_i32, %c0_i32], %k_fragment[%n, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        sched.wait_copies pending 0
        sched.barrier
        %32 = arith.cmpi slt, %next_tile, %tiles_end : i32
        scf.if %32 {
          %thread_21 = sched.read_thread_id {tile.name = "thread"} : i32
          %70 = arith.divui %thread_21, %c2_i32 : i32
          %71 = arith.remui %thread_21, %c2_i32 : i32
          %column_22 = arith.muli %71, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %72 = arith.cmpi slt, %70, %c16_i32 : i32
          %k0_23 = arith.muli %next_tile, %c16_i32 {tile.name = "k0"} : i32
          scf.if %72 {
            %73 = arith.addi %k0_23, %70 overflow<nsw> : i32
            %74 = arith.cmpi slt, %73, %Sk : i32
            sched.copy_async %k_head[%73, %column_22] to %k_tile[%c0_i32, %70] if %74 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %33 = arith.addi %k0, %c16_i32 : i32
        %34 = arith.cmpi sgt, %33, %full_to : i32
        scf.if %34 {
          %thread_21 = sched.read_thread_id {tile.name = "thread"} : i32
          %warp_22 = arith.divui %thread_21, %c32_i32 {tile.name = "warp"} : i32
          %warp_row_23 = arith.muli %warp_22, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
          %lane_24 = arith.remui %thread_21, %c32_i32 {tile.name = "lane"} : i32
          %lane_row_25 = arith.divui %lane_24, %c4_i32 {tile.name = "lane_row"} : i32
          %quad_lane_26 = arith.remui %lane_24, %c4_i32 {tile.name = "quad_lane"} : i32
          %lane_column_27 = arith.muli %quad_lane_26, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %70 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %71 = arith.addi %70, %e overflow<nsw> : i32
                %s_qk_28 = sched.get %s[%c0_i32, %j, %71] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %72 = arith.addi %warp_row_23, %lane_row_25 overflow<nsw> : i32
                %73 = arith.muli %r, %c8_i32 overflow<nsw> : i32
                %74 = arith.addi %72, %73 overflow<nsw> : i32
                %q = arith.addi %q0, %74 overflow<nsw> {tile.name = "q"} : i32
                %75 = arith.addi %q, %c1_i32 : i32
                %row_end = arith.minsi %75, %Sk {tile.name = "row_end"} : i32
                %76 = arith.subi %row_end, %k0 overflow<nsw> : i32
                %77 = arith.minsi %76, %c16_i32 : i32
                %78 = arith.maxsi %77, %c0_i32 : i32
                %79 = arith.muli %j, %c8_i32 overflow<nsw> : i32
                %80 = arith.addi %79, %e overflow<nsw> : i32
                %81 = arith.subi %78, %lane_column_27 overflow<nsw> : i32
                %82 = arith.cmpi slt, %80, %81 : i32
                %83 = arith.select %82, %s_qk_28, %neg_inf : f32
                sched.set %83, %s[%c0_i32, %j, %71] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %m_next = sched.registers "m_next" {tile.comment = "m_next: the greatest of X along k, and of m"} : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_21 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_q_21, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %74 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %s_qk_22 = sched.get %s[%c0_i32, %j, %74] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %75 = arith.addi %74, %c1_i32 overflow<nsw> : i32
            %s_qk_23 = sched.get %s[%c0_i32, %j, %75] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %m_next_q_24 = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %76 = arith.maxnumf %s_qk_22, %s_qk_23 : f32
            %77 = arith.maxnumf %m_next_q_24, %76 : f32
            sched.set %77, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %70 = sched.shuffle_xor %m_next_q, 1 : f32
          %71 = arith.maxnumf %m_next_q, %70 : f32
          %72 = sched.shuffle_xor %71, 2 : f32
          %73 = arith.maxnumf %71, %72 : f32
          sched.set %73, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_base = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %70 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
          %71 = arith.select %70, %c0_f32, %m_next_q : f32
          sched.set %71, %m_base[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_21 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %70 = arith.subf %m_q_21, %m_base_q : f32
          %71 = arith.mulf %70, %c0.360673755_f32 : f32
          %72 = math.exp2 %71 : f32
          sched.set %72, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "r"}
        %m_q = sched.get %m[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %35 = arith.cmpf une, %m_q, %c1_f32 : f32
        %m_q_13 = sched.get %m[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %36 = arith.cmpf une, %m_q_13, %c1_f32 : f32
        %37 = arith.ori %35, %36 : i1
        %max_moved = sched.any_lane %37 {tile.name = "max_moved"}
        scf.if %max_moved {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %70 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %71 = arith.addi %70, %e overflow<nsw> : i32
                %acc_qdv = sched.get %acc[%c0_i32, %j, %71] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %m_q_21 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %72 = arith.mulf %acc_qdv, %m_q_21 : f32
                sched.set %72, %acc[%c0_i32, %j, %71] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_q_21 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %70 = arith.mulf %l_q, %m_q_21 : f32
          sched.set %70, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %p = sched.registers "p" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        %key0 = arith.trunci %seed {tile.name = "key0"} : i64 to i32
        %38 = arith.shrui %seed, %c32_i64 : i64
        %39 = arith.trunci %38 : i64 to i32
        %40 = arith.shrui %offset, %c32_i64 : i64
        %41 = arith.trunci %40 : i64 to i32
        %key1 = arith.xori %39, %41 {tile.name = "key1"} : i32
        %offset_low = arith.trunci %offset {tile.name = "offset_low"} : i64 to i32
        %high_threshold = arith.shli %drop_threshold, %c16_i32 {tile.name = "high_threshold"} : i32
        %42 = arith.addi %q0, %warp_row overflow<nsw> : i32
        %43 = arith.divui %42, %c16_i32 : i32
        %44 = arith.divui %k0, %c16_i32 : i32
        scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %70 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %71 = arith.addi %70, %e overflow<nsw> : i32
              %s_qk_21 = sched.get %s[%c0_i32, %half, %71] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %72 = arith.subf %s_qk_21, %m_base_q : f32
              %73 = arith.mulf %72, %c0.360673755_f32 : f32
              %74 = math.exp2 %73 : f32
              sched.set %74, %s[%c0_i32, %half, %71] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %75 = arith.addf %l_q, %74 : f32
              sched.set %75, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        %45 = arith.muli %43, %c8_i32 overflow<nsw> : i32
        %46 = arith.addi %45, %lane_row overflow<nsw> : i32
        %47 = arith.muli %44, %c4_i32 overflow<nsw> : i32
        %48 = arith.addi %47, %quad_lane overflow<nsw> : i32
        %random:4 = sched.philox counter %46, %48, %head_0, %offset_low key %key0, %key1
        %49 = arith.shli %random#0, %c16_i32 : i32
        %50 = arith.cmpi uge, %49, %high_threshold : i32
        %s_qk = sched.get %s[%c0_i32, %c0_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %51 = arith.select %50, %s_qk, %c0_f32 : f32
        sched.set %51, %s[%c0_i32, %c0_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %52 = arith.cmpi uge, %random#0, %high_threshold : i32
        %s_qk_14 = sched.get %s[%c0_i32, %c0_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %53 = arith.select %52, %s_qk_14, %c0_f32 : f32
        sched.set %53, %s[%c0_i32, %c0_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %54 = arith.shli %random#1, %c16_i32 : i32
        %55 = arith.cmpi uge, %54, %high_threshold : i32
        %s_qk_15 = sched.get %s[%c0_i32, %c1_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %56 = arith.select %55, %s_qk_15, %c0_f32 : f32
        sched.set %56, %s[%c0_i32, %c1_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %57 = arith.cmpi uge, %random#1, %high_threshold : i32
        %s_qk_16 = sched.get %s[%c0_i32, %c1_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %58 = arith.select %57, %s_qk_16, %c0_f32 : f32
        sched.set %58, %s[%c0_i32, %c1_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %59 = arith.shli %random#2, %c16_i32 : i32
        %60 = arith.cmpi uge, %59, %high_threshold : i32
        %s_qk_17 = sched.get %s[%c0_i32, %c0_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %61 = arith.select %60, %s_qk_17, %c0_f32 : f32
        sched.set %61, %s[%c0_i32, %c0_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %62 = arith.cmpi uge, %random#2, %high_threshold : i32
        %s_qk_18 = sched.get %s[%c0_i32, %c0_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %63 = arith.select %62, %s_qk_18, %c0_f32 : f32
        sched.set %63, %s[%c0_i32, %c0_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %64 = arith.shli %random#3, %c16_i32 : i32
        %65 = arith.cmpi uge, %64, %high_threshold : i32
        %s_qk_19 = sched.get %s[%c0_i32, %c1_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %66 = arith.select %65, %s_qk_19, %c0_f32 : f32
        sched.set %66, %s[%c0_i32, %c1_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %67 = arith.cmpi uge, %random#3, %high_threshold : i32
        %s_qk_20 = sched.get %s[%c0_i32, %c1_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %68 = arith.select %67, %s_qk_20, %c0_f32 : f32
        sched.set %68, %s[%c0_i32, %c1_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %70 = arith.remui %e, %c2_i32 : i32
          %71 = arith.divui %e, %c2_i32 : i32
          %72 = arith.muli %70, %c2_i32 overflow<nsw> : i32
          %s_qk_21 = sched.get %s[%c0_i32, %71, %72] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %73 = arith.addi %72, %c1_i32 overflow<nsw> : i32
          %s_qk_22 = sched.get %s[%c0_i32, %71, %73] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %74 = sched.pack %s_qk_21, %s_qk_22 : f16
          sched.set %74, %p[%c0_i32, %c0_i32, %e] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %v_fragment = sched.registers "v_fragment" {tile.comment = "ACC += P V"} : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %69 = arith.addi %31, %27 overflow<nsw> : i32
        sched.load_matrix %v_tile[%c0_i32, %69, %17] step[%c0_i32, %c0_i32] to %v_fragment[%c0_i32, %c0_i32] transpose : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %acc[%c0_i32, %n], %p[%c0_i32, %c0_i32], %v_fragment[%n, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_next_q, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %next_tile : i32
      }
      %block = sched.read_block_id {tile.name = "block"} : i32
      %head_1 = arith.divui %block, %q_tiles {tile.name = "head"} : i32
      %18 = arith.divui %head_1, %h_extent : i32
      %b_2 = sched.nonnegative %18 {tile.name = "b"} : i32
      %19 = arith.remui %head_1, %h_extent : i32
      %h_3 = sched.nonnegative %19 {tile.name = "h"} : i32
      %thread_4 = sched.read_thread_id {tile.name = "thread"} : i32
      %lane_5 = arith.remui %thread_4, %c32_i32 {tile.name = "lane"} : i32
      %quad_lane_6 = arith.remui %lane_5, %c4_i32 {tile.name = "quad_lane"} : i32
      %warp_7 = arith.divui %thread_4, %c32_i32 {tile.name = "warp"} : i32
      %warp_row_8 = arith.muli %warp_7, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %lane_row_9 = arith.divui %lane_5, %c4_i32 {tile.name = "lane_row"} : i32
      %20 = arith.remui %block, %q_tiles : i32
      %21 = arith.subi %last_tile, %20 : i32
      %q_index_10 = sched.nonnegative %21 {tile.name = "q_index"} : i32
      %q0_11 = arith.muli %q_index_10, %c64_i32 overflow<nsw> {tile.name = "q0"} : i32
      %lane_column = arith.muli %quad_lane_6, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %22 = arith.divui %thread_4, %c2_i32 : i32
      %23 = arith.remui %thread_4, %c2_i32 : i32
      %column_12 = arith.muli %23, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %26 = sched.shuffle_xor %l_q, 1 : f32
        %27 = arith.addf %l_q, %26 : f32
        %28 = sched.shuffle_xor %27, 2 : f32
        %29 = arith.addf %27, %28 : f32
        sched.set %29, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %keep_scale = tile.param "keep_scale" {tile.name = "keep_scale"} : f32
      %inverse_l = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %26 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %27 = arith.divf %keep_scale, %l_q : f32
        %28 = arith.select %26, %c0_f32, %27 : f32
        sched.set %28, %inverse_l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %26 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %27 = arith.addi %26, %e overflow<nsw> : i32
            %acc_qdv = sched.get %acc[%c0_i32, %j, %27] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %inverse_l_q = sched.get %inverse_l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %28 = arith.mulf %acc_qdv, %inverse_l_q : f32
            sched.set %28, %acc[%c0_i32, %j, %27] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %26 = arith.mulf %m_q, %c0.25_f32 : f32
        %27 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %28 = math.log %l_q : f32
        %29 = arith.addf %26, %28 : f32
        %30 = arith.select %27, %neg_inf, %29 : f32
        sched.set %30, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %24 = sched.is_null %LSE : <3, f32>
      %25 = arith.xori %24, %true : i1
      %lse_head = sched.slice %LSE[%b_2, %h_3] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %25 {
        %26 = arith.cmpi eq, %quad_lane_6, %c0_i32 : i32
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %warp_row_8, %lane_row_9 overflow<nsw> : i32
          %28 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %29 = arith.addi %27, %28 overflow<nsw> : i32
          %row = arith.addi %q0_11, %29 overflow<nsw> {tile.name = "row"} : i32
          %30 = arith.cmpi slt, %row, %Sq : i32
          %31 = arith.andi %26, %30 : i1
          scf.if %31 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %m_q, %lse_head[%row] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %o_tile = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %26 = arith.addi %warp_row_8, %lane_row_9 overflow<nsw> : i32
          %27 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %28 = arith.muli %j, %c8_i32 overflow<nsw> : i32
          %29 = arith.muli %r, %c2_i32 overflow<nsw> : i32
          %acc_qdv = sched.get %acc[%c0_i32, %j, %29] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %30 = arith.addi %29, %c1_i32 overflow<nsw> : i32
          %acc_qdv_13 = sched.get %acc[%c0_i32, %j, %30] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %31 = sched.pack %acc_qdv, %acc_qdv_13 : f16
          sched.store_shared %31, %o_tile[%c0_i32, %26, %lane_column] step[%27, %28] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %o_head = sched.slice %O[%b_2, %h_3] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %12 {
        sched.copy_to_global %o_tile[%22, %column_12] to %o_head[%11] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
