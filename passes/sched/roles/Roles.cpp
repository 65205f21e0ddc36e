//===- Roles.cpp - The producer and the consumer role around loops over tiles ---===//

#include "passes/sched/roles/WarpSpecializer.h"

namespace attune::roles {

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

LogicalResult WarpSpecializer::writeFiller(Block *block, Warps of, ArrayRef<Operation *> original) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(block);
  if (llvm::none_of(others, [&](auto warps) { return of.contains(warps.first); }))
    return kernel.emitOpError() << "has a role " << cast<sched::RoleOp>(block->getParentOp()).getName()
                                << " that fills no ring; name it in a sched.ring, or leave it out";
  return writeOthers(sched::ThreadIdOp::create(builder, loc), of, original);
}

LogicalResult WarpSpecializer::writeProducer(Block *block, Warps of, ArrayRef<Operation *> original) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(block);
  Value thread = sched::ThreadIdOp::create(builder, loc);
  // The branches of the other producer warps come before the branch of warp 0, which needs the most registers: the
  // thread index is then no longer live in the loop of warp 0.
  if (failed(writeOthers(thread, of, original)))
    return failure();
  Value firstWarp = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, thread, i32(32));
  auto copies = scf::IfOp::create(builder, loc, firstWarp, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(copies.thenBlock());
  Value one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
  auto begin = [&](IRMapping &mapping, Position query, ArrayRef<Value> task) {
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
  LogicalResult result = success();
  auto walk = [&] {
    result = walkWork(original, /*first=*/0, begin,
                      [&](LoopRoles &loop, IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit) {
                        loop.fillFirst(mapping, at, visit, one, alone);
                      });
  };
  alone ? onlyIf(one, walk) : walk();
  return result;
}

LogicalResult WarpSpecializer::writeOthers(Value thread, Warps of, ArrayRef<Operation *> original) {
  for (auto [first, count] : others)
    if (of.contains(first) && failed(writeBranch(thread, of, {first, count}, original)))
      return failure();
  return success();
}

LogicalResult WarpSpecializer::writeBranch(Value thread, Warps of, Warps who, ArrayRef<Operation *> original) {
  using arith::CmpIPredicate;
  OpBuilder::InsertionGuard guard(builder);
  const int64_t first = who.first, inRole = first - of.first;
  Value warp = arith::DivUIOp::create(builder, loc, thread, i32(32));
  Value are =
      arith::CmpIOp::create(builder, loc, who.count == 1 ? CmpIPredicate::eq : CmpIPredicate::sge, warp, i32(inRole));
  auto alsoIf = [&](Value condition) { are = arith::AndIOp::create(builder, loc, are, condition); };
  if (who.count > 1 && who.end() < of.end())
    alsoIf(arith::CmpIOp::create(builder, loc, CmpIPredicate::slt, warp, i32(inRole + who.count)));
  LogicalResult result = success();
  onlyIf(are, [&] {
    Value one;
    if (llvm::any_of(loops, [&](const auto &loop) {
          return llvm::any_of(loop->ringsOf(first), [](Ring *ring) { return !ring->isStored; });
        }))
      one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
    result = walkWork(original, first, /*begin=*/{},
                      [&](LoopRoles &loop, IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value>) {
                        loop.fillOthers(loop.ringsOf(first), mapping, at, one);
                      });
  });
  return result;
}

LogicalResult WarpSpecializer::walkWork(ArrayRef<Operation *> original, int64_t first, AtWork begin, AtTile each) {
  const bool follows = followMessages() && !begin, receives = follows && persistent;
  auto [work, numbers] = receives ? receivedWork() : numberedWork();
  builder.setInsertionPointToStart(&work.getBody().front());
  Value claimed = claims && begin ? claimWork() : Value(), following;
  IRMapping mapping;
  Task received;
  if (follows) {
    received = receiveTask(
        queryPosition(work), original, [&](Value value, Value field) { mapping.map(value, field); },
        /*begins=*/false);
    following = received.more;
  }
  SmallVector<Value> task;
  if (!receives) {
    task = numbers.place(work.getNumber());
    for (Operation *op : original)
      if (auto index = dyn_cast<tile::BlockIndexOp>(op))
        mapping.map(index.getResult(), task[index.getPosition()]);
  }
  cloneScalars(original, mapping);
  struct Walk {
    TileSequence sequence;
    TileSequence::Visit from;
    Positions entry;
  };
  SmallVector<Walk> walks;
  SmallVector<Value> firsts, begins;
  size_t toldFirsts = 0;
  for (auto [i, loop] : llvm::enumerate(loops)) {
    auto domain = cast<tile::DomainOp>(mapping.lookup(loop->op().getDomain()).getDefiningOp());
    FailureOr<TileSequence> sequence = TileSequence::create(builder, domain);
    if (failed(sequence))
      return failure();
    Walk &walk = walks.emplace_back(Walk{*sequence, {}, loop->positions(carriedFor(work, i))});
    if (follows && loop->searches()) {
      walk.from.tile = received.firsts[toldFirsts++];
      continue;
    }
    SmallVector<tile::DomainOp> parts = begin ? loop->partDomains(mapping, original) : SmallVector<tile::DomainOp>();
    walk.from = walk.sequence.first(builder, parts, &begins);
    for (tile::DomainOp part : parts)
      part.erase();
    if (loop->searches())
      firsts.push_back(walk.from.tile);
  }
  if (claimed)
    following = tile::named(sched::ShuffleOp::create(builder, loc, claimed.getType(), claimed, i32(0)), "next_number");
  else if (persistent && !receives)
    following = numbers.next(work.getCount());
  if (begin) {
    if (!persistent)
      task.clear();
    else if (tasks) {
      task.push_back(hasNext(work, following));
      for (Operation *op : told)
        task.push_back(mapping.lookup(op->getResult(0)));
    }
    llvm::append_range(task, firsts);
    llvm::append_range(task, begins);
    begin(mapping, queryPosition(work), task);
  }
  SmallVector<Value> positions;
  for (auto [i, loop, walk] : llvm::enumerate(loops, walks)) {
    if (!loop->concerns(first)) {
      llvm::append_range(positions, carriedFor(work, i));
      continue;
    }
    sched::ForTilesOp tiles = loop->walkTiles(
        walk.sequence, walk.from, walk.entry, mapping, follows && loop->searches(),
        [&](IRMapping &inner, ArrayRef<Position> at, ArrayRef<Value> visit) { each(*loop, inner, at, visit); });
    if (persistent)
      llvm::append_range(positions, loop->kept(tiles));
  }
  if (receives) {
    sched::SyncLanesOp::create(builder, loc);
    sched::ReleaseOp::create(builder, loc, taskBarriers, queryPosition(work).stage);
  }
  nextWork(work, positions, following, /*wholeWarp=*/!begin || !walksAlone());
  return success();
}

void WarpSpecializer::cloneScalars(ArrayRef<Operation *> original, IRMapping &mapping) {
  for (Operation *op : original) {
    if (op == loops.back()->op())
      break;
    const bool computes = isMemoryEffectFree(op) && (op->getNumRegions() == 0 || isa<tile::DomainOp, scf::ForOp>(op)) &&
                          !isa<tile::LoadOp>(op) && llvm::none_of(op->getResultTypes(), llvm::IsaPred<TileType>);
    if (computes && !mapping.contains(op->getResult(0)) &&
        llvm::none_of(loops, [&](const auto &loop) { return loop->isOfOwnBegin(op); }) && !isa<tile::BlockIndexOp>(op))
      builder.clone(*op, mapping);
  }
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

void WarpSpecializer::placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original) {
  SmallVector<Value> place = numbers.place(work.getNumber());
  for (Operation *op : original)
    if (auto index = dyn_cast<tile::BlockIndexOp>(op))
      index.getResult().replaceAllUsesWith(place[index.getPosition()]);
}

LogicalResult WarpSpecializer::writeConsumer(sched::ForWorkOp work, WorkOrder &numbers,
                                             ArrayRef<Operation *> original) {
  builder.setInsertionPointToStart(&work.getBody().front());
  // The producer's message about the tile of work comes with the stage of Q.
  const Position query = queryPosition(work);
  Task task;
  if (tasks)
    task = receiveTask(
        query, original, [](Value value, Value field) { value.replaceAllUsesWith(field); },
        /*begins=*/true);
  if (work.getOrder() != sched::WorkOrder::Received)
    placeWork(work, numbers, original);
  if (work.getOrder() == sched::WorkOrder::Persistent)
    task.more = numbers.next(work.getCount());
  for (auto index : llvm::make_early_inc_range(work.getBody().front().getOps<tile::BlockIndexOp>()))
    index.erase();
  SmallVector<Value> positions;
  ArrayRef<Value> firsts = task.firsts, begins = task.begins;
  for (auto [i, loop] : llvm::enumerate(loops)) {
    auto readOnce = [&] {
      for (Ring &ring : once)
        readStage(ring, query, /*byLanes=*/false, /*refilled=*/persistent, /*waited=*/tasks && &ring == &once.front());
    };
    const bool isTold = tasks && loop->searches();
    const size_t parts = tasks ? size_t(loop->searchedParts()) : 0;
    FailureOr<sched::ForTilesOp> tiles = loop->consume(
        carriedFor(work, i), isTold ? firsts.front() : Value(), begins.take_front(parts),
        i == 0 ? function_ref<void()>(readOnce) : [] {});
    if (failed(tiles))
      return failure();
    firsts = firsts.drop_front(isTold ? 1 : 0);
    begins = begins.drop_front(parts);
    if (persistent)
      llvm::append_range(positions, loop->kept(*tiles));
  }
  releaseTask(query);
  nextWork(work, positions, task.more);
  return success();
}

} // namespace attune::roles
