//===- StoreByTma.cpp - What lies in shared memory goes to memory from there -------===//
//
//     before                                             after
//     -----------------------------------------------    ----------------------------------------------------------
//     scatter %ds, %dbias[%h, %q_index, %k_index]        %shared = exchange %ds into %ring[%stage]
//     %shared = exchange %ds into %ring[%stage]          %dq = mma %shared, %k
//     %dq = mma %shared, %k                              scatter %shared, %dbias[%h, %q_index, %k_index]
//
// A tile that a product reads from shared memory, rounded as a dense tensor is and in the order of its axes
// (`tile-place-operands`), TMA takes to the tensor from there, beside the products. Nothing stands between what
// computes the tile and the products that read it.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/TilesInEights.h"

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

  /// What puts the tile into shared memory as the view has it; null where nothing does.
  static sched::ExchangeOp exchangeOf(tile::ScatterOp scatter) {
    for (Operation *user : scatter.getTile().getUsers())
      if (auto exchange = dyn_cast<sched::ExchangeOp>(user); exchange && exchange->getBlock() == scatter->getBlock() &&
                                                             scatter->isBeforeInBlock(exchange) &&
                                                             isInBoxes(scatter, exchange))
        return exchange;
    return {};
  }

  /// Behind the last one that is started, warps have met and have time; null where none reads the tile. Behind a loop for
  /// further tiles, whose first tile stands in front of it, their tiles would lie in the ring.
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
