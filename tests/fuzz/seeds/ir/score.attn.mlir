#variant = #attn.variant<{
  "name": "custom",
  "score": "cap * tanh(s / cap) + slopes[h] * ((k - q) % 3L) + f32(seen[q])",
  "tensors": {"slopes": {"dtype": "f32", "rank": 1}, "seen": {"dtype": "bool", "rank": 1}},
  "scalars": {"cap": {"dtype": "f32"}}
}>
module attributes {attn.variant = #variant} {
  attn.attention @custom dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {scalars = [#attn.scalar<cap, f32>], tensors = [#attn.tensor<slopes, f32, rank 1>, #attn.tensor<seen, i8, rank 1>]} score {
  ^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
    %cap = attn.scalar "cap" : f32
    %0 = arith.divf %s, %cap : f32
    %1 = math.tanh %0 : f32
    %2 = arith.mulf %cap, %1 : f32
    %slopes = attn.load "slopes"[%h] : (i32) -> f32
    %3 = arith.subi %k, %q : i32
    %4 = arith.extsi %3 : i32 to i64
    %c3_i64 = arith.constant 3 : i64
    %5 = arith.remsi %4, %c3_i64 : i64
    %6 = arith.sitofp %5 : i64 to f32
    %7 = arith.mulf %slopes, %6 : f32
    %8 = arith.addf %2, %7 : f32
    %seen = attn.load "seen"[%q] : (i32) -> i1
    %9 = arith.uitofp %seen : i1 to f32
    %10 = arith.addf %8, %9 : f32
    attn.yield %10 : f32
  } mask {
  }
}
