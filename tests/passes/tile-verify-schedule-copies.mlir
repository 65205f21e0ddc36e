// Shared tiles are stages of rings, which one role fills and another empties.
// RUN: attune-opt %s -split-input-file -tile-verify-schedule=form=copies -verify-diagnostics

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %Q = tile.param "q" : !tile.view<4, bf16>
  // expected-error @below {{'tile.load' op loads to shared memory, which copies into rings have taken the place of}}
  %q = tile.load %Q[%c0, %c0, %c0] limit %c0 : !tile.view<4, bf16> -> !tile.tile<q 128 x d 64, bf16, shared, #sched.swizzle<128>>
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  // expected-error @below {{'tile.domain' op goes over a domain, which indices of tiles have taken the place of}}
  %dom = tile.domain k by 64 [%c0, %c0) full
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  // expected-error @below {{'sched.ring' op is filled by 0 roles and awaited by 1; one fills a ring, and the same or another one waits for it}}
  %ring = sched.ring "k" at 0 filled_by 1 emptied_by 1 : !sched.ring<2>
  sched.role "producer" warps 4 {
    sched.for_work grid (%n) {
    }
  }
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    }
  }
}

// -----

tile.kernel @bad(q: in [b, h, q, d 64] bf16) grid [b, h, q by 128] dtype bf16 plan <q 128 x k 64, warps = 8, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 8>]} {
  // expected-error @below {{'sched.ring' op is acquired, but never released}}
  %ring = sched.ring "k" at 0 filled_by 1 emptied_by 1 : !sched.ring<2>
  sched.role "producer" warps 4 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      sched.acquire %ring[%c0] phase %c0 : !sched.ring<2>
      sched.commit %ring[%c0] : !sched.ring<2>
    }
  }
  sched.role "consumer" warps 8 {
    sched.for_work grid (%n) {
      %c0 = arith.constant 0 : i32
      sched.wait %ring[%c0] phase %c0 : !sched.ring<2>
    }
  }
}
