// Regions of one op that refer to each other, in text that does not parse: no op keeps a use of a value of a region that
// is destroyed before it. The same texts are seeds of attune-fuzz-ir, which runs with AddressSanitizer.
// RUN: attune-opt %s -split-input-file -verify-diagnostics

attn.attention @causal_sink_sk dtype bf16 head_dim 128 x 128 scale 0.0883883461 attributes {normaliser = "softmax_sink", statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<l, sum, 0.000000e+00 : f32>], tensors = [#attn.tensor<sk, f32, rank 1>]} score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %neg_inf = arith.constant 0xFF800000 : f32
  %0 = arith.cmpf oeq, %m, %neg_inf : f32
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %1 = arith.select %0, %c0_f32, %m : f32
  attn.yield %1 : f32
} rescale {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32, %base: f32):
  %7 = arith.subf %m, %base : f32
  // expected-note @below {{the op is here}}
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
// expected-error @below {{custom op 'attn.attention' region defines a value that an op outside of it uses; define the value in front of that op}}
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  %0 = arith.subf %x, %base : f32
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
} divisor {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  %sk = attn.load "sk"[%h] : (i32) -> f32
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %0 = arith.cmpf oeq, %l, %c0_f32 : f32
  %inf = arith.constant 0x7F800000 : f32
  %1 = arith.select %0, %inf, %m : f32
  %2 = arith.subf %sk, %1 : f32
  %3 = math.exp %2 : f32
  %4 = arith.addf %l, %3 : f32
  attn.yield %4 : f32
} lse {
^bb0(%b: i32, %h: i32, %m: i64, %l: f32):
  %c0_f32 = arith.constant 0.000000e+00 : f32
  %0 = arith.cmpf oeq, %l, %c0_f32 : f32
  %neg_inf = arith.constant 0xFF800000 : f32
  %1 = math.log %l : f32
  %2 = arith.addf %m, %1 : f32
  %3 = arith.select %0, %neg_inf, %2 : f32
  attn.yield %3 : f32
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Sk = tile.axis_extent "k" : i32
  %found:4 = sched.next_visible from %c0 below %Sk {
  ^bb0(%tile: i32):
    // expected-note @below {{the op is here}}
    %yes = arith.cmpi sge, %late, %tile : i32
    sched.visible %yes, %yes
  // expected-error @below {{custom op 'sched.next_visible' region defines a value that an op outside of it uses; define the value in front of that op}}
  } groups {
  ^bb0(%group: i32):
    %late = arith.addi %group, %c0 : i32
    %some = arith.cmpi sge, %late, %c0 : i32
    sched.visible %some
  }
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Sk = tile.axis_extent "k" : i32
  %yes = arith.constant true
  %domain = tile.domain k by 64 [%c0, %Sk) full where {
  ^bb0(%n: i32):
    %below = arith.cmpi slt, %late, %n : i32
    tile.yield %below, %yes : i1, i1
  } groups {
  ^bb0(%tiles: i32):
    %late = arith.addi %tiles, %c0 : i32
    %any = arith.cmpi slt, %late, %c0 : i32
    tile.yield %any : i1
  // expected-error @below {{expected attribute value}}
  } {tile.name = }
}
