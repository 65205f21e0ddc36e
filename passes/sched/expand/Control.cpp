//===- Control.cpp - Kernels, roles, work, branches and loops ----------------===//

#include "arch/ArchInfo.h"
#include "passes/sched/WorkOrder.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::run() {
  auto target =
      sched::KernelOp::create(builder, loc, kernel.getSymName(), kernel.getOperandsAttr(), kernel.getGridAttr(), arch,
                              (warps + sched::producerWarps(kernel)) * 32, plan.getBlocksPerSm(), 0, kernel.getDtype(),
                              plan, kernel.getTensorsAttr(), kernel.getScalarsAttr(), kernel.getPatternAttr(),
                              kernel.getDropout(), kernel.getPrecise(), kernel.getQOffset());
  builder.createBlock(&target.getBody());
  // From sm_90 on, a dependent kernel may start before the previous kernel of its launch has ended (programmatic
  // dependent launch). After its own setup the dependent kernel waits for the previous kernel.
  const ArchInfo *info = findArch(arch);
  const bool startsEarly = info && info->dependentLaunches;
  if (startsEarly && tile::precedesDependent(kernel))
    sched::StartNextLaunchOp::create(builder, loc);
  bool waits = startsEarly && tile::isDependent(kernel);
  auto waitForLaunch = [&] {
    if (std::exchange(waits, false))
      sched::WaitLaunchOp::create(builder, loc);
  };
  if (specialized) {
    for (Operation &op : kernel.getBody().front()) {
      if (isa<sched::RoleOp>(op))
        waitForLaunch();
      if (failed(expand(&op)))
        return failure();
    }
  } else if (failed(expandWork(kernel.getBody().front(), waits))) {
    return failure();
  }
  namePhases(target);
  // The kernel's shared memory is set to the sum of all buffers, an upper bound; sched-assign-shared-memory assigns the
  // final offsets and size.
  int64_t bytes = 0;
  target.walk([&](sched::SharedOp shared) { bytes += shared.getResult().getType().bytes(); });
  target.setSharedBytes(bytes);
  for (StringRef name :
       {StringRef(tile::remarksAttr), StringRef(tile::derivedAttr), StringRef(tile::leftOutAttr),
        StringRef(tile::fallbackOfAttr), StringRef(sched::persistentAttr), StringRef(sched::longestFirstAttr),
        StringRef(sched::pingPongAttr), StringRef(sched::overlapAttr)})
    if (Attribute mark = kernel->getAttr(name))
      target->setAttr(name, mark);
  kernel.erase();
  return success();
}

LogicalResult KernelExpander::expandWork(Block &body, bool waits) {
  auto work = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Grid);
  OpBuilder::InsertionGuard guard(builder);
  workBlock = &work.getBody().front();
  builder.setInsertionPointToStart(workBlock);
  place = WorkOrder(builder, loc, kernel.getGrid(),
                    {.longest = sched::longTilesOf(kernel),
                     .rowsTogether = rowsInHalfOfLevel2(kernel.getOperandsAttr(), kernel.getGrid())})
              .place(work.getNumber());
  slices.clear();
  writeLane();
  for (Operation &op : body) {
    if (waits && sched::accessesOperands(&op)) {
      sched::WaitLaunchOp::create(builder, loc);
      waits = false;
    }
    if (failed(expand(&op)))
      return failure();
  }
  return success();
}

LogicalResult KernelExpander::expandOp(sched::RoleOp op) {
  auto role = sched::RoleOp::create(builder, loc, op.getName(), op.getWarps(), op.getRegistersAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&role.getBody());
  roleWarps = op.getWarps();
  for (Operation &inner : op.getBody().front())
    if (failed(expand(&inner)))
      return failure();
  // The warp role must not end before TMA has read from shared memory the last boxes that the role stores.
  if (std::exchange(storesBoxes, false))
    waitForBoxes(sched::ThreadIdOp::create(builder, loc));
  return success();
}

LogicalResult KernelExpander::expandOp(sched::ForWorkOp op) {
  // The warpgroup's index is made uniform explicitly, so that descriptors of shared tiles stay in uniform registers.
  group = tile::named(
      sched::UniformOp::create(builder, loc, builder.getI32Type(), div(sched::ThreadIdOp::create(builder, loc), 128)),
      "warpgroup");
  SmallVector<Value> inits;
  for (Value init : op.getInits())
    inits.push_back(mapping.lookup(init));
  Value first = op.getFirst() ? mapping.lookup(op.getFirst()) : Value(),
        bound = op.getBound() ? mapping.lookup(op.getBound()) : Value();
  auto work = sched::ForWorkOp::create(builder, loc, op.getOrder(), first, bound, inits);
  work->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  OpBuilder::InsertionGuard guard(builder);
  Block &body = op.getBody().front();
  workBlock = &work.getBody().front();
  builder.setInsertionPointToStart(workBlock);
  for (auto [old, fresh] : llvm::zip(body.getArguments(), workBlock->getArguments()))
    mapping.map(old, fresh);
  slices.clear();
  writeLane();
  for (Operation &inner : body)
    if (&inner != op.getNext().getOperation() && failed(expand(&inner)))
      return failure();
  if (op.getNext()) {
    SmallVector<Value> next; // the number of the next tile of work, or whether there is one; then the carried values
    for (Value value : op.getNext().getValues())
      next.push_back(mapping.lookup(value));
    sched::NextOp::create(builder, loc, next);
  }
  workBlock = nullptr;
  return success();
}

LogicalResult KernelExpander::expand(Operation *op) {
  Block *block = builder.getInsertionBlock();
  const Block::iterator at = builder.getInsertionPoint();
  Operation *before = at == block->begin() ? nullptr : &*std::prev(at);
  if (failed(expandByKind(op)))
    return failure();
  auto chain = chains.find(op);
  Operation *computed = chain == chains.end() ? op : chain->second.exponent.getOperation();
  nameFunctions(computed, block, before);
  commentPhase(computed, block, before);
  return success();
}

LogicalResult KernelExpander::expandByKind(Operation *op) {
  loc = op->getLoc();
  if (auto chain = chains.find(op); chain != chains.end()) {
    expandChain(chain->second);
    return success();
  }
  if (chainEnds.contains(op))
    return success();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<sched::SendOp, sched::ReceiveOp>([&](auto message) {
        IRMapping with = mapping;
        with.map(message.getShared(), buffers.lookup(message.getShared()));
        Operation *copy = builder.clone(*message, with);
        mapping.map(message->getResults(), copy->getResults());
        return success();
      })
      .Case<sched::ReleaseOp>([&](auto release) {
        sched::ReleaseOp::create(builder, loc, mapping.lookup(release.getRing()), mapping.lookup(release.getStage()),
                                 release.getByLanes());
        return success();
      })
      .Case<tile::BlockIndexOp>([&](auto index) {
        mapping.map(index.getResult(), place[index.getPosition()]);
        return success();
      })
      .Case<tile::SplatOp, tile::MapOp, tile::ReduceOp, tile::SumDiagonalsOp, tile::CombineLanesOp, tile::ConvertOp,
            tile::MmaOp, tile::DropoutOp, tile::AnyOp, tile::BitsOp, tile::ScaleOp, tile::LoadOp, tile::LoadBlocksOp,
            tile::StoreBlocksOp, tile::StoreOp, tile::AccumulateOp, tile::ScatterOp, sched::SlotOp, sched::ExchangeOp,
            sched::CopyTileOp, sched::StoreTileOp, sched::WriteTileOp, sched::CopyWindowOp, sched::ForTilesOp,
            sched::RoleOp, sched::ForWorkOp, sched::MmaWaitOp, sched::SharedOp, scf::IfOp>(
          [&](auto tileOp) { return expandOp(tileOp); })
      .Case<sched::ThreadIdOp>([&](auto id) {
        mapping.map(id.getResult(), workBlock ? thread : sched::ThreadIdOp::create(builder, loc).getResult());
        return success();
      })
      .Case<tile::GroupRowsOp, tile::PagedRowsOp, tile::BlockedRowsOp>([&](auto rows) {
        // The view of the rows of several heads (GroupRowsOp), of pages (PagedRowsOp) or in blocks (BlockedRowsOp) needs
        // no code: headRow() and forEachFour() compute the position of a row.
        mapping.map(rows.getResult(), mapping.lookup(rows.getView()));
        return success();
      })
      .Case<tile::WarpgroupRowOp>([&](auto part) {
        mapping.map(part.getResult(),
                    tile::named(add(mapping.lookup(part.getOrigin()), mul(group, part.getRows())), "own_row"));
        return success();
      })
      .Case<sched::NextVisibleOp, scf::ForOp>([&](auto scalars) {
        // The op's region computes on scalars only and is cloned unchanged.
        builder.clone(*scalars, mapping);
        return success();
      })
      .Default([&](Operation *other) -> LogicalResult {
        if (other->getNumRegions() || llvm::any_of(other->getResultTypes(), llvm::IsaPred<TileType>))
          return other->emitError("cannot be scheduled for the mma.sync family");
        builder.clone(*other, mapping);
        return success();
      });
}

LogicalResult KernelExpander::expandOp(sched::SharedOp op) {
  Operation *buffer = builder.clone(*op);
  buffer->getResult(0).setType(inPairs(op.getResult().getType()));
  buffers.map(op.getResult(), buffer->getResult(0));
  if (llvm::any_of(op->getUsers(), llvm::IsaPred<sched::WriteTileOp>))
    storedBuffers.push_back(buffer->getResult(0));
  return success();
}

LogicalResult KernelExpander::expandOp(scf::IfOp op) {
  if (op.elseBlock() && llvm::range_size(*op.elseBlock()) != 1)
    return op.emitError("computes on its other side, which is not supported here");
  const ValueRange stay = op.elseBlock() ? ValueRange(op.elseYield().getResults()) : ValueRange();
  LogicalResult result = success();
  onlyIf(mapping.lookup(op.getCondition()), [&] {
    for (Operation &inner : op.thenBlock()->without_terminator())
      if (failed(expand(&inner)))
        result = failure();
    if (failed(result))
      return;
    moveAll(op.thenYield().getResults(), llvm::map_to_vector(stay, [&](Value stays) { return buffers.lookup(stays); }));
  });
  for (auto [stays, left] : llvm::zip(stay, op.getResults()))
    buffers.map(left, buffers.lookup(stays));
  return result;
}

LogicalResult KernelExpander::expandOp(sched::ForTilesOp op) {
  SmallVector<Value> inits, carried;
  for (Value init : op.getInits())
    inits.push_back(mapping.lookup(init));
  for (Value tile : op.getTiles()) {
    Value buffer = buffers.lookup(tile);
    if (!tile.hasOneUse()) {
      Value copy = newBuffer(tile);
      copyBuffer(buffer, copy);
      buffer = copy;
    }
    carried.push_back(buffer);
  }
  auto loop =
      sched::ForTilesOp::create(builder, loc, inits, mapping.lookup(op.getBound()), ValueRange{}, op.getKeeps());
  loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  mapping.map(op.getKept(), loop.getKept());
  auto arguments = op.getBody().getArguments();
  for (auto [old, fresh] : llvm::zip(arguments, loop.getBody().getArguments()))
    mapping.map(old, fresh);
  for (auto [argument, buffer] : llvm::zip(arguments.drop_front(inits.size()), carried))
    buffers.map(argument, buffer);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&loop.getBody().front());
    for (Operation &inner : op.getBody().front().without_terminator())
      if (failed(expand(&inner)))
        return failure();
    OperandRange values = op.getNext().getValues();
    moveAll(values.drop_front(inits.size()), carried);
    SmallVector<Value> next;
    for (Value value : values.take_front(inits.size()))
      next.push_back(mapping.lookup(value));
    sched::NextOp::create(builder, loc, next);
  }
  for (auto [result, buffer] : llvm::zip(op.getResults().take_front(carried.size()), carried))
    buffers.map(result, buffer);
  // Shared tiles after the loop may reuse the memory of the last boxes that TMA stores, so that all warps wait until
  // TMA has read these boxes. In persistent blocks no other tile uses that memory.
  if (storesBoxes && !kernel->hasAttr(sched::persistentAttr)) {
    waitForBoxes(thread);
    synchronizeAll();
    storesBoxes = false;
  }
  return success();
}

} // namespace attune::expansion
