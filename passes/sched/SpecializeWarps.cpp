//===- SpecializeWarps.cpp - Split a kernel into producer and consumer warps -------------===//
//
// The kernel's loads become rings that a producer role fills by TMA and a consumer role reads:
//
//     producer (4 warps, of which the first copies)      consumers
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
// warps store the vectors to a separate ring. Windows of captured tensors have rings too, which the first warp fills
// between K and V.
//
// Rings that consumers wait for and release together share one pair of barriers: rings that one warp copies and whose
// first and last readers are the same ops, such as the two operands of one product; and rings that the same producer
// warps compute and that consumers wait for in the same pipeline stage and release at the same stage and order
// (`sched.at`).
//
// A tile that a loop stores or adds to memory in each iteration goes through a ring too: the consumers fill a stage,
// and a producer warp has TMA store the stage to memory and then releases it.
//
// All warps go through the same tiles and the same stages. A warpgroup skips tiles whose keys are masked for all of its
// own rows (tile.for_blocks, within).
//
// Where the next tile is found by a search, the producer's first warp searches while its earlier copies run, and sends
// messages to all other warps: with Q, the first tile; with K(n), the tile after n and whether tile n is partial.
// Producer warps that receive these messages also release the stages of Q and K, as the consumers do. A second producer
// warp then copies V. If the first warp copied V, it would wait between K(n) and K(n+1) until the consumers are done
// with a stage of V, and the search for the next tile of work would begin only when the consumers are nearly out of
// tiles.
//
// Registers move from the producer to the consumers (setmaxnreg). In persistent blocks each role loops over tiles of
// work: the rings of K and V continue at the stage where the previous tile of work stopped, Q has a ring too, and the
// producer runs ahead.
//
// Where the duration of each tile of work is known beforehand, a block's tiles of work are computed from the block's
// index, and every producer warp computes them itself. Where tiles of keys are found by a search, the duration depends
// on data in memory, and free blocks claim the next tile of work. The first producer warp claims for its block, because
// it sends the tiles of work to the consumers anyway, with Q. The claim is at the beginning of a tile of work, because
// the message says whether another one follows. The claim is overlapped with the search, which also waits for memory. A
// kernel that copies nothing before the loop sends its messages with barriers of their own.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/StoredTiles.h"
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
  Block &body = loop.getBody().front();
  for (auto load : body.getOps<tile::LoadOp>())
    if (isCopied(load))
      streamed.emplace_back(load);
  auto isRing = [](const Ring &ring) { return bool(ring.is); };
  if (!kernel->hasAttr(sched::rolesAttr) || !llvm::all_of(llvm::concat<Ring>(once, streamed), isRing))
    return kernel.emitError("has copies without a sched.ring, or no sched.roles, which tile-assign-roles writes");
  if (streamed.empty())
    return kernel.emitError("copies no tile in its loop over tiles; warps are specialised around one at least");
  for (auto convert : body.getOps<tile::ConvertOp>())
    if (tile::isStaged(convert))
      (sched::isByOtherWarps(convert) ? staged : columns).emplace_back(convert);
    else if (sched::ringOf(convert))
      exchanged.emplace_back(convert);
  for (auto window : body.getOps<tile::WindowOp>())
    windows.emplace_back(window);
  sharesWindows = !windows.empty() && llvm::none_of(windows, [](const Ring &ring) {
    return followsBatch(cast<tile::WindowOp>(ring.tile));
  });
  if (failed(findStored()))
    return failure();
  for (const Ring &ring : llvm::concat<const Ring>(streamed, staged, windows, exchanged, stored))
    if (!llvm::is_contained(depths, ring.stages()))
      depths.push_back(ring.stages());
  if (failed(findOthers()))
    return failure();
  joinRings();
  return success();
}

bool WarpSpecializer::isRead(Value view) {
  tile::ParamOp written = tile::parameterOf(view);
  return holds<Operation *>(kernel, [&](Operation *op) {
    const bool writes = isa<tile::StoreOp, tile::AccumulateOp, tile::StoreBlocksOp, tile::ScatterOp>(op);
    if (writes || llvm::any_of(op->getResultTypes(), llvm::IsaPred<tile::ViewType>))
      return false;
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      tile::ParamOp parameter = isa<tile::ViewType>(operand.getType()) ? tile::parameterOf(operand) : tile::ParamOp();
      return parameter && written && parameter.getName() == written.getName();
    });
  });
}

LogicalResult WarpSpecializer::findStored() {
  WalkResult result = kernel.walk([&](Operation *op) {
    if (!isa<tile::StoreOp, tile::AccumulateOp>(op) || !sched::ringOf(op))
      return WalkResult::advance();
    auto store = dyn_cast<tile::StoreOp>(op);
    const bool fits = store ? isStoredInBoxes(kernel, store) : isStoredInBoxes(kernel, cast<tile::AccumulateOp>(op));
    StringRef fault;
    if (op->getBlock() != &loop.getBody().front())
      fault = "stands in no loop over tiles, and fills no ring; leave sched.ring out";
    else if (!loop.getWithin().empty())
      fault = "is of a loop whose warpgroups pass over tiles, and would leave stages half filled; leave sched.ring out";
    else if (isRead(op->getOperand(1)))
      fault = "goes to a tensor that the kernel reads, maybe before TMA has written it; leave sched.ring out";
    else if (store && store.getOptional())
      fault = "stores to a tensor that a launch may leave out; leave sched.ring out";
    else if (!followFromTile(loop, op->getOperands().drop_front()))
      fault =
          "goes to a place that follows from what the loop computes, which another role does not; leave sched.ring out";
    else if (!fits)
      fault = "takes to memory what TMA cannot: it takes 64 rows a warpgroup to a tensor of four "
              "dimensions, up to the end of its axis, as floats or, stored, 16 bits; leave sched.ring out";
    if (!fault.empty()) {
      op->emitOpError(fault);
      return WalkResult::interrupt();
    }
    stored.emplace_back(op);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult WarpSpecializer::findOthers() {
  for (const Ring &ring : once)
    if (ring.stages() != once.front().stages())
      return ring.tile->emitOpError() << "has a ring of " << ring.stages() << " stages, another ring one of "
                                      << once.front().stages()
                                      << "; rings that are filled before the loop have the same number of stages";
  // The first producer warp sends its messages with the tiles that it copies first: with Q the current tile of work,
  // with K the index of the next tile of keys.
  for (const Ring &ring : llvm::concat<const Ring>(once, ArrayRef(streamed).take_front(1), columns))
    if (ring.is.getFirstWarp() || ring.is.getWarps() > 1)
      return ring.tile->emitOpError(
          "has a ring that the first producer warp alone has to fill: the messages that name the "
          "tiles go with the copies before the loop and with its first copy");
  for (const Ring &ring : columns)
    if (ring.stages() != streamed.front().stages())
      return ring.tile->emitOpError() << "has another number of stages than the first copy of the loop, which has "
                                      << streamed.front().stages();
  for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows, stored)) {
    if (ring.leaves() && (!ring.is.getFirstWarp() || ring.is.getWarps() > 1))
      return ring.tile->emitOpError("goes to memory by one warp, which waits for it, and is not the first, which "
                                    "copies; name one from warp 1 on");
    if (isa<tile::LoadOp, tile::WindowOp>(ring.tile) && ring.is.getWarps() > 1)
      return ring.tile->emitOpError("is copied by one warp, of which one lane starts TMA");
    if (isa<tile::ConvertOp>(ring.tile) && !ring.is.getFirstWarp())
      return ring.tile->emitOpError("is computed by warps from warp 1 on");
    if (!ring.is.getFirstWarp()) {
      if (!isa<tile::LoadOp, tile::WindowOp>(ring.tile))
        return ring.tile->emitOpError("has a ring that the first warp cannot fill, which copies; give it another");
      continue;
    }
    for (auto &[first, rings] : others)
      if (const sched::RingAttr &is = rings.front()->is;
          (first != ring.is.getFirstWarp() || is.getWarps() != ring.is.getWarps()) &&
          first < ring.is.getFirstWarp() + ring.is.getWarps() && ring.is.getFirstWarp() < first + is.getWarps())
        return ring.tile->emitOpError() << "has a ring of warps that fill another one with others: " << is;
      else if (first == ring.is.getFirstWarp() && ring.leaves() != rings.front()->leaves())
        return ring.tile->emitOpError() << "has a ring of warp " << first
                                        << ", which is to take tiles to memory as well as bring some; give it another";
    others[ring.is.getFirstWarp()].push_back(&ring);
  }
  return success();
}

LogicalResult WarpSpecializer::run() {
  Block &body = kernel.getBody().front();
  SmallVector<Operation *> original;
  for (Operation &op : body)
    original.push_back(&op);
  claims = persistent && tile::findOperand(kernel, tile::workCounter);
  if (failed(findRings()))
    return failure();
  auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
  int64_t followers = 0;
  if (domain.skips())
    for (const auto &[first, rings] : others)
      followers += rings.front()->is.getWarps();

  builder.setInsertionPointToStart(&body);
  for (Ring &ring : once) // other producer warps read the messages that the first warp sends with the first ring
    declare(ring, /*filledBy=*/1, /*emptiedBy=*/warps + (&ring == &once.front() ? followers : 0));
  for (Ring &ring : streamed) {
    const bool ofKeys = &ring == &streamed.front(), withColumns = ofKeys && !columns.empty();
    const int64_t readers = warps + (ofKeys ? followers : 0);
    const bool byLanes = withColumns || (ofKeys && domain.skips());
    declare(ring, int64_t(ring.copied().size()) + (withColumns ? 32 : 0),
            /*emptiedBy=*/byLanes ? 32 * readers : readers);
  }
  // Every lane of the producer warps that compute a ring's tile arrives on the full barrier of the ring's stage.
  for (Ring &ring : staged)
    declare(ring, /*filledBy=*/32 * ring.is.getWarps(), /*emptiedBy=*/32 * warps);
  for (Ring &ring : windows)
    declare(ring, int64_t(ring.copied().size()), warps);
  for (Ring &ring : stored)
    declare(ring, /*filledBy=*/32 * warps, /*emptiedBy=*/1);
  for (Ring &ring : columns)
    declare(ring, 0, 0);
  for (Ring &ring : exchanged)
    ring.buffer = declareBuffer(ring);
  describeWindows();
  if (!loop.getWithin().empty())
    ownBegin = loop.getWithin()[0].getDefiningOp<tile::FirstVisibleOp>();
  if (ownBegin && ownBegin.getDomain() == loop.getDomain())
    return ownBegin.emitError("asks the domain of the block's tiles, which says nothing about a part of the rows; "
                              "ask one that follows from tile.warpgroup_row");
  declareTasks(followers);
  if (domain.skips())
    visits = declareMessages("visits", streamed.front().stages(), 2);
  initialise();
  auto roles = kernel->getAttrOfType<ArrayAttr>(sched::rolesAttr).getAsRange<sched::RoleAttr>();
  Block *producer = writeRole(*roles.begin());
  Block *consumer = writeRole(*std::next(roles.begin()));
  if (failed(writeProducer(producer, original)))
    return failure();
  // `sched.at` applies to the consumers' ops only: the attribute is removed from the ops that the producer runs.
  producer->walk([](Operation *op) { op->removeAttr(sched::atAttr); });
  builder.setInsertionPointToStart(consumer);
  auto [work, numbers] = persistent && tasks ? receivedWork() : numberedWork();
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
      if (!sched::producerWarps(kernel))
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
