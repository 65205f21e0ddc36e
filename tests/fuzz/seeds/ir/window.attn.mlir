#variant = #attn.variant<{
  "name": "sliding_window",
  "mask": "-256 <= k - q && k - q <= 0"
}>
module attributes {attn.variant = #variant} {
  attn.attention @sliding_window dtype f16 head_dim 16 x 16 scale 2.500000e-01 score {
  } mask {
  ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
    %c-256_i32 = arith.constant -256 : i32
    %0 = arith.subi %k, %q : i32
    %1 = arith.cmpi sle, %c-256_i32, %0 : i32
    %c0_i32 = arith.constant 0 : i32
    %2 = arith.cmpi sle, %0, %c0_i32 : i32
    %3 = arith.andi %1, %2 : i1
    attn.yield %3 : i1
  }
}
