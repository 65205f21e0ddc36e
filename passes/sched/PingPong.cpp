//===- PingPong.cpp - Warpgroups start their products in turn -----===//
//
// Where the kernel has `sched.ping_pong`. Left alone, warpgroups whose products and exponentials take equally long drift into
// step: all multiply, then all compute exponentials, and each unit idles while the other works. So the products that a
// loop starts before it waits for one, those in front and those deferred to the next tile, are a turn: one warpgroup's
// run beside another's softmax. The pass only says so (`sched.at`, a ping_pong "products").
//
// Not where warpgroups pass over tiles (`within`) and rings have one stage: one that passes over a tile holds it until
// its turn, which may follow one that waits for the next tile.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/CopiedTiles.h"
#include "passes/analysis/LeadingProducts.h"

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
                       "warpgroups take no turns: one that passes over a tile would hold it until its turn, and "
                       "rings of one stage have no other");
        else
          markPingPong(loop.getBody().front());
      });
    }
  }

  static void markPingPong(Block &body) {
    if (llvm::any_of(body, [](Operation &op) { return sched::placeOf(&op) && sched::placeOf(&op).getPingPong(); }))
      return; // as the text says
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
