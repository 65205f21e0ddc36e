// Every error of the attn dialect, to the letter.
// RUN: attune-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{captured tensor "t" has element type 'f64'; use f32, f16, bf16, i32, i64, or i8 for bool}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<t, f64, rank 1>]} score {} mask {}

// -----

// expected-error @+1 {{captured tensor "t" has element type 'i1'; use f32, f16, bf16, i32, i64, or i8 for bool}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<t, i1, rank 1>]} score {} mask {}

// -----

// expected-error @+1 {{captured tensor "t" has rank 5; use 0 to 4}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<t, f32, rank 5>]} score {} mask {}

// -----

// expected-error @+1 {{captured tensor "t" has rank -1; use 0 to 4}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<t, f32, rank -1>]} score {} mask {}

// -----

// expected-error @+1 {{expected 'rows x columns'}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {pattern = #attn.blocks<p, 64>} score {} mask {}

// -----

// expected-error @+1 {{block pattern of 40 x 64 is not made of positive multiples of 16}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {pattern = #attn.blocks<p, 40x64>} score {} mask {}

// -----

// expected-error @+1 {{block pattern of 64 x 0 is not made of positive multiples of 16}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {pattern = #attn.blocks<p, 64x0>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op block pattern "p" is not a captured i8 tensor of rank 2 or 3}}
attn.attention @unknown dtype f16 head_dim 64 x 64 scale 1.0 attributes {pattern = #attn.blocks<p, 64x64>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op block pattern "p" is not a captured i8 tensor of rank 2 or 3}}
attn.attention @type dtype f16 head_dim 64 x 64 scale 1.0
    attributes {pattern = #attn.blocks<p, 64x64>, tensors = [#attn.tensor<p, i32, rank 2>]} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op block pattern "p" is not a captured i8 tensor of rank 2 or 3}}
attn.attention @rank dtype f16 head_dim 64 x 64 scale 1.0
    attributes {pattern = #attn.blocks<p, 64x64>, tensors = [#attn.tensor<p, i8, rank 4>]} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op dtype 'f64' is not f16, bf16 or f32}}
attn.attention @bad dtype f64 head_dim 64 x 64 scale 1.0 score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op head_dim 100 is not a multiple of 8 from 8 to 576}}
attn.attention @bad dtype f16 head_dim 100 x 64 scale 1.0 score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op head_dim 0 is not a multiple of 8 from 8 to 576}}
attn.attention @bad dtype f16 head_dim 64 x 0 scale 1.0 score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op head_dim 584 is not a multiple of 8 from 8 to 576}}
attn.attention @bad dtype f16 head_dim 584 x 64 scale 1.0 score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op score region must take (f32, i32, i32, i32, i32)}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32):
  attn.yield %s : f32
} mask {}

// -----

// expected-error @+1 {{'attn.attention' op mask region must take (i32, i32, i32, i32)}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {} mask {
^bb0(%seen: i1):
  attn.yield %seen : i1
}

// -----

// expected-error @+1 {{'attn.attention' op score region must yield 'f32'}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
} mask {}

// -----

// expected-error @+1 {{'attn.attention' op mask region must yield 'i1'}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.constant 1.0 : f32
  attn.yield %0 : f32
}

// -----

func.func @outside(%i: i32) -> f32 {
  // expected-error @+1 {{'attn.load' op must be inside attn.attention}}
  %0 = attn.load "slopes"[%i] : (i32) -> f32
  return %0 : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.load' op unknown captured tensor 'slopes'}}
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  attn.yield %0 : f32
} mask {}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.load' op captured tensor 'slopes' of rank 1 takes 1 indices, got 2}}
  %0 = attn.load "slopes"[%h, %q] : (i32, i32) -> f32
  attn.yield %0 : f32
} mask {}

// -----

func.func @outside(%i: i32) -> i32 {
  // expected-error @+1 {{'attn.search' op must be inside attn.attention}}
  %0 = attn.search "offsets", %i : i32
  return %0 : i32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.search' op unknown captured tensor 'offsets'}}
  %0 = attn.search "offsets", %q : i32
  %1 = arith.cmpi eq, %0, %k : i32
  attn.yield %1 : i1
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<offsets, i32, rank 2>]} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.search' op searches a captured tensor of rank 1, but 'offsets' has rank 2}}
  %0 = attn.search "offsets", %q : i32
  %1 = arith.cmpi eq, %0, %k : i32
  attn.yield %1 : i1
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<offsets, i64, rank 1>]} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.search' op elements of 'offsets' are 'i64', but x is 'i32'}}
  %0 = attn.search "offsets", %q right : i32
  %1 = arith.cmpi eq, %0, %k : i32
  attn.yield %1 : i1
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<ids, i8, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.load' op elements of 'ids' are 'i1'}}
  %0 = attn.load "ids"[%h] : (i32) -> f32
  attn.yield %0 : f32
} mask {}

// -----

func.func @outside() -> f32 {
  // expected-error @+1 {{'attn.scalar' op must be inside attn.attention}}
  %0 = attn.scalar "cap" : f32
  return %0 : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.scalar' op unknown run-time scalar 'cap'}}
  %0 = attn.scalar "cap" : f32
  attn.yield %0 : f32
} mask {}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {scalars = [#attn.scalar<cap, i32>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.scalar' op run-time scalar 'cap' is 'i32'}}
  %0 = attn.scalar "cap" : f32
  attn.yield %0 : f32
} mask {}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.extent' op extent 'D' is not B, H, Sq or Sk}}
  %0 = attn.extent "D" : i32
  attn.yield %s : f32
} mask {}

// -----

func.func @outside(%x: f32) {
  // expected-error @+1 {{'attn.yield' op expects parent op 'attn.attention'}}
  attn.yield %x : f32
}

// -----

// expected-error@+1 {{attribute 'attn.variant' must be an #attn.variant<{...}>, got "causal"}}
module attributes {attn.variant = "causal"} {}

// -----

// expected-error@+1 {{field "name" stands twice}}
module attributes {attn.variant = #attn.variant<{"name": "a", "name": "b"}>} {}

// -----

// expected-error@+1 {{expected an object, a string, a number, true or false}}
module attributes {attn.variant = #attn.variant<{"name": [1]}>} {}

// -----

// expected-error@+1 {{expected an object, a string, a number, true or false}}
module attributes {attn.variant = #attn.variant<{"scale": 0x7FF0000000000000 : f64}>} {}

// -----

// expected-error@+1 {{expected ':'}}
module attributes {attn.variant = #attn.variant<{"name" "a"}>} {}

// -----

// expected-error@+1 {{objects nest more than 16 deep}}
module attributes {attn.variant = #attn.variant<{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}}}}}}}}}>} {}

// -----

// expected-error@+1 {{'attn.attention' op has the statistics or regions of a normaliser, but names none}}
attn.attention @unnamed dtype f16 head_dim 64 x 64 scale 1.0 score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}

// -----

// expected-error@+1 {{'attn.attention' op normaliser "mine" has no p region}}
attn.attention @no_p dtype f16 head_dim 64 x 64 scale 1.0 attributes {normaliser = "mine"} score {} mask {}

// -----

// expected-error@+1 {{'attn.attention' op p region must take (b, h : i32) and 1 f32}}
attn.attention @arguments dtype f16 head_dim 64 x 64 scale 1.0 attributes {normaliser = "mine"} score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  attn.yield %x : f32
}

// -----

// expected-error@+1 {{'attn.attention' op divisor region must yield 'f32'}}
attn.attention @result dtype f16 head_dim 64 x 64 scale 1.0 attributes {normaliser = "mine"} score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
} divisor {
^bb0(%b: i32, %h: i32):
  %0 = arith.cmpi eq, %b, %h : i32
  attn.yield %0 : i1
}

// -----

// expected-error@+1 {{'attn.attention' op base region reads statistic "l", a sum of weights that follow from it}}
attn.attention @circle dtype f16 head_dim 64 x 64 scale 1.0
    attributes {normaliser = "mine", statistics = [#attn.statistic<l, sum, 0.0 : f32>]} score {} mask {} base {
^bb0(%b: i32, %h: i32, %l: f32):
  attn.yield %l : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  attn.yield %x : f32
}

// -----

// expected-error@+1 {{'attn.attention' op statistic "l" must start from an f32}}
attn.attention @wide dtype f16 head_dim 64 x 64 scale 1.0
    attributes {normaliser = "mine", statistics = [#attn.statistic<l, sum, 0.0 : f64>]} score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}

// -----

// expected-error@+2 {{a statistic is a max or a sum, not 'min'}}
attn.attention @minimum dtype f16 head_dim 64 x 64 scale 1.0
    attributes {normaliser = "mine", statistics = [#attn.statistic<l, min, 0.0 : f32>]} score {} mask {}

// -----

// expected-error @+1 {{warps, stages and blocks_per_sm must be positive}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 0, q_registers = false, blocks_per_sm = 1, longest_first = true>}

// -----

// expected-error @+1 {{with producer warps, 4 of them, `warps` are whole warpgroups and tile_q (tile_k in a loop over queries) has 16 rows for each warp}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, producer_warps = 8>}

// -----

// expected-error @+1 {{persistent blocks need producer warps, which run ahead to the next query tile}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, persistent = true>}

// -----

// expected-error @+1 {{q_stages 0 is not 1; only persistent blocks have more}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, producer_warps = 4, q_stages = 0>}

// -----

// expected-error @+1 {{q_stages 2 is not 1; only persistent blocks have more}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, producer_warps = 4, q_stages = 2>}

// -----

// expected-error @+1 {{ping_pong is for warpgroups with producer warps; give producer_warps}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, ping_pong = true>}

// -----

// expected-error @+1 {{overlap is for warpgroups with producer warps; give producer_warps}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, overlap = true>}

// -----

// expected-error @+1 {{biases are staged by producer warps; give producer_warps, or leave out stage_biases}}
func.func private @bad() attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 8, stages = 2, q_registers = false, blocks_per_sm = 1, longest_first = true, stage_biases = true>}

// -----

// expected-error @+1 {{expected lse or deterministic, not 'dq'}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<[], dq>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op gives the gradient of "t", which is no captured tensor}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<["t"]>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op gives the gradient of "t", whose elements are 'i32'; only tensors of floats have one}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, i32, rank 1>], gradients = #attn.gradients<["t"]>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op has regions of gradients, but no attribute 'gradients'}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  attn.yield %g : f32
}

// -----

// expected-error @+1 {{'attn.attention' op has the gradient of a region that it does not have}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<[]>} score {} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  attn.yield %g : f32
}

// -----

// expected-error @+1 {{'attn.attention' op region of gradients must take what its region takes, and f32}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<[]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, f32, rank 1>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'attn.add_gradient' op must be inside a region of gradients}}
  attn.add_gradient %s, "t"[%h] : (i32)
  attn.yield %s : f32
} mask {}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, f32, rank 1>], gradients = #attn.gradients<[]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  // expected-error @+1 {{'attn.add_gradient' op adds to the gradient of 't', which the attention does not give}}
  attn.add_gradient %g, "t"[%h] : (i32)
  attn.yield %g : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, f32, rank 2>], gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  // expected-error @+1 {{'attn.add_gradient' op captured tensor 't' of rank 2 takes 2 indices, got 1}}
  attn.add_gradient %g, "t"[%h] : (i32)
  attn.yield %g : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<t, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  // expected-error @+1 {{'attn.add_gradient' op adds to the gradient of 't', which the attention does not give}}
  attn.add_gradient %g, "t"[%h] : (i32)
  attn.yield %g : f32
}

// -----

attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0
    attributes {gradients = #attn.gradients<["t"]>} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  // expected-error @+1 {{'attn.add_gradient' op unknown captured tensor 't'}}
  attn.add_gradient %g, "t"[%h] : (i32)
  attn.yield %g : f32
}

// -----

// expected-error @+1 {{'attn.attention' op saves 'p'; what can be saved is dropout and score}}
attn.attention @bad dtype bf16 head_dim 64 x 64 scale 0.125 attributes {saves = ["p"]} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op saves 'score' twice}}
attn.attention @bad dtype bf16 head_dim 64 x 64 scale 0.125 attributes {saves = ["score", "score"]} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op saves what dropout keeps, but has no dropout}}
attn.attention @bad dtype bf16 head_dim 64 x 64 scale 0.125 attributes {saves = ["dropout"]} score {} mask {}

// -----

attn.attention @bad dtype bf16 head_dim 64 x 64 scale 0.125 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @+1 {{'math.tanh' op is marked attn.saved; the mark is for one op that gives f32 in the score region of an attention that saves "score"}}
  %0 = math.tanh %s {attn.saved} : f32
  attn.yield %0 : f32
} mask {
}

// -----

// expected-error @+1 {{page size 24 is not a positive multiple of 16}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {key_pages = #attn.pages<p, 24>} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op key pages "p" are not a captured i32 tensor of rank 2}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {key_pages = #attn.pages<p, 64>, tensors = [#attn.tensor<p, i32, rank 1>]} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op key lengths n are not a captured i32 tensor of rank 1}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {key_lengths = "n"} score {} mask {}

// -----

// expected-error @+1 {{'attn.attention' op has keys in pages, of which there is no backward pass}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<[]>, key_pages = #attn.pages<n, 16>, tensors = [#attn.tensor<n, i32, rank 2>]} score {} mask {}

// -----

// Regions do not refer to each other.
attn.attention @bad dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "n"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  // expected-note @+1 {{the op is here}}
  %0 = math.exp %later : f32
  attn.yield %0 : f32
// expected-error @+1 {{custom op 'attn.attention' region defines a value that an op outside of it uses; define the value in front of that op}}
} divisor {
^bb0(%b: i32, %h: i32, %l: f32):
  %later = math.exp %l : f32
  attn.yield %later : f32
}

// -----

// expected-error @+1 {{bounds of sequences "first_keys" are not a captured i32 tensor of rank 1}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {sequences = #attn.sequences<first_queries, first_keys>, tensors = [#attn.tensor<first_queries, i32, rank 1>]} score {} mask {}

// -----

// expected-error @+1 {{packed sequences go with no block pattern, query offset, query lengths or saved values}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {q_offset, sequences = #attn.sequences<n, n>, tensors = [#attn.tensor<n, i32, rank 1>]} score {} mask {}

// -----

// expected-error @+1 {{keys are packed and in pages; leave out one of them: with pages, pass the sequences of the queries alone}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {key_pages = #attn.pages<p, 16>, sequences = #attn.sequences<n, n>, tensors = [#attn.tensor<n, i32, rank 1>, #attn.tensor<p, i32, rank 2>]} score {} mask {}

// -----

// expected-error @+1 {{packed sequences have no gradient of 't', which is read at indices of b, q or k; read it by the head alone, or pad the sequences to a batch}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<["t"]>, sequences = #attn.sequences<n, n>, tensors = [#attn.tensor<n, i32, rank 1>, #attn.tensor<t, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %t = attn.load "t"[%q] : (i32) -> f32
  %x = arith.addf %s, %t : f32
  attn.yield %x : f32
} mask {} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %m : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  attn.yield %x : f32
} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  attn.add_gradient %g, "t"[%q] : (i32)
  attn.yield %g : f32
}

// -----

// expected-error @+1 {{packed sequences have no gradient of 't', which is read at indices of b, q or k; read it by the head alone, or pad the sequences to a batch}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<["t"]>, sequences = #attn.sequences<n, n>, tensors = [#attn.tensor<n, i32, rank 1>, #attn.tensor<t, f32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %n = attn.extent "Sk" : i32
  %t = attn.load "t"[%n] : (i32) -> f32
  %x = arith.addf %s, %t : f32
  attn.yield %x : f32
} mask {} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %m : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  attn.yield %x : f32
} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  %n = attn.extent "Sk" : i32
  attn.add_gradient %g, "t"[%n] : (i32)
  attn.yield %g : f32
}

// -----

// expected-error @+1 {{'attn.attention' op has query lengths and a query offset, of which there is no backward pass together}}
attn.attention @bad dtype f16 head_dim 64 x 64 scale 1.0 attributes {gradients = #attn.gradients<[]>, q_offset, query_lengths = "n", tensors = [#attn.tensor<n, i32, rank 1>]} score {} mask {}
