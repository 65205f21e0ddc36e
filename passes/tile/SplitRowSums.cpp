//===- SplitRowSums.cpp - Keep row sums split over lanes until the loop ends ---===//
//
// Each lane of a row sums only its own columns. l' = alpha * l + sum(p) is linear, and alpha is the same in all lanes
// of the row, so the lanes' sums are combined once, after the last K tile.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_SPLITROWSUMS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// Whether `init`, the value that a row sum of the loop starts from, is `carried` (the sum over the previous tiles) or
/// `carried` times a row factor, and nothing else in the loop reads `carried`.
bool isScaledCarry(Value init, Value carried) {
  if (init == carried)
    return carried.hasOneUse();
  auto map = init.getDefiningOp<tile::MapOp>();
  if (!map || !carried.hasOneUse() || !init.hasOneUse())
    return false;
  auto product = map.getYield().getValues().front().getDefiningOp<arith::MulFOp>();
  for (auto [i, input] : llvm::enumerate(map.getInputs()))
    if (input == carried)
      return product && (product.getLhs() == map.getElement(i)) != (product.getRhs() == map.getElement(i));
  return false;
}

struct SplitRowSums : attune::impl::SplitRowSumsBase<SplitRowSums> {
  using SplitRowSumsBase::SplitRowSumsBase;

  void runOnOperation() override {
    getOperation().walk([&](tile::ForBlocksOp loop) {
      for (auto [i, value] : llvm::enumerate(loop.getYield().getValues())) {
        auto reduce = value.getDefiningOp<tile::ReduceOp>();
        if (!reduce || reduce.getKind() != tile::Reduction::Sum || !reduce.getInit() || !value.hasOneUse() ||
            !isScaledCarry(reduce.getInit(), loop.getCarried()[i]))
          continue;
        reduce.setPerLane(true);
        OpBuilder builder(loop);
        builder.setInsertionPointAfter(loop);
        auto combined = tile::CombineLanesOp::create(builder, reduce.getLoc(), loop.getResult(i).getType(),
                                                     tile::Reduction::Sum, loop.getResult(i));
        tile::named(combined.getResult(), tile::nameOf(reduce.getResult()));
        loop.getResult(i).replaceAllUsesExcept(combined, combined);
      }
    });
  }
};

} // namespace
