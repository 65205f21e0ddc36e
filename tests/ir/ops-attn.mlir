// Every op, attribute and optional part of the attn dialect, through text and through the generic form.
// RUN: attune-opt %s | attune-opt | FileCheck %s
// RUN: attune-opt %s --mlir-print-op-generic | attune-opt | FileCheck %s
// RUN: attune-opt %s > %t.once && attune-opt %t.once > %t.twice && cmp %t.once %t.twice

// CHECK-LABEL: attn.attention @plain dtype f16 head_dim 64 x 64 scale 1.250000e-01
// CHECK-SAME: score {
// CHECK-NEXT: } mask {
// CHECK-NEXT: }
attn.attention @plain dtype f16 head_dim 64 x 64 scale 0.125 score {} mask {}

// CHECK-LABEL: attn.attention @causal dtype bf16 head_dim 128 x 64 scale
// CHECK: mask {
// CHECK-NEXT: ^bb0(%[[B:.*]]: i32, %[[H:.*]]: i32, %[[Q:.*]]: i32, %[[K:.*]]: i32):
// CHECK-NEXT: %[[SEEN:.*]] = arith.cmpi sge, %[[Q]], %[[K]] : i32
// CHECK-NEXT: attn.yield %[[SEEN]] : i1
attn.attention @causal dtype bf16 head_dim 128 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// Captured tensors of every element type and rank, scalars, a block pattern and all flags.
// CHECK-LABEL: attn.attention @everything dtype f32 head_dim 8 x 512 scale
// CHECK-SAME: dropout
// CHECK-SAME: pattern = #attn.blocks<pattern, 64x16>
// CHECK-SAME: precise
// CHECK-SAME: q_offset
// CHECK-SAME: scalars = [#attn.scalar<cap, f32>, #attn.scalar<window, i32>, #attn.scalar<wide, i64>, #attn.scalar<flag, i1>]
// CHECK-SAME: #attn.tensor<pattern, i8, rank 3>
// CHECK-SAME: #attn.tensor<point, f32, rank 0>
// CHECK-SAME: #attn.tensor<half, f16, rank 1>
// CHECK-SAME: #attn.tensor<brain, bf16, rank 2>
// CHECK-SAME: #attn.tensor<ids, i32, rank 4>
// CHECK-SAME: #attn.tensor<"long name", i64, rank 1>
attn.attention @everything dtype f32 head_dim 8 x 512 scale 1.0
    attributes {dropout, precise, q_offset, pattern = #attn.blocks<pattern, 64x16>,
                scalars = [#attn.scalar<cap, f32>, #attn.scalar<window, i32>, #attn.scalar<wide, i64>, #attn.scalar<flag, i1>],
                tensors = [#attn.tensor<pattern, i8, rank 3>, #attn.tensor<point, f32, rank 0>, #attn.tensor<half, f16, rank 1>,
                           #attn.tensor<brain, bf16, rank 2>, #attn.tensor<ids, i32, rank 4>, #attn.tensor<"long name", i64, rank 1>]}
    score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  // CHECK: attn.scalar "cap" : f32
  %cap = attn.scalar "cap" : f32
  // CHECK: attn.scalar "window" : i32
  %window = attn.scalar "window" : i32
  // CHECK: attn.scalar "wide" : i64
  %wide = attn.scalar "wide" : i64
  // CHECK: attn.load "point"[] : () -> f32
  %point = attn.load "point"[] : () -> f32
  // CHECK: attn.load "half"[%{{.*}}] : (i32) -> f32
  %half = attn.load "half"[%h] : (i32) -> f32
  // CHECK: attn.load "brain"[%{{.*}}, %{{.*}}] : (i32, i64) -> f32
  %brain = attn.load "brain"[%h, %wide] : (i32, i64) -> f32
  // CHECK: attn.load "ids"[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : (i32, i32, i32, i32) -> i32
  %id = attn.load "ids"[%b, %h, %q, %k] : (i32, i32, i32, i32) -> i32
  // CHECK: attn.load "long name"[%{{.*}}] : (i32) -> i64
  %long = attn.load "long name"[%id] : (i32) -> i64
  // CHECK: attn.extent "B" : i32
  %batches = attn.extent "B" : i32
  // CHECK: attn.extent "H" : i32
  %heads = attn.extent "H" : i32
  // CHECK: attn.extent "Sq" : i32
  %queries = attn.extent "Sq" : i32
  // CHECK: attn.extent "Sk" : i32
  %keys = attn.extent "Sk" : i32
  %0 = arith.mulf %s, %cap : f32
  // CHECK: attn.yield %{{.*}} : f32
  attn.yield %0 : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  // CHECK: attn.scalar "flag" : i1
  %flag = attn.scalar "flag" : i1
  // CHECK: attn.load "pattern"[%{{.*}}, %{{.*}}, %{{.*}}] : (i32, i32, i32) -> i1
  %shown = attn.load "pattern"[%h, %q, %k] : (i32, i32, i32) -> i1
  %0 = arith.andi %flag, %shown : i1
  // CHECK: attn.yield %{{.*}} : i1
  attn.yield %0 : i1
}

// A normaliser: its name, what a row carries, and regions of (b, h) and f32 values.
// CHECK-LABEL: attn.attention @normalised dtype f16
// CHECK-SAME: normaliser = "mine"
// CHECK-SAME: statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<"the sum", sum, 5.000000e-01 : f32>]
// CHECK:      } base {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[M:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:   attn.yield %[[M]] : f32
// CHECK-NEXT: } rescale {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: f32, %[[BASE:.*]]: f32):
// CHECK-NEXT:   attn.yield %[[BASE]] : f32
// CHECK-NEXT: } p {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:   math.exp %[[X]] : f32
// CHECK:      } divisor {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32, %[[L:.*]]: f32):
// CHECK-NEXT:   attn.yield %[[L]] : f32
// CHECK-NEXT: } lse {
// CHECK:        attn.yield
attn.attention @normalised dtype f16 head_dim 64 x 64 scale 0.125
    attributes {normaliser = "mine", statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<"the sum", sum, 0.5 : f32>]}
    score {} mask {} base {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %m : f32
} rescale {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32, %base: f32):
  attn.yield %base : f32
} p {
^bb0(%b: i32, %h: i32, %x: f32, %base: f32):
  %0 = math.exp %x : f32
  attn.yield %0 : f32
} divisor {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %l : f32
} lse {
^bb0(%b: i32, %h: i32, %m: f32, %l: f32):
  attn.yield %m : f32
}

// Only p has to be there.
// CHECK-LABEL: attn.attention @pointwise
// CHECK:      } mask {
// CHECK-NEXT: } p {
// CHECK-NOT:  divisor
attn.attention @pointwise dtype f16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "mine"} score {} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
}

// What the backward pass takes: a region of gradients behind each region that O depends on.
// CHECK-LABEL: attn.attention @backward dtype bf16
// CHECK-SAME: gradients = #attn.gradients<["slopes"], lse, deterministic>
// CHECK:      } score_grad {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %[[H:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %g: f32):
// CHECK-NEXT:   attn.add_gradient %g, "slopes"[%[[H]]] : (i32)
// CHECK-NEXT:   attn.yield %g : f32
// CHECK-NEXT: } p_grad {
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32, %g: f32):
// CHECK-NEXT:   attn.yield %g : f32
attn.attention @backward dtype bf16 head_dim 64 x 64 scale 0.125
    attributes {normaliser = "mine", tensors = [#attn.tensor<slopes, f32, rank 1>], gradients = #attn.gradients<["slopes"], lse, deterministic>}
    score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.load "slopes"[%h] : (i32) -> f32
  %1 = arith.addf %s, %0 : f32
  attn.yield %1 : f32
} mask {} p {
^bb0(%b: i32, %h: i32, %x: f32):
  attn.yield %x : f32
} score_grad {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
  attn.add_gradient %g, "slopes"[%h] : (i32)
  attn.yield %g : f32
} p_grad {
^bb0(%b: i32, %h: i32, %x: f32, %g: f32):
  attn.yield %g : f32
}

// CHECK-LABEL: attn.attention @searches
// CHECK:   %offsets_count = attn.search "offsets", %[[Q:.*]] right : i32
// CHECK:   %[[LEFT:.*]] = attn.search "offsets", %{{.*}} : i32
// CHECK:   attn.search "levels", %{{.*}} : f32
attn.attention @searches dtype bf16 head_dim 64 x 64 scale 1.0
    attributes {tensors = [#attn.tensor<offsets, i32, rank 1>, #attn.tensor<levels, f16, rank 1>]} score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = attn.search "offsets", %q right : i32
  %1 = attn.search "offsets", %k : i32
  %2 = arith.sitofp %0 : i32 to f32
  %3 = attn.search "levels", %2 : f32
  %4 = arith.addi %1, %3 : i32
  %5 = arith.cmpi eq, %0, %4 : i32
  attn.yield %5 : i1
}

// CHECK-LABEL: attn.attention @pages
// CHECK-SAME: key_lengths = "lengths", key_pages = #attn.pages<table, 64>
attn.attention @pages dtype bf16 head_dim 64 x 64 scale 1.0
    attributes {key_lengths = "lengths", key_pages = #attn.pages<table, 64>, tensors = [#attn.tensor<lengths, i32, rank 1>, #attn.tensor<table, i32, rank 2>]}
    score {} mask {}
