module attributes {attn.variant = "{\22name\22: \22sliding_window\22, \22mask\22: \22-256 <= k - q && k - q <= 0\22}"} {
  attn.attention @sliding_window dtype f16 head_dim 16 x 16 scale 2.500000e-01 score {
  } mask {
  ^bb0(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: i32):
    %c-256_i32 = arith.constant -256 : i32
    %0 = arith.subi %arg3, %arg2 : i32
    %1 = arith.cmpi sle, %c-256_i32, %0 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.cmpi sle, %0, %c0_i32 : i32
    %3 = arith.andi %1, %2 : i1
    attn.yield %3 : i1
  }
}
