//===- BlockReads.h - Integers that a persistent block reads before its loops ---===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// The integers that a block with Q in a ring reads from captured tensors before its loops for each tile of work, such as
/// where a sequence begins. One producer warp reads them ahead and sends them to all others with Q. Empty if the block
/// is not persistent.
inline llvm::SmallVector<mlir::Operation *> integersReadAhead(tile::KernelOp kernel) {
  llvm::SmallVector<mlir::Operation *> reads;
  bool hasCopy = false;
  if (!kernel->hasAttr(sched::persistentAttr))
    return reads;
  for (mlir::Operation &op : kernel.getBody().front()) {
    if (mlir::isa<tile::ForBlocksOp>(op))
      break;
    hasCopy |= mlir::isa<tile::LoadOp>(op) && sched::ringOf(&op);
    if (mlir::isa<tile::ElementOp, tile::SearchOp>(op) && op.getResult(0).getType().isInteger(32) &&
        tile::capturedTensorOf(op.getOperand(0)))
      reads.push_back(&op);
  }
  return hasCopy ? reads : llvm::SmallVector<mlir::Operation *>();
}

} // namespace attune
