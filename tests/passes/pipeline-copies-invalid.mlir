// RUN: attune-opt %s -split-input-file -tile-assign-roles -tile-assign-layouts -tile-pipeline-copies -verify-diagnostics

tile.kernel @reversed() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  // expected-error @below {{a reversed domain that leaves tiles out is not supported by this schedule; visit it forward}}
  %dom = tile.domain k by 32 [%c0, %c8) full reverse where {
  ^bb0(%n: i32):
    %even = arith.cmpi slt, %n, %c2 : i32
    tile.yield %even, %even : i1, i1
  }
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @reversed_gap() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 4> {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  // expected-error @below {{a reversed domain that leaves tiles out is not supported by this schedule; visit it forward}}
  %dom = tile.domain k by 32 [%c0, %c2) full [%c4, %c8) partial reverse
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @one_and_two(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // expected-error @below {{'tile.load' op has a ring of 2 stages, another ring one of 1; where all warps copy, give all rings of a loop 1, or all of them 2 and more}}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register>
    %t = tile.mma %q, %v : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register>
    tile.yield
  }
}

// -----

tile.kernel @ordered(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    // expected-error @below {{'tile.load' op has a ring of one stage, whose copies and waits follow the order of the text; where the loop says when its ops run, give it 2}}
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 1>}
    %t = tile.mma %q, %v : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register>
    tile.yield
  }
}

// -----

tile.kernel @single(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    // expected-error @below {{'tile.load' op has a ring of 1 stage, and is read by stage 1, while the next tile is copied; give it 2}}
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 0>}
    %t = tile.mma %q, %v : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 0, stage 1>}
    tile.yield
  }
}

// -----

tile.kernel @both(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 64] bf16, v: in [b, h, k, d 64] bf16) grid [b, h, q by 64] dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %K = tile.param "k" : !tile.view<4, bf16>
  %V = tile.param "v" : !tile.view<4, bf16>
  %dom = tile.domain k by 64 [%c0, %Sk) full
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  tile.for_blocks (%k0, %partial) in %dom {
    // expected-error @below {{'tile.load' op has a ring of 2 stages, and is read by stage 1, while the next tile is copied; give it 3}}
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %v = tile.load %V[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 2>} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    %s = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 0>}
    %t = tile.mma %q, %v : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 0>}
    %again = tile.mma %q, %k : !tile.tile<q 64 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 64 x k 64, f32, register> {sched.at = #sched.at<order 1, stage 1>}
    tile.yield
  }
}
