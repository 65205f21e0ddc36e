// Values are printed with names, whatever they were called, and the names parse back.
// RUN: attune-opt %s -split-input-file | FileCheck %s
// RUN: attune-opt %s -split-input-file | attune-opt -split-input-file | FileCheck %s
// RUN: attune-opt %s -split-input-file -mlir-print-op-generic | attune-opt -split-input-file | FileCheck %s

// CHECK-LABEL: attn.attention @regions
// CHECK:       ^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
// CHECK:         %slopes = attn.load "slopes"[%h]
// CHECK:         %c0.5_f32 = arith.constant 5.000000e-01
// CHECK:         %[[SCALED:[0-9]+]] = arith.mulf %slopes, %c0.5_f32
// CHECK:         attn.yield %[[SCALED]]
// CHECK:       ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
attn.attention @regions dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%0: f32, %1: i32, %2: i32, %3: i32, %4: i32):
  %5 = attn.load "slopes"[%2] : (i32) -> f32
  %6 = arith.constant 0.5 : f32
  %7 = arith.mulf %5, %6 : f32
  attn.yield %7 : f32
} mask {
^bb0(%0: i32, %1: i32, %2: i32, %3: i32):
  %4 = arith.cmpi sge, %2, %3 : i32
  attn.yield %4 : i1
}

// -----

// CHECK-LABEL: tile.kernel @tiles
// CHECK:         %b = tile.block_index "b"
// CHECK:         %q0 = tile.block_index "q"
// CHECK:         %Q = tile.param "q"
// CHECK:         %K = tile.param "k"
// CHECK:         %kv_head = arith.muli %b, %b {tile.name = "kv_head"}
// CHECK:         %[[UNNAMED:[0-9]+]] = arith.addi %b, %b
// CHECK:         %ids_b = tile.element %ids[%b]
// CHECK:         %ids_{{[0-9]+}} = tile.element %ids[%ids_b]
// CHECK:         %domain = tile.domain k by 64 [%c0_i32, %k_extent) partial
// CHECK:         %q_tile = tile.load %Q[%b, %kv_head, %q0]
// CHECK:         %cst = arith.constant 1.000000e+30
// CHECK:         %m_init = tile.splat %neg_inf {tile.name = "m"}
// CHECK:         %[[PLAIN:[0-9]+]] = tile.splat %cst
// A carried value without a name is called like what is yielded for it, or not at all.
// CHECK:         %m_end, %l_end, %{{[0-9]+}} = tile.for_blocks (%k0, %partial) in %domain iter_args(%m = %m_init : {{.*}}, %l = %[[PLAIN]] : {{.*}}, %[[SAME:arg[0-9]+]] = %[[PLAIN]] :
// CHECK:           %s = tile.mma %q_tile, %{{.*}} {tile.name = "s"}
// CHECK:           %x = tile.map(%s, %m : {{.*}}) at(q = %q0, k = %k0, k = %cst : f32) only_if %partial
// CHECK-NEXT:      ^bb0(%s_qk: f32, %m_q: f32, %q: i32, %k: i32, %k_f32: f32):
// Two values of one name.
// CHECK:           %x_[[NUMBER:[0-9]+]] = tile.map(%x :
// CHECK-NEXT:      ^bb0(%x_qk: f32):
// CHECK:           %x_bf16 = tile.convert %x_[[NUMBER]]
// CHECK:           %m_next = tile.reduce max
// CHECK:           %l_next = tile.reduce sum
// CHECK:           tile.yield %m_next, %l_next, %[[SAME]]
// CHECK:         %l_total = tile.combine_lanes sum %l_end
// CHECK:         tile.any %l_total
// CHECK-NEXT:    ^bb0(%l_q: f32):
// CHECK:         %LSE = tile.param "lse"
tile.kernel @tiles(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} {
  %0 = tile.block_index "b" : i32
  %1 = tile.block_index "q" : i32
  %2 = tile.param "q" : !tile.view<4, bf16>
  %3 = tile.param "k" : !tile.view<4, bf16>
  %4 = tile.axis_extent "k" : i32
  %5 = arith.constant 0 : i32
  %6 = arith.muli %0, %0 {tile.name = "kv_head"} : i32
  %7 = arith.addi %0, %0 : i32
  %ids = tile.param "tensors.ids" : !tile.view<1, i32>
  %first = tile.element %ids[%0] in_range [false] : !tile.view<1, i32> (i32) -> i32
  %second = tile.element %ids[%first] in_range [false] : !tile.view<1, i32> (i32) -> i32
  %8 = tile.domain k by 64 [%5, %4) partial
  %9 = tile.load %2[%0, %6, %1] limit %4 {tile.name = "q_tile"} : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  %10 = arith.constant 1.0e+30 : f32
  %11 = arith.constant 0xFF800000 : f32
  %12 = tile.splat %11 {tile.name = "m"} : f32 -> !tile.tile<q 64, f32, register>
  %13 = tile.splat %10 : f32 -> !tile.tile<q 64, f32, register>
  %14:3 = tile.for_blocks (%a, %c) in %8 iter_args(%d = %12 : !tile.tile<q 64, f32, register>, %e = %13 : !tile.tile<q 64, f32, register>, %f = %13 : !tile.tile<q 64, f32, register>) {
    %15 = tile.load %3[%0, %6, %a] limit %4 : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %16 = tile.mma %9, %15 : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {tile.name = "s"}
    %17 = tile.map(%16, %d : !tile.tile<q 64 x k 64, f32, register>, !tile.tile<q 64, f32, register>) at(q = %1, k = %a, k = %10 : f32) only_if %c -> !tile.tile<q 64 x k 64, f32, register> {
    ^bb0(%18: f32, %19: f32, %20: i32, %21: i32, %22: f32):
      %23 = arith.addf %18, %19 : f32
      tile.yield %23 : f32
    } {tile.name = "x"}
    %24 = tile.map(%17 : !tile.tile<q 64 x k 64, f32, register>) -> !tile.tile<q 64 x k 64, f32, register> {
    ^bb0(%25: f32):
      %26 = arith.negf %25 : f32
      tile.yield %26 : f32
    } {tile.name = "x"}
    %27 = tile.convert %24 : !tile.tile<q 64 x k 64, f32, register> -> !tile.tile<q 64 x k 64, bf16, register>
    %28 = tile.reduce max %17 over "k" init %d : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 64, f32, register> -> !tile.tile<q 64, f32, register> {tile.name = "m"}
    %29 = tile.reduce sum %17 over "k" init %e : !tile.tile<q 64, f32, register>, !tile.tile<q 64 x k 64, f32, register> -> !tile.tile<q 64, f32, register> per_lane {tile.name = "l"}
    tile.yield %28, %29, %f : !tile.tile<q 64, f32, register>, !tile.tile<q 64, f32, register>, !tile.tile<q 64, f32, register>
  }
  %30 = tile.combine_lanes sum %14#1 {tile.name = "l"} : !tile.tile<q 64, f32, register>
  %31 = tile.any %30 : !tile.tile<q 64, f32, register> {
  ^bb0(%32: f32):
    %33 = arith.cmpf une, %32, %11 : f32
    tile.yield %33 : i1
  }
  %34 = tile.param "lse" : !tile.view<3, f32>
  tile.store %30, %34[%0, %6, %1] limit %4 : !tile.tile<q 64, f32, register>, !tile.view<3, f32>
}

// -----

// CHECK-LABEL: sched.kernel @loops
// CHECK:         %k_ring = sched.shared "k_ring"
// CHECK:         %tasks = sched.shared "tasks"
// CHECK:         %o = sched.registers "o"
// CHECK:         sched.for_work persistent from %c0_i32 below %c1_i32 carries (%c0_i32) (%number, %count, %first) {
// CHECK:           %tile_end, %slot_end = sched.for_tiles (%tile, %slot) = (%first, %first) below %count keeps {
// CHECK:             scf.for %i = %c0_i32 to %c1_i32 step %c1_i32
// CHECK:               scf.for %[[INDEX:arg[0-9]+]] = %c0_i32 to
// CHECK:                 %o_qdv = sched.get %o[%i, %i, %[[INDEX]]]
// CHECK:             %next_tile = arith.addi %tile, %c1_i32
// CHECK:           %found, %origin, %visible, %full = sched.next_visible from %c0_i32 below %count {
// CHECK-NEXT:      ^bb0(%tile: i32):
// CHECK:           %tasks_message:2 = sched.receive from %tasks[%c0_i32]
// CHECK:           %[[PAIR:[0-9]+]]:2 = scf.if
// CHECK:           sched.next %number, %[[PAIR]]#0
// CHECK:         {tile.names = ["number", "count", "first"]}
sched.kernel @loops() grid [b, h, q by 64] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %true = arith.constant true
  %2 = sched.shared "k_ring" at 0 : <stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %3 = sched.shared "tasks" at 16384 : <stage 2 x message 1 x field 2, i32, shared>
  %4 = sched.registers "o" : !tile.tile<q 64 x dv 64, f32, register, #sched.fragment<c, warps 4>>
  sched.for_work persistent from %0 below %1 carries (%0) (%7, %8, %9) {
    %10:2 = sched.for_tiles (%11, %12) = (%9, %9) below %8 keeps {
      scf.for %13 = %0 to %1 step %1 : i32 {
        scf.for %14 = %0 to %1 step %1 : i32 {
          %15 = sched.get %4[%13, %13, %14] : !tile.tile<q 64 x dv 64, f32, register, #sched.fragment<c, warps 4>> -> f32
        }
      } {tile.name = "i"}
      %16 = arith.addi %11, %1 {tile.name = "next_tile"} : i32
      sched.next %16, %12 : i32, i32
    }
    %17, %18, %19, %20 = sched.next_visible from %0 below %8 {
    ^bb0(%21: i32):
      sched.visible %true, %true
    }
    %22:2 = sched.receive from %3[%0] : <stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    %23:2 = scf.if %true -> (i32, i32) {
      scf.yield %0, %1 : i32, i32
    } else {
      scf.yield %1, %0 : i32, i32
    }
    sched.next %7, %23#0 : i32, i32
  } {tile.names = ["number", "count", "first"]}
}
