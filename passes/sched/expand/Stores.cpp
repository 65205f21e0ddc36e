//===- Stores.cpp - Results to global memory ---------------------------------===//

#include "arch/ArchInfo.h"
#include "passes/analysis/copies/StoredTiles.h"
#include "passes/analysis/copies/TilesInEights.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::StoreOp op) {
  auto type = cast<TileType>(op.getTile().getType());
  tile::OperandAttr operand = tile::operandOf(op.getView());
  if (isStoredByEngine(op))
    return storeByEngine(op);
  auto store = [&] {
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

void KernelExpander::waitForBoxes(Value threadId) {
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(threadId, 128), i32(0));
  onlyIf(first, [&] { sched::WaitBoxesOp::create(builder, loc, 0); });
}

bool KernelExpander::isStoredInPairs(tile::StoreOp op) {
  return specialized && !kernel->hasAttr(sched::persistentAttr) && !inShared(op.getTile()) &&
         op.getView().getType().getElementType().isF32() && hasPairs(buffers.lookup(op.getTile()), op.getView());
}

bool KernelExpander::isStoredByEngine(tile::StoreOp op) {
  if (!specialized || inShared(op.getTile()) || !isStoredInBoxes(kernel, op) ||
      op.getView().getType().getElementType().getIntOrFloatBitWidth() != 16)
    return false;
  FragmentAttr layout = layoutOf(buffers.lookup(op.getTile()));
  return layout.getRole() == FragmentRole::C &&
         layout.getColumnWarps() == columnSplits(kernel, cast<TileType>(op.getTile().getType()));
}

bool KernelExpander::isRepeated() {
  return kernel->hasAttr(sched::persistentAttr) || isa<sched::ForTilesOp>(builder.getInsertionBlock()->getParentOp());
}

Value KernelExpander::takeFreeBuffer(TileType output) {
  if (isRepeated())
    return {};
  auto isFree = [&](Value buffer) {
    if (!buffer || buffer.getParentBlock() != &kernelBody() || rightBuffers.contains(buffer))
      return false;
    auto type = cast<TileType>(buffer.getType());
    return output.getShape()[1] == type.getShape()[1] && output.bytes() <= type.bytes() &&
           output.getLayout() == type.getLayout();
  };
  if (isFree(leftBuffer))
    return std::exchange(leftBuffer, {});
  for (Value &buffer : storedBuffers)
    if (isFree(buffer))
      return std::exchange(buffer, {});
  return {};
}

LogicalResult KernelExpander::storeByEngine(tile::StoreOp op) {
  Value buffer = buffers.lookup(op.getTile());
  auto type = cast<TileType>(op.getTile().getType());
  Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
  TileType sharedType = stagedType(stacked(type), element);
  Value near = leftBuffer, over = takeFreeBuffer(sharedType), shared;
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
  writeBoxes(buffer, shared, op.getView(), op.getIndices());
  return success();
}

void KernelExpander::writeStage(Value buffer, Value shared, Value stage) {
  TileType held = stacked(cast<TileType>(buffer.getType()));
  cast<TileType>(shared.getType()).getElementType().isF32() ? writeFragments(buffer, shared, stage, held)
                                                            : writeMatrices(buffer, shared, stage, held);
  sched::FenceAsyncOp::create(builder, loc);
}

void KernelExpander::storeBoxes(const StagedBoxes &boxes, Value sharedRow, ArrayRef<Value> at, Value ownColumn) {
  const int64_t columns = ownColumn ? cast<TileType>(boxes.shared.getType()).getShape()[2] : boxes.columns;
  const int64_t panel = cast<sched::TensorMapType>(boxes.map.getType()).getColumns();
  for (int64_t column = 0; column < columns; column += panel)
    sched::StoreBoxOp::create(builder, loc, boxes.shared, boxes.stage, sharedRow, boxes.map, at[0], at[1], at[2],
                              i32(column), ownColumn ? add(ownColumn, column) : Value(), boxes.adds);
}

KernelExpander::StagedBoxes KernelExpander::stagedBoxes(Value shared, Value stage, Value view, bool adds) {
  auto swizzle = cast<sched::SwizzleAttr>(cast<TileType>(shared.getType()).getLayout());
  return {shared, stage, tensorMap(view, 64, swizzle), tile::operandOf(view).getColumns(), adds};
}

void KernelExpander::writeBoxes(Value buffer, Value shared, Value view, ValueRange indices) {
  Value barrier = warpgroupBarrier();
  const bool again = isRepeated();
  if (again) {
    waitForBoxes(thread);
    sched::SyncWarpsOp::create(builder, loc, barrier, 128);
    storesBoxes = true;
  }
  writeStage(buffer, shared, i32(0));
  sched::SyncWarpsOp::create(builder, loc, barrier, 128);
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(thread, 128), i32(0));
  const StagedBoxes boxes = stagedBoxes(shared, i32(0), view, /*adds=*/false);
  onlyIf(first, [&] {
    auto held = cast<TileType>(buffer.getType());
    Value row = warpgroupRow(), ownColumn = warpgroupColumn(held);
    storeBoxes(
        boxes, row,
        {mapping.lookup(indices[0]), mapping.lookup(indices[1]), add(mapping.lookup(indices[2]), warpgroupRow(held))},
        ownColumn);
    sched::CommitBoxesOp::create(builder, loc);
    if (!again)
      sched::WaitBoxesOp::create(builder, loc, 0);
  });
}

LogicalResult KernelExpander::expandOp(sched::WriteTileOp op) {
  auto type = cast<TileType>(op.getShared().getType());
  const int64_t groups = type.getShape()[1] / 64, rowGroups = groups / int64_t(op.getColumnSplits());
  const StagedBoxes boxes = stagedBoxes(buffers.lookup(op.getShared()), mapping.lookup(op.getStage()), op.getView(),
                                        /*adds=*/op.getAdds());
  SmallVector<Value> at;
  for (Value index : op.getIndices())
    at.push_back(mapping.lookup(index));
  // The tensor map of a tensor with 0 rows describes one row, so that the limit is tested here.
  onlyIf(below(at[2], mapping.lookup(op.getLimit())), [&] {
    for (int64_t group = 0; group < groups; ++group)
      storeBoxes(boxes, i32(64 * group), {at[0], at[1], add(at[2], group % rowGroups * 64)},
                 op.getColumnSplits() > 1 ? i32(group / rowGroups * type.getShape()[2]) : Value());
  });
  sched::CommitBoxesOp::create(builder, loc);
  sched::WaitBoxesOp::create(builder, loc, 0);
  return success();
}

TileType KernelExpander::stagedType(TileType type, Type element) {
  int64_t rowBytes = type.getShape()[1] * element.getIntOrFloatBitWidth() / 8;
  return TileType::make(kernel.getContext(),
                        {{"stage", 1}, {type.axis(0), type.getShape()[0]}, {type.axis(1), type.getShape()[1]}}, element,
                        MemorySpace::Shared, sched::SwizzleAttr::forBoxes(kernel.getContext(), rowBytes));
}

void KernelExpander::writeMatrices(Value buffer, Value shared, Value stage, TileType held) {
  Type element = cast<TileType>(shared.getType()).getElementType();
  SmallVector<int64_t> shape = laneShape(buffer);
  const bool turned = cast<TileType>(shared.getType()).axis(1) != held.axis(0); // axis 0 is the stage
  // The address is the lane's own position plus steps that are the same in all lanes.
  Value firstRow = firstRowOf(held), row, column;
  if (turned)
    std::tie(row, column) = transposedPlace(firstRow);
  else
    row = add(firstRow, rem(lane, 16)), column = mul(div(lane, 16), 8);
  repeat(shape[0], "i", [&](Value i) {
    Value ownColumn = turned ? add(column, mul(i, 16)) : column;
    repeat(shape[1] / 2, "jj", [&](Value jj) {
      Value matrices[4];
      for (int m = 0; m < 4; ++m) {
        Value j = add(mul(jj, 2), m / 2), low = get(buffer, {i, j, i32(m % 2 * 2)}),
              high = get(buffer, {i, j, i32(m % 2 * 2 + 1)});
        matrices[m] = sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element);
      }
      sched::StoreMatrixOp::create(builder, loc, matrices[0], matrices[1], matrices[2], matrices[3], shared, stage, row,
                                   ownColumn, turned ? mul(jj, 16) : mul(i, 16), turned ? i32(0) : mul(jj, 16), turned);
    });
  });
  if (shape[1] % 2)
    writeFragments(buffer, shared, stage, held, shape[1] - 1);
}

void KernelExpander::writeFragments(Value buffer, Value shared, Value stage, TileType held, int64_t firstJ) {
  auto stored = cast<TileType>(shared.getType());
  Type element = stored.getElementType();
  SmallVector<int64_t> shape = laneShape(buffer);
  // If the warp's first column starts a panel, each address is the lane's first address with an exclusive-or or an
  // addition of a constant.
  const bool steps = isa_and_nonnull<sched::SwizzleAttr>(stored.getLayout()) &&
                     cast<FragmentAttr>(held.getLayout()).getColumnWarps() == 1;
  auto ownRow = [&] { return add(firstRowOf(held), laneRow); };
  // Half a warp stores pairs of floats at a time: 32 bytes of each of four rows. The swizzle maps two of these rows to
  // the same banks. To avoid the conflict, odd rows store the columns in another order, in which each 16 columns are
  // swapped with the next 16.
  const bool apart = steps && element.isF32() && cast<sched::SwizzleAttr>(stored.getLayout()).getPanel() == 128 &&
                     !firstJ && shape[1] % 4 == 0;
  repeat(shape[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      repeat(shape[1] - firstJ, "j", [&](Value fromFirst) {
        Value j = add(fromFirst, firstJ), zero = i32(0);
        Value step = rowStep(i, r), row = steps ? ownRow() : add(ownRow(), step),
              column = columnInTile(held, steps ? zero : j, zero);
        Value rowStep = steps ? step : Value(), columnStep = steps ? mul(j, 8) : Value();
        Value first = get(buffer, {i, j, mul(r, 2)}), second = get(buffer, {i, j, add(mul(r, 2), 1)});
        if (apart) {
          Value oddRow = rem(laneRow, 2), other = arith::XOrIOp::create(builder, loc, j, i32(2));
          Value odd =
              tile::named(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, oddRow, zero), "odd_row");
          auto choose = [&](Value ofOdd, Value ofEven) {
            return arith::SelectOp::create(builder, loc, odd, ofOdd, ofEven);
          };
          column = add(column, mul(oddRow, 16));
          first = choose(get(buffer, {i, other, mul(r, 2)}), first);
          second = choose(get(buffer, {i, other, add(mul(r, 2), 1)}), second);
        }
        if (!element.isF32()) {
          first = sched::PackOp::create(builder, loc, builder.getI32Type(), first, second, element);
          second = {};
        }
        sched::StoreSharedOp::create(builder, loc, first, second, shared, stage, row, column, rowStep, columnStep);
      });
    });
  });
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
                  sched::StoreElementsOp::create(builder, loc, get(buffer, at[0]), get(buffer, at[1]), head, place);
                });
    return success();
  }
  forEachInside(buffer, op.getView(), op.getIndices(), op.getLimit(), condition,
                [&](Value head, ValueRange place, SmallVector<Value> at) {
                  sched::StoreElementOp::create(builder, loc, get(buffer, at), head, place);
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
  if (info && info->addsVectors() && hasPairs(buffer, op.getView())) {
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

Value KernelExpander::within(Value known, Value index, Value extent) {
  // The unsigned comparison also excludes negative indices.
  Value isWithin = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, extent);
  return both(known, isWithin);
}

Value KernelExpander::indexElement(Value index, Value i, Value r, Value j, Value c) {
  if (!isa<TileType>(index.getType()))
    return mapping.lookup(index);
  auto map = index.getDefiningOp<tile::MapOp>();
  return map && givesPlaces(map) ? mapElement(map, i, r, j, c) : element(index, i, r, j, c);
}

LogicalResult KernelExpander::expandOp(tile::ScatterOp op) {
  SmallVector<Value> extents;
  Value inside;
  for (auto [dim, index] : llvm::enumerate(op.getIndices())) {
    extents.push_back(extentOf(mapping.lookup(op.getView()), int64_t(dim)));
    if (!isa<TileType>(index.getType()))
      inside = within(inside, mapping.lookup(index), extents.back());
  }
  if (inShared(op.getTile())) {
    auto exchange = op.getTile().getDefiningOp<sched::ExchangeOp>();
    if (!specialized || !exchange || !isInBoxes(op, exchange))
      return op.emitError("takes a tile from shared memory that warps exchange, in panels of 128 bytes, its rows and "
                          "columns those of the last two indices; scatter registers");
    Value one = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, i32(0));
    onlyIf(both(inside, one), [&] { scatterBoxes(op); });
    return success();
  }
  Value inPairs = liesInPairs(op, extents);
  const bool exchangesEights = op->hasAttr(sched::eightsAttr);
  if (exchangesEights && !isExchangedInEights(op))
    return op.emitError()
           << "is marked " << sched::eightsAttr
           << ", and is none whose last two indices count along the rows and columns of f32 in registers, "
              "32 columns for each warp, to 16 bits; leave the mark out";
  Value inEights = exchangesEights ? liesInEights(op, extents) : Value();
  auto writeRegisters = [&] {
    if (op.getMerge())
      return scatterMerged(op, extents);
    if (!inPairs)
      return scatterElements(op, extents);
    either(inPairs, [&] { scatterPairs(op, extents); }, [&] { scatterElements(op, extents); });
  };
  auto write = [&] {
    if (exchangesEights)
      either(inEights, [&] { scatterEights(op); }, writeRegisters);
    else
      writeRegisters();
  };
  // One branch tests the indices that are the same for all elements.
  inside ? onlyIf(inside, write) : write();
  return success();
}

void KernelExpander::scatterElements(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView()), writer = isWriter(buffer);
  forEachPlace(buffer, [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
    Value own = writer;
    if (Value exists = isDistance(buffer, i))
      own = both(own, exists);
    SmallVector<Value> place;
    for (auto [index, extent] : llvm::zip(op.getIndices(), extents)) {
      const bool isTile = isa<TileType>(index.getType());
      place.push_back(indexElement(index, i, r, j, c));
      if (isTile)
        own = within(own, place.back(), extent);
    }
    auto write = [&] {
      Value value = get(buffer, at);
      if (!op.getAdd())
        sched::StoreElementOp::create(builder, loc, value, view, place);
      else if (value.getType().isF32())
        sched::AddElementsOp::create(builder, loc, ValueRange(value), view, place);
      else
        sched::AddIntegerOp::create(builder, loc, value, view, place);
    };
    own ? onlyIf(own, write) : write();
  });
}

bool KernelExpander::addsByRows(Operation *op) {
  auto accumulate = dyn_cast<tile::AccumulateOp>(op);
  const ArchInfo *info = findArch(arch);
  if (!accumulate || !info || !info->addsVectors())
    return false;
  TileType type = accumulate.getTile().getType();
  tile::OperandAttr operand = tile::operandOf(accumulate.getView());
  return type.rank() == 2 && type.getSpace() == MemorySpace::Shared && !type.getLayout() && operand.isTiled() &&
         operand.getColumns() == type.getShape()[1];
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
