module attributes {attn.variant = "{\22name\22: \22plain\22}"} {
  attn.attention @plain dtype f16 head_dim 16 x 16 scale 2.500000e-01 score {
  } mask {
  }
}
