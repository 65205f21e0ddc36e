#variant = #attn.variant<{
  "name": "block_sparse",
  "blocks": {"tensor": "pattern", "rows": 128, "columns": 128},
  "tensors": {"pattern": {"dtype": "bool", "rank": 3}}
}>
module attributes {attn.variant = #variant} {
  attn.attention @block_sparse dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {pattern = #attn.blocks<pattern, 128x128>, tensors = [#attn.tensor<pattern, i8, rank 3>]} score {
  } mask {
  }
}
