//===- Rings.cpp - Buffers, barriers and positions of rings ---===//

#include "ir/NestedOps.h"
#include "passes/analysis/copies/StoredTiles.h"
#include "passes/sched/roles/LoopRoles.h"

namespace attune::roles {

//===----------------------------------------------------------------------===//
// RoleWriter
//===----------------------------------------------------------------------===//

void RoleWriter::onlyIf(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

Value RoleWriter::declareMessages(StringRef name, int64_t stages, int64_t fields) {
  const int64_t room = fields <= 2 ? 2 : int64_t(llvm::alignTo(fields, 4));
  auto type = TileType::make(builder.getContext(), {{"stage", stages}, {"message", 1}, {"field", room}},
                             builder.getI32Type(), tile::MemorySpace::Shared);
  return sched::SharedOp::create(builder, loc, type, name);
}

TileType RoleWriter::storedType(const Ring &ring) {
  auto type = cast<TileType>(ring.value().getType());
  const int64_t splits = columnSplits(kernel, type), rows = type.getShape()[0] * splits,
                columns = type.getShape()[1] / splits;
  Type element = cast<tile::ViewType>(ring.tile->getOperand(1).getType()).getElementType();
  return TileType::make(
      builder.getContext(), {{type.axis(0), rows}, {type.axis(1), columns}}, element, tile::MemorySpace::Shared,
      sched::SwizzleAttr::forBoxes(builder.getContext(), columns * element.getIntOrFloatBitWidth() / 8));
}

void RoleWriter::declareBuffer(Ring &ring) {
  const int64_t stages = ring.stages();
  const TileType type = ring.leaves() ? storedType(ring) : cast<TileType>(ring.value().getType());
  const std::string name = stages > 1      ? stemOf(ring) + "_ring"
                           : ring.leaves() ? stemOf(ring) + "_tile"
                                           : tile::nameOf(ring.value()).str();
  ring.buffer = sched::SharedOp::create(builder, ring.tile->getLoc(), ringType(type, stages), name);
}

std::string RoleWriter::stemOf(const Ring &ring) {
  if (ring.leaves())
    return tile::parameterOf(ring.tile->getOperand(1)).getOwnName().str();
  StringRef stem = tile::nameOf(ring.value());
  stem.consume_back("_tile");
  return stem.str();
}

void RoleWriter::declare(Ring &ring, int64_t filledBy, int64_t emptiedBy) {
  declareBuffer(ring);
  if (ring.with) {
    ring.barriers = ring.with->barriers;
    return;
  }
  std::string name = stemOf(ring);
  for (Ring *other : ring.barrierUsers)
    if (other->isStored == ring.isStored) // the name leaves out per-key vectors that lanes store next to K
      name += "_" + stemOf(*other);
  ring.barriers =
      sched::RingOp::create(builder, ring.tile->getLoc(), sched::RingType::get(builder.getContext(), ring.stages()),
                            name + "_barriers", 0, filledBy, emptiedBy);
}

void RoleWriter::copy(Ring &ring, IRMapping &mapping, Value stage) {
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

std::pair<Operation *, Operation *> RoleWriter::firstAndLast(ArrayRef<Operation *> users, Block &block) {
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

std::pair<Operation *, Operation *> RoleWriter::readersOf(const Ring &ring) {
  SmallVector<Operation *> users(ring.value().getUsers());
  // A tile.scale changes the tile in place, so readers of its result read the ring's stage as well.
  for (Operation *user : ring.value().getUsers())
    if (isa<tile::ScaleOp>(user))
      llvm::append_range(users, user->getUsers());
  return firstAndLast(users, *ring.tile->getBlock());
}

Value RoleWriter::replaceBySlot(Ring &ring, Value stage, Operation *first) {
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

void RoleWriter::readStage(Ring &ring, Position at, bool byLanes, bool refilled, bool waited, AlsoRead also) {
  Location loc = ring.tile->getLoc();
  auto [first, last] = readersOf(ring);
  Operation *whenAwaited = ring.tile;
  for (Ring *other : ring.barrierUsers) {
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
  for (Ring *other : ring.barrierUsers) {
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
    if (cameWithMessage || (isa_and_nonnull<tile::MapOp>(last) && (ring.isStored || !byLanes)))
      ends.push_back(sched::SyncLanesOp::create(builder, loc));
    ends.push_back(sched::ReleaseOp::create(builder, loc, ring.barriers, at.stage, byLanes, read));
    // After an asynchronous product of stage 0, the release gets no `sched.at`: it runs with the ops that follow, which
    // wait for the product.
    auto at = last ? sched::placeOf(last) : sched::AtAttr();
    if (at && (at.getStage() || !last->hasAttr(sched::asyncAttr)))
      for (Operation *end : ends)
        placeAs(last, end);
  }
}

LogicalResult RoleWriter::checkFirstWarp(const Ring &ring) {
  // The first producer warp sends its messages with the tiles that it copies first: with Q the current tile of work,
  // with K the index of the next tile of keys.
  if (!ring.firstWarp && ring.is.getWarps() == 1)
    return success();
  return ring.tile->emitOpError("has a ring that the first producer warp alone has to fill: the messages that name the "
                                "tiles go with the copies before the loop and with its first copy");
}

//===----------------------------------------------------------------------===//
// The rings of a loop
//===----------------------------------------------------------------------===//

LogicalResult LoopRoles::findRings() {
  Block &body = loop.getBody().front();
  for (auto load : body.getOps<tile::LoadOp>())
    if (isCopied(load))
      streamed.emplace_back(load);
  if (streamed.empty())
    return loop.emitError("copies no tile; warps are specialised around loops that copy one at least");
  for (auto convert : body.getOps<tile::ConvertOp>())
    if (tile::isStaged(convert))
      (sched::isByOtherWarps(convert) ? staged : columns).emplace_back(convert);
    else if (sched::ringOf(convert))
      exchanged.emplace_back(convert);
  for (auto window : body.getOps<tile::WindowOp>())
    windows.emplace_back(window);
  if (failed(findStored()))
    return failure();
  for (const Ring &ring : llvm::concat<const Ring>(streamed, staged, windows, exchanged, stored))
    if (!llvm::is_contained(depths, ring.stages()))
      depths.push_back(ring.stages());
  if (!loop.getWithin().empty())
    ownBegin = loop.getWithin()[0].getDefiningOp<tile::FirstVisibleOp>();
  if (ownBegin && ownBegin.getDomain() == loop.getDomain())
    return ownBegin.emitError("asks the domain of the block's tiles, which says nothing about a part of the rows; "
                              "ask one that follows from tile.warpgroup_row");
  return success();
}

bool LoopRoles::isRead(Value view) {
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

LogicalResult LoopRoles::findStored() {
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

LogicalResult LoopRoles::checkWarps() {
  const bool areLed = searches() || !columns.empty(); // by the first warp, with the first copy
  for (const Ring &ring : llvm::concat<const Ring>(ArrayRef(streamed).take_front(areLed ? 1 : 0), columns))
    if (failed(checkFirstWarp(ring)))
      return failure();
  for (const Ring &ring : columns)
    if (ring.stages() != streamed.front().stages())
      return ring.tile->emitOpError() << "has another number of stages than the first copy of the loop, which has "
                                      << streamed.front().stages();
  for (Ring *ring : rings()) {
    if (ring->leaves() && (!ring->firstWarp || ring->is.getWarps() > 1))
      return ring->tile->emitOpError("goes to memory by one warp, which waits for it, and is not the first, which "
                                     "copies; name one from warp 1 on");
    if (isa<tile::LoadOp, tile::WindowOp>(ring->tile) && ring->is.getWarps() > 1)
      return ring->tile->emitOpError("is copied by one warp, of which one lane starts TMA");
    if (isa<tile::ConvertOp>(ring->tile) && !ring->firstWarp)
      return ring->tile->emitOpError("is computed by warps from warp 1 on");
  }
  return success();
}

SmallVector<Ring *> LoopRoles::rings() {
  SmallVector<Ring *> all;
  for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows, stored))
    all.push_back(&ring);
  return all;
}

bool LoopRoles::concerns(int64_t first) {
  return !ringsOf(first).empty() || (!first && (searches() || !columns.empty()));
}

SmallVector<Ring *> LoopRoles::ringsOf(int64_t first) {
  return llvm::filter_to_vector(rings(), [&](Ring *ring) { return !ring->with && ring->firstWarp == first; });
}

bool LoopRoles::areTogether(const Ring &a, const Ring &b) {
  if (a.with || b.with || a.is != b.is)
    return false;
  const auto [first, last] = readersOf(a);
  const auto [firstOther, lastOther] = readersOf(b);
  if (!first || !firstOther)
    return false;
  if (!a.isStored)
    return !b.isStored && first == firstOther && last == lastOther;
  // Rings that share barriers have one wait, which gets the stage of a ring's conversion, and one release, which gets
  // the stage and order of a ring's last reader. So the conversions must agree in stage, and the last readers in stage
  // and order.
  return b.isStored && whenOf(a.tile).first == whenOf(b.tile).first && whenOf(last) == whenOf(lastOther);
}

void LoopRoles::joinRings() {
  auto join = [](Ring &ring, Ring &other) {
    other.with = &ring;
    ring.barrierUsers.push_back(&other);
  };
  for (Ring &column : columns)
    join(streamed.front(), column);
  SmallVector<Ring *> rings;
  for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows))
    rings.push_back(&ring);
  for (auto [i, ring] : llvm::enumerate(rings))
    for (Ring *other : ArrayRef(rings).drop_front(i + 1))
      if (areTogether(*ring, *other))
        join(*ring, *other);
}

bool LoopRoles::followsBatch(tile::WindowOp window) {
  auto isBatch = [](Operation *op) {
    auto index = dyn_cast<tile::BlockIndexOp>(op);
    return index && index.getPosition() == 0;
  };
  return llvm::any_of(window.getIndices(), [&](Value index) { return followsFrom(index, isBatch); });
}

bool LoopRoles::sharesWindows() {
  return !windows.empty() &&
         llvm::none_of(windows, [](const Ring &ring) { return followsBatch(cast<tile::WindowOp>(ring.tile)); });
}

void LoopRoles::describeWindows() {
  for (Ring &ring : windows) {
    auto window = cast<tile::WindowOp>(ring.tile);
    TileType type = window.getResult().getType();
    ring.map = sched::describe(builder, window.getLoc(), window.getView().getDefiningOp<tile::ParamOp>(),
                               type.getShape()[0], cast<sched::SwizzleAttr>(type.getLayout()));
  }
}

void LoopRoles::declareRings(int64_t followers) {
  for (Ring &ring : streamed) {
    const bool ofKeys = &ring == &streamed.front(), withColumns = ofKeys && !columns.empty();
    const int64_t readers = warps + (ofKeys ? followers : 0);
    const bool byLanes = withColumns || (ofKeys && searches());
    declare(ring, int64_t(ring.copied().size()) + (withColumns ? 32 : 0),
            /*emptiedBy=*/byLanes ? 32 * readers : readers);
  }
  // Every lane of the producer warps that compute a ring's tile arrives on the full barrier of the ring's stage.
  for (Ring &ring : staged)
    declare(ring, /*filledBy=*/32 * ring.is.getWarps(), /*emptiedBy=*/32 * warps);
  for (Ring &ring : windows)
    declare(ring, int64_t(ring.copied().size()), warps);
  // One lane a computing warp arrives for the warp's stores (commitStores).
  for (Ring &ring : stored)
    declare(ring, /*filledBy=*/warps, /*emptiedBy=*/1);
  for (Ring &ring : columns)
    declare(ring, 0, 0);
  for (Ring &ring : exchanged)
    if (readsLater(ring))
      declare(ring, /*filledBy=*/warps, /*emptiedBy=*/warps);
    else
      declareBuffer(ring);
  describeWindows();
}

void LoopRoles::declareVisits() {
  if (searches())
    visits = declareMessages("visits", streamed.front().stages(), 2);
}

void LoopRoles::initialise() {
  for (Ring *ring : rings())
    if (!ring->with)
      sched::InitRingOp::create(builder, loc, ring->barriers);
  for (Ring &ring : exchanged)
    if (ring.barriers)
      sched::InitRingOp::create(builder, loc, ring.barriers);
}

Positions LoopRoles::advance(ArrayRef<Position> positions) {
  Positions next;
  Value one = i32(1);
  for (auto [at, stages] : llvm::zip(positions, depths)) {
    Value flipped = arith::XOrIOp::create(builder, loc, at.phase, one);
    if (stages == 1) {
      next.push_back({at.stage, tile::named(flipped, "next_phase")});
      continue;
    }
    Value following = arith::AddIOp::create(builder, loc, at.stage, one);
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, following, i32(stages));
    next.push_back({tile::named(arith::SelectOp::create(builder, loc, wraps, i32(0), following), "next_stage"),
                    tile::named(arith::SelectOp::create(builder, loc, wraps, flipped, at.phase), "next_phase")});
  }
  return next;
}

Positions LoopRoles::positions(ValueRange carried) {
  if (carried.empty())
    return Positions(depths.size(), {i32(0), i32(0)});
  Positions at;
  for (size_t i = 0; i < depths.size(); ++i)
    at.push_back({carried[2 * i], carried[2 * i + 1]});
  return at;
}

void LoopRoles::nameCarried(sched::ForTilesOp tiles) {
  SmallVector<StringRef> names{"tile"};
  for (size_t i = 0; i < depths.size(); ++i)
    names.append({"stage", "phase"});
  names.append({"origin", "visible", "full"});
  tiles->setAttr(tile::namesAttr, builder.getStrArrayAttr(ArrayRef(names).take_front(tiles.getInits().size())));
}

} // namespace attune::roles
