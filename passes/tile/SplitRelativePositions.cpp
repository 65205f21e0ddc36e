//===- SplitRelativePositions.cpp - Compute float(k - q) as a difference of two floats ---===//
//
// A relative-position bias such as ALiBi's slope * (k - q) converts an integer to float for every element. With the
// tile's first query q0 and first key k0
//
//     float(k - q)  =  (float(k0 - q0) + float(k - k0)) - float(q - q0)
//                       column                            row
//
// the column part and the row part are coordinates of type f32, and an element costs one subtraction. All three terms
// and their sum are exact below 2^24. Beyond 2^24 the relative error stays at 2^-24, because |k - k0| and |q - q0| are
// below the tile's sizes and stay exact.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_SPLITRELATIVEPOSITIONS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct SplitRelativePositions : attune::impl::SplitRelativePositionsBase<SplitRelativePositions> {
  using SplitRelativePositionsBase::SplitRelativePositionsBase;

  void runOnOperation() override {
    getOperation().walk([](tile::MapOp map) {
      if (!map.getCoordinate("q") || !map.getCoordinate("k"))
        return;
      SmallVector<arith::SIToFPOp> conversions(map.getBody().getOps<arith::SIToFPOp>());
      for (arith::SIToFPOp conversion : conversions)
        split(map, conversion);
    });
  }

  static void split(tile::MapOp map, arith::SIToFPOp conversion) {
    Value q = map.getCoordinate("q"), k = map.getCoordinate("k");
    auto difference = conversion.getIn().getDefiningOp<arith::SubIOp>();
    if (!difference)
      return;
    if (!conversion.getType().isF32())
      return;
    bool forward = difference.getLhs() == k && difference.getRhs() == q;
    bool backward = difference.getLhs() == q && difference.getRhs() == k;
    if (!forward && !backward)
      return;
    OpBuilder outer(map);
    Location loc = conversion.getLoc();
    Value apart =
        arith::SubIOp::create(outer, loc, map.originOf(cast<BlockArgument>(k)), map.originOf(cast<BlockArgument>(q)));
    Value start = arith::SIToFPOp::create(outer, loc, conversion.getType(), apart);
    Value zero = arith::ConstantOp::create(outer, loc, outer.getF32FloatAttr(0));
    Value column = map.addCoordinate("k", tile::named(start, "distance")), row = map.addCoordinate("q", zero);
    OpBuilder builder(conversion);
    Value distance =
        forward ? arith::SubFOp::create(builder, loc, column, row) : arith::SubFOp::create(builder, loc, row, column);
    conversion.replaceAllUsesWith(distance);
    conversion.erase();
    if (difference.use_empty())
      difference.erase();
  }
};

} // namespace
