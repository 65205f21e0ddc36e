//===- AlternateWarpgroups.cpp - Warpgroups start their products in turn -----===//
//
// Where the plan says `turns`. Left alone, warpgroups whose products and exponentials take equally long drift into
// step: all multiply, then all compute exponentials, and each unit idles while the other works. Named barriers pass a
// turn around. A warpgroup starts its two products when it has the turn, and hands it on:
//
//     warpgroup 0   | products(n) | softmax(n)              | products(n + 1) | ...
//     warpgroup 1                 | products(n) | softmax(n)                  | products(n + 1) | ...
//
// Barrier 5 + g is the turn of warpgroup g: its 128 threads wait there for the 128 of the warpgroup before it. The
// first turn is given away before the loop. All warpgroups have as many turns: one for each tile of the block but one.
// The first that a warpgroup works on, which has one product, has none; one that a warpgroup passes over is a turn that
// it hands on at once, but for the block's last if it has worked on none.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/sched/NamedBarriers.h"

namespace attune {
#define GEN_PASS_DEF_ALTERNATEWARPGROUPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr int64_t turnThreads = 256;

struct AlternateWarpgroups : attune::impl::AlternateWarpgroupsBase<AlternateWarpgroups> {
  using AlternateWarpgroupsBase::AlternateWarpgroupsBase;

  void runOnOperation() override {
    getOperation().walk([&](sched::RoleOp role) {
      int64_t groups = role.getWarps() / 4;
      if (groups == 1 || !role->getParentOfType<tile::KernelOp>().getPlan().getTurns())
        return;
      role.walk([&](sched::ForTilesOp loop) {
        if (llvm::count_if(loop.getBody().front(), isAsync) == 2)
          takeTurns(role, loop, groups);
      });
    });
  }

  static bool isAsync(Operation &op) { return isa<tile::MmaOp>(op) && op.hasAttr(sched::asyncAttr); }

  void takeTurns(sched::RoleOp role, sched::ForTilesOp loop, int64_t groups) {
    Location loc = loop.getLoc();
    OpBuilder builder(&role.getBody().front(), role.getBody().front().begin());
    auto i32 = [&](int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    Value thread = sched::ThreadIdOp::create(builder, loc);
    Value group = tile::named(sched::UniformOp::create(builder, loc, thread.getType(),
                                                       arith::DivUIOp::create(builder, loc, thread, i32(128))),
                              "warpgroup");
    auto nsw = arith::IntegerOverflowFlags::nsw;
    Value own = tile::named(arith::AddIOp::create(builder, loc, group, i32(barriers::ofTurn), nsw), "own_turn");
    Value after =
        arith::RemUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, group, i32(1), nsw), i32(groups));
    Value next = tile::named(arith::AddIOp::create(builder, loc, after, i32(barriers::ofTurn), nsw), "next_turn");
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, group, i32(groups - 1));
    auto branch = scf::IfOp::create(builder, loc, isLast, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
    sched::ArriveWarpsOp::create(builder, loc, next, turnThreads);

    SmallVector<Operation *> products;
    for (Operation &op : loop.getBody().front())
      if (isAsync(op))
        products.push_back(&op);
    builder.setInsertionPoint(products.front());
    sched::SyncWarpsOp::create(builder, loc, own, turnThreads);
    builder.setInsertionPointAfter(products.back());
    sched::ArriveWarpsOp::create(builder, loc, next, turnThreads);

    // The loops before and after the one that works pass over tiles.
    auto works = cast<sched::ForTilesOp>(loop->getParentOp());
    auto beside = works->getBlock()->getOps<sched::ForTilesOp>();
    SmallVector<sched::ForTilesOp> passes(
        llvm::make_filter_range(beside, [&](sched::ForTilesOp other) { return other != works; }));
    const Value end =
        passes.empty() || passes.back()->isBeforeInBlock(works) ? works.getBound() : passes.back().getBound();
    for (sched::ForTilesOp pass : passes) {
      // Once the tile is there, and what is said of it.
      sched::ReleaseOp release = *pass.getBody().getOps<sched::ReleaseOp>().begin();
      builder.setInsertionPoint(release);
      Value hasTurn =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, pass.getNext().getValues()[0], end);
      if (works->isBeforeInBlock(pass)) {
        builder.setInsertionPoint(pass);
        Value worked =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, pass.getInits()[0], works.getInits()[0]);
        builder.setInsertionPoint(release);
        hasTurn = arith::OrIOp::create(builder, loc, worked, hasTurn);
      }
      auto turn = scf::IfOp::create(builder, loc, hasTurn, /*withElseRegion=*/false);
      builder.setInsertionPointToStart(turn.thenBlock());
      sched::SyncWarpsOp::create(builder, loc, own, turnThreads);
      sched::ArriveWarpsOp::create(builder, loc, next, turnThreads);
    }
  }
};

} // namespace
