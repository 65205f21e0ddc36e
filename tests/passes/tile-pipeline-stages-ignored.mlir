// RUN: attune-opt %S/../kernels/attention_backward_warpgroups.mlir -tile-place-operands -tile-choose-path=arch=sm_90 -tile-assign-roles -tile-assign-layouts -tile-overlap-products -tile-pipeline-copies -tile-specialize-warps -tile-pipeline-stages | FileCheck %s
// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -tile-pipeline-stages | FileCheck %s --check-prefix=ALIKE

// Where an architecture has no warpgroups a program loses its producer warps, and with them what its text says of when ops run.
// CHECK: tile.kernel @attention_backward_warpgroups
// CHECK: tile.remarks = [{{.*}}"products are warp-level and all warps copy: sm_90 has no warpgroup-level products; when ops run, which the text says for roles, is left out"
// CHECK-NOT: sched.at
// CHECK-NOT: sched.async

// A product of warps is complete where it stands.
// ALIKE: tile.kernel @alike
// ALIKE: tile.remarks = ["sched.async and ping_pong have no effect: they are for kernels with roles"]
tile.kernel @alike(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}
    tile.yield
  }
}
