//===- SkipRescale.cpp - Rescale the accumulator only when a row maximum moved ---===//
//
// alpha = exp(m_old - m_new) is 1 for every row once the maxima have settled. Then acc * alpha is acc, and a warp whose
// rows all have alpha = 1 branches around the multiplications. The branch also ends a basic block between the softmax
// and the product, which keeps the device compiler's instruction scheduler from mixing the two and running out of
// registers.
//
// The pass skips kernels with warpgroup-level products: the waits for these products end the basic block already, and
// the branch costs more than the multiplications.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/score/MapPatterns.h"

namespace attune {
#define GEN_PASS_DEF_SKIPRESCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

struct SkipRescale : attune::impl::SkipRescaleBase<SkipRescale> {
  using SkipRescaleBase::SkipRescaleBase;

  void runOnOperation() override {
    SmallVector<tile::MapOp> rescales;
    getOperation().walk([&](tile::ForBlocksOp loop) {
      if (sched::isWithAsyncProducts(loop))
        return;
      for (auto map : loop.getBody().getOps<tile::MapOp>())
        if (cast<TileType>(map.getResult().getType()).rank() == 2 && !map.getInputs().empty() &&
            llvm::is_contained(loop.getCarried(), map.getInputs()[0]) && rescaleFactor(map))
          rescales.push_back(map);
    });
    for (tile::MapOp map : rescales) {
      OpBuilder builder(map);
      // UNE is true for NaN: a NaN must reach the accumulator.
      Value moved = createAny(builder, map.getLoc(), "max_moved", rescaleFactor(map), arith::CmpFPredicate::UNE, 1);
      map.getOnlyIfMutable().assign(moved);
    }
  }
};

} // namespace
