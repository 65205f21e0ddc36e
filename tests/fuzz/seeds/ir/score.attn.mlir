module attributes {attn.variant = "{\22name\22: \22custom\22, \22score\22: \22cap * tanh(s / cap) + slopes[h] * ((k - q) % 3L) + f32(seen[q])\22, \22tensors\22: {\22slopes\22: {\22dtype\22: \22f32\22, \22rank\22: 1}, \22seen\22: {\22dtype\22: \22bool\22, \22rank\22: 1}}, \22scalars\22: {\22cap\22: {\22dtype\22: \22f32\22}}}"} {
  attn.attention @custom dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {scalars = [#attn.scalar<cap, f32>], tensors = [#attn.tensor<slopes, f32, rank 1>, #attn.tensor<seen, i8, rank 1>]} score {
  ^bb0(%arg0: f32, %arg1: i32, %arg2: i32, %arg3: i32, %arg4: i32):
    %0 = attn.scalar "cap" : f32
    %1 = arith.divf %arg0, %0 : f32
    %2 = math.tanh %1 : f32
    %3 = arith.mulf %0, %2 : f32
    %4 = attn.load "slopes"[%arg2] : (i32) -> f32
    %5 = arith.subi %arg4, %arg3 : i32
    %6 = arith.extsi %5 : i32 to i64
    %c3_i64 = arith.constant 3 : i64
    %7 = arith.remsi %6, %c3_i64 : i64
    %8 = arith.sitofp %7 : i64 to f32
    %9 = arith.mulf %4, %8 : f32
    %10 = arith.addf %3, %9 : f32
    %11 = attn.load "seen"[%arg3] : (i32) -> i1
    %12 = arith.uitofp %11 : i1 to f32
    %13 = arith.addf %10, %12 : f32
    attn.yield %13 : f32
  } mask {
  }
}
