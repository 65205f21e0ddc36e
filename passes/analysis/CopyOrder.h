//===- CopyOrder.h - Copies complete before they are read --------------------===//
//
// Runs the control of a kernel without roles, as one thread sees it, and follows its cp.async copies:
//
//     sched.copy_async       starts a copy in the open group
//     sched.commit_copies    closes the group
//     sched.wait_copies n    this thread's groups are complete but for the newest n
//     sched.barrier          what every thread has completed, every thread sees
//
// A read needs a copy that is complete and a barrier after the wait; a write needs a barrier after the last read. Bytes
// count, not names: buffers that share bytes are one. Nothing is taken over from the pass that wrote the waits and
// barriers.
//
// What runs: the scalar integers that decide control or name a stage, for thread 0 (if any thread copies a part of a
// tile, it does). A loop whose counter decides neither, with no wait in it, runs twice: a third time would find what
// the second found. Each launch has its own extents and query tile. Values that the kernel loads are guessed, in two
// ways.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Fails with an error at the op that reads or writes too early. `kernel` has no roles.
mlir::LogicalResult verifyCopyOrder(sched::KernelOp kernel);

} // namespace attune
