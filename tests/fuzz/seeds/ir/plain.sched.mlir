#variant = #attn.variant<{
  "name": "plain"
}>
module attributes {attn.variant = #variant} {
  sched.kernel @plain(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 5 shared_bytes 4096 dtype f16 plan <tile_q = 64, tile_k = 16, warps = 4, stages = 2, q_registers = true, blocks_per_sm = 5, longest_first = false> {
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
    sched.for_work grid tile_q 64 (%b, %h, %q0) {
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
      %0 = arith.addi %Sk, %c15_i32 : i32
      %tiles_end = arith.divsi %0, %c16_i32 {tile.name = "tiles_end"} : i32
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
            %14 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %15 = arith.addi %14, %e overflow<nsw> : i32
            sched.set %c0_f32, %acc[%c0_i32, %j, %15] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %k_ring = sched.shared "k_ring" at 0 : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %v_ring = sched.shared "v_ring" at 1024 : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %q_tile = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %q_head = sched.slice %Q[%b, %h] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %1 = arith.divui %thread, %c2_i32 : i32
      %2 = arith.remui %thread, %c2_i32 : i32
      %column = arith.muli %2, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %3 = arith.addi %q0, %1 overflow<nsw> : i32
      %4 = arith.cmpi slt, %3, %Sq : i32
      sched.copy_async %q_head[%3, %column] to %q_tile[%c0_i32, %1] if %4 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %5 = arith.cmpi sgt, %tiles_end, %c0_i32 : i32
      %k_head = sched.slice %K[%b, %kv_head] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %5 {
        %14 = arith.cmpi slt, %1, %c16_i32 : i32
        scf.if %14 {
          %15 = arith.cmpi slt, %1, %Sk : i32
          sched.copy_async %k_head[%1, %column] to %k_ring[%c0_i32, %1] if %15 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      %v_head = sched.slice %V[%b, %kv_head] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      scf.if %5 {
        %14 = arith.cmpi slt, %1, %c16_i32 : i32
        scf.if %14 {
          %15 = arith.cmpi slt, %1, %Sk : i32
          sched.copy_async %v_head[%1, %column] to %v_ring[%c0_i32, %1] if %15 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %q_tile_fragment = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %6 = arith.remui %lane, %c16_i32 : i32
      %7 = arith.addi %warp_row, %6 overflow<nsw> : i32
      %8 = arith.divui %lane, %c16_i32 : i32
      %9 = arith.muli %8, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %q_tile[%c0_i32, %7, %9] step[%c0_i32, %c0_i32] to %q_tile_fragment[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      sched.for_tiles (%tile, %slot) = (%c0_i32, %c0_i32) below %tiles_end {
        %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
        %14 = arith.addi %tile, %c1_i32 : i32
        sched.wait_copies pending 0
        sched.barrier
        %15 = arith.addi %slot, %c1_i32 overflow<nsw> : i32
        %free_slot = arith.remui %15, %c2_i32 {tile.name = "free_slot"} : i32
        %16 = arith.cmpi slt, %14, %tiles_end : i32
        scf.if %16 {
          %thread_9 = sched.read_thread_id {tile.name = "thread"} : i32
          %31 = arith.divui %thread_9, %c2_i32 : i32
          %32 = arith.remui %thread_9, %c2_i32 : i32
          %column_10 = arith.muli %32, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %k0_11 = arith.muli %14, %c16_i32 {tile.name = "k0"} : i32
          %33 = arith.cmpi slt, %31, %c16_i32 : i32
          scf.if %33 {
            %34 = arith.addi %k0_11, %31 overflow<nsw> : i32
            %35 = arith.cmpi slt, %34, %Sk : i32
            sched.copy_async %k_head[%34, %column_10] to %k_ring[%free_slot, %31] if %35 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        scf.if %16 {
          %thread_9 = sched.read_thread_id {tile.name = "thread"} : i32
          %31 = arith.divui %thread_9, %c2_i32 : i32
          %32 = arith.remui %thread_9, %c2_i32 : i32
          %column_10 = arith.muli %32, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %k0_11 = arith.muli %14, %c16_i32 {tile.name = "k0"} : i32
          %33 = arith.cmpi slt, %31, %c16_i32 : i32
          scf.if %33 {
            %34 = arith.addi %k0_11, %31 overflow<nsw> : i32
            %35 = arith.cmpi slt, %34, %Sk : i32
            sched.copy_async %v_head[%34, %column_10] to %v_ring[%free_slot, %31] if %35 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        %next_slot = arith.remui %15, %c2_i32 {tile.name = "next_slot"} : i32
        %s = sched.registers "s" : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %31 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %32 = arith.addi %31, %e overflow<nsw> : i32
              sched.set %c0_f32, %s[%c0_i32, %j, %32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %k_fragment = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %17 = arith.remui %lane, %c8_i32 : i32
        %18 = arith.divui %lane, %c8_i32 : i32
        %19 = arith.remui %18, %c2_i32 : i32
        %20 = arith.addi %9, %17 overflow<nsw> : i32
        %21 = arith.muli %19, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %k_ring[%slot, %20, %21] step[%c0_i32, %c0_i32] to %k_fragment[%c0_i32, %c0_i32] : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %s[%c0_i32, %n], %q_tile_fragment[%c0_i32, %c0_i32], %k_fragment[%n, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        %22 = arith.addi %k0, %c16_i32 : i32
        %23 = arith.cmpi sgt, %22, %Sk : i32
        %24 = arith.subi %Sk, %k0 overflow<nsw> : i32
        %25 = arith.minsi %24, %c16_i32 : i32
        %26 = arith.maxsi %25, %c0_i32 : i32
        scf.if %23 {
          %thread_9 = sched.read_thread_id {tile.name = "thread"} : i32
          %lane_10 = arith.remui %thread_9, %c32_i32 {tile.name = "lane"} : i32
          %quad_lane_11 = arith.remui %lane_10, %c4_i32 {tile.name = "quad_lane"} : i32
          %lane_column_12 = arith.muli %quad_lane_11, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %31 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %32 = arith.addi %31, %e overflow<nsw> : i32
                %s_qk = sched.get %s[%c0_i32, %j, %32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %33 = arith.muli %j, %c8_i32 overflow<nsw> : i32
                %34 = arith.addi %33, %e overflow<nsw> : i32
                %35 = arith.subi %26, %lane_column_12 overflow<nsw> : i32
                %36 = arith.cmpi slt, %34, %35 : i32
                %37 = arith.select %36, %s_qk, %neg_inf : f32
                sched.set %37, %s[%c0_i32, %j, %32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %m_next = sched.registers "m_next" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_9 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_q_9, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %35 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %s_qk = sched.get %s[%c0_i32, %j, %35] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %36 = arith.addi %35, %c1_i32 overflow<nsw> : i32
            %s_qk_10 = sched.get %s[%c0_i32, %j, %36] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %m_next_q_11 = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %37 = arith.maxnumf %s_qk, %s_qk_10 : f32
            %38 = arith.maxnumf %m_next_q_11, %37 : f32
            sched.set %38, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %31 = sched.shuffle_xor %m_next_q, 1 : f32
          %32 = arith.maxnumf %m_next_q, %31 : f32
          %33 = sched.shuffle_xor %32, 2 : f32
          %34 = arith.maxnumf %32, %33 : f32
          sched.set %34, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_base = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %31 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
          %32 = arith.select %31, %c0_f32, %m_next_q : f32
          sched.set %32, %m_base[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_9 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %31 = arith.subf %m_q_9, %m_base_q : f32
          %32 = arith.mulf %31, %c0.360673755_f32 : f32
          %33 = math.exp2 %32 : f32
          sched.set %33, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_q = sched.get %m[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %27 = arith.cmpf une, %m_q, %c1_f32 : f32
        %m_q_8 = sched.get %m[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %28 = arith.cmpf une, %m_q_8, %c1_f32 : f32
        %29 = arith.ori %27, %28 : i1
        %max_moved = sched.any_lane %29 {tile.name = "max_moved"}
        scf.if %max_moved {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %31 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %32 = arith.addi %31, %e overflow<nsw> : i32
                %acc_qdv = sched.get %acc[%c0_i32, %j, %32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %m_q_9 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %33 = arith.mulf %acc_qdv, %m_q_9 : f32
                sched.set %33, %acc[%c0_i32, %j, %32] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_q_9 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %31 = arith.mulf %l_q, %m_q_9 : f32
          sched.set %31, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %p = sched.registers "p" : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %31 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %32 = arith.addi %31, %e overflow<nsw> : i32
              %s_qk = sched.get %s[%c0_i32, %half, %32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %33 = arith.subf %s_qk, %m_base_q : f32
              %34 = arith.mulf %33, %c0.360673755_f32 : f32
              %35 = math.exp2 %34 : f32
              sched.set %35, %s[%c0_i32, %half, %32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %36 = arith.addf %l_q, %35 : f32
              sched.set %36, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %31 = arith.remui %e, %c2_i32 : i32
          %32 = arith.divui %e, %c2_i32 : i32
          %33 = arith.muli %31, %c2_i32 overflow<nsw> : i32
          %s_qk = sched.get %s[%c0_i32, %32, %33] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %34 = arith.addi %33, %c1_i32 overflow<nsw> : i32
          %s_qk_9 = sched.get %s[%c0_i32, %32, %34] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %35 = sched.pack %s_qk, %s_qk_9 : f16
          sched.set %35, %p[%c0_i32, %c0_i32, %e] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %v_fragment = sched.registers "v_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %30 = arith.addi %21, %17 overflow<nsw> : i32
        sched.load_matrix %v_ring[%slot, %30, %9] step[%c0_i32, %c0_i32] to %v_fragment[%c0_i32, %c0_i32] transpose : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %acc[%c0_i32, %n], %p[%c0_i32, %c0_i32], %v_fragment[%n, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_next_q, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %next_tile, %next_slot : i32, i32
      }
      %b_0, %h_1, %q0_2 = sched.read_work
      %thread_3 = sched.read_thread_id {tile.name = "thread"} : i32
      %lane_4 = arith.remui %thread_3, %c32_i32 {tile.name = "lane"} : i32
      %quad_lane = arith.remui %lane_4, %c4_i32 {tile.name = "quad_lane"} : i32
      %warp_5 = arith.divui %thread_3, %c32_i32 {tile.name = "warp"} : i32
      %warp_row_6 = arith.muli %warp_5, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %lane_row = arith.divui %lane_4, %c4_i32 {tile.name = "lane_row"} : i32
      %lane_column = arith.muli %quad_lane, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %10 = arith.divui %thread_3, %c2_i32 : i32
      %11 = arith.remui %thread_3, %c2_i32 : i32
      %column_7 = arith.muli %11, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %14 = sched.shuffle_xor %l_q, 1 : f32
        %15 = arith.addf %l_q, %14 : f32
        %16 = sched.shuffle_xor %15, 2 : f32
        %17 = arith.addf %15, %16 : f32
        sched.set %17, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %inverse_l = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %14 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %15 = arith.divf %c1_f32, %l_q : f32
        %16 = arith.select %14, %c0_f32, %15 : f32
        sched.set %16, %inverse_l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %14 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %15 = arith.addi %14, %e overflow<nsw> : i32
            %acc_qdv = sched.get %acc[%c0_i32, %j, %15] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %inverse_l_q = sched.get %inverse_l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %16 = arith.mulf %acc_qdv, %inverse_l_q : f32
            sched.set %16, %acc[%c0_i32, %j, %15] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %14 = arith.mulf %m_q, %c0.25_f32 : f32
        %15 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %16 = math.log %l_q : f32
        %17 = arith.addf %14, %16 : f32
        %18 = arith.select %15, %neg_inf, %17 : f32
        sched.set %18, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %12 = sched.is_null %LSE : <3, f32>
      %13 = arith.xori %12, %true : i1
      %lse_head = sched.slice %LSE[%b_0, %h_1] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %13 {
        %14 = arith.cmpi eq, %quad_lane, %c0_i32 : i32
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %15 = arith.addi %warp_row_6, %lane_row overflow<nsw> : i32
          %16 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %17 = arith.addi %15, %16 overflow<nsw> : i32
          %row = arith.addi %q0_2, %17 overflow<nsw> {tile.name = "row"} : i32
          %18 = arith.cmpi slt, %row, %Sq : i32
          %19 = arith.andi %14, %18 : i1
          scf.if %19 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %m_q, %lse_head[%row] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %o_tile = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %14 = arith.addi %warp_row_6, %lane_row overflow<nsw> : i32
          %15 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %16 = arith.addi %14, %15 overflow<nsw> : i32
          %17 = arith.muli %j, %c8_i32 overflow<nsw> : i32
          %18 = arith.addi %lane_column, %17 overflow<nsw> : i32
          %19 = arith.muli %r, %c2_i32 overflow<nsw> : i32
          %acc_qdv = sched.get %acc[%c0_i32, %j, %19] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %20 = arith.addi %19, %c1_i32 overflow<nsw> : i32
          %acc_qdv_8 = sched.get %acc[%c0_i32, %j, %20] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %21 = sched.pack %acc_qdv, %acc_qdv_8 : f16
          sched.store_shared %21, %o_tile[%c0_i32, %16, %18] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %o_head = sched.slice %O[%b_0, %h_1] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %4 {
        sched.copy_to_global %o_tile[%10, %column_7] to %o_head[%3] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
