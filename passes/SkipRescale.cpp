//===- SkipRescale.cpp - Rescale the accumulator only when a row maximum moved ---===//
//
// alpha = exp(m_old - m_new) is 1 for every row once the maxima have settled. Then acc * alpha is acc, and a warp whose rows
// all have alpha = 1 jumps over the multiplications. The branch also ends a basic block between the softmax and the product,
// which keeps the device compiler's instruction scheduler from mixing the two and running out of registers.
//
// Not beside warpgroup-level products: these end the block by their waits, and the branch costs more than the multiplications.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_SKIPRESCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// The row factor by which `map` multiplies its first input and nothing else, or null.
Value rescaleFactor(tile::MapOp map) {
  if (map.getInputs().size() != 2 || map.getOnlyIf() || map.getInputs()[0].getType() != map.getResult().getType() ||
      cast<TileType>(map.getInputs()[1].getType()).rank() != 1)
    return {};
  auto product = map.getYield().getValues().front().getDefiningOp<arith::MulFOp>();
  if (!product || llvm::range_size(map.getBody().front().without_terminator()) != 1)
    return {};
  bool factors = (product.getLhs() == map.getElement(0) && product.getRhs() == map.getElement(1)) ||
                 (product.getLhs() == map.getElement(1) && product.getRhs() == map.getElement(0));
  return factors ? map.getInputs()[1] : Value();
}

struct SkipRescale : attune::impl::SkipRescaleBase<SkipRescale> {
  using SkipRescaleBase::SkipRescaleBase;

  void runOnOperation() override {
    SmallVector<tile::MapOp> rescales;
    getOperation().walk([&](tile::ForBlocksOp loop) {
      if (loop->getParentOfType<tile::KernelOp>().getPlan().getCopyWarps())
        return;
      for (auto map : loop.getBody().getOps<tile::MapOp>())
        if (cast<TileType>(map.getResult().getType()).rank() == 2 && llvm::is_contained(loop.getCarried(), map.getInputs()[0]) &&
            rescaleFactor(map))
          rescales.push_back(map);
    });
    for (tile::MapOp map : rescales) {
      OpBuilder builder(map);
      Location loc = map.getLoc();
      auto any = tile::AnyOp::create(builder, loc, builder.getI1Type(), rescaleFactor(map));
      {
        OpBuilder::InsertionGuard guard(builder);
        Block *body = builder.createBlock(&any.getBody(), {}, builder.getF32Type(), loc);
        Value one = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
        // Unordered: a NaN must reach the accumulator.
        Value moved = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, body->getArgument(0), one);
        tile::YieldOp::create(builder, loc, moved);
      }
      tile::named(any.getResult(), "max_moved");
      map.getOnlyIfMutable().assign(any.getResult());
    }
  }
};

} // namespace
