//===- Stores.cpp - Results to global memory ---------------------------------===//

#include "arch/ArchInfo.h"
#include "passes/analysis/copies/StoredTiles.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::StoreOp op) {
  auto type = cast<TileType>(op.getTile().getType());
  tile::OperandAttr operand = tile::operandOf(op.getView());
  if (isStoredByEngine(op)) {
    auto next = dyn_cast_or_null<tile::StoreOp>(op->getNextNode());
    return storeByEngine(op, /*another=*/next && isStoredByEngine(next));
  }
  auto store = [&] {
    if (isInBlocks(op.getView()))
      return storeBlocks(op);
    if (type.rank() == 1 || !operand.isTiled() || isStoredInPairs(op))
      return storeElements(op);
    return inShared(op.getTile()) ? storeShared(op) : storeThroughShared(op);
  };
  if (!op.getOptional())
    return store();
  LogicalResult result = success();
  Value null = sched::IsNullOp::create(builder, loc, builder.getI1Type(), mapping.lookup(op.getView()));
  onlyIf(opposite(null), [&] { result = store(); });
  return result;
}

bool KernelExpander::isStoredInPairs(tile::StoreOp op) {
  const bool isOneValue = op.getTile().getDefiningOp<tile::SplatOp>() != nullptr;
  return (isOneValue || (specialized && !kernel->hasAttr(sched::persistentAttr))) && !inShared(op.getTile()) &&
         op.getView().getType().getElementType().isF32() && hasPairs(buffers.lookup(op.getTile()), op.getView());
}

bool KernelExpander::isStoredByEngine(tile::StoreOp op) {
  if (!specialized || inShared(op.getTile()) || !fitsBoxes(kernel, op) ||
      op.getView().getType().getElementType().getIntOrFloatBitWidth() != 16)
    return false;
  FragmentAttr layout = layoutOf(buffers.lookup(op.getTile()));
  const int64_t splits = columnSplits(kernel, cast<TileType>(op.getTile().getType()));
  return layout.getRole() == FragmentRole::C && layout.getColumnWarps() == splits;
}

LogicalResult KernelExpander::expandOp(sched::WriteTileOp op) {
  auto type = cast<TileType>(op.getShared().getType());
  const int64_t groups = type.getShape()[1] / 64, rowGroups = groups / int64_t(op.getColumnSplits());
  const StagedBoxes boxes = stagedBoxes(buffers.lookup(op.getShared()), mapping.lookup(op.getStage()), op.getView(),
                                        /*adds=*/op.getAdds(), /*limit=*/{});
  SmallVector<Value> at;
  for (Value index : op.getIndices())
    at.push_back(mapping.lookup(index));
  // A tensor map cannot have 0 rows: that of a tensor with 0 rows describes one row, so that the limit is tested here.
  onlyIf(below(at[2], mapping.lookup(op.getLimit())), [&] {
    for (int64_t group = 0; group < groups; ++group)
      storeBoxes(boxes, i32(64 * group), {at[0], at[1], add(at[2], group % rowGroups * 64)},
                 op.getColumnSplits() > 1 ? i32(group / rowGroups * type.getShape()[2]) : Value());
  });
  sched::CommitBoxesOp::create(builder, loc);
  sched::WaitBoxesOp::create(builder, loc, 0);
  return success();
}

LogicalResult KernelExpander::storeElements(tile::StoreOp op) {
  if (inShared(op.getTile()))
    return op.emitError(
        "stores a shared tile to a view whose columns do not lie side by side; store it from registers");
  Value buffer = buffers.lookup(op.getTile());
  makeHead(op.getView(), op.getIndices());
  Value writer = isWriter(buffer);
  auto condition = [&](Value inside) { return both(writer, inside); };
  if (hasPairs(buffer, op.getView())) {
    forEachPair(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value head, ValueRange place, const PairAt &at) {
                  Value pair[] = {get(buffer, at[0]), get(buffer, at[1])};
                  sched::StoreElementsOp::create(builder, loc, pair, head, place);
                });
    return success();
  }
  forEachInside(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value head, ValueRange place, SmallVector<Value> at) {
                  sched::StoreElementOp::create(builder, loc, get(buffer, at), head, place);
                });
  return success();
}

LogicalResult KernelExpander::storeBlocks(tile::StoreOp op) {
  Value buffer = buffers.lookup(op.getTile()), writer = isWriter(buffer);
  forEachFour(
      buffer, op.getView(), op.getIndices(), op.getLimit(), [&](Value inside) { return both(writer, inside); },
      [&](Value own, Value place, Value i, Value j) {
        sched::StoreElementsOp::create(builder, loc, fourOf(buffer, i, j), own, place);
      });
  return success();
}

bool KernelExpander::isStoredByWarpgroups(tile::StoreOp op) {
  auto type = cast<TileType>(op.getTile().getType());
  return specialized && kernel->hasAttr(sched::persistentAttr) && type.rank() == 2 &&
         type.getShape()[0] == 16 * plan.getWarps() &&
         layoutOf(buffers.lookup(op.getTile())).getRole() == FragmentRole::C;
}

LogicalResult KernelExpander::storeThroughShared(tile::StoreOp op) {
  auto type = cast<TileType>(op.getTile().getType());
  Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
  const bool byWarpgroups = isStoredByWarpgroups(op);
  const std::string name = nameOfView(op.getView()) + "_tile";
  Value shared = byWarpgroups ? keptBuffer(type, element, name) : exchangeBuffer(type, element, name);
  byWarpgroups ? synchronizeWarpgroup() : synchronize();
  writeToShared(buffers.lookup(op.getTile()), shared, i32(0));
  byWarpgroups ? synchronizeWarpgroup() : synchronizeAll();
  copyToGlobal(op, shared, byWarpgroups);
  return success();
}

LogicalResult KernelExpander::storeShared(tile::StoreOp op) {
  auto [shared, stage] = slotOf(op.getTile());
  if (cast<TileType>(shared.getType()).getElementType() != op.getView().getType().getElementType() ||
      cast<TileType>(shared.getType()).size("stage") != 1)
    return op.emitError() << "copies " << op.getTile().getType() << " to " << op.getView().getType()
                          << "; store it from registers";
  copyToGlobal(op, shared);
  return success();
}

void KernelExpander::copyToGlobal(tile::StoreOp op, Value shared, bool byWarpgroups) {
  const int64_t rows = byWarpgroups ? 64 : cast<TileType>(op.getTile().getType()).getShape()[0],
                bytes = op.getView().getType().getElementType().getIntOrFloatBitWidth() / 8,
                columns = tile::operandOf(op.getView()).getColumns(), threads = byWarpgroups ? 128 : 32 * warps;
  makeHead(op.getView(), op.getIndices());
  Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
  Value own = byWarpgroups ? rem(thread, 128) : thread;
  forEachChunk(rows, columns, bytes, own, threads, [&](Value row, Value column, Value inside) {
    if (byWarpgroups)
      row = tile::named(add(warpgroupRow(), row), "row");
    Value viewRow = add(row0, row);
    Value valid = below(viewRow, limit);
    if (inside)
      valid = arith::AndIOp::create(builder, loc, inside, valid);
    onlyIf(valid, [&] {
      const HeadRow at = headRow(op.getView(), op.getIndices(), viewRow);
      sched::CopyToGlobalOp::create(builder, loc, shared, row, column, at.head, at.row);
    });
  });
}

LogicalResult KernelExpander::expandOp(tile::AccumulateOp op) {
  if (inShared(op.getTile())) {
    addShared(op);
    return success();
  }
  Value buffer = buffers.lookup(op.getTile());
  makeHead(op.getView(), op.getIndices());
  Value writer = isWriter(buffer);
  auto condition = [&](Value inside) { return both(writer, inside); };
  const ArchInfo *info = findArch(arch);
  const bool byVectors = info && info->vectorReductions;
  if (isInBlocks(op.getView())) {
    forEachFour(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value own, Value place, Value i, Value j) {
                  const SmallVector<Value, 4> four = fourOf(buffer, i, j);
                  if (byVectors)
                    sched::AddElementsOp::create(builder, loc, four, own, place);
                  for (int64_t n = 0; n < 4 && !byVectors; ++n)
                    sched::AddElementsOp::create(builder, loc, four[size_t(n)], own, add(place, n));
                });
    return success();
  }
  if (byVectors && hasPairs(buffer, op.getView())) {
    forEachPair(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value head, ValueRange place, const PairAt &at) {
                  Value pair[] = {get(buffer, at[0]), get(buffer, at[1])};
                  sched::AddElementsOp::create(builder, loc, pair, head, place);
                });
    return success();
  }
  forEachInside(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value head, ValueRange place, SmallVector<Value> at) {
                  sched::AddElementsOp::create(builder, loc, ValueRange(get(buffer, at)), head, place);
                });
  return success();
}

void KernelExpander::addShared(tile::AccumulateOp op) {
  auto [buffer, slot] = slotOf(op.getTile());
  const Value shared = buffer, stage = slot;
  const ArrayRef<int64_t> shape = op.getTile().getType().getShape();
  const bool isVector = shape.size() == 1;
  Value view = slice(op.getView(), op.getIndices(), nameOfView(op.getView()) + "_head");
  Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
  if (addsByRows(op)) {
    onlyIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, lane, i32(0)), [&] {
      repeat(llvm::divideCeil(shape[0], warps), "add", [&](Value pass) {
        Value row = tile::named(add(mul(pass, warps), div(thread, 32)), "row"), viewRow = add(row0, row);
        Value inside = below(viewRow, limit);
        if (shape[0] % warps)
          inside = arith::AndIOp::create(builder, loc, inside, below(row, i32(shape[0])));
        onlyIf(inside, [&] { sched::AddRowsOp::create(builder, loc, 1, shared, stage, row, view, viewRow); });
      });
      sched::CommitBoxesOp::create(builder, loc);
      sched::WaitBoxesOp::create(builder, loc, 0);
    });
    return;
  }
  const int64_t columns = isVector ? 1 : shape[1], threads = warps * 32, total = shape[0] * columns;
  Value lastColumn;
  if (!isVector)
    if (const int64_t known = tile::operandOf(op.getView()).getColumns(); known < columns)
      lastColumn = known ? i32(known) : extentOf(mapping.lookup(op.getView()), op.getView().getType().getRank() - 1);
  repeat(llvm::divideCeil(total, threads), "add", [&](Value pass) {
    Value flat = add(thread, mul(pass, threads)), row = div(flat, columns), column = rem(flat, columns);
    Value viewRow = add(row0, row), inside = below(viewRow, limit);
    if (total % threads)
      inside = arith::AndIOp::create(builder, loc, inside, below(flat, i32(total)));
    if (lastColumn)
      inside = arith::AndIOp::create(builder, loc, inside, below(column, lastColumn));
    onlyIf(inside, [&] {
      Value term = loadShared(builder.getF32Type(), shared, stage, isVector ? i32(0) : row, isVector ? row : column);
      sched::AddElementsOp::create(builder, loc, ValueRange(term), view,
                                   isVector ? ValueRange(viewRow) : ValueRange{viewRow, column});
    });
  });
}

} // namespace attune::expansion
