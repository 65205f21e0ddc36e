//===- LiveTiles.cpp - Shared tiles that are live at the same time ------------===//

#include "passes/analysis/copies/LiveTiles.h"
#include "passes/analysis/copies/CopiedTiles.h"

using namespace mlir;
using namespace attune;

namespace {

/// A set of shared tiles that are live at the same time, and the bytes of their rings.
struct Live {
  int64_t bytes = 0;
  SmallVector<Operation *> tiles;

  void add(Operation *op) {
    bytes += ringDepth(op) * cast<tile::TileType>(op->getResult(0).getType()).bytes();
    tiles.push_back(op);
  }
  void add(const Live &other) {
    bytes += other.bytes;
    llvm::append_range(tiles, other.tiles);
  }
};

bool isSharedTile(Operation &op) {
  return isa<tile::LoadOp, tile::ConvertOp, tile::WindowOp>(op) &&
         cast<tile::TileType>(op.getResult(0).getType()).getSpace() == tile::MemorySpace::Shared;
}

/// The last op of the IR block of `op` that uses its result or contains a use; `op` if there is none.
Operation *lastUse(Operation &op) {
  Operation *last = &op;
  for (Operation *user : op.getUsers())
    if (Operation *ancestor = op.getBlock()->findAncestorOpInBlock(*user); last->isBeforeInBlock(ancestor))
      last = ancestor;
  return last;
}

/// The largest set of tiles of `block` and of the blocks nested in it that are live at the same time.
Live largestOf(Block &block) {
  // A ring that is filled by a loop is live during the whole loop.
  Live throughout;
  SmallVector<std::pair<Operation *, Operation *>> ranges;
  for (Operation &op : block)
    if (isSharedTile(op)) {
      if (!isa<tile::ConvertOp>(op) && isa<tile::ForBlocksOp>(block.getParentOp()))
        throughout.add(&op);
      else
        ranges.push_back({&op, lastUse(op)});
    }
  Live largest = throughout;
  for (Operation &op : block) {
    Live here = throughout;
    for (auto [first, last] : ranges)
      if (!op.isBeforeInBlock(first) && !last->isBeforeInBlock(&op))
        here.add(first);
    Live nested;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        if (Live each = largestOf(inner); each.bytes > nested.bytes)
          nested = std::move(each);
    here.add(nested);
    if (here.bytes > largest.bytes)
      largest = std::move(here);
  }
  return largest;
}

} // namespace

SmallVector<Operation *> attune::largestLiveTiles(tile::KernelOp kernel) {
  SmallVector<Operation *> tiles;
  if (kernel->hasAttr(sched::rolesAttr))
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isSharedTile(*op))
        tiles.push_back(op);
    });
  else
    tiles = largestOf(kernel.getBody().front()).tiles;
  return tiles;
}
