#variant = #attn.variant<{
  "name": "plain"
}>
module attributes {attn.variant = #variant} {
  sched.kernel @plain(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 5 shared_bytes 4096 dtype f16 plan <q 64 x k 16, warps = 4, blocks_per_sm = 5> {
    %true = arith.constant true
    %c8_i32 = arith.constant 8 : i32
    %c1_i32 = arith.constant 1 : i32
    %c15_i32 = arith.constant 15 : i32
    %c0_i32 = arith.constant 0 : i32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    %c64_i32 = arith.constant 64 : i32
    sched.for_work grid (%number) {
      %q_extent = tile.axis_extent "q" : i32
      %q_tiles = arith.ceildivui %q_extent, %c64_i32 {tile.name = "q_tiles"} : i32
      %head = arith.divui %number, %q_tiles {tile.name = "head"} : i32
      %0 = arith.remui %number, %q_tiles : i32
      %h_extent = tile.axis_extent "h" : i32
      %1 = arith.remui %head, %h_extent : i32
      %2 = arith.divui %head, %h_extent : i32
      %b = sched.nonnegative %2 {tile.name = "b"} : i32
      %h = sched.nonnegative %1 {tile.name = "h"} : i32
      %q_index = sched.nonnegative %0 {tile.name = "q_index"} : i32
      %q0 = arith.muli %q_index, %c64_i32 overflow<nsw> {tile.name = "q0"} : i32
      %thread = sched.thread_id {tile.name = "thread"} : i32
      %lane = arith.remui %thread, %c32_i32 {tile.name = "lane"} : i32
      %warp = arith.divui %thread, %c32_i32 {tile.name = "warp"} : i32
      %warp_row = arith.muli %warp, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %Sq = tile.axis_extent "q" {tile.name = "Sq"} : i32
      %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
      %group = tile.param "group" {tile.name = "group"} : i32
      %kv_head = arith.divsi %h, %group {tile.name = "kv_head"} : i32
      %Q = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
      %K = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
      %V = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
      %3 = arith.addi %Sk, %c15_i32 : i32
      %tiles_end = arith.divsi %3, %c16_i32 {tile.name = "tiles_end"} : i32
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
            %20 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %21 = arith.addi %20, %e overflow<nsw> : i32
            sched.set %c0_f32, %acc[%c0_i32, %j, %21] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %k_ring = sched.shared "k_ring" at 0 : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %v_ring = sched.shared "v_ring" at 1024 : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %q_tile = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %q_head = sched.slice %Q[%b, %h] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %4 = arith.divui %thread, %c2_i32 : i32
      %5 = arith.remui %thread, %c2_i32 : i32
      %column = arith.muli %5, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %6 = arith.addi %q0, %4 overflow<nsw> : i32
      %7 = arith.cmpi slt, %6, %Sq : i32
      sched.copy_async %q_head[%6, %column] to %q_tile[%c0_i32, %4] if %7 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %8 = arith.cmpi sgt, %tiles_end, %c0_i32 : i32
      %k_head = sched.slice %K[%b, %kv_head] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %8 {
        %20 = arith.cmpi slt, %4, %c16_i32 : i32
        scf.if %20 {
          %21 = arith.cmpi slt, %4, %Sk : i32
          sched.copy_async %k_head[%4, %column] to %k_ring[%c0_i32, %4] if %21 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      %v_head = sched.slice %V[%b, %kv_head] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      scf.if %8 {
        %20 = arith.cmpi slt, %4, %c16_i32 : i32
        scf.if %20 {
          %21 = arith.cmpi slt, %4, %Sk : i32
          sched.copy_async %v_head[%4, %column] to %v_ring[%c0_i32, %4] if %21 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %q_tile_fragment = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %9 = arith.remui %lane, %c16_i32 : i32
      %10 = arith.addi %warp_row, %9 overflow<nsw> : i32
      %11 = arith.divui %lane, %c16_i32 : i32
      %12 = arith.muli %11, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %q_tile[%c0_i32, %10, %12] step[%c0_i32, %c0_i32] to %q_tile_fragment[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      sched.for_tiles (%tile, %slot) = (%c0_i32, %c0_i32) below %tiles_end {
        %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
        %20 = arith.addi %tile, %c1_i32 : i32
        sched.wait_copies pending 0
        sched.barrier
        %21 = arith.addi %slot, %c1_i32 overflow<nsw> : i32
        %free_slot = arith.remui %21, %c2_i32 {tile.name = "free_slot"} : i32
        %22 = arith.cmpi slt, %20, %tiles_end : i32
        scf.if %22 {
          %thread_11 = sched.read_thread_id {tile.name = "thread"} : i32
          %37 = arith.divui %thread_11, %c2_i32 : i32
          %38 = arith.remui %thread_11, %c2_i32 : i32
          %column_12 = arith.muli %38, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %k0_13 = arith.muli %20, %c16_i32 {tile.name = "k0"} : i32
          %39 = arith.cmpi slt, %37, %c16_i32 : i32
          scf.if %39 {
            %40 = arith.addi %k0_13, %37 overflow<nsw> : i32
            %41 = arith.cmpi slt, %40, %Sk : i32
            sched.copy_async %k_head[%40, %column_12] to %k_ring[%free_slot, %37] if %41 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        scf.if %22 {
          %thread_11 = sched.read_thread_id {tile.name = "thread"} : i32
          %37 = arith.divui %thread_11, %c2_i32 : i32
          %38 = arith.remui %thread_11, %c2_i32 : i32
          %column_12 = arith.muli %38, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %k0_13 = arith.muli %20, %c16_i32 {tile.name = "k0"} : i32
          %39 = arith.cmpi slt, %37, %c16_i32 : i32
          scf.if %39 {
            %40 = arith.addi %k0_13, %37 overflow<nsw> : i32
            %41 = arith.cmpi slt, %40, %Sk : i32
            sched.copy_async %v_head[%40, %column_12] to %v_ring[%free_slot, %37] if %41 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        %next_slot = arith.remui %21, %c2_i32 {tile.name = "next_slot"} : i32
        %s = sched.registers "s" {tile.comment = "S = Q K^T"} : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %37 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %38 = arith.addi %37, %e overflow<nsw> : i32
              sched.set %c0_f32, %s[%c0_i32, %j, %38] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %k_fragment = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %23 = arith.remui %lane, %c8_i32 : i32
        %24 = arith.divui %lane, %c8_i32 : i32
        %25 = arith.remui %24, %c2_i32 : i32
        %26 = arith.addi %12, %23 overflow<nsw> : i32
        %27 = arith.muli %25, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %k_ring[%slot, %26, %27] step[%c0_i32, %c0_i32] to %k_fragment[%c0_i32, %c0_i32] : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %s[%c0_i32, %n], %q_tile_fragment[%c0_i32, %c0_i32], %k_fragment[%n, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        %28 = arith.addi %k0, %c16_i32 : i32
        %29 = arith.cmpi sgt, %28, %Sk : i32
        %30 = arith.subi %Sk, %k0 overflow<nsw> : i32
        %31 = arith.minsi %30, %c16_i32 : i32
        %32 = arith.maxsi %31, %c0_i32 : i32
        scf.if %29 {
          %thread_11 = sched.read_thread_id {tile.name = "thread"} : i32
          %lane_12 = arith.remui %thread_11, %c32_i32 {tile.name = "lane"} : i32
          %quad_lane_13 = arith.remui %lane_12, %c4_i32 {tile.name = "quad_lane"} : i32
          %lane_column_14 = arith.muli %quad_lane_13, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %37 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %38 = arith.addi %37, %e overflow<nsw> : i32
                %s_qk = sched.get %s[%c0_i32, %j, %38] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %39 = arith.muli %j, %c8_i32 overflow<nsw> : i32
                %40 = arith.addi %39, %e overflow<nsw> : i32
                %41 = arith.subi %32, %lane_column_14 overflow<nsw> : i32
                %42 = arith.cmpi slt, %40, %41 : i32
                %43 = arith.select %42, %s_qk, %neg_inf : f32
                sched.set %43, %s[%c0_i32, %j, %38] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %m_next = sched.registers "m_next" {tile.comment = "m_next: the greatest of X along k, and of m"} : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_11 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_q_11, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %41 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %s_qk = sched.get %s[%c0_i32, %j, %41] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %42 = arith.addi %41, %c1_i32 overflow<nsw> : i32
            %s_qk_12 = sched.get %s[%c0_i32, %j, %42] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %m_next_q_13 = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %43 = arith.maxnumf %s_qk, %s_qk_12 : f32
            %44 = arith.maxnumf %m_next_q_13, %43 : f32
            sched.set %44, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %37 = sched.shuffle_xor %m_next_q, 1 : f32
          %38 = arith.maxnumf %m_next_q, %37 : f32
          %39 = sched.shuffle_xor %38, 2 : f32
          %40 = arith.maxnumf %38, %39 : f32
          sched.set %40, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_base = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %37 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
          %38 = arith.select %37, %c0_f32, %m_next_q : f32
          sched.set %38, %m_base[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_11 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %37 = arith.subf %m_q_11, %m_base_q : f32
          %38 = arith.mulf %37, %c0.360673755_f32 : f32
          %39 = math.exp2 %38 : f32
          sched.set %39, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "r"}
        %m_q = sched.get %m[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %33 = arith.cmpf une, %m_q, %c1_f32 : f32
        %m_q_10 = sched.get %m[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %34 = arith.cmpf une, %m_q_10, %c1_f32 : f32
        %35 = arith.ori %33, %34 : i1
        %max_moved = sched.any_lane %35 {tile.name = "max_moved"}
        scf.if %max_moved {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %37 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %38 = arith.addi %37, %e overflow<nsw> : i32
                %acc_qdv = sched.get %acc[%c0_i32, %j, %38] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %m_q_11 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %39 = arith.mulf %acc_qdv, %m_q_11 : f32
                sched.set %39, %acc[%c0_i32, %j, %38] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_q_11 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %37 = arith.mulf %l_q, %m_q_11 : f32
          sched.set %37, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %p = sched.registers "p" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %37 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %38 = arith.addi %37, %e overflow<nsw> : i32
              %s_qk = sched.get %s[%c0_i32, %half, %38] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %39 = arith.subf %s_qk, %m_base_q : f32
              %40 = arith.mulf %39, %c0.360673755_f32 : f32
              %41 = math.exp2 %40 : f32
              sched.set %41, %s[%c0_i32, %half, %38] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %42 = arith.addf %l_q, %41 : f32
              sched.set %42, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %37 = arith.remui %e, %c2_i32 : i32
          %38 = arith.divui %e, %c2_i32 : i32
          %39 = arith.muli %37, %c2_i32 overflow<nsw> : i32
          %s_qk = sched.get %s[%c0_i32, %38, %39] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %40 = arith.addi %39, %c1_i32 overflow<nsw> : i32
          %s_qk_11 = sched.get %s[%c0_i32, %38, %40] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %41 = sched.pack %s_qk, %s_qk_11 : f16
          sched.set %41, %p[%c0_i32, %c0_i32, %e] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %v_fragment = sched.registers "v_fragment" {tile.comment = "ACC += P V"} : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %36 = arith.addi %27, %23 overflow<nsw> : i32
        sched.load_matrix %v_ring[%slot, %36, %12] step[%c0_i32, %c0_i32] to %v_fragment[%c0_i32, %c0_i32] transpose : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %acc[%c0_i32, %n], %p[%c0_i32, %c0_i32], %v_fragment[%n, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_next_q, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %next_tile, %next_slot : i32, i32
      }
      %block = sched.read_block_id {tile.name = "block"} : i32
      %head_0 = arith.divui %block, %q_tiles {tile.name = "head"} : i32
      %13 = arith.divui %head_0, %h_extent : i32
      %b_1 = sched.nonnegative %13 {tile.name = "b"} : i32
      %14 = arith.remui %head_0, %h_extent : i32
      %h_2 = sched.nonnegative %14 {tile.name = "h"} : i32
      %thread_3 = sched.read_thread_id {tile.name = "thread"} : i32
      %lane_4 = arith.remui %thread_3, %c32_i32 {tile.name = "lane"} : i32
      %quad_lane = arith.remui %lane_4, %c4_i32 {tile.name = "quad_lane"} : i32
      %warp_5 = arith.divui %thread_3, %c32_i32 {tile.name = "warp"} : i32
      %warp_row_6 = arith.muli %warp_5, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %lane_row = arith.divui %lane_4, %c4_i32 {tile.name = "lane_row"} : i32
      %15 = arith.remui %block, %q_tiles : i32
      %q_index_7 = sched.nonnegative %15 {tile.name = "q_index"} : i32
      %q0_8 = arith.muli %q_index_7, %c64_i32 overflow<nsw> {tile.name = "q0"} : i32
      %lane_column = arith.muli %quad_lane, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %16 = arith.divui %thread_3, %c2_i32 : i32
      %17 = arith.remui %thread_3, %c2_i32 : i32
      %column_9 = arith.muli %17, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %20 = sched.shuffle_xor %l_q, 1 : f32
        %21 = arith.addf %l_q, %20 : f32
        %22 = sched.shuffle_xor %21, 2 : f32
        %23 = arith.addf %21, %22 : f32
        sched.set %23, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %inverse_l = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %20 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %21 = arith.divf %c1_f32, %l_q : f32
        %22 = arith.select %20, %c0_f32, %21 : f32
        sched.set %22, %inverse_l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %20 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %21 = arith.addi %20, %e overflow<nsw> : i32
            %acc_qdv = sched.get %acc[%c0_i32, %j, %21] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %inverse_l_q = sched.get %inverse_l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %22 = arith.mulf %acc_qdv, %inverse_l_q : f32
            sched.set %22, %acc[%c0_i32, %j, %21] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %20 = arith.mulf %m_q, %c0.25_f32 : f32
        %21 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %22 = math.log %l_q : f32
        %23 = arith.addf %20, %22 : f32
        %24 = arith.select %21, %neg_inf, %23 : f32
        sched.set %24, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %18 = sched.is_null %LSE : <3, f32>
      %19 = arith.xori %18, %true : i1
      %lse_head = sched.slice %LSE[%b_1, %h_2] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %19 {
        %20 = arith.cmpi eq, %quad_lane, %c0_i32 : i32
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %21 = arith.addi %warp_row_6, %lane_row overflow<nsw> : i32
          %22 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %23 = arith.addi %21, %22 overflow<nsw> : i32
          %row = arith.addi %q0_8, %23 overflow<nsw> {tile.name = "row"} : i32
          %24 = arith.cmpi slt, %row, %Sq : i32
          %25 = arith.andi %20, %24 : i1
          scf.if %25 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %m_q, %lse_head[%row] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %o_tile = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %20 = arith.addi %warp_row_6, %lane_row overflow<nsw> : i32
          %21 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %22 = arith.muli %j, %c8_i32 overflow<nsw> : i32
          %23 = arith.muli %r, %c2_i32 overflow<nsw> : i32
          %acc_qdv = sched.get %acc[%c0_i32, %j, %23] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %24 = arith.addi %23, %c1_i32 overflow<nsw> : i32
          %acc_qdv_10 = sched.get %acc[%c0_i32, %j, %24] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %25 = sched.pack %acc_qdv, %acc_qdv_10 : f16
          sched.store_shared %25, %o_tile[%c0_i32, %20, %lane_column] step[%21, %22] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %o_head = sched.slice %O[%b_1, %h_2] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %7 {
        sched.copy_to_global %o_tile[%16, %column_9] to %o_head[%6] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
