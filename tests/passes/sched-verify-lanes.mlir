// Lanes of a warp are ordered by sched.sync_lanes and barriers, and arrivals hand on what the lanes that arrive have done.
// RUN: attune-opt %s -split-input-file -sched-verify -verify-diagnostics

// A tile that one lane writes out: the lane that arrives for the warp comes after the one that has waited for the box.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 32 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.commit %ring[%c0] : !sched.ring<1>
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.commit %ring[%c0] : !sched.ring<1>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 32 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.commit %ring[%c0] : !sched.ring<1>
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    // expected-error @below {{'sched.store_shared' op writes stage 0 of o_tile, which a lane of another warp may still read although its warp has arrived; a sched.sync_lanes must come before the arrival}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.commit %ring[%c0] : !sched.ring<1>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %elected = sched.elect
    scf.if %elected {
      // expected-note @below {{the other op is here}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

// A message that every lane reads: all of them come before the arrival of one, or each arrives for itself.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
      sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    %n:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 32 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
      sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] by_lanes : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    %n:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] by_lanes : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
      sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
      // expected-error @below {{'sched.send' op sends into stage 0 of notes, which a lane of another warp may still read although its warp has arrived; a sched.sync_lanes must come before the arrival}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    // expected-note @below {{the other op is here}}
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    %n:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

// An arrival of one lane says nothing of what other lanes have stored.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %lanes = sched.shared "lanes" at 128 : !tile.tile<stage 1 x k 8, i32, shared>
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    // expected-error @below {{'sched.load_shared' op reads stage 0 of lanes, which a lane of another warp may not have stored although its warp has arrived; a sched.sync_lanes must come before the arrival}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    %x = sched.load_shared %lanes[%c0, %c0, %c0] : !tile.tile<stage 1 x k 8, i32, shared> -> i32
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    // expected-note @below {{the other op is here}}
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

// Lanes of one warp.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<1>
    // expected-note @below {{the other op is here}}
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    %elected = sched.elect
    scf.if %elected {
      // expected-error @below {{'sched.store_box' op reads stage 0 of o_tile, which another lane of the warp may not have stored; a sched.sync_lanes or a barrier must order the two}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<1>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 1 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-note @below {{the other op is here}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    // expected-error @below {{'sched.store_shared' op writes stage 0 of o_tile, which another lane of the warp may still read; a sched.sync_lanes or a barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
  }
}

// -----

// K is released before the wait for its product. Where the producer fills V before K, it has waited for the release of V,
// which comes after that wait, and the order holds; where it fills K first, nothing orders the two.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %keys = sched.shared "k_tile" at 1024 : !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %values = sched.shared "v_tile" at 5120 : !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %kr = sched.ring "kr" at 40960 filled_by 1 emptied_by 4 : !sched.ring<1>
  %vr = sched.ring "vr" at 40976 filled_by 1 emptied_by 4 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %kr : !sched.ring<1>
    sched.init_ring %vr : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %vr[%c0] phase %c0 : !sched.ring<1>
      sched.expect_bytes 4096 on %vr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %values[%c0] signal %vr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %kr[%c0] phase %c0 : !sched.ring<1>
      sched.expect_bytes 4096 on %kr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %keys[%c0] signal %kr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %vr[%c0] phase %c1 : !sched.ring<1>
      sched.expect_bytes 4096 on %vr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %values[%c0] signal %vr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %kr[%c0] phase %c1 : !sched.ring<1>
      sched.expect_bytes 4096 on %kr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %keys[%c0] signal %kr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
    }
  }
  sched.role "consumer" warps 4 {
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    %acc = sched.registers "acc" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %w = sched.registers "w" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<1>
    sched.mma_fence
    sched.mma_async %s, %p[%c0, %c0], %keys[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.wait %vr[%c0] phase %c0 : !sched.ring<1>
    sched.mma_async %acc, %w[%c0, %c0], %values[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.release %kr[%c0] : !sched.ring<1>
    sched.mma_wait pending 1 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_wait pending 0 completes(%acc, %w) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %vr[%c0] : !sched.ring<1>
    sched.wait %kr[%c0] phase %c1 : !sched.ring<1>
    sched.mma_fence
    sched.mma_async %s, %p[%c0, %c0], %keys[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.wait %vr[%c0] phase %c1 : !sched.ring<1>
    sched.mma_async %acc, %w[%c0, %c0], %values[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.release %kr[%c0] : !sched.ring<1>
    sched.mma_wait pending 1 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_wait pending 0 completes(%acc, %w) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %vr[%c0] : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %keys = sched.shared "k_tile" at 1024 : !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %values = sched.shared "v_tile" at 5120 : !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %kr = sched.ring "kr" at 40960 filled_by 1 emptied_by 4 : !sched.ring<1>
  %vr = sched.ring "vr" at 40976 filled_by 1 emptied_by 4 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %kr : !sched.ring<1>
    sched.init_ring %vr : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %kr[%c0] phase %c0 : !sched.ring<1>
      sched.expect_bytes 4096 on %kr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %keys[%c0] signal %kr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %vr[%c0] phase %c0 : !sched.ring<1>
      sched.expect_bytes 4096 on %vr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %values[%c0] signal %vr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %kr[%c0] phase %c1 : !sched.ring<1>
      sched.expect_bytes 4096 on %kr[%c0] : !sched.ring<1>
      // expected-error @below {{'sched.load_box' op fills stage 0 of k_tile, which another warp may still read; a ring or barrier must order the two}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.load_box %map[%c0, %c0, %c0, %c0] to %keys[%c0] signal %kr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
      sched.acquire %vr[%c0] phase %c1 : !sched.ring<1>
      sched.expect_bytes 4096 on %vr[%c0] : !sched.ring<1>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %values[%c0] signal %vr : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<1>
    }
  }
  sched.role "consumer" warps 4 {
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    %acc = sched.registers "acc" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %w = sched.registers "w" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.wait %kr[%c0] phase %c0 : !sched.ring<1>
    sched.mma_fence
    // expected-note @below {{the other op is here}}
    sched.mma_async %s, %p[%c0, %c0], %keys[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.wait %vr[%c0] phase %c0 : !sched.ring<1>
    sched.mma_async %acc, %w[%c0, %c0], %values[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.release %kr[%c0] : !sched.ring<1>
    sched.mma_wait pending 1 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_wait pending 0 completes(%acc, %w) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %vr[%c0] : !sched.ring<1>
    sched.wait %kr[%c0] phase %c1 : !sched.ring<1>
    sched.mma_fence
    sched.mma_async %s, %p[%c0, %c0], %keys[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.wait %vr[%c0] phase %c1 : !sched.ring<1>
    sched.mma_async %acc, %w[%c0, %c0], %values[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 1 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.release %kr[%c0] : !sched.ring<1>
    sched.mma_wait pending 1 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_wait pending 0 completes(%acc, %w) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %vr[%c0] : !sched.ring<1>
  }
}

// -----

// One lane that arrives for all that its warp has stored.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    sched.commit %ring[%c0] by_warp : !sched.ring<1>
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    sched.commit %ring[%c0] by_warp : !sched.ring<1>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    sched.commit %ring[%c0] by_warp : !sched.ring<1>
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    // expected-error @below {{'sched.commit' op arrives in one lane for what other lanes have stored; a sched.sync_lanes must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.commit %ring[%c0] by_warp : !sched.ring<1>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 49152 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 40960 filled_by 1 emptied_by 1 : !sched.ring<1>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<1>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected_commit = sched.elect
    scf.if %elected_commit {
      // expected-error @below {{'sched.commit' op is for whole warps and stands in a branch that 1 of the 32 lanes take}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.commit %ring[%c0] by_warp : !sched.ring<1>
    }
    sched.acquire %ring[%c0] phase %c1 : !sched.ring<1>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.commit %ring[%c0] by_warp : !sched.ring<1>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.sync_lanes
    sched.release %ring[%c0] : !sched.ring<1>
    sched.wait %ring[%c0] phase %c1 : !sched.ring<1>
    sched.release %ring[%c0] : !sched.ring<1>
  }
}
