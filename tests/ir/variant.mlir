// The variant's JSON in a module.
// RUN: attune-opt %s -split-input-file | FileCheck %s
// RUN: attune-opt %s -split-input-file | attune-opt -split-input-file | FileCheck %s

// CHECK:      #variant = #attn.variant<{
// CHECK-NEXT:   "name": "all",
// CHECK-NEXT:   "scale": 1.0e-05,
// CHECK-NEXT:   "score": "select(s < -1, \22a\22, 0)\0A",
// CHECK-NEXT:   "dropout": -0.5,
// CHECK-NEXT:   "precise": true,
// CHECK-NEXT:   "tensors": {"slopes": {"dtype": "f32", "rank": 1}, "ids": {"dtype": "i32", "rank": -2}},
// CHECK-NEXT:   "scalars": {}
// CHECK-NEXT: }>
// CHECK-NEXT: module attributes {attn.variant = #variant}
module attributes {attn.variant = #attn.variant<{"name": "all", "scale": 1.0e-05, "score": "select(s < -1, \"a\", 0)\n", "dropout": -0.5, "precise": true,
  "tensors": {"slopes": {"dtype": "f32", "rank": 1}, "ids": {"dtype": "i32", "rank": -2}}, "scalars": {}}>} {}

// -----

// CHECK:      #attn.variant<{
// CHECK-NEXT: }>
module attributes {attn.variant = #attn.variant<{}>} {}
