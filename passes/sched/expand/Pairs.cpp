//===- Pairs.cpp - Two columns of a lane by one access to global memory ------===//
//
// A lane holds columns 8 j + 2 (lane % 4) and the next of an accumulator. Where a view lies in pairs, one access serves
// both; where it does not, which is one question for all threads, each has its own (`tile-pair-elements`).
//
//     bias[h, q, k], bf16, of a row of 8 columns          lane 0    lane 1    lane 2    lane 3
//         in pairs: one load of 4 bytes                    k 0, 1    k 2, 3    k 4, 5    k 6, 7
//         else: two loads of 2 bytes, e = 0 and e = 1      k 0; 1    k 2; 3    k 4; 5    k 6; 7
//
// Where keys are rows, lanes l and l + 4 hold k and the next, each at queries q and the next. Each accesses the pair at one
// of the two queries, and they exchange the others (exchangePairs).
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/Dependences.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

static bool isMarked(Operation *op) { return op->hasAttr(sched::pairsAttr) || op->hasAttr(sched::rowPairsAttr); }

Value KernelExpander::liesInPairs(Operation *op) {
  SetVector<Value> views;
  op->walk([&](Operation *inner) {
    if (!isMarked(inner))
      return;
    if (auto element = dyn_cast<tile::ElementOp>(inner))
      views.insert(mapping.lookup(element.getView()));
    else
      views.insert(mapping.lookup(cast<tile::ScatterOp>(inner).getView()));
  });
  Value all;
  for (Value view : views) {
    Value one;
    {
      OpBuilder::InsertionGuard guard(builder); // once, before any loop
      builder.setInsertionPointAfterValue(view);
      one = tile::named(sched::InPairsOp::create(builder, loc, builder.getI1Type(), view),
                        nameOfView(view) + "_in_pairs");
    }
    all = all ? arith::AndIOp::create(builder, loc, all, one).getResult() : one;
  }
  return all;
}

void KernelExpander::cloneAlone(Operation &op, IRMapping &inner) {
  Operation *copy = builder.clone(op, inner);
  copy->removeDiscardableAttr(sched::pairsAttr);
  copy->removeDiscardableAttr(sched::rowPairsAttr);
}

SmallVector<ElementPairs> KernelExpander::openPairs(tile::MapOp op) {
  SmallVector<ElementPairs> all;
  const TileType type = op.getResult().getType();
  const FragmentAttr layout = layoutOf(op.getResult());
  const int64_t columns = 8 * layout.getColumnWarps();
  for (auto element : op.getBody().getOps<tile::ElementOp>()) {
    if (!isMarked(element))
      continue;
    TileType held = TileType::make(builder.getContext(), {{type.axis(0), type.getShape()[0]}, {type.axis(1), columns}},
                                   builder.getF32Type(), MemorySpace::Register, layout);
    all.push_back({element, registers(nameOfView(element.getView()) + "_pairs", held)});
    elementPairs[element] = all.back().buffer;
  }
  return all;
}

Value KernelExpander::clamped(Value index, Value view, int64_t dim) {
  Value extent = sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, dim);
  Value last = arith::SubIOp::create(builder, loc, extent, i32(1), arith::IntegerOverflowFlags::nsw);
  return arith::MaxSIOp::create(builder, loc, arith::MinSIOp::create(builder, loc, index, last), i32(0));
}

SmallVector<Value> KernelExpander::indicesOf(tile::MapOp op, tile::ElementOp of, Value i, Value r, Value j, Value c) {
  IRMapping inner = mappingFor(op.getBody());
  mapCoordinates(op, inner, i, r, j, c);
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
    if (holdsRows(op, input))
      inner.map(argument, inputElement(op, input, i, r, j, c));
  for (Operation &each : op.getBody().front().without_terminator())
    if (&each != of && llvm::any_of(of.getIndices(), [&](Value index) {
          return followsFrom(index, [&](Operation *producer) { return producer == &each; });
        }))
      builder.clone(each, inner);
  SmallVector<Value> indices;
  Value view = mapping.lookup(of.getView());
  for (auto [dim, index] : llvm::enumerate(of.getIndices())) {
    Value at = inner.lookupOrDefault(index);
    const bool isLast = dim + 1 == of.getIndices().size();
    indices.push_back(isLast || of.getInRange()[dim] ? at : clamped(at, view, int64_t(dim)));
  }
  return indices;
}

void KernelExpander::loadPairs(tile::MapOp op, const ElementPairs &of, Value j) {
  tile::ElementOp element = of.element;
  Value view = mapping.lookup(element.getView());
  const int64_t last = element.getView().getType().getRank() - 1;
  const bool byRows = element->hasAttr(sched::rowPairsAttr);
  Value column = byRows ? rem(laneRow, 2) : i32(0), isSecond = byRows ? isSecondRow() : Value();
  repeat(laneShape(of.buffer)[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      SmallVector<Value> indices = indicesOf(op, element, i, r, j, column);
      if (byRows)
        indices[last] = arith::SubIOp::create(builder, loc, indices[last], column, arith::IntegerOverflowFlags::nsw);
      Value isBeyond;
      if (!element.getInRange()[last]) {
        // Beyond the last pair, whose end is even: both columns have the last element.
        Value extent = sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, last);
        Value lastPair = arith::SubIOp::create(builder, loc, extent, i32(2), arith::IntegerOverflowFlags::nsw);
        isBeyond = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, indices[last], lastPair);
        indices[last] = arith::MinSIOp::create(builder, loc, indices[last], lastPair);
      }
      auto pair =
          sched::LoadElementsOp::create(builder, loc, builder.getF32Type(), builder.getF32Type(), view, indices);
      Value first = pair.getFirst(), second = pair.getSecond();
      if (isBeyond)
        first = arith::SelectOp::create(builder, loc, isBeyond, second, first);
      const std::array<Value, 2> own = byRows ? exchangePairs(first, second, isSecond) : std::array{first, second};
      for (int64_t c : {0, 1})
        set(own[size_t(c)], of.buffer, {i, i32(0), add(mul(r, 2), c)});
    });
  });
}

void KernelExpander::scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView()), writer = isWriter(buffer);
  const size_t last = extents.size() - 1;
  repeat(laneShape(buffer)[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      Value own = writer;
      SmallVector<Value> place;
      for (auto [index, extent] : llvm::zip(op.getIndices().drop_back(), extents)) {
        const bool isTile = isa<TileType>(index.getType());
        place.push_back(indexElement(index, i, r, {}, {}));
        if (isTile)
          own = within(own, place.back(), extent);
      }
      place.push_back({});
      auto row = [&] {
        repeat(laneShape(buffer)[1], "j", [&](Value j) {
          auto column = [&](int64_t c) { return indexElement(op.getIndices()[last], i, r, j, i32(c)); };
          auto value = [&](int64_t c) { return get(buffer, {i, j, add(mul(r, 2), c)}); };
          place[last] = column(0);
          // Where the second column has a place, so has the first.
          either(
              within({}, column(1), extents[last]),
              [&] { sched::StoreElementsOp::create(builder, loc, value(0), value(1), view, place); },
              [&] {
                onlyIf(within({}, place[last], extents[last]),
                       [&] { sched::StoreElementOp::create(builder, loc, value(0), view, place); });
              });
        });
      };
      own ? onlyIf(own, row) : row();
    });
  });
}

Value KernelExpander::isSecondRow() {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(laneRow, 2), i32(1));
}

std::array<Value, 2> KernelExpander::exchangePairs(Value first, Value second, Value isSecond) {
  Value away = arith::SelectOp::create(builder, loc, isSecond, first, second);
  Value got = sched::ShuffleXorOp::create(builder, loc, away.getType(), away, 4);
  return {arith::SelectOp::create(builder, loc, isSecond, got, first),
          arith::SelectOp::create(builder, loc, isSecond, second, got)};
}

void KernelExpander::scatterRowPairs(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView()), writer = isWriter(buffer);
  const TileType type = op.getTile().getType();
  const size_t last = extents.size() - 1;
  Value isSecond = isSecondRow();
  // The places of the lane's row and of that beside it.
  TileType held = TileType::make(
      builder.getContext(), {{type.axis(0), type.getShape()[0]}}, builder.getI32Type(), MemorySpace::Register,
      FragmentAttr::get(builder.getContext(), FragmentRole::Rows, layoutOf(buffer).getWarps()));
  Value rows[] = {registers("first_row", held), registers("second_row", held)};
  forEachPlace(rows[0], [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
    Value own = indexElement(op.getIndices()[last], i, r, {}, {}),
          other = sched::ShuffleXorOp::create(builder, loc, own.getType(), own, 4);
    set(arith::SelectOp::create(builder, loc, isSecond, other, own), rows[0], at);
    set(arith::SelectOp::create(builder, loc, isSecond, own, other), rows[1], at);
  });
  Value column = rem(laneRow, 2);
  repeat(laneShape(buffer)[1], "j", [&](Value j) {
    Value own = writer;
    SmallVector<Value> place;
    for (auto [index, extent] : llvm::zip(op.getIndices().drop_back(), extents)) {
      place.push_back(indexElement(index, {}, {}, j, column));
      if (isa<TileType>(index.getType()))
        own = within(own, place.back(), extent);
    }
    place.push_back({});
    repeat(laneShape(buffer)[0], "i", [&](Value i) {
      repeat(2, "r", [&](Value r) {
        auto [first, second] =
            exchangePairs(get(buffer, {i, j, mul(r, 2)}), get(buffer, {i, j, add(mul(r, 2), 1)}), isSecond);
        place[last] = get(rows[0], {i, r});
        auto store = [&, first = first, second = second] {
          either(
              within({}, get(rows[1], {i, r}), extents[last]),
              [&] { sched::StoreElementsOp::create(builder, loc, first, second, view, place); },
              [&] {
                onlyIf(within({}, place[last], extents[last]),
                       [&] { sched::StoreElementOp::create(builder, loc, first, view, place); });
              });
        };
        own ? onlyIf(own, store) : store();
      });
    });
  });
}

} // namespace attune::expansion
