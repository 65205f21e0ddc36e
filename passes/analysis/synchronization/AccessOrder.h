//===- AccessOrder.h - Verifies the order of accesses to shared memory -------===//
//
// Simulates the control flow of a kernel, all warps of a thread block concurrently, and tracks what orders the warps. A
// kernel without roles (warp specialisation) counts as one role: its warps copy by cp.async and synchronise at barriers
// of the block. With roles:
//
//     producer                            consumer                            checked
//     sched.acquire %k[%s] phase %p       sched.wait %k[%s] phase %p          stage and phase agree on both sides
//     sched.expect_bytes 8192 on %k[%s]   sched.mma_async ... %k_ring[%s]
//     sched.load_box ... to %k_ring[%s]   sched.mma_wait pending 0            the product ends before the release
//                                         sched.release %k[%s]                once, by as many warps as the ring counts
//
// Each access to shared memory must be ordered after the accesses that it depends on, whatever the order in which
// warps, lanes, copies and products happen to run. Messages between roles, named barriers, fences, commit groups of
// wgmma and TMA, and the numbers of tiles of work are tracked too. The analysis uses no result of the passes that wrote
// the synchronisation and shares no code with the simulator.
//
// Only integers that decide control flow, select a stage or locate a row are computed, lane by lane where lanes differ.
// Several launches with different extents are simulated. For a value that the kernel loads from memory a number is
// guessed, the same for all roles; different launches use different guesses.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Reports an error at an op that is not ordered after an access it depends on, that waits for ever, or that starts
/// work for which no other op waits.
mlir::LogicalResult verifyAccessOrder(sched::KernelOp kernel);

} // namespace attune
