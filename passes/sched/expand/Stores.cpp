//===- Stores.cpp - Results to global memory ---------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::StoreOp op) {
  if (cast<TileType>(op.getTile().getType()).rank() == 1)
    return storeRows(op);
  return plan.getCopyWarps() ? storeByEngine(op) : storeThroughShared(op);
}

void KernelExpander::waitForBoxes(Value threadId) {
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(threadId, 128), i32(0));
  onlyIf(first, [&] { sched::WaitBoxesOp::create(builder, loc, 0); });
}

LogicalResult KernelExpander::storeByEngine(tile::StoreOp op) {
  Value buffer = buffers.lookup(op.getTile());
  auto type = cast<TileType>(op.getTile().getType());
  Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
  TileType sharedType = stagedType(type, element);
  auto queries = cast<TileType>(queryBuffer.getType());
  Value shared;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(queryBuffer);
    shared = sched::SharedOp::create(builder, loc, sharedType, "o_tile",
                                     !plan.getPersistent() && sharedType.bytes() <= queries.bytes() &&
                                             sharedType.getLayout() == queries.getLayout()
                                         ? queryBuffer
                                         : Value());
  }
  Value barrier = warpgroupBarrier();
  if (plan.getPersistent()) {
    waitForBoxes(thread);
    sched::SyncWarpsOp::create(builder, loc, barrier, 128);
  }
  writeMatrices(buffer, shared);
  sched::FenceAsyncOp::create(builder, loc);
  sched::SyncWarpsOp::create(builder, loc, barrier, 128);
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(thread, 128), i32(0));
  Value map = tensorMap(op.getView(), 64, cast<sched::SwizzleAttr>(sharedType.getLayout()));
  SmallVector<Value> at;
  for (Value index : op.getIndices())
    at.push_back(mapping.lookup(index));
  onlyIf(first, [&] {
    Value row = warpgroupRow();
    for (int64_t column = 0; column < tile::operandOf(op.getView()).getColumns();
         column += cast<sched::TensorMapType>(map.getType()).getColumns())
      sched::StoreBoxOp::create(builder, loc, shared, i32(0), row, map, at[0], at[1], add(at[2], row), i32(column));
    sched::CommitBoxesOp::create(builder, loc);
    if (!plan.getPersistent())
      sched::WaitBoxesOp::create(builder, loc, 0);
  });
  return success();
}

TileType KernelExpander::stagedType(TileType type, Type element) {
  int64_t rowBytes = type.getShape()[1] * element.getIntOrFloatBitWidth() / 8;
  return TileType::make(kernel.getContext(),
                        {{"stage", 1}, {type.axis(0), type.getShape()[0]}, {type.axis(1), type.getShape()[1]}}, element,
                        MemorySpace::Shared, sched::SwizzleAttr::widest(kernel.getContext(), rowBytes));
}

void KernelExpander::writeMatrices(Value buffer, Value shared) {
  Type element = cast<TileType>(shared.getType()).getElementType();
  SmallVector<int64_t> shape = laneShape(buffer);
  Value half = div(lane, 16), rowOfLane = rem(lane, 16);
  repeat(shape[0], "i", [&](Value i) {
    repeat(shape[1] / 2, "jj", [&](Value jj) {
      Value matrices[4];
      for (int m = 0; m < 4; ++m) {
        Value j = add(mul(jj, 2), m / 2), low = get(buffer, {i, j, i32(m % 2 * 2)}),
              high = get(buffer, {i, j, i32(m % 2 * 2 + 1)});
        matrices[m] = sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element);
      }
      Value row = add(add(firstRow, rowOfLane), mul(i, 16)), column = add(mul(jj, 16), mul(half, 8));
      sched::StoreMatrixOp::create(builder, loc, matrices[0], matrices[1], matrices[2], matrices[3], shared, i32(0),
                                   row, column);
    });
  });
  if (shape[1] % 2)
    writeFragments(buffer, shared, shape[1] - 1);
}

void KernelExpander::writeFragments(Value buffer, Value shared, int64_t firstJ) {
  Type element = cast<TileType>(shared.getType()).getElementType();
  Value stage = i32(0);
  SmallVector<int64_t> shape = laneShape(buffer);
  repeat(shape[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      repeat(shape[1] - firstJ, "j", [&](Value fromFirst) {
        Value j = add(fromFirst, firstJ);
        Value row = rowInTile(i, r), column = columnInTile(cast<TileType>(buffer.getType()), j, i32(0));
        Value first = get(buffer, {i, j, mul(r, 2)}), second = get(buffer, {i, j, add(mul(r, 2), 1)});
        if (element.isF32()) {
          sched::StoreSharedOp::create(builder, loc, first, shared, stage, row, column);
          sched::StoreSharedOp::create(builder, loc, second, shared, stage, row, add(column, 1));
          return;
        }
        Value pair = sched::PackOp::create(builder, loc, builder.getI32Type(), first, second, element);
        sched::StoreSharedOp::create(builder, loc, pair, shared, stage, row, column);
      });
    });
  });
}

LogicalResult KernelExpander::storeRows(tile::StoreOp op) {
  Value buffer = buffers.lookup(op.getTile());
  Value view = mapping.lookup(op.getView());
  auto write = [&] {
    Value rows = slice(op.getView(), op.getIndices(), (tile::nameOf(op.getView()) + "_head").str());
    Value firstLane = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, quad, i32(0));
    // Warps that split the columns of O hold the same rows: the first of them writes.
    if (dvWarp)
      firstLane = arith::AndIOp::create(builder, loc, firstLane,
                                        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, dvWarp, i32(0)));
    forEachPlace(buffer, [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
      Value row = tile::named(add(mapping.lookup(op.getIndices().back()), rowInTile(i, r)), "row");
      Value inside = below(row, mapping.lookup(op.getLimit()));
      onlyIf(arith::AndIOp::create(builder, loc, firstLane, inside),
             [&] { sched::StoreElementOp::create(builder, loc, get(buffer, at), rows, row); });
    });
  };
  if (!op.getOptional()) {
    write();
    return success();
  }
  Value present = arith::XOrIOp::create(builder, loc, sched::IsNullOp::create(builder, loc, builder.getI1Type(), view),
                                        arith::ConstantIntOp::create(builder, loc, 1, 1));
  onlyIf(present, write);
  return success();
}

LogicalResult KernelExpander::storeThroughShared(tile::StoreOp op) {
  Value buffer = buffers.lookup(op.getTile());
  auto type = cast<TileType>(op.getTile().getType());
  Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
  int64_t rows = type.getShape()[0], bytes = element.getIntOrFloatBitWidth() / 8;
  Value shared = sched::SharedOp::create(builder, loc, stagedType(type, element), "o_tile");
  writeFragments(buffer, shared);
  sched::BarrierOp::create(builder, loc);
  Value view = slice(op.getView(), op.getIndices(), (tile::nameOf(op.getView()) + "_head").str());
  Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
  forEachChunk(rows, tile::operandOf(op.getView()).getColumns(), bytes, [&](Value row, Value column, Value inside) {
    Value viewRow = add(row0, row);
    Value valid = below(viewRow, limit);
    if (inside)
      valid = arith::AndIOp::create(builder, loc, inside, valid);
    onlyIf(valid, [&] { sched::CopyToGlobalOp::create(builder, loc, shared, row, column, view, viewRow); });
  });
  return success();
}

} // namespace attune::expansion
