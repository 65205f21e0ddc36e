//===- Lifetimes.h - Live ranges of shared buffers ---------------------------===//
//
// The pass sched-assign-shared-memory assigns shared-memory offsets by these live ranges, and sched-verify checks the
// offsets against the live ranges.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "ir/sched/SwizzledLayout.h"

namespace attune {

/// The alignment in bytes of a shared buffer of the given type.
inline int64_t sharedAlignment(tile::TileType type) { return type.getLayout() ? sched::swizzledAlignment : 128; }

/// The op after which the shared memory that the asynchronous op `read` reads is free: the wait that completes the
/// group of `read`. If no such wait follows in the IR block that commits the group, the result is that block's last op.
template <typename CommitOp, typename WaitOp> mlir::Operation *waitFor(mlir::Operation *read) {
  // The commit is in the IR block of `read`, or in the block of a loop around `read`.
  for (mlir::Operation *op = read; op && !mlir::isa<sched::RoleOp>(op); op = op->getParentOp()) {
    int64_t newerGroups = -1; // committed after the group of `read`; -1 before that group is committed
    for (mlir::Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
      if (mlir::isa<CommitOp>(next))
        ++newerGroups;
      else if (auto wait = mlir::dyn_cast<WaitOp>(next); wait && int64_t(wait.getPending()) <= newerGroups)
        return wait;
    }
    if (newerGroups >= 0)
      return &op->getBlock()->back();
  }
  return read;
}

/// The last op during which `user` reads or writes shared memory.
inline mlir::Operation *endOfAccess(mlir::Operation *user) {
  if (mlir::isa<sched::MmaAsyncOp>(user))
    return waitFor<sched::MmaCommitOp, sched::MmaWaitOp>(user);
  if (mlir::isa<sched::StoreBoxOp, sched::AddRowsOp>(user))
    return waitFor<sched::CommitBoxesOp, sched::WaitBoxesOp>(user);
  return user;
}

/// A shared buffer is live from its `sched.shared` op to the last op of the same IR block that accesses the buffer or
/// contains an access. A buffer that is used in a loop is therefore live to the end of the loop. An access by an
/// asynchronous op lasts until the wait for this op.
struct Lifetime {
  sched::SharedOp buffer;
  mlir::Operation *first, *last;

  static Lifetime of(sched::SharedOp buffer) {
    Lifetime lifetime{buffer, buffer, buffer};
    mlir::Block *block = buffer->getBlock();
    for (mlir::Operation *user : buffer.getResult().getUsers())
      for (mlir::Operation *access : {user, endOfAccess(user)}) {
        mlir::Operation *ancestor = block->findAncestorOpInBlock(*access);
        if (!ancestor) // the wait is outside of the buffer's block
          ancestor = &block->back();
        if (lifetime.last->isBeforeInBlock(ancestor))
          lifetime.last = ancestor;
      }
    return lifetime;
  }

  /// The buffer whose bytes this buffer reuses (`sched.shared over`) although both are live, or null. The reuse is safe
  /// because each warpgroup has read its rows of the reused buffer before it writes its rows of this buffer.
  sched::SharedOp over() const {
    mlir::Value over = sched::SharedOp(buffer).getOver();
    return over ? over.getDefiningOp<sched::SharedOp>() : nullptr;
  }

  int64_t begin() const { return sched::SharedOp(buffer).getOffset(); }
  int64_t end() const { return begin() + sched::SharedOp(buffer).getResult().getType().bytes(); }

  /// Whether both buffers are live at the same time. If the IR block of one buffer encloses that of the other, the live
  /// range of the outer buffer is compared with the op that contains the inner IR block. Buffers of two roles always
  /// conflict, because roles run concurrently.
  bool meets(const Lifetime &other) const {
    mlir::Block *block = first->getBlock(), *otherBlock = other.first->getBlock();
    if (block == otherBlock)
      return !last->isBeforeInBlock(other.first) && !other.last->isBeforeInBlock(first);
    if (mlir::Operation *holder = block->findAncestorOpInBlock(*other.first))
      return !holder->isBeforeInBlock(first) && !last->isBeforeInBlock(holder);
    if (otherBlock->findAncestorOpInBlock(*first))
      return other.meets(*this);
    return true;
  }

  /// Whether the two buffers overlap in shared memory.
  bool sharesBytes(const Lifetime &other) const { return begin() < other.end() && other.begin() < end(); }
};

} // namespace attune
