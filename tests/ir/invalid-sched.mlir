// Every error of the sched dialect, to the letter.
// RUN: attune-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a, b, c, rows, columns, lanes, threads, diagonals or distances}}
func.func private @bad(!tile.tile<q 128 x k 64, f32, register, #sched.fragment<d, warps 4>>)

// -----

// expected-error @+1 {{a fragment over 4 x 0 warps; a block has 1 to 32}}
func.func private @bad(!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4 x 0>>)

// -----

// expected-error @+1 {{a fragment over 2 x 9223372036854775807 warps; a block has 1 to 32}}
func.func private @bad(!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 2 x 9223372036854775807>>)

// -----

// expected-error @+1 {{columns of a fragment of role a are not split over warps; only those of c and columns are}}
func.func private @bad(!tile.tile<q 128 x k 64, bf16, register, #sched.fragment<a, warps 4 x 2>>)

// -----

// expected-error @+1 {{'func.func' op has a sched.at of 1 : i64, which does not say when it runs; write #sched.at<order 1>}}
func.func private @bad() attributes {sched.at = 1}

// -----

// expected-error @+1 {{'func.func' op is marked sched.async, but only products start and are waited for later}}
func.func private @bad() attributes {sched.async}

// -----

// expected-error @+1 {{expected stage, order or ping_pong}}
func.func private @bad() attributes {sched.at = #sched.at<order 0, after 1>}

// -----

// expected-error @+1 {{stage 8 is not one of 0, a pass's own tile, to 7, so many tiles before}}
func.func private @bad() attributes {sched.at = #sched.at<order 0, stage 8>}

// -----

// expected-error @+1 {{stage -1 is not one of 0, a pass's own tile, to 7, so many tiles before}}
func.func private @bad() attributes {sched.at = #sched.at<order 0, stage -1>}

// -----

// expected-error @+1 {{order -1 is negative}}
func.func private @bad() attributes {sched.at = #sched.at<order -1>}

// -----

// expected-error @+1 {{ping_pong needs a name}}
func.func private @bad() attributes {sched.at = #sched.at<order 0, ping_pong "">}

// -----

// expected-error @+1 {{a panel of 96 bytes is not 32, 64 or 128}}
func.func private @bad(!tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<96>>)

// -----

// expected-error @+1 {{'sched.kernel' op 0 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad() grid [] arch "sm_80" threads 0 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
}

// -----

// expected-error @+1 {{'sched.kernel' op 100 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad() grid [] arch "sm_80" threads 100 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
}

// -----

// expected-error @+1 {{'sched.kernel' op 1056 threads is not a multiple of 32 up to 1024}}
sched.kernel @bad() grid [] arch "sm_80" threads 1056 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %zero = arith.constant 0 : i32
  %q = sched.shared "q_tile" at 0 : !tile.tile<stage 1 x q 128 x d 64, f16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.scale_shared' op multiplies shared elements of bf16, got '!tile.tile<stage 1 x q 128 x d 64, f16, shared, #sched.swizzle<128>>'}}
  sched.scale_shared %q[%zero, %zero, %zero] exponent -3 : !tile.tile<stage 1 x q 128 x d 64, f16, shared, #sched.swizzle<128>>
}

// -----

// expected-error @+1 {{'sched.kernel' op shared buffers end at byte 9223372036854792064, past shared_bytes 16384}}
sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 16384 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %0 = sched.shared "ring" at 9223372036854775680 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

// expected-error @+1 {{'sched.kernel' op attribute 'shared_bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes -16384 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 16384 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.shared' op attribute 'offset' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = sched.shared "ring" at -128 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

// expected-error @+1 {{'sched.kernel' op shared buffers end at byte 24576, past shared_bytes 16384}}
sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 16384 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %0 = sched.shared "ring" at 8192 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

// The last panel of a row is whole: 72 columns take 192 bytes in panels of 64, and 256 in panels of 128.
// expected-error @+1 {{'sched.kernel' op shared buffers end at byte 24576, past shared_bytes 24575}}
sched.kernel @padded_to_64() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 24575 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %0 = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 72, bf16, shared, #sched.swizzle<64>>
}

// -----

// expected-error @+1 {{'sched.kernel' op shared buffers end at byte 32768, past shared_bytes 32767}}
sched.kernel @padded_to_128() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 32767 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %0 = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 72, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{expected grid, persistent or received}}
  sched.for_work dynamic (%number) {
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.for_work' op the body takes the number of a tile}}
  sched.for_work grid (%number, %count) {
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op needs at least the tile index}}
  "sched.for_tiles"(%i) <{operandSegmentSizes = array<i32: 0, 1, 0>}> ({
    sched.next
  }) : (i32) -> ()
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n) = (%i) below %i {
    sched.next
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n) = (%i) below %i {
    sched.next %n, %n : i32, i32
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  // expected-error @+1 {{'sched.for_tiles' op initial, carried and next values differ in number or type}}
  sched.for_tiles (%n, %slot) = (%i) below %i {
    sched.next %n : i32
  }
}

// -----

func.func @outside() {
  // expected-error @+1 {{'sched.next' op expects parent op to be one of 'sched.for_tiles, sched.for_work'}}
  sched.next
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.shared' op needs a shared tile, got '!tile.tile<q 128, f32, register>'}}
  %0 = sched.shared "s" at 0 : !tile.tile<q 128, f32, register>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.shared' op offset 64 is not a multiple of 128, which the swizzle relies on}}
  %0 = sched.shared "s" at 64 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op needs a register tile with a #sched.fragment layout, got '!tile.tile<q 128, f32, register>'}}
  %0 = sched.registers "s" : !tile.tile<q 128, f32, register>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op needs a register tile with a #sched.fragment layout, got '!tile.tile<q 128, f32, shared, #sched.fragment<rows, warps 4>>'}}
  %0 = sched.registers "s" : !tile.tile<q 128, f32, shared, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 8>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 64 x k 64, f32, register, #sched.fragment<c, warps 8>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the columns of '!tile.tile<q 64 x dv 72, f32, register, #sched.fragment<c, warps 2 x 2>>' do not give each of 2 warps a multiple of 8}}
  %0 = sched.registers "acc" : !tile.tile<q 64 x dv 72, f32, register, #sched.fragment<c, warps 2 x 2>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the block has 4 warps, fewer than the 8 that hold '!tile.tile<q 64 x dv 64, f32, register, #sched.fragment<c, warps 4 x 2>>'}}
  %0 = sched.registers "acc" : !tile.tile<q 64 x dv 64, f32, register, #sched.fragment<c, warps 4 x 2>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 128 x d 8, bf16, register, #sched.fragment<a, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 128 x d 8, bf16, register, #sched.fragment<a, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<k 64 x d 8, bf16, register, #sched.fragment<b, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<k 64 x d 8, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<q 48, f32, register, #sched.fragment<rows, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<q 48, f32, register, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.registers' op the tile '!tile.tile<k 4, f32, register, #sched.fragment<columns, warps 4>>' is smaller than one fragment a warp}}
  %0 = sched.registers "s" : !tile.tile<k 4, f32, register, #sched.fragment<columns, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.get' op needs a register buffer with a #sched.fragment layout, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  %0 = sched.get %ring[%i, %i, %i] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  // expected-error @+1 {{'sched.get' op a lane's array has 3 dimensions, got 2 indices}}
  %0 = sched.get %s[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>> -> f32
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  %x = arith.constant 0.0 : f32
  // expected-error @+1 {{'sched.set' op needs a register buffer with a #sched.fragment layout, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  sched.set %x, %ring[%i, %i, %i] : f32, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %m = sched.registers "m" : !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
  // expected-error @+1 {{'sched.set' op a lane's array has 2 dimensions, got 3 indices}}
  sched.set %x, %m[%i, %i, %i] : f32, !tile.tile<q 128, f32, register, #sched.fragment<rows, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %ring = sched.shared "ring" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.slot' op gives the ring's tile without its stage axis}}
  %0 = sched.slot %ring[%i] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 32, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %k = sched.shared "k" at 0 : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.slot' op gives the ring's tile without its stage axis}}
  %0 = sched.slot %k[%i] : !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>> -> !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.slice' op removes one leading dimension for each index}}
  %0 = sched.slice %K[%i] : !tile.view<4, bf16> -> !tile.view<2, bf16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.slice' op removes one leading dimension for each index}}
  %0 = sched.slice %K[%i, %i] : !tile.view<4, bf16> -> !tile.view<2, f32>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.slice' op begins dimensions for what accesses several elements, sched.load_elements, sched.store_elements, sched.store_eights and sched.add_elements; give the others their own indices}}
  %own = sched.slice %LSE[%i, %i, %i] : !tile.view<3, f32> -> !tile.view<2, f32>
  %extent = sched.extent %own, 0 : !tile.view<2, f32>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.store_element' op needs one index for each dimension of the view}}
  sched.store_element %x, %lse[%i] : f32, !tile.view<3, f32>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.load_elements' op reads two elements of f32, bf16 or f16, or four of f32, with one index for each dimension, got 2 of '!tile.view<4, bf16>' and 3}}
  %x, %y = sched.load_elements %K[%i, %i, %i] : !tile.view<4, bf16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.load_elements' op reads two elements of f32, bf16 or f16, or four of f32, with one index for each dimension, got 4 of '!tile.view<4, bf16>' and 4}}
  %x:4 = sched.load_elements four %K[%i, %i, %i, %i] : !tile.view<4, bf16>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.add_elements' op adds one value, or two or four side by side, got 3}}
  sched.add_elements %x, %x, %x to %lse[%i, %i, %i] : !tile.view<3, f32>
}

// -----

sched.kernel @bad(counts: workspace [b, n] i64) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %C = tile.param "counts" : !tile.view<2, i64>
  // expected-error @+1 {{'sched.store_elements' op writes two elements of f32, bf16 or f16, or four of f32, with one index for each dimension, got 2 of '!tile.view<2, i64>' and 2}}
  sched.store_elements %x, %x to %C[%i, %i] : !tile.view<2, i64>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %LSE = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.store_eights' op writes eight values to a view of bf16 or f16 with one index for each dimension, got 2, '!tile.view<3, f32>' and 3}}
  sched.store_eights [%x, %x] quad %i to %LSE[%i, %i, %i] : !tile.view<3, f32>
}

// -----

sched.kernel @bad(counts: workspace [b, n] i64) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %C = tile.param "counts" : !tile.view<2, i64>
  // expected-error @+1 {{'sched.in_pairs' op asks for pairs of f32, bf16 or f16 along a last dimension, got '!tile.view<2, i64>'}}
  %x = sched.in_pairs %C : !tile.view<2, i64>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %x = arith.constant 0.0 : f32
  %lse = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.add_elements' op adds to a view of f32 with one index for each dimension, got '!tile.view<3, f32>' and 1}}
  sched.add_elements %x, %x to %lse[%i] : !tile.view<3, f32>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %lse = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.add_integer' op adds to a view of i64 with one index for each dimension, got '!tile.view<3, f32>' and 3}}
  sched.add_integer %i to %lse[%i, %i, %i] : !tile.view<3, f32>
}

// -----

sched.kernel @bad(lse: in [k] bf16) grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %L = tile.param "lse" : !tile.view<1, bf16>
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x k 64, bf16, shared>
  // expected-error @+1 {{'sched.copy_async' op copies elements of a vector of 32 bits each, got 16}}
  sched.copy_async %L[%z, %z] to %s[%z, %z] if %t : !tile.view<1, bf16>, !tile.tile<stage 2 x k 64, bf16, shared>
}

// -----

sched.kernel @bad(lse: in [k] f32) grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %L = tile.param "lse" : !tile.view<1, f32>
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x k 64 x d 64, f32, shared>
  // expected-error @+1 {{'sched.copy_async' op copies rows of two dimensions, or a vector of one, got a view of rank 1 for '!tile.tile<stage 2 x k 64 x d 64, f32, shared>'}}
  sched.copy_async %L[%z, %z] to %s[%z, %z] if %t : !tile.view<1, f32>, !tile.tile<stage 2 x k 64 x d 64, f32, shared>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.wait_copies' op pending must not be negative}}
  sched.wait_copies pending -1
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %a[%i, %i], %a[%i, %i], %b[%i, %i] : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %s[%i, %i], %b[%i, %i], %b[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>, !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
  %b = sched.registers "b" : !tile.tile<k 64 x d 64, bf16, register, #sched.fragment<b, warps 4>>
  // expected-error @+1 {{'sched.mma' op takes fragments c, a and b}}
  sched.mma %s[%i, %i], %a[%i, %i], %a[%i, %i] : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 4>>
}

// -----

// expected-error @+1 {{a fragment over 0 warps; a block has 1 to 32}}
func.func private @bad(!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 0>>)

// -----

// expected-error @+1 {{a ring of 0 stages; it needs at least 1}}
func.func private @bad(!sched.ring<0>)

// -----

// expected-error @+1 {{a box of 512 x 64 elements; each side is 1 to 256}}
func.func private @bad(!sched.tensor_map<512 x 64, bf16>)

// -----

// expected-error @+1 {{a box whose rows have 12 elements of 'bf16' is not a multiple of 16 bytes wide}}
func.func private @bad(!sched.tensor_map<64 x 12, bf16>)

// -----

// expected-error @+1 {{'sched.kernel' op roles have 4 warps, the block has 12}}
sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.role "a" warps 4 {
  }
}

// -----

// Eight registers a warpgroup more than there are: the last one would wait for them for ever.
// expected-error @+1 {{'sched.kernel' op roles take 65536 registers, a block of 384 threads has 64512 at its launch; give a role fewer}}
sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.role "a" warps 4 registers 48 {
  }
  sched.role "b" warps 8 registers 232 {
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.role' op needs at least one warp}}
  sched.role "a" warps 0 { }
  sched.role "b" warps 12 { }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.role' op 9223372036854775807 warps are more than a block has, 32}}
  sched.role "a" warps 9223372036854775807 { }
  sched.role "b" warps 12 { }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.role' op 9223372036854775807 registers is not a multiple of 8 from 24 to 256}}
  sched.role "a" warps 4 registers 9223372036854775807 { }
  sched.role "b" warps 8 registers 232 { }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.role' op 6 warps are not whole warpgroups, which `registers` needs}}
  sched.role "a" warps 6 registers 64 { }
  sched.role "b" warps 6 { }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.role' op 20 registers is not a multiple of 8 from 24 to 256}}
  sched.role "a" warps 4 registers 20 { }
  sched.role "b" warps 8 { }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.for_work' op `from` and `below` belong to the order persistent, which has both}}
  sched.for_work persistent (%number, %count) { }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.for_work' op the body takes the number of a tile, a count, and the carried values}}
  sched.for_work persistent from %z below %z carries (%z, %z) (%number, %count, %stage) {
    sched.next %number, %stage, %stage : i32, i32, i32
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.for_work' op initial, carried and next values differ in number or type}}
  sched.for_work persistent from %z below %z carries (%z, %z) (%number, %count, %stage, %phase) {
    sched.next %number, %stage : i32, i32
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.for_work' op `from` and `below` belong to the order persistent, which has both}}
  sched.for_work received from %z below %z carries (%z) (%count, %stage) {
    sched.next %count, %stage : i32, i32
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.for_work' op carries values, but a block has one tile in this order}}
  sched.for_work grid carries (%z) (%number, %stage) {
    sched.next %stage : i32
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.thread_id' op is `in_role` outside of a role}}
  %i = sched.thread_id in_role : i32
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.role "a" warps 12 {
    sched.for_work grid (%number) {
      // expected-error @+1 {{'sched.thread_id' op is in a role and not `in_role`}}
      %i = sched.thread_id : i32
    }
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.for_work' op `sched.next` must say first which tile of work is the next: its number, i32}}
  sched.for_work persistent from %z below %z (%number, %count) { }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  sched.for_work persistent from %z below %z (%number, %count) {
    %counter = tile.param "q" : !tile.view<4, bf16>
    // expected-error @+1 {{'sched.claim_work' op counts in a workspace operand of one dimension and i32, got '!tile.view<4, bf16>'}}
    %next = sched.claim_work %counter : !tile.view<4, bf16>
    sched.next %next : i32
  }
}

// -----

%z = arith.constant 0 : i32
sched.for_work persistent from %z below %z (%number, %count) {
  // expected-error @+1 {{'sched.wait_launch' op must be inside sched.kernel}}
  sched.wait_launch
  sched.next %number : i32
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.wait_launch' op is in a kernel that no tile.launch starts while another one runs}}
  sched.wait_launch
}

// -----

tile.launch [@first, @bad dependent]
sched.kernel @first() grid [n 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
}
sched.kernel @bad(part: workspace [b] f32) grid [b] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %view = tile.param "part" : !tile.view<1, f32>
  %part = tile.element %view[%zero] in_range [true] : !tile.view<1, f32> (i32) -> f32
  sched.for_work grid (%number) {
    // expected-error @+1 {{'sched.wait_launch' op comes after tile.element, which may read what the kernel before writes; move it in front of all roles, work and accesses of operands}}
    sched.wait_launch
  }
}

// -----

tile.launch [@first, @bad dependent]
sched.kernel @first() grid [n 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
}
sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.for_work grid (%number) { }
  // expected-error @+1 {{'sched.wait_launch' op comes after sched.for_work, which may read what the kernel before writes; move it in front of all roles, work and accesses of operands}}
  sched.wait_launch
}

// -----

tile.launch [@first, @bad dependent]
sched.kernel @first() grid [n 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
}
sched.kernel @bad(part: workspace [b] f32) grid [b] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> attributes {tensors = [#attn.tensor<lengths, i32, rank 1>]} {
  sched.for_work grid (%number) {
    %lengths = tile.param "tensors.lengths" : !tile.view<1, i32>
    %length = tile.element %lengths[%number] in_range [false] : !tile.view<1, i32> (i32) -> i32
    %view = tile.param "part" : !tile.view<1, f32>
    %part = tile.element %view[%number] in_range [true] : !tile.view<1, f32> (i32) -> f32
    // expected-error @+1 {{'sched.wait_launch' op comes after tile.element, which may read what the kernel before writes; move it in front of all roles, work and accesses of operands}}
    sched.wait_launch
  }
}

// -----

tile.launch [@first, @bad dependent]
sched.kernel @first() grid [n 1] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
}
sched.kernel @bad() grid [n 4] arch "sm_90a" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  sched.for_work persistent from %z below %z (%number, %count) {
    // expected-error @+1 {{'sched.wait_launch' op is in work that a block repeats; move it in front of that}}
    sched.wait_launch
    sched.next %number : i32
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16, counter: workspace [counters 1] i32) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  sched.for_work grid (%number) {
    %counter = tile.param "counter" : !tile.view<1, i32>
    // expected-error @+1 {{'sched.claim_work' op is for the order persistent, not grid}}
    %0 = sched.claim_work %counter : !tile.view<1, i32>
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.ring' op offset 4 is not a multiple of 8, the size of a barrier}}
  %r = sched.ring "k" at 4 filled_by 1 emptied_by 1 : !sched.ring<2>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.ring' op needs at least one arrival to fill a stage and one to empty it}}
  %r = sched.ring "k" at 8 filled_by 0 emptied_by 1 : !sched.ring<2>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %r = sched.ring "k" at 8 filled_by 1 emptied_by 1 : !sched.ring<2>
  // expected-error @+1 {{'sched.expect_bytes' op 24 bytes is not a positive multiple of 16}}
  sched.expect_bytes 24 on %r[%z] : !sched.ring<2>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.sync_warps' op 100 threads is not a multiple of 32 up to 1024}}
  sched.sync_warps %z threads 100
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.arrive_warps' op 0 threads is not a multiple of 32 up to 1024}}
  sched.arrive_warps %z threads 0
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.tensor_map' op needs a view of two to four dimensions, rows and columns last, of 'f16'}}
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, f16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.tensor_map' op boxes are 64 bytes wide, panels 128}}
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 32, bf16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %r = sched.ring "k" at 8 filled_by 1 emptied_by 1 : !sched.ring<2>
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'sched.load_box' op needs a swizzled shared tile of stages, rows and columns of 'bf16', got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared>'}}
  sched.load_box %m[%z, %z, %z, %z] to %k[%z] signal %r : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared>, !sched.ring<2>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %r = sched.ring "k" at 8 filled_by 1 emptied_by 1 : !sched.ring<2>
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.load_box' op boxes of 64 x 64 are not the panels of '!tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  sched.load_box %m[%z, %z, %z, %z] to %k[%z] signal %r : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'sched.store_box' op needs a swizzled shared tile of stages, rows and columns of 'bf16', got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared>'}}
  sched.store_box %k[%z, %z] to %m[%z, %z, %z, %z] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>, !sched.tensor_map<64 x 64, bf16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.store_box' op adds 'bf16', where only f32 is added}}
  sched.store_box %k[%z, %z] to %m[%z, %z, %z, %z] adds : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 16384 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %x = arith.constant 1.0 : f32
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'sched.store_shared' op writes a pair of 'f32' to elements of 'bf16', where pairs are f32}}
  sched.store_shared %x and %x, %s[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x k 64 x d 64, bf16, shared>
}

// -----

sched.kernel @bad(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %k = sched.shared "k" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
  %v = tile.param "lse" : !tile.view<3, f32>
  // expected-error @+1 {{'sched.add_rows' op adds rows of an f32 tile of stages, rows and columns, without a swizzle, to a view of f32}}
  sched.add_rows 64 of %k[%z, %z] to %v[%z] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>, !tile.view<3, f32>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.wait_boxes' op pending must not be negative}}
  sched.wait_boxes pending -1
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  // expected-error @+1 {{'sched.mma_wait' op pending must not be negative}}
  sched.mma_wait pending -1
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %k = sched.shared "k" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_wait' op completes register tiles, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>'}}
  sched.mma_wait pending 0 completes(%k) : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op needs an f32 c fragment of 16 rows a warp, got '!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>'}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 264, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op has 264 columns, which is not a multiple of 8 up to 256}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 264, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op needs an a fragment or a swizzled shared tile on the left, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared>'}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.registers "a" : !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 8>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op transposes a left operand in registers; only a shared one is stored by columns}}
  sched.mma_async %s, %a[%z, %z], %b[%z, %z, %z] accumulate %t transpose_left : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<q 128 x d 64, bf16, register, #sched.fragment<a, warps 8>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op needs 3 indices of the left operand, got 2}}
  sched.mma_async %s, %a[%z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
  // expected-error @+1 {{'sched.mma_async' op needs a swizzled shared tile on the right, got '!tile.tile<stage 2 x k 64 x d 64, bf16, shared>'}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, bf16, shared>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 2 x k 64 x d 64, f16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op multiplies 16-bit floats of one type, got 'bf16' and 'f16'}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 2 x k 64 x d 64, f16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>
  %a = sched.shared "a" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  %b = sched.shared "b" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.mma_async' op right operand '!tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>' does not have the 64 columns of '!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>'}}
  sched.mma_async %s, %a[%z, %z, %z], %b[%z, %z, %z] accumulate %t : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 8>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{'sched.next_visible' op the region takes a tile's index (i32) and ends with sched.visible, of two flags}}
  %n:4 = sched.next_visible from %z below %z {
    %t = arith.constant true
    sched.visible %t, %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region takes a tile's index (i32) and ends with sched.visible, of two flags}}
  %n:4 = sched.next_visible from %z below %z {
  ^bb0(%tile: i32):
    sched.visible %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region of `groups` takes a group's index (i32) and ends with sched.visible, of one flag}}
  %n:4 = sched.next_visible from %z below %z {
  ^bb0(%tile: i32):
    sched.visible %t, %t
  } groups {
  ^bb0(%group: i32):
    sched.visible %t, %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region of `groups` takes a group's index (i32) and ends with sched.visible, of one flag}}
  %n:4 = sched.next_visible from %z below %z {
  ^bb0(%tile: i32):
    sched.visible %t, %t
  } groups {
  ^bb0(%group: i32, %other: i32):
    sched.visible %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region has effects; the lanes of a warp evaluate it for different tiles}}
  %n:4 = sched.next_visible from %z below %z {
  ^bb0(%tile: i32):
    sched.visible %t, %t
  } groups {
  ^bb0(%group: i32):
    sched.barrier
    sched.visible %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op has 2 values of a search before; its origin, visible and full are needed}}
  %n:4 = sched.next_visible from %z below %z seen %z, %z {
  ^bb0(%tile: i32):
    sched.visible %t, %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region asks for 1 parts of the rows, results are for 2}}
  %n:6 = sched.next_visible from %z below %z parts i32, i32 {
  ^bb0(%tile: i32):
    sched.visible %t, %t parts %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op finds parts' first tiles with answers of a search before, which say nothing of parts; search without `seen`}}
  %n:5 = sched.next_visible from %z below %z seen %z, %z, %z parts i32 {
  ^bb0(%tile: i32):
    sched.visible %t, %t parts %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op has 1 ends of tiles that it goes without; each two are a begin and an end}}
  %n:4 = sched.next_visible from %z below %z without %z {
  ^bb0(%tile: i32):
    sched.visible %t, %t
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %t = arith.constant true
  // expected-error @+1 {{'sched.next_visible' op the region has effects; the lanes of a warp evaluate it for different tiles}}
  %n:4 = sched.next_visible from %z below %z {
  ^bb0(%tile: i32):
    sched.barrier
    sched.visible %t, %t
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.for_work' op the body takes a count, and the carried values}}
  sched.for_work received (%b, %h, %q0, %count) {
  }
}

// -----

sched.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  // expected-error @+1 {{'sched.for_work' op `sched.next` must say first whether there is another tile of work: 1 or 0, i32}}
  sched.for_work received (%count) {
  }
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c0 = arith.constant 0 : i32
  %0 = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 2 x field 4, i32, shared>
  // expected-error @+1 {{'sched.send' op takes a shared tile of 1 x 2, 4, 8 or 12 i32 a stage, got '!tile.tile<stage 2 x message 2 x field 4, i32, shared>'}}
  sched.send %c0, %c0, %c0, %c0 to %0[%c0] : !tile.tile<stage 2 x message 2 x field 4, i32, shared>
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c0 = arith.constant 0 : i32
  %0 = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 4, f32, shared>
  // expected-error @+1 {{'sched.receive' op takes a shared tile of 1 x 2, 4, 8 or 12 i32 a stage, got '!tile.tile<stage 2 x message 1 x field 4, f32, shared>'}}
  %1 = sched.receive from %0[%c0] : !tile.tile<stage 2 x message 1 x field 4, f32, shared> -> i32
}

// -----

sched.kernel @bad() grid [] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %c0 = arith.constant 0 : i32
  %0 = sched.shared "tasks" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  // expected-error @+1 {{'sched.send' op has 3 values, a message of this tile 1 to 2}}
  sched.send %c0, %c0, %c0 to %0[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 4096 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x distance 127, f32, shared>
  // expected-error @+1 {{'sched.load_pair' op reads 'f32' and 'i32' from '!tile.tile<stage 2 x distance 127, f32, shared>', whose elements are 'f32'}}
  %a, %b = sched.load_pair %s[%c0, %c0, %c0] : !tile.tile<stage 2 x distance 127, f32, shared> -> f32, i32
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 4096 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x distance 127, f32, shared>
  // expected-error @+1 {{'sched.load_shared' op reads 'i32' from '!tile.tile<stage 2 x distance 127, f32, shared>', whose elements are 'f32'}}
  %x = sched.load_shared %s[%c0, %c0, %c0] : !tile.tile<stage 2 x distance 127, f32, shared> -> i32
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 4096 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x k 64, f32, shared>
  %r = sched.registers "r" : !tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>
  // expected-error @+1 {{'sched.store_tile' op stores a tile of one axis in layout threads, or of two in layout c, got '!tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>'}}
  sched.store_tile %r to %s[%c0] : !tile.tile<k 64, f32, register, #sched.fragment<columns, warps 4>>, !tile.tile<stage 2 x k 64, f32, shared>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 4096 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 2 x k 64, f32, shared>
  %r = sched.registers "r" : !tile.tile<k 32, f32, register, #sched.fragment<threads, warps 1>>
  // expected-error @+1 {{'sched.store_tile' op stores to stages of the same tile, got '!tile.tile<stage 2 x k 64, f32, shared>'}}
  sched.store_tile %r to %s[%c0] : !tile.tile<k 32, f32, register, #sched.fragment<threads, warps 1>>, !tile.tile<stage 2 x k 64, f32, shared>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 4096 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.extent' op asks for dimension 4 of '!tile.view<4, bf16>'}}
  %n = sched.extent %K, 4 : !tile.view<4, bf16>
}

// -----

// expected-error @+1 {{has "sched.ping_pong", which is for kernels with producer warps; give sched.roles}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.ping_pong} {
}

// -----

// expected-error @+1 {{has "sched.persistent", which is for kernels with producer warps; give sched.roles}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.persistent} {
}

// -----

// expected-error @+1 {{has "sched.longest_first", which is a mark of a kernel}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.longest_first = 1 : i64} {
}

// -----

// expected-error @+1 {{has sched.longest_first = "last"; write "first_tiles" where the first tiles of the grid's last axis have the most work, and no value where the last have}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.longest_first = "last"} {
}

// -----

// expected-error @+1 {{has sched.roles of [1]; they stand on a tile.kernel, as [#sched.role<"producer", warps 4, registers 24>, ...]}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [1]} {
}

// -----

// expected-error @+1 {{has two roles of the name "a"}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4>, #sched.role<"a", warps 8>]} {
}

// -----

// expected-error @+1 {{role "a" has 33 warps; a block has 1 to 32}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 33>]} {
}

// -----

// expected-error @+1 {{role "a" has 25 registers; a thread has 24 to 256 of them, a multiple of 8}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"a", warps 4, registers 25>]} {
}

// -----

// expected-error @+1 {{a role needs a name}}
tile.kernel @bad() grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"", warps 4>]} {
}

// -----

tile.kernel @bad(k: in [b, h, k, d 64] bf16) grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  // expected-error @+1 {{'arith.addi' op has a sched.ring, but gives no tile in shared memory, and takes none to memory}}
  %x = arith.addi %c0, %c0 {sched.ring = #sched.ring<stages 2>} : i32
}

// -----

tile.kernel @bad(k: in [b, h, k, d 64] bf16) grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  // expected-error @+1 {{'arith.addi' op has a sched.ring of 2 : i64, which does not say how deep it is; write #sched.ring<stages 2>}}
  %x = arith.addi %c0, %c0 {sched.ring = 2 : i64} : i32
}

// -----

tile.kernel @bad(k: in [b, h, k, d 64] bf16) grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  // expected-error @+1 {{a ring of 0 stages; it has 1 to 64}}
  %x = arith.addi %c0, %c0 {sched.ring = #sched.ring<stages 0>} : i32
}

// -----

tile.kernel @bad(k: in [b, h, k, d 64] bf16) grid [] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  // expected-error @+1 {{warps 3 to 2 are none of a role}}
  %x = arith.addi %c0, %c0 {sched.ring = #sched.ring<stages 2, "producer" warps 3 to 2>} : i32
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 16384 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "s" at 0 : !tile.tile<stage 1 x k 64 x q 64, bf16, shared>
  %x = sched.registers "x" : !tile.tile<k 64 x q 64, f32, register, #sched.fragment<c, warps 4>>
  // expected-error @+1 {{'sched.exchange' op goes into a ring of one stage, whose readers it does not wait for}}
  %s = sched.exchange %x into %ring[%c0] : !tile.tile<k 64 x q 64, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<stage 1 x k 64 x q 64, bf16, shared> -> !tile.tile<k 64 x q 64, bf16, shared>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 2> {
  %i = sched.thread_id : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  // expected-error @+1 {{'sched.load_byte' op takes a view of i8 with one index for each dimension, got '!tile.view<4, bf16>' and 4}}
  %x = sched.load_byte %K[%i, %i, %i, %i] : !tile.view<4, bf16>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 256 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 64 x d 64, f32, shared, #sched.swizzle<128>>
  %r = sched.registers "r" : !tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>
  // expected-error @+1 {{'sched.store_tile' op stores '!tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>' to swizzled stages of 128 rows of 32, got '!tile.tile<stage 1 x q 64 x d 64, f32, shared, #sched.swizzle<128>>'}}
  sched.store_tile %r to %s[%c0] : !tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>, !tile.tile<stage 1 x q 64 x d 64, f32, shared, #sched.swizzle<128>>
}

// -----

sched.kernel @bad() grid [] arch "sm_90a" threads 256 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 128 x d 32, i32, shared, #sched.swizzle<128>>
  %r = sched.registers "r" : !tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>
  // expected-error @+1 {{'sched.store_tile' op stores 'f32' to stages of 'i32'; it rounds f32 to bf16 or f16, and converts nothing else}}
  sched.store_tile %r to %s[%c0] : !tile.tile<q 64 x d 64, f32, register, #sched.fragment<c, warps 4 x 2>>, !tile.tile<stage 1 x q 128 x d 32, i32, shared, #sched.swizzle<128>>
}

// -----

tile.kernel @bad(dq: accumulate [b, h, q, d 64] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 96 x d 64, f32, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.write_tile' op writes swizzled stages of 64 rows a warpgroup, got '!tile.tile<stage 1 x q 96 x d 64, f32, shared, #sched.swizzle<128>>'}}
  sched.write_tile %s[%c0] to %DQ[%c0, %c0, %c0] limit %c0 column_splits 1 adds : !tile.tile<stage 1 x q 96 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
}

// -----

tile.kernel @bad(dq: accumulate [b, h, q, d 64] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %DQ = tile.param "dq" : !tile.view<4, f32>
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.write_tile' op 3 shares of columns are not those of 2 warpgroups}}
  sched.write_tile %s[%c0] to %DQ[%c0, %c0, %c0] limit %c0 column_splits 3 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
}

// -----

tile.kernel @bad(dq: out [b, h, q] f32) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %DQ = tile.param "dq" : !tile.view<3, f32>
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.write_tile' op writes to a view of four dimensions at three indices, got '!tile.view<3, f32>' at 2}}
  sched.write_tile %s[%c0] to %DQ[%c0, %c0] limit %c0 column_splits 1 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<3, f32>
}

// -----

tile.kernel @bad(dq: out [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %DQ = tile.param "dq" : !tile.view<4, bf16>
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.write_tile' op writes 'f32' to '!tile.view<4, bf16>'; TMA converts nothing}}
  sched.write_tile %s[%c0] to %DQ[%c0, %c0, %c0] limit %c0 column_splits 1 : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, bf16>
}

// -----

tile.kernel @bad(dq: out [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %DQ = tile.param "dq" : !tile.view<4, bf16>
  %s = sched.shared "s" at 0 : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.write_tile' op adds 'bf16', where TMA adds f32}}
  sched.write_tile %s[%c0] to %DQ[%c0, %c0, %c0] limit %c0 column_splits 1 adds : !tile.tile<stage 1 x q 128 x d 64, bf16, shared, #sched.swizzle<128>>, !tile.view<4, bf16>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %r = sched.ring "k" at 8 filled_by 1 emptied_by 1 : !sched.ring<2>
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> limited : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 1 x q 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.load_box' op has no limit, which its tensor map needs}}
  sched.load_box %m[%z, %z, %z, %z] to %k[%z] signal %r : !sched.tensor_map<64 x 64, bf16>, !tile.tile<stage 1 x q 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
}

// -----

sched.kernel @bad(k: in [b, hkv, k, d 64] bf16) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, bf16>
  %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %k = sched.shared "k" at 0 : !tile.tile<stage 1 x q 64 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.store_box' op has a limit, but its tensor map is not limited}}
  sched.store_box %k[%z, %z] to %m[%z, %z, %z, %z] limit %z : !tile.tile<stage 1 x q 64 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
}

// -----

sched.kernel @bad(k: workspace [b, hkv, k, d 32] f32) grid [b] arch "sm_90a" threads 384 blocks_per_sm 1 shared_bytes 131072 dtype bf16 plan <q 128 x k 64, warps = 4, blocks_per_sm = 1> {
  %z = arith.constant 0 : i32
  %K = tile.param "k" : !tile.view<4, f32>
  %m = sched.tensor_map %K swizzle <128> limited : !tile.view<4, f32> -> !sched.tensor_map<64 x 32, f32>
  %k = sched.shared "k" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @+1 {{'sched.store_box' op adds rows up to a limit, where only whole boxes are added}}
  sched.store_box %k[%z, %z] to %m[%z, %z, %z, %z] limit %z adds : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 32, f32>
}
