module attributes {attn.variant = "{\22name\22: \22plain\22}"} {
  sched.kernel @plain(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 5 shared_bytes 4096 dtype f16 plan <tile_q = 64, tile_k = 16, warps = 4, stages = 2, q_registers = true, blocks_per_sm = 5, longest_first = false> {
    %true = arith.constant true
    %c8_i32 = arith.constant 8 : i32
    %c1_i32 = arith.constant 1 : i32
    %c15_i32 = arith.constant 15 : i32
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant 0xFF800000 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %cst_1 = arith.constant 2.500000e-01 : f32
    %cst_2 = arith.constant 1.000000e+00 : f32
    %cst_3 = arith.constant 0.360673755 : f32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    sched.for_work grid tile_q 64 (%arg0, %arg1, %arg2) {
      %0 = sched.thread_id {tile.name = "thread"} : i32
      %1 = arith.remui %0, %c32_i32 {tile.name = "lane"} : i32
      %2 = arith.divui %0, %c32_i32 {tile.name = "warp"} : i32
      %3 = arith.muli %2, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %4 = tile.axis_extent "q" {tile.name = "Sq"} : i32
      %5 = tile.axis_extent "k" {tile.name = "Sk"} : i32
      %6 = tile.param "group" {tile.name = "group"} : i32
      %7 = arith.divsi %arg1, %6 {tile.name = "kv_head"} : i32
      %8 = tile.param "q" {tile.name = "q"} : !tile.view<4, f16>
      %9 = tile.param "k" {tile.name = "k"} : !tile.view<4, f16>
      %10 = tile.param "v" {tile.name = "v"} : !tile.view<4, f16>
      %11 = arith.addi %5, %c15_i32 : i32
      %12 = arith.divsi %11, %c16_i32 {tile.name = "tiles_end"} : i32
      %13 = sched.registers "m" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %cst, %13[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %14 = sched.registers "l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %cst_0, %14[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %15 = sched.registers "acc" : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %51 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
            %52 = arith.addi %51, %arg5 overflow<nsw> : i32
            sched.set %cst_0, %15[%c0_i32, %arg4, %52] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      %16 = sched.shared "k_ring" at 0 : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
      %17 = sched.shared "v_ring" at 1024 : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
      %18 = sched.shared "q_tile" at 2048 : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %19 = sched.slice %8[%arg0, %arg1] {tile.name = "q_head"} : <4, f16> -> <2, f16>
      %20 = arith.divui %0, %c2_i32 : i32
      %21 = arith.remui %0, %c2_i32 : i32
      %22 = arith.muli %21, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      %23 = arith.addi %arg2, %20 overflow<nsw> : i32
      %24 = arith.cmpi slt, %23, %4 : i32
      sched.copy_async %19[%23, %22] to %18[%c0_i32, %20] if %24 : <2, f16>, <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>
      %25 = arith.cmpi sgt, %12, %c0_i32 : i32
      %26 = sched.slice %9[%arg0, %7] {tile.name = "k_head"} : <4, f16> -> <2, f16>
      scf.if %25 {
        %51 = arith.cmpi slt, %20, %c16_i32 : i32
        scf.if %51 {
          %52 = arith.cmpi slt, %20, %5 : i32
          sched.copy_async %26[%20, %22] to %16[%c0_i32, %20] if %52 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
        }
      }
      %27 = sched.slice %10[%arg0, %7] {tile.name = "v_head"} : <4, f16> -> <2, f16>
      scf.if %25 {
        %51 = arith.cmpi slt, %20, %c16_i32 : i32
        scf.if %51 {
          %52 = arith.cmpi slt, %20, %5 : i32
          sched.copy_async %27[%20, %22] to %17[%c0_i32, %20] if %52 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
        }
      }
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %28 = sched.registers "q_tile_fragment" : <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      %29 = arith.remui %1, %c16_i32 : i32
      %30 = arith.addi %3, %29 overflow<nsw> : i32
      %31 = arith.divui %1, %c16_i32 : i32
      %32 = arith.muli %31, %c8_i32 overflow<nsw> : i32
      sched.load_matrix %18[%c0_i32, %30, %32] step[%c0_i32, %c0_i32] to %28[%c0_i32, %c0_i32] : <stage 1 x q 64 x d 16, f16, shared, #sched.swizzle<32>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>
      sched.for_tiles (%arg3, %arg4) = (%c0_i32, %c0_i32) below %12 {
        %51 = arith.muli %arg3, %c16_i32 {tile.name = "k0"} : i32
        %52 = arith.addi %arg3, %c1_i32 : i32
        sched.wait_copies pending 0
        sched.barrier
        %53 = arith.addi %arg4, %c1_i32 overflow<nsw> : i32
        %54 = arith.remui %53, %c2_i32 {tile.name = "free_slot"} : i32
        %55 = arith.cmpi slt, %52, %12 : i32
        scf.if %55 {
          %81 = sched.read_thread_id {tile.name = "thread"} : i32
          %82 = arith.divui %81, %c2_i32 : i32
          %83 = arith.remui %81, %c2_i32 : i32
          %84 = arith.muli %83, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %85 = arith.muli %52, %c16_i32 {tile.name = "k0"} : i32
          %86 = arith.cmpi slt, %82, %c16_i32 : i32
          scf.if %86 {
            %87 = arith.addi %85, %82 overflow<nsw> : i32
            %88 = arith.cmpi slt, %87, %5 : i32
            sched.copy_async %26[%87, %84] to %16[%54, %82] if %88 : <2, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          }
        }
        scf.if %55 {
          %81 = sched.read_thread_id {tile.name = "thread"} : i32
          %82 = arith.divui %81, %c2_i32 : i32
          %83 = arith.remui %81, %c2_i32 : i32
          %84 = arith.muli %83, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
          %85 = arith.muli %52, %c16_i32 {tile.name = "k0"} : i32
          %86 = arith.cmpi slt, %82, %c16_i32 : i32
          scf.if %86 {
            %87 = arith.addi %85, %82 overflow<nsw> : i32
            %88 = arith.cmpi slt, %87, %5 : i32
            sched.copy_async %27[%87, %84] to %17[%54, %82] if %88 : <2, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
          }
        }
        sched.commit_copies
        %56 = arith.addi %arg3, %c1_i32 {tile.name = "next_tile"} : i32
        %57 = arith.remui %53, %c2_i32 {tile.name = "next_slot"} : i32
        %58 = sched.registers "s" : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %81 = arith.muli %arg5, %c2_i32 overflow<nsw> : i32
              %82 = arith.addi %81, %arg7 overflow<nsw> : i32
              sched.set %cst_0, %58[%c0_i32, %arg6, %82] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %59 = sched.registers "k_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %60 = arith.remui %1, %c8_i32 : i32
        %61 = arith.divui %1, %c8_i32 : i32
        %62 = arith.remui %61, %c2_i32 : i32
        %63 = arith.addi %32, %60 overflow<nsw> : i32
        %64 = arith.muli %62, %c8_i32 overflow<nsw> : i32
        sched.load_matrix %16[%arg4, %63, %64] step[%c0_i32, %c0_i32] to %59[%c0_i32, %c0_i32] : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %58[%c0_i32, %arg5], %28[%c0_i32, %c0_i32], %59[%arg5, %c0_i32] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x d 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        %65 = arith.addi %51, %c16_i32 : i32
        %66 = arith.cmpi sgt, %65, %5 : i32
        %67 = arith.subi %5, %51 overflow<nsw> : i32
        %68 = arith.minsi %67, %c16_i32 : i32
        %69 = arith.maxsi %68, %c0_i32 : i32
        scf.if %66 {
          %81 = sched.read_thread_id {tile.name = "thread"} : i32
          %82 = arith.remui %81, %c32_i32 {tile.name = "lane"} : i32
          %83 = arith.remui %82, %c4_i32 {tile.name = "quad_lane"} : i32
          %84 = arith.muli %83, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %85 = arith.muli %arg5, %c2_i32 overflow<nsw> : i32
                %86 = arith.addi %85, %arg7 overflow<nsw> : i32
                %87 = sched.get %58[%c0_i32, %arg6, %86] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %88 = arith.muli %arg6, %c8_i32 overflow<nsw> : i32
                %89 = arith.addi %88, %arg7 overflow<nsw> : i32
                %90 = arith.subi %69, %84 overflow<nsw> : i32
                %91 = arith.cmpi slt, %89, %90 : i32
                %92 = arith.select %91, %87, %cst : f32
                sched.set %92, %58[%c0_i32, %arg6, %86] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        %70 = sched.registers "m_next" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %81 = sched.get %13[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %81, %70[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %87 = arith.muli %arg5, %c2_i32 overflow<nsw> : i32
            %88 = sched.get %58[%c0_i32, %arg6, %87] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %89 = arith.addi %87, %c1_i32 overflow<nsw> : i32
            %90 = sched.get %58[%c0_i32, %arg6, %89] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %91 = sched.get %70[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %92 = arith.maxnumf %88, %90 : f32
            %93 = arith.maxnumf %91, %92 : f32
            sched.set %93, %70[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
          } {sched.unroll, tile.name = "j"}
          %82 = sched.get %70[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %83 = sched.shuffle_xor %82, 1 : f32
          %84 = arith.maxnumf %82, %83 : f32
          %85 = sched.shuffle_xor %84, 2 : f32
          %86 = arith.maxnumf %84, %85 : f32
          sched.set %86, %70[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %71 = sched.registers "m_base" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %81 = sched.get %70[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %82 = arith.cmpf oeq, %81, %cst : f32
          %83 = arith.select %82, %cst_0, %81 : f32
          sched.set %83, %71[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %81 = sched.get %13[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %82 = sched.get %71[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %83 = arith.subf %81, %82 : f32
          %84 = arith.mulf %83, %cst_3 : f32
          %85 = math.exp2 %84 : f32
          sched.set %85, %13[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %72 = sched.get %13[%c0_i32, %c0_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %73 = arith.cmpf une, %72, %cst_2 : f32
        %74 = sched.get %13[%c0_i32, %c1_i32] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %75 = arith.cmpf une, %74, %cst_2 : f32
        %76 = arith.ori %73, %75 : i1
        %77 = sched.any_lane %76 {tile.name = "max_moved"}
        scf.if %77 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %81 = arith.muli %arg5, %c2_i32 overflow<nsw> : i32
                %82 = arith.addi %81, %arg7 overflow<nsw> : i32
                %83 = sched.get %15[%c0_i32, %arg6, %82] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
                %84 = sched.get %13[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
                %85 = arith.mulf %83, %84 : f32
                sched.set %85, %15[%c0_i32, %arg6, %82] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          } {sched.unroll, tile.name = "r"}
        }
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %81 = sched.get %14[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %82 = sched.get %13[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          %83 = arith.mulf %81, %82 : f32
          sched.set %83, %14[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        %78 = sched.registers "p" : <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg6 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %arg7 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %81 = arith.muli %arg6, %c2_i32 overflow<nsw> : i32
              %82 = arith.addi %81, %arg7 overflow<nsw> : i32
              %83 = sched.get %58[%c0_i32, %arg5, %82] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
              %84 = sched.get %71[%c0_i32, %arg6] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %85 = arith.subf %83, %84 : f32
              %86 = arith.mulf %85, %cst_3 : f32
              %87 = math.exp2 %86 : f32
              sched.set %87, %58[%c0_i32, %arg5, %82] : f32, <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>>
              %88 = sched.get %14[%c0_i32, %arg6] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
              %89 = arith.addf %88, %87 : f32
              sched.set %89, %14[%c0_i32, %arg6] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "half"}
        scf.for %arg5 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
          %81 = arith.remui %arg5, %c2_i32 : i32
          %82 = arith.divui %arg5, %c2_i32 : i32
          %83 = arith.muli %81, %c2_i32 overflow<nsw> : i32
          %84 = sched.get %58[%c0_i32, %82, %83] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %85 = arith.addi %83, %c1_i32 overflow<nsw> : i32
          %86 = sched.get %58[%c0_i32, %82, %85] : <q 64 x k 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %87 = sched.pack %84, %86 : f16
          sched.set %87, %78[%c0_i32, %c0_i32, %arg5] : i32, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>
        } {sched.unroll, tile.name = "e"}
        %79 = sched.registers "v_fragment" : <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        %80 = arith.addi %64, %60 overflow<nsw> : i32
        sched.load_matrix %17[%arg4, %80, %32] step[%c0_i32, %c0_i32] to %79[%c0_i32, %c0_i32] transpose : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.mma %15[%c0_i32, %arg5], %78[%c0_i32, %c0_i32], %79[%arg5, %c0_i32] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>, <q 64 x k 16, f16, register, #sched.fragment<a, warps 4>>, <n 16 x d 16, f16, register, #sched.fragment<b, warps 1>>
        } {sched.unroll, tile.name = "n"}
        scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %81 = sched.get %70[%c0_i32, %arg5] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
          sched.set %81, %13[%c0_i32, %arg5] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
        } {sched.unroll, tile.name = "r"}
        sched.next %56, %57 : i32, i32
      }
      %batch, %head, %row = sched.read_work
      %33 = sched.read_thread_id {tile.name = "thread"} : i32
      %34 = arith.remui %33, %c32_i32 {tile.name = "lane"} : i32
      %35 = arith.remui %34, %c4_i32 {tile.name = "quad_lane"} : i32
      %36 = arith.divui %33, %c32_i32 {tile.name = "warp"} : i32
      %37 = arith.muli %36, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %38 = arith.divui %34, %c4_i32 {tile.name = "lane_row"} : i32
      %39 = arith.muli %35, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %40 = arith.divui %33, %c2_i32 : i32
      %41 = arith.remui %33, %c2_i32 : i32
      %42 = arith.muli %41, %c8_i32 overflow<nsw> {tile.name = "column"} : i32
      sched.wait_copies pending 0
      sched.barrier
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %51 = sched.get %14[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %52 = sched.shuffle_xor %51, 1 : f32
        %53 = arith.addf %51, %52 : f32
        %54 = sched.shuffle_xor %53, 2 : f32
        %55 = arith.addf %53, %54 : f32
        sched.set %55, %14[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %43 = sched.registers "inverse_l" : <q 64, f32, register, #sched.fragment<rows, warps 4>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %51 = sched.get %14[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %52 = arith.cmpf oeq, %51, %cst_0 : f32
        %53 = arith.divf %cst_2, %51 : f32
        %54 = arith.select %52, %cst_0, %53 : f32
        sched.set %54, %43[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %arg5 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %51 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
            %52 = arith.addi %51, %arg5 overflow<nsw> : i32
            %53 = sched.get %15[%c0_i32, %arg4, %52] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
            %54 = sched.get %43[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            %55 = arith.mulf %53, %54 : f32
            sched.set %55, %15[%c0_i32, %arg4, %52] : f32, <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "e"}
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %51 = sched.get %13[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %52 = sched.get %14[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
        %53 = arith.mulf %51, %cst_1 : f32
        %54 = arith.cmpf oeq, %52, %cst_0 : f32
        %55 = math.log %52 : f32
        %56 = arith.addf %53, %55 : f32
        %57 = arith.select %54, %cst, %56 : f32
        sched.set %57, %13[%c0_i32, %arg3] : f32, <q 64, f32, register, #sched.fragment<rows, warps 4>>
      } {sched.unroll, tile.name = "r"}
      %44 = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
      %45 = sched.is_null %44 : <3, f32>
      %46 = arith.xori %45, %true : i1
      %47 = sched.slice %44[%batch, %head] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
      scf.if %46 {
        %51 = arith.cmpi eq, %35, %c0_i32 : i32
        scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %52 = arith.addi %37, %38 overflow<nsw> : i32
          %53 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
          %54 = arith.addi %52, %53 overflow<nsw> : i32
          %55 = arith.addi %row, %54 overflow<nsw> {tile.name = "row"} : i32
          %56 = arith.cmpi slt, %55, %4 : i32
          %57 = arith.andi %51, %56 : i1
          scf.if %57 {
            %58 = sched.get %13[%c0_i32, %arg3] : <q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
            sched.store_element %58, %47[%55] : f32, <1, f32>
          }
        } {sched.unroll, tile.name = "r"}
      }
      %48 = tile.param "o" {tile.name = "o"} : !tile.view<4, f16>
      %49 = sched.shared "o_tile" at 0 : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
      scf.for %arg3 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        scf.for %arg4 = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %51 = arith.addi %37, %38 overflow<nsw> : i32
          %52 = arith.muli %arg3, %c8_i32 overflow<nsw> : i32
          %53 = arith.addi %51, %52 overflow<nsw> : i32
          %54 = arith.muli %arg4, %c8_i32 overflow<nsw> : i32
          %55 = arith.addi %39, %54 overflow<nsw> : i32
          %56 = arith.muli %arg3, %c2_i32 overflow<nsw> : i32
          %57 = sched.get %15[%c0_i32, %arg4, %56] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %58 = arith.addi %56, %c1_i32 overflow<nsw> : i32
          %59 = sched.get %15[%c0_i32, %arg4, %58] : <q 64 x dv 16, f32, register, #sched.fragment<c, warps 4>> -> f32
          %60 = sched.pack %57, %59 : f16
          sched.store_shared %60, %49[%c0_i32, %53, %55] : i32, <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>
        } {sched.unroll, tile.name = "j"}
      } {sched.unroll, tile.name = "r"}
      sched.barrier
      %50 = sched.slice %48[%batch, %head] {tile.name = "o_head"} : <4, f16> -> <2, f16>
      scf.if %24 {
        sched.copy_to_global %49[%40, %42] to %50[%23] : <stage 1 x q 64 x dv 16, f16, shared, #sched.swizzle<32>>, <2, f16>
      }
    }
  }
}
