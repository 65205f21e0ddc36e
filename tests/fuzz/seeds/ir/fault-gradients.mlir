
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, f32, rank 2>], grazients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  attn.add_gradient %g, "t"[%h] : (i32)
  attn.yield %g : f32
}

