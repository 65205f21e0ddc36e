//===- Consumer.cpp - A loop over tiles in the consumer role: the warps that compute ---===//

#include "passes/sched/roles/LoopRoles.h"

namespace attune::roles {

FailureOr<sched::ForTilesOp> LoopRoles::consume(ValueRange carriedPositions, Value first, ArrayRef<Value> begins,
                                                function_ref<void()> before) {
  builder.setInsertionPoint(loop);
  FailureOr<TileSequence> sequence = TileSequence::create(builder, domain());
  if (failed(sequence))
    return failure();
  Positions entry = positions(carriedPositions);
  if (ownBegin)
    chooseOwnBegin(begins);
  if (!first)
    first = sequence->first(builder).tile;
  before();
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
  Positions at = positions(body.getArguments().drop_front());
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
    readStage(ring, in(at, ring), byLanes(ring), /*refilled=*/true, /*waited=*/false,
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
  builder.setInsertionPointAfter(tiles);
  return tiles;
}

void LoopRoles::chooseOwnBegin(ArrayRef<Value> begins) {
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
  ownBegin.replaceAllUsesWith(begin);
  ownBegin.erase();
}

sched::ForTilesOp LoopRoles::passOver(TileSequence &sequence, ValueRange from, Value bound) {
  auto tiles = sched::ForTilesOp::create(builder, loc, from, bound, ValueRange(), /*keeps=*/true);
  nameCarried(tiles);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&tiles.getBody().front());
  Positions at = positions(tiles.getBody().getArguments().drop_front());
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

void LoopRoles::commitStores(Ring &ring, Value stage) {
  Location loc = ring.tile->getLoc();
  Operation *ops[] = {sched::SyncLanesOp::create(builder, loc),
                      sched::CommitOp::create(builder, loc, ring.barriers, stage, /*by_warp=*/true)};
  // The whole `sched.at` of the store, including the ping-pong mark.
  if (Attribute whole = ring.tile->getAttr(sched::atAttr))
    for (Operation *op : ops)
      op->setAttr(sched::atAttr, whole);
}

void LoopRoles::exchange(Ring &ring, Position at) {
  auto convert = cast<tile::ConvertOp>(ring.tile);
  Location loc = convert.getLoc();
  builder.setInsertionPoint(convert);
  if (ring.barriers)
    placeAs(convert, sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase));
  auto shared =
      sched::ExchangeOp::create(builder, loc, convert.getResult().getType(), convert.getTile(), ring.buffer, at.stage);
  placeAs(convert, shared);
  if (ring.barriers) {
    commitStores(ring, at.stage);
    sched::placeAt(convert, sched::earliestPlace(convert.getResult(), *convert->getBlock())); // the place of the wait
    return readStage(ring, at, /*byLanes=*/false, /*refilled=*/true);
  }
  convert.replaceAllUsesWith(shared.getResult());
  convert.erase();
}

void LoopRoles::fillStored(Ring &ring, Position at) {
  Location loc = ring.tile->getLoc();
  builder.setInsertionPoint(ring.tile);
  placeAs(ring.tile, sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase));
  placeAs(ring.tile, sched::StoreTileOp::create(builder, loc, ring.value(), ring.buffer, at.stage));
  commitStores(ring, at.stage);
  ring.tile->erase();
}

void LoopRoles::awaitStored(sched::ForTilesOp tiles) {
  if (persistent) // in a persistent block no other buffer reuses the memory of these stages
    return;
  builder.setInsertionPointAfter(tiles);
  for (Ring &ring : stored) {
    Positions at = positions(tiles.getKept().drop_front());
    for (int64_t stage = 0; stage < ring.stages(); ++stage) {
      sched::AcquireOp::create(builder, ring.barriers.getLoc(), ring.barriers, in(at, ring).stage, in(at, ring).phase);
      at = advance(at);
    }
  }
}

Value LoopRoles::followVisit(ArrayRef<Position> positions) {
  const Ring &keys = streamed.front();
  const Position at = in(positions, keys);
  sched::WaitOp::create(builder, loc, keys.barriers, at.stage, at.phase);
  Value following = field(receiveVisit(at), 0, "next_tile");
  release(keys, at.stage);
  return following;
}

} // namespace attune::roles
