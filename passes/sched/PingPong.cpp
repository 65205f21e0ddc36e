//===- PingPong.cpp - Ping-pong scheduling of warpgroups -----===//
//
// The pass applies to kernels that have `sched.ping_pong`. Without synchronisation, warpgroups whose products take as
// long as their exponentials drift into lockstep: all run products, then all compute exponentials, and tensor cores and
// special-function units idle alternately. So the products that a loop starts before it waits for any product (the
// leading products, and the products deferred from the tile before) form a ping-pong region: one warpgroup's products
// overlap with another warpgroup's softmax. The pass only marks the region (`sched.at`, ping_pong "products");
// tile-pipeline-stages writes the barriers.
//
// Loops whose warpgroups skip tiles (`within`) and that have a ring of one stage are excluded. A warpgroup that skips a
// tile would hold the tile's stage until the other warpgroup has passed the ping-pong region, and that warpgroup may
// wait for the next tile, which needs the same stage.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/products/LeadingProducts.h"

namespace attune {
#define GEN_PASS_DEF_PINGPONG
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::AtAttr;

namespace {

bool hasShallowRing(tile::ForBlocksOp loop) {
  return llvm::any_of(loop.getBody().front().getOps<tile::LoadOp>(),
                      [](tile::LoadOp load) { return isCopied(load) && ringDepth(load) == 1; });
}

struct PingPong : attune::impl::PingPongBase<PingPong> {
  using PingPongBase::PingPongBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel->hasAttr(sched::pingPongAttr) || kernel.getPlan().getWarps() <= 4)
        continue;
      kernel.walk([&](tile::ForBlocksOp loop) {
        if (hasShallowRing(loop) && !loop.getWithin().empty())
          tile::remark(kernel,
                       "no ping-pong: a warpgroup that skips a tile would keep the tile's stage until its turn, and "
                       "rings of one stage have no other stage");
        else
          markPingPong(loop.getBody().front());
      });
    }
  }

  static void markPingPong(Block &body) {
    if (llvm::any_of(body, [](Operation &op) { return sched::placeOf(&op) && sched::placeOf(&op).getPingPong(); }))
      return; // hand-written IR already marks a ping-pong region
    BlockDependences dependences(body);
    for (auto product : body.getOps<tile::MmaOp>()) {
      AtAttr at = sched::placeOf(product);
      if (at && product->hasAttr(sched::asyncAttr) && (at.getStage() > 0 || leads(dependences, product)))
        product->setAttr(sched::atAttr, AtAttr::get(at.getContext(), at.getStage(), at.getOrder(),
                                                    StringAttr::get(at.getContext(), "products")));
    }
  }
};

} // namespace
