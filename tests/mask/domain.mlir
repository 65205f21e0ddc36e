// RUN: attune-opt --test-mask-domain="tile-q=128 tile-k=64 sq=300 sk=300" %s | FileCheck %s
// RUN: attune-opt --test-mask-domain="tile-q=128 tile-k=64 sq=300 sk=300 axis=k" %s | FileCheck %s --check-prefix=KEYS

// CHECK-LABEL: @causal
// CHECK-NEXT:    q 0: [0, 2) partial
// CHECK-NEXT:    q 128: [0, 2) full [2, 4) partial
// CHECK-NEXT:    q 256: [0, 4) full [4, 5) partial
// KEYS-LABEL: @causal
// KEYS-NEXT:    k 0: [0, 1) partial [1, 2) full [2, 3) partial
// KEYS-NEXT:    k 64: [0, 1) partial [1, 2) full [2, 3) partial
// KEYS-NEXT:    k 128: [1, 2) partial [2, 3) partial
// KEYS-NEXT:    k 192: [1, 2) partial [2, 3) partial
// KEYS-NEXT:    k 256: [2, 3) partial
attn.attention @causal dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.cmpi sge, %q, %k : i32
  attn.yield %0 : i1
}

// CHECK-LABEL: @nothing
// CHECK-NEXT:    q 0: none
// CHECK-NEXT:    q 128: none
// CHECK-NEXT:    q 256: none
// KEYS-LABEL: @nothing
// KEYS-NEXT:    k 0: none
// KEYS-NEXT:    k 64: none
// KEYS-NEXT:    k 128: none
// KEYS-NEXT:    k 192: none
// KEYS-NEXT:    k 256: none
attn.attention @nothing dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.constant false
  attn.yield %0 : i1
}

// Window and sinks: two intervals of keys. Over queries, all of them see the first keys.
// CHECK-LABEL: @sinks
// CHECK-NEXT:    q 0: [0, 2) partial
// CHECK-NEXT:    q 128: [0, 4) partial
// CHECK-NEXT:    q 256: [0, 1) partial [3, 5) partial
// KEYS-LABEL: @sinks
// KEYS-NEXT:    k 0: [0, 3) partial
// KEYS-NEXT:    k 64: [0, 2) partial
// KEYS-NEXT:    k 128: [1, 2) partial
// KEYS-NEXT:    k 192: [1, 3) partial
// KEYS-NEXT:    k 256: [2, 3) partial
attn.attention @sinks dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c4 = arith.constant 4 : i32
  %c20 = arith.constant 20 : i32
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %window = arith.cmpi slt, %distance, %c20 : i32
  %sink = arith.cmpi slt, %k, %c4 : i32
  %near = arith.ori %window, %sink : i1
  %visible = arith.andi %causal, %near : i1
  attn.yield %visible : i1
}

// A remainder is not followed: every tile is visited and none is full.
// CHECK-LABEL: @striped
// CHECK-NEXT:    q 0: [0, 5) partial
// KEYS-LABEL: @striped
// KEYS-NEXT:    k 0: [0, 3) partial
attn.attention @striped dtype bf16 head_dim 64 x 64 scale 0.125 score {} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %c8 = arith.constant 8 : i32
  %c0 = arith.constant 0 : i32
  %0 = arith.remsi %k, %c8 : i32
  %1 = arith.cmpi eq, %0, %c0 : i32
  attn.yield %1 : i1
}
