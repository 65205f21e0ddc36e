// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90" -attn-to-tile-backward=granularity=16 -canonicalize -cse | FileCheck %s
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_90" | FileCheck %s --check-prefix=PLAN
// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize -cse -attn-tile-size="arch=sm_80" -attn-to-tile-backward=granularity=16 | FileCheck %s --check-prefix=ORDERED

// With warp-level products, too, one loop has all five where elements are dear: dropout's random numbers are drawn once. It adds dQ to a workspace that the
// kernel of rows clears; dS goes by way of shared memory, without a ring, as no roles are apart. sm_80 adds floats one by one.
// PLAN: attn.attention @dropout
// PLAN-SAME: attn.accumulates_dq
// CHECK:         tile.launch @dropout [@dropout_rows, @dropout_keys, @dropout_queries]
// CHECK-LABEL: tile.kernel @dropout_rows(dq_sums: workspace [b, h, q by 16, place 1024] f32
// CHECK:         %[[CLEARED:.*]] = tile.blocked_rows %DQ_SUMS columns 64
// CHECK:         tile.store %{{.*}}, %[[CLEARED]]
// CHECK:         tile.store %{{.*}}, %DELTA
// CHECK-LABEL: tile.kernel @dropout_keys(
// CHECK-NOT:     sched.roles
// CHECK:         tile.domain q by 32
// CHECK-COUNT-1: tile.dropout {{.*}} negates
// CHECK-NOT:     tile.dropout
// Keys past the last one have no weight.
// CHECK:         %[[ENDS:.*]] = arith.cmpi sgt, %{{.*}}, %Sk
// CHECK:         tile.map(%p{{.*}} at(q = {{.*}}, k = %k0) only_if %[[ENDS]]
// CHECK:           arith.cmpi slt, %k, %Sk
// CHECK:         %[[DV:.*]] = tile.mma %{{.*}}, %do_tile add
// CHECK:         %[[DS:.*]] = tile.convert {{.*}} -> <q 32 x k 64, bf16, shared>
// CHECK-NOT:     sched.ring
// CHECK:         %[[DQ:.*]] = tile.mma %[[DS]], %k_tile
// CHECK:         tile.accumulate %[[DQ]]
// CHECK-LABEL: tile.kernel @dropout_queries(
// CHECK-NOT:     tile.for_blocks
// CHECK:         %[[SUMS:.*]] = tile.blocked_rows %DQ_SUMS columns 64
// CHECK:         tile.load %[[SUMS]]
// CHECK:         tile.store %{{.*}}, %DQ
// ORDERED-NOT: dq_sums
attn.attention @dropout dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout, gradients = #attn.gradients<[]>} score {} mask {}

// -----

// A function of the score is dear as well. Heads whose masks differ are a loop around.
// CHECK-LABEL: tile.kernel @score_keys(
// CHECK:         tile.domain h by 1
// CHECK:           tile.domain q by 32
// CHECK:           tile.accumulate
attn.attention @score dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, tensors = [#attn.tensor<windows, i32, rank 1>]} score {
^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
  %0 = math.tanh %s : f32
  attn.yield %0 : f32
} mask {
^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
  %0 = arith.subi %q, %k : i32
  %1 = attn.load "windows"[%h] : (i32) -> i32
  %2 = arith.cmpi slt, %0, %1 : i32
  attn.yield %2 : i1
}

// -----

// The order of additions is the same in each launch.
// PLAN: attn.attention @deterministic
// PLAN-NOT: attn.accumulates_dq
// CHECK-LABEL: tile.kernel @deterministic_rows(
// CHECK-NOT:   dq_sums
// CHECK-NOT:   tile.accumulate
attn.attention @deterministic dtype bf16 head_dim 64 x 64 scale 0.125 attributes {dropout, gradients = #attn.gradients<[], deterministic>} score {} mask {}
