#variant = #attn.variant<{
  "name": "documents",
  "mask": "ids[q] == ids[k]",
  "dropout": 0.1,
  "tensors": {"ids": {"dtype": "i32", "rank": 1}}
}>
module attributes {attn.variant = #variant} {
  attn.attention @documents dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {dropout, tensors = [#attn.tensor<ids, i32, rank 1>]} score {
  } mask {
  ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
    %ids = attn.load "ids"[%q] : (i32) -> i32
    %ids_0 = attn.load "ids"[%k] : (i32) -> i32
    %0 = arith.cmpi eq, %ids, %ids_0 : i32
    attn.yield %0 : i1
  }
}
