// A whole kernel as attn-to-tile writes it: ALiBi and causal, with dropout.
// RUN: attune-opt %s > %t.once && attune-opt %t.once | diff %t.once -
// RUN: attune-opt %s -canonicalize -cse | FileCheck %s

// CHECK-LABEL: tile.kernel @alibi_causal
// CHECK: tile.for_blocks
// CHECK-COUNT-2: tile.mma
// CHECK: tile.yield
// CHECK: tile.store {{.*}} optional
// CHECK: tile.store
tile.kernel @alibi_causal(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, v: in [b, hkv, k, dv 64] bf16, o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<slopes, f32, rank 1>], dropout} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %group = tile.param "group" : i32
  %H = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %slopes = tile.param "tensors.slopes" : !tile.view<1, f32>
  %seed = tile.param "seed" : i64
  %offset = tile.param "offset" : i64
  %threshold = tile.param "drop_threshold" : i32
  %keep_scale = tile.param "keep_scale" : f32
  %hk = arith.divsi %h, %group : i32
  %bH = arith.muli %b, %H : i32
  %head = arith.addi %bH, %h : i32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %neg_inf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %slope = tile.element %slopes[%h] in_range [false] : !tile.view<1, f32> (i32) -> f32
  %full_end = arith.divsi %q0, %c64 : i32
  %q_end = arith.addi %q0, %c128 : i32
  %end0 = arith.minsi %q_end, %Sk : i32
  %c63 = arith.constant 63 : i32
  %end1 = arith.addi %end0, %c63 : i32
  %end = arith.divsi %end1, %c64 : i32
  %dom = tile.domain k by 64 [%c0, %full_end) full [%full_end, %end) partial
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %m0 = tile.splat %neg_inf : f32 -> !tile.tile<q 128, f32, register>
  %l0 = tile.splat %zero : f32 -> !tile.tile<q 128, f32, register>
  %acc0 = tile.splat %zero : f32 -> !tile.tile<q 128 x dv 64, f32, register>
  %r:3 = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : !tile.tile<q 128, f32, register>, %l = %l0 : !tile.tile<q 128, f32, register>, %acc = %acc0 : !tile.tile<q 128 x dv 64, f32, register>) {
    %k = tile.load %K[%b, %hk, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
    %x = tile.map(%s : !tile.tile<q 128 x k 64, f32, register>) at(q = %q0, k = %k0) -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%s1: f32, %i: i32, %j: i32):
      %scale = arith.constant 0.125 : f32
      %0 = arith.mulf %s1, %scale : f32
      %1 = arith.subi %j, %i : i32
      %2 = arith.sitofp %1 : i32 to f32
      %3 = arith.mulf %slope, %2 : f32
      %4 = arith.addf %0, %3 : f32
      tile.yield %4 : f32
    }
    %y = tile.map(%x : !tile.tile<q 128 x k 64, f32, register>) at(q = %q0, k = %k0) only_if %partial -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%x1: f32, %i: i32, %j: i32):
      %0 = arith.cmpi sge, %i, %j : i32
      %1 = arith.cmpi slt, %j, %Sk : i32
      %2 = arith.andi %0, %1 : i1
      %3 = arith.select %2, %x1, %neg_inf : f32
      tile.yield %3 : f32
    }
    %m1 = tile.reduce max %y over "k" init %m : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
    %safe = tile.map(%m1 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%a: f32):
      %0 = arith.cmpf oeq, %a, %neg_inf : f32
      %1 = arith.select %0, %zero, %a : f32
      tile.yield %1 : f32
    }
    %alpha = tile.map(%m, %safe : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%a: f32, %c: f32):
      %log2e = arith.constant 1.44269502 : f32
      %0 = arith.subf %a, %c : f32
      %1 = arith.mulf %0, %log2e : f32
      %2 = math.exp2 %1 : f32
      tile.yield %2 : f32
    }
    %p = tile.map(%y, %safe : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%a: f32, %c: f32):
      %log2e = arith.constant 1.44269502 : f32
      %0 = arith.mulf %c, %log2e : f32
      %n = arith.negf %0 : f32
      %1 = math.fma %a, %log2e, %n : f32
      %2 = math.exp2 %1 : f32
      tile.yield %2 : f32
    }
    %l1 = tile.map(%l, %alpha : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
    ^bb0(%a: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      tile.yield %0 : f32
    }
    %l2 = tile.reduce sum %p over "k" init %l1 : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
    %pd = tile.dropout %p at(%q0, %k0) head %head seed %seed offset %offset threshold %threshold : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    %acc1 = tile.map(%acc, %alpha : !tile.tile<q 128 x dv 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 64, f32, register> {
    ^bb0(%a: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      tile.yield %0 : f32
    }
    %ph = tile.convert %pd : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, register>
    %v = tile.load %V[%b, %hk, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 64, bf16, shared>
    %acc2 = tile.mma %ph, %v add %acc1 : !tile.tile<q 128 x dv 64, f32, register>, !tile.tile<q 128 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !tile.tile<q 128 x dv 64, f32, register>
    tile.yield %m1, %l2, %acc2 : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 64, f32, register>
  }
  %l = tile.combine_lanes sum %r#1 : !tile.tile<q 128, f32, register>
  %o = tile.map(%r#2, %l : !tile.tile<q 128 x dv 64, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128 x dv 64, f32, register> {
  ^bb0(%a: f32, %c: f32):
    %e = arith.cmpf oeq, %c, %zero : f32
    %0 = arith.divf %keep_scale, %c : f32
    %1 = arith.select %e, %zero, %0 : f32
    %2 = arith.mulf %a, %1 : f32
    tile.yield %2 : f32
  }
  %lse = tile.map(%r#0, %l : !tile.tile<q 128, f32, register>, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
  ^bb0(%a: f32, %c: f32):
    %0 = math.log %c : f32
    %1 = arith.addf %a, %0 : f32
    tile.yield %1 : f32
  }
  tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
  tile.store %o, %O[%b, %h, %q0] limit %Sq : !tile.tile<q 128 x dv 64, f32, register>, !tile.view<4, bf16>
}
