//===- SeparateScore.cpp - A branch between the product and a costly score -----===//
//
// The device compiler schedules instructions freely within a basic block. With a score of several ops in the block of S
// = Q K^T it starts scores before the product is complete, holds both at once, and runs out of registers. A branch on a
// run-time condition that always holds inside the loop (there are keys) ends the block where the product ends. A
// warpgroup waits for its products, in front of which no score starts.
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

  void runOnOperation() override {
    SmallVector<tile::MapOp> scores;
    getOperation().walk([&](tile::MapOp map) {
      if (isa<tile::ForBlocksOp>(map->getParentOp()) && map.isWhole() && !map.getInputs().empty() &&
          map.getInputs().front().getDefiningOp<tile::MmaOp>() &&
          map.getInputs().front().getType() == map.getResult().getType() && !sched::fillingWarpsAround(map))
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
