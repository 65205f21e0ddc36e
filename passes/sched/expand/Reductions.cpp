//===- Reductions.cpp - Maxima, sums and votes of a row ----------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::AnyOp op) {
  Value buffer = buffers.lookup(op.getTile());
  Value any = arith::ConstantIntOp::create(builder, loc, 0, 1);
  // A lane has few rows, so that the rows are expanded one by one without a loop.
  SmallVector<int64_t> shape = laneShape(buffer);
  if (layoutOf(buffer).getRole() != FragmentRole::Rows)
    return op.emitError("tests a tile that does not lie along the rows of products; test a vector that a reduction "
                        "along their columns gives");
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t r = 0; r < shape[1]; ++r) {
      IRMapping inner = mappingFor(op.getBody());
      inner.map(op.getBody().getArgument(0), get(buffer, {i32(i), i32(r)}));
      for (Operation &nested : op.getBody().front().without_terminator())
        builder.clone(nested, inner);
      Value flag = inner.lookupOrDefault(cast<tile::YieldOp>(op.getBody().front().getTerminator()).getValues().front());
      any = arith::OrIOp::create(builder, loc, any, flag);
    }
  if (StringRef name = tile::nameOf(op.getResult()); !name.empty() && any.getDefiningOp<arith::OrIOp>())
    tile::named(any, ("lane_" + name).str());
  mapping.map(op.getResult(), tile::named(sched::AnyLaneOp::create(builder, loc, builder.getI1Type(), any),
                                          tile::nameOf(op.getResult())));
  return success();
}

LogicalResult KernelExpander::expandOp(tile::BitsOp op) {
  IRMapping inner = mappingFor(op.getBody());
  inner.map(op.getBody().getArgument(0), sched::LaneIdOp::create(builder, loc, builder.getI32Type()));
  for (Operation &nested : op.getBody().front().without_terminator())
    builder.clone(nested, inner);
  Value flag = inner.lookupOrDefault(cast<tile::YieldOp>(op.getBody().front().getTerminator()).getValues().front());
  mapping.map(op.getResult(), tile::named(sched::BallotOp::create(builder, loc, builder.getI32Type(), flag),
                                          tile::nameOf(op.getResult())));
  return success();
}

Value KernelExpander::combine(tile::Reduction kind, Value a, Value b) {
  const bool isFloat = isa<FloatType>(a.getType());
  switch (kind) {
  case tile::Reduction::Max:
    return isFloat ? Value(arith::MaxNumFOp::create(builder, loc, a, b)) : arith::MaxSIOp::create(builder, loc, a, b);
  case tile::Reduction::Min:
    return isFloat ? Value(arith::MinNumFOp::create(builder, loc, a, b)) : arith::MinSIOp::create(builder, loc, a, b);
  case tile::Reduction::Sum:
    return isFloat ? Value(arith::AddFOp::create(builder, loc, a, b)) : arith::AddIOp::create(builder, loc, a, b);
  }
  llvm_unreachable("unknown reduction");
}

Value KernelExpander::combineLanes(tile::Reduction kind, Value value, ArrayRef<int64_t> masks) {
  for (int64_t mask : masks)
    value = combine(kind, value, sched::ShuffleXorOp::create(builder, loc, value.getType(), value, mask));
  return value;
}

LogicalResult KernelExpander::expandOp(tile::ReduceOp op) {
  Value source = buffers.lookupOrNull(op.getTile());
  if (!source || layoutOf(source).getRole() != FragmentRole::C || layoutOf(source).getColumnWarps() != 1)
    return op.emitError("reduces what is no accumulator, or one whose columns several warps split (dv_warps)");
  Value buffer = bufferFor(op, op.getResult(), op.getInit() ? ValueRange(op.getInit()) : ValueRange());
  if (isRowAxis(op.getTile(), op.getAxis()))
    reduceRows(op, source, buffer);
  else
    reduceColumns(op, source, buffer);
  buffers.map(op.getResult(), buffer);
  return success();
}

Value KernelExpander::identityFor(tile::ReduceOp op) {
  return arith::ConstantOp::create(
      builder, loc, cast<TypedAttr>(tile::identityOf(op.getKind(), op.getTile().getType().getElementType())));
}

void KernelExpander::reduceColumns(tile::ReduceOp op, Value source, Value buffer) {
  const bool repeatable =
      op.getKind() != tile::Reduction::Sum; // combining with the same value again does not change a maximum or minimum
  int64_t columns = laneShape(source)[1];
  forEachPlace(buffer, [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
    // A sum over all lanes must include the initial value only once, so the value is added after the lanes are
    // combined.
    bool initFirst = op.getInit() && (repeatable || op.getPerLane());
    Value init = op.getInit() ? get(buffers.lookup(op.getInit()), at) : Value();
    set(initFirst ? init : identityFor(op), buffer, at);
    // The two columns of a pair are combined first, then the pair with the running value. This halves the chain of
    // dependent ops.
    repeat(columns, "j", [&](Value j) {
      Value first = get(source, {i, j, mul(r, 2)}), second = get(source, {i, j, add(mul(r, 2), 1)});
      set(combine(op.getKind(), get(buffer, at), combine(op.getKind(), first, second)), buffer, at);
    });
    if (op.getPerLane())
      return;
    Value total = combineQuad(op.getKind(), get(buffer, at));
    if (init && !initFirst)
      total = combine(op.getKind(), total, init);
    set(total, buffer, at);
  });
}

/// The number of 32-bit words of shared memory that an element takes.
static int64_t wordsOf(Type element) { return element.getIntOrFloatBitWidth() / 32; }

void KernelExpander::storePart(Value value, Value parts, Value row, Value place) {
  if (wordsOf(value.getType()) == 1) {
    sched::StoreSharedOp::create(builder, loc, value, parts, i32(0), row, place);
    return;
  }
  Value shift = arith::ConstantIntOp::create(builder, loc, 32, 64), first = mul(place, 2);
  for (Value word : {value, arith::ShRUIOp::create(builder, loc, value, shift).getResult()}) {
    sched::StoreSharedOp::create(builder, loc, arith::TruncIOp::create(builder, loc, builder.getI32Type(), word), parts,
                                 i32(0), row, first);
    first = add(first, 1);
  }
}

Value KernelExpander::loadPart(Type element, Value parts, Value row, Value place) {
  if (wordsOf(element) == 1)
    return loadShared(element, parts, i32(0), row, place);
  const Type word = builder.getI32Type();
  Value first = mul(place, 2), low = loadShared(word, parts, i32(0), row, first),
        high = loadShared(word, parts, i32(0), row, add(first, 1)),
        shift = arith::ConstantIntOp::create(builder, loc, 32, 64);
  high = arith::ShLIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, element, high), shift);
  return arith::OrIOp::create(builder, loc, high, arith::ExtUIOp::create(builder, loc, element, low));
}

void KernelExpander::reduceRows(tile::ReduceOp op, Value source, Value buffer) {
  const int64_t split = layoutOf(source).getWarps();
  auto type = cast<TileType>(buffer.getType());
  const Type element = type.getElementType();
  Value zero = i32(0), parts;
  if (split > 1) {
    const int64_t words = wordsOf(element);
    TileType stored = TileType::make(builder.getContext(),
                                     {{"stage", 1}, {"warp", split}, {type.axis(0), type.getShape()[0] * words}},
                                     words > 1 ? Type(builder.getI32Type()) : element, MemorySpace::Shared);
    parts = sched::SharedOp::create(builder, loc, stored, "column_parts");
    synchronize();
  }
  auto init = [&](ArrayRef<Value> at) { return op.getInit() ? get(buffers.lookup(op.getInit()), at) : Value(); };
  Value column = registers("column_part", fragmentType({{type.axis(0), 8}}, element, FragmentRole::Columns, warps));
  Value writer = isWriter(source),
        firstRow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, laneRow, zero);
  writer = writer ? Value(arith::AndIOp::create(builder, loc, firstRow, writer)) : firstRow;
  forEachPlace(buffer, [&](Value, Value, Value j, Value c, SmallVector<Value> at) {
    set(identityFor(op), column, {zero, c});
    repeat(laneShape(source)[0], "i", [&](Value i) {
      Value first = get(source, {i, j, c}), second = get(source, {i, j, add(c, 2)});
      set(combine(op.getKind(), get(column, {zero, c}), combine(op.getKind(), first, second)), column, {zero, c});
    });
    Value ofWarp = combineLanes(op.getKind(), get(column, {zero, c}), {4, 8, 16});
    if (!parts) {
      Value start = init(at);
      return set(start ? combine(op.getKind(), start, ofWarp) : ofWarp, buffer, at);
    }
    onlyIf(writer, [&] { storePart(ofWarp, parts, warp, columnInTile(type, j, c)); });
  });
  if (!parts)
    return;
  synchronizeAll();
  forEachPlace(buffer, [&](Value, Value, Value j, Value c, SmallVector<Value> at) {
    Value total = init(at), place = columnInTile(type, j, c);
    for (int64_t of = 0; of < split; ++of) {
      Value part = loadPart(element, parts, i32(of), place);
      total = total ? combine(op.getKind(), total, part) : part;
    }
    set(total, buffer, at);
  });
}

LogicalResult KernelExpander::expandOp(tile::CombineLanesOp op) {
  Value buffer = bufferFor(op, op.getResult(), op.getTile()), source = buffers.lookup(op.getTile());
  // Only a vector along rows has partial results in the lanes of a quad. A vector with another layout is complete in
  // every lane: the reduction that computed the vector has combined the lanes of a column.
  const bool isWhole = layoutOf(source).getRole() != FragmentRole::Rows;
  forEachPlace(buffer, [&](Value, Value, Value, Value, SmallVector<Value> at) {
    Value part = get(source, at);
    set(isWhole ? part : combineQuad(op.getKind(), part), buffer, at);
  });
  buffers.map(op.getResult(), buffer);
  return success();
}

} // namespace attune::expansion
