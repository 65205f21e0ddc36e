//===- Producer.cpp - Writes the producer role: the warps that copy ------===//

#include "passes/analysis/copies/StoredTiles.h"
#include "passes/sched/roles/WarpSpecializer.h"

namespace attune::roles {

LogicalResult WarpSpecializer::writeProducer(Block *block, ArrayRef<Operation *> original) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(block);
  Value thread = sched::ThreadIdOp::create(builder, loc);
  // The branches of other warps come before that of the first warp, which needs the most registers: the thread index
  // is then no longer live in the first warp's loop.
  for (auto &[first, rings] : others)
    if (failed(writeOthers(thread, rings, original)))
      return failure();
  Value firstWarp = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, thread, i32(32));
  auto copies = scf::IfOp::create(builder, loc, firstWarp, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(copies.thenBlock());
  Value one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
  auto copyOnce = [&](IRMapping &mapping, Position query, ArrayRef<Value> place, Value first, ArrayRef<Value> begins) {
    SmallVector<Value> task(place);
    if (visits)
      task.push_back(first);
    llvm::append_range(task, begins);
    onlyIf(one, [&] {
      if (tasks && once.empty()) {
        if (persistent)
          sched::AcquireOp::create(builder, loc, taskBarriers, query.stage, query.phase);
        sched::SendOp::create(builder, loc, task, tasks, query.stage);
        sched::CommitOp::create(builder, loc, taskBarriers, query.stage);
      }
      for (Ring &ring : once) {
        if (persistent)
          sched::AcquireOp::create(builder, loc, ring.barriers, query.stage, query.phase);
        if (tasks && &ring == &once.front())
          sched::SendOp::create(builder, loc, task, tasks, query.stage);
        copy(ring, mapping, query.stage);
      }
    });
  };
  const bool alone = walksAlone();
  auto byOne = [&](function_ref<void()> body) { alone ? body() : onlyIf(one, body); };
  LogicalResult result = success();
  auto walk = [&] {
    result = walkTiles(original, copyOnce, [&](IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit) {
      if (!columns.empty())
        copyWithColumns(mapping, in(at, streamed.front()), visit, one);
      // Copies are in program order of the loads, which is the order in which consumers release the stages.
      SmallVector<Ring *> rings;
      for (Ring &ring : llvm::concat<Ring>(streamed, windows))
        if (!ring.with && (&ring == &streamed.front() ? columns.empty() : !ring.is.getFirstWarp()))
          rings.push_back(&ring);
      if (rings.empty())
        return;
      byOne([&] {
        llvm::sort(rings, [](Ring *a, Ring *b) { return a->tile->isBeforeInBlock(b->tile); });
        for (Ring *ring : rings)
          copyStreamed(*ring, mapping, in(at, *ring), visit);
      });
    });
  };
  alone ? onlyIf(one, walk) : walk();
  return result;
}

void WarpSpecializer::copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit) {
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

void WarpSpecializer::copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one) {
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

LogicalResult WarpSpecializer::walkTiles(ArrayRef<Operation *> original, AtWork before, AtStage each) {
  const bool follows = visits && !before, receives = follows && persistent;
  auto [work, numbers] = receives ? receivedWork() : numberedWork();
  builder.setInsertionPointToStart(&work.getBody().front());
  Value claimed = claims && before ? claimWork() : Value(), following;
  IRMapping mapping;
  TileSequence::Visit first;
  if (follows)
    std::tie(following, first.tile) = receiveTask(
        queryPosition(work), original, [&](tile::BlockIndexOp index, Value at) { mapping.map(index.getResult(), at); });
  SmallVector<Value> place;
  if (!receives) {
    place = numbers.place(work.getNumber());
    for (Operation *op : original)
      if (auto index = dyn_cast<tile::BlockIndexOp>(op))
        mapping.map(index.getResult(), place[index.getPosition()]);
  }
  cloneScalars(original, mapping);
  auto domain = cast<tile::DomainOp>(mapping.lookup(loop.getDomain()).getDefiningOp());
  FailureOr<TileSequence> sequence = TileSequence::create(builder, domain);
  if (failed(sequence))
    return failure();
  Positions entry = start(work);
  SmallVector<Value> begins;
  if (!follows) {
    SmallVector<tile::DomainOp> parts = before ? partDomains(mapping, original) : SmallVector<tile::DomainOp>();
    first = sequence->first(builder, parts, &begins);
    for (tile::DomainOp part : parts)
      part.erase();
  }
  if (claimed)
    following = tile::named(sched::ShuffleOp::create(builder, loc, claimed.getType(), claimed, i32(0)), "next_number");
  else if (persistent && !receives)
    following = numbers.next(work.getCount());
  if (persistent && tasks && before)
    place.push_back(hasNext(work, following));
  if (before)
    before(mapping, queryPosition(work), persistent ? place : ArrayRef<Value>(), first.tile, begins);
  sched::ForTilesOp tiles = walkKeys(*sequence, first, entry, mapping, follows, each);
  if (receives) {
    builder.setInsertionPointAfter(tiles);
    sched::SyncLanesOp::create(builder, loc);
    sched::ReleaseOp::create(builder, loc, taskBarriers, queryPosition(work).stage);
  }
  nextWork(work, tiles, following, /*wholeWarp=*/!before || !walksAlone());
  domain.erase();
  return success();
}

Value WarpSpecializer::claimWork() {
  const Type view = tile::findOperand(kernel, tile::workCounter).getViewType();
  Value counter = tile::named(tile::ParamOp::create(builder, loc, view, tile::workCounter), tile::workCounter);
  return tile::named(sched::ClaimWorkOp::create(builder, loc, builder.getI32Type(), counter), "claimed");
}

void WarpSpecializer::cloneScalars(ArrayRef<Operation *> original, IRMapping &mapping) {
  for (Operation *op : original) {
    if (op == loop)
      break;
    const bool computes = isMemoryEffectFree(op) && (op->getNumRegions() == 0 || isa<tile::DomainOp, scf::ForOp>(op)) &&
                          !isa<tile::LoadOp>(op) && llvm::none_of(op->getResultTypes(), llvm::IsaPred<TileType>);
    if (computes && !isOfOwnBegin(op) && !isa<tile::BlockIndexOp>(op))
      builder.clone(*op, mapping);
  }
}

sched::ForTilesOp WarpSpecializer::walkKeys(TileSequence &sequence, const TileSequence::Visit &first,
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
  Positions at = carriedPositions(arguments.drop_front());
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
  return tiles;
}

SmallVector<tile::DomainOp> WarpSpecializer::partDomains(const IRMapping &block, ArrayRef<Operation *> original) {
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

void WarpSpecializer::storeStage(Ring &ring, IRMapping &mapping, Value stage) {
  Value computed = cast<tile::ConvertOp>(ring.tile).getTile();
  cloneWithOperands(computed.getDefiningOp(), &loop.getBody().front(), builder, mapping);
  sched::StoreTileOp::create(builder, ring.tile->getLoc(), mapping.lookup(computed), ring.buffer, stage);
}

void WarpSpecializer::computeStaged(Ring &ring, IRMapping &mapping, Position at) {
  Location loc = ring.tile->getLoc();
  sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase);
  storeStage(ring, mapping, at.stage);
  for (Ring *other : ring.beside)
    storeStage(*other, mapping, at.stage);
  sched::CommitOp::create(builder, loc, ring.barriers, at.stage);
}

LogicalResult WarpSpecializer::writeOthers(Value thread, ArrayRef<Ring *> rings, ArrayRef<Operation *> original) {
  using arith::CmpIPredicate;
  OpBuilder::InsertionGuard guard(builder);
  const int64_t first = rings.front()->is.getFirstWarp(), count = rings.front()->is.getWarps(), end = first + count;
  Value warp = arith::DivUIOp::create(builder, loc, thread, i32(32));
  Value are =
      arith::CmpIOp::create(builder, loc, count == 1 ? CmpIPredicate::eq : CmpIPredicate::sge, warp, i32(first));
  auto alsoIf = [&](Value condition) { are = arith::AndIOp::create(builder, loc, are, condition); };
  if (count > 1 && end < sched::producerWarps(kernel))
    alsoIf(arith::CmpIOp::create(builder, loc, CmpIPredicate::slt, warp, i32(end)));
  LogicalResult result = success();
  onlyIf(are, [&] { result = walkOthers(rings, original); });
  return result;
}

LogicalResult WarpSpecializer::walkOthers(ArrayRef<Ring *> rings, ArrayRef<Operation *> original) {
  SmallVector<Ring *> loads, computed, leaves;
  for (Ring *ring : rings)
    if (!ring->with)
      (ring->isStored ? computed : ring->leaves() ? leaves : loads).push_back(ring);
  Value one;
  if (!loads.empty() || !leaves.empty())
    one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
  return walkTiles(original, /*before=*/{}, [&](IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value>) {
    for (Ring *ring : computed)
      computeStaged(*ring, mapping, in(at, *ring));
    // One lane copies, after the stores of the other lanes.
    if (!loads.empty() && !computed.empty())
      sched::SyncLanesOp::create(builder, loc);
    if (!loads.empty())
      onlyIf(one, [&] {
        for (Ring *ring : loads)
          copyStreamed(*ring, mapping, in(at, *ring));
      });
    for (Ring *ring : leaves)
      writeStored(*ring, mapping, in(at, *ring), one);
  });
}

void WarpSpecializer::writeStored(Ring &ring, IRMapping &mapping, Position at, Value one) {
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

void WarpSpecializer::onlyIf(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

void WarpSpecializer::copy(Ring &ring, IRMapping &mapping, Value stage) {
  Location loc = ring.tile->getLoc();
  auto window = dyn_cast<tile::WindowOp>(ring.tile);
  auto load = dyn_cast<tile::LoadOp>(ring.tile);
  SmallVector<Value> indices;
  for (Value index : window ? window.getIndices() : load.getIndices())
    indices.push_back(mapping.lookupOrDefault(index));
  if (window)
    sched::CopyWindowOp::create(builder, loc, mapping.lookupOrDefault(window.getView()), indices, ring.buffer, stage,
                                ring.barriers, ring.map);
  else
    sched::CopyTileOp::create(builder, loc, mapping.lookupOrDefault(load.getView()), indices,
                              mapping.lookupOrDefault(load.getLimit()), ring.buffer, stage, ring.barriers);
}

} // namespace attune::roles
