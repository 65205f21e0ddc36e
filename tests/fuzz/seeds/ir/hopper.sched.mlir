#variant = #attn.variant<{
  "name": "documents",
  "mask": "ids[q] == ids[k]",
  "tensors": {"ids": {"dtype": "i32", "rank": 1}}
}>
module attributes {attn.variant = #variant} {
  tile.launch [@documents_bounds, @documents dependent]
  sched.kernel @documents(q: in [b, h, q, d 16] f16, k: in [b, hkv, k, d 16] f16, v: in [b, hkv, k, dv 16] f16, o: out [b, h, q, dv 16] f16, lse: optional out [b, h, q] f32, ids.q: workspace [end 2, q by 128] i32, ids.k: workspace [end 2, k by 16] i32, ids.part: workspace [end 2, q by 64] i32, work_counter: workspace [counters 1] i32) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 14704 dtype f16 plan <q 128 x k 16, warps = 8, blocks_per_sm = 1> attributes {sched.longest_first, sched.persistent, sched.ping_pong, tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %false = arith.constant false
    %c3_i32 = arith.constant 3 : i32
    %c32768_f32 = arith.constant 3.276800e+04 : f32
    %cst = arith.constant -3.40282347E+38 : f32
    %c8_i32 = arith.constant 8 : i32
    %c5_i32 = arith.constant 5 : i32
    %true = arith.constant true
    %c31_i32 = arith.constant 31 : i32
    %c384_i32 = arith.constant 384 : i32
    %c15_i32 = arith.constant 15 : i32
    %c16_i32 = arith.constant 16 : i32
    %c64_i32 = arith.constant 64 : i32
    %neg_inf = arith.constant 0xFF800000 : f32
    %c0_f32 = arith.constant 0.000000e+00 : f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %c1_f32 = arith.constant 1.000000e+00 : f32
    %c0.360673755_f32 = arith.constant 0.360673755 : f32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c128_i32 = arith.constant 128 : i32
    %c1_i32 = arith.constant 1 : i32
    %c32_i32 = arith.constant 32 : i32
    %c0_i32 = arith.constant 0 : i32
    %O = tile.param "o" : !tile.view<4, f16>
    %o_map = sched.tensor_map %O swizzle <32> {tile.name = "o_map"} : <4, f16> -> <64 x 16, f16>
    %K = tile.param "k" : !tile.view<4, f16>
    %k_map = sched.tensor_map %K swizzle <32> {tile.name = "k_map"} : <4, f16> -> <16 x 16, f16>
    %Q = tile.param "q" : !tile.view<4, f16>
    %q_map = sched.tensor_map %Q swizzle <32> {tile.name = "q_map"} : <4, f16> -> <128 x 16, f16>
    %V = tile.param "v" : !tile.view<4, f16>
    %v_map = sched.tensor_map %V swizzle <32> {tile.name = "v_map"} : <4, f16> -> <16 x 16, f16>
    %q_ring = sched.shared "q_ring" at 0 : <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>
    %o_tile = sched.shared "o_tile" at 8192 : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>
    %q_barriers = sched.ring "q_barriers" at 14608 filled_by 1 emptied_by 9 : <2>
    %k_ring = sched.shared "k_ring" at 12288 : <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
    %k_barriers = sched.ring "k_barriers" at 14640 filled_by 33 emptied_by 288 : <2>
    %v_ring = sched.shared "v_ring" at 13312 : <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
    %v_barriers = sched.ring "v_barriers" at 14672 filled_by 1 emptied_by 8 : <2>
    %column_ids_ring = sched.shared "column_ids_ring" at 14336 : <stage 2 x k 16, i32, shared>
    %tasks = sched.shared "tasks" at 14464 : <stage 2 x message 1 x field 8, i32, shared>
    %visits = sched.shared "visits" at 14592 : <stage 2 x message 1 x field 2, i32, shared>
    %thread = sched.thread_id : i32
    %0 = arith.cmpi eq, %thread, %c0_i32 : i32
    scf.if %0 {
      sched.init_ring %q_barriers : <2>
      sched.init_ring %k_barriers : <2>
      sched.init_ring %v_barriers : <2>
      sched.fence_init
    }
    sched.barrier
    sched.wait_launch
    sched.role "producer" warps 4 registers 40 {
      %role_thread = sched.thread_id in_role : i32
      %1 = arith.divui %role_thread, %c32_i32 : i32
      %2 = arith.cmpi eq, %1, %c1_i32 : i32
      scf.if %2 {
        %elected = sched.elect {tile.name = "elected"}
        sched.for_work received carries (%c0_i32, %c0_i32) (%count, %first_stage, %first_phase) {
          %4 = arith.divui %count, %c2_i32 : i32
          %q_stage = arith.remui %count, %c2_i32 {tile.name = "q_stage"} : i32
          %q_phase = arith.andi %4, %c1_i32 {tile.name = "q_phase"} : i32
          sched.wait %q_barriers[%q_stage] phase %q_phase : <2>
          %tasks_message:5 = sched.receive from %tasks[%q_stage] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32
          %first_tile = sched.uniform %tasks_message#4 {tile.name = "first_tile"} : i32
          %b = sched.uniform %tasks_message#0 {tile.name = "b"} : i32
          %h = sched.uniform %tasks_message#1 {tile.name = "h"} : i32
          %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
          %group = tile.param "group" {tile.name = "group"} : i32
          %kv_head = arith.divsi %h, %group {tile.name = "kv_head"} : i32
          %5 = arith.addi %Sk, %c15_i32 : i32
          %tiles_end = arith.divsi %5, %c16_i32 {tile.name = "tiles_end"} : i32
          %tile_end, %stage_end, %phase_end = sched.for_tiles (%tile, %stage, %phase) = (%first_tile, %first_stage, %first_phase) below %tiles_end keeps {
            %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
            sched.wait %k_barriers[%stage] phase %phase : <2>
            %visits_message:2 = sched.receive from %visits[%stage] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
            %next_tile = sched.uniform %visits_message#0 {tile.name = "next_tile"} : i32
            sched.release %k_barriers[%stage] by_lanes : <2>
            scf.if %elected {
              sched.acquire %v_barriers[%stage] phase %phase : <2>
              sched.expect_bytes 512 on %v_barriers[%stage] : <2>
              sched.load_box %v_map[%b, %kv_head, %k0, %c0_i32] to %v_ring[%stage] signal %v_barriers : <16 x 16, f16>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>, <2>
            }
            %6 = arith.xori %phase, %c1_i32 : i32
            %7 = arith.addi %stage, %c1_i32 : i32
            %8 = arith.cmpi eq, %7, %c2_i32 : i32
            %next_stage = arith.select %8, %c0_i32, %7 {tile.name = "next_stage"} : i32
            %next_phase = arith.select %8, %6, %phase {tile.name = "next_phase"} : i32
            sched.next %next_tile, %next_stage, %next_phase : i32, i32, i32
          } {tile.names = ["tile", "stage", "phase"]}
          sched.sync_lanes
          sched.release %q_barriers[%q_stage] : <2>
          %stage_uniform = sched.uniform %stage_end : i32
          %phase_uniform = sched.uniform %phase_end : i32
          sched.next %tasks_message#3, %stage_uniform, %phase_uniform : i32, i32, i32
        } {tile.names = ["count", "first_stage", "first_phase"]}
      }
      %3 = arith.cmpi slt, %role_thread, %c32_i32 : i32
      scf.if %3 {
        %elected = sched.elect {tile.name = "elected"}
        %q_extent = tile.axis_extent "q" : i32
        %q_tiles = arith.ceildivui %q_extent, %c128_i32 {tile.name = "q_tiles"} : i32
        %h_extent = tile.axis_extent "h" : i32
        %4 = arith.muli %q_tiles, %h_extent : i32
        %b_extent = tile.axis_extent "b" : i32
        %work_tiles = arith.muli %4, %b_extent {tile.name = "work_tiles"} : i32
        %all_heads = arith.muli %b_extent, %h_extent overflow<nsw> {tile.name = "all_heads"} : i32
        %blocks = sched.grid_size : i32
        %5 = arith.muli %blocks, %c128_i32 : i32
        %6 = arith.divui %5, %c384_i32 : i32
        %most_heads = arith.maxui %6, %c1_i32 {tile.name = "most_heads"} : i32
        %7 = arith.addi %all_heads, %most_heads : i32
        %8 = arith.subi %7, %c1_i32 : i32
        %head_groups = arith.divui %8, %most_heads {tile.name = "head_groups"} : i32
        %9 = arith.addi %all_heads, %head_groups : i32
        %10 = arith.subi %9, %c1_i32 : i32
        %heads_together = arith.divui %10, %head_groups {tile.name = "heads_together"} : i32
        %block = sched.block_id : i32
        sched.for_work persistent from %block below %work_tiles carries (%c0_i32, %c0_i32) (%number, %count, %first_stage, %first_phase) {
          %WORK_COUNTER = tile.param "work_counter" {tile.name = "work_counter"} : !tile.view<1, i32>
          %claimed = sched.claim_work %WORK_COUNTER {tile.name = "claimed"} : <1, i32>
          %q_extent_0 = sched.opaque %q_extent : i32
          %q_tiles_1 = arith.ceildivui %q_extent_0, %c128_i32 {tile.name = "q_tiles"} : i32
          %11 = arith.muli %q_tiles_1, %heads_together : i32
          %12 = arith.divui %number, %11 : i32
          %first_head = arith.muli %12, %heads_together {tile.name = "first_head"} : i32
          %13 = arith.subi %all_heads, %first_head : i32
          %group_heads = arith.minui %heads_together, %13 {tile.name = "group_heads"} : i32
          %14 = arith.muli %q_tiles_1, %first_head : i32
          %number_in_group = arith.subi %number, %14 {tile.name = "number_in_group"} : i32
          %15 = arith.remui %number_in_group, %group_heads : i32
          %head = arith.addi %first_head, %15 {tile.name = "head"} : i32
          %16 = arith.divui %number_in_group, %group_heads : i32
          %last_tile = arith.subi %q_tiles_1, %c1_i32 {tile.name = "last_tile"} : i32
          %17 = arith.subi %last_tile, %16 : i32
          %18 = arith.remui %head, %h_extent : i32
          %19 = arith.divui %head, %h_extent : i32
          %b = sched.nonnegative %19 {tile.name = "b"} : i32
          %h = sched.nonnegative %18 {tile.name = "h"} : i32
          %q_index = sched.nonnegative %17 {tile.name = "q_index"} : i32
          %q0 = arith.muli %q_index, %c128_i32 overflow<nsw> {tile.name = "q0"} : i32
          %Sq = tile.axis_extent "q" {tile.name = "Sq"} : i32
          %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
          %group = tile.param "group" {tile.name = "group"} : i32
          %kv_head = arith.divsi %h, %group {tile.name = "kv_head"} : i32
          %20 = arith.addi %Sk, %c15_i32 : i32
          %tiles_end = arith.divsi %20, %c16_i32 {tile.name = "tiles_end"} : i32
          %IDS.Q = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<2, i32>
          %IDS.Q_2 = tile.element %IDS.Q[%c0_i32, %q_index] in_range [true, true] {tile.name = "ids_q_min"} : <2, i32> (i32, i32) -> i32
          %IDS.Q_3 = tile.element %IDS.Q[%c1_i32, %q_index] in_range [true, true] {tile.name = "ids_q_max"} : <2, i32> (i32, i32) -> i32
          %IDS.K = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<2, i32>
          %21 = arith.subi %Sq, %c1_i32 overflow<nsw> : i32
          %IDS.PART = tile.param "ids.part" {tile.name = "ids.part"} : !tile.view<2, i32>
          %ids = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
          %seen_row = arith.minsi %q0, %21 {tile.name = "seen_row"} : i32
          %q_tile = arith.divsi %seen_row, %c64_i32 {tile.name = "q_tile"} : i32
          %IDS.PART_4 = tile.element %IDS.PART[%c0_i32, %q_tile] in_range [true, true] {tile.name = "ids_q_min"} : <2, i32> (i32, i32) -> i32
          %IDS.PART_5 = tile.element %IDS.PART[%c1_i32, %q_tile] in_range [true, true] {tile.name = "ids_q_max"} : <2, i32> (i32, i32) -> i32
          %22 = arith.addi %q0, %c64_i32 overflow<nsw> : i32
          %seen_row_6 = arith.minsi %22, %21 {tile.name = "seen_row"} : i32
          %q_tile_7 = arith.divsi %seen_row_6, %c64_i32 {tile.name = "q_tile"} : i32
          %IDS.PART_8 = tile.element %IDS.PART[%c0_i32, %q_tile_7] in_range [true, true] {tile.name = "ids_q_min"} : <2, i32> (i32, i32) -> i32
          %IDS.PART_9 = tile.element %IDS.PART[%c1_i32, %q_tile_7] in_range [true, true] {tile.name = "ids_q_max"} : <2, i32> (i32, i32) -> i32
          %window_end, %next_tile_end, %origin_end, %visible_end, %full_end = sched.for_tiles (%window, %next_tile, %origin, %visible, %full) = (%c0_i32, %tiles_end, %tiles_end, %c0_i32, %c0_i32) below %tiles_end keeps {
            %lane = sched.lane_id : i32
            %asked = arith.addi %window, %lane overflow<nsw> {tile.name = "asked"} : i32
            %25 = arith.subi %tiles_end, %c1_i32 overflow<nsw> : i32
            %26 = arith.minsi %asked, %25 : i32
            %IDS.K_15 = tile.element %IDS.K[%c0_i32, %26] in_range [true, true] {tile.name = "ids_k_min"} : <2, i32> (i32, i32) -> i32
            %IDS.K_16 = tile.element %IDS.K[%c1_i32, %26] in_range [true, true] {tile.name = "ids_k_max"} : <2, i32> (i32, i32) -> i32
            %27 = arith.cmpi sle, %IDS.Q_2, %IDS.K_16 : i32
            %28 = arith.cmpi sle, %IDS.K_15, %IDS.Q_3 : i32
            %29 = arith.andi %27, %28 : i1
            %30 = arith.cmpi sle, %IDS.Q_3, %IDS.K_15 : i32
            %31 = arith.cmpi sle, %IDS.K_16, %IDS.Q_2 : i32
            %32 = arith.andi %30, %31 : i1
            %33 = arith.cmpi slt, %asked, %tiles_end : i32
            %is_visible = arith.andi %29, %33 {tile.name = "is_visible"} : i1
            %is_visible_votes = sched.ballot %is_visible : i32
            %34 = arith.andi %is_visible, %32 : i1
            %35 = sched.ballot %34 : i32
            %is_found = arith.cmpi ne, %is_visible_votes, %c0_i32 {tile.name = "is_found"} : i32
            %36 = math.cttz %is_visible_votes : i32
            %37 = arith.addi %window, %36 overflow<nsw> : i32
            %38 = arith.select %is_found, %37, %tiles_end : i32
            %39 = arith.select %is_found, %window, %tiles_end : i32
            %40 = arith.addi %window, %c32_i32 overflow<nsw> : i32
            %41 = arith.select %is_found, %tiles_end, %40 : i32
            sched.next %41, %38, %39, %is_visible_votes, %35 : i32, i32, i32, i32, i32
          } {tile.names = ["window", "next_tile", "origin", "visible", "full"]}
          %window_end_10, %part_begin_end, %part_begin_end_11 = sched.for_tiles (%window, %part_begin, %part_begin_15) = (%origin_end, %tiles_end, %tiles_end) below %tiles_end keeps {
            %lane = sched.lane_id : i32
            %asked = arith.addi %window, %lane overflow<nsw> {tile.name = "asked"} : i32
            %25 = arith.subi %tiles_end, %c1_i32 overflow<nsw> : i32
            %26 = arith.minsi %asked, %25 : i32
            %IDS.K_16 = tile.element %IDS.K[%c0_i32, %26] in_range [true, true] {tile.name = "ids_k_min"} : <2, i32> (i32, i32) -> i32
            %IDS.K_17 = tile.element %IDS.K[%c1_i32, %26] in_range [true, true] {tile.name = "ids_k_max"} : <2, i32> (i32, i32) -> i32
            %27 = arith.cmpi sle, %IDS.PART_4, %IDS.K_17 : i32
            %28 = arith.cmpi sle, %IDS.K_16, %IDS.PART_5 : i32
            %29 = arith.andi %27, %28 : i1
            %30 = arith.cmpi sle, %IDS.PART_8, %IDS.K_17 : i32
            %31 = arith.cmpi sle, %IDS.K_16, %IDS.PART_9 : i32
            %32 = arith.andi %30, %31 : i1
            %33 = sched.ballot %29 : i32
            %34 = math.cttz %33 : i32
            %35 = arith.addi %window, %34 overflow<nsw> : i32
            %36 = sched.ballot %32 : i32
            %37 = math.cttz %36 : i32
            %38 = arith.addi %window, %37 overflow<nsw> : i32
            sched.next %tiles_end, %35, %38 : i32, i32, i32
          } {tile.names = ["window", "part_begin", "part_begin"]}
          %next_number = sched.shuffle %claimed, %c0_i32 {tile.name = "next_number"} : i32
          %23 = arith.cmpi ult, %next_number, %work_tiles : i32
          %more = arith.extui %23 {tile.name = "more"} : i1 to i32
          %24 = arith.divui %count, %c2_i32 : i32
          %q_stage = arith.remui %count, %c2_i32 {tile.name = "q_stage"} : i32
          %q_phase = arith.andi %24, %c1_i32 {tile.name = "q_phase"} : i32
          scf.if %elected {
            sched.acquire %q_barriers[%q_stage] phase %q_phase : <2>
            sched.send %b, %h, %q0, %more, %next_tile_end, %part_begin_end, %part_begin_end_11 to %tasks[%q_stage] : <stage 2 x message 1 x field 8, i32, shared>
            sched.expect_bytes 4096 on %q_barriers[%q_stage] : <2>
            sched.load_box %q_map[%b, %h, %q0, %c0_i32] to %q_ring[%q_stage] signal %q_barriers : <128 x 16, f16>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <2>
          }
          %tile_end, %stage_end, %phase_end, %origin_end_12, %visible_end_13, %full_end_14 = sched.for_tiles (%tile, %stage, %phase, %origin, %visible, %full) = (%next_tile_end, %first_stage, %first_phase, %origin_end, %visible_end, %full_end) below %tiles_end keeps {
            %k0 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
            %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
            %25 = arith.subi %next_tile, %origin : i32
            %26 = arith.cmpi ult, %25, %c32_i32 : i32
            %27 = arith.andi %25, %c31_i32 : i32
            %28 = arith.shrui %visible, %27 : i32
            %ahead = arith.select %26, %28, %c0_i32 {tile.name = "ahead"} : i32
            %is_known = arith.cmpi ne, %ahead, %c0_i32 {tile.name = "is_known"} : i32
            %29 = arith.addi %origin, %c32_i32 overflow<nsw> : i32
            %30 = arith.select %26, %29, %next_tile : i32
            %31 = arith.select %is_known, %tiles_end, %30 : i32
            %32 = math.cttz %ahead : i32
            %33 = arith.addi %next_tile, %32 overflow<nsw> : i32
            %34 = arith.select %is_known, %33, %tiles_end : i32
            %35 = arith.select %is_known, %origin, %tiles_end : i32
            %36 = arith.select %is_known, %visible, %c0_i32 : i32
            %37 = arith.select %is_known, %full, %c0_i32 : i32
            %window_end_15, %next_tile_end_16, %origin_end_17, %visible_end_18, %full_end_19 = sched.for_tiles (%window, %next_tile_20, %origin_21, %visible_22, %full_23) = (%31, %34, %35, %36, %37) below %tiles_end keeps {
              %lane = sched.lane_id : i32
              %asked = arith.addi %window, %lane overflow<nsw> {tile.name = "asked"} : i32
              %46 = arith.subi %tiles_end, %c1_i32 overflow<nsw> : i32
              %47 = arith.minsi %asked, %46 : i32
              %IDS.K_24 = tile.element %IDS.K[%c0_i32, %47] in_range [true, true] {tile.name = "ids_k_min"} : <2, i32> (i32, i32) -> i32
              %IDS.K_25 = tile.element %IDS.K[%c1_i32, %47] in_range [true, true] {tile.name = "ids_k_max"} : <2, i32> (i32, i32) -> i32
              %48 = arith.cmpi sle, %IDS.Q_2, %IDS.K_25 : i32
              %49 = arith.cmpi sle, %IDS.K_24, %IDS.Q_3 : i32
              %50 = arith.andi %48, %49 : i1
              %51 = arith.cmpi sle, %IDS.Q_3, %IDS.K_24 : i32
              %52 = arith.cmpi sle, %IDS.K_25, %IDS.Q_2 : i32
              %53 = arith.andi %51, %52 : i1
              %54 = arith.cmpi slt, %asked, %tiles_end : i32
              %is_visible = arith.andi %50, %54 {tile.name = "is_visible"} : i1
              %is_visible_votes = sched.ballot %is_visible : i32
              %55 = arith.andi %is_visible, %53 : i1
              %56 = sched.ballot %55 : i32
              %is_found = arith.cmpi ne, %is_visible_votes, %c0_i32 {tile.name = "is_found"} : i32
              %57 = math.cttz %is_visible_votes : i32
              %58 = arith.addi %window, %57 overflow<nsw> : i32
              %59 = arith.select %is_found, %58, %tiles_end : i32
              %60 = arith.select %is_found, %window, %tiles_end : i32
              %61 = arith.addi %window, %c32_i32 overflow<nsw> : i32
              %62 = arith.select %is_found, %tiles_end, %61 : i32
              sched.next %62, %59, %60, %is_visible_votes, %56 : i32, i32, i32, i32, i32
            } {tile.names = ["window", "next_tile", "origin", "visible", "full"]}
            %38 = arith.subi %tile, %origin overflow<nsw> : i32
            %39 = arith.shrui %full, %38 : i32
            %40 = arith.trunci %39 : i32 to i1
            %41 = arith.xori %40, %true : i1
            %42 = arith.extui %41 : i1 to i32
            scf.if %elected {
              sched.acquire %k_barriers[%stage] phase %phase : <2>
              sched.send %next_tile_end_16, %42 to %visits[%stage] : <stage 2 x message 1 x field 2, i32, shared>
              sched.expect_bytes 512 on %k_barriers[%stage] : <2>
              sched.load_box %k_map[%b, %kv_head, %k0, %c0_i32] to %k_ring[%stage] signal %k_barriers : <16 x 16, f16>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>, <2>
            }
            scf.if %41 {
              %thread_20 = sched.read_thread_id {tile.name = "thread"} : i32
              %lane = arith.remui %thread_20, %c32_i32 {tile.name = "lane"} : i32
              sched.acquire %k_barriers[%stage] phase %phase : <2>
              %column_ids = sched.registers "column_ids" : <k 16, i32, register, #sched.fragment<threads, warps 1>>
              %46 = arith.minsi %lane, %c15_i32 : i32
              %k = arith.addi %k0, %46 overflow<nsw> {tile.name = "k"} : i32
              %ids_k = tile.element %ids[%k] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
              sched.set %ids_k, %column_ids[%c0_i32] : i32, <k 16, i32, register, #sched.fragment<threads, warps 1>>
              %47 = arith.cmpi slt, %lane, %c16_i32 : i32
              scf.if %47 {
                %column_ids_k = sched.get %column_ids[%c0_i32] : <k 16, i32, register, #sched.fragment<threads, warps 1>> -> i32
                sched.store_shared %column_ids_k, %column_ids_ring[%stage, %c0_i32, %lane] : i32, <stage 2 x k 16, i32, shared>
              }
            }
            sched.sync_lanes
            sched.commit %k_barriers[%stage] : <2>
            %43 = arith.xori %phase, %c1_i32 : i32
            %44 = arith.addi %stage, %c1_i32 : i32
            %45 = arith.cmpi eq, %44, %c2_i32 : i32
            %next_stage = arith.select %45, %c0_i32, %44 {tile.name = "next_stage"} : i32
            %next_phase = arith.select %45, %43, %phase {tile.name = "next_phase"} : i32
            sched.next %next_tile_end_16, %next_stage, %next_phase, %origin_end_17, %visible_end_18, %full_end_19 : i32, i32, i32, i32, i32, i32
          } {tile.names = ["tile", "stage", "phase", "origin", "visible", "full"]}
          %stage_uniform = sched.uniform %stage_end : i32
          %phase_uniform = sched.uniform %phase_end : i32
          sched.next %next_number, %stage_uniform, %phase_uniform : i32, i32, i32
        } {tile.names = ["number", "count", "first_stage", "first_phase"]}
      }
    }
    sched.role "consumer" warps 8 registers 232 {
      %role_thread = sched.thread_id in_role : i32
      %1 = arith.divui %role_thread, %c128_i32 : i32
      %warpgroup = sched.uniform %1 {tile.name = "warpgroup"} : i32
      %own_ping_pong = arith.addi %warpgroup, %c5_i32 overflow<nsw> {tile.name = "own_ping_pong"} : i32
      %2 = arith.addi %warpgroup, %c1_i32 overflow<nsw> : i32
      %3 = arith.remui %2, %c2_i32 : i32
      %next_ping_pong = arith.addi %3, %c5_i32 overflow<nsw> {tile.name = "next_ping_pong"} : i32
      %4 = arith.cmpi eq, %warpgroup, %c1_i32 : i32
      scf.if %4 {
        sched.arrive_warps %next_ping_pong threads 256
      }
      sched.for_work received carries (%c0_i32, %c0_i32) (%count, %first_stage, %first_phase) {
        %thread_0 = sched.thread_id in_role {tile.name = "thread"} : i32
        %lane = arith.remui %thread_0, %c32_i32 {tile.name = "lane"} : i32
        %warp = arith.divui %thread_0, %c32_i32 {tile.name = "warp"} : i32
        %lane_row = arith.divui %lane, %c4_i32 {tile.name = "lane_row"} : i32
        %quad_lane = arith.remui %lane, %c4_i32 {tile.name = "quad_lane"} : i32
        %lane_column = arith.muli %quad_lane, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
        %warp_row = arith.muli %warp, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
        %7 = arith.divui %count, %c2_i32 : i32
        %q_stage = arith.remui %count, %c2_i32 {tile.name = "q_stage"} : i32
        %q_phase = arith.andi %7, %c1_i32 {tile.name = "q_phase"} : i32
        sched.wait %q_barriers[%q_stage] phase %q_phase : <2>
        %tasks_message:7 = sched.receive from %tasks[%q_stage] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32, i32, i32
        %first_tile = sched.uniform %tasks_message#4 {tile.name = "first_tile"} : i32
        %q0 = sched.uniform %tasks_message#2 {tile.name = "q0"} : i32
        %Sq = tile.axis_extent "q" {tile.name = "Sq"} : i32
        %Sk = tile.axis_extent "k" {tile.name = "Sk"} : i32
        %8 = arith.addi %Sk, %c15_i32 : i32
        %tiles_end = arith.divsi %8, %c16_i32 {tile.name = "tiles_end"} : i32
        %9 = arith.muli %warpgroup, %c64_i32 overflow<nsw> : i32
        %own_row = arith.addi %q0, %9 overflow<nsw> {tile.name = "own_row"} : i32
        %10 = arith.cmpi eq, %own_row, %q0 : i32
        %11 = arith.select %10, %tasks_message#5, %tasks_message#6 : i32
        %own_begin = sched.uniform %11 {tile.name = "own_begin"} : i32
        %m = sched.registers "m" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %neg_inf, %m[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %l = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c0_f32, %l[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %acc = sched.registers "acc" : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %25 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %26 = arith.addi %25, %e overflow<nsw> : i32
              sched.set %c0_f32, %acc[%c0_i32, %j, %26] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        %ids = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
        %row_ids = sched.registers "row_ids" : <q 128, i32, register, #sched.fragment<rows, warps 8>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %25 = arith.addi %warp_row, %lane_row overflow<nsw> : i32
          %26 = arith.muli %r, %c8_i32 overflow<nsw> : i32
          %27 = arith.addi %25, %26 overflow<nsw> : i32
          %q = arith.addi %q0, %27 overflow<nsw> {tile.name = "q"} : i32
          %ids_q = tile.element %ids[%q] in_range [false] {tile.name = "ids"} : <1, i32> (i32) -> i32
          sched.set %ids_q, %row_ids[%c0_i32, %r] : i32, <q 128, i32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %12 = arith.minsi %own_begin, %tiles_end : i32
        %tile_end, %stage_end, %phase_end = sched.for_tiles (%tile, %stage, %phase) = (%first_tile, %first_stage, %first_phase) below %12 keeps {
          sched.wait %k_barriers[%stage] phase %phase : <2>
          %visits_message:2 = sched.receive from %visits[%stage] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
          %next_tile = sched.uniform %visits_message#0 {tile.name = "next_tile"} : i32
          %25 = arith.cmpi slt, %next_tile, %tiles_end : i32
          scf.if %25 {
            sched.sync_warps %own_ping_pong threads 256
            sched.arrive_warps %next_ping_pong threads 256
          }
          sched.release %k_barriers[%stage] by_lanes : <2>
          sched.wait %v_barriers[%stage] phase %phase : <2>
          sched.release %v_barriers[%stage] : <2>
          %26 = arith.xori %phase, %c1_i32 : i32
          %27 = arith.addi %stage, %c1_i32 : i32
          %28 = arith.cmpi eq, %27, %c2_i32 : i32
          %next_stage = arith.select %28, %c0_i32, %27 {tile.name = "next_stage"} : i32
          %next_phase = arith.select %28, %26, %phase {tile.name = "next_phase"} : i32
          sched.next %next_tile, %next_stage, %next_phase : i32, i32, i32
        } {tile.names = ["tile", "stage", "phase"]}
        %first_tile_end, %first_stage_end, %first_phase_end = sched.for_tiles (%first_tile_16, %first_stage_17, %first_phase_18) = (%tile_end, %stage_end, %phase_end) below %tiles_end keeps {
          %k0 = arith.muli %first_tile_16, %c16_i32 {tile.name = "k0"} : i32
          sched.wait %k_barriers[%first_stage_17] phase %first_phase_18 : <2>
          %s = sched.registers "s" {tile.comment = "S = Q K^T"} : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
          sched.mma_fence
          %warpgroup_row = arith.muli %warpgroup, %c64_i32 overflow<nsw> {tile.name = "warpgroup_row"} : i32
          sched.mma_async %s, %q_ring[%q_stage, %warpgroup_row, %c0_i32], %k_ring[%first_stage_17, %c0_i32, %c0_i32] accumulate %false : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
          sched.mma_commit
          %visits_message:2 = sched.receive from %visits[%first_stage_17] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
          %next_tile = sched.uniform %visits_message#0 {tile.name = "next_tile"} : i32
          %partial = sched.uniform %visits_message#1 {tile.name = "partial"} : i32
          %partial_19 = arith.cmpi ne, %partial, %c0_i32 {tile.name = "partial"} : i32
          %25 = arith.addi %k0, %c16_i32 : i32
          %26 = arith.cmpi sgt, %25, %Sk : i32
          %27 = arith.subi %Sk, %k0 overflow<nsw> : i32
          %28 = arith.minsi %27, %c16_i32 : i32
          %29 = arith.maxsi %28, %c0_i32 : i32
          sched.mma_wait pending 0 completes(%s) : !tile.tile<q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
          scf.if %26 {
            scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %33 = arith.subi %29, %lane_column overflow<nsw> : i32
              %columns = sched.columns_below %33 {tile.name = "columns"}
              scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %34 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                  %35 = arith.addi %34, %e overflow<nsw> : i32
                  %s_qk = sched.get %s[%c0_i32, %j, %35] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %36 = arith.muli %j, %c2_i32 overflow<nsw> : i32
                  %37 = arith.addi %36, %e overflow<nsw> : i32
                  %38 = sched.test_bit %columns[%37]
                  %39 = arith.select %38, %s_qk, %neg_inf : f32
                  sched.set %39, %s[%c0_i32, %j, %35] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "j"}
            } {sched.unroll, tile.name = "r"}
          }
          scf.if %partial_19 {
            %ids_pair = sched.registers "ids_pair" : <k 8, i32, register, #sched.fragment<columns, warps 8>>
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %33 = arith.muli %j, %c8_i32 overflow<nsw> : i32
              %34 = arith.addi %lane_column, %33 overflow<nsw> : i32
              %first, %second = sched.load_pair %column_ids_ring[%first_stage_17, %c0_i32, %34] : <stage 2 x k 16, i32, shared> -> i32, i32
              sched.set %first, %ids_pair[%c0_i32, %c0_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
              sched.set %second, %ids_pair[%c0_i32, %c1_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %35 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                  %36 = arith.addi %35, %e overflow<nsw> : i32
                  %s_qk = sched.get %s[%c0_i32, %j, %36] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %row_ids_q = sched.get %row_ids[%c0_i32, %r] : <q 128, i32, register, #sched.fragment<rows, warps 8>> -> i32
                  %ids_pair_k = sched.get %ids_pair[%c0_i32, %e] : <k 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
                  %37 = arith.cmpi eq, %row_ids_q, %ids_pair_k : i32
                  %38 = arith.select %37, %s_qk, %neg_inf : f32
                  sched.set %38, %s[%c0_i32, %j, %36] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                } {sched.unroll, tile.name = "r"}
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "j"}
          }
          sched.release %k_barriers[%first_stage_17] by_lanes : <2>
          %m_next = sched.registers "m_next" {tile.comment = "m_next: the greatest of X along k, and of m"} : <q 128, f32, register, #sched.fragment<rows, warps 8>>
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            sched.set %m_q, %m_next[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %37 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %s_qk = sched.get %s[%c0_i32, %j, %37] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %38 = arith.addi %37, %c1_i32 overflow<nsw> : i32
              %s_qk_23 = sched.get %s[%c0_i32, %j, %38] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %m_next_q_24 = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %39 = arith.maxnumf %s_qk, %s_qk_23 : f32
              %40 = arith.maxnumf %m_next_q_24, %39 : f32
              sched.set %40, %m_next[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "j"}
            %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %33 = sched.shuffle_xor %m_next_q, 1 : f32
            %34 = arith.maxnumf %m_next_q, %33 : f32
            %35 = sched.shuffle_xor %34, 2 : f32
            %36 = arith.maxnumf %34, %35 : f32
            sched.set %36, %m_next[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          %m_base = sched.registers "m_base" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %33 = arith.cmpf oeq, %m_next_q, %neg_inf : f32
            %34 = arith.select %33, %c0_f32, %m_next_q : f32
            sched.set %34, %m_base[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %m_q = sched.get %m[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %33 = arith.subf %m_q, %m_base_q : f32
            %34 = arith.mulf %33, %c0.360673755_f32 : f32
            %35 = math.exp2 %34 : f32
            sched.set %35, %m[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "r"}
          %p = sched.registers "p" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %33 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                %34 = arith.addi %33, %e overflow<nsw> : i32
                %s_qk = sched.get %s[%c0_i32, %half, %34] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %m_base_q = sched.get %m_base[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %35 = arith.subf %s_qk, %m_base_q : f32
                %36 = arith.mulf %35, %c0.360673755_f32 : f32
                %37 = math.exp2 %36 : f32
                sched.set %37, %s[%c0_i32, %half, %34] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %38 = arith.addf %l_q, %37 : f32
                sched.set %38, %l[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "e"}
            } {sched.unroll, tile.name = "r"}
          } {sched.unroll, tile.name = "half"}
          scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
            %33 = arith.remui %e, %c2_i32 : i32
            %34 = arith.divui %e, %c2_i32 : i32
            %35 = arith.muli %33, %c2_i32 overflow<nsw> : i32
            %s_qk = sched.get %s[%c0_i32, %34, %35] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
            %36 = arith.addi %35, %c1_i32 overflow<nsw> : i32
            %s_qk_23 = sched.get %s[%c0_i32, %34, %36] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
            %37 = sched.pack %s_qk, %s_qk_23 : f16
            sched.set %37, %p[%c0_i32, %c0_i32, %e] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          } {sched.unroll, tile.name = "e"}
          %30 = arith.xori %first_phase_18, %c1_i32 : i32
          %31 = arith.addi %first_stage_17, %c1_i32 : i32
          %32 = arith.cmpi eq, %31, %c2_i32 : i32
          %next_stage = arith.select %32, %c0_i32, %31 {tile.name = "next_stage"} : i32
          %next_phase = arith.select %32, %30, %first_phase_18 {tile.name = "next_phase"} : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %33 = arith.maxnumf %m_next_q, %cst : f32
            sched.set %33, %m_next[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          %tile_end_20, %stage_end_21, %phase_end_22, %stage_before_end, %phase_before_end = sched.for_tiles (%tile, %stage, %phase, %stage_before, %phase_before) = (%next_tile, %next_stage, %next_phase, %first_stage_17, %first_phase_18) below %tiles_end keeps {
            %k0_23 = arith.muli %tile, %c16_i32 {tile.name = "k0"} : i32
            sched.wait %k_barriers[%stage] phase %phase : <2>
            sched.sync_warps %own_ping_pong threads 256
            %s_24 = sched.registers "s" {tile.comment = "S = Q K^T"} : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            sched.mma_fence
            sched.mma_async %s_24, %q_ring[%q_stage, %warpgroup_row, %c0_i32], %k_ring[%stage, %c0_i32, %c0_i32] accumulate %false : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>, <stage 2 x q 128 x d 16, f16, shared, #sched.swizzle<32>>, <stage 2 x k 16 x d 16, f16, shared, #sched.swizzle<32>>
            sched.mma_commit
            sched.wait %v_barriers[%stage_before] phase %phase_before : <2>
            sched.mma_fence {tile.comment = "ACC += P V"}
            sched.mma_async %acc, %p[%c0_i32, %c0_i32], %v_ring[%stage_before, %c0_i32, %c0_i32] accumulate %true transpose : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
            sched.mma_commit
            sched.arrive_warps %next_ping_pong threads 256
            %visits_message_25:2 = sched.receive from %visits[%stage] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
            %next_tile_26 = sched.uniform %visits_message_25#0 {tile.name = "next_tile"} : i32
            %partial_27 = sched.uniform %visits_message_25#1 {tile.name = "partial"} : i32
            %partial_28 = arith.cmpi ne, %partial_27, %c0_i32 {tile.name = "partial"} : i32
            %33 = arith.addi %k0_23, %c16_i32 : i32
            %34 = arith.cmpi sgt, %33, %Sk : i32
            %35 = arith.subi %Sk, %k0_23 overflow<nsw> : i32
            %36 = arith.minsi %35, %c16_i32 : i32
            %37 = arith.maxsi %36, %c0_i32 : i32
            sched.mma_wait pending 1 completes(%s_24) : !tile.tile<q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            scf.if %34 {
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %44 = arith.subi %37, %lane_column overflow<nsw> : i32
                %columns = sched.columns_below %44 {tile.name = "columns"}
                scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %45 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                    %46 = arith.addi %45, %e overflow<nsw> : i32
                    %s_qk = sched.get %s_24[%c0_i32, %j, %46] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %47 = arith.muli %j, %c2_i32 overflow<nsw> : i32
                    %48 = arith.addi %47, %e overflow<nsw> : i32
                    %49 = sched.test_bit %columns[%48]
                    %50 = arith.select %49, %s_qk, %neg_inf : f32
                    sched.set %50, %s_24[%c0_i32, %j, %46] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "j"}
              } {sched.unroll, tile.name = "r"}
            }
            scf.if %partial_28 {
              %ids_pair = sched.registers "ids_pair" : <k 8, i32, register, #sched.fragment<columns, warps 8>>
              scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %44 = arith.muli %j, %c8_i32 overflow<nsw> : i32
                %45 = arith.addi %lane_column, %44 overflow<nsw> : i32
                %first, %second = sched.load_pair %column_ids_ring[%stage, %c0_i32, %45] : <stage 2 x k 16, i32, shared> -> i32, i32
                sched.set %first, %ids_pair[%c0_i32, %c0_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
                sched.set %second, %ids_pair[%c0_i32, %c1_i32] : i32, <k 8, i32, register, #sched.fragment<columns, warps 8>>
                scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %46 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                    %47 = arith.addi %46, %e overflow<nsw> : i32
                    %s_qk = sched.get %s_24[%c0_i32, %j, %47] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %row_ids_q = sched.get %row_ids[%c0_i32, %r] : <q 128, i32, register, #sched.fragment<rows, warps 8>> -> i32
                    %ids_pair_k = sched.get %ids_pair[%c0_i32, %e] : <k 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
                    %48 = arith.cmpi eq, %row_ids_q, %ids_pair_k : i32
                    %49 = arith.select %48, %s_qk, %neg_inf : f32
                    sched.set %49, %s_24[%c0_i32, %j, %47] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "r"}
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "j"}
            }
            sched.release %k_barriers[%stage] by_lanes : <2>
            sched.mma_wait pending 0 completes(%acc, %p) : !tile.tile<q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
            sched.release %v_barriers[%stage_before] : <2>
            %p_29 = sched.registers "p" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
            %sum = sched.registers "sum" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              sched.set %c0_f32, %sum[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %44 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                  %45 = arith.addi %44, %e overflow<nsw> : i32
                  %s_qk = sched.get %s_24[%c0_i32, %half, %45] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %46 = arith.subf %s_qk, %m_next_q : f32
                  %47 = arith.mulf %46, %c0.360673755_f32 : f32
                  %48 = math.exp2 %47 : f32
                  sched.set %48, %p_29[%c0_i32, %half, %45] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                  %sum_q_34 = sched.get %sum[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %49 = arith.addf %sum_q_34, %48 : f32
                  sched.set %49, %sum[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                } {sched.unroll, tile.name = "e"}
              } {sched.unroll, tile.name = "r"}
            } {sched.unroll, tile.name = "half"}
            scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
              %44 = arith.remui %e, %c2_i32 : i32
              %45 = arith.divui %e, %c2_i32 : i32
              %46 = arith.muli %44, %c2_i32 overflow<nsw> : i32
              %p_qk = sched.get %p_29[%c0_i32, %45, %46] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %47 = arith.addi %46, %c1_i32 overflow<nsw> : i32
              %p_qk_34 = sched.get %p_29[%c0_i32, %45, %47] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %48 = sched.pack %p_qk, %p_qk_34 : f16
              sched.set %48, %p[%c0_i32, %c0_i32, %e] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
            } {sched.unroll, tile.name = "e"}
            %l_30 = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
            scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %sum_q_34 = sched.get %sum[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %44 = arith.addf %l_q, %sum_q_34 : f32
              sched.set %44, %l_30[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            %sum_q = sched.get %sum[%c0_i32, %c0_i32] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %38 = arith.cmpf uge, %sum_q, %c32768_f32 : f32
            %sum_q_31 = sched.get %sum[%c0_i32, %c1_i32] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            %39 = arith.cmpf uge, %sum_q_31, %c32768_f32 : f32
            %40 = arith.ori %38, %39 : i1
            %moves = sched.any_lane %40 {tile.name = "moves"}
            scf.if %moves {
              %m_next_34 = sched.registers "m_next" {tile.comment = "m_next: the greatest of X along k, and of m_next"} : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %m_next_q, %m_next_34[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  %48 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                  %s_qk = sched.get %s_24[%c0_i32, %j, %48] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %49 = arith.addi %48, %c1_i32 overflow<nsw> : i32
                  %s_qk_38 = sched.get %s_24[%c0_i32, %j, %49] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                  %m_next_q_39 = sched.get %m_next_34[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                  %50 = arith.maxnumf %s_qk, %s_qk_38 : f32
                  %51 = arith.maxnumf %m_next_q_39, %50 : f32
                  sched.set %51, %m_next_34[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                } {sched.unroll, tile.name = "j"}
                %m_next_q_37 = sched.get %m_next_34[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %44 = sched.shuffle_xor %m_next_q_37, 1 : f32
                %45 = arith.maxnumf %m_next_q_37, %44 : f32
                %46 = sched.shuffle_xor %45, 2 : f32
                %47 = arith.maxnumf %45, %46 : f32
                sched.set %47, %m_next_34[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              %alpha = sched.registers "alpha" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %m_next_q_37 = sched.get %m_next_34[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %44 = arith.subf %m_next_q, %m_next_q_37 : f32
                %45 = arith.mulf %44, %c0.360673755_f32 : f32
                %46 = math.exp2 %45 : f32
                sched.set %46, %alpha[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              %l_35 = sched.registers "l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %alpha_q = sched.get %alpha[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                %44 = arith.mulf %l_q, %alpha_q : f32
                sched.set %44, %l_35[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %44 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                    %45 = arith.addi %44, %e overflow<nsw> : i32
                    %acc_qdv_37 = sched.get %acc[%c0_i32, %j, %45] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %alpha_q = sched.get %alpha[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %46 = arith.mulf %acc_qdv_37, %alpha_q : f32
                    sched.set %46, %acc[%c0_i32, %j, %45] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "j"}
              } {sched.unroll, tile.name = "r"}
              %p_36 = sched.registers "p" {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference"} : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
              scf.for %half = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                  scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                    %44 = arith.muli %r, %c2_i32 overflow<nsw> : i32
                    %45 = arith.addi %44, %e overflow<nsw> : i32
                    %s_qk = sched.get %s_24[%c0_i32, %half, %45] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                    %m_next_q = sched.get %m_next_34[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %46 = arith.subf %s_qk, %m_next_q : f32
                    %47 = arith.mulf %46, %c0.360673755_f32 : f32
                    %48 = math.exp2 %47 : f32
                    sched.set %48, %p_36[%c0_i32, %half, %45] : f32, <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>>
                    %l_q = sched.get %l_35[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                    %49 = arith.addf %l_q, %48 : f32
                    sched.set %49, %l_35[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
                  } {sched.unroll, tile.name = "e"}
                } {sched.unroll, tile.name = "r"}
              } {sched.unroll, tile.name = "half"}
              scf.for %e = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
                %44 = arith.remui %e, %c2_i32 : i32
                %45 = arith.divui %e, %c2_i32 : i32
                %46 = arith.muli %44, %c2_i32 overflow<nsw> : i32
                %p_qk = sched.get %p_36[%c0_i32, %45, %46] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %47 = arith.addi %46, %c1_i32 overflow<nsw> : i32
                %p_qk_37 = sched.get %p_36[%c0_i32, %45, %47] : <q 128 x k 16, f32, register, #sched.fragment<c, warps 8>> -> f32
                %48 = sched.pack %p_qk, %p_qk_37 : f16
                sched.set %48, %p[%c0_i32, %c0_i32, %e] : i32, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
              } {sched.unroll, tile.name = "e"}
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %m_next_q = sched.get %m_next_34[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %m_next_q, %m_next[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
              scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
                %l_q = sched.get %l_35[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
                sched.set %l_q, %l_30[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
              } {sched.unroll, tile.name = "r"}
            }
            %41 = arith.xori %phase, %c1_i32 : i32
            %42 = arith.addi %stage, %c1_i32 : i32
            %43 = arith.cmpi eq, %42, %c2_i32 : i32
            %next_stage_32 = arith.select %43, %c0_i32, %42 {tile.name = "next_stage"} : i32
            %next_phase_33 = arith.select %43, %41, %phase {tile.name = "next_phase"} : i32
            scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %l_q = sched.get %l_30[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              sched.set %l_q, %l[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
            } {sched.unroll, tile.name = "r"}
            sched.next %next_tile_26, %next_stage_32, %next_phase_33, %stage, %phase : i32, i32, i32, i32, i32
          } {tile.names = ["tile", "stage", "phase", "stage_before", "phase_before"]}
          sched.wait %v_barriers[%stage_before_end] phase %phase_before_end : <2>
          sched.mma_fence
          sched.mma_async %acc, %p[%c0_i32, %c0_i32], %v_ring[%stage_before_end, %c0_i32, %c0_i32] accumulate %true transpose : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, <q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>, <stage 2 x k 16 x dv 16, f16, shared, #sched.swizzle<32>>
          sched.mma_commit
          sched.mma_wait pending 0 completes(%acc, %p) : !tile.tile<q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x k 16, f16, register, #sched.fragment<a, warps 8>>
          sched.release %v_barriers[%stage_before_end] : <2>
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %m_next_q = sched.get %m_next[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
            sched.set %m_next_q, %m[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
          } {sched.unroll, tile.name = "r"}
          sched.next %tiles_end, %stage_end_21, %phase_end_22 : i32, i32, i32
        } {tile.names = ["first_tile", "first_stage", "first_phase"]}
        %tasks_message_1:7 = sched.receive from %tasks[%q_stage] : <stage 2 x message 1 x field 8, i32, shared> -> i32, i32, i32, i32, i32, i32, i32
        %b = sched.uniform %tasks_message_1#0 {tile.name = "b"} : i32
        %h = sched.uniform %tasks_message_1#1 {tile.name = "h"} : i32
        %thread_2 = sched.read_thread_id {tile.name = "thread"} : i32
        %lane_3 = arith.remui %thread_2, %c32_i32 {tile.name = "lane"} : i32
        %quad_lane_4 = arith.remui %lane_3, %c4_i32 {tile.name = "quad_lane"} : i32
        %warp_5 = arith.divui %thread_2, %c32_i32 {tile.name = "warp"} : i32
        %warp_row_6 = arith.muli %warp_5, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
        %lane_row_7 = arith.divui %lane_3, %c4_i32 {tile.name = "lane_row"} : i32
        %q0_8 = sched.uniform %tasks_message_1#2 {tile.name = "q0"} : i32
        sched.release %q_barriers[%q_stage] : <2>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %25 = sched.shuffle_xor %l_q, 1 : f32
          %26 = arith.addf %l_q, %25 : f32
          %27 = sched.shuffle_xor %26, 2 : f32
          %28 = arith.addf %26, %27 : f32
          sched.set %28, %l[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %inverse_l = sched.registers "inverse_l" : <q 128, f32, register, #sched.fragment<rows, warps 8>>
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %25 = arith.cmpf oeq, %l_q, %c0_f32 : f32
          %26 = arith.divf %c1_f32, %l_q : f32
          %27 = arith.select %25, %c0_f32, %26 : f32
          sched.set %27, %inverse_l[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %j = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
              %25 = arith.muli %r, %c2_i32 overflow<nsw> : i32
              %26 = arith.addi %25, %e overflow<nsw> : i32
              %acc_qdv_16 = sched.get %acc[%c0_i32, %j, %26] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
              %inverse_l_q = sched.get %inverse_l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              %27 = arith.mulf %acc_qdv_16, %inverse_l_q : f32
              sched.set %27, %acc[%c0_i32, %j, %26] : f32, <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>>
            } {sched.unroll, tile.name = "e"}
          } {sched.unroll, tile.name = "j"}
        } {sched.unroll, tile.name = "r"}
        scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %m_q = sched.get %m[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %l_q = sched.get %l[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
          %25 = arith.mulf %m_q, %c0.25_f32 : f32
          %26 = arith.cmpf oeq, %l_q, %c0_f32 : f32
          %27 = math.log %l_q : f32
          %28 = arith.addf %25, %27 : f32
          %29 = arith.select %26, %neg_inf, %28 : f32
          sched.set %29, %m[%c0_i32, %r] : f32, <q 128, f32, register, #sched.fragment<rows, warps 8>>
        } {sched.unroll, tile.name = "r"}
        %LSE = tile.param "lse" {tile.name = "lse"} : !tile.view<3, f32>
        %13 = sched.is_null %LSE : <3, f32>
        %14 = arith.xori %13, %true : i1
        %lse_head = sched.slice %LSE[%b, %h] {tile.name = "lse_head"} : <3, f32> -> <1, f32>
        scf.if %14 {
          %25 = arith.cmpi eq, %quad_lane_4, %c0_i32 : i32
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %26 = arith.addi %warp_row_6, %lane_row_7 overflow<nsw> : i32
            %27 = arith.muli %r, %c8_i32 overflow<nsw> : i32
            %28 = arith.addi %26, %27 overflow<nsw> : i32
            %row = arith.addi %q0_8, %28 overflow<nsw> {tile.name = "row"} : i32
            %29 = arith.cmpi slt, %row, %Sq : i32
            %30 = arith.andi %25, %29 : i1
            scf.if %30 {
              %m_q = sched.get %m[%c0_i32, %r] : <q 128, f32, register, #sched.fragment<rows, warps 8>> -> f32
              sched.store_element %m_q, %lse_head[%row] : f32, <1, f32>
            }
          } {sched.unroll, tile.name = "r"}
        }
        %15 = arith.remui %thread_2, %c128_i32 : i32
        %16 = arith.cmpi eq, %15, %c0_i32 : i32
        scf.if %16 {
          sched.wait_boxes pending 0
        }
        sched.sync_warps %2 threads 128
        %17 = arith.remui %lane_3, %c16_i32 : i32
        %18 = arith.addi %warp_row_6, %17 overflow<nsw> : i32
        %19 = arith.divui %lane_3, %c16_i32 : i32
        %20 = arith.muli %19, %c8_i32 overflow<nsw> : i32
        %acc_qdv = sched.get %acc[%c0_i32, %c0_i32, %c0_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %acc_qdv_9 = sched.get %acc[%c0_i32, %c0_i32, %c1_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %21 = sched.pack %acc_qdv, %acc_qdv_9 : f16
        %acc_qdv_10 = sched.get %acc[%c0_i32, %c0_i32, %c2_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %acc_qdv_11 = sched.get %acc[%c0_i32, %c0_i32, %c3_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %22 = sched.pack %acc_qdv_10, %acc_qdv_11 : f16
        %acc_qdv_12 = sched.get %acc[%c0_i32, %c1_i32, %c0_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %acc_qdv_13 = sched.get %acc[%c0_i32, %c1_i32, %c1_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %23 = sched.pack %acc_qdv_12, %acc_qdv_13 : f16
        %acc_qdv_14 = sched.get %acc[%c0_i32, %c1_i32, %c2_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %acc_qdv_15 = sched.get %acc[%c0_i32, %c1_i32, %c3_i32] : <q 128 x dv 16, f32, register, #sched.fragment<c, warps 8>> -> f32
        %24 = sched.pack %acc_qdv_14, %acc_qdv_15 : f16
        sched.store_matrix %21, %22, %23, %24 to %o_tile[%c0_i32, %18, %20] step[%c0_i32, %c0_i32] : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>
        sched.fence_async
        sched.sync_warps %2 threads 128
        scf.if %16 {
          %warpgroup_row = arith.muli %warpgroup, %c64_i32 overflow<nsw> {tile.name = "warpgroup_row"} : i32
          %25 = arith.addi %q0_8, %warpgroup_row overflow<nsw> : i32
          sched.store_box %o_tile[%c0_i32, %warpgroup_row] to %o_map[%b, %h, %25, %c0_i32] : <stage 1 x q 128 x dv 16, f16, shared, #sched.swizzle<32>>, <64 x 16, f16>
          sched.commit_boxes
        }
        %first_stage_uniform = sched.uniform %first_stage_end : i32
        %first_phase_uniform = sched.uniform %first_phase_end : i32
        sched.next %tasks_message_1#3, %first_stage_uniform, %first_phase_uniform : i32, i32, i32
      } {tile.names = ["count", "first_stage", "first_phase"]}
      %5 = arith.remui %role_thread, %c128_i32 : i32
      %6 = arith.cmpi eq, %5, %c0_i32 : i32
      scf.if %6 {
        sched.wait_boxes pending 0
      }
    }
  }
  sched.kernel @documents_bounds(ids.q: workspace [end 2, q by 128] i32, ids.k: workspace [end 2, k by 16] i32, ids.part: workspace [end 2, q by 64] i32, work_counter: workspace [counters 1] i32) grid [share 256] arch "sm_90a" threads 256 blocks_per_sm 1 shared_bytes 384 dtype f16 plan <q 128 x k 16, warps = 8, blocks_per_sm = 1> attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
    %c-2147483648_i32 = arith.constant -2147483648 : i32
    %c6_i32 = arith.constant 6 : i32
    %c5_i32 = arith.constant 5 : i32
    %c3_i32 = arith.constant 3 : i32
    %c2147483647_i32 = arith.constant 2147483647 : i32
    %c0_i32 = arith.constant 0 : i32
    %c127_i32 = arith.constant 127 : i32
    %c128_i32 = arith.constant 128 : i32
    %c7_i32 = arith.constant 7 : i32
    %c8_i32 = arith.constant 8 : i32
    %c255_i32 = arith.constant 255 : i32
    %c256_i32 = arith.constant 256 : i32
    %c1_i32 = arith.constant 1 : i32
    %c15_i32 = arith.constant 15 : i32
    %c63_i32 = arith.constant 63 : i32
    %c64_i32 = arith.constant 64 : i32
    %c16_i32 = arith.constant 16 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c32_i32 = arith.constant 32 : i32
    sched.start_next_launch
    sched.for_work grid (%number) {
      %share = sched.nonnegative %number {tile.name = "share"} : i32
      %thread = sched.thread_id {tile.name = "thread"} : i32
      %lane = arith.remui %thread, %c32_i32 {tile.name = "lane"} : i32
      %warp = arith.divui %thread, %c32_i32 {tile.name = "warp"} : i32
      %lane_row = arith.divui %lane, %c4_i32 {tile.name = "lane_row"} : i32
      %quad_lane = arith.remui %lane, %c4_i32 {tile.name = "quad_lane"} : i32
      %lane_column = arith.muli %quad_lane, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %warp_row = arith.muli %warp, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %0 = arith.cmpi eq, %share, %c0_i32 : i32
      %1 = arith.extui %0 : i1 to i32
      %fragment = sched.registers "fragment" : <counters 8, i32, register, #sched.fragment<columns, warps 8>>
      scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        sched.set %c0_i32, %fragment[%c0_i32, %e] : i32, <counters 8, i32, register, #sched.fragment<columns, warps 8>>
      } {sched.unroll, tile.name = "e"}
      %WORK_COUNTER = tile.param "work_counter" {tile.name = "work_counter"} : !tile.view<1, i32>
      %work_counter_head = sched.slice %WORK_COUNTER[] {tile.name = "work_counter_head"} : <1, i32> -> <1, i32>
      %2 = arith.cmpi eq, %lane_row, %c0_i32 : i32
      %3 = arith.cmpi slt, %warp, %c1_i32 : i32
      %4 = arith.andi %2, %3 : i1
      scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
        %26 = arith.addi %lane_column, %e overflow<nsw> : i32
        %27 = arith.cmpi slt, %26, %1 : i32
        %28 = arith.andi %4, %27 : i1
        scf.if %28 {
          %fragment_counters = sched.get %fragment[%c0_i32, %e] : <counters 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          sched.store_element %fragment_counters, %work_counter_head[%26] : i32, <1, i32>
        }
      } {sched.unroll, tile.name = "e"}
      %ids = tile.param "tensors.ids" {tile.name = "ids"} : !tile.view<1, i32>
      %IDS.Q = tile.param "ids.q" {tile.name = "ids.q"} : !tile.view<2, i32>
      %q = tile.axis_extent "q" {tile.name = "q"} : i32
      %5 = arith.addi %q, %c127_i32 overflow<nsw> : i32
      %entries = arith.divsi %5, %c128_i32 {tile.name = "entries"} : i32
      %6 = arith.addi %entries, %c7_i32 overflow<nsw> : i32
      %groups = arith.divsi %6, %c8_i32 {tile.name = "groups"} : i32
      %7 = arith.addi %groups, %c255_i32 overflow<nsw> : i32
      %each = arith.divsi %7, %c256_i32 {tile.name = "each"} : i32
      %8 = arith.muli %share, %each overflow<nsw> : i32
      %first_group = arith.minsi %8, %groups {tile.name = "first_group"} : i32
      %9 = arith.addi %first_group, %each overflow<nsw> : i32
      %end_group = arith.minsi %9, %groups {tile.name = "end_group"} : i32
      %10 = arith.subi %q, %c1_i32 overflow<nsw> : i32
      %ids.q_head = sched.slice %IDS.Q[%c0_i32] {tile.name = "ids.q_head"} : <2, i32> -> <1, i32>
      %ids.q_head_0 = sched.slice %IDS.Q[%c1_i32] {tile.name = "ids.q_head"} : <2, i32> -> <1, i32>
      sched.for_tiles (%tile) = (%first_group) below %end_group {
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        %26 = arith.remsi %tile, %groups : i32
        %first_entry = arith.muli %26, %c8_i32 overflow<nsw> {tile.name = "first_entry"} : i32
        %ids_21 = sched.registers "ids" : <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %27 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %28 = arith.addi %27, %e overflow<nsw> : i32
            %29 = arith.addi %warp_row, %lane_row overflow<nsw> : i32
            %30 = arith.muli %r, %c8_i32 overflow<nsw> : i32
            %31 = arith.addi %29, %30 overflow<nsw> : i32
            %32 = arith.addi %lane_column, %e overflow<nsw> : i32
            %entry = arith.addi %first_entry, %32 overflow<nsw> {tile.name = "entry"} : i32
            %33 = arith.muli %entry, %c128_i32 overflow<nsw> : i32
            %34 = arith.addi %33, %31 overflow<nsw> : i32
            %35 = arith.minsi %34, %10 : i32
            %ids_24 = tile.element %ids[%35] in_range [false] : <1, i32> (i32) -> i32
            sched.set %ids_24, %ids_21[%c0_i32, %c0_i32, %28] : i32, <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>>
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "e"}
        %least = sched.registers "least" {tile.comment = "least: the least of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_parts = sched.shared "column_parts" at 0 : <stage 1 x warp 8 x entry 8, i32, shared>
        sched.barrier
        %column_part = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c2147483647_i32, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>> -> i32
          %27 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_24 = sched.get %ids_21[%c0_i32, %c0_i32, %27] : <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>> -> i32
          %column_part_entry = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %28 = arith.minsi %ids_rowentry, %ids_rowentry_24 : i32
          %29 = arith.minsi %column_part_entry, %28 : i32
          sched.set %29, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_25 = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = sched.shuffle_xor %column_part_entry_25, 4 : i32
          %31 = arith.minsi %column_part_entry_25, %30 : i32
          %32 = sched.shuffle_xor %31, 8 : i32
          %33 = arith.minsi %31, %32 : i32
          %34 = sched.shuffle_xor %33, 16 : i32
          %35 = arith.minsi %33, %34 : i32
          scf.if %2 {
            %36 = arith.addi %lane_column, %e overflow<nsw> : i32
            sched.store_shared %35, %column_parts[%c0_i32, %warp, %36] : i32, <stage 1 x warp 8 x entry 8, i32, shared>
          }
        } {sched.unroll, tile.name = "e"}
        sched.barrier
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column, %e overflow<nsw> : i32
          %28 = sched.load_shared %column_parts[%c0_i32, %c0_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %29 = sched.load_shared %column_parts[%c0_i32, %c1_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %30 = arith.minsi %28, %29 : i32
          %31 = sched.load_shared %column_parts[%c0_i32, %c2_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %32 = arith.minsi %30, %31 : i32
          %33 = sched.load_shared %column_parts[%c0_i32, %c3_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %34 = arith.minsi %32, %33 : i32
          %35 = sched.load_shared %column_parts[%c0_i32, %c4_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %36 = arith.minsi %34, %35 : i32
          %37 = sched.load_shared %column_parts[%c0_i32, %c5_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %38 = arith.minsi %36, %37 : i32
          %39 = sched.load_shared %column_parts[%c0_i32, %c6_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %40 = arith.minsi %38, %39 : i32
          %41 = sched.load_shared %column_parts[%c0_i32, %c7_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %42 = arith.minsi %40, %41 : i32
          sched.set %42, %least[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %27 overflow<nsw> {tile.name = "row"} : i32
          %28 = arith.cmpi slt, %row, %entries : i32
          %29 = arith.andi %4, %28 : i1
          scf.if %29 {
            %least_entry = sched.get %least[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %least_entry, %ids.q_head[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        %greatest = sched.registers "greatest" {tile.comment = "greatest: the greatest of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_parts_22 = sched.shared "column_parts" at 0 : <stage 1 x warp 8 x entry 8, i32, shared>
        sched.barrier
        %column_part_23 = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c-2147483648_i32, %column_part_23[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>> -> i32
          %27 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_24 = sched.get %ids_21[%c0_i32, %c0_i32, %27] : <row 128 x entry 8, i32, register, #sched.fragment<c, warps 8>> -> i32
          %column_part_entry = sched.get %column_part_23[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %28 = arith.maxsi %ids_rowentry, %ids_rowentry_24 : i32
          %29 = arith.maxsi %column_part_entry, %28 : i32
          sched.set %29, %column_part_23[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_25 = sched.get %column_part_23[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = sched.shuffle_xor %column_part_entry_25, 4 : i32
          %31 = arith.maxsi %column_part_entry_25, %30 : i32
          %32 = sched.shuffle_xor %31, 8 : i32
          %33 = arith.maxsi %31, %32 : i32
          %34 = sched.shuffle_xor %33, 16 : i32
          %35 = arith.maxsi %33, %34 : i32
          scf.if %2 {
            %36 = arith.addi %lane_column, %e overflow<nsw> : i32
            sched.store_shared %35, %column_parts_22[%c0_i32, %warp, %36] : i32, <stage 1 x warp 8 x entry 8, i32, shared>
          }
        } {sched.unroll, tile.name = "e"}
        sched.barrier
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column, %e overflow<nsw> : i32
          %28 = sched.load_shared %column_parts_22[%c0_i32, %c0_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %29 = sched.load_shared %column_parts_22[%c0_i32, %c1_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %30 = arith.maxsi %28, %29 : i32
          %31 = sched.load_shared %column_parts_22[%c0_i32, %c2_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %32 = arith.maxsi %30, %31 : i32
          %33 = sched.load_shared %column_parts_22[%c0_i32, %c3_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %34 = arith.maxsi %32, %33 : i32
          %35 = sched.load_shared %column_parts_22[%c0_i32, %c4_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %36 = arith.maxsi %34, %35 : i32
          %37 = sched.load_shared %column_parts_22[%c0_i32, %c5_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %38 = arith.maxsi %36, %37 : i32
          %39 = sched.load_shared %column_parts_22[%c0_i32, %c6_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %40 = arith.maxsi %38, %39 : i32
          %41 = sched.load_shared %column_parts_22[%c0_i32, %c7_i32, %27] : <stage 1 x warp 8 x entry 8, i32, shared> -> i32
          %42 = arith.maxsi %40, %41 : i32
          sched.set %42, %greatest[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %27 overflow<nsw> {tile.name = "row"} : i32
          %28 = arith.cmpi slt, %row, %entries : i32
          %29 = arith.andi %4, %28 : i1
          scf.if %29 {
            %greatest_entry = sched.get %greatest[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %greatest_entry, %ids.q_head_0[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        sched.next %next_tile : i32
      }
      %block = sched.read_block_id {tile.name = "block"} : i32
      %share_1 = sched.nonnegative %block {tile.name = "share"} : i32
      %thread_2 = sched.read_thread_id {tile.name = "thread"} : i32
      %lane_3 = arith.remui %thread_2, %c32_i32 {tile.name = "lane"} : i32
      %lane_row_4 = arith.divui %lane_3, %c4_i32 {tile.name = "lane_row"} : i32
      %quad_lane_5 = arith.remui %lane_3, %c4_i32 {tile.name = "quad_lane"} : i32
      %lane_column_6 = arith.muli %quad_lane_5, %c2_i32 overflow<nsw> {tile.name = "lane_column"} : i32
      %11 = arith.cmpi eq, %lane_row_4, %c0_i32 : i32
      %warp_7 = arith.divui %thread_2, %c32_i32 {tile.name = "warp"} : i32
      %12 = arith.cmpi slt, %warp_7, %c1_i32 : i32
      %13 = arith.andi %11, %12 : i1
      %14 = arith.remui %warp_7, %c4_i32 : i32
      %warp_row_8 = arith.muli %14, %c16_i32 overflow<nsw> {tile.name = "warp_row"} : i32
      %IDS.K = tile.param "ids.k" {tile.name = "ids.k"} : !tile.view<2, i32>
      %k = tile.axis_extent "k" {tile.name = "k"} : i32
      %15 = arith.addi %k, %c15_i32 overflow<nsw> : i32
      %entries_9 = arith.divsi %15, %c16_i32 {tile.name = "entries"} : i32
      %16 = arith.addi %entries_9, %c7_i32 overflow<nsw> : i32
      %groups_10 = arith.divsi %16, %c8_i32 {tile.name = "groups"} : i32
      %17 = arith.addi %groups_10, %c255_i32 overflow<nsw> : i32
      %each_11 = arith.divsi %17, %c256_i32 {tile.name = "each"} : i32
      %18 = arith.muli %share_1, %each_11 overflow<nsw> : i32
      %first_group_12 = arith.minsi %18, %groups_10 {tile.name = "first_group"} : i32
      %19 = arith.addi %first_group_12, %each_11 overflow<nsw> : i32
      %end_group_13 = arith.minsi %19, %groups_10 {tile.name = "end_group"} : i32
      %20 = arith.subi %k, %c1_i32 overflow<nsw> : i32
      %ids.k_head = sched.slice %IDS.K[%c0_i32] {tile.name = "ids.k_head"} : <2, i32> -> <1, i32>
      %ids.k_head_14 = sched.slice %IDS.K[%c1_i32] {tile.name = "ids.k_head"} : <2, i32> -> <1, i32>
      sched.for_tiles (%tile) = (%first_group_12) below %end_group_13 {
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        %26 = arith.remsi %tile, %groups_10 : i32
        %first_entry = arith.muli %26, %c8_i32 overflow<nsw> {tile.name = "first_entry"} : i32
        %ids_21 = sched.registers "ids" : <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %27 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %28 = arith.addi %27, %e overflow<nsw> : i32
            %29 = arith.muli %r, %c8_i32 overflow<nsw> : i32
            %30 = arith.addi %lane_row_4, %29 overflow<nsw> : i32
            %31 = arith.addi %lane_column_6, %e overflow<nsw> : i32
            %entry = arith.addi %first_entry, %31 overflow<nsw> {tile.name = "entry"} : i32
            %32 = arith.muli %entry, %c16_i32 overflow<nsw> : i32
            %33 = arith.addi %32, %30 overflow<nsw> : i32
            %34 = arith.minsi %33, %20 : i32
            %ids_23 = tile.element %ids[%34] in_range [false] : <1, i32> (i32) -> i32
            sched.set %ids_23, %ids_21[%c0_i32, %c0_i32, %28] : i32, <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>>
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "e"}
        %least = sched.registers "least" {tile.comment = "least: the least of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_part = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c2147483647_i32, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>> -> i32
          %27 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_23 = sched.get %ids_21[%c0_i32, %c0_i32, %27] : <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>> -> i32
          %column_part_entry = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %28 = arith.minsi %ids_rowentry, %ids_rowentry_23 : i32
          %29 = arith.minsi %column_part_entry, %28 : i32
          sched.set %29, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_24 = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = sched.shuffle_xor %column_part_entry_24, 4 : i32
          %31 = arith.minsi %column_part_entry_24, %30 : i32
          %32 = sched.shuffle_xor %31, 8 : i32
          %33 = arith.minsi %31, %32 : i32
          %34 = sched.shuffle_xor %33, 16 : i32
          %35 = arith.minsi %33, %34 : i32
          sched.set %35, %least[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %27 overflow<nsw> {tile.name = "row"} : i32
          %28 = arith.cmpi slt, %row, %entries_9 : i32
          %29 = arith.andi %13, %28 : i1
          scf.if %29 {
            %least_entry = sched.get %least[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %least_entry, %ids.k_head[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        %greatest = sched.registers "greatest" {tile.comment = "greatest: the greatest of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_part_22 = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c-2147483648_i32, %column_part_22[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>> -> i32
          %27 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_23 = sched.get %ids_21[%c0_i32, %c0_i32, %27] : <row 16 x entry 8, i32, register, #sched.fragment<c, warps 1>> -> i32
          %column_part_entry = sched.get %column_part_22[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %28 = arith.maxsi %ids_rowentry, %ids_rowentry_23 : i32
          %29 = arith.maxsi %column_part_entry, %28 : i32
          sched.set %29, %column_part_22[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_24 = sched.get %column_part_22[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = sched.shuffle_xor %column_part_entry_24, 4 : i32
          %31 = arith.maxsi %column_part_entry_24, %30 : i32
          %32 = sched.shuffle_xor %31, 8 : i32
          %33 = arith.maxsi %31, %32 : i32
          %34 = sched.shuffle_xor %33, 16 : i32
          %35 = arith.maxsi %33, %34 : i32
          sched.set %35, %greatest[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %27 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %27 overflow<nsw> {tile.name = "row"} : i32
          %28 = arith.cmpi slt, %row, %entries_9 : i32
          %29 = arith.andi %13, %28 : i1
          scf.if %29 {
            %greatest_entry = sched.get %greatest[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %greatest_entry, %ids.k_head_14[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        sched.next %next_tile : i32
      }
      %IDS.PART = tile.param "ids.part" {tile.name = "ids.part"} : !tile.view<2, i32>
      %21 = arith.addi %q, %c63_i32 overflow<nsw> : i32
      %entries_15 = arith.divsi %21, %c64_i32 {tile.name = "entries"} : i32
      %22 = arith.addi %entries_15, %c7_i32 overflow<nsw> : i32
      %groups_16 = arith.divsi %22, %c8_i32 {tile.name = "groups"} : i32
      %23 = arith.addi %groups_16, %c255_i32 overflow<nsw> : i32
      %each_17 = arith.divsi %23, %c256_i32 {tile.name = "each"} : i32
      %24 = arith.muli %share_1, %each_17 overflow<nsw> : i32
      %first_group_18 = arith.minsi %24, %groups_16 {tile.name = "first_group"} : i32
      %25 = arith.addi %first_group_18, %each_17 overflow<nsw> : i32
      %end_group_19 = arith.minsi %25, %groups_16 {tile.name = "end_group"} : i32
      %ids.part_head = sched.slice %IDS.PART[%c0_i32] {tile.name = "ids.part_head"} : <2, i32> -> <1, i32>
      %ids.part_head_20 = sched.slice %IDS.PART[%c1_i32] {tile.name = "ids.part_head"} : <2, i32> -> <1, i32>
      sched.for_tiles (%tile) = (%first_group_18) below %end_group_19 {
        %next_tile = arith.addi %tile, %c1_i32 {tile.name = "next_tile"} : i32
        %26 = arith.remsi %tile, %groups_16 : i32
        %first_entry = arith.muli %26, %c8_i32 overflow<nsw> {tile.name = "first_entry"} : i32
        %ids_21 = sched.registers "ids" : <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          scf.for %r = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
            %29 = arith.muli %r, %c2_i32 overflow<nsw> : i32
            %30 = arith.addi %29, %e overflow<nsw> : i32
            %31 = arith.addi %warp_row_8, %lane_row_4 overflow<nsw> : i32
            %32 = arith.muli %r, %c8_i32 overflow<nsw> : i32
            %33 = arith.addi %31, %32 overflow<nsw> : i32
            %34 = arith.addi %lane_column_6, %e overflow<nsw> : i32
            %entry = arith.addi %first_entry, %34 overflow<nsw> {tile.name = "entry"} : i32
            %35 = arith.muli %entry, %c64_i32 overflow<nsw> : i32
            %36 = arith.addi %35, %33 overflow<nsw> : i32
            %37 = arith.minsi %36, %10 : i32
            %ids_24 = tile.element %ids[%37] in_range [false] : <1, i32> (i32) -> i32
            sched.set %ids_24, %ids_21[%c0_i32, %c0_i32, %30] : i32, <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>>
          } {sched.unroll, tile.name = "r"}
        } {sched.unroll, tile.name = "e"}
        %least = sched.registers "least" {tile.comment = "least: the least of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_parts = sched.shared "column_parts" at 256 : <stage 1 x warp 4 x entry 8, i32, shared>
        sched.barrier
        %column_part = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %27 = arith.cmpi slt, %warp_7, %c4_i32 : i32
        %28 = arith.andi %11, %27 : i1
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c2147483647_i32, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>> -> i32
          %29 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_24 = sched.get %ids_21[%c0_i32, %c0_i32, %29] : <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>> -> i32
          %column_part_entry = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = arith.minsi %ids_rowentry, %ids_rowentry_24 : i32
          %31 = arith.minsi %column_part_entry, %30 : i32
          sched.set %31, %column_part[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_25 = sched.get %column_part[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %32 = sched.shuffle_xor %column_part_entry_25, 4 : i32
          %33 = arith.minsi %column_part_entry_25, %32 : i32
          %34 = sched.shuffle_xor %33, 8 : i32
          %35 = arith.minsi %33, %34 : i32
          %36 = sched.shuffle_xor %35, 16 : i32
          %37 = arith.minsi %35, %36 : i32
          scf.if %28 {
            %38 = arith.addi %lane_column_6, %e overflow<nsw> : i32
            sched.store_shared %37, %column_parts[%c0_i32, %warp_7, %38] : i32, <stage 1 x warp 4 x entry 8, i32, shared>
          }
        } {sched.unroll, tile.name = "e"}
        sched.barrier
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %29 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %30 = sched.load_shared %column_parts[%c0_i32, %c0_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %31 = sched.load_shared %column_parts[%c0_i32, %c1_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %32 = arith.minsi %30, %31 : i32
          %33 = sched.load_shared %column_parts[%c0_i32, %c2_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %34 = arith.minsi %32, %33 : i32
          %35 = sched.load_shared %column_parts[%c0_i32, %c3_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %36 = arith.minsi %34, %35 : i32
          sched.set %36, %least[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %29 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %29 overflow<nsw> {tile.name = "row"} : i32
          %30 = arith.cmpi slt, %row, %entries_15 : i32
          %31 = arith.andi %13, %30 : i1
          scf.if %31 {
            %least_entry = sched.get %least[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %least_entry, %ids.part_head[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        %greatest = sched.registers "greatest" {tile.comment = "greatest: the greatest of IDS along row"} : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        %column_parts_22 = sched.shared "column_parts" at 256 : <stage 1 x warp 4 x entry 8, i32, shared>
        sched.barrier
        %column_part_23 = sched.registers "column_part" : <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          sched.set %c-2147483648_i32, %column_part_23[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %ids_rowentry = sched.get %ids_21[%c0_i32, %c0_i32, %e] : <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>> -> i32
          %29 = arith.addi %e, %c2_i32 overflow<nsw> : i32
          %ids_rowentry_24 = sched.get %ids_21[%c0_i32, %c0_i32, %29] : <row 64 x entry 8, i32, register, #sched.fragment<c, warps 4>> -> i32
          %column_part_entry = sched.get %column_part_23[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %30 = arith.maxsi %ids_rowentry, %ids_rowentry_24 : i32
          %31 = arith.maxsi %column_part_entry, %30 : i32
          sched.set %31, %column_part_23[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
          %column_part_entry_25 = sched.get %column_part_23[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
          %32 = sched.shuffle_xor %column_part_entry_25, 4 : i32
          %33 = arith.maxsi %column_part_entry_25, %32 : i32
          %34 = sched.shuffle_xor %33, 8 : i32
          %35 = arith.maxsi %33, %34 : i32
          %36 = sched.shuffle_xor %35, 16 : i32
          %37 = arith.maxsi %35, %36 : i32
          scf.if %28 {
            %38 = arith.addi %lane_column_6, %e overflow<nsw> : i32
            sched.store_shared %37, %column_parts_22[%c0_i32, %warp_7, %38] : i32, <stage 1 x warp 4 x entry 8, i32, shared>
          }
        } {sched.unroll, tile.name = "e"}
        sched.barrier
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %29 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %30 = sched.load_shared %column_parts_22[%c0_i32, %c0_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %31 = sched.load_shared %column_parts_22[%c0_i32, %c1_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %32 = arith.maxsi %30, %31 : i32
          %33 = sched.load_shared %column_parts_22[%c0_i32, %c2_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %34 = arith.maxsi %32, %33 : i32
          %35 = sched.load_shared %column_parts_22[%c0_i32, %c3_i32, %29] : <stage 1 x warp 4 x entry 8, i32, shared> -> i32
          %36 = arith.maxsi %34, %35 : i32
          sched.set %36, %greatest[%c0_i32, %e] : i32, <entry 8, i32, register, #sched.fragment<columns, warps 8>>
        } {sched.unroll, tile.name = "e"}
        scf.for %e = %c0_i32 to %c2_i32 step %c1_i32  : i32 {
          %29 = arith.addi %lane_column_6, %e overflow<nsw> : i32
          %row = arith.addi %first_entry, %29 overflow<nsw> {tile.name = "row"} : i32
          %30 = arith.cmpi slt, %row, %entries_15 : i32
          %31 = arith.andi %13, %30 : i1
          scf.if %31 {
            %greatest_entry = sched.get %greatest[%c0_i32, %e] : <entry 8, i32, register, #sched.fragment<columns, warps 8>> -> i32
            sched.store_element %greatest_entry, %ids.part_head_20[%row] : i32, <1, i32>
          }
        } {sched.unroll, tile.name = "e"}
        sched.next %next_tile : i32
      }
    }
  }
}
