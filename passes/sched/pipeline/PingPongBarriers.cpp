//===- Turns.cpp - Warpgroups go through a part of a loop one after another ----===//
//
// Named barriers pass a turn around:
//
//     warpgroup 0   | turn(n) | rest(n)              | turn(n + 1) | ...
//     warpgroup 1             | turn(n) | rest(n)                  | turn(n + 1) | ...
//
// Barrier 5 + g is the turn of warpgroup g: its 128 threads wait there for the 128 of the warpgroup before it. The
// first turn is given away before the loop. All warpgroups have as many turns: one for each tile of the block, or for
// each but one where the first that a warpgroup works on stands in front of the loop; others in front of it are turns.
// One that a warpgroup passes over is a turn that it hands on at once, but for the block's last if it has worked on none.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/NamedBarriers.h"
#include "passes/sched/pipeline/Stages.h"

using namespace mlir;

namespace attune::pipeline {

namespace {

constexpr int64_t pingPongThreads = 256;

class PingPongWriter {
public:
  PingPongWriter(sched::RoleOp role, sched::ForTilesOp loop)
      : loop(loop), loc(loop.getLoc()), groups(role.getWarps() / 4),
        builder(&role.getBody().front(), role.getBody().front().begin()) {}

  void write() {
    SmallVector<Operation *> pingPong = pingPongOps(loop.getBody().front());
    if (pingPong.empty())
      return;
    giveFirst();
    takeAround(pingPong.front(), pingPong.back());
    // The passes that loops of several stages have taken out of this one, but for the first, which is no turn.
    sched::ForTilesOp inner = loop;
    for (auto around = enclosing(loop); around && enclosing(around); around = enclosing(around)) {
      SmallVector<Operation *> before = pingPongOps(around.getBody().front());
      if (before.empty()) {
        builder.setInsertionPoint(inner);
        takeAndGive();
      } else {
        takeAround(before.front(), before.back());
      }
      inner = around;
    }
    passOver();
  }

private:
  static sched::ForTilesOp enclosing(sched::ForTilesOp inner) {
    return dyn_cast<sched::ForTilesOp>(inner->getParentOp());
  }

  static SmallVector<Operation *> pingPongOps(Block &block) {
    SmallVector<Operation *> pingPong;
    for (Operation &op : block)
      if (auto at = sched::placeOf(&op); at && at.getPingPong())
        pingPong.push_back(&op);
    return pingPong;
  }

  void takeAround(Operation *first, Operation *last) {
    builder.setInsertionPoint(first);
    sched::SyncWarpsOp::create(builder, loc, own, pingPongThreads);
    builder.setInsertionPointAfter(last);
    sched::ArriveWarpsOp::create(builder, loc, next, pingPongThreads);
  }

  void takeAndGive() {
    sched::SyncWarpsOp::create(builder, loc, own, pingPongThreads);
    sched::ArriveWarpsOp::create(builder, loc, next, pingPongThreads);
  }

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  /// The barriers of the warpgroup's own turn and of the next one's, at the start of the role.
  void giveFirst() {
    const auto nsw = arith::IntegerOverflowFlags::nsw;
    Value thread = sched::ThreadIdOp::create(builder, loc);
    Value group = tile::named(sched::UniformOp::create(builder, loc, thread.getType(),
                                                       arith::DivUIOp::create(builder, loc, thread, i32(128))),
                              "warpgroup");
    own = tile::named(arith::AddIOp::create(builder, loc, group, i32(barriers::ofPingPong), nsw), "own_ping_pong");
    Value after =
        arith::RemUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, group, i32(1), nsw), i32(groups));
    next = tile::named(arith::AddIOp::create(builder, loc, after, i32(barriers::ofPingPong), nsw), "next_ping_pong");
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, group, i32(groups - 1));
    auto branch = scf::IfOp::create(builder, loc, isLast, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
    sched::ArriveWarpsOp::create(builder, loc, next, pingPongThreads);
  }

  /// The loops before and after the one that works pass over tiles.
  void passOver() {
    sched::ForTilesOp works = loop;
    while (auto around = enclosing(works))
      works = around;
    auto beside = works->getBlock()->getOps<sched::ForTilesOp>();
    SmallVector<sched::ForTilesOp> passes(
        llvm::make_filter_range(beside, [&](sched::ForTilesOp other) { return other != works; }));
    const Value end =
        passes.empty() || passes.back()->isBeforeInBlock(works) ? works.getBound() : passes.back().getBound();
    for (sched::ForTilesOp pass : passes) {
      // Once the tile is there, and what is said of it.
      sched::ReleaseOp release = *pass.getBody().getOps<sched::ReleaseOp>().begin();
      builder.setInsertionPoint(release);
      if (works != loop) { // the first tile stands in front
        auto turn = scf::IfOp::create(builder, loc, hasPingPong(pass, works, release, end), /*withElseRegion=*/false);
        builder.setInsertionPointToStart(turn.thenBlock());
      }
      takeAndGive();
    }
  }

  Value hasPingPong(sched::ForTilesOp pass, sched::ForTilesOp works, Operation *release, Value end) {
    Value hasPingPong =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, pass.getNext().getValues()[0], end);
    if (!works->isBeforeInBlock(pass))
      return hasPingPong;
    builder.setInsertionPoint(pass);
    Value worked =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, pass.getInits()[0], works.getInits()[0]);
    builder.setInsertionPoint(release);
    return arith::OrIOp::create(builder, loc, worked, hasPingPong);
  }

  sched::ForTilesOp loop;
  Location loc;
  int64_t groups;
  OpBuilder builder;
  Value own, next; ///< barriers of turns
};

} // namespace

void addPingPongBarriers(sched::RoleOp role, sched::ForTilesOp loop) { PingPongWriter(role, loop).write(); }

} // namespace attune::pipeline
