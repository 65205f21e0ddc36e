// Every error of sched-verify about kernels with roles, to the letter.
// RUN: attune-opt %s -split-input-file -sched-verify -verify-diagnostics

// A message from role to role, as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

// Rings.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }

  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      // expected-error @below {{'sched.acquire' op uses ring, whose sched.init_ring no barrier orders before; one must stand between}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      // expected-error @below {{'sched.acquire' op names stage 2 of ring, which has 2}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.acquire %ring[%c2] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    // expected-error @below {{'sched.wait' op waits for phase 2 of ring; phases are 0 and 1}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.wait %ring[%c0] phase %c2 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      // expected-error @below {{'sched.acquire' op waits for phase 0 of ring, stage 0, which may be released once more by then; nothing makes the other side wait for this op}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.release %ring[%c0] : !sched.ring<2>
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 96 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %late = sched.ring "late" at 16416 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.init_ring %late : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "reader" warps 1 {
    %one = sched.elect
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    sched.release %ring[%c0] : !sched.ring<2>
    scf.if %one {
      sched.commit %late[%c0] : !sched.ring<2>
    }
    sched.wait %ring[%c0] phase %c1 : !sched.ring<2>
    sched.release %ring[%c0] : !sched.ring<2>
  }
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c0] : !sched.ring<2>
      sched.acquire %ring[%c0] phase %c1 : !sched.ring<2>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "late" warps 1 {
    sched.wait %late[%c0] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.wait' op waits for phase 0 of ring, stage 0, which may be filled once more by then; nothing makes the other side wait for this op}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 2 of late}}
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %lanes = sched.shared "lanes" at 128 : !tile.tile<stage 1 x k 8, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
    }
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
    scf.if %one {
      // expected-error @below {{'sched.commit' op arrives in one lane for what other lanes have stored; a sched.sync_lanes must stand between}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 2 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.release' op releases ring, stage 0, a second time before its other readers have; a reader releases once what it has waited for}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
      // expected-error @below {{'sched.commit' op fills ring, stage 0, without having waited for it; sched.acquire must stand in front}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
    }
    sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.commit' op fills ring, stage 0, by more arrivals than the 1 that the ring counts}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.commit %ring[%c0] : !sched.ring<2>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    %lane = sched.lane_id : i32
    %low = arith.cmpi slt, %lane, %c2 : i32
    scf.if %low {
      // expected-error @below {{'sched.release' op is for whole warps and stands in a branch that 2 of the 32 lanes take}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.release %ring[%c0] : !sched.ring<2>
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    // expected-error @below {{'sched.wait' op waits for ever: stage 1 of ring is filled by 0 of 1 arrivals}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.wait %ring[%c1] phase %c0 : !sched.ring<2>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
      // expected-error @below {{'sched.acquire' op waits for ever: stage 1 of ring is released by 0 of 1 arrivals}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.acquire %ring[%c1] phase %c1 : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  // expected-error @below {{'sched.ring' op ring, stage 0, is released in part when the block ends: by 1 of 2 arrivals}}
  // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2}}
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 2 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %never = arith.constant false
  // expected-error @below {{'sched.ring' op ring, stage 0, is filled 1 times and released 0 times}}
  // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2}}
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    scf.if %never {
      sched.release %ring[%c0] : !sched.ring<2>
    }
  }
}

// -----

// Shared memory.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.receive' op receives stage 0 of notes, which nothing has written}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c1] : !sched.ring<2>
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      // expected-note @below {{the other op is here}}
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c1] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.receive' op receives stage 0 of notes, which another warp may not have stored; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %other = sched.shared "other" at 0 over %notes : !tile.tile<stage 2 x message 1 x field 2, i32, shared>, !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      // expected-note @below {{the other op is here}}
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    %x = arith.addi %m#0, %m#1 : i32
    // expected-error @below {{'sched.receive' op receives stage 0 of other, whose bytes hold notes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %n:2 = sched.receive from %other[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      // expected-error @below {{'sched.send' op names stage 2 of notes, which has 2}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.send %c0, %c1 to %notes[%c2] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %lanes = sched.shared "lanes" at 128 : !tile.tile<stage 1 x k 8, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
    sched.sync_lanes
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
    sched.sync_warps %c1 threads 64
    // expected-error @below {{'sched.store_shared' op writes stage 0 of lanes, which another warp may still read; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.sync_warps %c1 threads 64
    // expected-note @below {{the other op is here}}
    %x = sched.load_shared %lanes[%c0, %c0, %c0] : !tile.tile<stage 1 x k 8, i32, shared> -> i32
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %lanes = sched.shared "lanes" at 128 : !tile.tile<stage 1 x k 8, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
    sched.sync_lanes
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
    sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
    scf.if %one {
      sched.acquire %ring[%c0] phase %c1 : !sched.ring<2>
    }
    // expected-error @below {{'sched.store_shared' op writes stage 0 of lanes, which another warp may still read; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.store_shared %c0, %lanes[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x k 8, i32, shared>
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    // expected-note @below {{the other op is here}}
    %x = sched.load_shared %lanes[%c0, %c0, %c0] : !tile.tile<stage 1 x k 8, i32, shared> -> i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

// Named barriers.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.sync_warps' op names barrier 0; those of warps are 1 to 15}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.sync_warps %c0 threads 64
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
    // expected-note @below {{the other op is here}}
    sched.sync_warps %c1 threads 64
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.sync_warps' op reaches barrier 1 for 96 threads, where others do for 64}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.sync_warps %c1 threads 96
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-note @below {{the other op is here}}
    sched.arrive_warps %c1 threads 64
    // expected-error @below {{'sched.arrive_warps' op reaches barrier 1 a second time before all of its 64 threads have once}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.arrive_warps %c1 threads 64
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.sync_warps' op waits for ever: 32 of 64 threads reach the barrier}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.sync_warps %c1 threads 64
  }
}

// -----

// Tiles.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
    // expected-error @below {{'sched.for_tiles' op goes from tile 0 to tile 0 and never ends}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
    sched.for_tiles (%n) = (%c0) below %c2 {
      sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
      sched.next %n : i32
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
    %tiles = tile.axis_extent "q" : i32
    %none = arith.constant 1000 : i32
    // expected-error @below {{'sched.for_work' op takes tile of work 0 4 times; the blocks of a launch take each once}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 3 of 4, warp 0}}
    sched.for_work persistent from %c0 below %c1 (%number, %count) {
      sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
      sched.next %none : i32
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

// TMA; first as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      // expected-error @below {{'sched.load_box' op signals ring, which TMA may not see; sched.fence_init must follow its init_ring}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      // expected-error @below {{'sched.load_box' op fills ring, stage 0, without having waited for it; sched.acquire must stand in front}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4080 on %ring[%c0] : !sched.ring<2>
      // expected-error @below {{'sched.load_box' op completes a stage of ring with 4096 bytes of copies where sched.expect_bytes names 4080}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 0 of producer}}
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 8192 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    // expected-error @below {{'sched.wait' op waits for ever: stage 0 of ring is filled by 1 of 1 arrivals and 4096 of 8192 bytes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c1] : !sched.ring<2>
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      // expected-note @below {{the other op is here}}
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c1] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait for its ring's stage must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  // expected-error @below {{'sched.ring' op ring, stage 1, is filled in part when the block ends: by 0 of 1 arrivals and 4096 of 0 bytes}}
  // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2}}
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c1] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

// Boxes that are stored; first as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %block = sched.block_id : i32
  %q0 = arith.muli %block, %c64 : i32
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %q0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-note @below {{the other op is here}}
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-error @below {{'sched.store_box' op reads stage 0 of o_tile, whose stores the asynchronous proxy may not see; a sched.fence_async must follow them}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-error @below {{'sched.store_box' op reads shared memory until the block has ended; sched.wait_boxes must follow it}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-error @below {{'sched.store_box' op is in no group; sched.commit_boxes must follow it}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-note @below {{the other op is here}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      sched.commit_boxes
    }
    // expected-error @below {{'sched.store_shared' op writes stage 0 of o_tile, which an asynchronous op may still read; its wait must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      // expected-error @below {{'sched.store_box' op stores the box at [0, 0, 0, 0] a second time; a launch writes each row of an output once}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %O = tile.param "o" : !tile.view<4, bf16>
  %o_map = sched.tensor_map %O swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
  %out = sched.shared "o_tile" at 8192 : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
  %c64 = arith.constant 64 : i32
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %c0, %out[%c0, %c0, %c0] : i32, !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-note @below {{the other op is here}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c0, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
      // expected-error @below {{'sched.store_box' op is for tile 1 along q, where another role takes tile 0 in the same tile of work}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.store_box %out[%c0, %c0] to %o_map[%c0, %c0, %c64, %c0] : !tile.tile<stage 1 x q 64 x dv 64, bf16, shared, #sched.swizzle<128>>, !sched.tensor_map<64 x 64, bf16>
    }
  }
}

// -----

// Products; first as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.mma_wait pending 0 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %ring[%c0] : !sched.ring<2>
    %y = sched.get %s[%c0, %c0, %c0] : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> f32
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    // expected-error @below {{'sched.mma_async' op uses s, which ordinary instructions have touched; a sched.mma_fence must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.mma_wait pending 0 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    // expected-note @below {{the other op is here}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    // expected-error @below {{'sched.get' op touches s while a product on it is under way; sched.mma_wait must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %y = sched.get %s[%c0, %c0, %c0] : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> f32
    sched.mma_wait pending 0 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    // expected-note @below {{the other op is here}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.mma_wait pending 0
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.get' op touches s, which no sched.mma_wait names as complete since its product}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %y = sched.get %s[%c0, %c0, %c0] : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> f32
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    // expected-note @below {{the other op is here}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    // expected-error @below {{'sched.mma_wait' op completes s, whose product may still be under way; it is in one of the newest 1 groups or in none}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.mma_wait pending 1 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    // expected-error @below {{'sched.mma_async' op starts a product that no sched.mma_wait completes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.mma_fence
    // expected-error @below {{'sched.mma_async' op starts a product that is in no group; sched.mma_commit must follow it}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 160 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %K = tile.param "k" : !tile.view<4, bf16>
  %map = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<32 x 64, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 4 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.expect_bytes 4096 on %ring[%c0] : !sched.ring<2>
      sched.load_box %map[%c0, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<32 x 64, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>, !sched.ring<2>
    }
  }
  sched.role "consumer" warps 4 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %s = sched.registers "s" : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
    %p = sched.registers "p" : !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    %lane = sched.lane_id : i32
    %low = arith.cmpi slt, %lane, %c2 : i32
    scf.if %low {
      // expected-error @below {{'sched.mma_fence' op is for whole warps and stands in a branch that 2 of the 32 lanes take}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.mma_fence
    }
    sched.mma_fence
    sched.mma_async %s, %p[%c0, %c0], %tile[%c0, %c0, %c0] accumulate %true : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.mma_commit
    sched.mma_wait pending 0 completes(%s, %p) : !tile.tile<q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>, !tile.tile<q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
    sched.release %ring[%c0] : !sched.ring<2>
  }
}

// -----

// cp.async beside roles; first as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %K = tile.param "k" : !tile.view<4, bf16>
  %keys = sched.slice %K[%c0, %c0] : !tile.view<4, bf16> -> !tile.view<2, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.copy_async %keys[%c0, %c0] to %tile[%c0, %c0] if %true : !tile.view<2, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %K = tile.param "k" : !tile.view<4, bf16>
  %keys = sched.slice %K[%c0, %c0] : !tile.view<4, bf16> -> !tile.view<2, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-note @below {{the other op is here}}
    sched.copy_async %keys[%c0, %c0] to %tile[%c0, %c0] if %true : !tile.view<2, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.commit_copies
    // expected-error @below {{'sched.load_shared' op reads stage 0 of k_ring, whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
    sched.wait_copies pending 0
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %K = tile.param "k" : !tile.view<4, bf16>
  %keys = sched.slice %K[%c0, %c0] : !tile.view<4, bf16> -> !tile.view<2, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    sched.store_shared %c0, %tile[%c0, %c0, %c0] : i32, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.sync_lanes
    scf.if %one {
      sched.acquire %ring[%c1] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c1] : !sched.ring<2>
    }
    // expected-note @below {{the other op is here}}
    %x = sched.load_shared %tile[%c0, %c0, %c0] : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>> -> f32
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c1] phase %c0 : !sched.ring<2>
    // expected-error @below {{'sched.copy_async' op copies into stage 0 of k_ring, which another warp may still read; a ring or barrier must order the two}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.copy_async %keys[%c0, %c0] to %tile[%c0, %c0] if %true : !tile.view<2, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.release %ring[%c1] : !sched.ring<2>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %K = tile.param "k" : !tile.view<4, bf16>
  %keys = sched.slice %K[%c0, %c0] : !tile.view<4, bf16> -> !tile.view<2, bf16>
  %tile = sched.shared "k_ring" at 1024 : !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-error @below {{'sched.copy_async' op starts a copy that no sched.wait_copies completes}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.copy_async %keys[%c0, %c0] to %tile[%c0, %c0] if %true : !tile.view<2, bf16>, !tile.tile<stage 2 x k 32 x d 64, bf16, shared, #sched.swizzle<128>>
    sched.commit_copies
  }
}

// -----

// Rows that are added to global memory; first as it should be.

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, sums: accumulate [q, d 64] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %sums = tile.param "sums" : !tile.view<2, f32>
  %x = arith.constant 0.0 : f32
  %terms = sched.shared "terms" at 128 : !tile.tile<stage 1 x q 64 x d 64, f32, shared>
  %ring = sched.ring "ring" at 16640 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %x, %terms[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 64, f32, shared>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      sched.add_rows 64 of %terms[%c0, %c0] to %sums[%c0] : !tile.tile<stage 1 x q 64 x d 64, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
    sched.sync_lanes
    sched.store_shared %x, %terms[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 64, f32, shared>
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, sums: accumulate [q, d 64] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %sums = tile.param "sums" : !tile.view<2, f32>
  %x = arith.constant 0.0 : f32
  %terms = sched.shared "terms" at 128 : !tile.tile<stage 1 x q 64 x d 64, f32, shared>
  %ring = sched.ring "ring" at 16640 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    // expected-note @below {{the other op is here}}
    sched.store_shared %x, %terms[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 64, f32, shared>
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-error @below {{'sched.add_rows' op reads stage 0 of terms, whose stores the asynchronous proxy may not see; a sched.fence_async must follow them}}
      // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
      sched.add_rows 64 of %terms[%c0, %c0] to %sums[%c0] : !tile.tile<stage 1 x q 64 x d 64, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
      sched.wait_boxes pending 0
    }
  }
}

// -----

sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, sums: accumulate [q, d 64] f32, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %sums = tile.param "sums" : !tile.view<2, f32>
  %x = arith.constant 0.0 : f32
  %terms = sched.shared "terms" at 128 : !tile.tile<stage 1 x q 64 x d 64, f32, shared>
  %ring = sched.ring "ring" at 16640 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
    sched.store_shared %x, %terms[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 64, f32, shared>
    sched.fence_async
    sched.sync_lanes
    %elected = sched.elect
    scf.if %elected {
      // expected-note @below {{the other op is here}}
      sched.add_rows 64 of %terms[%c0, %c0] to %sums[%c0] : !tile.tile<stage 1 x q 64 x d 64, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
    }
    // expected-error @below {{'sched.store_shared' op writes stage 0 of terms, which an asynchronous op may still read; its wait must stand between}}
    // expected-note @below {{with Sq 65 and Sk 0, in block 0 of 2, warp 1 of consumer}}
    sched.store_shared %x, %terms[%c0, %c0, %c0] : f32, !tile.tile<stage 1 x q 64 x d 64, f32, shared>
  }
}

// -----

// Of a kernel whose blocks share the keys, each share is long enough to go around the stages twice.
sched.kernel @kernel(k: in [b, hkv, k, d 64] bf16, o: out [b, h, q, dv 64] bf16) grid [b, h, q by 64, split 4] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 32768 dtype bf16 plan <q 64 x k 32, warps = 4, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %true = arith.constant true
  %notes = sched.shared "notes" at 0 : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
  %ring = sched.ring "ring" at 16384 filled_by 1 emptied_by 1 : !sched.ring<2>
  %thread = sched.thread_id : i32
  %first = arith.cmpi eq, %thread, %c0 : i32
  scf.if %first {
    sched.init_ring %ring : !sched.ring<2>
    sched.fence_init
  }
  sched.barrier
  sched.role "producer" warps 1 {
    %one = sched.elect
    scf.if %one {
      %keys = tile.axis_extent "k" : i32
      %c640 = arith.constant 640 : i32
      %long = arith.cmpi sge, %keys, %c640 : i32
      scf.if %long {
        // expected-error @below {{'sched.acquire' op names stage 2 of ring, which has 2}}
        // expected-note @below {{with Sq 641 and Sk 640, in block 0 of 44, warp 0 of producer}}
        sched.acquire %ring[%c2] phase %c0 : !sched.ring<2>
      }
      sched.send %c0, %c1 to %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 1 {
    sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    %m:2 = sched.receive from %notes[%c0] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    sched.release %ring[%c0] : !sched.ring<2>
  }
}
