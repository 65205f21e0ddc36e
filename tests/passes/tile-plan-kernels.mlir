// RUN: attune-opt %s -tile-plan-kernels=arch=sm_80 | FileCheck %s --check-prefix=WARPS
// RUN: attune-opt %s -tile-plan-kernels=arch=sm_90a | FileCheck %s --check-prefix=ROLES
// RUN: attune-opt %s -tile-plan-kernels="arch=sm_90a sram-budget=40000" | FileCheck %s --check-prefix=BUDGET
// RUN: attune-opt %s -tile-plan-kernels=arch=cpu | FileCheck %s --check-prefix=CPU
// RUN: not attune-opt %s -tile-plan-kernels 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: 'tile.kernel' op has no plan, and no architecture to plan it for is known; give `plan` or the architecture

// Three stages of a ring of 8 KB fit, but two stages fit 40,000 bytes beside the ring of one stage and 8 KB of others.
// WARPS-LABEL:  tile.kernel @open
// WARPS-SAME:     plan <q 64, warps = 2, blocks_per_sm = 1> attributes {tile.remarks = ["planned: 2 warps, rings of 2 stages"]}
// WARPS:          sched.ring = #sched.ring<stages 2>
// WARPS:          sched.ring = #sched.ring<stages 1>
// ROLES-LABEL:  tile.kernel @open
// ROLES-SAME:     plan <q 64, warps = 4, blocks_per_sm = 4>
// ROLES-SAME:     sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>], tile.remarks = ["planned: 4 consumer warps, 4 producer warps, rings of 3 stages, 4 blocks per SM"]
// ROLES:          sched.ring = #sched.ring<stages 3>
// BUDGET-LABEL: tile.kernel @open
// BUDGET-SAME:    rings of 2 stages
// CPU-LABEL:    tile.kernel @open
// CPU-SAME:       plan <q 64, warps = 1, blocks_per_sm = 1> {
// CPU-NOT:        stages 2
tile.kernel @open(x: in [b, n, q, r 64] bf16, w: in [b, n, r 64, e 64] bf16, y: out [b, n, q, e 64] bf16) grid [b, q by 64] dtype bf16 {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %X = tile.param "x" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %n = tile.axis_extent "n" : i32
  %domain = tile.domain n by 1 [%c0, %n) full
  %none = tile.splat %zero : f32 -> <q 64 x e 64, f32, register>
  %all = tile.for_blocks (%i, %partial) in %domain iter_args(%sum = %none : !tile.tile<q 64 x e 64, f32, register>) {
    %x = tile.load %X[%c0, %i, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<q 64 x r 64, bf16, shared>
    // The depth that the text gives stays.
    %w = tile.load %W[%c0, %i, %c0] limit %c64 {sched.ring = #sched.ring<stages 1>} : !tile.view<4, bf16> -> !tile.tile<r 64 x e 64, bf16, shared>
    %more = tile.mma %x, %w add %sum : !tile.tile<q 64 x e 64, f32, register>, !tile.tile<q 64 x r 64, bf16, shared>, !tile.tile<r 64 x e 64, bf16, shared> -> !tile.tile<q 64 x e 64, f32, register>
    tile.yield %more : !tile.tile<q 64 x e 64, f32, register>
  }
}

// A kernel that copies nothing has no producer warps. A plan that the text gives stays.
// ROLES-LABEL:  tile.kernel @no_loop
// ROLES-SAME:     tile.remarks = ["planned: 8 warps"]
// ROLES-LABEL:  tile.kernel @planned
// ROLES-SAME:     warps = 2, blocks_per_sm = 3> {
tile.kernel @no_loop(y: out [b, n, q, e 64] bf16) grid [b, q by 128] dtype bf16 {
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 -> <q 128 x e 64, f32, register>
}
tile.kernel @planned(y: out [b, n, q, e 64] bf16) grid [b, q by 128] dtype bf16 plan <q 32 x k 32, warps = 2, blocks_per_sm = 3> {
  %zero = arith.constant 0.0 : f32
}

// Roles that the text gives stay, with their registers, and fix the warps. Without products by warpgroups the plan is for
// the consumer's warps alone, and tile-choose-path removes the roles.
// WARPS-LABEL:  tile.kernel @roles
// WARPS-SAME:     plan <q 64, warps = 4, blocks_per_sm = {{[0-9]}}> attributes {sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 4, registers 232>], tile.remarks = ["planned: 4 warps, rings of {{.*}}"]}
// WARPS:          sched.ring = #sched.ring<stages 2>
// ROLES-LABEL:  tile.kernel @roles
// ROLES-SAME:     sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 4, registers 232>], tile.remarks = ["planned: 4 consumer warps, 4 producer warps, rings of 3 stages{{.*}}"]
// ROLES:          sched.ring = #sched.ring<stages 3>
// CPU-LABEL:    tile.kernel @roles
// CPU-SAME:       plan <q 64, warps = 1, blocks_per_sm = 1> attributes {sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 4, registers 232>]}
tile.kernel @roles(x: in [b, n, q, r 64] bf16, w: in [b, n, r 64, e 64] bf16, y: out [b, n, q, e 64] bf16) grid [b, q by 64] dtype bf16
    attributes {sched.roles = [#sched.role<"producer", warps 4, registers 40>, #sched.role<"consumer", warps 4, registers 232>]} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %X = tile.param "x" : !tile.view<4, bf16>
  %W = tile.param "w" : !tile.view<4, bf16>
  %n = tile.axis_extent "n" : i32
  %domain = tile.domain n by 1 [%c0, %n) full
  %none = tile.splat %zero : f32 -> <q 64 x e 64, f32, register>
  %all = tile.for_blocks (%i, %partial) in %domain iter_args(%sum = %none : !tile.tile<q 64 x e 64, f32, register>) {
    %x = tile.load %X[%c0, %i, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<q 64 x r 64, bf16, shared>
    %w = tile.load %W[%c0, %i, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<r 64 x e 64, bf16, shared>
    %more = tile.mma %x, %w add %sum : !tile.tile<q 64 x e 64, f32, register>, !tile.tile<q 64 x r 64, bf16, shared>, !tile.tile<r 64 x e 64, bf16, shared> -> !tile.tile<q 64 x e 64, f32, register>
    tile.yield %more : !tile.tile<q 64 x e 64, f32, register>
  }
}
