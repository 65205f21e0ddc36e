//===- AlternateWarpgroups.cpp - Warpgroups start their products in turn -----===//
//
// Where the plan says `turns`. Left alone, warpgroups whose products and exponentials take equally long drift into step: all multiply, then
// all compute exponentials, and each unit idles while the other works. Named barriers pass a turn around. A warpgroup starts its two products when it has the turn, and hands it on:
//
//     warpgroup 0   | products(n) | softmax(n)              | products(n + 1) | ...
//     warpgroup 1                 | products(n) | softmax(n)                  | products(n + 1) | ...
//
// Barrier 4 + g is the turn of warpgroup g: its 128 threads wait there for the 128 of the warpgroup before it. The first turn is
// given away before the loop. Every tile of the block is a turn of each warpgroup, the first, which has one product, and those that a warpgroup passes over too:
// these it hands on at once.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_ALTERNATEWARPGROUPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr int64_t firstBarrier = 4, turnThreads = 256;

struct AlternateWarpgroups : attune::impl::AlternateWarpgroupsBase<AlternateWarpgroups> {
  using AlternateWarpgroupsBase::AlternateWarpgroupsBase;

  void runOnOperation() override {
    getOperation().walk([&](sched::RoleOp role) {
      int64_t groups = role.getWarps() / 4;
      if (groups == 1 || !role->getParentOfType<tile::KernelOp>().getPlan().getTurns())
        return;
      SmallVector<sched::ForTilesOp> loops;
      bool overlaps = false;
      role.walk([&](sched::ForTilesOp loop) {
        loops.push_back(loop);
        overlaps |= llvm::any_of(loop.getBody().front(), isAsync);
      });
      if (overlaps)
        takeTurns(role, loops, groups);
    });
  }

  static bool isAsync(Operation &op) { return isa<tile::MmaOp>(op) && op.hasAttr(sched::asyncAttr); }

  void takeTurns(sched::RoleOp role, ArrayRef<sched::ForTilesOp> loops, int64_t groups) {
    Location loc = role.getLoc();
    OpBuilder builder(&role.getBody().front(), role.getBody().front().begin());
    auto i32 = [&](int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    Value thread = sched::ThreadIdOp::create(builder, loc);
    Value group = tile::named(arith::DivUIOp::create(builder, loc, thread, i32(128)), "warpgroup");
    auto nsw = arith::IntegerOverflowFlags::nsw;
    Value own = tile::named(arith::AddIOp::create(builder, loc, group, i32(firstBarrier), nsw), "own_turn");
    Value after = arith::RemUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, group, i32(1), nsw), i32(groups));
    Value next = tile::named(arith::AddIOp::create(builder, loc, after, i32(firstBarrier), nsw), "next_turn");
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, group, i32(groups - 1));
    auto branch = scf::IfOp::create(builder, loc, isLast, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
    sched::ArriveWarpsOp::create(builder, loc, next, turnThreads);

    for (sched::ForTilesOp loop : loops) {
      SmallVector<Operation *> products;
      for (Operation &op : loop.getBody().front())
        if (isAsync(op))
          products.push_back(&op);
      // A loop without products passes over tiles, once they are there.
      if (products.empty())
        builder.setInsertionPointAfter(*loop.getBody().getOps<sched::WaitOp>().begin());
      else
        builder.setInsertionPoint(products.front());
      sched::SyncWarpsOp::create(builder, loc, own, turnThreads);
      if (!products.empty())
        builder.setInsertionPointAfter(products.back());
      sched::ArriveWarpsOp::create(builder, loc, next, turnThreads);
    }
  }
};

} // namespace
