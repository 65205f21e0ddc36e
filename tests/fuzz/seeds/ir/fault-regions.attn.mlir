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
  %1 = math.exp %0 : f32
  attn.yield %1 : f32
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
