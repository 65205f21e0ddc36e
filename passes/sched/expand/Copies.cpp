//===- Copies.cpp - Copies from global to shared memory -----------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(sched::SlotOp op) {
  return success(op.getResult().getType().getSpace() == MemorySpace::Shared);
}

std::string KernelExpander::nameOfView(Value view) {
  tile::ParamOp parameter = tile::parameterOf(view);
  return (parameter ? parameter.getOwnName() : tile::nameOf(view)).str();
}

Value KernelExpander::slice(Value view, ValueRange indices, StringRef name) {
  SmallVector<Value> leading;
  for (Value index : indices.drop_back())
    leading.push_back(mapping.lookup(index));
  Value source = mapping.lookup(view);
  for (auto &[key, known] : slices)
    if (key.first == source && key.second == leading)
      return known;
  OpBuilder::InsertionGuard guard(builder);
  // The slice moves out of all loops in which the leading indices do not change.
  while (builder.getInsertionBlock() != workBlock) {
    Operation *loop = builder.getInsertionBlock()->getParentOp();
    if (llvm::any_of(leading, [&](Value index) { return loop->isAncestor(index.getParentBlock()->getParentOp()); }))
      break;
    builder.setInsertionPoint(loop);
  }
  auto type = cast<tile::ViewType>(source.getType());
  auto resultType = tile::ViewType::get(type.getContext(), type.getRank() - leading.size(), type.getElementType());
  Value result = tile::named(sched::SliceOp::create(builder, loc, resultType, source, leading), name);
  slices.push_back({{source, leading}, result});
  return result;
}

void KernelExpander::makeHead(Value view, ValueRange indices) {
  if (!view.getDefiningOp<tile::GroupRowsOp>() && !view.getDefiningOp<tile::PagedRowsOp>())
    slice(view, indices, nameOfView(view) + "_head");
}

KernelExpander::PagePlace KernelExpander::pagePlace(tile::PagedRowsOp rows, Value b, Value row) {
  const int64_t size = int64_t(rows.getSize());
  Value entry = tile::named(div(row, size), "page_entry");
  Value number = tile::ElementOp::create(builder, loc, builder.getI32Type(), mapping.lookup(rows.getTable()),
                                         ValueRange{b, entry}, ArrayRef<bool>{false, false});
  return {tile::named(clamped(number, mapping.lookup(rows.getView()), 0), "page"),
          tile::named(rem(row, size), "page_slot")};
}

KernelExpander::HeadRow KernelExpander::headRow(Value view, ValueRange indices, Value row) {
  SmallVector<Value> leading;
  for (Value index : indices.drop_back())
    leading.push_back(mapping.lookup(index));
  Value place;
  if (auto rows = view.getDefiningOp<tile::GroupRowsOp>()) {
    Value group = mapping.lookup(rows.getGroup());
    Value first = arith::MulIOp::create(builder, loc, leading.back(), group, arith::IntegerOverflowFlags::nsw);
    leading.back() = tile::named(add(first, arith::RemUIOp::create(builder, loc, row, group)), "row_head");
    place = tile::named(arith::DivUIOp::create(builder, loc, row, group), "row_query");
  } else if (auto rows = view.getDefiningOp<tile::PagedRowsOp>()) {
    auto [page, slot] = pagePlace(rows, leading.front(), row);
    leading.front() = page;
    place = slot;
  } else {
    return {slice(view, indices, nameOfView(view) + "_head"), row};
  }
  Value source = mapping.lookup(view);
  auto type = cast<tile::ViewType>(source.getType());
  auto headType = tile::ViewType::get(type.getContext(), type.getRank() - leading.size(), type.getElementType());
  Value head = sched::SliceOp::create(builder, loc, headType, source, leading);
  return {tile::named(head, nameOfView(view) + "_head"), place};
}

void KernelExpander::forEachInside(Value buffer, Value view, ValueRange indices, Value limit,
                                   function_ref<Value(Value)> condition,
                                   function_ref<void(Value, ValueRange, SmallVector<Value>)> body) {
  auto type = cast<TileType>(buffer.getType());
  tile::OperandAttr operand = tile::operandOf(view);
  const int64_t columns = operand ? operand.getColumns() : 0;
  Value lastColumn = type.rank() == 1 ? Value()
                     : columns ? (columns < type.getShape()[1] ? i32(columns) : Value())
                               : extentOf(mapping.lookup(view), cast<tile::ViewType>(view.getType()).getRank() - 1);
  auto atPlace = [&](HeadRow row, Value inside, Value i, Value r, Value j, Value c, SmallVector<Value> at) {
    SmallVector<Value> place{row.row};
    if (type.rank() == 2)
      place.push_back(tile::named(coordinateInTile(buffer, type.axis(1), i, r, j, c), "column"));
    if (lastColumn) {
      Value hasColumn = below(place[1], lastColumn);
      inside = both(inside, hasColumn);
    }
    inside ? onlyIf(inside, [&] { body(row.head, place, at); }) : body(row.head, place, at);
  };
  if (layoutOf(buffer).getRole() != FragmentRole::C) {
    Value row0 = mapping.lookup(indices.back()), end = mapping.lookup(limit);
    forEachPlace(buffer, [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
      Value row = tile::named(add(row0, coordinateInTile(buffer, type.axis(0), i, r, j, c)), "row");
      Value inside = condition(below(row, end));
      atPlace(headRow(view, indices, row), inside, i, r, j, c, at);
    });
    return;
  }
  // All columns of a row are in one branch, so that their loads and stores are in flight together.
  forEachRow(buffer, view, indices, limit, condition, [&](Value i, Value r, HeadRow row) {
    repeat(laneShape(buffer)[1], "j",
           [&](Value j) { repeat(2, "e", [&](Value c) { atPlace(row, {}, i, r, j, c, {i, j, add(mul(r, 2), c)}); }); });
  });
}

void KernelExpander::forEachRow(Value buffer, Value view, ValueRange indices, Value limit,
                                function_ref<Value(Value)> condition, function_ref<void(Value, Value, HeadRow)> body) {
  Value row0 = mapping.lookup(indices.back()), end = mapping.lookup(limit);
  repeat(laneShape(buffer)[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      Value row = tile::named(add(row0, rowInTile(buffer, i, r)), "row");
      onlyIf(condition(below(row, end)), [&] { body(i, r, headRow(view, indices, row)); });
    });
  });
}

bool KernelExpander::hasPairs(Value buffer, Value view) {
  tile::OperandAttr operand = tile::operandOf(view);
  return layoutOf(buffer).getRole() == FragmentRole::C && operand && operand.isTiled() &&
         isa<FloatType>(cast<tile::ViewType>(view.getType()).getElementType());
}

void KernelExpander::forEachPair(Value buffer, Value view, ValueRange indices, Value limit,
                                 function_ref<Value(Value)> condition,
                                 function_ref<void(Value, ValueRange, const PairAt &)> body) {
  auto type = cast<TileType>(buffer.getType());
  const int64_t columns = tile::operandOf(view).getColumns();
  forEachRow(buffer, view, indices, limit, condition, [&](Value i, Value r, HeadRow row) {
    repeat(laneShape(buffer)[1], "j", [&](Value j) {
      Value column = tile::named(columnInTile(type, j, i32(0)), "column");
      auto atPair = [&] {
        body(row.head, {row.row, column},
             PairAt{SmallVector<Value>{i, j, mul(r, 2)}, SmallVector<Value>{i, j, add(mul(r, 2), 1)}});
      };
      columns < type.getShape()[1] ? onlyIf(below(column, i32(columns)), atPair) : atPair();
    });
  });
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
  fillBuffer(arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type.getElementType())), buffer);
  makeHead(op.getView(), op.getIndices());
  auto always = [](Value inside) { return inside; };
  if (hasPairs(buffer, op.getView())) {
    forEachPair(buffer, op.getView(), op.getIndices(), op.getLimit(), always,
                [&](Value head, ValueRange place, const PairAt &at) {
                  const Type element = builder.getF32Type();
                  auto pair = sched::LoadElementsOp::create(builder, loc, element, element, head, place);
                  set(pair.getFirst(), buffer, at[0]);
                  set(pair.getSecond(), buffer, at[1]);
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

void KernelExpander::forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
                                  function_ref<void(Value, Value, Value)> body) {
  int64_t perChunk = 16 / elementBytes, chunks = columns / perChunk, total = rows * chunks;
  repeat(llvm::divideCeil(total, threads), "copy", [&](Value pass) {
    Value row, chunk, inside;
    if (threads % chunks == 0) {
      row = tile::named(add(div(thread, chunks), mul(pass, threads / chunks)), "row");
      chunk = chunks == 1 ? i32(0) : rem(thread, chunks);
      if (rows % (threads / chunks))
        inside = below(row, i32(rows));
    } else {
      Value flat = add(thread, mul(pass, threads));
      row = div(flat, chunks);
      chunk = rem(flat, chunks);
      if (total % threads)
        inside = below(flat, i32(total));
    }
    body(tile::named(add(row, i32(0)), "row"), tile::named(mul(chunk, perChunk), "column"), inside);
  });
}

void KernelExpander::forEachPlaceOf(int64_t count, Value thread, int64_t threads,
                                    function_ref<void(Value, Value)> body) {
  auto at = [&](Value pass) { body(pass, tile::named(add(thread, mul(pass, threads)), "place")); };
  repeat(count / threads, "i", at);
  if (count % threads)
    onlyIf(below(thread, i32(count % threads)), [&] { at(i32(count / threads)); });
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
