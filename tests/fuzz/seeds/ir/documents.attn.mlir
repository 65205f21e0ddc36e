module attributes {attn.variant = "{\22name\22: \22documents\22, \22mask\22: \22ids[q] == ids[k]\22, \22dropout\22: 0.1, \22tensors\22: {\22ids\22: {\22dtype\22: \22i32\22, \22rank\22: 1}}}"} {
  attn.attention @documents dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {dropout, tensors = [#attn.tensor<ids, i32, rank 1>]} score {
  } mask {
  ^bb0(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: i32):
    %0 = attn.load "ids"[%arg2] : (i32) -> i32
    %1 = attn.load "ids"[%arg3] : (i32) -> i32
    %2 = arith.cmpi eq, %0, %1 : i32
    attn.yield %2 : i1
  }
}
