//===- BlockDependences.h - Use-def chains between the ops of an IR block --===//
//
// An op depends on the ops of its IR block whose results it reads, as operands or within its regions, and on the ops
// that those ops depend on.
//
//     BlockDependences dependences(loop.getBody().front());
//     dependences.sourcesOf(op)                  the ops whose results `op` reads directly
//     dependences.follows(value, isProduct)      whether a product is among the ops that compute `value`
//
// The constructor analyses the IR block once; later changes of the block are not seen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace attune {

/// The first op of the IR block `block` that is, or contains, a reader of one of `values`; null if there is none.
inline mlir::Operation *firstReader(mlir::ValueRange values, mlir::Block &block) {
  mlir::Operation *first = nullptr;
  for (mlir::Value value : values)
    for (mlir::Operation *user : value.getUsers())
      if (mlir::Operation *reader = block.findAncestorOpInBlock(*user);
          reader && (!first || reader->isBeforeInBlock(first)))
        first = reader;
  return first;
}

class BlockDependences {
public:
  explicit BlockDependences(mlir::Block &block) : block(block) {
    for (mlir::Operation &op : block)
      collect(op);
  }

  /// The values that `op` or an op nested in `op` reads and that are defined outside of `op`, block arguments included.
  static llvm::SetVector<mlir::Value> readBy(mlir::Operation *op) {
    llvm::SetVector<mlir::Value> read;
    op->walk([&](mlir::Operation *inner) {
      for (mlir::Value operand : inner->getOperands())
        if (mlir::Region *region = operand.getParentRegion(); !op->isAncestor(region->getParentOp()) || inner == op)
          read.insert(operand);
    });
    return read;
  }

  /// The ops of the IR block whose results `op`, an op of that block, reads directly, in no particular order.
  llvm::ArrayRef<mlir::Operation *> sourcesOf(mlir::Operation *op) const {
    auto found = sources.find(op);
    return found == sources.end() ? llvm::ArrayRef<mlir::Operation *>() : found->second;
  }

  /// All ops of the IR block that `op` depends on, directly or indirectly, including `op`.
  llvm::SetVector<mlir::Operation *> allSourcesOf(mlir::Operation *op) const {
    llvm::SetVector<mlir::Operation *> all;
    all.insert(op);
    for (size_t i = 0; i < all.size(); ++i)
      for (mlir::Operation *source : sourcesOf(all[i]))
        all.insert(source);
    return all;
  }

  /// Whether `is` holds for the op that defines `value` or for an op of the IR block that this op depends on.
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
