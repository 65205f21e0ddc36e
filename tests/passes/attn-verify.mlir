// Every error of attn-verify, to the letter.
// RUN: attune-opt %s -split-input-file -attn-verify -verify-diagnostics

// expected-error @below {{'func.func' op is not known here; at attn a module holds attn.attention ops only}}
func.func private @other()

// -----

attn.attention @branch dtype f16 head_dim 64 x 64 scale 1.0 score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %c = arith.cmpi sge, %q, %k : i32
  // expected-error @below {{'scf.if' op is not known in a score or mask; use arith, math, attn.load, attn.search, attn.scalar and attn.extent}}
  %r = scf.if %c -> f32 {
    scf.yield %s : f32
  } else {
    %t = math.tanh %s : f32
    scf.yield %t : f32
  }
  attn.yield %r : f32
} mask {
}

// -----

attn.attention @double dtype f16 head_dim 64 x 64 scale 1.0 score {
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  // expected-error @below {{'arith.sitofp' op gives 'f64'; scores and masks compute with f32, i32, i64 and i1}}
  %d = arith.sitofp %q : i32 to f64
  %e = arith.sitofp %k : i32 to f64
  %c = arith.cmpf oge, %d, %e : f64
  attn.yield %c : i1
}

// -----

// expected-error @below {{'attn.attention' op run-time scalar 'cap' is declared twice}}
attn.attention @twice dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<cap, f32, rank 1>], scalars = [#attn.scalar<cap, f32>]} score {
} mask {
}

// -----

// What the regions may hold.
attn.attention @good dtype f16 head_dim 64 x 64 scale 1.0 attributes {tensors = [#attn.tensor<slopes, f32, rank 1>], scalars = [#attn.scalar<cap, f32>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %slope = attn.load "slopes"[%h] : (i32) -> f32
  %cap = attn.scalar "cap" : f32
  %0 = arith.mulf %s, %slope : f32
  %1 = math.tanh %0 : f32
  %2 = arith.mulf %1, %cap : f32
  attn.yield %2 : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %n = attn.extent "Sk" : i32
  %0 = arith.extsi %n : i32 to i64
  %1 = arith.extsi %k : i32 to i64
  %2 = arith.cmpi slt, %1, %0 : i64
  attn.yield %2 : i1
}

// -----

// expected-error @below {{'attn.attention' op row statistic 'm' is declared twice}}
attn.attention @statistics dtype f16 head_dim 64 x 64 scale 1.0
    attributes {normaliser = "mine", statistics = [#attn.statistic<m, max, 0.0 : f32>, #attn.statistic<m, sum, 0.0 : f32>]} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}

// -----

attn.attention @weights dtype f16 head_dim 64 x 64 scale 1.0 attributes {normaliser = "mine"} score {
} mask {
} p {
^bb0(%b: i32, %h: i32, %x: f32):
  // expected-error @below {{'arith.extf' op gives 'f64'; scores and masks compute with f32, i32, i64 and i1}}
  %0 = arith.extf %x : f32 to f64
  %1 = arith.truncf %0 : f64 to f32
  attn.yield %1 : f32
}
