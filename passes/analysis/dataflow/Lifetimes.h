//===- Lifetimes.h - Live ranges of shared buffers ---------------------------===//
//
// sched-assign-shared-memory assigns offsets by live ranges, and sched-verify checks the offsets against them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// A shared buffer is live from its `sched.shared` op to the last op of the same IR block that uses the buffer or
/// contains a use. A buffer that is used in a loop is therefore live to the end of the loop.
struct Lifetime {
  sched::SharedOp buffer;
  mlir::Operation *first, *last;

  static Lifetime of(sched::SharedOp buffer) {
    Lifetime lifetime{buffer, buffer, buffer};
    mlir::Block *block = buffer->getBlock();
    for (mlir::Operation *user : buffer.getResult().getUsers())
      if (mlir::Operation *ancestor = block->findAncestorOpInBlock(*user); lifetime.last->isBeforeInBlock(ancestor))
        lifetime.last = ancestor;
    return lifetime;
  }

  /// The buffer whose bytes this buffer reuses (`sched.shared over`), or null. Each warpgroup has read its rows of the
  /// reused buffer before it writes its rows of this buffer.
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
