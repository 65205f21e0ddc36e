//===- ProductWaits.cpp - Inserts waits for asynchronous products -------------===//

#include "passes/sched/pipeline/Stages.h"

using namespace mlir;

namespace attune::pipeline {

bool overwrites(Operation *op, Value tile) {
  auto carried = dyn_cast<BlockArgument>(tile);
  auto next = carried ? dyn_cast<sched::NextOp>(carried.getOwner()->getTerminator()) : sched::NextOp();
  return next && next.getValues()[carried.getArgNumber()].getDefiningOp() == op;
}

namespace {

class ProductWaits {
public:
  explicit ProductWaits(Block &block) : block(block), builder(block.getParentOp()->getContext()) {}

  void write() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto release = dyn_cast<sched::ReleaseOp>(op); release && lastReaderOf(release)) {
        postponed.push_back(release);
        continue;
      }
      if (op.hasTrait<OpTrait::IsTerminator>() || isa<sched::ForTilesOp>(op))
        waitBefore(&op, underWay.empty() ? tile::MmaOp() : underWay.back());
      else
        waitBefore(&op, neededBy(&op));
      if (auto product = dyn_cast<tile::MmaOp>(op); product && product->hasAttr(sched::asyncAttr))
        underWay.push_back(product);
    }
  }

private:
  static bool inRegisters(Value tile) {
    return cast<tile::TileType>(tile.getType()).getSpace() == tile::MemorySpace::Register;
  }

  /// The last product in flight that reads a tile of the ring stage that `release` frees.
  tile::MmaOp lastReaderOf(sched::ReleaseOp release) {
    tile::MmaOp last;
    for (tile::MmaOp product : underWay)
      if (llvm::any_of(release.getReads(),
                       [&](Value tile) { return llvm::is_contained(product->getOperands(), tile); }))
        last = product;
    return last;
  }

  bool needs(Operation *op, tile::MmaOp product, const llvm::SetVector<Value> &read) {
    return read.contains(product.getResult()) || (inRegisters(product.getLhs()) && overwrites(op, product.getLhs()));
  }

  /// The last product in flight that must be complete before `op`.
  tile::MmaOp neededBy(Operation *op) {
    if (underWay.empty())
      return {};
    const llvm::SetVector<Value> read = BlockDependences::readBy(op);
    tile::MmaOp last;
    for (tile::MmaOp product : underWay)
      if (needs(op, product, read))
        last = product;
    return last;
  }

  void waitBefore(Operation *op, tile::MmaOp product) {
    if (!product)
      return;
    builder.setInsertionPoint(op);
    auto end = llvm::find(underWay, product) + 1;
    SmallVector<Value> complete;
    for (tile::MmaOp done : llvm::make_range(underWay.begin(), end)) {
      complete.push_back(done.getResult());
      if (inRegisters(done.getLhs()))
        complete.push_back(done.getLhs());
    }
    sched::MmaWaitOp::create(builder, product.getLoc(), underWay.end() - end, complete);
    underWay.erase(underWay.begin(), end);
    llvm::erase_if(postponed, [&](sched::ReleaseOp release) {
      if (lastReaderOf(release))
        return false;
      release->moveBefore(op);
      return true;
    });
  }

  Block &block;
  OpBuilder builder;
  SmallVector<tile::MmaOp> underWay; ///< the products in flight, in the order of their start
  SmallVector<sched::ReleaseOp> postponed;
};

} // namespace

void waitForProducts(Block &block) { ProductWaits(block).write(); }

} // namespace attune::pipeline
