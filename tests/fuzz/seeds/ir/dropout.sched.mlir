#variant = #attn.variant<{
  "name": "causal",
  "mask": "q >= k",
  "dropout": 0.1
}>
module attributes {attn.variant = #variant} {
  sched.kernel @causal(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 3 shared_bytes 4096 dtype f16 plan <tile_q = 64, tile_k = 16, warps = 4, stages = 1, q_registers = true, blocks_per_sm = 3, longest_first = true> attributes {dropout} {
    %c3_i32 = arith.constant 3 : i32
    %c32_i64 = arith.constant 32 : i64
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %true = arith.constant true
    %c8_i32 = arith.constant 8 : i32
    %c64_i32 = arith.constant 64 : i32
    %c15_i32 = arith.constant 15 : i32
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    sched.for_work grid tile_q 64 longest_first (%b, %h, %q0) {
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
      %0 = arith.addi %q0, %c64_i32 : i32
      %q_end = arith.minsi %0, %Sq {tile.name = "q_end"} : i32
      %1 = arith.minsi %q_end, %Sk : i32
      %2 = arith.addi %1, %c15_i32 : i32
      %tiles_end = arith.divsi %2, %c16_i32 {tile.name = "tiles_end"} : i32
      %3 = arith.addi %q0, %c1_i32 : i32
      %full_to = arith.minsi %3, %Sk {tile.name = "full_to"} : i32
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
            %18 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %19 = arith.addi %18, %e overflow<nsw> : i32
            sched.set %c0_f32, %acc[%c0_i32, %j, %19] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %4 = arith.muli %b, %H : i32
      %head = arith.addi %4, %h {tile.name = "head"} : i32
      %seed = tile.param "seed" {tile.name = "seed"} : i64
      %offset = tile.param "offset" {tile.name = "offset"} : i64
      %drop_threshold = tile.param "drop_threshold" {tile.name = "drop_threshold"} : i32
      %k_tile = sched.shared "k_tile" at 0 : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %v_tile = sched.shared "v_tile" at 1024 : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %q_tile = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %q_head = sched.slice %Q[%b, %h] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %5 = arith.divui %thread, %c2_i32 : i32
      %6 = arith.remui %thread, %c2_i32 : i32
      %column = arith.muli %6, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %7 = arith.addi %q0, %5 overflow<nsw> : i32
      %8 = arith.cmpi slt, %7, %Sq : i32
      sched.copy_async %q_head[%7, %column] to %q_tile[%c0_i32, %5] if %8 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %9 = arith.cmpi sgt, %tiles_end, %c0_i32 : i32
      %k_head = sched.slice %K[%b, %kv_head] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %9 {
        %18 = arith.cmpi slt, %5, %c16_i32 : i32
        scf.if %18 {
          %19 = arith.cmpi slt, %5, %Sk : i32
          sched.copy_async %k_head[%5, %column] to %k_tile[%c0_i32, %5] if %19 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %q_tile_fragment = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %10 = arith.remui %lane, %c16_i32 : i32
      %11 = arith.addi %warp_row, %10 overflow<nsw> : i32
      %12 = arith.divui %lane, %c16_i32 : i32
      %13 = arith.muli %12, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %q_tile[%c0_i32, %11, %13] step[%c0_i32, %c0_i32] to %q_tile_fragment[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %v_head = sched.slice %V[%b, %kv_head] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      sched.for_tiles (%tile) = (%c0_i32) below %tiles_end {
        %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        sched.wait_copies pending 0
        sched.barrier
        %18 = arith.cmpi slt, %5, %c16_i32 : i32
        scf.if %18 {
          %thread_18 = sched.read_thread_id {tile.name = "thread"} : i32
          %62 = arith.divui %thread_18, %c2_i32 : i32
          %63 = arith.remui %thread_18, %c2_i32 : i32
          %column_19 = arith.muli %63, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %64 = arith.addi %k0, %62 overflow<nsw> : i32
          %65 = arith.cmpi slt, %64, %Sk : i32
          sched.copy_async %v_head[%64, %column_19] to %v_tile[%c0_i32, %62] if %65 : <2, f16>, <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
        sched.commit_copies
        %s = sched.registers "s" : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %62 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %63 = arith.addi %62, %e overflow<nsw> : i32
              sched.set %c0_f32, %s[%c0_i32, %j, %63] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %k_fragment = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %19 = arith.remui %lane, %c8_i32 : i32
        %20 = arith.divui %lane, %c8_i32 : i32
        %21 = arith.remui %20, %c2_i32 : i32
        %22 = arith.addi %13, %19 overflow<nsw> : i32
        %23 = arith.muli %21, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %k_tile[%c0_i32, %22, %23] step[%c0_i32, %c0_i32] to %k_fragment[%c0_i32, %c0_i32] : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %s[%c0_i32, %n], %q_tile_fragment[%c0_i32, %c0_i32], %k_fragment[%n, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        sched.wait_copies pending 0
        sched.barrier
        %24 = arith.cmpi slt, %next_tile, %tiles_end : i32
        scf.if %24 {
          %thread_18 = sched.read_thread_id {tile.name = "thread"} : i32
          %62 = arith.divui %thread_18, %c2_i32 : i32
          %63 = arith.remui %thread_18, %c2_i32 : i32
          %column_19 = arith.muli %63, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %64 = arith.cmpi slt, %62, %c16_i32 : i32
          %k0_20 = arith.muli %next_tile, %c16_i32 {tile.name = "k0"} : i32
          scf.if %64 {
            %65 = arith.addi %k0_20, %62 overflow<nsw> : i32
            %66 = arith.cmpi slt, %65, %Sk : i32
            sched.copy_async %k_head[%65, %column_19] to %k_tile[%c0_i32, %62] if %66 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %25 = arith.addi %k0, %c16_i32 : i32
        %26 = arith.cmpi sgt, %25, %full_to : i32
        scf.if %26 {
          %thread_18 = sched.read_thread_id {tile.name = "thread"} : i32
          %warp_19 = arith.divui %thread_18, %c32_i32 {tile.name = "warp"} : i32
          %warp_row_20 = arith.muli %warp_19, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
          %lane_21 = arith.remui %thread_18, %c32_i32 {tile.name = "lane"} : i32
          %lane_row_22 = arith.divui %lane_21, %c4_i32 {tile.name = "lane_row"} : i32
          %quad_lane_23 = arith.remui %lane_21, %c4_i32 {tile.name = "quad_lane"} : i32
          %lane_column_24 = arith.muli %quad_lane_23, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %62 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %63 = arith.addi %62, %e overflow<nsw> : i32
                %s_qk_25 = sched.get %s[%c0_i32, %j, %63] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %64 = arith.addi %warp_row_20, %lane_row_22 overflow<nsw> : i32
                %65 = arith.muli %r, %c8_i32 overflow<nsw> : i32
                %66 = arith.addi %64, %65 overflow<nsw> : i32
                %q = arith.addi %q0, %66 overflow<nsw> {tile.name = "q"} : i32
                %67 = arith.addi %q, %c1_i32 : i32
                %row_end = arith.minsi %67, %Sk {tile.name = "row_end"} : i32
                %68 = arith.subi %row_end, %k0 overflow<nsw> : i32
                %69 = arith.minsi %68, %c16_i32 : i32
                %70 = arith.maxsi %69, %c0_i32 : i32
                %71 = arith.muli %j, %c8_i32 overflow<nsw> : i32
                %72 = arith.addi %71, %e overflow<nsw> : i32
                %73 = arith.subi %70, %lane_column_24 overflow<nsw> : i32
                %74 = arith.cmpi slt, %72, %73 : i32
                %75 = arith.select %74, %s_qk_25, %neg_inf : f32
                sched.set %75, %s[%c0_i32, %j, %63] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %m_next = sched.registers "m_next" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_18 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_q_18, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %66 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %s_qk_19 = sched.get %s[%c0_i32, %j, %66] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %67 = arith.addi %66, %c1_i32 overflow<nsw> : i32
            %s_qk_20 = sched.get %s[%c0_i32, %j, %67] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %m_next_q_21 = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %68 = arith.maxnumf %s_qk_19, %s_qk_20 : f32
            %69 = arith.maxnumf %m_next_q_21, %68 : f32
            sched.set %69, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %62 = sched.shuffle_xor %m_next_q, 1 : f32
          %63 = arith.maxnumf %m_next_q, %62 : f32
          %64 = sched.shuffle_xor %63, 2 : f32
          %65 = arith.maxnumf %63, %64 : f32
          sched.set %65, %m_next[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_base = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %62 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
          %63 = arith.select %62, %c0_f32, %m_next_q : f32
          sched.set %63, %m_base[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q_18 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %62 = arith.subf %m_q_18, %m_base_q : f32
          %63 = arith.mulf %62, %c0.360673755_f32 : f32
          %64 = math.exp2 %63 : f32
          sched.set %64, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %m_q = sched.get %m[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %27 = arith.cmpf une, %m_q, %c1_f32 : f32
        %m_q_10 = sched.get %m[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %28 = arith.cmpf une, %m_q_10, %c1_f32 : f32
        %29 = arith.ori %27, %28 : i1
        %max_moved = sched.any_lane %29 {tile.name = "max_moved"}
        scf.if %max_moved {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %62 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %63 = arith.addi %62, %e overflow<nsw> : i32
                %acc_qdv = sched.get %acc[%c0_i32, %j, %63] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %m_q_18 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %64 = arith.mulf %acc_qdv, %m_q_18 : f32
                sched.set %64, %acc[%c0_i32, %j, %63] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %m_q_18 = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %62 = arith.mulf %l_q, %m_q_18 : f32
          sched.set %62, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %p = sched.registers "p" : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        %key0 = arith.trunci %seed {tile.name = "key0"} : i64 to i32
        %30 = arith.shrui %seed, %c32_i64 : i64
        %31 = arith.trunci %30 : i64 to i32
        %32 = arith.shrui %offset, %c32_i64 : i64
        %33 = arith.trunci %32 : i64 to i32
        %key1 = arith.xori %31, %33 {tile.name = "key1"} : i32
        %offset_low = arith.trunci %offset {tile.name = "offset_low"} : i64 to i32
        %high_threshold = arith.shli %drop_threshold, %c16_i32 {tile.name = "high_threshold"} : i32
        %34 = arith.addi %q0, %warp_row overflow<nsw> : i32
        %35 = arith.divui %34, %c16_i32 : i32
        %36 = arith.divui %k0, %c16_i32 : i32
        scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %62 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %63 = arith.addi %62, %e overflow<nsw> : i32
              %s_qk_18 = sched.get %s[%c0_i32, %half, %63] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %64 = arith.subf %s_qk_18, %m_base_q : f32
              %65 = arith.mulf %64, %c0.360673755_f32 : f32
              %66 = math.exp2 %65 : f32
              sched.set %66, %s[%c0_i32, %half, %63] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %67 = arith.addf %l_q, %66 : f32
              sched.set %67, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        %37 = arith.muli %35, %c8_i32 overflow<nsw> : i32
        %38 = arith.addi %37, %lane_row overflow<nsw> : i32
        %39 = arith.muli %36, %c4_i32 overflow<nsw> : i32
        %40 = arith.addi %39, %quad_lane overflow<nsw> : i32
        %random:4 = sched.philox counter %38, %40, %head, %offset_low key %key0, %key1
        %41 = arith.shli %random#0, %c16_i32 : i32
        %42 = arith.cmpi uge, %41, %high_threshold : i32
        %s_qk = sched.get %s[%c0_i32, %c0_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %43 = arith.select %42, %s_qk, %c0_f32 : f32
        sched.set %43, %s[%c0_i32, %c0_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %44 = arith.cmpi uge, %random#0, %high_threshold : i32
        %s_qk_11 = sched.get %s[%c0_i32, %c0_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %45 = arith.select %44, %s_qk_11, %c0_f32 : f32
        sched.set %45, %s[%c0_i32, %c0_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %46 = arith.shli %random#1, %c16_i32 : i32
        %47 = arith.cmpi uge, %46, %high_threshold : i32
        %s_qk_12 = sched.get %s[%c0_i32, %c1_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %48 = arith.select %47, %s_qk_12, %c0_f32 : f32
        sched.set %48, %s[%c0_i32, %c1_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %49 = arith.cmpi uge, %random#1, %high_threshold : i32
        %s_qk_13 = sched.get %s[%c0_i32, %c1_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %50 = arith.select %49, %s_qk_13, %c0_f32 : f32
        sched.set %50, %s[%c0_i32, %c1_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %51 = arith.shli %random#2, %c16_i32 : i32
        %52 = arith.cmpi uge, %51, %high_threshold : i32
        %s_qk_14 = sched.get %s[%c0_i32, %c0_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %53 = arith.select %52, %s_qk_14, %c0_f32 : f32
        sched.set %53, %s[%c0_i32, %c0_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %54 = arith.cmpi uge, %random#2, %high_threshold : i32
        %s_qk_15 = sched.get %s[%c0_i32, %c0_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %55 = arith.select %54, %s_qk_15, %c0_f32 : f32
        sched.set %55, %s[%c0_i32, %c0_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %56 = arith.shli %random#3, %c16_i32 : i32
        %57 = arith.cmpi uge, %56, %high_threshold : i32
        %s_qk_16 = sched.get %s[%c0_i32, %c1_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %58 = arith.select %57, %s_qk_16, %c0_f32 : f32
        sched.set %58, %s[%c0_i32, %c1_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %59 = arith.cmpi uge, %random#3, %high_threshold : i32
        %s_qk_17 = sched.get %s[%c0_i32, %c1_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %60 = arith.select %59, %s_qk_17, %c0_f32 : f32
        sched.set %60, %s[%c0_i32, %c1_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %62 = arith.remui %e, %c2_i32 : i32
          %63 = arith.divui %e, %c2_i32 : i32
          %64 = arith.muli %62, %c2_i32 overflow<nsw> : i32
          %s_qk_18 = sched.get %s[%c0_i32, %63, %64] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %65 = arith.addi %64, %c1_i32 overflow<nsw> : i32
          %s_qk_19 = sched.get %s[%c0_i32, %63, %65] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %66 = sched.pack %s_qk_18, %s_qk_19 : f16
          sched.set %66, %p[%c0_i32, %c0_i32, %e] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %v_fragment = sched.registers "v_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %61 = arith.addi %23, %19 overflow<nsw> : i32
        sched.load_matrix %v_tile[%c0_i32, %61, %13] step[%c0_i32, %c0_i32] to %v_fragment[%c0_i32, %c0_i32] transpose : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %n = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %acc[%c0_i32, %n], %p[%c0_i32, %c0_i32], %v_fragment[%n, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %m_next_q, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %next_tile : i32
      }
      %b_0, %h_1, %q0_2 = sched.read_work
      %thread_3 = sched.read_thread_id {tile.name = "thread"} : i32
      %lane_4 = arith.remui %thread_3, %c32_i32 {tile.name = "lane"} : i32
      %quad_lane_5 = arith.remui %lane_4, %c4_i32 {tile.name = "quad_lane"} : i32
      %warp_6 = arith.divui %thread_3, %c32_i32 {tile.name = "warp"} : i32
      %warp_row_7 = arith.muli %warp_6, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %lane_row_8 = arith.divui %lane_4, %c4_i32 {tile.name = "lane_row"} : i32
      %lane_column = arith.muli %quad_lane_5, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %14 = arith.divui %thread_3, %c2_i32 : i32
      %15 = arith.remui %thread_3, %c2_i32 : i32
      %column_9 = arith.muli %15, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %18 = sched.shuffle_xor %l_q, 1 : f32
        %19 = arith.addf %l_q, %18 : f32
        %20 = sched.shuffle_xor %19, 2 : f32
        %21 = arith.addf %19, %20 : f32
        sched.set %21, %l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %keep_scale = tile.param "keep_scale" {tile.name = "keep_scale"} : f32
      %inverse_l = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %18 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %19 = arith.divf %keep_scale, %l_q : f32
        %20 = arith.select %18, %c0_f32, %19 : f32
        sched.set %20, %inverse_l[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %18 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %19 = arith.addi %18, %e overflow<nsw> : i32
            %acc_qdv = sched.get %acc[%c0_i32, %j, %19] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %inverse_l_q = sched.get %inverse_l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %20 = arith.mulf %acc_qdv, %inverse_l_q : f32
            sched.set %20, %acc[%c0_i32, %j, %19] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %l_q = sched.get %l[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %18 = arith.mulf %m_q, %c0.25_f32 : f32
        %19 = arith.cmpf oeq, %l_q, %c0_f32 : f32
        %20 = math.log %l_q : f32
        %21 = arith.addf %18, %20 : f32
        %22 = arith.select %19, %neg_inf, %21 : f32
        sched.set %22, %m[%c0_i32, %r] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %16 = sched.is_null %LSE : <3, f32>
      %17 = arith.xori %16, %true : i1
      %lse_head = sched.slice %LSE[%b_0, %h_1] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %17 {
        %18 = arith.cmpi eq, %quad_lane_5, %c0_i32 : i32
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %19 = arith.addi %warp_row_7, %lane_row_8 overflow<nsw> : i32
          %20 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %21 = arith.addi %19, %20 overflow<nsw> : i32
          %row = arith.addi %q0_2, %21 overflow<nsw> {tile.name = "row"} : i32
          %22 = arith.cmpi slt, %row, %Sq : i32
          %23 = arith.andi %18, %22 : i1
          scf.if %23 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %m_q, %lse_head[%row] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %O = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %o_tile = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %18 = arith.addi %warp_row_7, %lane_row_8 overflow<nsw> : i32
          %19 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %20 = arith.addi %18, %19 overflow<nsw> : i32
          %21 = arith.muli %j, %c8_i32 overflow<nsw> : i32
          %22 = arith.addi %lane_column, %21 overflow<nsw> : i32
          %23 = arith.muli %r, %c2_i32 overflow<nsw> : i32
          %acc_qdv = sched.get %acc[%c0_i32, %j, %23] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %24 = arith.addi %23, %c1_i32 overflow<nsw> : i32
          %acc_qdv_10 = sched.get %acc[%c0_i32, %j, %24] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %25 = sched.pack %acc_qdv, %acc_qdv_10 : f16
          sched.store_shared %25, %o_tile[%c0_i32, %20, %22] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %o_head = sched.slice %O[%b_0, %h_1] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %8 {
        sched.copy_to_global %o_tile[%14, %column_9] to %o_head[%7] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
