//===- PipelineCopies.cpp - Loads become asynchronous copies into rings ------===//
//
// The loop over K tiles becomes `sched.for_tiles`, and its loads become copies that run ahead of their use:
//
//     stages = 1                               stages = s >= 2
//     ---------------------------------        -----------------------------------------
//     copy Q, K(0)                             copy Q; copy K, V of tiles 0 .. s-2
//     for tiles n:                             for tiles n:
//       wait K(n); barrier                       wait K(n), V(n); barrier
//       copy V(n)                                copy K, V of tile n + s - 1
//       S = Q K(n)                               S = Q K(n)
//       wait V(n); barrier                       softmax
//       copy K(n + 1)                            O += P V(n)
//       softmax; O += P V(n)
//
// Some loads cannot run ahead: loads at a position that the loop computes, loads of one-stage rings that are read at
// the same time, loads in a loop that holds another loop, and loads outside of loops. For these, all threads
// synchronise and copy; before the first op that reads one of the tiles they wait and synchronise again. Loads that
// follow each other are copied together.
//
// An op of stage N (`sched.at`) works on the tile of N iterations earlier (tile-pipeline-stages moves the op), so this
// tile stays in shared memory for N more iterations. Copies into a ring that such ops read run N tiles less far ahead.
// In the table, s counts the ring's stages; first and last are the least and the greatest stage of an op that reads the
// ring.
//
//     a ring of s, read by ops of stages  copied in iteration n   read in iteration n
//     ----------------------------------  ----------------------  -------------------------
//     first to last                       tile n + s - 1 - last   tiles n - last to n - first
//
// A barrier after a wait makes the copies of all threads visible, and guarantees that no thread still reads the slot
// that the next copy fills. The pending count of a wait is the number of copy groups (cp.async) committed after the
// group that the wait needs.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Cloning.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/dataflow/BlockDependences.h"
#include "passes/analysis/mask/TileSequence.h"

namespace attune {
#define GEN_PASS_DEF_PIPELINECOPIES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// A shared buffer of `count` stages for the tiles that `load` copies.
Value makeRing(OpBuilder &builder, tile::LoadOp load, int64_t count) {
  StringRef name = tile::nameOf(load.getResult());
  std::string ringName = count > 1 ? (name.take_until([](char c) { return c == '_'; }) + "_ring").str() : name.str();
  if (ringName.empty() || ringName == "_ring")
    ringName = tile::operandOf(load.getView()) ? tile::operandOf(load.getView()).getName().str() : "tile";
  return sched::SharedOp::create(builder, load.getLoc(), ringType(load.getResult().getType(), count), ringName);
}

/// The name of a load in remarks: the name of its tensor.
std::string nameOf(tile::LoadOp load) {
  tile::ParamOp parameter = tile::parameterOf(load.getView());
  return parameter ? parameter.getOwnName().str() : "a tile";
}

/// Replaces loads, which stand one after the other, by copies at the same position. The copies complete before the
/// first op that reads one of their tiles.
void copyTogether(ArrayRef<tile::LoadOp> loads) {
  SmallVector<Value> tiles;
  for (tile::LoadOp load : loads)
    tiles.push_back(load.getResult());
  Operation *reader = firstReader(tiles, *loads.front()->getBlock());
  if (!reader || reader == loads.back()->getNextNode()) {
    const bool inLoop =
        loads.front()->getParentOfType<tile::ForBlocksOp>() || loads.front()->getParentOfType<sched::ForTilesOp>();
    for (tile::LoadOp load : loads)
      tile::remark(tile::kernelAround(load),
                   "no computation overlaps the copy of " + nameOf(load) + ", which " +
                       (inLoop ? "depends on what the loop computes" : "no loop follows that could wait for it"));
  }
  tile::LoadOp firstLoad = loads.front();
  OpBuilder builder(firstLoad);
  Location loc = firstLoad.getLoc();
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  SmallVector<Value> buffers;
  for (tile::LoadOp load : loads)
    buffers.push_back(makeRing(builder, load, 1));
  sched::BarrierOp::create(builder, loc);
  builder.setInsertionPointAfter(loads.back());
  for (size_t i = 0; i < loads.size(); ++i) {
    tile::LoadOp load = loads[i];
    sched::CopyTileOp::create(builder, loc, load.getView(), load.getIndices(), load.getLimit(), buffers[i], zero,
                              Value());
  }
  sched::CommitCopiesOp::create(builder, loc);
  if (reader)
    builder.setInsertionPoint(reader);
  sched::WaitCopiesOp::create(builder, loc, 0);
  sched::BarrierOp::create(builder, loc);
  for (size_t i = 0; i < loads.size(); ++i) {
    auto type = cast<TileType>(tiles[i].getType());
    tiles[i].replaceAllUsesWith(sched::SlotOp::create(builder, loc, type, buffers[i], zero));
    loads[i]->erase();
  }
}

/// Replaces each of the loads by a copy at the same position; loads that follow each other are copied together.
void copyInPlace(ArrayRef<tile::LoadOp> loads) {
  while (!loads.empty()) {
    size_t count = 1;
    while (count < loads.size() && loads[count]->getPrevNode() == loads[count - 1])
      ++count;
    copyTogether(loads.take_front(count));
    loads = loads.drop_front(count);
  }
}

class LoopPipeliner {
public:
  LoopPipeliner(tile::KernelOp kernel, tile::ForBlocksOp loop, TileSequence sequence)
      : kernel(kernel), loop(loop), sequence(sequence), builder(loop), loc(loop.getLoc()) {}

  LogicalResult run() {
    Block &body = loop.getBody().front(), &around = *loop->getBlock();
    const bool holdsLoops = !body.getOps<sched::ForTilesOp>().empty();
    SmallVector<tile::LoadOp> ahead, here, once;
    for (auto load : llvm::make_filter_range(body.getOps<tile::LoadOp>(), isCopied))
      (runsAhead(loop, load) ? ahead : here).push_back(load);
    if (loop->getParentOp() == kernel)
      for (auto load : llvm::make_filter_range(around.getOps<tile::LoadOp>(), isCopied))
        if (load->isBeforeInBlock(loop) && isReadLate(load))
          once.push_back(load);
    if (failed(findDepths(ahead, holdsLoops)))
      return failure();
    if (placed && !here.empty())
      return here.front().emitOpError("goes by what the loop computes, and is awaited where it stands; "
                                      "leave out when the ops of the loop run");
    copyInPlace(here);
    for (Ring &ring : rings)
      ring.buffer = makeRing(builder, ring.load, ring.stages);
    copiesOnce = !once.empty();
    for (tile::LoadOp load : once)
      copyOnce(load);
    const bool single = !rings.empty() && rings.front().stages == 1;
    const bool waits = holdsLoops || (single && !areReadInOrder());
    if (waits && !(rings.empty() && here.empty()))
      tile::remark(kernel, "no computation overlaps the copies in the loop over " + sequence.domain.getAxis() + ", " +
                               (holdsLoops ? "which holds another loop"
                                           : "which reads several tiles at a time, with one stage; give stages"));
    if (waits || rings.empty())
      copyThenCompute();
    else
      single ? alternate() : fillRings();
    if (!rings.empty() || !once.empty())
      finish();
    return success();
  }

private:
  struct Ring {
    tile::LoadOp load;
    int64_t stages;
    int64_t first = 0, last = 0; ///< the first and last stage (`sched.at`) of ops that read the ring
    Value buffer = {};

    /// How many tiles ahead of the loop's current tile (the tile of stage 0) an iteration copies into the ring.
    int64_t ahead() const { return stages - 1 - last; }
    /// The number of copy groups that may still be in flight when an iteration starts to read tiles from the ring. Each
    /// iteration commits one group.
    int64_t pending() const { return ahead() + first - 1; }
  };

  static int64_t stageOf(Operation *op) { return sched::placeOf(op) ? sched::placeOf(op).getStage() : 0; }

  /// Finds the depth of each ring of the loop and the stages (`sched.at`) of the ops that read the ring.
  LogicalResult findDepths(ArrayRef<tile::LoadOp> loads, bool holdsLoops) {
    Block &body = loop.getBody().front();
    placed = llvm::any_of(body, [](Operation &op) { return bool(sched::placeOf(&op)); });
    if (placed && holdsLoops)
      return loop.emitOpError("says when its ops run, but holds another loop; say it of the inner one");
    for (tile::LoadOp load : loads) {
      sched::RingAttr attribute = sched::ringOf(load);
      if (!attribute)
        return load.emitOpError("has no sched.ring, which tile-assign-roles writes");
      Ring ring{load, holdsLoops ? 1 : attribute.getStages()};
      auto readers = llvm::map_range(load->getUsers(),
                                     [&](Operation *user) { return stageOf(body.findAncestorOpInBlock(*user)); });
      if (!load->use_empty()) {
        ring.first = *llvm::min_element(readers);
        ring.last = *llvm::max_element(readers);
      }
      // The ring must be so deep that every tile is copied by an earlier iteration than the one that reads the tile
      // (pending() >= 0), and that iteration n copies tile n or a later tile (ahead() >= 0).
      if (const int64_t needed = ring.last + std::max<int64_t>(1, 2 - ring.first); ring.last && ring.stages < needed)
        return load.emitOpError() << "has a ring of " << ring.stages << (ring.stages == 1 ? " stage" : " stages")
                                  << ", and is read by stage " << ring.last
                                  << ", while the next tile is copied; give it " << needed;
      if (placed && ring.stages == 1)
        return load.emitOpError("has a ring of one stage, whose copies and waits follow the order of the text; "
                                "where the loop says when its ops run, give it 2");
      rings.push_back(ring);
      if ((ring.stages == 1) != (rings.front().stages == 1))
        return load.emitOpError() << "has a ring of " << ring.stages << " stages, another ring one of "
                                  << rings.front().stages
                                  << "; where all warps copy, give all rings of a loop 1, or all of them 2 and more";
    }
    return success();
  }

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  /// Whether the ops before the loop that read the tile of `load` can move past the wait for all copies: no op before
  /// the loop reads their results.
  bool isReadLate(tile::LoadOp load) {
    return llvm::all_of(load.getResult().getUsers(), [&](Operation *user) {
      return user->getBlock() != loop->getBlock() || !user->isBeforeInBlock(loop) ||
             llvm::none_of(user->getUsers(), [&](Operation *next) {
               return next->getBlock() == loop->getBlock() && next->isBeforeInBlock(loop);
             });
    });
  }

  /// Whether there are at least two rings, and the last reader of each ring is before the first reader of the next
  /// ring.
  bool areReadInOrder() {
    for (unsigned r = 0; r + 1 < rings.size(); ++r)
      for (Operation *user : rings[r + 1].load.getResult().getUsers())
        if (!lastReader(rings[r])->isBeforeInBlock(loop.getBody().front().findAncestorOpInBlock(*user)))
          return false;
    return rings.size() > 1;
  }

  /// Each iteration copies its tiles, waits for them and then computes: no copy overlaps with compute.
  void copyThenCompute() {
    Value first = sequence.first(builder).tile;
    if (copiesOnce) {
      commit();
      readEarly();
      waitAndSynchronize(0);
    }
    sched::ForTilesOp tiles = openLoop(first);
    Value index = tiles.getBody().getArgument(0), zero = i32(0);
    Value next = sequence.next(builder, {index, {}}).tile;
    if (!rings.empty()) {
      sched::BarrierOp::create(builder, loc);
      for (Ring &ring : rings)
        issue(ring, index, zero);
      commit();
      waitAndSynchronize(0);
    }
    for (Ring &ring : rings)
      replaceByOwnSlot(ring, zero);
    closeLoop(tiles, {next});
  }

  /// Replaces a load before the loop by a copy in the first copy group (cp.async), so that the wait for the loop's
  /// first tile also waits for this copy.
  void copyOnce(tile::LoadOp load) {
    Value buffer = makeRing(builder, load, 1);
    sched::CopyTileOp::create(builder, load.getLoc(), load.getView(), load.getIndices(), load.getLimit(), buffer,
                              i32(0), Value());
    Value slot = sched::SlotOp::create(builder, load.getLoc(), load.getResult().getType(), buffer, i32(0));
    // Ops before the loop that read the tile, such as conversions of Q to fragments in registers, must run after the
    // wait for the copy; readEarly() moves these ops.
    const llvm::SetVector<Operation *> users(load.getResult().user_begin(), load.getResult().user_end());
    for (Operation *user : users)
      if (user->getBlock() == loop->getBlock() && user->isBeforeInBlock(loop)) {
        earlyReaders.push_back(user);
        user->replaceUsesOfWith(load.getResult(), slot);
      }
    load.getResult().replaceAllUsesWith(slot);
    load.erase();
  }

  /// Copies the domain's tile `index` into `slot` of the ring, if there is such a tile.
  void copyTile(Ring &ring, Value index, Value slot) {
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index, sequence.bound);
    auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    issue(ring, index, slot);
  }

  void issue(Ring &ring, Value index, Value slot) {
    IRMapping mapping;
    mapping.map(origin, sequence.origin(builder, index));
    if (iteration)
      mapping.map(iteration, sequence.iteration(builder, index));
    SmallVector<Value> indices = cloneValues(ring.load.getIndices(), ring.load->getBlock(), builder, mapping);
    sched::CopyTileOp::create(builder, ring.load.getLoc(), ring.load.getView(), indices, ring.load.getLimit(),
                              ring.buffer, slot, Value());
  }

  void commit() { sched::CommitCopiesOp::create(builder, loc); }

  void waitAndSynchronize(int64_t pending) {
    sched::WaitCopiesOp::create(builder, loc, pending);
    sched::BarrierOp::create(builder, loc);
  }

  /// Waits for the copies, and moves the ops before the loop that read a copied tile, such as conversions of Q to
  /// fragments in registers, after the wait.
  void readEarly() {
    if (earlyReaders.empty())
      return;
    waitAndSynchronize(0);
    for (Operation *reader : earlyReaders)
      reader->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
  }

  /// Creates the new loop, which carries `carried` (the first is the tile index) and the values that the old loop
  /// carries. Leaves the builder at the start of the new loop's body.
  sched::ForTilesOp openLoop(ValueRange carried) {
    auto tiles = sched::ForTilesOp::create(builder, loc, carried, sequence.bound, loop.getInits());
    builder.setInsertionPointToStart(&tiles.getBody().front());
    loop.getPartial().replaceAllUsesWith(sequence.partial(builder, {tiles.getBody().getArgument(0), {}}));
    origin = sequence.origin(builder, tiles.getBody().getArgument(0));
    loop.getOrigin().replaceAllUsesWith(origin);
    if (iteration) {
      Value own = sequence.iteration(builder, tiles.getBody().getArgument(0));
      iteration.replaceAllUsesWith(own);
      iteration = own;
    }
    for (auto [old, argument] : llvm::zip(loop.getCarried(), tiles.getBody().getArguments().drop_front(carried.size())))
      old.replaceAllUsesWith(argument);
    return tiles;
  }

  void closeLoop(sched::ForTilesOp tiles, ArrayRef<Value> next) {
    Block &body = tiles.getBody().front();
    tile::YieldOp yield = loop.getYield();
    SmallVector<Value> values(next);
    llvm::append_range(values, yield.getValues());
    yield.erase();
    body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
    builder.setInsertionPointToEnd(&body);
    sched::NextOp::create(builder, loc, values);
    loop.replaceAllUsesWith(tiles.getResults());
    loop.erase();
    builder.setInsertionPointAfter(tiles);
  }

  void replaceByOwnSlot(Ring &ring, Value slot) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(ring.load);
    auto own = sched::SlotOp::create(builder, loc, ring.load.getResult().getType(), ring.buffer, slot);
    sched::placeAt(own, sched::earliestPlace(ring.load.getResult(), *ring.load->getBlock()));
    ring.load.getResult().replaceAllUsesWith(own);
    ring.load.erase();
  }

  /// Writes the loop for rings of one stage: the copy of one operand (V) overlaps with the product of another (K).
  void alternate() {
    Value first = sequence.first(builder).tile;
    copyTile(rings[0], first, i32(0));
    commit();
    readEarly();
    sched::ForTilesOp tiles = openLoop(first);
    Value index = tiles.getBody().getArgument(0);
    Value zero = i32(0);
    Value next = sequence.next(builder, {index, {}}).tile;
    waitAndSynchronize(0);
    // Ring r + 1 is copied while ring r is read. The next tile of the first ring is copied while the last ring is read.
    for (unsigned r = 0; r < rings.size(); ++r) {
      if (r + 1 < rings.size()) {
        issue(rings[r + 1], index, zero);
      } else {
        copyTile(rings[0], next, zero);
      }
      commit();
      if (r + 1 < rings.size()) {
        builder.setInsertionPointAfter(lastReader(rings[r]));
        waitAndSynchronize(0);
      }
    }
    for (Ring &ring : rings)
      replaceByOwnSlot(ring, zero);
    closeLoop(tiles, {next});
  }

  Operation *lastReader(Ring &ring) {
    Operation *last = ring.load;
    for (Operation *user : ring.load.getResult().getUsers())
      if (Operation *ancestor = loop.getBody().front().findAncestorOpInBlock(*user); last->isBeforeInBlock(ancestor))
        last = ancestor;
    return last;
  }

  /// Writes the loop for rings of several stages. In iteration n the slots that iteration n - 1 has read are free, and
  /// receive the tile `ahead()` tiles after n. The loop carries the index of tile n and, for each different number of
  /// stages, the slot of tile n. Other indices and slots are recomputed from the carried ones, as registers are scarcer
  /// than integer instructions. Where the domain skips tiles, the indices of the tiles ahead are carried too.
  void fillRings() {
    const bool dense = sequence.isContiguous();
    int64_t furthest = 0, pending = rings.front().pending();
    for (const Ring &ring : rings) {
      furthest = std::max(furthest, ring.ahead());
      pending = std::min(pending, ring.pending());
      if (!llvm::is_contained(depths, ring.stages))
        depths.push_back(ring.stages);
    }
    const size_t needed = dense ? std::max<int64_t>(furthest, 1) : furthest + 1;
    SmallVector<Value> indices{sequence.first(builder).tile};
    for (int64_t pass = -furthest; pass < 0; ++pass) {
      for (Ring &ring : rings)
        if (const int64_t number = pass + ring.ahead(); number >= 0)
          copyTile(ring, indices[number], i32(number));
      commit();
      if (indices.size() < needed)
        indices.push_back(sequence.next(builder, {indices.back(), {}}).tile);
    }
    if (!furthest && copiesOnce)
      commit();
    readEarly();
    const size_t carriedIndices = dense ? 1 : indices.size();
    SmallVector<Value> carried(ArrayRef<Value>(indices).take_front(carriedIndices));
    carried.append(depths.size(), i32(0));
    sched::ForTilesOp tiles = openLoop(carried);
    auto arguments = tiles.getBody().getArguments();
    Value index = arguments[0];
    auto slotOf = [&](const Ring &ring) -> Value {
      return arguments[carriedIndices + (llvm::find(depths, ring.stages) - depths.begin())];
    };
    llvm::DenseMap<int64_t, Value> ahead;
    llvm::DenseMap<std::pair<int64_t, int64_t>, Value> free;
    for (const Ring &ring : rings)
      if (Value &tile = ahead[ring.ahead()]; !tile)
        tile = !dense         ? Value(arguments[ring.ahead()])
               : ring.ahead() ? Value(arith::AddIOp::create(builder, loc, index, i32(ring.ahead())))
                              : index;
    waitAndSynchronize(pending);
    for (const Ring &ring : rings)
      if (Value &slot = free[{ring.stages, ring.ahead()}]; !slot)
        slot = ring.ahead() ? neighbour(slotOf(ring), ring.ahead(), ring.stages, "free_slot") : slotOf(ring);
    for (Ring &ring : rings)
      copyTile(ring, ahead[ring.ahead()], free[{ring.stages, ring.ahead()}]);
    commit();
    // The wait and the copies run before all ops of the loop that have a `sched.at`.
    if (placed)
      for (Operation &op : *builder.getInsertionBlock())
        if (!isMemoryEffectFree(&op))
          op.setAttr(sched::atAttr, sched::AtAttr::get(op.getContext(), 0, 0));
    SmallVector<Value> next;
    if (!dense)
      next.assign(arguments.begin() + 1, arguments.begin() + carriedIndices);
    next.push_back(sequence.next(builder, {dense ? index : Value(arguments[carriedIndices - 1]), {}}).tile);
    for (auto [i, depth] : llvm::enumerate(depths))
      next.push_back(neighbour(arguments[carriedIndices + i], 1, depth, "next_slot"));
    for (Ring &ring : rings)
      replaceByOwnSlot(ring, slotOf(ring));
    closeLoop(tiles, next);
  }

  /// The slot `steps` slots after `slot`, in a ring of `stages` slots.
  Value neighbour(Value slot, int64_t steps, int64_t stages, StringRef name) {
    Value after = arith::AddIOp::create(builder, loc, slot, i32(steps), arith::IntegerOverflowFlags::nsw);
    return tile::named(arith::RemUIOp::create(builder, loc, after, i32(stages)), name);
  }

  /// Writes a wait and a barrier after the loop. After them no copy is in flight and no thread reads a shared tile, so
  /// that the memory of the tiles may be reused.
  void finish() { waitAndSynchronize(0); }

  tile::KernelOp kernel;
  tile::ForBlocksOp loop;
  TileSequence sequence;
  bool placed = false;     ///< ops of the loop have a `sched.at`
  bool copiesOnce = false; ///< some loads before the loop have become copies
  OpBuilder builder;
  Location loc;
  Value origin = loop.getOrigin(); ///< first row of the loop's current tile
  /// The current iteration over the domain's tiles, for example one per head of a GQA group; null if the domain has no
  /// `times`, the number of iterations.
  Value iteration = loop.getIteration();
  SmallVector<Ring> rings;
  SmallVector<int64_t> depths; ///< the different numbers of stages of `rings`
  SmallVector<Operation *> earlyReaders;
};

struct PipelineCopies : attune::impl::PipelineCopiesBase<PipelineCopies> {
  using PipelineCopiesBase::PipelineCopiesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (sched::producerWarps(kernel))
        continue;
      kernel.walk([](tile::LoadOp load) {
        if (load->use_empty())
          load.erase();
      });
      SmallVector<tile::ForBlocksOp> loops; // inner loops come first
      kernel.walk([&](tile::ForBlocksOp loop) { loops.push_back(loop); });
      for (tile::ForBlocksOp loop : loops) {
        auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
        OpBuilder builder(loop);
        FailureOr<TileSequence> sequence = TileSequence::create(builder, domain);
        if (failed(sequence))
          return signalPassFailure();
        if (failed(LoopPipeliner(kernel, loop, *sequence).run()))
          return signalPassFailure();
      }
      eraseUnusedDomains(kernel);
      SmallVector<tile::LoadOp> rest;
      kernel.walk([&](tile::LoadOp load) {
        if (isCopied(load))
          rest.push_back(load);
      });
      copyInPlace(rest);
    }
  }
};

} // namespace
