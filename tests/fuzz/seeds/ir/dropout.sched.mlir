module attributes {attn.variant = "{\22name\22: \22causal\22, \22mask\22: \22q >= k\22, \22dropout\22: 0.1}"} {
  sched.kernel @causal(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 3 shared_bytes 4096 dtype f16 plan <tile_q = 64, tile_k = 16, warps = 4, stages = 1, q_registers = true, blocks_per_sm = 3, longest_first = true> attributes {dropout} {
    %c3_i32 = arith.constant 3 : i32
    %c32_i64 = arith.constant 32 : i64
    %cst = arith.constant 1.000000e+00 : f32
    %true = arith.constant true
    %c8_i32 = arith.constant 8 : i32
    %c64_i32 = arith.constant 64 : i32
    %c15_i32 = arith.constant 15 : i32
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 0.000000e+00 : f32
    %cst_2 = arith.constant 2.500000e-01 : f32
    %cst_3 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    sched.for_work grid tile_q 64 longest_first (%arg0, %arg1, %arg2) {
      %0 = sched.thread_id {tile.name = "thread"} : i32
      %1 = arith.remui %0, %c32_i32 {tile.name = "lane"} : i32
      %2 = arith.divui %0, %c32_i32 {tile.name = "warp"} : i32
      %3 = arith.divui %1, %c4_i32 {tile.name = "lane_row"} : i32
      %4 = arith.remui %1, %c4_i32 {tile.name = "quad_lane"} : i32
      %5 = arith.muli %2, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %6 = tile.axis_extent "q" {tile.name = "Sq"} : i32
      %7 = tile.axis_extent "k" {tile.name = "Sk"} : i32
      %8 = tile.axis_extent "h" {tile.name = "H"} : i32
      %9 = tile.param "group" {tile.name = "group"} : i32
      %10 = arith.divsi %arg1, %9 {tile.name = "kv_head"} : i32
      %11 = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
      %12 = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
      %13 = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
      %14 = arith.addi %arg2, %c64_i32 : i32
      %15 = arith.minsi %14, %6 {tile.name = "q_end"} : i32
      %16 = arith.minsi %15, %7 : i32
      %17 = arith.addi %16, %c15_i32 : i32
      %18 = arith.divsi %17, %c16_i32 {tile.name = "tiles_end"} : i32
      %19 = arith.addi %arg2, %c1_i32 : i32
      %20 = arith.minsi %19, %7 {tile.name = "full_to"} : i32
      %21 = sched.registers "m" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %cst_0, %21[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %22 = sched.registers "l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %cst_1, %22[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %23 = sched.registers "acc" : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %65 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
            %66 = arith.addi %65, %arg5 overflow<nsw> : i32
            sched.set %cst_1, %23[%c0_i32, %arg4, %66] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %24 = arith.muli %arg0, %8 : i32
      %25 = arith.addi %24, %arg1 {tile.name = "head"} : i32
      %26 = tile.param "seed" {tile.name = "seed"} : i64
      %27 = tile.param "offset" {tile.name = "offset"} : i64
      %28 = tile.param "drop_threshold" {tile.name = "drop_threshold"} : i32
      %29 = sched.shared "k_tile" at 0 : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %30 = sched.shared "v_tile" at 1024 : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %31 = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %32 = sched.slice %11[%arg0, %arg1] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %33 = arith.divui %0, %c2_i32 : i32
      %34 = arith.remui %0, %c2_i32 : i32
      %35 = arith.muli %34, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %36 = arith.addi %arg2, %33 overflow<nsw> : i32
      %37 = arith.cmpi slt, %36, %6 : i32
      sched.copy_async %32[%36, %35] to %31[%c0_i32, %33] if %37 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %38 = arith.cmpi sgt, %18, %c0_i32 : i32
      %39 = sched.slice %12[%arg0, %10] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %38 {
        %65 = arith.cmpi slt, %33, %c16_i32 : i32
        scf.if %65 {
          %66 = arith.cmpi slt, %33, %7 : i32
          sched.copy_async %39[%33, %35] to %29[%c0_i32, %33] if %66 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %40 = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %41 = arith.remui %1, %c16_i32 : i32
      %42 = arith.addi %5, %41 overflow<nsw> : i32
      %43 = arith.divui %1, %c16_i32 : i32
      %44 = arith.muli %43, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %31[%c0_i32, %42, %44] step[%c0_i32, %c0_i32] to %40[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %45 = sched.slice %13[%arg0, %10] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      sched.for_tiles (%arg3) = (%c0_i32) below %18 {
        %65 = arith.muli %arg3, %c16_i32 {tile.name = "k0"} : i32
        %66 = arith.addi %arg3, %c1_i32 {tile.name = "next_tile"} : i32
        sched.wait_copies pending 0
        sched.barrier
        %67 = arith.cmpi slt, %33, %c16_i32 : i32
        scf.if %67 {
          %132 = sched.read_thread_id {tile.name = "thread"} : i32
          %133 = arith.divui %132, %c2_i32 : i32
          %134 = arith.remui %132, %c2_i32 : i32
          %135 = arith.muli %134, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %136 = arith.addi %65, %133 overflow<nsw> : i32
          %137 = arith.cmpi slt, %136, %7 : i32
          sched.copy_async %45[%136, %135] to %30[%c0_i32, %133] if %137 : <2, f16>, <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
        sched.commit_copies
        %68 = sched.registers "s" : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %132 = arith.muli %arg4, %c2_i32 overflow<nsw> : i32
              %133 = arith.addi %132, %arg6 overflow<nsw> : i32
              sched.set %cst_1, %68[%c0_i32, %arg5, %133] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %69 = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %70 = arith.remui %1, %c8_i32 : i32
        %71 = arith.divui %1, %c8_i32 : i32
        %72 = arith.remui %71, %c2_i32 : i32
        %73 = arith.addi %44, %70 overflow<nsw> : i32
        %74 = arith.muli %72, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %29[%c0_i32, %73, %74] step[%c0_i32, %c0_i32] to %69[%c0_i32, %c0_i32] : <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %68[%c0_i32, %arg4], %40[%c0_i32, %c0_i32], %69[%arg4, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        sched.wait_copies pending 0
        sched.barrier
        %75 = arith.cmpi slt, %66, %18 : i32
        scf.if %75 {
          %132 = sched.read_thread_id {tile.name = "thread"} : i32
          %133 = arith.divui %132, %c2_i32 : i32
          %134 = arith.remui %132, %c2_i32 : i32
          %135 = arith.muli %134, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %136 = arith.cmpi slt, %133, %c16_i32 : i32
          %137 = arith.muli %66, %c16_i32 {tile.name = "k0"} : i32
          scf.if %136 {
            %138 = arith.addi %137, %133 overflow<nsw> : i32
            %139 = arith.cmpi slt, %138, %7 : i32
            sched.copy_async %39[%138, %135] to %29[%c0_i32, %133] if %139 : <2, f16>, <stage 1 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %76 = arith.addi %65, %c16_i32 : i32
        %77 = arith.cmpi sgt, %76, %20 : i32
        scf.if %77 {
          %132 = sched.read_thread_id {tile.name = "thread"} : i32
          %133 = arith.divui %132, %c32_i32 {tile.name = "warp"} : i32
          %134 = arith.muli %133, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
          %135 = arith.remui %132, %c32_i32 {tile.name = "lane"} : i32
          %136 = arith.divui %135, %c4_i32 {tile.name = "lane_row"} : i32
          %137 = arith.remui %135, %c4_i32 {tile.name = "quad_lane"} : i32
          %138 = arith.muli %137, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %139 = arith.muli %arg4, %c2_i32 overflow<nsw> : i32
                %140 = arith.addi %139, %arg6 overflow<nsw> : i32
                %141 = sched.get %68[%c0_i32, %arg5, %140] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %142 = arith.addi %134, %136 overflow<nsw> : i32
                %143 = arith.muli %arg4, %c8_i32 overflow<nsw> : i32
                %144 = arith.addi %142, %143 overflow<nsw> : i32
                %145 = arith.addi %arg2, %144 overflow<nsw> {tile.name = "q"} : i32
                %146 = arith.addi %145, %c1_i32 : i32
                %147 = arith.minsi %146, %7 {tile.name = "row_end"} : i32
                %148 = arith.subi %147, %65 overflow<nsw> : i32
                %149 = arith.minsi %148, %c16_i32 : i32
                %150 = arith.maxsi %149, %c0_i32 : i32
                %151 = arith.muli %arg5, %c8_i32 overflow<nsw> : i32
                %152 = arith.addi %151, %arg6 overflow<nsw> : i32
                %153 = arith.subi %150, %138 overflow<nsw> : i32
                %154 = arith.cmpi slt, %152, %153 : i32
                %155 = arith.select %154, %141, %cst_0 : f32
                sched.set %155, %68[%c0_i32, %arg5, %140] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %78 = sched.registers "m_next" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %132 = sched.get %21[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %132, %78[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %138 = arith.muli %arg4, %c2_i32 overflow<nsw> : i32
            %139 = sched.get %68[%c0_i32, %arg5, %138] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %140 = arith.addi %138, %c1_i32 overflow<nsw> : i32
            %141 = sched.get %68[%c0_i32, %arg5, %140] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %142 = sched.get %78[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %143 = arith.maxnumf %139, %141 : f32
            %144 = arith.maxnumf %142, %143 : f32
            sched.set %144, %78[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %133 = sched.get %78[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %134 = sched.shuffle_xor %133, 1 : f32
          %135 = arith.maxnumf %133, %134 : f32
          %136 = sched.shuffle_xor %135, 2 : f32
          %137 = arith.maxnumf %135, %136 : f32
          sched.set %137, %78[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %79 = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %132 = sched.get %78[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %133 = arith.cmpf oeq, %132, %cst_0 : f32
          %134 = arith.select %133, %cst_1, %132 : f32
          sched.set %134, %79[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %132 = sched.get %21[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %133 = sched.get %79[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %134 = arith.subf %132, %133 : f32
          %135 = arith.mulf %134, %cst_3 : f32
          %136 = math.exp2 %135 : f32
          sched.set %136, %21[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %80 = sched.get %21[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %81 = arith.cmpf une, %80, %cst : f32
        %82 = sched.get %21[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %83 = arith.cmpf une, %82, %cst : f32
        %84 = arith.ori %81, %83 : i1
        %85 = sched.any_lane %84 {tile.name = "max_moved"}
        scf.if %85 {
          scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %132 = arith.muli %arg4, %c2_i32 overflow<nsw> : i32
                %133 = arith.addi %132, %arg6 overflow<nsw> : i32
                %134 = sched.get %23[%c0_i32, %arg5, %133] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %135 = sched.get %21[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %136 = arith.mulf %134, %135 : f32
                sched.set %136, %23[%c0_i32, %arg5, %133] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %132 = sched.get %22[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %133 = sched.get %21[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %134 = arith.mulf %132, %133 : f32
          sched.set %134, %22[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %86 = sched.registers "p" : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        %87 = arith.trunci %26 {tile.name = "key0"} : i64 to i32
        %88 = arith.shrui %26, %c32_i64 : i64
        %89 = arith.trunci %88 : i64 to i32
        %90 = arith.shrui %27, %c32_i64 : i64
        %91 = arith.trunci %90 : i64 to i32
        %92 = arith.xori %89, %91 {tile.name = "key1"} : i32
        %93 = arith.trunci %27 {tile.name = "offset_low"} : i64 to i32
        %94 = arith.shli %28, %c16_i32 {tile.name = "high_threshold"} : i32
        %95 = arith.addi %arg2, %5 overflow<nsw> : i32
        %96 = arith.divui %95, %c16_i32 : i32
        %97 = arith.divui %65, %c16_i32 : i32
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %132 = arith.muli %arg5, %c2_i32 overflow<nsw> : i32
              %133 = arith.addi %132, %arg6 overflow<nsw> : i32
              %134 = sched.get %68[%c0_i32, %arg4, %133] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %135 = sched.get %79[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %136 = arith.subf %134, %135 : f32
              %137 = arith.mulf %136, %cst_3 : f32
              %138 = math.exp2 %137 : f32
              sched.set %138, %68[%c0_i32, %arg4, %133] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %139 = sched.get %22[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %140 = arith.addf %139, %138 : f32
              sched.set %140, %22[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        %98 = arith.muli %96, %c8_i32 overflow<nsw> : i32
        %99 = arith.addi %98, %3 overflow<nsw> : i32
        %100 = arith.muli %97, %c4_i32 overflow<nsw> : i32
        %101 = arith.addi %100, %4 overflow<nsw> : i32
        %r0, %r1, %r2, %r3 = sched.philox counter %99, %101, %25, %93 key %87, %92
        %102 = arith.shli %r0, %c16_i32 : i32
        %103 = arith.cmpi uge, %102, %94 : i32
        %104 = sched.get %68[%c0_i32, %c0_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %105 = arith.select %103, %104, %cst_1 : f32
        sched.set %105, %68[%c0_i32, %c0_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %106 = arith.cmpi uge, %r0, %94 : i32
        %107 = sched.get %68[%c0_i32, %c0_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %108 = arith.select %106, %107, %cst_1 : f32
        sched.set %108, %68[%c0_i32, %c0_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %109 = arith.shli %r1, %c16_i32 : i32
        %110 = arith.cmpi uge, %109, %94 : i32
        %111 = sched.get %68[%c0_i32, %c1_i32, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %112 = arith.select %110, %111, %cst_1 : f32
        sched.set %112, %68[%c0_i32, %c1_i32, %c0_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %113 = arith.cmpi uge, %r1, %94 : i32
        %114 = sched.get %68[%c0_i32, %c1_i32, %c2_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %115 = arith.select %113, %114, %cst_1 : f32
        sched.set %115, %68[%c0_i32, %c1_i32, %c2_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %116 = arith.shli %r2, %c16_i32 : i32
        %117 = arith.cmpi uge, %116, %94 : i32
        %118 = sched.get %68[%c0_i32, %c0_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %119 = arith.select %117, %118, %cst_1 : f32
        sched.set %119, %68[%c0_i32, %c0_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %120 = arith.cmpi uge, %r2, %94 : i32
        %121 = sched.get %68[%c0_i32, %c0_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %122 = arith.select %120, %121, %cst_1 : f32
        sched.set %122, %68[%c0_i32, %c0_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %123 = arith.shli %r3, %c16_i32 : i32
        %124 = arith.cmpi uge, %123, %94 : i32
        %125 = sched.get %68[%c0_i32, %c1_i32, %c1_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %126 = arith.select %124, %125, %cst_1 : f32
        sched.set %126, %68[%c0_i32, %c1_i32, %c1_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        %127 = arith.cmpi uge, %r3, %94 : i32
        %128 = sched.get %68[%c0_i32, %c1_i32, %c3_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
        %129 = arith.select %127, %128, %cst_1 : f32
        sched.set %129, %68[%c0_i32, %c1_i32, %c3_i32] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %arg4 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %132 = arith.remui %arg4, %c2_i32 : i32
          %133 = arith.divui %arg4, %c2_i32 : i32
          %134 = arith.muli %132, %c2_i32 overflow<nsw> : i32
          %135 = sched.get %68[%c0_i32, %133, %134] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %136 = arith.addi %134, %c1_i32 overflow<nsw> : i32
          %137 = sched.get %68[%c0_i32, %133, %136] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %138 = sched.pack %135, %137 : f16
          sched.set %138, %86[%c0_i32, %c0_i32, %arg4] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %130 = sched.registers "v_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %131 = arith.addi %74, %70 overflow<nsw> : i32
        sched.load_matrix %30[%c0_i32, %131, %44] step[%c0_i32, %c0_i32] to %130[%c0_i32, %c0_i32] transpose : <stage 1 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %23[%c0_i32, %arg4], %86[%c0_i32, %c0_i32], %130[%arg4, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %132 = sched.get %78[%c0_i32, %arg4] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %132, %21[%c0_i32, %arg4] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %66 : i32
      }
      %batch, %head, %row = sched.read_work
      %46 = sched.read_thread_id {tile.name = "thread"} : i32
      %47 = arith.remui %46, %c32_i32 {tile.name = "lane"} : i32
      %48 = arith.remui %47, %c4_i32 {tile.name = "quad_lane"} : i32
      %49 = arith.divui %46, %c32_i32 {tile.name = "warp"} : i32
      %50 = arith.muli %49, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %51 = arith.divui %47, %c4_i32 {tile.name = "lane_row"} : i32
      %52 = arith.muli %48, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %53 = arith.divui %46, %c2_i32 : i32
      %54 = arith.remui %46, %c2_i32 : i32
      %55 = arith.muli %54, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %65 = sched.get %22[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %66 = sched.shuffle_xor %65, 1 : f32
        %67 = arith.addf %65, %66 : f32
        %68 = sched.shuffle_xor %67, 2 : f32
        %69 = arith.addf %67, %68 : f32
        sched.set %69, %22[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %56 = tile.param "keep_scale" {tile.name = "keep_scale"} : f32
      %57 = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %65 = sched.get %22[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %66 = arith.cmpf oeq, %65, %cst_1 : f32
        %67 = arith.divf %56, %65 : f32
        %68 = arith.select %66, %cst_1, %67 : f32
        sched.set %68, %57[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %65 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
            %66 = arith.addi %65, %arg5 overflow<nsw> : i32
            %67 = sched.get %23[%c0_i32, %arg4, %66] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %68 = sched.get %57[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %69 = arith.mulf %67, %68 : f32
            sched.set %69, %23[%c0_i32, %arg4, %66] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %65 = sched.get %21[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %66 = sched.get %22[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %67 = arith.mulf %65, %cst_2 : f32
        %68 = arith.cmpf oeq, %66, %cst_1 : f32
        %69 = math.log %66 : f32
        %70 = arith.addf %67, %69 : f32
        %71 = arith.select %68, %cst_0, %70 : f32
        sched.set %71, %21[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %58 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %59 = sched.is_null %58 : <3, f32>
      %60 = arith.xori %59, %true : i1
      %61 = sched.slice %58[%batch, %head] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %60 {
        %65 = arith.cmpi eq, %48, %c0_i32 : i32
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %66 = arith.addi %50, %51 overflow<nsw> : i32
          %67 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
          %68 = arith.addi %66, %67 overflow<nsw> : i32
          %69 = arith.addi %row, %68 overflow<nsw> {tile.name = "row"} : i32
          %70 = arith.cmpi slt, %69, %6 : i32
          %71 = arith.andi %65, %70 : i1
          scf.if %71 {
            %72 = sched.get %21[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %72, %61[%69] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %62 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %63 = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %65 = arith.addi %50, %51 overflow<nsw> : i32
          %66 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
          %67 = arith.addi %65, %66 overflow<nsw> : i32
          %68 = arith.muli %arg4, %c8_i32 overflow<nsw> : i32
          %69 = arith.addi %52, %68 overflow<nsw> : i32
          %70 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
          %71 = sched.get %23[%c0_i32, %arg4, %70] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %72 = arith.addi %70, %c1_i32 overflow<nsw> : i32
          %73 = sched.get %23[%c0_i32, %arg4, %72] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %74 = sched.pack %71, %73 : f16
          sched.store_shared %74, %63[%c0_i32, %67, %69] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %64 = sched.slice %62[%batch, %head] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %37 {
        sched.copy_to_global %63[%53, %55] to %64[%36] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
