//===- StoreByTma.cpp - Store shared-memory tiles by TMA -------===//
//
//     before                                             after
//     -----------------------------------------------    ----------------------------------------------------------
//     scatter %ds, %dbias[%h, %q_index, %k_index]        %shared = exchange %ds into %ring[%stage]
//     %shared = exchange %ds into %ring[%stage]          %dq = mma %shared, %k
//     %dq = mma %shared, %k                              scatter %shared, %dbias[%h, %q_index, %k_index]
//
// A product reads the tile from shared memory. If that shared tile has the element type and the order of axes of the
// dense tensor (`tile-place-operands`), TMA stores it to the tensor, overlapped with the products. No store by lanes
// then delays the products that read the tile.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/TilesInEights.h"

namespace attune {
#define GEN_PASS_DEF_STOREBYTMA
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct StoreByTma : attune::impl::StoreByTmaBase<StoreByTma> {
  using StoreByTmaBase::StoreByTmaBase;

  void runOnOperation() override {
    SmallVector<tile::ScatterOp> scatters;
    getOperation().walk([&](tile::ScatterOp scatter) { scatters.push_back(scatter); });
    for (tile::ScatterOp scatter : scatters)
      if (sched::ExchangeOp exchange = exchangeOf(scatter))
        if (Operation *last = lastProductAfter(exchange))
          send(scatter, exchange, last);
  }

  /// The `sched.exchange` that writes the scattered tile to shared memory, with the view's element type and order of
  /// axes; null if there is none.
  static sched::ExchangeOp exchangeOf(tile::ScatterOp scatter) {
    for (Operation *user : scatter.getTile().getUsers())
      if (auto exchange = dyn_cast<sched::ExchangeOp>(user); exchange && exchange->getBlock() == scatter->getBlock() &&
                                                             scatter->isBeforeInBlock(exchange) &&
                                                             isInBoxes(scatter, exchange))
        return exchange;
    return {};
  }

  /// The last product after the exchange; null if no product reads the exchanged tile. The store is placed after that
  /// product: once the product has started, the warps have passed the exchange's barrier and will wait for products.
  /// The scan stops at a loop over further tiles: after such a loop the ring would hold the tiles of later iterations.
  static Operation *lastProductAfter(sched::ExchangeOp exchange) {
    if (llvm::none_of(exchange.getResult().getUsers(), llvm::IsaPred<tile::MmaOp>))
      return nullptr;
    Operation *last = nullptr;
    for (Operation *op = exchange->getNextNode(); op && !isa<sched::ForTilesOp>(op); op = op->getNextNode())
      if (isa<tile::MmaOp>(op))
        last = op;
    return last;
  }

  static void send(tile::ScatterOp scatter, sched::ExchangeOp exchange, Operation *behind) {
    OpBuilder builder(behind->getContext());
    builder.setInsertionPointAfter(behind);
    tile::ScatterOp::create(builder, scatter.getLoc(), exchange.getResult(), scatter.getView(), scatter.getIndices(),
                            /*add=*/false);
    scatter.erase();
  }
};

} // namespace
