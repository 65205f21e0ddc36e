//===- SplitDistances.cpp - The distance k - q as a difference of two floats ----===//
//
// A bias by distance, as ALiBi's slope * (k - q), converts an integer to float for every element. With q0 the tile's first query
//
//     float(k - q)  =  float(k - q0) - float(q - q0)
//                      column          row
//
// converts once a column and once a row, and an element costs one subtraction. Both parts are exact below 2^24, and so is their
// difference; beyond, |q - q0| is below a tile's height, so that the relative error stays at 2^-24.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_SPLITDISTANCES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct SplitDistances : attune::impl::SplitDistancesBase<SplitDistances> {
  using SplitDistancesBase::SplitDistancesBase;

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
    bool forward = difference.getLhs() == k && difference.getRhs() == q;
    bool backward = difference.getLhs() == q && difference.getRhs() == k;
    if (!forward && !backward)
      return;
    Value origin = map.getOrigins()[cast<BlockArgument>(q).getArgNumber() - map.getInputs().size()];
    OpBuilder builder(conversion);
    Location loc = conversion.getLoc();
    auto fromOrigin = [&](Value coordinate) -> Value {
      return arith::SIToFPOp::create(builder, loc, conversion.getType(),
                                     arith::SubIOp::create(builder, loc, coordinate, origin));
    };
    Value column = fromOrigin(k), row = fromOrigin(q);
    Value distance = forward ? arith::SubFOp::create(builder, loc, column, row) : arith::SubFOp::create(builder, loc, row, column);
    conversion.replaceAllUsesWith(distance);
    conversion.erase();
    if (difference.use_empty())
      difference.erase();
  }
};

} // namespace
