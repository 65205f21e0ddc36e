//===- BlockDependences.h - What follows from what within a block -----------===//
//
// An op of a block follows from those of its ops whose results it reads, as operands or within its regions, and from
// what these follow from.
//
//     BlockDependences dependences(loop.getBody().front());
//     dependences.sourcesOf(op)                  what it reads itself
//     dependences.follows(value, isProduct)      whether an op that `value` follows from, its own included, is a product
//
// It holds what the block was when it was made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace attune {

class BlockDependences {
public:
  explicit BlockDependences(mlir::Block &block) : block(block) {
    for (mlir::Operation &op : block)
      collect(op);
  }

  /// The values that `op` or an op in it takes, of this block and from around it; the block's arguments are among them.
  static llvm::SetVector<mlir::Value> readBy(mlir::Operation *op) {
    llvm::SetVector<mlir::Value> read;
    op->walk([&](mlir::Operation *inner) {
      for (mlir::Value operand : inner->getOperands())
        if (mlir::Region *region = operand.getParentRegion(); !op->isAncestor(region->getParentOp()) || inner == op)
          read.insert(operand);
    });
    return read;
  }

  /// The ops of the block whose results `op`, one of them, reads, in no special order.
  llvm::ArrayRef<mlir::Operation *> sourcesOf(mlir::Operation *op) const {
    auto found = sources.find(op);
    return found == sources.end() ? llvm::ArrayRef<mlir::Operation *>() : found->second;
  }

  /// The ops of the block that `op` follows from, itself among them.
  llvm::SetVector<mlir::Operation *> allSourcesOf(mlir::Operation *op) const {
    llvm::SetVector<mlir::Operation *> all;
    all.insert(op);
    for (size_t i = 0; i < all.size(); ++i)
      for (mlir::Operation *source : sourcesOf(all[i]))
        all.insert(source);
    return all;
  }

  /// Whether an op of the block that `value` follows from meets `is`.
  bool follows(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> is) const {
    mlir::Operation *producer = value.getDefiningOp();
    return producer && producer->getBlock() == &block && llvm::any_of(allSourcesOf(producer), is);
  }

private:
  void collect(mlir::Operation &op) {
    llvm::SmallVector<mlir::Operation *> &of = sources[&op];
    for (mlir::Value value : readBy(&op))
      if (mlir::Operation *producer = value.getDefiningOp();
          producer && producer->getBlock() == &block && !llvm::is_contained(of, producer))
        of.push_back(producer);
  }

  mlir::Block &block;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>> sources;
};

} // namespace attune
