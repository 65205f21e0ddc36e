//===- Rings.cpp - Buffers, barriers and positions of rings; tiles of work ---===//

#include "passes/analysis/copies/StoredTiles.h"
#include "passes/sched/roles/WarpSpecializer.h"

namespace attune::roles {

Value WarpSpecializer::declareMessages(StringRef name, int64_t stages, int64_t fields) {
  const int64_t room = fields <= 2 ? 2 : int64_t(llvm::alignTo(fields, 4));
  auto type = TileType::make(builder.getContext(), {{"stage", stages}, {"message", 1}, {"field", room}},
                             builder.getI32Type(), tile::MemorySpace::Shared);
  return sched::SharedOp::create(builder, loc, type, name);
}

void WarpSpecializer::declareTasks(int64_t followers) {
  const bool skips = loop.getDomain().getDefiningOp<tile::DomainOp>().skips();
  if (!skips && !claims && (!persistent || once.empty()))
    return;
  tasks = declareMessages("tasks", taskStages(), taskPlaceFields() + (skips ? 1 : 0) + searchedParts());
  if (!once.empty())
    taskBarriers = once.front().barriers;
  else
    taskBarriers = sched::RingOp::create(builder, loc, sched::RingType::get(builder.getContext(), taskStages()),
                                         "task_barriers", 0, /*filledBy=*/1, /*emptiedBy=*/warps + followers);
}

TileType WarpSpecializer::storedType(const Ring &ring) {
  auto type = cast<TileType>(ring.value().getType());
  const int64_t splits = columnSplits(kernel, type), rows = type.getShape()[0] * splits,
                columns = type.getShape()[1] / splits;
  Type element = cast<tile::ViewType>(ring.tile->getOperand(1).getType()).getElementType();
  return TileType::make(
      builder.getContext(), {{type.axis(0), rows}, {type.axis(1), columns}}, element, tile::MemorySpace::Shared,
      sched::SwizzleAttr::forBoxes(builder.getContext(), columns * element.getIntOrFloatBitWidth() / 8));
}

Value WarpSpecializer::declareBuffer(const Ring &ring) {
  const int64_t stages = ring.stages();
  const TileType type = ring.leaves() ? storedType(ring) : cast<TileType>(ring.value().getType());
  const std::string name = stages > 1      ? stemOf(ring) + "_ring"
                           : ring.leaves() ? stemOf(ring) + "_tile"
                                           : tile::nameOf(ring.value()).str();
  return sched::SharedOp::create(builder, ring.tile->getLoc(), ringType(type, stages), name);
}

std::string WarpSpecializer::stemOf(const Ring &ring) {
  if (ring.leaves())
    return tile::parameterOf(ring.tile->getOperand(1)).getOwnName().str();
  StringRef stem = tile::nameOf(ring.value());
  stem.consume_back("_tile");
  return stem.str();
}

void WarpSpecializer::declare(Ring &ring, int64_t filledBy, int64_t emptiedBy) {
  ring.buffer = declareBuffer(ring);
  if (ring.with) {
    ring.barriers = ring.with->barriers;
    return;
  }
  std::string name = stemOf(ring);
  for (Ring *other : ring.beside)
    if (other->isStored == ring.isStored) // the name leaves out per-key vectors that lanes store next to K
      name += "_" + stemOf(*other);
  ring.barriers =
      sched::RingOp::create(builder, ring.tile->getLoc(), sched::RingType::get(builder.getContext(), ring.stages()),
                            name + "_barriers", 0, filledBy, emptiedBy);
}

bool WarpSpecializer::areTogether(const Ring &a, const Ring &b) {
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

void WarpSpecializer::joinRings() {
  auto join = [](Ring &ring, Ring &other) {
    other.with = &ring;
    ring.beside.push_back(&other);
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

bool WarpSpecializer::followsBatch(tile::WindowOp window) {
  auto isBatch = [](Operation *op) {
    auto index = dyn_cast<tile::BlockIndexOp>(op);
    return index && index.getPosition() == 0;
  };
  return llvm::any_of(window.getIndices(), [&](Value index) { return followsFrom(index, isBatch); });
}

void WarpSpecializer::describeWindows() {
  for (Ring &ring : windows) {
    auto window = cast<tile::WindowOp>(ring.tile);
    TileType type = window.getResult().getType();
    ring.map = sched::describe(builder, window.getLoc(), window.getView().getDefiningOp<tile::ParamOp>(),
                               type.getShape()[0], cast<sched::SwizzleAttr>(type.getLayout()));
  }
}

void WarpSpecializer::initialise() {
  Value thread = sched::ThreadIdOp::create(builder, loc);
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, i32(0));
  onlyIf(first, [&] {
    for (Ring &ring : llvm::concat<Ring>(once, streamed, staged, windows, stored))
      if (!ring.with)
        sched::InitRingOp::create(builder, loc, ring.barriers);
    if (tasks && once.empty())
      sched::InitRingOp::create(builder, loc, taskBarriers);
    sched::FenceInitOp::create(builder, loc);
  });
  sched::BarrierOp::create(builder, loc);
}

WarpSpecializer::Positions WarpSpecializer::advance(ArrayRef<Position> positions) {
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

WarpSpecializer::Positions WarpSpecializer::carriedPositions(ValueRange arguments) {
  Positions at;
  for (size_t i = 0; i < depths.size(); ++i)
    at.push_back({arguments[2 * i], arguments[2 * i + 1]});
  return at;
}

void WarpSpecializer::nameWork(sched::ForWorkOp work, ArrayRef<StringRef> first) {
  SmallVector<StringRef> names(first);
  for (size_t i = 0; i < depths.size(); ++i)
    names.append({"first_stage", "first_phase"});
  work->setAttr(tile::namesAttr, builder.getStrArrayAttr(names));
}

void WarpSpecializer::nameCarried(sched::ForTilesOp tiles) {
  SmallVector<StringRef> names{"tile"};
  for (size_t i = 0; i < depths.size(); ++i)
    names.append({"stage", "phase"});
  names.append({"origin", "visible", "full"});
  tiles->setAttr(tile::namesAttr, builder.getStrArrayAttr(ArrayRef(names).take_front(tiles.getInits().size())));
}

WorkOrder WarpSpecializer::workOrder(WorkOrder::Assignment assignment) {
  return {builder,
          loc,
          kernel.getGrid(),
          {.assignment = assignment,
           .longestFirst = kernel->hasAttr(sched::longestFirstAttr),
           .acrossFirstAxis = sharesWindows && assignment != WorkOrder::Assignment::Claims,
           .rowsTogether = rowsInHalfOfLevel2(kernel.getOperandsAttr(), kernel.getGrid())}};
}

WarpSpecializer::Work WarpSpecializer::numberedWork() {
  WorkOrder numbers = workOrder(assignment());
  if (!persistent)
    return {sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Grid), numbers};
  numbers.prepare();
  Value first = numbers.first();
  auto loop = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Persistent, first, numbers.total(), ringStart());
  nameWork(loop, {"number", "count"});
  return {loop, numbers};
}

WarpSpecializer::Work WarpSpecializer::receivedWork() {
  auto loop = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Received, Value(), Value(), ringStart());
  nameWork(loop, {"count"});
  return {loop, workOrder(WorkOrder::Assignment::Once)};
}

WarpSpecializer::Positions WarpSpecializer::start(sched::ForWorkOp work) {
  if (!persistent)
    return Positions(depths.size(), {i32(0), i32(0)});
  return carriedPositions(work.getCarried());
}

WarpSpecializer::Position WarpSpecializer::queryPosition(sched::ForWorkOp work) {
  if (!persistent || (once.empty() && !tasks))
    return {i32(0), i32(0)};
  Value count = work.getCount(), stages = i32(taskStages());
  Value walks = arith::DivUIOp::create(builder, loc, count, stages);
  return {tile::named(arith::RemUIOp::create(builder, loc, count, stages), "q_stage"),
          tile::named(arith::AndIOp::create(builder, loc, walks, i32(1)), "q_phase")};
}

void WarpSpecializer::nextWork(sched::ForWorkOp work, sched::ForTilesOp tiles, Value following, bool wholeWarp) {
  if (!persistent)
    return;
  builder.setInsertionPointToEnd(&work.getBody().front());
  SmallVector<Value> next{following};
  for (Value position : tiles.getKept().slice(1, 2 * depths.size()))
    next.push_back(wholeWarp ? sched::UniformOp::create(builder, loc, position.getType(), position).getResult()
                             : position);
  sched::NextOp::create(builder, loc, next);
}

} // namespace attune::roles
