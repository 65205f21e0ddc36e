//===- Boxes.cpp - Tiles copied by TMA: to shared memory, and to dense tensors ---===//
//
// TMA copies a tile in boxes of rows x one panel (swizzled slice of the rows). A tile takes one box for each panel, or
// several where its rows are in several pages. TMA reads rows outside of the tensor as zeros, and does not write them.
// Where a sequence ends before the tensor does, limited tensor maps move that end for each copy (sched.tensor_map).
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/Boxes.h"

#include "arch/ArchInfo.h"
#include "passes/analysis/copies/StoredTiles.h"
#include "passes/analysis/copies/TilesInEights.h"
#include "passes/analysis/dataflow/Lifetimes.h"

#include <numeric>

namespace attune::expansion {

Value Boxes::tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle, bool limited) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&kernelBody());
  return sched::describe(builder, loc, tile::parameterOf(view), rows, swizzle, limited);
}

Value Boxes::limitOf(Value view, Value limit) {
  if (endsWithAxis(view, limit))
    return {};
  Value rows = extentOf(mapping.lookup(view), unsigned(cast<tile::ViewType>(view.getType()).getRank() - 2));
  return arith::MinSIOp::create(builder, loc, mapping.lookup(limit), rows);
}

void Boxes::loadBoxRow(Value map, const BoxPlace &from, Value column0, const BoxTarget &to, Value sharedRow) {
  const int64_t columns = cast<sched::TensorMapType>(map.getType()).getColumns(),
                all = cast<TileType>(to.buffer.getType()).getShape()[2];
  for (int64_t column = 0; column < all; column += columns)
    sched::LoadBoxOp::create(builder, loc, map, from.batch, from.head, from.row, i32(column), to.buffer, to.stage,
                             to.ring, column0 ? add(column0, column) : Value(), sharedRow, from.limit);
}

void Boxes::expectTile(const BoxTarget &to) {
  auto type = cast<TileType>(to.buffer.getType());
  sched::ExpectBytesOp::create(builder, loc, type.bytes() / type.getShape()[0], to.ring, to.stage);
}

Boxes::BoxPlace Boxes::boxPlace(sched::CopyTileOp op, Value row) {
  Value batch = mapping.lookup(op.getIndices()[0]);
  if (auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>()) {
    auto [page, slot] = pagePlace(pages, batch, row);
    batch = page;
    row = slot;
  }
  return {batch, mapping.lookup(op.getIndices()[1]), row};
}

void Boxes::beforeAcquire(Value ring, Value index, function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.getInsertionBlock();
  for (Operation &op : llvm::reverse(llvm::make_range(block->begin(), builder.getInsertionPoint()))) {
    if (&op == index.getDefiningOp())
      break;
    if (auto acquire = dyn_cast<sched::AcquireOp>(op); acquire && acquire.getRing() == ring) {
      builder.setInsertionPoint(acquire);
      break;
    }
  }
  body();
}

LogicalResult Boxes::copyByEngine(sched::CopyTileOp op, Value buffer, Value stage) {
  auto type = cast<TileType>(buffer.getType());
  const int64_t rows = type.getShape()[1];
  const BoxTarget to{buffer, stage, mapping.lookup(op.getRing())};
  Value row0 = mapping.lookup(op.getIndices()[2]);
  expectTile(to);
  if (auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>()) {
    copyPages(op, to, std::gcd(rows, int64_t(pages.getSize())), row0, mapping.lookup(op.getLimit()));
    return success();
  }
  BoxPlace from = boxPlace(op, row0);
  if ((from.limit = limitOf(op.getView(), op.getLimit())))
    loadLimited(op, rows, from, to, {});
  else
    loadBoxRow(tensorMap(op.getView(), rows, cast<sched::SwizzleAttr>(type.getLayout())), from, {}, to, {});
  return success();
}

void Boxes::loadLimited(sched::CopyTileOp op, int64_t rows, const BoxPlace &from, const BoxTarget &to,
                        Value sharedRow) {
  auto swizzle = cast<sched::SwizzleAttr>(cast<TileType>(to.buffer.getType()).getLayout());
  Value limited = tensorMap(op.getView(), rows, swizzle, /*limited=*/true),
        whole = tensorMap(op.getView(), rows, swizzle);
  auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>();
  either(
      below(from.row, from.limit), [&] { loadBoxRow(limited, from, {}, to, sharedRow); },
      [&] {
        Value outside = pages ? i32(int64_t(pages.getSize())) : extentOf(mapping.lookup(op.getView()), 2);
        loadBoxRow(whole, {from.batch, from.head, outside}, {}, to, sharedRow);
      });
}

void Boxes::copyPages(sched::CopyTileOp op, const BoxTarget &to, int64_t together, Value row0, Value limit) {
  auto type = cast<TileType>(to.buffer.getType());
  const int64_t rows = type.getShape()[1], size = op.getView().getDefiningOp<tile::PagedRowsOp>().getSize();
  Value map = tensorMap(op.getView(), together, cast<sched::SwizzleAttr>(type.getLayout()));
  // The page numbers of all TMA boxes are loaded together, so that the latencies of these loads overlap.
  SmallVector<BoxPlace> places;
  beforeAcquire(to.ring, row0, [&] {
    for (int64_t row = 0; row < rows; row += together)
      places.push_back(boxPlace(op, add(row0, row)));
  });
  auto forBoxes = [&](function_ref<void(BoxPlace, Value tileRow, Value sharedRow)> copy) {
    for (auto [i, place] : llvm::enumerate(places)) {
      const int64_t row = int64_t(i) * together;
      copy(place, add(row0, row), places.size() > 1 ? i32(row) : Value());
    }
  };
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, add(row0, rows), limit);
  either(
      isWhole,
      [&] { forBoxes([&](BoxPlace from, Value, Value sharedRow) { loadBoxRow(map, from, {}, to, sharedRow); }); },
      [&] {
        forBoxes([&](BoxPlace from, Value row, Value sharedRow) {
          Value left = arith::SubIOp::create(builder, loc, limit, row); // rows of the sequence from here on
          from.limit = arith::MinSIOp::create(builder, loc, add(from.row, left), i32(size));
          loadLimited(op, together, from, to, sharedRow);
        });
      });
}

bool Boxes::isTakenByEngine(sched::ExchangeOp exchange) {
  return llvm::any_of(exchange.getResult().getUsers(), [&](Operation *user) {
    auto scatter = dyn_cast<tile::ScatterOp>(user);
    return scatter && isInBoxes(scatter, exchange);
  });
}

void Boxes::scatterBoxes(tile::ScatterOp op) {
  auto [ring, stage] = slotOf(op.getTile());
  const ArrayRef<int64_t> shape = op.getTile().getType().getShape();
  auto swizzle = cast<sched::SwizzleAttr>(op.getTile().getType().getLayout());
  Value map = tensorMap(op.getView(), shape[0], swizzle);
  SmallVector<Value> at(4 - op.getIndices().size(), i32(0));
  for (Value index : op.getIndices()) {
    const std::optional<CountedPlaces> places = countedPlaces(index);
    at.push_back(mapping.lookup(places ? places->along.origin : index));
  }
  const int64_t panel = cast<sched::TensorMapType>(map.getType()).getColumns();
  for (int64_t column = 0; column < shape[1]; column += panel)
    sched::StoreBoxOp::create(builder, loc, ring, stage, i32(0), map, at[0], at[1], at[2], i32(column),
                              add(at[3], column), /*limit=*/Value(), /*adds=*/false);
  sched::CommitBoxesOp::create(builder, loc);
  storesBoxes = true;
}

void Boxes::waitForBoxes(Value threadId) {
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(threadId, 128), i32(0));
  onlyIf(first, [&] { sched::WaitBoxesOp::create(builder, loc, 0); });
}

bool Boxes::isRepeated() {
  return kernel->hasAttr(sched::persistentAttr) || isa<sched::ForTilesOp>(builder.getInsertionBlock()->getParentOp());
}

/// Whether tiles of `type` fit in `buffer` in the same layout.
static bool isAlike(Value buffer, TileType type) {
  auto held = cast<TileType>(buffer.getType());
  return type.getShape()[1] == held.getShape()[1] && type.bytes() <= held.bytes() &&
         type.getLayout() == held.getLayout();
}

Value Boxes::takeFreeBuffer(TileType output, int64_t laterBytes) {
  if (isRepeated())
    return {};
  auto isFree = [&](Value buffer) {
    if (!buffer || buffer.getParentBlock() != &kernelBody() || rightBuffers.contains(buffer))
      return false;
    return isAlike(buffer, output);
  };
  // The output reuses the smallest free shared buffer, which leaves larger ones to outputs with more columns; of
  // several smallest buffers the last.
  Value smallest;
  for (Value buffer : llvm::reverse(leftBuffers))
    if (isFree(buffer) &&
        (!smallest || cast<TileType>(buffer.getType()).bytes() < cast<TileType>(smallest.getType()).bytes()))
      smallest = buffer;
  if (smallest) {
    leftBuffers.remove(smallest);
    return smallest;
  }
  if (!hasRoomFor(output, laterBytes))
    for (Value &buffer : storedBuffers)
      if (isFree(buffer))
        return std::exchange(buffer, {});
  return {};
}

SmallVector<tile::StoreOp> Boxes::laterStores(tile::StoreOp op) {
  SmallVector<tile::StoreOp> stores;
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode())
    if (auto store = dyn_cast<tile::StoreOp>(next))
      stores.push_back(store);
  return stores;
}

bool Boxes::hasRoomFor(TileType type, int64_t laterBytes) {
  const ArchInfo *info = findArch(arch);
  if (!info)
    return false;
  auto bytesOf = [](TileType type) { return int64_t(llvm::alignTo(type.bytes(), sharedAlignment(type))); };
  int64_t bytes = bytesOf(type) + laterBytes;
  kernelBody().walk([&](Operation *op) {
    if (auto buffer = dyn_cast<sched::SharedOp>(op); buffer && !buffer.getOver())
      bytes += bytesOf(buffer.getResult().getType());
    if (auto ring = dyn_cast<sched::RingOp>(op))
      bytes += ring.getResult().getType().bytes();
  });
  const int64_t budget = sramBudget ? sramBudget : int64_t(info->sharedBytesPerBlock);
  return bytes <= std::min(budget, info->sharedBytesOfEach(plan.getBlocksPerSm()));
}

void Boxes::dropAcquires() {
  if (storedBuffers.empty() || llvm::is_contained(storedBuffers, Value()))
    return;
  storedBuffers.clear();
  SmallVector<sched::AcquireOp> acquires;
  for (Operation &op : llvm::reverse(*builder.getInsertionBlock())) {
    if (auto acquire = dyn_cast<sched::AcquireOp>(op))
      acquires.push_back(acquire);
    if (!isa<sched::ForTilesOp>(op))
      continue;
    for (sched::AcquireOp acquire : acquires)
      acquire.erase();
    return;
  }
}

LogicalResult Boxes::storeByEngine(tile::StoreOp op, bool another) {
  Value buffer = buffers.lookup(op.getTile());
  auto type = cast<TileType>(op.getTile().getType());
  Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
  TileType sharedType = stagedType(stacked(type), element);
  Value near = leftBuffers.empty() ? Value() : leftBuffers.back(), shared;
  int64_t laterBytes = 0;
  const SmallVector<tile::StoreOp> later = laterStores(op);
  for (tile::StoreOp store : later)
    if (TileType stored = store.getTile().getType(); stored.rank() == 2)
      laterBytes += stagedType(stacked(stored), store.getView().getType().getElementType()).bytes();
  Value over = takeFreeBuffer(sharedType, laterBytes);
  if (isRepeated() && ownBuffer && !hasRoomFor(sharedType, 0) && isAlike(ownBuffer, sharedType)) {
    over = ownBuffer;
    issueOutputs();
  }
  {
    OpBuilder::InsertionGuard guard(builder);
    if (over)
      near = over;
    if (near && near.getParentBlock() == &kernelBody())
      builder.setInsertionPointAfterValue(near);
    else
      builder.setInsertionPointToStart(&kernelBody());
    shared = sched::SharedOp::create(builder, loc, sharedType, nameOfView(op.getView()) + "_tile", over);
  }
  if (!over)
    ownBuffer = shared;
  Output output{
      buffer, stagedBoxes(shared, i32(0), op.getView(), /*adds=*/false, limitOf(op.getView(), op.getLimit())), {}};
  for (Value index : op.getIndices())
    output.at.push_back(mapping.lookup(index));
  writeBoxes(output);
  if (another)
    return success();
  if (later.empty() && !isRepeated())
    dropAcquires();
  issueOutputs();
  return success();
}

void Boxes::writeStage(Value buffer, Value shared, Value stage) {
  TileType held = stacked(cast<TileType>(buffer.getType()));
  cast<TileType>(shared.getType()).getElementType().isF32() ? writeFragments(buffer, shared, stage, held)
                                                            : writeMatrices(buffer, shared, stage, held);
}

void Boxes::storeBoxes(const StagedBoxes &boxes, Value sharedRow, ArrayRef<Value> at, Value ownColumn) {
  const int64_t columns = ownColumn ? cast<TileType>(boxes.shared.getType()).getShape()[2] : boxes.columns;
  const int64_t panel = cast<sched::TensorMapType>(boxes.map.getType()).getColumns();
  for (int64_t column = 0; column < columns; column += panel)
    sched::StoreBoxOp::create(builder, loc, boxes.shared, boxes.stage, sharedRow, boxes.map, at[0], at[1], at[2],
                              i32(column), ownColumn ? add(ownColumn, column) : Value(), boxes.limit, boxes.adds);
}

Boxes::StagedBoxes Boxes::stagedBoxes(Value shared, Value stage, Value view, bool adds, Value limit) {
  auto swizzle = cast<sched::SwizzleAttr>(cast<TileType>(shared.getType()).getLayout());
  Value map = tensorMap(view, 64, swizzle, bool(limit));
  return {shared, stage, map, tile::operandOf(view).getColumns(), adds, limit};
}

void Boxes::writeBoxes(const Output &output) {
  if (isRepeated() && outputs.empty()) {
    waitForBoxes(thread);
    sched::SyncWarpsOp::create(builder, loc, warpgroupBarrier(), 128);
    storesBoxes = true;
  }
  writeStage(output.buffer, output.boxes.shared, i32(0));
  outputs.push_back(output);
}

void Boxes::issueOutputs() {
  if (outputs.empty())
    return;
  const bool again = isRepeated();
  sched::FenceAsyncOp::create(builder, loc);
  sched::SyncWarpsOp::create(builder, loc, warpgroupBarrier(), 128);
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(thread, 128), i32(0));
  onlyIf(first, [&] {
    for (const Output &output : outputs) {
      auto held = cast<TileType>(output.buffer.getType());
      Value row = warpgroupRow(), ownColumn = warpgroupColumn(held);
      Value to = add(output.at[2], warpgroupRow(held));
      auto store = [&] { storeBoxes(output.boxes, row, {output.at[0], output.at[1], to}, ownColumn); };
      output.boxes.limit ? onlyIf(below(to, output.boxes.limit), store) : store();
    }
    sched::CommitBoxesOp::create(builder, loc);
    if (!again)
      sched::WaitBoxesOp::create(builder, loc, 0);
  });
  outputs.clear();
}

} // namespace attune::expansion
