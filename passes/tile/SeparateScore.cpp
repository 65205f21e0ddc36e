//===- SeparateScore.cpp - Put a branch between the product and a costly score ---===//
//
// The device compiler schedules instructions freely within a basic block. If a score of several ops is in the basic
// block of S = Q K^T, the compiler starts scores before the product is complete, holds both in registers, and spills. A
// branch on a run-time condition that always holds inside the loop (there are keys) ends the basic block where the
// product ends.
//
// Warpgroup-level products need no branch: the wait for the product already separates it from the score. A loop with a
// second product of the same tile type (dP of the backward pass) has registers for both, and a branch would keep
// exponentials from overlapping with products.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_SEPARATESCORE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct SeparateScore : attune::impl::SeparateScoreBase<SeparateScore> {
  using SeparateScoreBase::SeparateScoreBase;

  /// Whether the loop has another product with a result of the same type.
  static bool hasTwin(tile::MmaOp product) {
    return llvm::any_of(product->getBlock()->getOps<tile::MmaOp>(),
                        [&](tile::MmaOp other) { return other != product && other.getType() == product.getType(); });
  }

  void runOnOperation() override {
    SmallVector<tile::MapOp> scores;
    getOperation().walk([&](tile::MapOp map) {
      if (!isa<tile::ForBlocksOp>(map->getParentOp()) || !map.isWhole() || map.getInputs().empty())
        return;
      auto product = map.getInputs().front().getDefiningOp<tile::MmaOp>();
      if (product && product.getType() == map.getResult().getType() && !hasTwin(product) &&
          !sched::isWithAsyncProducts(map))
        scores.push_back(map);
    });
    for (tile::MapOp map : scores) {
      auto loop = cast<tile::ForBlocksOp>(map->getParentOp());
      OpBuilder builder(loop);
      Location loc = map.getLoc();
      Value keys = tile::AxisExtentOp::create(builder, loc, builder.getI32Type(),
                                              cast<tile::DomainOp>(loop.getDomain().getDefiningOp()).getAxis());
      Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
      Value nonEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, keys, zero);
      map.getOnlyIfMutable().assign(tile::named(nonEmpty, "has_keys"));
    }
  }
};

} // namespace
