//===- PingPongBarriers.cpp - Named barriers for ping-pong scheduling ---------===//
//
// The ops of a loop that are marked for ping-pong form a section. Warpgroups enter the section one after another, so
// that one warpgroup runs its products while another runs its softmax:
//
//     warpgroup 0   | section(n) | rest(n)                  | section(n + 1) | ...
//     warpgroup 1                | section(n) | rest(n)                      | section(n + 1) | ...
//
// Barrier 5 + g guards the section of warpgroup g: its 128 threads wait there until the 128 threads of the previous
// warpgroup have arrived. Before the loop, the last warpgroup arrives at the barrier of warpgroup 0. All warpgroups
// must enter the section equally often, namely once for each tile of the thread block. If the first tile that a
// warpgroup works on is peeled off the loop, that tile has no section, and the count is one less; further peeled tiles
// have sections. For a tile that a warpgroup skips, the warpgroup waits at its own barrier and at once arrives at the
// next warpgroup's. The exception is the block's last tile if the warpgroup has worked on no tile.
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
    // Iterations that software pipelining has peeled off the loop, except the first one, have a ping-pong section too.
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

  /// Computes the barriers of this warpgroup and of the next one at the start of the role. There the last warpgroup
  /// also arrives at the barrier of warpgroup 0, so that warpgroup 0 enters its section first.
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

  /// Writes the barriers of the loops before and after the main loop, which skip tiles whose keys are masked for the
  /// warpgroup's rows. For a skipped tile the warpgroup waits at its own barrier and arrives at the next warpgroup's.
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
      // The barrier ops are placed right before the release of the ring stage, and so after the wait for the tile and
      // for the message that comes with the tile.
      sched::ReleaseOp release = *pass.getBody().getOps<sched::ReleaseOp>().begin();
      builder.setInsertionPoint(release);
      if (works != loop) { // the first tile is peeled off the loop
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
  Value own, next; ///< barriers of this warpgroup's section and of the next warpgroup's
};

} // namespace

void addPingPongBarriers(sched::RoleOp role, sched::ForTilesOp loop) { PingPongWriter(role, loop).write(); }

} // namespace attune::pipeline
