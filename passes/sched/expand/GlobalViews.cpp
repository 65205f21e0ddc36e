//===- GlobalViews.cpp - Views of tensors in global memory --------------------===//

#include "passes/sched/expand/GlobalViews.h"

namespace attune::expansion {

std::string GlobalViews::nameOfView(Value view) {
  tile::ParamOp parameter = tile::parameterOf(view);
  return (parameter ? parameter.getOwnName() : tile::nameOf(view)).str();
}

Value GlobalViews::extentOf(Value view, int64_t dim) {
  return sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, dim);
}

Value GlobalViews::clamped(Value index, Value view, int64_t dim) {
  Value last = arith::SubIOp::create(builder, loc, extentOf(view, dim), i32(1), arith::IntegerOverflowFlags::nsw);
  return arith::MaxSIOp::create(builder, loc, arith::MinSIOp::create(builder, loc, index, last), i32(0));
}

Value GlobalViews::within(Value known, Value index, Value extent) {
  // The unsigned comparison also excludes negative indices.
  Value isWithin = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, extent);
  return both(known, isWithin);
}

Value GlobalViews::endsWithin(Value known, const TileCoordinate &along, TileType type, Value end) {
  Value origin = mapping.lookup(along.origin), last = add(origin, type.getShape()[type.findAxis(along.axis)]);
  if (!isMultipleOf(along.origin, 1))
    known = both(known, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, origin, i32(0)));
  return both(known, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, last, end));
}

Value GlobalViews::viewInPairs(Value view, bool eights) {
  OpBuilder::InsertionGuard guard(builder); // the test is done once, before any loop
  builder.setInsertionPointAfterValue(view);
  return tile::named(sched::InPairsOp::create(builder, loc, builder.getI1Type(), view, eights),
                     nameOfView(view) + (eights ? "_in_eights" : "_in_pairs"));
}

Value GlobalViews::slice(Value view, ValueRange indices, StringRef name) {
  SmallVector<Value> leading;
  for (Value index : indices.drop_back())
    leading.push_back(mapping.lookup(index));
  Value source = mapping.lookup(view);
  for (auto &[key, known] : slices)
    if (key.first == source && key.second == leading)
      return known;
  OpBuilder::InsertionGuard guard(builder);
  // The slice of the view at its leading indices (batch and head, for example) moves out of all loops in which these
  // indices do not change.
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

void GlobalViews::makeHead(Value view, ValueRange indices) {
  if (!view.getDefiningOp<tile::GroupRowsOp>() && !view.getDefiningOp<tile::PagedRowsOp>())
    slice(view, indices, nameOfView(view) + "_head");
}

GlobalViews::PagePlace GlobalViews::pagePlace(tile::PagedRowsOp rows, Value b, Value row) {
  const int64_t size = int64_t(rows.getSize());
  Value entry = tile::named(div(row, size), "page_entry");
  Value number = tile::ElementOp::create(builder, loc, builder.getI32Type(), mapping.lookup(rows.getTable()),
                                         ValueRange{b, entry}, ArrayRef<bool>{false, false});
  return {tile::named(clamped(number, mapping.lookup(rows.getView()), 0), "page"),
          tile::named(rem(row, size), "page_slot")};
}

GlobalViews::HeadRow GlobalViews::headRow(Value view, ValueRange indices, Value row) {
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

void GlobalViews::forEachInside(Value buffer, Value view, ValueRange indices, Value limit,
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

void GlobalViews::forEachRow(Value buffer, Value view, ValueRange indices, Value limit,
                             function_ref<Value(Value)> condition, function_ref<void(Value, Value, HeadRow)> body) {
  Value row0 = mapping.lookup(indices.back()), end = mapping.lookup(limit);
  repeat(laneShape(buffer)[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      Value row = tile::named(add(row0, rowInTile(buffer, i, r)), "row");
      onlyIf(condition(below(row, end)), [&] { body(i, r, headRow(view, indices, row)); });
    });
  });
}

bool GlobalViews::hasPairs(Value buffer, Value view) {
  tile::OperandAttr operand = tile::operandOf(view);
  return layoutOf(buffer).getRole() == FragmentRole::C && operand && operand.isTiled() &&
         isa<FloatType>(cast<tile::ViewType>(view.getType()).getElementType());
}

void GlobalViews::forEachPair(Value buffer, Value view, ValueRange indices, Value limit,
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

SmallVector<Value, 4> GlobalViews::fourOf(Value buffer, Value i, Value j) {
  SmallVector<Value, 4> values;
  for (int64_t n = 0; n < 4; ++n)
    values.push_back(get(buffer, {i, j, i32(n)}));
  return values;
}

void GlobalViews::forEachFour(Value buffer, Value view, ValueRange indices, Value limit,
                              function_ref<Value(Value)> condition,
                              function_ref<void(Value, Value, Value, Value)> body) {
  auto type = cast<TileType>(buffer.getType());
  const int64_t columns = int64_t(view.getDefiningOp<tile::BlockedRowsOp>().getColumns());
  Value head = slice(view, indices, nameOfView(view) + "_head"), ownColumn = firstColumn(type);
  Value row0 = add(mapping.lookup(indices.back()), firstRowOf(type)), end = mapping.lookup(limit),
        place0 = mul(lane, 4);
  if (ownColumn)
    place0 = add(place0, mul(ownColumn, tile::blockRows));
  repeat(laneShape(buffer)[0], "i", [&](Value i) {
    Value row = add(row0, mul(i, tile::blockRows)), block = tile::named(div(row, tile::blockRows), "row_block");
    onlyIf(condition(below(row, end)), [&] {
      const auto vector = tile::ViewType::get(builder.getContext(), 1, builder.getF32Type());
      Value own = tile::named(sched::SliceOp::create(builder, loc, vector, head, ValueRange{block, place0}),
                              "own_" + nameOfView(view));
      repeat(laneShape(buffer)[1], "j", [&](Value j) {
        auto atBlock = [&] { body(own, mul(j, 8 * tile::blockRows), i, j); };
        columns < type.getShape()[1] ? onlyIf(below(columnInTile(type, j, i32(0)), i32(columns)), atBlock) : atBlock();
      });
    });
  });
}

void GlobalViews::forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
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

void GlobalViews::forEachPlaceOf(int64_t count, Value thread, int64_t threads, function_ref<void(Value, Value)> body) {
  auto at = [&](Value pass) { body(pass, tile::named(add(thread, mul(pass, threads)), "place")); };
  repeat(count / threads, "i", at);
  if (count % threads)
    onlyIf(below(thread, i32(count % threads)), [&] { at(i32(count / threads)); });
}

} // namespace attune::expansion
