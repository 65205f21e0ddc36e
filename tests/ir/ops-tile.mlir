// Every op, attribute and optional part of the tile dialect, through text and through the generic form.
// RUN: attune-opt %s | attune-opt | FileCheck %s
// RUN: attune-opt %s --mlir-print-op-generic | attune-opt | FileCheck %s
// RUN: attune-opt %s > %t.once && attune-opt %t.once > %t.twice && cmp %t.once %t.twice

// CHECK-LABEL: tile.kernel @every_op({{.*}}) grid {{.*}} dtype bf16
// CHECK-SAME: plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {dropout, pattern = #attn.blocks<pattern, 64x64>, precise, q_offset, scalars = [#attn.scalar<cap, f32>], sched.longest_first
// CHECK-SAME: tensors = [#attn.tensor<pattern, i8, rank 3>, #attn.tensor<slopes, f32, rank 1>, #attn.tensor<half, f16, rank 2>, #attn.tensor<table, i32, rank 2>]
tile.kernel @every_op(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, v: in [b, hkv, k, dv 32] bf16, o: out [b, h, q, dv 32] bf16, lse: optional out [b, h, q] f32, saved.dropout: out [b, h, q by 16, k by 16, call 32] i8, saved.score: in [b, h, q by 16, k by 16, element 256] f32, paged_k: in [page, hkv, slot 64, d 64] bf16, partial_sums: workspace [b, h, q by 16, place 1024] f32) grid [b, h, q by 128] dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 2>
    attributes {sched.longest_first, dropout, precise, q_offset, pattern = #attn.blocks<pattern, 64x64>, scalars = [#attn.scalar<cap, f32>],
                tensors = [#attn.tensor<pattern, i8, rank 3>, #attn.tensor<slopes, f32, rank 1>, #attn.tensor<half, f16, rank 2>, #attn.tensor<table, i32, rank 2>]} {
  // CHECK: tile.block_index "b" : i32
  %b = tile.block_index "b" : i32
  // CHECK: tile.block_index "h" : i32
  %h = tile.block_index "h" : i32
  // CHECK: %[[Q0:.*]] = tile.block_index "q" : i32
  %q0 = tile.block_index "q" : i32
  // CHECK: tile.param "q" : !tile.view<4, bf16>
  %Q = tile.param "q" : !tile.view<4, bf16>
  // CHECK: tile.param "k" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %paged_K = tile.param "paged_k" : !tile.view<4, bf16>
  // CHECK: tile.param "v" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  // CHECK: tile.param "o" : !tile.view<4, bf16>
  %O = tile.param "o" : !tile.view<4, bf16>
  // CHECK: tile.param "lse" : !tile.view<3, f32>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  // CHECK: tile.param "tensors.pattern" : !tile.view<3, i8>
  %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
  // CHECK: tile.param "tensors.slopes" : !tile.view<1, f32>
  %slopes = tile.param "tensors.slopes" : !tile.view<1, f32>
  // CHECK: tile.param "tensors.half" : !tile.view<2, f16>
  %half = tile.param "tensors.half" : !tile.view<2, f16>
  // CHECK: tile.param "scalars.cap" : f32
  %cap = tile.param "scalars.cap" : f32
  // CHECK: tile.axis_extent "b" : i32
  %B = tile.axis_extent "b" : i32
  // CHECK: tile.axis_extent "h" : i32
  %H = tile.axis_extent "h" : i32
  // CHECK: tile.axis_extent "hkv" : i32
  %Hkv = tile.axis_extent "hkv" : i32
  // CHECK: tile.param "group" : i32
  %group = tile.param "group" : i32
  // CHECK: tile.group_rows %{{.*}} by %{{.*}} : <4, bf16>
  %rows_of_group = tile.group_rows %Q by %group : !tile.view<4, bf16>
  %partial_sums = tile.param "partial_sums" : !tile.view<4, f32>
  // CHECK: tile.blocked_rows %{{.*}} columns 64 : <4, f32>
  %blocked = tile.blocked_rows %partial_sums columns 64 : !tile.view<4, f32>
  %table = tile.param "tensors.table" : !tile.view<2, i32>
  // CHECK: tile.paged_rows %{{.*}} by %{{.*}} size 64 : <4, bf16>, <2, i32>
  %paged = tile.paged_rows %paged_K by %table size 64 : !tile.view<4, bf16>, !tile.view<2, i32>
  // CHECK: tile.axis_extent "q" : i32
  %Sq = tile.axis_extent "q" : i32
  // CHECK: tile.axis_extent "k" : i32
  %Sk = tile.axis_extent "k" : i32
  // CHECK: tile.param "q_offset" : i32
  %q_offset = tile.param "q_offset" : i32
  // CHECK: tile.param "drop_threshold" : i32
  %threshold = tile.param "drop_threshold" : i32
  // CHECK: tile.param "keep_scale" : f32
  %keep_scale = tile.param "keep_scale" : f32
  // CHECK: tile.param "seed" : i64
  %seed = tile.param "seed" : i64
  // CHECK: tile.param "offset" : i64
  %offset = tile.param "offset" : i64

  // CHECK: tile.element %{{.*}}[%{{.*}}] in_range [true] : <1, f32> (i32) -> f32
  %slope = tile.element %slopes[%h] in_range [true] : !tile.view<1, f32> (i32) -> f32
  // CHECK: tile.element %{{.*}}[%{{.*}}, %{{.*}}] in_range [false, true] : <2, f16> (i32, i64) -> f32
  %bias = tile.element %half[%h, %seed] in_range [false, true] : !tile.view<2, f16> (i32, i64) -> f32
  // CHECK: tile.element %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] in_range [false, false, false] : <3, i8> (i32, i32, i32) -> i1
  %shown = tile.element %pattern[%b, %h, %q0] in_range [false, false, false] : !tile.view<3, i8> (i32, i32, i32) -> i1

  // CHECK: tile.search %{{.*}}, %{{.*}} : <1, f32>, f32
  %before = tile.search %slopes, %slope : !tile.view<1, f32>, f32
  // CHECK: tile.search %{{.*}}, %{{.*}} right : <1, f32>, f32
  %through = tile.search %slopes, %slope right : !tile.view<1, f32>, f32

  // CHECK: tile.mul_finite %{{.*}}, %{{.*}}{{$}}
  %finite = tile.mul_finite %bias, %bias

  // CHECK: tile.domain k by 64 [%{{.*}}, %{{.*}}) full [%{{.*}}, %{{.*}}) partial{{$}}
  %dom = tile.domain k by 64 [%b, %h) full [%h, %q0) partial
  // CHECK: tile.domain k by 64 [%{{.*}}, %{{.*}}) partial reverse{{$}}
  %reverse = tile.domain k by 64 [%b, %h) partial reverse
  // CHECK: %[[ROUNDS:.*]] = tile.domain q by 128 [%{{.*}}, %{{.*}}) full times %{{.*}}{{$}}
  %iterations = tile.domain q by 128 [%b, %h) full times %h
  // CHECK: tile.for_blocks (%{{.*}}, %{{.*}}, %[[ROUND:.*]]) in %[[ROUNDS]] {
  tile.for_blocks (%first, %part, %iteration) in %iterations {
    // CHECK: arith.addi %{{.*}}, %[[ROUND]]
    %head = arith.addi %h, %iteration : i32
  }
  // CHECK: tile.domain q by 128 [%{{.*}}, %{{.*}}) full times %{{.*}} where {
  // CHECK-NEXT: ^bb0(%[[N:.*]]: i32, %[[ROUND:.*]]: i32):
  // CHECK-NEXT: arith.cmpi slt, %[[N]], %[[ROUND]] : i32
  // CHECK: } groups {
  // CHECK-NEXT: ^bb0(%[[GROUP:.*]]: i32, %[[ROUND:.*]]: i32):
  // CHECK-NEXT: arith.cmpi slt, %[[GROUP]], %[[ROUND]] : i32
  %by_head = tile.domain q by 128 [%b, %h) full times %h where {
  ^bb0(%n: i32, %of: i32):
    %below = arith.cmpi slt, %n, %of : i32
    tile.yield %below, %shown : i1, i1
  } groups {
  ^bb0(%tiles: i32, %of: i32):
    %any = arith.cmpi slt, %tiles, %of : i32
    tile.yield %any : i1
  }
  // CHECK: tile.domain k by 64 [%{{.*}}, %{{.*}}) full where {
  // CHECK: ^bb0(%[[N:.*]]: i32):
  // CHECK: %[[SET:.*]] = tile.touches %{{.*}}[%{{.*}}, %{{.*}}, %[[N]]] tile 128 x 64 blocks 64 x 32 : <3, i8>
  // CHECK: tile.yield %[[SET]], %{{.*}} : i1, i1
  %sparse = tile.domain k by 64 [%b, %h) full where {
  ^bb0(%n: i32):
    %set = tile.touches %pattern[%h, %q0, %n] tile 128 x 64 blocks 64 x 32 : !tile.view<3, i8>
    tile.yield %set, %shown : i1, i1
  }
  // CHECK: tile.domain k by 64 [%{{.*}}, %{{.*}}) full where {
  // CHECK: tile.yield %{{.*}}, %{{.*}} : i1, i1
  // CHECK-NEXT: } groups {
  // CHECK-NEXT: ^bb0(%[[GROUP:.*]]: i32):
  // CHECK-NEXT: %[[ANY:.*]] = arith.cmpi slt, %[[GROUP]], %{{.*}} : i32
  // CHECK-NEXT: tile.yield %[[ANY]] : i1
  // CHECK-NEXT: }
  %grouped = tile.domain k by 64 [%b, %h) full where {
  ^bb0(%n: i32):
    tile.yield %shown, %shown : i1, i1
  } groups {
  ^bb0(%tiles: i32):
    %any = arith.cmpi slt, %tiles, %h : i32
    tile.yield %any : i1
  }

  // CHECK: %[[Q:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[Q0]]] limit %{{.*}} : <4, bf16> -> <q 128 x d 64, bf16, shared>
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  // CHECK: tile.scale %{{.*}} exponent -3 : <q 128 x d 64, bf16, shared>
  %loaded = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  %eighth = tile.scale %loaded exponent -3 : !tile.tile<q 128 x d 64, bf16, shared>
  // CHECK: %[[ZERO:.*]] = tile.splat %{{.*}} : f32 -> <q 128 x dv 32, f32, register>
  %acc0 = tile.splat %cap : f32 -> !tile.tile<q 128 x dv 32, f32, register>
  // CHECK: %[[ROWS:.*]] = tile.splat %{{.*}} {tile.name = "row_max"} : f32 -> <q 128, f32, register>
  %m0 = tile.splat %cap {tile.name = "row_max"} : f32 -> !tile.tile<q 128, f32, register>

  // CHECK: tile.for_blocks (%[[K0:.*]], %[[PARTIAL:.*]]) in %{{.*}} iter_args(%[[M:.*]] = %[[ROWS]] : !tile.tile<q 128, f32, register>, %[[ACC:.*]] = %[[ZERO]] : !tile.tile<q 128 x dv 32, f32, register>) {
  %r:2 = tile.for_blocks (%k0, %partial) in %dom
      iter_args(%m = %m0 : !tile.tile<q 128, f32, register>, %acc = %acc0 : !tile.tile<q 128 x dv 32, f32, register>) {
    // CHECK: %[[KT:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[K0]]]
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // CHECK: %[[S:.*]] = tile.mma %[[Q]], %[[KT]] : <q 128 x d 64, bf16, shared>, <k 64 x d 64, bf16, shared> -> <q 128 x k 64, f32, register>
    %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
    // CHECK: tile.map(%[[S]], %[[M]] : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>) at(q = %[[Q0]], k = %[[K0]]) only_if %[[PARTIAL]] -> !tile.tile<q 128 x k 64, f32, register> {
    // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %[[I:.*]]: i32, %[[J:.*]]: i32):
    // CHECK: tile.yield %{{.*}} : f32
    %y = tile.map(%s, %m : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>)
        at(q = %q0, k = %k0) only_if %partial -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%x: f32, %row: f32, %i: i32, %j: i32):
      %0 = arith.cmpi sge, %i, %j : i32
      %1 = arith.select %0, %x, %row : f32
      tile.yield %1 : f32
    }
    // CHECK: tile.map(%[[S]] : !tile.tile<q 128 x k 64, f32, register>) columns 16 to 64 -> !tile.tile<q 128 x k 64, f32, register> {
    %others = tile.map(%s : !tile.tile<q 128 x k 64, f32, register>) columns 16 to 64 -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%x: f32):
      %0 = arith.negf %x : f32
      tile.yield %0 : f32
    }
    // CHECK: %[[BY:.*]] = tile.map() at(distance = %[[Q0]]) -> !tile.tile<distance 191, i32, register> {
    %by = tile.map() at(distance = %q0) -> !tile.tile<distance 191, i32, register> {
    ^bb0(%d: i32):
      tile.yield %d : i32
    }
    // CHECK: %[[STAGED:.*]] = tile.convert %[[BY]] : <distance 191, i32, register> -> <distance 191, i32, shared>
    %staged = tile.convert %by : !tile.tile<distance 191, i32, register> -> !tile.tile<distance 191, i32, shared>
    // CHECK: tile.map(%[[STAGED]] : !tile.tile<distance 191, i32, shared>) -> !tile.tile<q 128 x k 64, i32, register> {
    %spread = tile.map(%staged : !tile.tile<distance 191, i32, shared>) -> !tile.tile<q 128 x k 64, i32, register> {
    ^bb0(%d: i32):
      tile.yield %d : i32
    }
    // CHECK: tile.window %{{.*}}[%{{.*}}, %{{.*}}, %[[Q0]], %{{.*}}] : <4, bf16> -> <q 128 x k 64, bf16, shared>
    %window = tile.window %Q[%b, %h, %q0, %q0] : !tile.view<4, bf16> -> !tile.tile<q 128 x k 64, bf16, shared>
    // CHECK: tile.map() -> !tile.tile<q 128, f32, register> {
    // CHECK-NEXT: tile.yield
    %constant = tile.map() -> !tile.tile<q 128, f32, register> {
      tile.yield %cap : f32
    }
    // CHECK: tile.reduce max %{{.*}} over "k" init %[[M]] : !tile.tile<q 128, f32, register>, <q 128 x k 64, f32, register> -> <q 128, f32, register>{{$}}
    %m1 = tile.reduce max %y over "k" init %m : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
    // CHECK: tile.reduce sum %{{.*}} over "k" : <q 128 x k 64, f32, register> -> <q 128, f32, register> per_lane{{$}}
    %l = tile.reduce sum %y over "k" : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register> per_lane
    // CHECK: tile.combine_lanes sum %{{.*}} : <q 128, f32, register>
    %l1 = tile.combine_lanes sum %l : !tile.tile<q 128, f32, register>
    // CHECK: tile.dropout %{{.*}} at(%[[Q0]], %[[K0]]) head %{{.*}} seed %{{.*}} offset %{{.*}} threshold %{{.*}} : <q 128 x k 64, f32, register>
    %d = tile.dropout %y at(%q0, %k0) head %h seed %seed offset %offset threshold %threshold : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    // CHECK: tile.dropout %{{.*}} at(%[[Q0]], %[[K0]]) head %{{.*}} seed %{{.*}} offset %{{.*}} threshold %{{.*}} negates : <q 128 x k 64, f32, register>
    %signs = tile.dropout %y at(%q0, %k0) head %h seed %seed offset %offset threshold %threshold negates : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    // CHECK: %{{.*}}, %[[KEPT:.*]] = tile.dropout %{{.*}} at(%[[Q0]], %[[K0]]) head %{{.*}} threshold %{{.*}} : <q 128 x k 64, f32, register> -> <q 128 x k 64, f32, register>, !tile.tile<q 128 x k 64, i1, register>
    %d2, %kept = tile.dropout %y at(%q0, %k0) head %h seed %seed offset %offset threshold %threshold : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128 x k 64, i1, register>
    %BITS = tile.param "saved.dropout" : !tile.view<5, i8>
    %SCORES = tile.param "saved.score" : !tile.view<5, f32>
    // CHECK: tile.store_blocks %[[KEPT]], %{{.*}}[%{{.*}}, %{{.*}}, %[[Q0]], %[[K0]]] : <q 128 x k 64, i1, register>, <5, i8>
    tile.store_blocks %kept, %BITS[%b, %h, %q0, %k0] : !tile.tile<q 128 x k 64, i1, register>, !tile.view<5, i8>
    // CHECK: tile.load_blocks %{{.*}}[%{{.*}}, %{{.*}}, %[[Q0]], %[[K0]]] : <5, f32> -> <q 128 x k 64, f32, register>
    %saved = tile.load_blocks %SCORES[%b, %h, %q0, %k0] : !tile.view<5, f32> -> !tile.tile<q 128 x k 64, f32, register>
    // CHECK: tile.convert %{{.*}} : <q 128 x k 64, f32, register> -> <q 128 x k 64, bf16, register>
    %p = tile.convert %d : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, register>
    %v = tile.load %V[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x dv 32, bf16, shared>
    // CHECK: tile.mma %{{.*}}, %{{.*}} add %[[ACC]] : !tile.tile<q 128 x dv 32, f32, register>, <q 128 x k 64, bf16, register>, <k 64 x dv 32, bf16, shared> -> <q 128 x dv 32, f32, register>
    %acc1 = tile.mma %p, %v add %acc : !tile.tile<q 128 x dv 32, f32, register>, !tile.tile<q 128 x k 64, bf16, register>, !tile.tile<k 64 x dv 32, bf16, shared> -> !tile.tile<q 128 x dv 32, f32, register>
    // CHECK: tile.yield %{{.*}}, %{{.*}} : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 32, f32, register>
    tile.yield %m1, %acc1 : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x dv 32, f32, register>
  }

  // A loop that carries nothing needs no yield.
  // CHECK: tile.for_blocks (%{{.*}}, %{{.*}}) in %{{.*}} {
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: }
  tile.for_blocks (%k0, %partial) in %reverse {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
  }

  // CHECK: %[[OWN:.*]] = tile.warpgroup_row %{{.*}} by 64 : i32
  %own = tile.warpgroup_row %q0 by 64 : i32
  // CHECK: tile.first_visible %{{.*}} : i32
  %first_own = tile.first_visible %reverse : i32
  // CHECK: tile.for_blocks (%{{.*}}, %{{.*}}) in %{{.*}} within [%{{.*}}, %[[OWN]]) {
  tile.for_blocks (%k0, %partial) in %reverse within [%q0, %own) {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
  }

  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} optional : <q 128, f32, register>, <3, f32>
  tile.store %r#0, %LSE[%b, %h, %q0] limit %Sq optional : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
  %index = tile.splat %b : i32 -> !tile.tile<q 128, i32, register>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <q 128, f32, register>, <3, f32>(i32, i32, !tile.tile<q 128, i32, register>)
  tile.scatter %r#0, %LSE[%b, %h, %index] : !tile.tile<q 128, f32, register>, !tile.view<3, f32> (i32, i32, !tile.tile<q 128, i32, register>)
  %none = arith.constant 0.0 : f32
  %pairs = tile.splat %none : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // CHECK: tile.sum_diagonals %{{.*}} : <q 128 x k 64, f32, register> -> <part 8 x distance 80, f32, register>
  %sums = tile.sum_diagonals %pairs : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<part 8 x distance 80, f32, register>
  %distances = tile.splat %b : i32 -> !tile.tile<part 8 x distance 80, i32, register>
  // CHECK: tile.scatter add merge %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <part 8 x distance 80, f32, register>, <3, f32>(i32, i32, !tile.tile<part 8 x distance 80, i32, register>)
  tile.scatter add merge %sums, %LSE[%b, %h, %distances] : !tile.tile<part 8 x distance 80, f32, register>, !tile.view<3, f32> (i32, i32, !tile.tile<part 8 x distance 80, i32, register>)
  %keys = tile.splat %b : i32 -> !tile.tile<k 64, i32, register>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <q 128 x k 64, f32, register>, <3, f32>(i32, !tile.tile<q 128, i32, register>, !tile.tile<k 64, i32, register>)
  tile.scatter %pairs, %LSE[%b, %index, %keys] : !tile.tile<q 128 x k 64, f32, register>, !tile.view<3, f32> (i32, !tile.tile<q 128, i32, register>, !tile.tile<k 64, i32, register>)
  // CHECK: tile.scatter add %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : <q 128, f32, register>, <3, f32>(i32, i32, i32)
  tile.scatter add %r#0, %LSE[%b, %h, %q0] : !tile.tile<q 128, f32, register>, !tile.view<3, f32> (i32, i32, i32)
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} : <q 128 x dv 32, f32, register>, <4, bf16>
  tile.store %r#1, %O[%b, %h, %q0] limit %Sq : !tile.tile<q 128 x dv 32, f32, register>, !tile.view<4, bf16>
  // CHECK: tile.accumulate %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] limit %{{.*}} : <q 128, f32, register>, <3, f32>
  tile.accumulate %r#0, %LSE[%b, %h, %q0] limit %Sq : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
}

// CHECK-LABEL: tile.kernel @bits
tile.kernel @bits(x: in [n] f32) grid [n by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %n = tile.block_index "n" : i32
  // CHECK: %{{.*}} = tile.bits 4 {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: i32):
  // CHECK-NEXT: %[[BIT:.*]] = arith.cmpi slt, %[[I]], %{{.*}} : i32
  // CHECK-NEXT: tile.yield %[[BIT]] : i1
  %bits = tile.bits 4 {
  ^bb0(%i: i32):
    %0 = arith.cmpi slt, %i, %n : i32
    tile.yield %0 : i1
  }
}

// CHECK-LABEL: tile.kernel @integers
tile.kernel @integers(counts: workspace [word 4, n] i64) grid [word 4, n by 64] dtype bf16
    plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %n = tile.block_index "n" : i32
  %C = tile.param "counts" : !tile.view<2, i64>
  %ones = tile.splat %n : i32 -> !tile.tile<q 64, i32, register>
  // CHECK: tile.scatter add %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : <q 64, i32, register>, <2, i64>(i32, !tile.tile<q 64, i32, register>)
  tile.scatter add %ones, %C[%n, %ones] : !tile.tile<q 64, i32, register>, !tile.view<2, i64> (i32, !tile.tile<q 64, i32, register>)
}

// Types with layouts, which tile-assign-layouts adds.
// CHECK-LABEL: func.func private @layouts
// CHECK-SAME: !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
// CHECK-SAME: !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
// CHECK-SAME: !tile.domain
func.func private @layouts(!tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>,
                           !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.domain)

// CHECK-LABEL: tile.kernel @split_columns({{.*}}) grid {{.*}} dtype bf16
// CHECK-SAME: plan <q 64 x k 16, warps = 8, blocks_per_sm = 1, dv_warps = 2>
tile.kernel @split_columns() grid [] dtype bf16
    plan <q 64 x k 16, warps = 8, blocks_per_sm = 1, dv_warps = 2> {
}
// One warp for all columns is what a plan says without the field.
// CHECK-LABEL: tile.kernel @all_columns
// CHECK-NOT: dv_warps
tile.kernel @all_columns() grid [] dtype bf16
    plan <q 64 x k 16, warps = 4, blocks_per_sm = 1> {
}
