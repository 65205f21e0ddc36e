// Every error of the tile dialect, to the letter.
// RUN: attune-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{axis q has size 0; it must be positive}}
func.func private @bad(!tile.tile<q 0, f32, register>)

// -----

// expected-error @+1 {{a tile of more than 2^31 - 1 elements}}
func.func private @bad(!tile.tile<q 65536 x k 32768, f32, register>)

// -----

// expected-error @+1 {{a tile of more than 2^31 - 1 elements}}
func.func private @bad(!tile.tile<q 4611686018427387904 x k 4611686018427387904, f32, register>)

// -----

// expected-error @+1 {{axis q appears twice}}
func.func private @bad(!tile.tile<q 16 x q 16, f32, register>)

// -----

// expected-error @+1 {{element type 'index' is not an integer or a float}}
func.func private @bad(!tile.tile<q 16, index, register>)

// -----

// expected-error @+1 {{no target computes tiles of 'f8E4M3FN'; use f16, bf16 or f32, and keep values of 8 bits as bits in tiles of i32}}
func.func private @bad(!tile.tile<q 16 x k 16, f8E4M3FN, register>)

// -----

// expected-error @+1 {{expected 'shared' or 'register'}}
func.func private @bad(!tile.tile<q 16, f32, global>)

// -----

// expected-error @+1 {{the tile's size along q is 120, no positive multiple of 16}}
tile.kernel @bad() grid [] dtype bf16 plan <q 120 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{the tile's size along k is 0, no positive multiple of 16}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 0, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{axis q has two sizes}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x q 64, warps = 4, blocks_per_sm = 2> {
}

// -----

// expected-error @+1 {{such as <q 128 x k 64, warps = 4, blocks_per_sm = 2>; tile_q is none of them (scripts/rename-ir brings older text to this form)}}
tile.kernel @bad() grid [] dtype bf16 plan <tile_q = 128, tile_k = 64, warps = 4, blocks_per_sm = 2> {
}

// -----

// expected-error @+1 {{warps and blocks_per_sm must be positive}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 0> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{dv_warps 3 does not divide 4 warps}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2, dv_warps = 3> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{dv_warps 0 does not divide 4 warps}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2, dv_warps = 0> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.kernel' op dtype 'f64' is not f16, bf16 or f32}}
tile.kernel @bad() grid [] dtype f64 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.param' op parameter 'q' is '!tile.view<4, bf16>', not '!tile.view<4, f16>'}}
  %0 = tile.param "q" : !tile.view<4, f16>
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.param' op parameter 'lse' is '!tile.view<3, f32>', not '!tile.view<4, f32>'}}
  %0 = tile.param "lse" : !tile.view<4, f32>
}

// -----

tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.axis_extent' op no operand of the kernel has an axis d whose extent the launch gives}}
  %0 = tile.axis_extent "d" : i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.param' op parameter 'keep_scale' is 'f32', not 'i32'}}
  %0 = tile.param "keep_scale" : i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.param' op parameter 'seed' is 'i64', not 'i32'}}
  %0 = tile.param "seed" : i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<slopes, f32, rank 1>]} {
  // expected-error @+1 {{'tile.param' op parameter 'tensors.slopes' is '!tile.view<1, f32>', not '!tile.view<2, f32>'}}
  %0 = tile.param "tensors.slopes" : !tile.view<2, f32>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, scalars = [#attn.scalar<cap, f32>]} {
  // expected-error @+1 {{'tile.param' op parameter 'scalars.cap' is 'f32', not 'i32'}}
  %0 = tile.param "scalars.cap" : i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.param' op the kernel has no parameter 'tensors.slopes'}}
  %0 = tile.param "tensors.slopes" : !tile.view<1, f32>
}

// -----

func.func @outside() -> i32 {
  // expected-error @+1 {{'tile.param' op must be inside a kernel}}
  %0 = tile.param "group" : i32
  return %0 : i32
}

// -----

func.func @outside() -> i32 {
  // expected-error @+1 {{'tile.axis_extent' op must be inside a kernel}}
  %0 = tile.axis_extent "k" : i32
  return %0 : i32
}

// -----

// expected-error @+1 {{'tile.kernel' op declares operand 'q' twice}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.kernel' op has axis d of operand 'k' with another extent than in another operand}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16, k: in [b, h, k, d 128] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{operand "q" has axis b twice}}
tile.kernel @bad(q: in [b, b] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

func.func @rank(%view: !tile.view<2, i32>, %x: i32) -> i32 {
  // expected-error @+1 {{'tile.search' op searches a view of rank 1, got '!tile.view<2, i32>'}}
  %0 = tile.search %view, %x : !tile.view<2, i32>, i32
  return %0 : i32
}

// -----

func.func @type(%view: !tile.view<1, bf16>, %x: i32) -> i32 {
  // expected-error @+1 {{'tile.search' op elements of '!tile.view<1, bf16>' are 'f32', but x is 'i32'}}
  %0 = tile.search %view, %x right : !tile.view<1, bf16>, i32
  return %0 : i32
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tensors = [#attn.tensor<begins, i32, rank 1>]} {
  %begins = tile.param "tensors.begins" : !tile.view<1, i32>
  %x = arith.constant 3 : i32
  // expected-error @+1 {{'tile.search' op counts tiles of 0 rows of '!tile.view<1, i32>'; give a positive number, and elements of i32}}
  %0 = tile.search %begins, %x right tiles 0 : !tile.view<1, i32>, i32
}

// -----

// expected-error @+1 {{axis "q_by_64" is derived by "sequence_rows", which is `of` an axis of rows}}
tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "q_by_64", rule = "sequence_rows", by = 64, of = "tensors.begins.0">]} {
}

// -----

// expected-error @+1 {{expected in, out, accumulate or workspace}}
tile.kernel @bad(q: inout [b] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{operand "q" has element type 'f64'; use f32, f16, bf16, i32, i64, or i8 for bool}}
tile.kernel @bad(q: in [b] f64) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{axis "d" has extent -1, required is 1 to 2147483647}}
tile.kernel @bad(q: in [b, d -1] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.block_index' op the kernel's grid has no axis k}}
  %0 = tile.block_index "k" : i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  // expected-error @+1 {{'tile.domain' op needs at least one segment, each with a begin, an end and a kind}}
  %0 = tile.domain k by 64
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.domain' op needs at least one segment, each with a begin, an end and a kind}}
  %0 = "tile.domain"(%i, %i) <{axis = "k", step = 64 : i64, full = array<i1: true, false>, operandSegmentSizes = array<i32: 1, 1, 0>}> ({}, {}) : (i32, i32) -> !tile.domain
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{expected 'full' or 'partial'}}
  %0 = tile.domain k by 64 [%i, %i) half
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.domain' op step must be positive}}
  %0 = tile.domain k by 0 [%i, %i) full
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<p, i8, rank 2>]} {
  %i = tile.block_index "b" : i32
  %p = tile.param "tensors.p" : !tile.view<2, i8>
  // expected-error @+1 {{'tile.touches' op takes 2 indices for a pattern of rank 2, the tile's first row and key last; got 1}}
  %0 = tile.touches %p[%i] tile 128 x 64 blocks 64 x 64 : !tile.view<2, i8>
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %q = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'tile.touches' op reads flags, elements of i8; got '!tile.view<3, f32>'}}
  %0 = tile.touches %q[%i, %i, %i] tile 128 x 64 blocks 64 x 64 : !tile.view<3, f32>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<p, i8, rank 2>]} {
  %i = tile.block_index "b" : i32
  %p = tile.param "tensors.p" : !tile.view<2, i8>
  // expected-error @+1 {{'tile.touches' op sizes of tiles and blocks must be positive}}
  %0 = tile.touches %p[%i, %i] tile 128 x 64 blocks 0 x 64 : !tile.view<2, i8>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.domain' op the region of `where` takes a tile's index (i32), with `times` the iteration's (i32) too, and yields whether it is visited and whether it is full (i1, i1)}}
  %0 = tile.domain k by 64 [%i, %i) partial where {
  ^bb0(%n: i32):
    tile.yield %n : i32
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.domain' op the region of `where` has effects}}
  %0 = tile.domain k by 64 [%i, %i) partial where {
  ^bb0(%n: i32):
    %q = tile.param "q" : !tile.view<4, bf16>
    %t = tile.load %q[%i, %i, %n] limit %i : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    tile.store %t, %q[%i, %i, %n] limit %i : !tile.tile<k 64 x d 64, bf16, shared>, !tile.view<4, bf16>
    %true = arith.constant true
    tile.yield %true, %true : i1, i1
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.domain' op has `groups` without `where`, which tests the tiles of a group one by one}}
  %0 = tile.domain k by 64 [%i, %i) partial groups {
  ^bb0(%group: i32):
    %true = arith.constant true
    tile.yield %true : i1
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %true = arith.constant true
  // expected-error @+1 {{'tile.domain' op the region of `groups` takes a group's index (i32), with `times` the iteration's (i32) too, and yields whether any of its tiles may be visited (i1)}}
  %0 = tile.domain k by 64 [%i, %i) partial where {
  ^bb0(%n: i32):
    tile.yield %true, %true : i1, i1
  } groups {
  ^bb0(%group: i32):
    tile.yield %true, %true : i1, i1
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %true = arith.constant true
  // expected-error @+1 {{'tile.domain' op the region of `groups` has effects}}
  %0 = tile.domain k by 64 [%i, %i) partial where {
  ^bb0(%n: i32):
    tile.yield %true, %true : i1, i1
  } groups {
  ^bb0(%group: i32):
    %q = tile.param "q" : !tile.view<4, bf16>
    %t = tile.load %q[%i, %i, %group] limit %i : !tile.view<4, bf16> -> !tile.tile<k 64 x d 64, bf16, shared>
    tile.store %t, %q[%i, %i, %group] limit %i : !tile.tile<k 64 x d 64, bf16, shared>, !tile.view<4, bf16>
    tile.yield %true : i1
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full
  // expected-error @+1 {{'tile.for_blocks' op tiles lie within two ends, a begin and an end}}
  "tile.for_blocks"(%dom, %i) ({
  ^bb0(%k0: i32, %partial: i1):
    tile.yield
  }) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!tile.domain, i32) -> ()
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full
  // expected-error @+1 {{'tile.for_blocks' op the body takes the first row (i32), the partial flag (i1), of a domain with `times` the iteration (i32), and the carried values}}
  "tile.for_blocks"(%dom) ({
  ^bb0(%k0: i32):
    tile.yield
  }) {operandSegmentSizes = array<i32: 1, 0, 0>} : (!tile.domain) -> ()
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.for_blocks' op initial values, carried values and results differ in type}}
  %r = "tile.for_blocks"(%dom, %m) ({
  ^bb0(%k0: i32, %partial: i1, %x: f32):
    tile.yield %m : !tile.tile<q 128, f32, register>
  }) {operandSegmentSizes = array<i32: 1, 0, 1>} : (!tile.domain, !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.for_blocks' op the yielded values differ in type from the results}}
  %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%x = %m : !tile.tile<q 128, f32, register>) {
    tile.yield %k0 : i32
  }
}

// -----

tile.kernel @bad(lse: in [b, h, q] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %L = tile.param "lse" : !tile.view<3, bf16>
  // expected-error @+1 {{'tile.load' op copies single values to shared memory as they are, of 32 bits, not 'bf16' to 'bf16'; load the vector to registers, and convert it}}
  %0 = tile.load %L[%i, %i, %i] limit %i : !tile.view<3, bf16> -> !tile.tile<q 128, bf16, shared>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  // expected-error @+1 {{'tile.load' op takes 3 indices (the leading dimensions and the first row), got 2}}
  %0 = tile.load %Q[%i, %i] limit %i : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  // expected-error @+1 {{'tile.load' op needs a tile of one or two axes, got '!tile.tile<stage 2 x q 128 x d 64, bf16, shared>'}}
  %0 = tile.load %Q[%i, %i, %i] limit %i : !tile.view<4, bf16> -> !tile.tile<stage 2 x q 128 x d 64, bf16, shared>
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.store' op takes 3 indices (the leading dimensions and the first row), got 1}}
  tile.store %m, %LSE[%i] limit %i : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.accumulate' op adds f32 tiles to f32 views}}
  tile.accumulate %m, %Q[%i, %i, %i, %i] limit %i : !tile.tile<q 128, f32, register>, !tile.view<4, bf16>
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.accumulate' op takes 3 indices (the leading dimensions and the first row), got 2}}
  tile.accumulate %m, %LSE[%i, %i] limit %i : !tile.tile<q 128, f32, register>, !tile.view<3, f32>
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'tile.element' op a view of rank 3 takes 3 indices and in_range flags}}
  %0 = tile.element %LSE[%i] in_range [true] : !tile.view<3, f32> (i32) -> f32
}

// -----

tile.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'tile.element' op a view of rank 3 takes 3 indices and in_range flags}}
  %0 = tile.element %LSE[%i, %i, %i] in_range [true] : !tile.view<3, f32> (i32, i32, i32) -> f32
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  // expected-error @+1 {{'tile.element' op elements of '!tile.view<4, bf16>' are 'f32'}}
  %0 = tile.element %Q[%i, %i, %i, %i] in_range [true, true, true, true] : !tile.view<4, bf16> (i32, i32, i32, i32) -> i32
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{'tile.splat' op the scalar and the elements differ in type}}
  %0 = tile.splat %c : f32 -> !tile.tile<q 128, bf16, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.convert' op tiles '!tile.tile<q 128, f32, register>' and '!tile.tile<k 128, f32, register>' have different axes}}
  %0 = tile.convert %m : !tile.tile<q 128, f32, register> -> !tile.tile<k 128, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.convert' op makes negative floats 0 where it packs 16 bits in an `a` fragment, got '!tile.tile<q 128 x k 64, bf16, register>'; use a maximum with 0 in a map}}
  %0 = tile.convert %m relu : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] f16) grid [b, h, q by 128] dtype f16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %b = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, f16>
  %q = tile.load %Q[%b, %b, %b] limit %b : !tile.view<4, f16> -> !tile.tile<q 128 x d 64, f16, shared>
  // expected-error @+1 {{'tile.scale' op multiplies a shared tile of bf16, got '!tile.tile<q 128 x d 64, f16, shared>'}}
  %0 = tile.scale %q exponent -3 : !tile.tile<q 128 x d 64, f16, shared>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %b = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %b, %b] limit %b : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.scale' op attribute 'exponent' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is -126 whose maximum value is 126}}
  %0 = tile.scale %q exponent -127 : !tile.tile<q 128 x d 64, bf16, shared>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %b = tile.block_index "b" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %q = tile.load %Q[%b, %b, %b] limit %b : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.scale' op takes the place of a tile that something else reads, too}}
  %0 = tile.scale %q exponent -3 : !tile.tile<q 128 x d 64, bf16, shared>
  %1 = tile.scale %q exponent -2 : !tile.tile<q 128 x d 64, bf16, shared>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128, f32, shared> -> !tile.tile<q 128, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op operands and result have two axes}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, f16, shared>
  // expected-error @+1 {{'tile.mma' op operands have element types 'bf16' and 'f16'}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, f16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op accumulates in f32}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, bf16, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op operands share two axes; exactly one is contracted}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<q 128 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x dv 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x dv 64, f32, shared> -> !tile.tile<k 64 x dv 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op operands '!tile.tile<q 128 x d 64, bf16, shared>' and '!tile.tile<k 64 x dv 64, bf16, shared>' share no axis to contract}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x dv 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 32, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 32, f32, shared> -> !tile.tile<k 64 x d 32, bf16, shared>
  // expected-error @+1 {{'tile.mma' op contracted axis d has sizes 64 and 32}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 32, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op result '!tile.tile<q 128 x k 32, f32, register>' lacks axis k 64}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 32, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'tile.mma' op result '!tile.tile<dv 128 x k 64, f32, register>' lacks axis q 128}}
  %0 = tile.mma %t0, %t1 : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<dv 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, shared>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, shared> -> !tile.tile<q 128 x d 64, bf16, shared>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<k 64 x d 64, f32, shared>
  %t1 = tile.convert %t1_f32 : !tile.tile<k 64 x d 64, f32, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
  %c2 = arith.constant 0.0 : f32
  %t2_f32 = tile.splat %c2 : f32 -> !tile.tile<q 128 x k 32, f32, register>
  %t2 = tile.convert %t2_f32 : !tile.tile<q 128 x k 32, f32, register> -> !tile.tile<q 128 x k 32, f32, register>
  // expected-error @+1 {{'tile.mma' op accumulator and result differ in type}}
  %0 = tile.mma %t0, %t1 add %t2 : !tile.tile<q 128 x k 32, f32, register>, !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.reduce' op tile '!tile.tile<q 128 x k 64, f32, register>' has no axis d}}
  %0 = tile.reduce max %t0 over "d" : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.reduce' op tiles '!tile.tile<q 128, f32, register>' and '!tile.tile<q 64, f32, register>' have different axes}}
  %0 = tile.reduce max %t0 over "k" : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 64, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  %c1 = arith.constant 0.0 : f32
  %t1_f32 = tile.splat %c1 : f32 -> !tile.tile<q 128, f32, register>
  %t1 = tile.convert %t1_f32 : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, bf16, register>
  // expected-error @+1 {{'tile.reduce' op initial value and result differ in type}}
  %0 = tile.reduce max %t0 over "k" init %t1 : !tile.tile<q 128, bf16, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.reduce' op only a sum may stay split over lanes}}
  %0 = tile.reduce max %t0 over "k" : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register> per_lane
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x d 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x d 64, f32, register> -> !tile.tile<q 128 x d 64, f32, register>
  %i = tile.block_index "b" : i32
  %j = tile.param "seed" : i64
  // expected-error @+1 {{'tile.dropout' op needs a tile of q and k whose sizes are multiples of 16}}
  %0 = tile.dropout %t0 at(%i, %i) head %i seed %j offset %j threshold %i : !tile.tile<q 128 x d 64, f32, register> -> !tile.tile<q 128 x d 64, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 56, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 56, f32, register> -> !tile.tile<q 128 x k 56, f32, register>
  %i = tile.block_index "b" : i32
  %j = tile.param "seed" : i64
  // expected-error @+1 {{'tile.dropout' op needs a tile of q and k whose sizes are multiples of 16}}
  %0 = tile.dropout %t0 at(%i, %i) head %i seed %j offset %j threshold %i : !tile.tile<q 128 x k 56, f32, register> -> !tile.tile<q 128 x k 56, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  %i = tile.block_index "b" : i32
  %j = tile.param "seed" : i64
  // expected-error @+1 {{'tile.dropout' op operand and result differ in type}}
  %0 = tile.dropout %t0 at(%i, %i) head %i seed %j offset %j threshold %i : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, register>
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{'tile.map' op needs one origin for each coordinate}}
  %0 = "tile.map"() <{axes = ["q"], operandSegmentSizes = array<i32: 0, 0, 0>}> ({
    tile.yield %c : f32
  }) : () -> !tile.tile<q 128, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{'tile.map' op result '!tile.tile<q 128, f32, register>' has no axis k}}
  %0 = tile.map() at(k = %i) -> !tile.tile<q 128, f32, register> {
  ^bb0(%j: i32):
    tile.yield %c : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.map' op result '!tile.tile<q 128, f32, register>' lacks axis k 64 of input '!tile.tile<q 128 x k 64, f32, register>'}}
  %0 = tile.map(%t0 : !tile.tile<q 128 x k 64, f32, register>) -> !tile.tile<q 128, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.map' op result '!tile.tile<q 64, f32, register>' lacks axis q 128 of input '!tile.tile<q 128, f32, register>'}}
  %0 = tile.map(%t0 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.map' op the region takes one value for each input and one of its origin's type for each coordinate}}
  %0 = tile.map(%t0 : !tile.tile<q 128, f32, register>) -> !tile.tile<q 128, f32, register> {
  ^bb0(%x: f32, %j: i32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.map' op the region must yield one 'f32'}}
  %0 = tile.map() at(q = %i) -> !tile.tile<q 128, f32, register> {
  ^bb0(%j: i32):
    tile.yield %j : i32
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  // expected-error @+1 {{'tile.map' op the region must yield one 'f32'}}
  %0 = tile.map() at(q = %i) -> !tile.tile<q 128, f32, register> {
  ^bb0(%j: i32):
    %k = arith.addi %j, %j : i32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.map' op columns must go from a multiple of 16 to a greater one within result '!tile.tile<q 128 x k 64, f32, register>'}}
  %0 = tile.map(%t : !tile.tile<q 128 x k 64, f32, register>) columns 8 to 32 -> !tile.tile<q 128 x k 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.map' op columns must go from a multiple of 16 to a greater one within result '!tile.tile<q 128 x k 64, f32, register>'}}
  %0 = tile.map(%t : !tile.tile<q 128 x k 64, f32, register>) columns 32 to 32 -> !tile.tile<q 128 x k 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.map' op columns must go from a multiple of 16 to a greater one within result '!tile.tile<q 128 x k 64, f32, register>'}}
  %0 = tile.map(%t : !tile.tile<q 128 x k 64, f32, register>) columns 32 to 80 -> !tile.tile<q 128 x k 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t = tile.splat %c0 : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.map' op with columns the first input must have the type of the result}}
  %0 = tile.map(%t : !tile.tile<q 128, f32, register>) columns 0 to 32 -> !tile.tile<q 128 x k 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0_f32 = tile.splat %c0 : f32 -> !tile.tile<q 128, f32, register>
  %t0 = tile.convert %t0_f32 : !tile.tile<q 128, f32, register> -> !tile.tile<q 128, f32, register>
  %f = arith.constant true
  // expected-error @+1 {{'tile.map' op with only_if the first input must have the type of the result}}
  %0 = tile.map(%t0 : !tile.tile<q 128, f32, register>) only_if %f -> !tile.tile<q 128 x k 64, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %zero = arith.constant 0 : i32
  %f = arith.constant true
  // expected-error @+1 {{'tile.map' op holds nothing where its flag is false; only maps with the same only_if may take it}}
  %0 = tile.map() at(k = %zero) only_if %f -> !tile.tile<k 64, i32, register> {
  ^bb0(%k: i32):
    tile.yield %k : i32
  }
  %1 = tile.map(%0 : !tile.tile<k 64, i32, register>) -> !tile.tile<k 64, i32, register> {
  ^bb0(%x: i32):
    %2 = arith.addi %x, %x : i32
    tile.yield %2 : i32
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "q" : i32
  %t = tile.map() at(distance = %i) -> !tile.tile<distance 192, i32, register> {
  ^bb0(%d: i32):
    tile.yield %d : i32
  }
  // expected-error @+1 {{'tile.map' op input '!tile.tile<distance 192, i32, register>' is indexed by q - k within '!tile.tile<q 128 x k 64, i32, register>', which has 191 distances}}
  %0 = tile.map(%t : !tile.tile<distance 192, i32, register>) -> !tile.tile<q 128 x k 64, i32, register> {
  ^bb0(%x: i32):
    tile.yield %x : i32
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<bias, bf16, rank 3>]} {
  %i = tile.block_index "q" : i32
  %B = tile.param "tensors.bias" : !tile.view<3, bf16>
  // expected-error @+1 {{'tile.window' op a view of rank 3 takes 3 indices, got 2}}
  %w = tile.window %B[%i, %i] : !tile.view<3, bf16> -> !tile.tile<q 128 x k 64, bf16, shared>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<bias, bf16, rank 3>]} {
  %i = tile.block_index "q" : i32
  %B = tile.param "tensors.bias" : !tile.view<3, bf16>
  // expected-error @+1 {{'tile.window' op gives a shared tile of two axes with the elements of a view of two dimensions or more, got '!tile.tile<q 128 x k 64, f32, shared>' of '!tile.view<3, bf16>'}}
  %w = tile.window %B[%i, %i, %i] : !tile.view<3, bf16> -> !tile.tile<q 128 x k 64, f32, shared>
}

// -----

// expected-error @+1 {{'tile.kernel' op has axis q in its grid, which no operand has; declare an operand with it, or give it an extent}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.kernel' op has axis b twice in its grid}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b, b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{operand "k" has 7 axes; the most is 6}}
tile.kernel @bad(k: in [b, hkv, k by 16, x, y, z, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{axis "d" counts tiles of 2; required is 1 to 2147483647, and 1 for an axis of fixed extent}}
tile.kernel @bad(k: in [b, hkv, k, d 64 by 2] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.launch' op the module has no kernel @second}}
tile.launch @pair [@first, @second dependent]
tile.kernel @first(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.launch' op the first kernel depends on none}}
tile.launch @pair [@first dependent]
tile.kernel @first(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

// expected-error @+1 {{'tile.launch' op its kernels derive axis "split" in two ways}}
tile.launch @pair [@first, @second]
tile.kernel @first(k: in [b, hkv, k, d 64] bf16) grid [b, split] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "split", rule = "splits", by = 64>]} {
}
tile.kernel @second(k: in [b, hkv, k, d 64] bf16) grid [b, split] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "split", rule = "splits", by = 32>]} {
}

// -----

// expected-error @+1 {{'tile.kernel' op is left out by the extent of axis "h", which no operand has; declare an operand with it}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.skipped_if = [#tile.bound<"b">, #tile.bound<"k" most "h">]} {
}

// -----

// expected-error @+1 {{'tile.kernel' op has tile.skipped_if, which is no list of #tile.bound}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.skipped_if = []} {
}

// -----

// expected-error @+1 {{'tile.kernel' op has tile.fallback_of, which names no kernel}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.fallback_of = "other"} {
}

// -----

// expected-error @+1 {{'tile.launch' op starts "first" in place of @other, which is no kernel of it}}
tile.launch @pair [@first]
tile.kernel @first(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.fallback_of = @other} {
}
tile.kernel @other(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
}

// -----

// expected-error @+1 {{axis "row" is derived by "halves", which is not "rows", "splits", "pages", "slots", "work_items", "tile_rows", "sequences" or "sequence_rows"}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "row", rule = "halves">]} {
}

// -----

// expected-error @+1 {{axis "split" is derived by tiles of 0 and 1 blocks a multiprocessor; both are positive}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "split", rule = "splits", by = 0>]} {
}

// -----

// expected-error @+1 {{'tile.kernel' op has tile.derived, which is no list of #tile.derived}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = ["row"]} {
}

// -----

tile.kernel @bad(lse: in [b, h] f32) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %group = tile.param "group" : i32
  %V = tile.param "lse" : !tile.view<2, f32>
  // expected-error @+1 {{'tile.group_rows' op takes a view of at least three dimensions, batches, heads and queries, got '!tile.view<2, f32>'}}
  %rows = tile.group_rows %V by %group : !tile.view<2, f32>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %group = tile.param "group" : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  %rows = tile.group_rows %Q by %group : !tile.view<4, bf16>
  // expected-error @+1 {{'tile.group_rows' op takes a view that tile.param reads}}
  %again = tile.group_rows %rows by %group : !tile.view<4, bf16>
}

// -----

tile.kernel @bad(sums: workspace [b, h, q, d 64] f32) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %S = tile.param "sums" : !tile.view<4, f32>
  // expected-error @+1 {{'tile.blocked_rows' op takes blocks of 16 rows and 1024 places, with columns in eights, got}}
  %rows = tile.blocked_rows %S columns 64 : !tile.view<4, f32>
}

// -----

tile.kernel @bad(sums: workspace [b, h, q by 16, place 960] f32) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %S = tile.param "sums" : !tile.view<4, f32>
  // expected-error @+1 {{'tile.blocked_rows' op takes blocks of 16 rows and 960 places, with columns in eights, got}}
  %rows = tile.blocked_rows %S columns 60 : !tile.view<4, f32>
}

// -----

tile.kernel @bad(sums: workspace [b, h, q by 16, place 1024] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %S = tile.param "sums" : !tile.view<4, bf16>
  // expected-error @+1 {{'tile.blocked_rows' op takes a view of float32 of at least two dimensions that tile.param reads}}
  %rows = tile.blocked_rows %S columns 64 : !tile.view<4, bf16>
}

// -----

tile.kernel @bad(sums: workspace [b, h, q by 16, place 1024] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %S = tile.param "sums" : !tile.view<4, f32>
  %rows = tile.blocked_rows %S columns 64 : !tile.view<4, f32>
  // expected-error @+1 {{'tile.load' op takes rows in blocks of 16 by register tiles with rows in sixteens, got '!tile.tile<q 128 x d 64, f32, shared>'}}
  %x = tile.load %rows[%b, %h, %q0] limit %Sq : !tile.view<4, f32> -> !tile.tile<q 128 x d 64, f32, shared>
}

// -----

tile.kernel @bad(sums: workspace [b, h, q by 16, place 1024] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %q0 = tile.block_index "q" : i32
  %S = tile.param "sums" : !tile.view<4, f32>
  // expected-error @+1 {{'tile.blocked_rows' op is read by tile.element; load, store or accumulate tiles of it}}
  %rows = tile.blocked_rows %S columns 64 : !tile.view<4, f32>
  %x = tile.element %rows[%q0, %q0, %q0, %q0] in_range [true, true, true, true] : !tile.view<4, f32> (i32, i32, i32, i32) -> f32
}

// -----

// expected-error @+1 {{axis "k" is derived by "pages", which is `of` a dimension tensors.NAME.N of their table}}
tile.kernel @bad(k: in [page, hkv, slot 64, d 64] bf16) grid [page] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "k", rule = "pages", by = 64>]} {
}

// -----

// expected-error @+1 {{axis "row" is derived by "rows", which is `of` nothing}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "row", rule = "rows", of = "tensors.t.1">]} {
}

// -----

// expected-error @+1 {{axis "work_item" is derived by "work_items", which is `of` an axis of rows}}
tile.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tile.derived = [#tile.derived<name = "work_item", rule = "work_items", of = "tensors.t.1">]} {
}

// -----

tile.kernel @bad(k: in [page, hkv, slot 64, d 64] bf16) grid [page] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tensors = [#attn.tensor<table, i32, rank 1>]} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %table = tile.param "tensors.table" : !tile.view<1, i32>
  // expected-error @+1 {{'tile.paged_rows' op takes a view of at least three dimensions, pages, heads and slots, and a table of i32 of two, got '!tile.view<4, bf16>' and '!tile.view<1, i32>'}}
  %rows = tile.paged_rows %K by %table size 64 : !tile.view<4, bf16>, !tile.view<1, i32>
}

// -----

tile.kernel @bad(k: in [page, hkv, slot 64, d 64] bf16) grid [page] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {tensors = [#attn.tensor<table, i32, rank 2>]} {
  %K = tile.param "k" : !tile.view<4, bf16>
  %table = tile.param "tensors.table" : !tile.view<2, i32>
  // expected-error @+1 {{'tile.paged_rows' op has pages of 32, which "k" has not}}
  %rows = tile.paged_rows %K by %table size 32 : !tile.view<4, bf16>, !tile.view<2, i32>
}

// -----

// expected-error @+1 {{'tile.launch' op its kernels declare operand "k" in two ways}}
tile.launch @pair [@first, @second]
tile.kernel @first(k: in [b, hkv, k, d 64] bf16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}
tile.kernel @second(k: in [b, hkv, k, d 64] f16) grid [b] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.scatter' op a view of rank 3 takes 3 indices, got 1}}
  tile.scatter %m, %V[%i] : !tile.tile<q 128, f32, register>, !tile.view<3, f32> (i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, bf16>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.scatter' op adds f32 to f32 views, got '!tile.view<3, bf16>'}}
  tile.scatter add %m, %V[%i, %i, %i] : !tile.tile<q 128, f32, register>, !tile.view<3, bf16> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<k 64 x q 128, f32, register>
  %shared = tile.convert %m : !tile.tile<k 64 x q 128, f32, register> -> !tile.tile<k 64 x q 128, bf16, shared>
  // expected-error @+1 {{'tile.scatter' op takes from shared memory the elements of two axes that a view of bf16 or f16 has, and adds none, got '!tile.tile<k 64 x q 128, bf16, shared>' and '!tile.view<3, f32>'}}
  tile.scatter %shared, %V[%i, %i, %i] : !tile.tile<k 64 x q 128, bf16, shared>, !tile.view<3, f32> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] i32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, i32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  // expected-error @+1 {{'tile.scatter' op takes f32 in registers to views of floats, got '!tile.tile<q 128, f32, register>' and '!tile.view<3, i32>'}}
  tile.scatter %m, %V[%i, %i, %i] : !tile.tile<q 128, f32, register>, !tile.view<3, i32> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] i32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, i32>
  %n = tile.splat %i : i32 -> !tile.tile<q 128, i32, register>
  // expected-error @+1 {{'tile.scatter' op adds i32 to i64 views, and writes none, got '!tile.view<3, i32>'}}
  tile.scatter add %n, %V[%i, %i, %i] : !tile.tile<q 128, i32, register>, !tile.view<3, i32> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] i64) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, i64>
  %n = tile.splat %i : i32 -> !tile.tile<q 128, i32, register>
  // expected-error @+1 {{'tile.scatter' op adds i32 to i64 views, and writes none, got '!tile.view<3, i64>'}}
  tile.scatter %n, %V[%i, %i, %i] : !tile.tile<q 128, i32, register>, !tile.view<3, i64> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  %n = tile.splat %i : i32 -> !tile.tile<k 64, i32, register>
  // expected-error @+1 {{'tile.scatter' op takes indices of i32 with the axes of '!tile.tile<q 128, f32, register>', or one of them, got '!tile.tile<k 64, i32, register>'}}
  tile.scatter %m, %V[%i, %i, %n] : !tile.tile<q 128, f32, register>, !tile.view<3, f32> (i32, i32, !tile.tile<k 64, i32, register>)
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full
  // expected-error @+1 {{'tile.for_blocks' op takes the iteration number of a domain that has none; give the domain `times`}}
  tile.for_blocks (%k0, %partial, %iteration) in %dom {
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %true = arith.constant true
  // expected-error @+1 {{'tile.domain' op asks which round a tile is in, and has none; give it `times`}}
  %dom = tile.domain k by 64 [%i, %i) full where {
  ^bb0(%n: i32, %iteration: i32):
    tile.yield %true, %true : i1, i1
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %dom = tile.domain k by 64 [%i, %i) full times %i
  // expected-error @+1 {{'tile.for_blocks' op goes over a domain with `times`; its body takes the iteration number, too}}
  tile.for_blocks (%k0, %partial) in %dom {
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %i = tile.block_index "b" : i32
  %j = tile.param "seed" : i64
  // expected-error @+1 {{'tile.dropout' op says of each element of '!tile.tile<q 128 x k 64, f32, register>' by i1 whether it is kept, got '!tile.tile<q 128 x k 64, i32, register>'}}
  %0, %1 = tile.dropout %t0 at(%i, %i) head %i seed %j offset %j threshold %i : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128 x k 64, i32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, saved.score: in [b, h, q, k] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %S = tile.param "saved.score" : !tile.view<4, f32>
  // expected-error @+1 {{'tile.load_blocks' op takes a view [b, h, q by 16, k by 16, n], got '!tile.view<4, f32>'}}
  %0 = tile.load_blocks %S[%i, %i, %i, %i] : !tile.view<4, f32> -> !tile.tile<q 128 x k 64, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, saved.score: in [b, h, q by 16, k by 16, element 256] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %i = tile.block_index "b" : i32
  %S = tile.param "saved.score" : !tile.view<5, f32>
  // expected-error @+1 {{'tile.load_blocks' op needs a register tile of q and k whose sizes are multiples of 16}}
  %0 = tile.load_blocks %S[%i, %i, %i, %i] : !tile.view<5, f32> -> !tile.tile<q 128 x k 56, f32, register>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16, saved.dropout: out [b, h, q by 16, k by 16, call 32] i8) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first} {
  %c0 = arith.constant 0.0 : f32
  %t0 = tile.splat %c0 : f32 -> !tile.tile<q 128 x k 64, f32, register>
  %i = tile.block_index "b" : i32
  %S = tile.param "saved.dropout" : !tile.view<5, i8>
  // expected-error @+1 {{'tile.store_blocks' op takes f32 in views of f32, or i1 in views of i8, got '!tile.tile<q 128 x k 64, f32, register>' and '!tile.view<5, i8>'}}
  tile.store_blocks %t0, %S[%i, %i, %i, %i] : !tile.tile<q 128 x k 64, f32, register>, !tile.view<5, i8>
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.sum_diagonals' op 16 rows and 64 columns have 80 distances, got 79}}
  %s = tile.sum_diagonals %m : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<part 8 x distance 79, f32, register>
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.sum_diagonals' op 128 rows have no 3 equal parts}}
  %s = tile.sum_diagonals %m : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<part 3 x distance 80, f32, register>
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128 x k 64, f32, register>
  // expected-error @+1 {{'tile.sum_diagonals' op gives a tile of part and distance of f32 in registers, not '!tile.tile<distance 191, f32, register>'}}
  %s = tile.sum_diagonals %m : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<distance 191, f32, register>
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %m = tile.splat %i : i32 -> !tile.tile<q 128 x k 64, i32, register>
  // expected-error @+1 {{'tile.sum_diagonals' op takes a tile of two axes of f32 in registers, got '!tile.tile<q 128 x k 64, i32, register>'}}
  %s = tile.sum_diagonals %m : !tile.tile<q 128 x k 64, i32, register> -> !tile.tile<part 8 x distance 80, f32, register>
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
  %at = tile.splat %i : i32 -> !tile.tile<q 128, i32, register>
  // expected-error @+1 {{'tile.scatter' op merges sums of diagonals that it adds by an index of each, f32 by part and distance, got '!tile.tile<q 128, f32, register>'}}
  tile.scatter add merge %m, %V[%i, %i, %at] : !tile.tile<q 128, f32, register>, !tile.view<3, f32> (i32, i32, !tile.tile<q 128, i32, register>)
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<part 8 x distance 80, f32, register>
  // expected-error @+1 {{'tile.scatter' op merges sums of diagonals that it adds by an index of each, f32 by part and distance, got '!tile.tile<part 8 x distance 80, f32, register>'}}
  tile.scatter add merge %m, %V[%i, %i, %i] : !tile.tile<part 8 x distance 80, f32, register>, !tile.view<3, f32> (i32, i32, i32)
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = tile.block_index "b" : i32
  %V = tile.param "x" : !tile.view<3, f32>
  %c = arith.constant 0.0 : f32
  %m = tile.splat %c : f32 -> !tile.tile<part 8 x distance 80, f32, register>
  %at = tile.splat %i : i32 -> !tile.tile<distance 80, i32, register>
  // expected-error @+1 {{'tile.scatter' op takes indices of i32 with the axes of '!tile.tile<part 8 x distance 80, f32, register>', got '!tile.tile<distance 80, i32, register>'}}
  tile.scatter add %m, %V[%i, %i, %at] : !tile.tile<part 8 x distance 80, f32, register>, !tile.view<3, f32> (i32, i32, !tile.tile<distance 80, i32, register>)
}

// -----

tile.kernel @bad(x: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c = arith.constant 0.0 : f32
  %v = tile.splat %c : f32 -> !tile.tile<distance 80, f32, register>
  // expected-error @+1 {{'tile.map' op result '!tile.tile<part 8 x distance 80, f32, register>' is by part and distance, which a map of vectors such as '!tile.tile<distance 80, f32, register>' is not}}
  %m = tile.map(%v : !tile.tile<distance 80, f32, register>) at() -> !tile.tile<part 8 x distance 80, f32, register> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @bad(x: in [n] f32) grid [n by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'tile.bits' op the region takes one i32 and yields one i1}}
  %bits = tile.bits 4 {
  ^bb0(%i: i32):
    tile.yield %i : i32
  }
}

// -----

tile.kernel @bad(x: in [n] f32) grid [n by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'tile.bits' op attribute 'count' failed to satisfy constraint: 32-bit signless integer attribute whose minimum value is 1 whose maximum value is 32}}
  %bits = tile.bits 33 {
  ^bb0(%i: i32):
    %0 = arith.cmpi slt, %i, %i : i32
    tile.yield %0 : i1
  }
}

// -----

tile.kernel @bad(x: in [n] f32) grid [n by 64] dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %bits = tile.bits 4 {
  ^bb0(%i: i32):
    // expected-error @+1 {{'tile.bits' op has memory effects or regions; a condition of `tile.bits` has neither}}
    %inner = tile.bits 4 {
    ^bb0(%j: i32):
      %0 = arith.cmpi slt, %i, %j : i32
      tile.yield %0 : i1
    }
    %1 = arith.cmpi slt, %inner, %i : i32
    tile.yield %1 : i1
  }
}
