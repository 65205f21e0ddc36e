module attributes {attn.variant = "{\22name\22: \22block_sparse\22, \22blocks\22: {\22tensor\22: \22pattern\22, \22rows\22: 128, \22columns\22: 128}, \22tensors\22: {\22pattern\22: {\22dtype\22: \22bool\22, \22rank\22: 3}}}"} {
  attn.attention @block_sparse dtype f16 head_dim 16 x 16 scale 2.500000e-01 attributes {pattern = #attn.blocks<pattern, 128x128>, tensors = [#attn.tensor<pattern, i8, rank 3>]} score {
  } mask {
  }
}
