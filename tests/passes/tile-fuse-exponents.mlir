// RUN: attune-opt %s --split-input-file -attn-to-tile=granularity=16 -tile-fold-softmax-scale -canonicalize -cse -tile-fuse-exponents -canonicalize -cse | FileCheck %s

// Warp-level products: the difference in a branch, where a row of the warp has a maximum of 2^14 / c or more; c = 0.125 log2(e).
// CHECK-LABEL: tile.kernel @warps
// CHECK-DAG:     %[[C:.*]] = arith.constant 0.180336878 : f32
// CHECK-DAG:     %[[MINUS:.*]] = arith.constant -0.180336878 : f32
// CHECK-DAG:     %[[LIMIT:.*]] = arith.constant 90852.18{{.*}} : f32
// CHECK:         tile.for_blocks {{.*}} iter_args(%{{[A-Za-z0-9_.]+}} = {{[^=]*}}, %{{[A-Za-z0-9_.]+}} = {{[^=]*}}, %{{[A-Za-z0-9_.]+}} = {{[^=]*}}) {
// CHECK:           %[[M:[A-Za-z0-9_.]+]] = tile.map(%{{[A-Za-z0-9_.]+}} : !tile.tile<q 128, f32, register>) ->
// CHECK:           } {tile.name = "m_base"}
// CHECK:           tile.map(%{{.*}}, %[[M]] :
// CHECK:             arith.subf
// CHECK:           } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "alpha"}
// CHECK:           %[[SIZE:.*]] = tile.map(%[[M]] : {{.*}} {
// CHECK:             math.absf
// CHECK:           %[[FAR:.*]] = tile.any %[[SIZE]]
// CHECK:             arith.cmpf oge, %{{.*}}, %[[LIMIT]] : f32
// CHECK:           %[[X:.*]] = tile.map(%{{.*}}, %[[M]] : {{.*}}) only_if %[[FAR]]
// CHECK:             arith.subf
// CHECK:           %[[M0:.*]] = tile.map(%[[M]] : {{.*}}) only_if %[[FAR]]
// CHECK:           %[[ADDEND:.*]] = tile.map(%[[M0]] :
// CHECK:             arith.mulf %{{.*}}, %[[MINUS]] : f32
// CHECK:           tile.map(%[[X]], %[[ADDEND]] :
// CHECK:             %[[EXPONENT:.*]] = math.fma %{{.*}}, %[[C]], %{{.*}} : f32
// CHECK-NEXT:        math.exp2 %[[EXPONENT]]
attn.attention @warps dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = false>} score {
} mask {
}

// -----

// Warpgroups without turns: a factor of the row, and the addend carried; the maximum starts from the least finite float, and needs no guard.
// CHECK-LABEL: tile.kernel @warpgroups
// CHECK-DAG:     %[[C:.*]] = arith.constant 0.180336878 : f32
// CHECK-DAG:     %[[POWER:.*]] = arith.constant 2.500000e-01 : f32
// CHECK-DAG:     %[[LIMIT:.*]] = arith.constant 5.95408{{.*}}E+9 : f32
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK-DAG:     %[[GREATEST:.*]] = arith.constant 3.40282347E+38 : f32
// CHECK-DAG:     %[[M0:.*]] = tile.splat %[[LEAST]] {tile.name = "m"}
// CHECK-DAG:     %[[A0:.*]] = tile.splat %[[GREATEST]] {tile.name = "addend"}
// CHECK:         tile.for_blocks {{.*}} iter_args(%[[MAXIMUM:[A-Za-z0-9_.]+]] = %[[M0]] : {{.*}}, %[[BEFORE:[A-Za-z0-9_.]+]] = %[[A0]] :
// CHECK:           %[[M:.*]] = tile.reduce max %[[X:.*]] over "k" init %[[MAXIMUM]]
// CHECK-NOT:       m_base
// CHECK:           %[[F:.*]] = tile.map(%[[M]] : {{.*}} {
// CHECK:             arith.cmpf oge, %{{.*}}, %[[LIMIT]] : f32
// CHECK:             arith.select %{{.*}}, %[[POWER]], %[[C]] : f32
// CHECK:           %[[ADDEND:.*]] = tile.map(%[[M]], %[[F]] : {{.*}} {
// CHECK:             arith.negf
// CHECK:             tile.mul_finite
// CHECK:           tile.map(%[[ADDEND]], %[[BEFORE]] : {{.*}} {
// CHECK:             arith.subf
// CHECK-NEXT:        math.exp2
// CHECK:           } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "alpha"}
// CHECK:           tile.map(%[[X]], %[[F]], %[[ADDEND]] : {{.*}} {
// CHECK:             %[[EXPONENT:.*]] = math.fma
// CHECK-NEXT:        math.exp2 %[[EXPONENT]]
// CHECK:           tile.yield %[[M]], %{{.*}}, %{{.*}}, %[[ADDEND]] :
attn.attention @warpgroups dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
}

// -----

// A factor above 1: rows whose maximum is large have the factor 1.
// CHECK-LABEL: tile.kernel @unscaled
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant 1.442695
// CHECK-DAG:     %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         arith.select %{{.*}}, %[[ONE]], %[[FACTOR]] : f32
// CHECK:         math.fma
attn.attention @unscaled dtype bf16 head_dim 64 x 64 scale 1.0 attributes {dropout, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
}

// -----

// Above 3 the next smaller score would be too near; f16 has no room for what is rounded; with turns tile-lazy-rescale makes the multiply-add.
// CHECK-LABEL: tile.kernel @upscaled
// CHECK-NOT:     math.fma
attn.attention @upscaled dtype bf16 head_dim 64 x 64 scale 4.0 attributes {dropout, attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @half
// CHECK-NOT:     math.fma
attn.attention @half dtype f16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = false>} score {
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @turns
// CHECK-NOT:     math.fma
attn.attention @turns dtype bf16 head_dim 64 x 64 scale 0.125 attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4, ping_pong = true>} score {
} mask {
}

// -----

// CHECK-LABEL: tile.kernel @precise
// CHECK-NOT:     math.fma
attn.attention @precise dtype bf16 head_dim 64 x 64 scale 0.125 attributes {precise, attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = false>} score {
} mask {
}

// -----

// A sink's exponential of the maximum is added to the sum behind the loop: the difference stays.
// CHECK-LABEL: tile.kernel @sink
// CHECK:         tile.for_blocks
// CHECK:           } {tile.name = "m_base"}
// CHECK-NOT:       math.fma
// CHECK:           } {tile.comment = "exp as exp2: the score's factor times log2(e) multiplies the difference", tile.name = "p"}
attn.attention @sink dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {dropout, normaliser = "softmax_sink", statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<l, sum, 0.0 : f32>],
                tensors = [#attn.tensor<sinks, f32, rank 1>],
                attn.plan = #attn.plan<tile_q = 128, tile_k = 128, warps = 8, stages = 3, q_registers = false, blocks_per_sm = 1, longest_first = false, producer_warps = 4>} score {
} mask {
} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %0 = arith.cmpf oeq, %m, %least : f32
  %1 = arith.select %0, %zero, %m : f32
  attn.yield %1 : f32
} rescale {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32, %base: f32):
  %0 = arith.subf %m, %base : f32
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  %0 = arith.subf %x, %base : f32
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
} divisor {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %sinks = attn.load "sinks"[%h] : (i32) -> f32
  %0 = arith.subf %sinks, %m : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %l, %1 : f32
  attn.yield %2 : f32
}

// -----

// A loaded row vector: log2(e) is in the factor of the score and in the row's addend.
// CHECK-LABEL: tile.kernel @loaded
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant 0.180336878 : f32
// CHECK-DAG:     %[[MINUS:.*]] = arith.constant -1.44269502 : f32
// CHECK:         %[[L:.*]] = tile.load
// CHECK:         %[[ADDEND:.*]] = tile.map(%[[L]] : {{.*}} {
// CHECK:           arith.mulf %{{.*}}, %[[MINUS]] : f32
// CHECK:         } {tile.name = "addend"}
// CHECK:         tile.map(%{{.*}}, %[[ADDEND]] : {{.*}} {
// CHECK-NEXT:    ^bb0(%[[X:[A-Za-z0-9_]+]]: f32, %[[A:[A-Za-z0-9_]+]]: f32):
// CHECK-NEXT:      %[[EXPONENT:.*]] = math.fma %[[X]], %[[FACTOR]], %[[A]] : f32
// CHECK-NEXT:      math.exp2 %[[EXPONENT]] : f32
tile.kernel @loaded(lse: in [b, h, q] f32, sums: out [b, h, q] f32) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %scale = arith.constant 0.125 : f32
  %log2e = arith.constant 1.44269502 : f32
  %L = tile.param "lse" : !tile.view<3, f32>
  %l = tile.load %L[%b, %h, %q0] limit %Sq : !tile.view<3, f32> -> !tile.tile<q 64, f32, register>
  %s = tile.splat %scale : f32 -> <q 64 x k 64, f32, register>
  %p = tile.map(%s, %l : !tile.tile<q 64 x k 64, f32, register>, !tile.tile<q 64, f32, register>) -> !tile.tile<q 64 x k 64, f32, register> {
  ^bb0(%x: f32, %m: f32):
    %0 = arith.mulf %x, %scale : f32
    %1 = arith.subf %0, %m : f32
    %2 = arith.mulf %1, %log2e : f32
    %3 = math.exp2 %2 : f32
    tile.yield %3 : f32
  }
  %SUMS = tile.param "sums" : !tile.view<3, f32>
  %sum = tile.reduce sum %p over "k" : !tile.tile<q 64 x k 64, f32, register> -> !tile.tile<q 64, f32, register>
  tile.store %sum, %SUMS[%b, %h, %q0] limit %Sq : !tile.tile<q 64, f32, register>, !tile.view<3, f32>
}
