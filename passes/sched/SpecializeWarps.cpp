//===- SpecializeWarps.cpp - Split a kernel into producer and consumer warps -------------===//
//
// The kernel's loads become rings that a producer role fills by TMA and a consumer role reads:
//
//     producer (4 warps, of which the first copies)      consumers (the last role)
//     -------------------------------------------        ------------------------------------
//     copy Q, send the position of the tile of work      wait Q, receive the position
//     for tiles n:                                       for tiles n:
//       acquire K stage; copy K(n)                         wait K stage; S = Q K(n); release it
//       acquire V stage; copy V(n)                         softmax
//                                                          wait V stage; O += P V(n); release it
//
// Relative-position values that the loop converts to shared memory have a ring too: the producer's second warp, or all
// producer warps from the second on, compute these values and store them to the ring's stages. Per-key vectors of
// masks, such as ids, are stored by the first warp in the same stage as K; where `sched.ring` names other warps, those
// warps store the vectors to a separate ring. Windows (rectangles of dense bias tensors) have rings too, which the
// first warp fills between K and V.
//
// Rings that consumers wait for and release together share one pair of barriers: rings that one warp copies and whose
// first and last readers are the same ops, such as the two operands of one product; and rings that the same producer
// warps compute and that consumers wait for in the same pipeline stage and release at the same stage and order
// (`sched.at`).
//
// A tile that a loop stores or adds to memory in each iteration goes through a ring too: the consumers fill a stage,
// and a producer warp has TMA store the stage to memory and then releases it.
//
// A kernel may list further roles between the producer and the consumers. Each further role fills the rings whose
// `sched.ring` names the role, or stores their tiles to memory, as producer warps from the second on do. setmaxnreg
// gives each role its own number of registers.
//
// A kernel may have several loops over tiles, one after another, each with rings of its own: the producer copies the
// first tiles of a loop while the consumers still compute the last ones of the loop before.
//
// All warps go through the same tiles and the same stages. Where keys of a tile are masked for all rows of a warpgroup
// (tile.for_blocks, within), the warpgroup waits for the tile's stages and releases them without computing.
//
// Where the next tile is found by a search for tiles that the mask leaves visible, the producer's first warp searches
// while its earlier copies run, and sends messages to all other warps: with Q, the first tile; with K(n), the tile
// after n and whether tile n is partial. Producer warps that receive these messages also release the stages of Q and K,
// as the consumers do. A second producer warp then copies V. If the first warp copied V, it would wait between K(n) and
// K(n+1) until the consumers are done with a stage of V, and the search in the next tile of work would begin only when
// the consumers are nearly out of tiles.
//
// Registers move from the producer to the consumers (setmaxnreg). In persistent blocks each role loops over tiles of
// work: the rings of K and V continue at the stage where the previous tile of work stopped, Q has a ring too, and the
// producer runs ahead.
//
// Integers that a persistent block reads from captured tensors before its loops, such as where a sequence begins, are
// read by the producer ahead, and are in the message that comes with Q: the consumers would wait for memory.
//
// Where the duration of each tile of work is known beforehand, a block's tiles of work are computed from the block's
// index, and every producer warp computes them itself. Where tiles of keys are found by a search, the duration depends
// on data in memory, and free blocks claim the next tile of work. The first producer warp claims for its block, because
// it sends the tiles of work to the consumers anyway, with Q. The claim is at the beginning of a tile of work, because
// the message says whether another one follows. The claim is overlapped with the search, which also waits for memory. A
// kernel that copies nothing before the loop sends its messages with barriers of their own.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/copies/BlockReads.h"
#include "passes/sched/NamedBarriers.h"
#include "passes/sched/roles/WarpSpecializer.h"

namespace attune {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace attune::roles {

LogicalResult WarpSpecializer::findRings() {
  for (auto load : kernel.getBody().front().getOps<tile::LoadOp>())
    if (isCopied(load))
      once.emplace_back(load);
  for (const auto &loop : loops)
    if (failed(loop->findRings()))
      return failure();
  auto isRing = [](const Ring &ring) { return bool(ring.is); };
  if (!kernel->hasAttr(sched::rolesAttr) || !llvm::all_of(once, isRing) || !llvm::all_of(loops, [&](const auto &loop) {
        return llvm::all_of(loop->rings(), [](Ring *ring) { return bool(ring->is); });
      }))
    return kernel.emitError("has copies without a sched.ring, or no sched.roles, which tile-assign-roles writes");
  if (failed(findOthers()))
    return failure();
  for (const auto &loop : loops)
    loop->joinRings();
  return success();
}

LogicalResult WarpSpecializer::findOthers() {
  for (const Ring &ring : once)
    if (ring.stages() != once.front().stages())
      return ring.tile->emitOpError() << "has a ring of " << ring.stages() << " stages, another ring one of "
                                      << once.front().stages()
                                      << "; rings that are filled before the loop have the same number of stages";
  for (const Ring &ring : once)
    if (failed(checkFirstWarp(ring)))
      return failure();
  SmallVector<Ring *> seen;
  for (const auto &loop : loops) {
    if (failed(loop->checkWarps()))
      return failure();
    for (Ring *ring : loop->rings()) {
      const int64_t first = ring->firstWarp, count = ring->is.getWarps();
      if (!first)
        continue;
      for (Ring *other : seen) {
        const int64_t otherFirst = other->firstWarp, otherCount = other->is.getWarps();
        const bool areSame = first == otherFirst && count == otherCount;
        if (!areSame && first < otherFirst + otherCount && otherFirst < first + count)
          return ring->tile->emitOpError() << "has a ring of warps that fill another one with others: " << other->is;
        if (areSame && ring->leaves() != other->leaves())
          return ring->tile->emitOpError()
                 << "has a ring of warp " << first
                 << ", which is to take tiles to memory as well as bring some; give it another";
      }
      seen.push_back(ring);
      others[first] = count;
    }
  }
  return success();
}

void WarpSpecializer::initialise() {
  Value thread = sched::ThreadIdOp::create(builder, loc);
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, i32(0));
  onlyIf(first, [&] {
    for (Ring &ring : once)
      sched::InitRingOp::create(builder, loc, ring.barriers);
    for (const auto &loop : loops)
      loop->initialise();
    if (tasks && once.empty())
      sched::InitRingOp::create(builder, loc, taskBarriers);
    sched::FenceInitOp::create(builder, loc);
  });
  sched::BarrierOp::create(builder, loc);
}

LogicalResult WarpSpecializer::run() {
  Block &body = kernel.getBody().front();
  SmallVector<Operation *> original;
  for (Operation &op : body)
    original.push_back(&op);
  told = integersReadAhead(kernel);
  claims = persistent && tile::findOperand(kernel, tile::workCounter);
  if (failed(findRings()))
    return failure();
  // The number of warps in `others` (warps that fill rings, other than producer warp 0) that take part, as `takesPart`
  // says for the first warp of each group. These warps read the messages of a search for visible tiles.
  auto followersOf = [&](function_ref<bool(int64_t first)> takesPart) {
    int64_t followers = 0;
    for (auto [first, count] : others)
      followers += takesPart(first) ? count : 0;
    return followers;
  };
  const int64_t followers = followMessages() ? followersOf([](int64_t) { return true; }) : 0;

  builder.setInsertionPointToStart(&body);
  for (Ring &ring : once) // producer warps 1 and up read the messages that warp 0 sends with the first ring
    declare(ring, /*filledBy=*/1, /*emptiedBy=*/warps + (&ring == &once.front() ? followers : 0));
  for (const auto &loop : loops)
    loop->declareRings(loop->searches() ? followersOf([&](int64_t first) { return !loop->ringsOf(first).empty(); })
                                        : 0);
  declareTasks(followers);
  for (const auto &loop : loops)
    loop->declareVisits();
  initialise();
  SmallVector<std::pair<Block *, Warps>> fillers;
  int64_t before = 0;
  for (auto role : kernel->getAttrOfType<ArrayAttr>(sched::rolesAttr).getAsRange<sched::RoleAttr>()) {
    fillers.emplace_back(writeRole(role), Warps{before, role.getWarps()});
    before += role.getWarps();
  }
  Block *consumer = fillers.pop_back_val().first;
  for (auto [block, of] : fillers) {
    if (failed(of.first ? writeFiller(block, of, original) : writeProducer(block, of, original)))
      return failure();
    // `sched.at` applies to the consumers' ops only: the attribute is removed from the ops that other roles run.
    block->walk([](Operation *op) { op->removeAttr(sched::atAttr); });
  }
  builder.setInsertionPointToStart(consumer);
  auto [work, numbers] = persistent && tasks ? receivedWork() : numberedWork();
  for (Operation *op : original)
    op->moveBefore(&work.getBody().front(), work.getBody().front().end());
  if (failed(writeConsumer(work, numbers, original)))
    return failure();
  eraseUnusedDomains(kernel);
  return success();
}

} // namespace attune::roles

namespace {

struct SpecializeWarps : attune::impl::SpecializeWarpsBase<SpecializeWarps> {
  using SpecializeWarpsBase::SpecializeWarpsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::producerWarps(kernel))
        continue;
      if (const int64_t groups = kernel.getPlan().getWarps() / 4; groups > barriers::mostWarpgroups) {
        kernel.emitError() << "has " << groups
                           << " warpgroups, which need more barriers than a block has; plan at most "
                           << barriers::mostWarpgroups;
        return signalPassFailure();
      }
      SmallVector<tile::ForBlocksOp> loops(kernel.getBody().getOps<tile::ForBlocksOp>());
      if (loops.empty()) {
        kernel.emitError("has no loop over tiles; warps are specialised around one at least");
        return signalPassFailure();
      }
      OpBuilder builder(kernel);
      if (failed(roles::WarpSpecializer(kernel, builder, loops).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
