//===- Consumer.cpp - Writes the consumer role: the warps that compute ---===//

#include "passes/sched/roles/WarpSpecializer.h"

namespace attune::roles {

/// The first and the last op of the IR block `block` that is, or contains, one of `users`; null if there is no such op.
static std::pair<Operation *, Operation *> firstAndLast(ArrayRef<Operation *> users, Block &block) {
  Operation *first = nullptr, *last = nullptr;
  for (Operation *user : users) {
    Operation *ancestor = block.findAncestorOpInBlock(*user);
    if (!first || ancestor->isBeforeInBlock(first))
      first = ancestor;
    if (!last || last->isBeforeInBlock(ancestor))
      last = ancestor;
  }
  return {first, last};
}

void WarpSpecializer::placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original) {
  SmallVector<Value> place = numbers.place(work.getNumber());
  for (Operation *op : original)
    if (auto index = dyn_cast<tile::BlockIndexOp>(op))
      index.getResult().replaceAllUsesWith(place[index.getPosition()]);
}

LogicalResult WarpSpecializer::writeConsumer(sched::ForWorkOp work, WorkOrder &numbers,
                                             ArrayRef<Operation *> original) {
  builder.setInsertionPoint(loop);
  auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
  FailureOr<TileSequence> sequence = TileSequence::create(builder, domain);
  if (failed(sequence))
    return failure();
  Position query;
  Positions entry = start(work);
  Value more, first;
  SmallVector<Value> begins;
  {
    // The producer's message about the tile of work comes with the stage of Q.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&work.getBody().front());
    query = queryPosition(work);
    if (tasks)
      std::tie(more, first) = receiveTask(
          query, original, [](tile::BlockIndexOp index, Value place) { index.getResult().replaceAllUsesWith(place); },
          &begins);
    if (tasks && once.empty() && persistent) { // no copy came with the message, whose readers would release the stage
      sched::SyncLanesOp::create(builder, loc);
      sched::ReleaseOp::create(builder, loc, taskBarriers, query.stage);
    }
    if (work.getOrder() != sched::WorkOrder::Received)
      placeWork(work, numbers, original);
    if (work.getOrder() == sched::WorkOrder::Persistent)
      more = numbers.next(work.getCount());
  }
  for (auto index : llvm::make_early_inc_range(work.getBody().front().getOps<tile::BlockIndexOp>()))
    index.erase();
  if (ownBegin)
    chooseOwnBegin(begins);
  if (!first)
    first = sequence->first(builder).tile;
  for (Ring &ring : once)
    readStage(ring, query, /*refilled=*/persistent, /*waited=*/tasks && &ring == &once.front());
  builder.setInsertionPoint(loop);
  Value bound = sequence->bound;
  SmallVector<Value, 3> from{first};
  append(from, entry);
  bool endsApart = false;
  if (!loop.getWithin().empty()) {
    auto [begin, end] = sequence->within(builder, loop.getWithin()[0], loop.getWithin()[1]);
    endsApart = end != bound;
    if (endsApart)
      bound = tile::named(arith::MinSIOp::create(builder, loc, end, bound), "own_end");
    if (!matchPattern(begin, m_Zero()))
      from = passOver(*sequence, from, arith::MinSIOp::create(builder, loc, begin, bound)).getKept();
  }
  auto tiles = sched::ForTilesOp::create(builder, loc, from, bound, loop.getInits(),
                                         /*keeps=*/endsApart || persistent || !stored.empty());
  nameCarried(tiles);
  Block &body = tiles.getBody().front();
  builder.setInsertionPointToStart(&body);
  Value index = body.getArgument(0);
  Positions at = carriedPositions(body.getArguments().drop_front());
  loop.getOrigin().replaceAllUsesWith(sequence->origin(builder, index));
  if (loop.getIteration())
    loop.getIteration().replaceAllUsesWith(sequence->iteration(builder, index));
  Value following;
  if (!visits)
    loop.getPartial().replaceAllUsesWith(sequence->partial(builder, {index, {}}));
  for (auto [old, argument] : llvm::zip(loop.getCarried(), body.getArguments().drop_front(1 + 2 * depths.size())))
    old.replaceAllUsesWith(argument);
  tile::YieldOp yield = loop.getYield();
  SmallVector<Value> carried(yield.getValues());
  yield.erase();
  body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
  Operation *firstUser = firstAndLast(llvm::to_vector(loop.getPartial().getUsers()), body).first;
  for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows)) {
    if (ring.with)
      continue;
    const bool ofKeys = &ring == &streamed.front();
    auto readVisit = [&] {
      if (!visits || !ofKeys)
        return;
      // The message is received after the start of the first product that reads the stage, or before an earlier op that
      // needs the message.
      sched::ReceiveOp visit = receiveVisit(in(at, ring));
      following = field(visit, 0, "next_tile");
      Value partial = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, field(visit, 1, "partial"), i32(0));
      loop.getPartial().replaceAllUsesWith(tile::named(partial, "partial"));
    };
    readStage(ring, in(at, ring), /*refilled=*/true, /*waited=*/false,
              AlsoRead{readVisit, visits && ofKeys ? firstUser : nullptr});
  }
  for (Ring &ring : exchanged)
    exchange(ring, in(at, ring));
  for (Ring &ring : stored)
    fillStored(ring, in(at, ring));
  builder.setInsertionPointToEnd(&body);
  if (!following)
    following = sequence->next(builder, {index, {}}).tile;
  SmallVector<Value> values{following};
  append(values, advance(at));
  llvm::append_range(values, carried);
  sched::NextOp::create(builder, loc, values);
  loop.replaceAllUsesWith(tiles.getResults().take_front(tiles.getTiles().size()));
  loop.erase();
  awaitStored(tiles);
  if (endsApart) {
    builder.setInsertionPointAfter(tiles);
    tiles = passOver(*sequence, tiles.getKept(), sequence->bound);
  }
  domain.erase();
  nextWork(work, tiles, more);
  return success();
}

void WarpSpecializer::chooseOwnBegin(ArrayRef<Value> begins) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ownBegin);
  tile::WarpgroupRowOp own = *ownBegin->getBlock()->getOps<tile::WarpgroupRowOp>().begin();
  Value begin = begins.back();
  for (int64_t part = int64_t(begins.size()) - 2; part >= 0; --part) {
    Value row = arith::AddIOp::create(builder, loc, own.getOrigin(), i32(part * own.getRows()),
                                      arith::IntegerOverflowFlags::nsw);
    Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, own.getResult(), row);
    begin = arith::SelectOp::create(builder, loc, isOwn, begins[part], begin);
  }
  begin = tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), begin), "own_begin");
  auto domain = ownBegin.getDomain().getDefiningOp<tile::DomainOp>();
  ownBegin.replaceAllUsesWith(begin);
  ownBegin.erase();
  domain.erase();
}

sched::ForTilesOp WarpSpecializer::passOver(TileSequence &sequence, ValueRange from, Value bound) {
  auto tiles = sched::ForTilesOp::create(builder, loc, from, bound, ValueRange(), /*keeps=*/true);
  nameCarried(tiles);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&tiles.getBody().front());
  Positions at = carriedPositions(tiles.getBody().getArguments().drop_front());
  Value following = visits ? Value() : sequence.next(builder, {tiles.getBody().getArgument(0), {}}).tile;
  for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows)) {
    if (!following) {
      following = followVisit(at);
      continue;
    }
    if (ring.with)
      continue;
    const Position own = in(at, ring);
    sched::WaitOp::create(builder, loc, ring.barriers, own.stage, own.phase);
    release(ring, own.stage);
  }
  SmallVector<Value> next{following};
  append(next, advance(at));
  sched::NextOp::create(builder, loc, next);
  return tiles;
}

std::pair<Value, Value> WarpSpecializer::receiveTask(Position query, ArrayRef<Operation *> ops,
                                                     function_ref<void(tile::BlockIndexOp, Value)> tell,
                                                     SmallVectorImpl<Value> *begins) {
  sched::WaitOp::create(builder, loc, taskBarriers, query.stage, query.phase);
  const unsigned place = taskPlaceFields(), parts = begins ? searchedParts() : 0;
  auto task = sched::ReceiveOp::create(
      builder, loc, SmallVector<Type>(place + (visits ? 1 : 0) + parts, builder.getI32Type()), tasks, query.stage);
  Value first = visits ? field(task, place, "first_tile") : Value();
  for (unsigned part = 0; part < parts; ++part)
    begins->push_back(task.getResult(place + 1 + part));
  if (!persistent)
    return {{}, first};
  for (Operation *op : ops)
    if (auto index = dyn_cast<tile::BlockIndexOp>(op))
      tell(index, field(task, index.getPosition(), tile::nameOf(index.getResult())));
  return {task.getResult(place - 1), first};
}

void WarpSpecializer::exchange(Ring &ring, Position at) {
  auto convert = cast<tile::ConvertOp>(ring.tile);
  builder.setInsertionPoint(convert);
  auto shared = sched::ExchangeOp::create(builder, convert.getLoc(), convert.getResult().getType(), convert.getTile(),
                                          ring.buffer, at.stage);
  placeAs(convert, shared);
  convert.replaceAllUsesWith(shared.getResult());
  convert.erase();
}

void WarpSpecializer::fillStored(Ring &ring, Position at) {
  Location loc = ring.tile->getLoc();
  builder.setInsertionPoint(ring.tile);
  placeAs(ring.tile, sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase));
  placeAs(ring.tile, sched::StoreTileOp::create(builder, loc, ring.value(), ring.buffer, at.stage));
  auto commit = sched::CommitOp::create(builder, loc, ring.barriers, at.stage);
  // The commit gets the whole `sched.at` of the store, including the ping-pong mark.
  if (Attribute whole = ring.tile->getAttr(sched::atAttr))
    commit->setAttr(sched::atAttr, whole);
  ring.tile->erase();
}

void WarpSpecializer::awaitStored(sched::ForTilesOp tiles) {
  if (persistent) // in a persistent block no other buffer reuses the memory of these stages
    return;
  builder.setInsertionPointAfter(tiles);
  for (Ring &ring : stored) {
    Positions at = carriedPositions(tiles.getKept().drop_front());
    for (int64_t stage = 0; stage < ring.stages(); ++stage) {
      sched::AcquireOp::create(builder, ring.barriers.getLoc(), ring.barriers, in(at, ring).stage, in(at, ring).phase);
      at = advance(at);
    }
  }
}

Value WarpSpecializer::followVisit(ArrayRef<Position> positions) {
  const Ring &keys = streamed.front();
  const Position at = in(positions, keys);
  sched::WaitOp::create(builder, loc, keys.barriers, at.stage, at.phase);
  Value following = field(receiveVisit(at), 0, "next_tile");
  release(keys, at.stage);
  return following;
}

std::pair<Operation *, Operation *> WarpSpecializer::readersOf(const Ring &ring) {
  SmallVector<Operation *> users(ring.value().getUsers());
  // A tile.scale changes the tile in place, so readers of its result read the ring's stage as well.
  for (Operation *user : ring.value().getUsers())
    if (isa<tile::ScaleOp>(user))
      llvm::append_range(users, user->getUsers());
  return firstAndLast(users, *ring.tile->getBlock());
}

Value WarpSpecializer::replaceBySlot(Ring &ring, Value stage, Operation *first) {
  Value slot = sched::SlotOp::create(builder, ring.tile->getLoc(), ring.value().getType(), ring.buffer, stage);
  sched::placeAt(slot.getDefiningOp(),
                 first ? sched::earliestPlace(ring.value(), *ring.tile->getBlock()) : sched::placeOf(ring.tile));
  Operation *computed = isa<tile::ConvertOp>(ring.tile) ? ring.tile->getOperand(0).getDefiningOp() : nullptr;
  ring.value().replaceAllUsesWith(slot);
  ring.tile->erase();
  if (computed && computed->use_empty())
    computed->erase();
  for (Operation *user : slot.getUsers())
    if (auto scale = dyn_cast<tile::ScaleOp>(user))
      return scale.getResult();
  return slot;
}

void WarpSpecializer::readStage(Ring &ring, Position at, bool refilled, bool waited, AlsoRead also) {
  Location loc = ring.tile->getLoc();
  auto [first, last] = readersOf(ring);
  Operation *whenAwaited = ring.tile;
  for (Ring *other : ring.beside) {
    auto [firstOther, lastOther] = readersOf(*other);
    assert(firstOther && "what nothing reads has not been staged");
    if (!first || firstOther->isBeforeInBlock(first))
      first = firstOther;
    if (!last || last->isBeforeInBlock(lastOther))
      last = lastOther;
    if (sched::placeOf(other->tile) && whenOf(other->tile) < whenOf(whenAwaited))
      whenAwaited = other->tile;
  }
  const bool isEarly = also.neededBy && (!first || also.neededBy->isBeforeInBlock(first));
  builder.setInsertionPoint(isEarly ? also.neededBy : first ? first : ring.tile);
  if (!waited)
    placeAs(whenAwaited, sched::WaitOp::create(builder, loc, ring.barriers, at.stage, at.phase));
  SmallVector<Value> read{replaceBySlot(ring, at.stage, first)};
  for (Ring *other : ring.beside) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(readersOf(*other).first);
    read.push_back(replaceBySlot(*other, at.stage, first));
  }
  if (!isEarly)
    builder.setInsertionPointAfter(first ? first : read.front().getDefiningOp());
  if (also.read)
    also.read();
  if (last != first)
    builder.setInsertionPointAfter(last);
  if (refilled) {
    // Products read a stage as a warpgroup, maps read it lane by lane. If lanes arrive one by one while a product is
    // under way, without a sync_lanes before, ptxas assumes diverged lanes and serialises the products.
    SmallVector<Operation *> ends;
    // If a message came with the stage, every lane has read it. One lane then arrives for the whole warp, so the lanes
    // synchronise first.
    const bool cameWithMessage = waited;
    if (cameWithMessage || (isa_and_nonnull<tile::MapOp>(last) && (ring.isStored || !byLanes(ring))))
      ends.push_back(sched::SyncLanesOp::create(builder, loc));
    ends.push_back(sched::ReleaseOp::create(builder, loc, ring.barriers, at.stage, byLanes(ring), read));
    // After an asynchronous product of stage 0, the release gets no `sched.at`: it runs with the ops that follow, which
    // wait for the product.
    auto at = last ? sched::placeOf(last) : sched::AtAttr();
    if (at && (at.getStage() || !last->hasAttr(sched::asyncAttr)))
      for (Operation *end : ends)
        placeAs(last, end);
  }
}

} // namespace attune::roles
