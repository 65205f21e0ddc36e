// RUN: attune-opt %s -split-input-file -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 | FileCheck %s

// The block's query tile, its keys up to the diagonal, the online softmax, and the stores.
// CHECK-LABEL: tile.kernel @causal({{.*}}) grid {{.*}} dtype bf16 plan <q 64 x k 32,
// CHECK:         %[[END:.*]] = arith.divsi {{.*}} {tile.name = "tiles_end"}
// CHECK:         %[[DOM:.*]] = tile.domain k by 32 [%c0_i32, %[[END]]) full{{$}}
// CHECK:         %[[FROM:.*]] = arith.minsi {{.*}} {tile.name = "full_to"}
// CHECK:         %[[Q_TILE:.*]] = tile.load {{.*}} {sched.ring = #sched.ring<stages 1>, tile.name = "q_tile"} {{.*}} -> <q 64 x d 64, bf16, shared>
// CHECK:         %[[Q:.*]] = tile.convert %[[Q_TILE]] {{.*}} -> <q 64 x d 64, bf16, register>
// CHECK:         %m_end, %l_end, %acc_end = tile.for_blocks (%[[K0:.*]], %{{.*}}) in %[[DOM]] iter_args(
// CHECK:           %[[K:.*]] = tile.load {{.*}} {sched.ring = #sched.ring<stages 2>, tile.name = "k_tile"} {{.*}} -> <k 32 x d 64, bf16, shared>
// CHECK:           %[[S:.*]] = tile.mma %[[Q]], %[[K]]
// CHECK:           %[[SCALED:.*]] = tile.map(%[[S]] :
// CHECK:             arith.mulf %s_qk, %c0.125_f32
// CHECK:           %[[AFTER:.*]] = arith.addi %[[K0]], %c32_i32
// CHECK:           %[[CROSSED:.*]] = arith.cmpi sgt, %[[AFTER]], %[[FROM]]
// CHECK:           %[[X:.*]] = tile.map(%[[SCALED]] : {{.*}} at(q = %{{.*}}, k = %c0_i32{{.*}}) only_if %[[CROSSED]]
// CHECK:           ^bb0(%{{.*}}: f32, %[[ROW:.*]]: i32, %[[COLUMN:.*]]: i32):
// CHECK:             %[[ONE:.*]] = arith.addi %[[ROW]],
// CHECK:             %[[END_OF_ROW:.*]] = arith.minsi %[[ONE]], {{.*}} {tile.name = "row_end"}
// CHECK:             %[[COLUMNS:.*]] = arith.subi %[[END_OF_ROW]], %[[K0]]
// CHECK:             arith.minsi %[[COLUMNS]]
// CHECK:             %[[VISIBLE:.*]] = arith.maxsi
// CHECK:             %[[SEEN:.*]] = arith.cmpi slt, %[[COLUMN]], %[[VISIBLE]]
// CHECK:             arith.select %[[SEEN]]
// CHECK:           %[[M:.*]] = tile.reduce max %[[X]] over "k"
// CHECK:           tile.map(%[[M]] :
// CHECK:             arith.cmpf oeq
// CHECK:           } {tile.name = "m_base"}
// CHECK:           } {tile.name = "alpha"}
// CHECK:           %[[ACC:.*]] = tile.map({{.*}}
// CHECK:           } {tile.name = "acc"}
// CHECK:           %[[P:.*]] = tile.map(%[[X]],
// CHECK:           %[[L:.*]] = tile.reduce sum %[[P]] over "k"
// CHECK:           %[[PB:.*]] = tile.convert %[[P]] {{.*}} -> <q 64 x k 32, bf16, register>
// CHECK:           %[[V:.*]] = tile.load {{.*}} -> <k 32 x dv 64, bf16, shared>
// CHECK:           %[[O:.*]] = tile.mma %[[PB]], %[[V]] add %[[ACC]]
// CHECK:           tile.yield %[[M]], %[[L]], %[[O]]
// CHECK:         tile.store {{.*}} optional
// CHECK:         tile.store
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// -----

// Without a mask only the last tile is cut, and the map hides what lies past Sk.
// CHECK-LABEL: tile.kernel @full
// CHECK-DAG:     %[[SK:.*]] = tile.axis_extent "k"
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full{{$}}
// CHECK:         %[[LAST:.*]] = arith.cmpi sgt, %{{.*}}, %[[SK]] : i32
// CHECK:         only_if %[[LAST]]
// CHECK:           arith.subi %[[SK]], %{{.*}}
// CHECK:           %[[IN:.*]] = arith.cmpi slt
// CHECK:           arith.select %[[IN]]
attn.attention @full dtype f16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// -----

// Head dims are padded to the matrix instruction's 16.
// CHECK-LABEL: tile.kernel @padded({{.*}}) grid {{.*}} dtype bf16
// CHECK:         -> <q 64 x d 48, bf16, shared>
// CHECK:         -> <k 32 x dv 80, bf16, shared>
attn.attention @padded dtype bf16 head_dim 40 x 72 scale 0.125 score {
} mask {
}

// -----

// Dropout comes between the row sum and the product with V.
// CHECK-LABEL: tile.kernel @dropped
// CHECK:         tile.reduce sum
// CHECK:         tile.dropout
// CHECK:         tile.mma
attn.attention @dropped dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout} score {
} mask {
}

// -----

// A window has two cuts: each costs one comparison an element, in the tiles that it goes through.
// CHECK-LABEL: tile.kernel @window
// CHECK:       tile.for_blocks (%[[K0:.*]], %{{.*}}) in
// CHECK:       %[[RIGHT:.*]] = arith.cmpi sgt
// CHECK:       tile.map({{.*}} only_if %[[RIGHT]]
// CHECK:         arith.minsi {{.*}} {tile.name = "row_end"}
// CHECK:         arith.cmpi slt
// CHECK-NOT:     arith.cmpi
// CHECK:       %[[LEFT:.*]] = arith.cmpi slt, %[[K0]],
// CHECK:       tile.map({{.*}} only_if %[[LEFT]]
// CHECK:         {tile.name = "row_begin"}
// CHECK:         arith.cmpi sge
// CHECK-NOT:     arith.cmpi
// CHECK:       tile.reduce
attn.attention @window dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c64 = arith.constant 64 : i32
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = arith.subi %q, %k : i32
  %2 = arith.cmpi slt, %1, %c64 : i32
  %3 = arith.andi %0, %2 : i1
  attn.yield %3 : i1
}

// -----

// Documents: each tile of keys is judged by the least and the greatest id in it, and by those of the block's queries, which are read
// once. Causality is a cut: a tile is partial by its ids alone, on the diagonal too.
// CHECK:       tile.launch [@documents_bounds, @documents dependent]
// CHECK-LABEL: tile.kernel @documents(
// CHECK-SAME:    ids.q: workspace [end 2, b, q by 64] i32, ids.k: workspace [end 2, b, k by 32] i32, ids.k_groups: workspace [end 2, b, k by 1024] i32
// CHECK-DAG:     %[[B:.*]] = tile.block_index "b"
// CHECK-DAG:     %[[Q0:.*]] = tile.block_index "q"
// CHECK:         %[[OFQ:.*]] = tile.param "ids.q" {{.*}} : !tile.view<3, i32>
// CHECK:         %[[QT:.*]] = arith.divsi %[[Q0]], %c64_i32
// CHECK:         %[[QMIN:.*]] = tile.element %[[OFQ]][%{{.*}}, %[[B]], %[[QT]]] in_range [true, true, true] {tile.name = "ids_q_min"}
// CHECK:         %[[QMAX:.*]] = tile.element %[[OFQ]][%{{.*}}, %[[B]], %[[QT]]] in_range [true, true, true] {tile.name = "ids_q_max"}
// CHECK:         %[[OFK:.*]] = tile.param "ids.k" {{.*}} : !tile.view<3, i32>
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full where {
// CHECK:         ^bb0(%[[N:.*]]: i32):
// CHECK:           %[[KMIN:.*]] = tile.element %[[OFK]][%{{.*}}, %[[B]], %[[N]]] in_range [true, true, true] {tile.name = "ids_k_min"}
// CHECK:           %[[KMAX:.*]] = tile.element %[[OFK]][%{{.*}}, %[[B]], %[[N]]] in_range [true, true, true] {tile.name = "ids_k_max"}
// CHECK-DAG:       %[[V0:.*]] = arith.cmpi sle, %[[QMIN]], %[[KMAX]] : i32
// CHECK-DAG:       %[[V1:.*]] = arith.cmpi sle, %[[KMIN]], %[[QMAX]] : i32
// CHECK-DAG:       %[[F0:.*]] = arith.cmpi sle, %[[QMAX]], %[[KMIN]] : i32
// CHECK-DAG:       %[[F1:.*]] = arith.cmpi sle, %[[KMAX]], %[[QMIN]] : i32
// CHECK-DAG:       %[[VISIBLE:.*]] = arith.andi %[[V0]], %[[V1]] : i1
// CHECK-DAG:       %[[FULL:.*]] = arith.andi %[[F0]], %[[F1]] : i1
// CHECK:           tile.yield %[[VISIBLE]], %[[FULL]] : i1, i1
// Groups of 32 tiles are judged by the same rules.
// CHECK:         } groups {
// CHECK:         ^bb0(%[[N:.*]]: i32):
// CHECK:           %[[KMIN:.*]] = tile.element %{{.*}}[%{{.*}}, %[[B]], %[[N]]] in_range [true, true, true] {tile.name = "ids_group_min"}
// CHECK:           %[[KMAX:.*]] = tile.element %{{.*}}[%{{.*}}, %[[B]], %[[N]]] in_range [true, true, true] {tile.name = "ids_group_max"}
// CHECK-DAG:       %[[V0:.*]] = arith.cmpi sle, %{{.*}}, %[[KMAX]] : i32
// CHECK-DAG:       %[[V1:.*]] = arith.cmpi sle, %[[KMIN]], %{{.*}} : i32
// CHECK:           %[[VISIBLE:.*]] = arith.andi %[[V0]], %[[V1]] : i1
// CHECK:           tile.yield %[[VISIBLE]] : i1
// The tables are an ordinary kernel's: each of its blocks takes a share of the groups of 8 entries, under each batch.
// CHECK-LABEL: tile.kernel @documents_bounds(
// CHECK-SAME:    grid [split 256]
// CHECK:         %[[B:.*]] = tile.axis_extent "b"
// CHECK:         %[[ALL:.*]] = arith.muli %[[GROUPS:.*]], %[[B]]
// CHECK:         tile.for_blocks (%[[N:.*]], %{{.*}}) in
// CHECK:           %[[GROUP:.*]] = arith.remsi %[[N]], %[[GROUPS]]
// CHECK:           %[[BATCH:.*]] = arith.divsi %[[N]], %[[GROUPS]]
// CHECK:           %[[FIRST:.*]] = arith.muli %[[GROUP]], %{{.*}}
// CHECK:           %[[IDS:.*]] = tile.map() at(row = %{{.*}}, entry = %[[FIRST]]) -> !tile.tile<row 64 x entry 8, i32, register>
// CHECK:             tile.element %{{.*}}[%[[BATCH]], %{{.*}}] in_range [false, false]
// CHECK:           %[[LEAST:.*]] = tile.reduce min %[[IDS]] over "row"
// CHECK:           tile.store %[[LEAST]], %{{.*}}[%{{.*}}, %[[BATCH]], %[[FIRST]]]
// CHECK:           %[[GREATEST:.*]] = tile.reduce max %[[IDS]] over "row"
// CHECK:           tile.store %[[GREATEST]], %{{.*}}[%{{.*}}, %[[BATCH]], %[[FIRST]]]
// An entry for a group of tiles is a tile of its own, whose columns they are; the last block takes the first one.
// CHECK:         %[[OFGROUPS:.*]] = tile.param "ids.k_groups"
// CHECK:         arith.subi %c255_i32{{.*}}, %split
// CHECK:         tile.for_blocks (%[[N:.*]], %{{.*}}) in
// CHECK:           %[[GROUP:.*]] = arith.remsi %[[N]], %{{.*}}
// CHECK:           %[[BATCH:.*]] = arith.divsi %[[N]], %{{.*}}
// CHECK:           %[[FIRST:.*]] = arith.muli %[[GROUP]], %c32
// CHECK:           %[[IDS:.*]] = tile.map() at(row = %{{.*}}, entry = %[[FIRST]]) -> !tile.tile<row 32 x entry 32, i32, register>
// CHECK:           %[[OFROW:.*]] = tile.reduce min %[[IDS]] over "entry"
// CHECK:           %[[BESIDE:.*]] = tile.map(%[[OFROW]] : !tile.tile<row 32, i32, register>) -> !tile.tile<row 32 x entry 8, i32, register>
// CHECK:           %[[LEAST:.*]] = tile.reduce min %[[BESIDE]] over "row"
// CHECK:           tile.reduce max %[[IDS]] over "entry"
// CHECK:           %[[LIMIT:.*]] = arith.addi %[[GROUP]], %c1
// CHECK:           tile.store %[[LEAST]], %[[OFGROUPS]][%{{.*}}, %[[BATCH]], %[[GROUP]]] limit %[[LIMIT]]
attn.attention @documents dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 2>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = attn.load "ids"[%b, %q] : (i32, i32) -> i32
  %2 = attn.load "ids"[%b, %k] : (i32, i32) -> i32
  %3 = arith.cmpi eq, %1, %2 : i32
  %4 = arith.andi %0, %3 : i1
  attn.yield %4 : i1
}

// -----

// What queries alone load bounds the loop: no tile is judged.
// CHECK-LABEL: tile.kernel @windows
// CHECK-SAME:    windows.q: workspace [end 2, q by 64] i32
// CHECK-DAG:     tile.element {{.*}} {tile.name = "windows_q_min"}
// CHECK-DAG:     tile.element {{.*}} {tile.name = "windows_q_max"}
// CHECK:         tile.domain k by 32 [%{{.*}}, %{{.*}}) partial [%{{.*}}, %{{.*}}) full [%{{.*}}, %{{.*}}) partial{{$}}
attn.attention @windows dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<windows, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = attn.load "windows"[%q] : (i32) -> i32
  %2 = arith.subi %q, %k : i32
  %3 = arith.cmpi slt, %2, %1 : i32
  %4 = arith.andi %0, %3 : i1
  attn.yield %4 : i1
}

// -----

// What is left beside the cuts has segments of its own: its first 64 keys are all visible, and Sk is a cut.
// CHECK-LABEL: tile.kernel @sinks
// CHECK:         %[[END:.*]] = arith.divsi {{.*}} {tile.name = "tiles_end"}
// CHECK:         %[[FULL:.*]] = arith.minsi {{.*}}, %[[END]] {tile.name = "full_end"}
// CHECK:         tile.domain k by 32 [%c0_i32, %[[FULL]]) full [%[[FULL]], %[[END]]) partial{{$}}
// CHECK:         tile.for_blocks (%{{.*}}, %[[PARTIAL:.*]]) in
// CHECK:           %[[CUT:.*]] = arith.cmpi sgt
// CHECK:           tile.map({{.*}} only_if %[[CUT]]
// CHECK:           tile.map({{.*}} only_if %[[PARTIAL]]
attn.attention @sinks dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  %c0 = arith.constant 0 : i32
  %0 = arith.cmpi sge, %q, %k : i32
  %1 = arith.remsi %k, %c2 : i32
  %2 = arith.cmpi eq, %1, %c0 : i32
  %3 = arith.cmpi slt, %k, %c64 : i32
  %4 = arith.ori %2, %3 : i1
  %5 = arith.andi %0, %4 : i1
  attn.yield %5 : i1
}

// -----

// Flags: whether all and any are true. A block pattern is one more condition.
// CHECK-LABEL: tile.kernel @flags
// CHECK-SAME:    flags.k: workspace [end 2, h, k by 32] i32
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full where {
// CHECK:           %[[LEAST:.*]] = tile.element {{.*}} in_range [true, true, true] {tile.name = "flags_k_all"}
// CHECK:           %[[ALL:.*]] = arith.trunci %[[LEAST]]
// CHECK:           %[[GREATEST:.*]] = tile.element {{.*}} in_range [true, true, true] {tile.name = "flags_k_any"}
// CHECK:           %[[ANY:.*]] = arith.trunci %[[GREATEST]]
// CHECK:           %[[SET:.*]] = tile.touches %{{.*}}[%{{.*}}, %{{.*}}] tile 64 x 32 blocks 64 x 32 : <2, i8>
// CHECK:           %[[VISIBLE:.*]] = arith.andi %[[SET]], %[[ANY]] : i1
// CHECK:           tile.yield %[[VISIBLE]], %[[ALL]] : i1, i1
attn.attention @flags dtype bf16 head_dim 64 x 64 scale 0.125 attributes {pattern = #attn.blocks<pattern, 64 x 32>, tensors = [#attn.tensor<pattern, i8, rank 2>, #attn.tensor<flags, i8, rank 2>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "flags"[%k, %h] : (i32, i32) -> i1
  attn.yield %0 : i1
}

// -----

// An index that is not the key itself: the table is of the values, at every key.
// CHECK-LABEL: tile.kernel @shifted(
// CHECK-SAME:    ids.k: workspace [end 2, k by 32] i32
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full where {
// CHECK-LABEL: tile.kernel @shifted_bounds(
// CHECK:           tile.map() at(row = %{{.*}}, entry = %{{.*}}) -> !tile.tile<row 32 x entry 8, i32, register>
attn.attention @shifted dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<ids, i32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c1 = arith.constant 1 : i32
  %0 = arith.addi %k, %c1 : i32
  %1 = attn.load "ids"[%q] : (i32) -> i32
  %2 = attn.load "ids"[%0] : (i32) -> i32
  %3 = arith.cmpi eq, %1, %2 : i32
  attn.yield %3 : i1
}

// -----

// A condition of both axes that nothing follows is counted: the table has an entry for each tile of both, whether all and any of its elements
// hold, and a remark says so.
// CHECK-LABEL: tile.kernel @counted(
// CHECK-SAME:    table.q.k: workspace [end 2, b, q by 64, k by 32] i32
// CHECK-SAME:    tile.remarks = ["the condition at {{.*}} is of queries and keys in a way that intervals do not follow: a kernel in front evaluates
// CHECK-DAG:     %[[B:.*]] = tile.block_index "b"
// CHECK-DAG:     %[[Q0:.*]] = tile.block_index "q"
// CHECK:         %[[T:.*]] = tile.param "table.q.k"
// CHECK:         %[[QT:.*]] = arith.divsi %[[Q0]], %c64_i32
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full where {
// CHECK:         ^bb0(%[[N:.*]]: i32):
// CHECK:           %[[LEAST:.*]] = tile.element %[[T]][%{{.*}}, %[[B]], %[[QT]], %[[N]]] {{.*}} {tile.name = "table_tile_all"}
// CHECK:           %[[ALL:.*]] = arith.trunci %[[LEAST]]
// CHECK:           %[[GREATEST:.*]] = tile.element %[[T]][%{{.*}}, %[[B]], %[[QT]], %[[N]]] {{.*}} {tile.name = "table_tile_any"}
// CHECK:           %[[ANY:.*]] = arith.trunci %[[GREATEST]]
// CHECK:           tile.yield %[[ANY]], %[[ALL]] : i1, i1
// CHECK-LABEL: tile.kernel @counted_bounds(
// CHECK-SAME:    grid [split 2048]
// CHECK:         %[[HOLDS:.*]] = tile.for_blocks (%[[KEY:.*]], %{{.*}}) in %{{.*}} iter_args(
// CHECK:           tile.map() at(row = %{{.*}}, key = %{{.*}}) -> !tile.tile<row 64 x key 32, i32, register>
// CHECK:         tile.reduce  sum %[[HOLDS]] over "key"
attn.attention @counted dtype bf16 head_dim 64 x 64 scale 0.125 attributes {tensors = [#attn.tensor<table, i8, rank 3>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "table"[%b, %q, %k] : (i32, i32, i32) -> i1
  attn.yield %0 : i1
}

// -----

// An integer as a float against a run-time scalar: a loop bound, by the last integer whose float is below it.
// CHECK-LABEL: tile.kernel @float_window(
// CHECK-NOT:     workspace
// CHECK:         %[[LAST:.*]] = arith.select {{.*}} {tile.name = "last_below"} : i64
// CHECK:         tile.domain k by 32 [%tiles_begin, %
attn.attention @float_window dtype bf16 head_dim 64 x 64 scale 0.125 attributes {scalars = [#attn.scalar<w, f32>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %q, %k : i32
  %1 = arith.sitofp %0 : i32 to f32
  %2 = attn.scalar "w" : f32
  %3 = arith.cmpf olt, %1, %2 : f32
  attn.yield %3 : i1
}

// -----

// Warpgroups visit the tiles of a score that counts positions from the last one on, other warps from the first.
// CHECK-LABEL: tile.kernel @positions
// CHECK:         tile.domain k by 32 [%c0_i32, %{{.*}}) full{{$}}
attn.attention @positions dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %k, %q : i32
  %1 = arith.sitofp %0 : i32 to f32
  %2 = arith.addf %s, %1 : f32
  attn.yield %2 : f32
} mask {
}

// -----

// Without statistics the loop carries the accumulator alone, and O is that. There is no LSE.
// CHECK-LABEL: tile.kernel @pointwise(
// CHECK-SAME:    o: out [b, h, q, dv 64] bf16) grid
// CHECK:         %acc_end = tile.for_blocks (%{{.*}}, %{{.*}}) in %{{.*}} iter_args(%[[ACC:[a-z_]+]] = %acc_init :
// CHECK:           %[[X:[a-z_0-9]+]] = tile.map({{.*}} only_if
// CHECK:           %[[P:[a-z_0-9]+]] = tile.map(%[[X]] :
// CHECK:             math.tanh
// CHECK:           } {tile.name = "p"}
// CHECK-NOT:       tile.reduce
// CHECK:           %[[PB:.*]] = tile.convert %[[P]]
// CHECK:           tile.mma %[[PB]], %{{.*}} add %[[ACC]]
// CHECK:         tile.store %acc_end, %{{.*}}
// CHECK-NOT:     tile.store
attn.attention @pointwise dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "tanh"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %0 = math.tanh %x : f32
  attn.yield %0 : f32
}

// -----

// What dropout keeps is scaled once, in the end.
// CHECK-LABEL: tile.kernel @dropped_pointwise(
// CHECK:         tile.dropout
// CHECK:         tile.map(%acc_end :
// CHECK:           arith.mulf %{{.*}}, %keep_scale
// CHECK:         } {tile.name = "out"}
attn.attention @dropped_pointwise dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout, normaliser = "tanh"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %0 = math.tanh %x : f32
  attn.yield %0 : f32
}

// -----

// A sum without a base: nothing is rescaled. The divisor reads a captured tensor, and an LSE that is left out is no operand.
// CHECK-LABEL: tile.kernel @divided(
// CHECK-NOT:     lse:
// CHECK:         tile.splat %{{.*}} {tile.name = "total"}
// CHECK:         iter_args(%[[TOTAL:[a-z_]+]] = %{{.*}}, %[[ACC:[a-z_]+]] = %acc_init :
// CHECK:           tile.map(%{{.*}} only_if
// CHECK:           %[[P:[a-z_0-9]+]] = tile.map(
// CHECK:             math.exp
// CHECK:           %[[SUM:[a-z_]+]] = tile.reduce sum %[[P]] over "k" init %[[TOTAL]]
// CHECK:           tile.mma %{{.*}}, %{{.*}} add %[[ACC]]
// CHECK:         tile.map(%total_end :
// CHECK:           %[[FLOOR:.*]] = tile.element %{{.*}}[%h]
// CHECK:           %[[DIVISOR:.*]] = arith.maxnumf %{{.*}}, %[[FLOOR]]
// CHECK:           %[[NONE:.*]] = arith.cmpf oeq, %[[DIVISOR]],
// CHECK:           %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[DIVISOR]]
// CHECK:           arith.select %[[NONE]], %{{.*}}, %[[INVERSE]]
// CHECK:         } {tile.name = "inverse_divisor"}
attn.attention @divided dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {normaliser = "floored", statistics = [#attn.statistic<total, sum, 0.0 : f32>], tensors = [#attn.tensor<floors, f32, rank 1>]} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  %0 = math.exp %x : f32
  attn.yield %0 : f32
} divisor {
^bb0(%b: i32, %h: i32, %total: f32):
  %floor = attn.load "floors"[%h] : (i32) -> f32
  %0 = arith.maxnumf %total, %floor : f32
  attn.yield %0 : f32
}
