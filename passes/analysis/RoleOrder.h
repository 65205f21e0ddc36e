//===- RoleOrder.h - Roles wait for what they read and write -----------------===//
//
// Runs the control of a kernel with roles, all warps of a block side by side, and follows what orders them:
//
//     producer                                consumer
//     sched.acquire %k[%s] phase %p           sched.wait %k[%s] phase %p     the stage and phase that the other side
//     means sched.expect_bytes 8192 on %k[%s]       sched.mma_async ... %k_ring[%s] sched.load_box ... to %k_ring[%s]
//     sched.mma_wait pending 0       before it is released
//                                             sched.release %k[%s]           once, by as many as the ring counts
//
// Each access to shared memory must be ordered after what it needs in whatever order warps, their lanes, copies and
// products run; messages, named barriers, fences, groups of products and boxes, and the numbers of tiles of work are
// followed too.
// Nothing is taken over from the pass that wrote them, nor from the simulator.
//
// What runs: integers that decide control, name a stage or say where a row lies, lane by lane where lanes differ. Each
// launch has its own extents; values that the kernel loads are guessed, in a few ways, the same in all roles.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Fails with an error at the op that comes too early, waits for ever, or is left over.
mlir::LogicalResult verifyRoleOrder(sched::KernelOp kernel);

} // namespace attune
