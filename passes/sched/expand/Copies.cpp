//===- Copies.cpp - Copies from global to shared memory -----------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(sched::SlotOp op) {
  return success(op.getResult().getType().getSpace() == MemorySpace::Shared);
}

LogicalResult KernelExpander::expandOp(tile::LoadOp op) {
  if (inShared(op.getResult()))
    return op.emitError("is left; copies to shared memory are scheduled before");
  TileType type = op.getResult().getType();
  if (type.getElementType() != attn::valueType(op.getView().getType().getElementType()))
    return op.emitError() << "gives " << type.getElementType() << " of a view of "
                          << op.getView().getType().getElementType() << ", whose elements are "
                          << attn::valueType(op.getView().getType().getElementType()) << " in registers";
  Value buffer = newBuffer(op.getResult());
  buffers.map(op.getResult(), buffer);
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type.getElementType()));
  fillBuffer(zero, buffer);
  makeHead(op.getView(), op.getIndices());
  auto always = [](Value inside) { return inside; };
  const Type element = builder.getF32Type();
  if (isInBlocks(op.getView())) {
    Value row0 = mapping.lookup(op.getIndices().back()), end = mapping.lookup(op.getLimit());
    forEachFour(buffer, op.getView(), op.getIndices(), op.getLimit(), always,
                [&](Value own, Value place, Value i, Value j) {
                  auto loaded = sched::LoadElementsOp::create(builder, loc, SmallVector<Type>(4, element), own, place);
                  for (int64_t n = 0; n < 4; ++n) {
                    Value inside = below(add(row0, rowInTile(buffer, i, i32(n / 2))), end);
                    set(arith::SelectOp::create(builder, loc, inside, loaded.getResult(unsigned(n)), zero), buffer,
                        SmallVector<Value>{i, j, i32(n)});
                  }
                });
    return success();
  }
  if (hasPairs(buffer, op.getView())) {
    forEachPair(buffer, op.getView(), op.getIndices(), op.getLimit(), always,
                [&](Value head, ValueRange place, const PairAt &at) {
                  auto pair = sched::LoadElementsOp::create(builder, loc, SmallVector<Type>(2, element), head, place);
                  set(pair.getResult(0), buffer, at[0]);
                  set(pair.getResult(1), buffer, at[1]);
                });
    return success();
  }
  tile::remark(tile::kernelAround(op), nameOfView(op.getView()) + " is loaded to registers, element by element");
  forEachInside(buffer, op.getView(), op.getIndices(), op.getLimit(), always,
                [&](Value head, ValueRange place, SmallVector<Value> at) {
                  set(tile::ElementOp::create(builder, loc, type.getElementType(), head, place,
                                              SmallVector<bool>(place.size(), true)),
                      buffer, at);
                });
  return success();
}

LogicalResult KernelExpander::expandOp(sched::CopyTileOp op) {
  Value ring = buffers.lookup(op.getShared()), stage = mapping.lookup(op.getStage());
  auto type = cast<TileType>(ring.getType());
  if (op.getRing())
    return copyByEngine(op, ring, stage);
  waitForReaders();
  Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
  const int64_t rows = type.getShape()[1];
  // If all rows of the tile are in one head (or page), the head and the position of the first row are computed once.
  auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>();
  const bool ofGroup = bool(op.getView().getDefiningOp<tile::GroupRowsOp>());
  std::optional<HeadRow> first;
  if (pages ? int64_t(pages.getSize()) % rows == 0 : !ofGroup)
    first = headRow(op.getView(), op.getIndices(), row0);
  auto rowAt = [&](Value row) {
    return first ? HeadRow{first->head, add(first->row, row)} : headRow(op.getView(), op.getIndices(), add(row0, row));
  };
  if (type.rank() == 2) {
    forEachPlaceOf(rows, thread, 32 * warps, [&](Value, Value place) {
      const HeadRow from = rowAt(place);
      sched::CopyAsyncOp::create(builder, loc, from.head, from.row, place, ring, stage, i32(0),
                                 below(add(row0, place), limit));
    });
    return success();
  }
  const int64_t columns = type.getShape()[2], viewColumns = tile::operandOf(op.getView()).getColumns();
  forEachChunk(rows, columns, type.getElementType().getIntOrFloatBitWidth() / 8, thread, 32 * warps,
               [&](Value row, Value column, Value inside) {
                 auto copy = [&] {
                   const HeadRow from = rowAt(row);
                   Value valid = below(pages || ofGroup ? add(row0, row) : from.row, limit);
                   if (viewColumns < columns)
                     valid = arith::AndIOp::create(builder, loc, valid, below(column, i32(viewColumns)));
                   sched::CopyAsyncOp::create(builder, loc, from.head, from.row, column, ring, stage, row, valid);
                 };
                 inside ? onlyIf(inside, copy) : copy();
               });
  return success();
}

LogicalResult KernelExpander::expandOp(sched::CopyWindowOp op) {
  Value view = mapping.lookup(op.getView()), stage = mapping.lookup(op.getStage());
  const int64_t rank = op.getView().getType().getRank();
  SmallVector<Value> leading;
  for (int64_t dim = 0; dim < rank - 2; ++dim)
    leading.push_back(clamped(mapping.lookup(op.getIndices()[dim]), view, dim));
  Value row = mapping.lookup(op.getIndices()[rank - 2]), column = mapping.lookup(op.getIndices()[rank - 1]);
  Value buffer = buffers.lookup(op.getShared()), ring = mapping.lookup(op.getRing());
  leading.insert(leading.begin(), 4 - rank, i32(0));
  const BoxTarget to{buffer, stage, ring};
  expectTile(to);
  loadBoxRow(mapping.lookup(op.getMap()), {leading[0], leading[1], row}, column, to, {});
  return success();
}

LogicalResult KernelExpander::expandOp(sched::StoreTileOp op) {
  Value source = buffers.lookup(op.getTile()), shared = buffers.lookup(op.getShared()),
        stage = mapping.lookup(op.getStage());
  if (op.getTile().getType().rank() == 2) {
    writeStage(source, shared, stage);
    sched::FenceAsyncOp::create(builder, loc);
    return success();
  }
  const int64_t count = op.getTile().getType().getShape()[0], threads = threadsOf(op.getTile());
  const bool pairs = isInPairs(shared);
  forEachPlaceOf(count, threadAmong(threads), threads, [&](Value i, Value place) {
    Value element = get(source, i);
    if (!pairs)
      return void(sched::StoreSharedOp::create(builder, loc, element, shared, stage, i32(0), place));
    sched::StoreSharedOp::create(builder, loc, element, shared, stage, place, i32(0));
    sched::StoreSharedOp::create(builder, loc, element, shared, stage, add(place, 1), i32(1));
  });
  return success();
}

LogicalResult KernelExpander::expandOp(sched::ExchangeOp op) {
  // The first thread of each warpgroup, which issues TMA stores, waits here until TMA has read the boxes issued so far.
  // The other threads wait for that thread at the exchange's barrier, so that the next tile may overwrite the stage.
  if (isTakenByEngine(op))
    waitForBoxes(thread);
  writeToShared(buffers.lookup(op.getTile()), buffers.lookup(op.getRing()), mapping.lookup(op.getStage()));
  if (isReadAsynchronously(op.getResult()) || llvm::any_of(op.getRing().getUsers(), [&](Operation *user) {
        auto slot = dyn_cast<sched::SlotOp>(user);
        return slot && isReadAsynchronously(slot.getResult());
      }))
    sched::FenceAsyncOp::create(builder, loc);
  return success();
}

LogicalResult KernelExpander::expandOp(tile::ScaleOp op) {
  auto [shared, stage] = slotOf(op.getTile());
  const int64_t columns = cast<TileType>(shared.getType()).getShape()[2], chunks = columns / 8;
  Value own = rem(thread, 128), row0 = warpgroupRow();
  repeat(64 * chunks / 128, "n", [&](Value n) {
    Value flat = add(mul(n, 128), own);
    sched::ScaleSharedOp::create(builder, loc, shared, stage, add(row0, div(flat, chunks)), mul(rem(flat, chunks), 8),
                                 op.getExponent());
  });
  sched::FenceAsyncOp::create(builder, loc);
  synchronizeWarpgroup();
  return success();
}

} // namespace attune::expansion
