// Every error of tile-verify, to the letter.
// RUN: attune-opt %s -split-input-file -tile-verify=arch=sm_80 -verify-diagnostics

// expected-error @below {{'attn.attention' op is left; at the end of tile a module holds tile.kernel ops and a tile.launch only}}
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  // expected-error @below {{'scf.if' op is left; at the end of tile there are tile ops and scalar arithmetic only}}
  scf.if %true {
  }
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    // expected-error @below {{'tile.load' op has 64 of k, the plan has 32; the plan and all ops have one size, for another start from attn with --tile-k 32}}
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "k_tile"} : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  // expected-error @below {{'tile.map' op is interleaved or computes some columns only, which schedules do; at the end of tile a map computes all, as they come}}
  %half = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) columns 0 to 16 -> !tile.tile<q 64 x k 32, f32, register> {
  ^bb0(%x: f32):
    %n = arith.negf %x : f32
    tile.yield %n : f32
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  %s = tile.splat %zero : f32 -> <q 64 x k 32, f32, register>
  // expected-error @below {{'tile.map' op is interleaved or computes some columns only, which schedules do; at the end of tile a map computes all, as they come}}
  %half = tile.map(%s : !tile.tile<q 64 x k 32, f32, register>) -> !tile.tile<q 64 x k 32, f32, register> {
  ^bb0(%x: f32):
    %n = arith.negf %x : f32
    tile.yield %n : f32
  } {interleaved}
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0.0 : f32
  // expected-error @below {{'tile.splat' op has 128 of q, the plan has 64; the plan and all ops have one size, for another start from attn with --tile-q 64}}
  %l = tile.splat %zero : f32 -> <q 128, f32, register>
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  // expected-error @below {{'tile.domain' op steps by 64 of k, the plan has 32; the plan and all ops have one size, for another start from attn with --tile-k 32}}
  %dom = tile.domain k by 64 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "k_tile"} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {pattern = #attn.blocks<pattern, 64x64>, tensors = [#attn.tensor<pattern, i8, rank 3>]} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %pattern = tile.param "tensors.pattern" : !tile.view<3, i8>
  %dom = tile.domain k by 32 [%c0, %c2) partial where {
  ^bb0(%n: i32):
    // expected-error @below {{'tile.touches' op looks at a tile of 128 x 32, the plan's is 64 x 32}}
    %set = tile.touches %pattern[%c0, %c0, %n] tile 128 x 32 blocks 64 x 64 : !tile.view<3, i8>
    tile.yield %set, %set : i1, i1
  }
}

// -----

tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain k by 32 [%c0, %c2) full
  %true = arith.constant true
  %other = arith.select %true, %dom, %dom : !tile.domain
  // expected-error @below {{'tile.for_blocks' op goes over a domain that is not the result of tile.domain}}
  tile.for_blocks (%k0, %partial) in %other {
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  // expected-error @below {{'tile.param' op reads seed, which only a kernel with `dropout` is launched with}}
  %seed = tile.param "seed" : i64
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  // expected-error @below {{'tile.param' op reads q_offset, which only a kernel with `q_offset` is launched with}}
  %offset = tile.param "q_offset" : i32
}

// -----

// expected-error @below {{'tile.kernel' op needs 262144 bytes of shared memory (k_tile 64 x 4096), above the budget of 166912; lower stages, tile_k or tile_q}}
tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {sched.ring = #sched.ring<stages 64>, tile.name = "k_tile"} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

// A domain may go over q, for a kernel that owns keys.
tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {dropout, q_offset} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain q by 64 [%c0, %c2) full
  %seed = tile.param "seed" : i64
  %offset = tile.param "q_offset" : i32
}

// -----

// Two buffers of each tile of a loop, one of the others.
tile.kernel @kernel(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  %Sk = tile.axis_extent "k" : i32
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %k = tile.load %K[%c0, %c0, %k0] limit %Sk {tile.name = "k_tile"} : !tile.view<4, bf16> -> !tile.tile<k 32 x d 64, bf16, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    %t = tile.map() at(distance = %k0) -> !tile.tile<distance 95, i32, register> {
    ^bb0(%d: i32):
      tile.yield %d : i32
    }
    // expected-error @below {{'tile.convert' op copies relative-position values to shared memory, which a role that fills rings computes; give sched.roles, or compute them element by element}}
    %s = tile.convert %t : <distance 95, i32, register> -> <distance 95, i32, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]} {
  %c0 = arith.constant 0 : i32
  %t = tile.map() at(distance = %c0) -> !tile.tile<distance 95, i32, register> {
  ^bb0(%d: i32):
    tile.yield %d : i32
  }
  // expected-error @below {{'tile.convert' op copies relative-position values to shared memory that are not a map without inputs and condition, in the loop over tiles}}
  %s = tile.convert %t : <distance 95, i32, register> -> <distance 95, i32, shared>
}

// -----

tile.kernel @kernel() grid [] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], tensors = [#attn.tensor<bias, bf16, rank 2>]} {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %B = tile.param "tensors.bias" : !tile.view<2, bf16>
  %dom = tile.domain k by 32 [%c0, %c2) full
  %zero = arith.constant 0.0 : f32
  %l = tile.splat %zero : f32 -> <q 64, f32, register>
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%l0 = %l : !tile.tile<q 64, f32, register>) {
    // expected-error @below {{'tile.window' op is for loops of kernels with sched.stage_biases; read the tensor element by element}}
    %w = tile.window %B[%c0, %k0] : !tile.view<2, bf16> -> !tile.tile<q 64 x k 32, bf16, shared>
    tile.yield %l0 : !tile.tile<q 64, f32, register>
  }
}

// -----

tile.kernel @kernel(q: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %q0 = tile.block_index "q" : i32
  // expected-error @below {{'tile.warpgroup_row' op names a part of the tile, which is for warpgroups of a kernel with producer warps; give sched.roles, or use the tile's own rows}}
  %row = tile.warpgroup_row %q0 by 64 : i32
}

// -----

tile.kernel @kernel(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 32, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  %q0 = tile.block_index "q" : i32
  // expected-error @below {{'tile.warpgroup_row' op has parts of 32 rows, a warpgroup of the plan holds 64}}
  %row = tile.warpgroup_row %q0 by 32 : i32
}

// -----

tile.kernel @kernel(q: in [b, h, q, d 64] bf16) grid [b, h, q by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %q0 = tile.block_index "q" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%q0, %q0, %q0] limit %q0 : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>
  // expected-error @below {{'tile.scale' op multiplies in shared memory, which is for warpgroups of a kernel with producer warps; give sched.roles, or multiply the scores}}
  %scaled = tile.scale %q exponent -3 : !tile.tile<q 64 x d 64, bf16, shared>
}

// -----

tile.kernel @blocks(sums: workspace [b, h, q by 16, place 1024] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %c8 = arith.constant 8 : i32
  %shifted = arith.addi %q0, %c8 : i32
  %Sq = tile.axis_extent "q" : i32
  %zero = arith.constant 0.0 : f32
  %S = tile.param "sums" : !tile.view<4, f32>
  %rows = tile.blocked_rows %S columns 64 : !tile.view<4, f32>
  %x = tile.splat %zero : f32 -> !tile.tile<q 128 x d 64, f32, register>
  // expected-error @+1 {{'tile.store' op begins at a row that is not known to be a multiple of 16, the rows of a block; take the origin of a tile}}
  tile.store %x, %rows[%b, %h, %shifted] limit %Sq : !tile.tile<q 128 x d 64, f32, register>, !tile.view<4, f32>
}
