// Every error of sched-verify, to the letter.
// RUN: attune-opt %s -split-input-file -sched-verify -verify-diagnostics

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, which nothing has written}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.wait_copies pending 0
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 1
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.copy_async %keys[%c0, %c0] to %ring[%c1, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 2
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.copy_async' op copies into stage 0 of k_ring, which another warp may still read; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    // expected-note @below {{the other op is here}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.barrier
    sched.wait_copies pending 0
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %z0 = arith.constant 0.0 : f32
    // expected-error @below {{'sched.store_shared' op writes stage 0 of k_ring, which another warp may still read; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1}}
    sched.store_shared %z0, %ring[%c0, %c0, %c0] : f32, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.load_shared' op names stage 2 of k_ring, which has 2}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    %x = sched.load_shared %ring[%c2, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %r = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    // expected-error @below {{'sched.load_shared' op accesses a shared tile that is not the result of sched.shared}}
    %x = sched.load_shared %r[%c0, %c0, %c0] : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.copy_async' op starts a copy that no sched.wait_copies completes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose bytes hold q_tile}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    %q = sched.shared "q_tile" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    %z0 = arith.constant 0.0 : f32
    // expected-note @below {{the other op is here}}
    sched.store_shared %z0, %q[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c1, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    %q = sched.shared "q_tile" at 4096 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    %z0 = arith.constant 0.0 : f32
    // expected-error @below {{'sched.store_shared' op writes stage 0 of q_tile, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    sched.store_shared %z0, %q[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.copy_async' op starts a copy that no sched.wait_copies completes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  %block = sched.block_id : i32
  %blocks = sched.grid_size : i32
  %B = tile.axis_extent "b" : i32
  %H = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %c64 = arith.constant 64 : i32
  %row_tiles = arith.ceildivsi %Sq, %c64 : i32
  %of_heads = arith.muli %B, %H : i32
  %total = arith.muli %of_heads, %row_tiles : i32
  sched.for_work persistent from %block below %total (%number, %n) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %first = arith.cmpi eq, %n, %c0 : i32
    scf.if %first {
      sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    }
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose bytes hold q_tile}}
    // expected-note @below {{with Sq 65 and Sk 33, in block 0 of 2, warp 3}}
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    sched.barrier
    %q = sched.shared "q_tile" at 0 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    %z0 = arith.constant 0.0 : f32
    // expected-note @below {{the other op is here}}
    sched.store_shared %z0, %q[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    sched.barrier
    %next = arith.addi %number, %blocks : i32
    sched.next %next : i32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %tiles = arith.ceildivsi %Sk, %c32 : i32
    // expected-error @below {{'sched.for_tiles' op goes from tile 0 to tile 0 and never ends}}
    // expected-note @below {{with Sq 65 and Sk 33, in block 0 of 2, warp 0}}
    sched.for_tiles (%i) = (%c0) below %tiles {
      sched.barrier
      sched.next %i : i32
    }
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %thread = sched.thread_id : i32
    %some = arith.cmpi slt, %thread, %c32 : i32
    scf.if %some {
      // expected-error @below {{'sched.barrier' op waits for ever: 32 of 128 threads reach the barrier}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0}}
      sched.barrier
    }
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %tiles = arith.ceildivsi %Sk, %c32 : i32
    sched.for_tiles (%i, %slot) = (%c0, %c0) below %tiles {
      // expected-error @below {{'sched.copy_async' op names stage 2 of k_ring, which has 2}}
      // expected-note @below {{with Sq 129 and Sk 96, in block 0 of 3, warp 0}}
      sched.copy_async %keys[%c0, %c0] to %ring[%slot, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
      sched.commit_copies
      sched.wait_copies pending 0
      sched.barrier
      %x = sched.load_shared %ring[%slot, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
      sched.barrier
      %i1 = arith.addi %i, %c1 : i32
      %slot1 = arith.addi %slot, %c1 : i32
      sched.next %i1, %slot1 : i32, i32
    }
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %m = sched.registers "m" : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
    %v = sched.get %m[%c0, %c0] : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>> -> f32
    %some = arith.cmpf une, %v, %v : f32
    %any = sched.any_lane %some
    scf.if %any {
      // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, which nothing has written}}
      // expected-note @below {{with Sq 65 and Sk 33, in block 0 of 2, warp 0}}
      %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    }
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.shared' op q_tile at bytes 4096 to 12288 overlaps k_ring at bytes 0 to 8192, and both are alive at once}}
    %q = sched.shared "q_tile" at 4096 : !tile.tile<stage 1 x q 64 x d 32, f32, shared, #sched.swizzle<128>>
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %z = arith.constant 0.0 : f32
    // expected-error @below {{'tile.splat' op is left; at the end of sched there are single instructions, loops and scalar arithmetic only}}
    %t = tile.splat %z : f32 -> !tile.tile<q 64, f32, register>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    // expected-error @below {{'sched.slot' op is left; at the end of sched there are single instructions, loops and scalar arithmetic only}}
    %t = sched.slot %ring[%c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> !tile.tile<k 32 x d 32, f32, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    %m = sched.registers "m" : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
    // expected-error @below {{'sched.for_tiles' op carries tiles; at the end of sched they are buffers}}
    %r = sched.for_tiles (%i) = (%c0) below %Sk tiles(%t = %m : !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>) {
      %i1 = arith.addi %i, %c1 : i32
      sched.next %i1, %t : i32, !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
    }
  }
}

// -----

// expected-error @below {{'func.func' op is left; at the end of sched a module holds sched.kernel ops and a tile.launch only}}
func.func private @other()

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k at bytes 32744 to 32776 ends past shared_bytes 32768}}
  %kr = sched.ring "k" at 32744 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k at bytes 8184 to 8216 overlaps k_ring at bytes 0 to 8192}}
  %kr = sched.ring "k" at 8184 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  // expected-error @below {{'sched.ring' op v at bytes 8208 to 8240 overlaps k at bytes 8192 to 8224}}
  %vr = sched.ring "v" at 8208 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
    sched.commit %vr[%c0] : !sched.ring<2>
    sched.wait %vr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k is never filled; a role must commit or expect bytes on it}}
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k is never read; a role must wait for it}}
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k is filled in a loop without being acquired; its writer must wait until a stage is empty}}
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.for_tiles (%i) = (%c0) below %Sk {
      sched.commit %kr[%c0] : !sched.ring<2>
      sched.next %Sk : i32
    }
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
    sched.release %kr[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k is acquired but never released; its readers must release what they have read}}
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.acquire %kr[%c0] phase %c0 : !sched.ring<2>
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op k is released but never acquired; its writer must wait until a stage is empty}}
  %kr = sched.ring "k" at 8192 filled_by 1 emptied_by 4 : !sched.ring<2>
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
    sched.release %kr[%c0] : !sched.ring<2>
  }
}

// -----

// Each read behind its wait and a barrier; the second barrier frees stage 0.
sched.kernel @kernel(lse: optional out [b, h, q] f32, k: in [b, hkv, k, d 32] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c32 = arith.constant 32 : i32
  %true = arith.constant true
  sched.for_work grid (%number) {
    %Sk = tile.axis_extent "k" : i32
    %K = tile.param "k" : !tile.view<4, f32>
    %keys = sched.slice %K[%number, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.copy_async %keys[%c0, %c0] to %ring[%c1, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 1
    sched.barrier
    %x = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    sched.wait_copies pending 0
    sched.barrier
    %y = sched.load_shared %ring[%c1, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
    sched.copy_async %keys[%c0, %c0] to %ring[%c0, %c0] if %true : !tile.view<2, f32>, !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.barrier
    %z = sched.load_shared %ring[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

// A ring that is filled once needs no empty barrier.
sched.kernel @kernel(k: in [b, hkv, k, d 32] f32) grid [b] arch "sm_90" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype f32 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %ring = sched.shared "k_ring" at 0 : !tile.tile<stage 2 x k 32 x d 32, f32, shared, #sched.swizzle<128>>
  %kr = sched.ring "k" at 8192 filled_by 128 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %kr : !sched.ring<2>
  }
  sched.barrier
  sched.role "all" warps 4 {
    %Sk = tile.axis_extent "k" : i32
    sched.commit %kr[%c0] : !sched.ring<2>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel() grid [] arch "sm_90a" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %true = arith.constant true
  sched.role "consumer" warps 4 {
    %moves = sched.any_lane %true
    %both = arith.andi %moves, %true : i1
    scf.if %both {
      scf.if %true {
        // expected-error @below {{'sched.mma_wait' op is the warpgroup's, and stands in a branch on sched.any_lane, by which its warps may go separate ways; move it in front of the branch}}
        sched.mma_wait pending 0
      }
    }
    scf.if %true {
      sched.mma_wait pending 0
    }
  }
}
