//===- Producer.cpp - A loop over tiles in the producer role: the warps that copy ------===//

#include "passes/analysis/copies/StoredTiles.h"
#include "passes/sched/roles/LoopRoles.h"

namespace attune::roles {

void LoopRoles::fillFirst(IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit, Value one, bool alone) {
  if (!columns.empty())
    copyWithColumns(mapping, in(at, streamed.front()), visit, one);
  // Copies are in program order of the loads, which is the order in which consumers release the stages.
  SmallVector<Ring *> copies;
  for (Ring &ring : llvm::concat<Ring>(streamed, windows))
    if (!ring.with && !ring.firstWarp && (&ring != &streamed.front() || columns.empty()))
      copies.push_back(&ring);
  if (copies.empty())
    return;
  auto start = [&] {
    llvm::sort(copies, [](Ring *a, Ring *b) { return a->tile->isBeforeInBlock(b->tile); });
    for (Ring *ring : copies)
      copyStreamed(*ring, mapping, in(at, *ring), visit);
  };
  alone ? start() : onlyIf(one, start);
}

void LoopRoles::copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit) {
  const SmallVector<Ring *> copied = ring.copied();
  for (Ring *each : copied) // indices of windows are computed before the wait for the stage
    if (auto window = dyn_cast<tile::WindowOp>(each->tile))
      cloneValues(window.getIndices(), &loop.getBody().front(), builder, mapping);
  sched::AcquireOp::create(builder, ring.tile->getLoc(), ring.barriers, at.stage, at.phase);
  if (visits && &ring == &streamed.front())
    sched::SendOp::create(builder, loc, visit, visits, at.stage);
  for (Ring *each : copied)
    copy(*each, mapping, at.stage);
}

void LoopRoles::copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one) {
  Ring &keys = streamed.front();
  onlyIf(one, [&] { copyStreamed(keys, mapping, at, visit); });
  // Each lane waits for the stage, stores its own elements and arrives on the stage's barrier. compute-sanitizer does
  // not count one lane's wait or arrival for other lanes.
  auto store = [&] {
    sched::AcquireOp::create(builder, loc, keys.barriers, at.stage, at.phase);
    for (Ring &ring : columns)
      storeStage(ring, mapping, at.stage);
  };
  if (visits)
    onlyIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, visit[1], i32(0)), store);
  else
    store();
  // For a tile without masked keys, lanes store nothing and do not wait for the stage. sync_lanes keeps them from
  // running ahead of the copying lane, because each lane must arrive exactly once each time the stage is filled.
  sched::SyncLanesOp::create(builder, loc);
  sched::CommitOp::create(builder, loc, keys.barriers, at.stage);
}

sched::ForTilesOp LoopRoles::walkTiles(TileSequence &sequence, const TileSequence::Visit &first,
                                       ArrayRef<Position> entry, IRMapping &mapping, bool follows, AtStage each) {
  SmallVector<Value> carried{first.tile};
  append(carried, entry);
  llvm::append_range(carried, first.window);
  auto tiles = sched::ForTilesOp::create(builder, loc, carried, sequence.bound, ValueRange(), /*keeps=*/persistent);
  nameCarried(tiles);
  builder.setInsertionPointToStart(&tiles.getBody().front());
  auto arguments = tiles.getBody().getArguments();
  TileSequence::Visit visited{arguments[0],
                              llvm::to_vector<3>(llvm::map_range(arguments.drop_front(1 + 2 * depths.size()),
                                                                 [](BlockArgument a) -> Value { return a; }))};
  Positions at = positions(arguments.drop_front());
  mapping.map(loop.getOrigin(), sequence.origin(builder, visited.tile));
  if (loop.getIteration())
    mapping.map(loop.getIteration(), sequence.iteration(builder, visited.tile));
  // Indices of loads are computed before the one-lane branches that copy, so that all of these branches can use them.
  for (const Ring &ring : streamed) {
    auto load = cast<tile::LoadOp>(ring.tile);
    cloneValues(load.getIndices(), &loop.getBody().front(), builder, mapping);
    cloneValues(load.getLimit(), &loop.getBody().front(), builder, mapping);
  }
  // The search for the next tile comes before the wait for a stage, so that the two overlap.
  TileSequence::Visit after = follows ? TileSequence::Visit{followVisit(at), {}} : sequence.next(builder, visited);
  SmallVector<Value> visit;
  if (visits && !follows)
    visit = {after.tile,
             arith::ExtUIOp::create(builder, loc, builder.getI32Type(), sequence.partial(builder, visited))};
  each(mapping, at, visit);
  carried = {after.tile};
  append(carried, advance(at));
  llvm::append_range(carried, after.window);
  sched::NextOp::create(builder, loc, carried);
  builder.setInsertionPointAfter(tiles);
  return tiles;
}

SmallVector<tile::DomainOp> LoopRoles::partDomains(const IRMapping &block, ArrayRef<Operation *> original) {
  SmallVector<tile::DomainOp> domains;
  auto isPart = [](Operation *op) { return isa<tile::WarpgroupRowOp>(op); };
  for (int64_t i = 0; i < searchedParts(); ++i) {
    IRMapping mapping(block);
    Value row = i32(i * rowsOfWarpgroup(kernel));
    for (Operation *op : original) {
      if (op == ownBegin)
        break;
      if (auto part = dyn_cast<tile::WarpgroupRowOp>(op))
        mapping.map(part.getResult(), arith::AddIOp::create(builder, loc, block.lookup(part.getOrigin()), row,
                                                            arith::IntegerOverflowFlags::nsw));
      else if (isOfOwnBegin(op) ||
               (op->getNumResults() == 1 && isMemoryEffectFree(op) && followsFrom(op->getResult(0), isPart)))
        builder.clone(*op, mapping);
    }
    domains.push_back(cast<tile::DomainOp>(mapping.lookup(ownBegin.getDomain()).getDefiningOp()));
  }
  return domains;
}

void LoopRoles::storeStage(Ring &ring, IRMapping &mapping, Value stage) {
  Value computed = cast<tile::ConvertOp>(ring.tile).getTile();
  cloneWithOperands(computed.getDefiningOp(), &loop.getBody().front(), builder, mapping);
  sched::StoreTileOp::create(builder, ring.tile->getLoc(), mapping.lookup(computed), ring.buffer, stage);
}

void LoopRoles::computeStaged(Ring &ring, IRMapping &mapping, Position at) {
  Location loc = ring.tile->getLoc();
  sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase);
  storeStage(ring, mapping, at.stage);
  for (Ring *other : ring.barrierUsers)
    storeStage(*other, mapping, at.stage);
  sched::CommitOp::create(builder, loc, ring.barriers, at.stage);
}

void LoopRoles::fillOthers(ArrayRef<Ring *> rings, IRMapping &mapping, ArrayRef<Position> at, Value one) {
  SmallVector<Ring *> loads, computed, leaves;
  for (Ring *ring : rings)
    (ring->isStored ? computed : ring->leaves() ? leaves : loads).push_back(ring);
  for (Ring *ring : computed)
    computeStaged(*ring, mapping, in(at, *ring));
  // The elected lane starts the TMA copies after the stores of all lanes of the warp.
  if (!loads.empty() && !computed.empty())
    sched::SyncLanesOp::create(builder, loc);
  if (!loads.empty())
    onlyIf(one, [&] {
      for (Ring *ring : loads)
        copyStreamed(*ring, mapping, in(at, *ring));
    });
  for (Ring *ring : leaves)
    writeStored(*ring, mapping, in(at, *ring), one);
}

void LoopRoles::writeStored(Ring &ring, IRMapping &mapping, Position at, Value one) {
  auto write = [&](auto op, bool adds) {
    Location loc = op.getLoc();
    Block *body = &this->loop.getBody().front();
    SmallVector<Value> indices = cloneValues(op.getIndices(), body, builder, mapping),
                       rest = cloneValues(ValueRange{op.getView(), op.getLimit()}, body, builder, mapping);
    sched::WaitOp::create(builder, loc, ring.barriers, at.stage, at.phase);
    onlyIf(one, [&] {
      sched::WriteTileOp::create(builder, loc, ring.buffer, at.stage, rest[0], indices, rest[1],
                                 columnSplits(kernel, cast<TileType>(op.getTile().getType())), adds);
    });
    sched::SyncLanesOp::create(builder, loc);
    sched::ReleaseOp::create(builder, loc, ring.barriers, at.stage);
  };
  if (auto store = dyn_cast<tile::StoreOp>(ring.tile))
    write(store, /*adds=*/false);
  else
    write(cast<tile::AccumulateOp>(ring.tile), /*adds=*/true);
}

} // namespace attune::roles
