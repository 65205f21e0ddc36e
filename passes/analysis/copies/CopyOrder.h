//===- CopyOrder.h - Verifies waits and barriers of cp.async copies ----------===//
//
// Executes the control flow of a kernel without roles (warp specialisation), as one thread does, and tracks the
// thread's cp.async copies:
//
//     sched.copy_async       starts a copy in the open group
//     sched.commit_copies    closes the group
//     sched.wait_copies n    all groups of this thread are complete except the newest n
//     sched.barrier          copies that each thread has completed become visible to all threads
//
// A read needs a complete copy and a barrier after the wait; a write needs a barrier after the last read. State is kept
// for ranges of bytes, so that an access to one buffer conflicts with accesses to overlapping buffers. The analysis
// uses no result of the pass that wrote the waits and barriers.
//
// Only scalar integers that decide control flow or select a stage are computed, for thread 0 (if any thread copies a
// part of a tile, thread 0 does). Two iterations are executed of an scf.for that contains no wait, commit or barrier,
// if neither its counter nor its carried values affect control flow or a stage: a third iteration would repeat the
// second. Several launches are run, with different extents and query tiles. A value that the kernel loads is guessed:
// as 0 in one run, as a large number in another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Reports an error at the op that reads or writes too early. `kernel` must have no roles.
mlir::LogicalResult verifyCopyOrder(sched::KernelOp kernel);

} // namespace attune
