//===- Lifetimes.h - When a shared buffer holds something --------------------===//
//
// What sched-assign-shared-memory places buffers by, and sched-verify holds their places to.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// A shared buffer lives from its op to its last use among the ops of its block: a loop that uses it keeps it to its
/// end.
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

  /// The buffer whose place this one takes, row by row as it is read, or null.
  sched::SharedOp over() const {
    mlir::Value over = sched::SharedOp(buffer).getOver();
    return over ? over.getDefiningOp<sched::SharedOp>() : nullptr;
  }

  int64_t begin() const { return sched::SharedOp(buffer).getOffset(); }
  int64_t end() const { return begin() + sched::SharedOp(buffer).getResult().getType().bytes(); }

  /// Whether both are alive at some time. Of buffers in different blocks the outer one counts against the op that holds
  /// the inner one; roles run side by side.
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

  /// Whether they share bytes.
  bool sharesBytes(const Lifetime &other) const { return begin() < other.end() && other.begin() < end(); }
};

} // namespace attune
