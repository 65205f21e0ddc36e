#variant = #attn.variant<{
  "name": "plain"
}>
module attributes {attn.variant = #variant} {
  attn.attention @plain dtype f16 head_dim 16 x 16 scale 2.500000e-01 score {
  } mask {
  }
}
