// Every error of the sched dialect, to the letter.
// RUN: attune-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a, b, c, rows or columns}}
func.func private @bad(!tile.tile<q 128 x k 64, f32, register, #sched.fragment<d, warps 4>>)

// -----

// expected-error @+1 {{a panel of 96 bytes is not 32, 64 or 128}}
func.func private @bad(!tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<96>>)

// -----

// expected-error @+1 {{'sched.kernel' op 0 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad arch "sm_80" threads 0 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
}

// -----

// expected-error @+1 {{'sched.kernel' op 100 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad arch "sm_80" threads 100 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
}

// -----

// expected-error @+1 {{'sched.kernel' op 1056 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad arch "sm_80" threads 1056 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
}

// -----

// expected-error @+1 {{'sched.kernel' op shared buffers end at byte 24576, past shared_bytes 16384}}
sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 16384 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %0 = sched.shared "ring" at 8192 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{expected grid, persistent, atomic or split}}
  sched.for_work dynamic tile_q 64 (%b, %h, %q) {
  }
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.for_work' op the body takes batch, head and first query row}}
  sched.for_work grid tile_q 64 (%b, %h) {
  }
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op needs at least the tile index}}
  "sched.for_tiles"(%i) <{operandSegmentSizes = array<i32: 0, 1, 0>}> ({
    sched.next
  }) : (i32) -> ()
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n) = (%i) below %i {
    sched.next
  }
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n) = (%i) below %i {
    sched.next %n, %n : i32, i32
  }
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n, %slot) = (%i) below %i {
    sched.next %n : i32
  }
}

// -----

func.func @outside() {
  // expected-error @+1 {{'sched.next' op expects parent op 'sched.for_tiles'}}
  sched.next
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.shared' op needs a shared tile, got '!tile.tile<q 128, f32, register>'}}
  %0 = sched.shared "s" at 0 : !tile.tile<q 128, f32, register>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.shared' op offset 64 is not a multiple of 128, which the swizzle relies on}}
  %0 = sched.shared "s" at 64 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op needs a register tile with a #sched.fragment layout, got '!tile.tile<q 128, f32, register>'}}
  %0 = sched.registers "s" : !tile.tile<q 128, f32, register>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op needs a register tile with a #sched.fragment layout, got '!tile.tile<q 128, f32, shared, #sched.fragment<rows, warps 4>>'}}
  %0 = sched.registers "s" : !tile.tile<q 128, f32, shared, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 8>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 8>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 128 x d 8, bf16, register, #sched.fragment<a, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 128 x d 8, bf16, register, #sched.fragment<a, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<k 64 x d 8, bf16, register, #sched.fragment<b, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<k 64 x d 8, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 48, f32, register, #sched.fragment<rows, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 48, f32, register, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<k 4, f32, register, #sched.fragment<columns, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<k 4, f32, register, #sched.fragment<columns, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.get' op needs a register buffer with a #sched.fragment layout, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  %0 = sched.get %ring[%i, %i, %i] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  // expected-error @+1 {{'sched.get' op a lane's array has 3 dimensions, got 2 indices}}
  %0 = sched.get %s[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %x = arith.constant 0.0 : f32
  // expected-error @+1 {{'sched.set' op needs a register buffer with a #sched.fragment layout, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  sched.set %x, %ring[%i, %i, %i] : f32, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %m = sched.registers "m" : !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
  // expected-error @+1 {{'sched.set' op a lane's array has 2 dimensions, got 3 indices}}
  sched.set %x, %m[%i, %i, %i] : f32, !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.slot' op gives the ring's tile without its stage axis}}
  %0 = sched.slot %ring[%i] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 32, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %k = sched.shared "k" at 0 : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.slot' op gives the ring's tile without its stage axis}}
  %0 = sched.slot %k[%i] : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.slice' op removes one leading dimension for each index}}
  %0 = sched.slice %K[%i] : !tile.view<4, bf16> -> !tile.view<2, bf16>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.slice' op removes one leading dimension for each index}}
  %0 = sched.slice %K[%i, %i] : !tile.view<4, bf16> -> !tile.view<2, f32>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.store_element' op needs one index for each dimension of the view}}
  sched.store_element %x, %lse[%i] : f32, !tile.view<3, f32>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  // expected-error @+1 {{'sched.wait_copies' op pending must not be negative}}
  sched.wait_copies pending -1
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %a[%i, %i], %a[%i, %i], %b[%i, %i] : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %s[%i, %i], %b[%i, %i], %b[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 head_dim 64 x 64 plan <tile_q = 128, tile_k = 64, warps = 4, stages = 2, q_registers = false, blocks_per_sm = 2, longest_first = true> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %s[%i, %i], %a[%i, %i], %a[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
}
