//===- SpecializeWarps.cpp - One role copies, the other computes -------------===//
//
// The kernel's loads become rings that a producer role fills by the copy engine and a consumer role reads:
//
//     producer (4 warps, of which the first copies)      consumers (the plan's warps)
//     -------------------------------------------        ------------------------------------
//     copy Q, say whose it is                            wait Q, read whose it is
//     for tiles n:                                       for tiles n:
//       acquire K stage; copy K(n)                         wait K stage; S = Q K(n); release it
//       acquire V stage; copy V(n)                         softmax
//                                                          wait V stage; O += P V(n); release it
//
// What the loop computes by distance and converts to shared memory is a ring too: the producer's second warp computes
// it, or all from the second on, and stores it to the ring's stages. What it reads by key, as ids, the first warp
// stores beside K, and both are one stage. Windows of captured tensors are rings too, which the first warp copies to
// between K and V where the launch has described the tensors to the copy engine, and else the last two warps.
//
// All walk the same tiles and the same stages; a warpgroup passes over those that show its own rows nothing
// (tile.for_blocks, within). Where the next tile follows from a search, the producer's first warp searches, ahead of
// its copies, and sends all others what it found: with Q the first tile, with K(n) the tile after n and whether the
// mask decides within n. Warps of the producer that follow it so empty the rings of Q and K with the consumers. One of
// them then copies V: between K(n) and K(n+1) the first warp would wait for the consumers to be done with V, and the
// search for the next tile of work would begin only when they are nearly out of tiles. Registers move from the producer
// to the consumers. Persistent blocks do this for one tile of work after another: the rings of K and V go on where they
// stopped, Q is a ring too, and the producer runs ahead.
//
// Which tiles of work a block has follows from its index where arithmetic says how long each takes: every warp of the
// producer finds them for itself. Where the tiles of keys follow from a search, it is in memory, and blocks that are
// free claim the next tile. One warp of a block must do so, and its first warp sends its tiles of work to all others
// anyway. The claim stands where a tile of work begins, as what is sent says whether another one follows; it is beside
// the search, which waits for memory too.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/sched/NamedBarriers.h"
#include "passes/sched/roles/WarpSpecializer.h"

namespace attune {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace attune::roles {

LogicalResult WarpSpecializer::run() {
  Block &body = kernel.getBody().front();
  SmallVector<Operation *> original;
  for (Operation &op : body)
    original.push_back(&op);
  for (auto load : body.getOps<tile::LoadOp>())
    if (isCopied(load))
      once.push_back({load});
  for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
    if (isCopied(load))
      streamed.push_back({load});
  if (once.empty() || streamed.empty())
    return kernel.emitError() << "copies " << once.size() << " tiles before its loop over tiles and " << streamed.size()
                              << " in it; warps are specialised around one of each at least";
  for (auto convert : loop.getBody().front().getOps<tile::ConvertOp>())
    if (tile::isStaged(convert))
      (tile::isByDistance(convert.getResult().getType()) ? staged : columns).push_back({convert});
  for (auto window : loop.getBody().front().getOps<tile::WindowOp>())
    windows.push_back({window});
  sharesWindows = !windows.empty() && llvm::none_of(windows, [](const Ring &ring) {
    return followsBatch(cast<tile::WindowOp>(ring.tile));
  });

  auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
  claims = plan.getPersistent() && tile::findOperand(kernel, tile::workCounter);
  if (!staged.empty()) // all by the same warps
    storingWarps = cast<sched::FragmentAttr>(cast<tile::ConvertOp>(staged.front().tile).getTile().getType().getLayout())
                       .getWarps();
  valuesApart = domain.skips() && staged.empty();
  const int64_t followers =
      domain.skips() ? valuesApart + storingWarps + (windows.empty() ? 0 : plan.getCopyWarps() - firstWindowWarp) : 0;

  builder.setInsertionPointToStart(&body);
  for (Ring &ring : once) // what follows the tiles of work reads the messages with the first
    declare(ring, plan.getQStages(), /*filledBy=*/1,
            /*emptiedBy=*/plan.getWarps() + (&ring == &once.front() ? followers : 0));
  for (Ring &ring : streamed) {
    const bool ofKeys = &ring == &streamed.front(), withColumns = ofKeys && !columns.empty();
    const int64_t readers = plan.getWarps() + (ofKeys ? followers : 0);
    declare(ring, plan.getStages(), /*filledBy=*/withColumns ? 33 : 1,
            /*emptiedBy=*/withColumns ? 32 * readers : readers);
  }
  // Every lane arrives for what it has written.
  for (Ring &ring : staged)
    declare(ring, plan.getStages(), /*filledBy=*/32 * storingWarps, plan.getWarps());
  for (Ring &ring : windows)
    declare(ring, plan.getStages(), /*filledBy=*/1, plan.getWarps());
  for (Ring &ring : columns) {
    ring.buffer = declareBuffer(ring, plan.getStages());
    ring.barriers = streamed.front().barriers;
  }
  describeWindows();
  if (!loop.getWithin().empty())
    ownBegin = loop.getWithin()[0].getDefiningOp<tile::FirstVisibleOp>();
  if (ownBegin && ownBegin.getDomain() == loop.getDomain())
    return ownBegin.emitError("asks the domain of the block's tiles, which says nothing about a part of the rows; "
                              "ask one that follows from tile.part_row");
  if (plan.getPersistent() || domain.skips())
    tasks = declareMessages("tasks", plan.getQStages(), taskPlaceFields() + (domain.skips() ? 1 : 0) + searchedParts());
  if (domain.skips())
    visits = declareMessages("visits", plan.getStages(), 2);
  initialise();
  RoleRegisters registers = roleRegisters(int(plan.getWarps()), int(plan.getCopyWarps()), domain.skips(),
                                          int(staged.size() + 2 * windows.size()),
                                          warpgroupTileRegisters(plan.getTileK(), tile::storedColumns(kernel)));
  Block *producer = role("producer", plan.getCopyWarps(), registers.producer);
  Block *consumer = role("consumer", plan.getWarps(), registers.consumer);
  if (failed(writeProducer(producer, original)))
    return failure();
  // When the consumers' ops run says nothing of what the producer computes for them.
  producer->walk([](Operation *op) { op->removeAttr(sched::atAttr); });
  builder.setInsertionPointToStart(consumer);
  auto [work, numbers] = plan.getPersistent() ? receivedWork() : numberedWork(WorkOrder::Deal::Once);
  for (Operation *op : original)
    op->moveBefore(&work.getBody().front(), work.getBody().front().end());
  return writeConsumer(work, numbers, original);
}

} // namespace attune::roles

namespace {

struct SpecializeWarps : attune::impl::SpecializeWarpsBase<SpecializeWarps> {
  using SpecializeWarpsBase::SpecializeWarpsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel.getPlan().getCopyWarps())
        continue;
      if (const int64_t groups = kernel.getPlan().getWarps() / 4; groups > barriers::mostWarpgroups) {
        kernel.emitError() << "has " << groups
                           << " warpgroups, which need more barriers than a block has; plan at most "
                           << barriers::mostWarpgroups;
        return signalPassFailure();
      }
      SmallVector<tile::ForBlocksOp> loops(kernel.getBody().getOps<tile::ForBlocksOp>());
      if (loops.size() != 1) {
        kernel.emitError() << "has " << loops.size() << " loops over tiles; warps are specialised around one";
        return signalPassFailure();
      }
      if (failed(roles::WarpSpecializer(kernel, loops.front()).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
