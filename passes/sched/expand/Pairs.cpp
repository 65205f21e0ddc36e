//===- Pairs.cpp - Access two columns of a lane by one memory instruction ------===//
//
// A lane holds column 8 j + 2 (lane % 4) of an accumulator and the next column. If the view is aligned for pairs and
// the whole tile is within the view, one access serves both columns; otherwise each column has its own access
// (`tile-pair-elements`). One test, the same for all threads, decides. Within the view no index is clamped or tested:
// addresses are the lane's first address plus constants.
//
//     bias[h, q, k], bf16, of a row of 8 columns          lane 0    lane 1    lane 2    lane 3
//         in pairs: one load of 4 bytes                    k 0, 1    k 2, 3    k 4, 5    k 6, 7
//         else: two loads of 2 bytes, e = 0 and e = 1      k 0; 1    k 2; 3    k 4; 5    k 6; 7
//
// Where keys are rows, lanes l and l + 4 hold keys k and k + 1, each at queries q and q + 1. Each lane accesses the
// pair of keys at one of the two queries, and the lanes exchange the elements that they do not hold (exchangePairs).
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/dataflow/Dependences.h"
#include "passes/sched/expand/MapInputs.h"

namespace attune::expansion {

/// Accesses by pairs require that the whole tile is within the view along the last index of `element` and, for pairs of
/// rows, along every index that is a coordinate of the tile. If index `dim` is a coordinate with this requirement,
/// returns the coordinate; otherwise nullopt.
static std::optional<TileCoordinate> countedIndex(tile::MapOp op, tile::ElementOp element, size_t dim) {
  const bool isLast = dim + 1 == element.getIndices().size();
  return isLast || element->hasAttr(sched::rowPairsAttr) ? coordinateOf(op, element.getIndices()[dim]) : std::nullopt;
}

Value MapInputs::liesInPairs(tile::MapOp op) {
  Value all;
  SetVector<Value> views;
  for (auto element : op.getBody().getOps<tile::ElementOp>()) {
    if (!isMarkedForPairs(element))
      continue;
    Value view = mapping.lookup(element.getView());
    if (views.insert(view))
      all = both(all, viewInPairs(view));
    for (size_t dim = 0; dim < element.getIndices().size(); ++dim)
      if (std::optional<TileCoordinate> along = countedIndex(op, element, dim); along && !element.getInRange()[dim])
        all = endsWithin(all, *along, op.getResult().getType(), extentOf(view, int64_t(dim)));
  }
  return all;
}

void MapInputs::cloneAlone(Operation &op, IRMapping &inner) {
  Operation *copy = builder.clone(op, inner);
  copy->removeDiscardableAttr(sched::pairsAttr);
  copy->removeDiscardableAttr(sched::rowPairsAttr);
}

SmallVector<ElementPairs> MapInputs::openPairs(tile::MapOp op) {
  SmallVector<ElementPairs> all;
  const TileType type = op.getResult().getType();
  const FragmentAttr layout = layoutOf(op.getResult());
  const int64_t columns = 8 * layout.getColumnWarps();
  for (auto element : op.getBody().getOps<tile::ElementOp>()) {
    if (!isMarkedForPairs(element))
      continue;
    TileType held = TileType::make(builder.getContext(), {{type.axis(0), type.getShape()[0]}, {type.axis(1), columns}},
                                   builder.getF32Type(), MemorySpace::Register, layout);
    all.push_back({element, registers(nameOfView(element.getView()) + "_pairs", held), ownPairs(op, element)});
    elementPairs[element] = all.back().buffer;
  }
  return all;
}

SmallVector<Value> MapInputs::indicesOf(tile::MapOp op, tile::ElementOp of, Value i, Value r, Value j, Value c) {
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
    indices.push_back(of.getInRange()[dim] || countedIndex(op, of, dim) ? at : clamped(at, view, int64_t(dim)));
  }
  return indices;
}

Value MapInputs::fromFirst(Value view, ValueRange first) {
  auto from = cast<tile::ViewType>(view.getType());
  auto type = tile::ViewType::get(builder.getContext(), 2, from.getElementType());
  return tile::named(sched::SliceOp::create(builder, loc, type, view, first), "own_" + nameOfView(view));
}

Value MapInputs::ownPairs(tile::MapOp op, tile::ElementOp element) {
  const size_t rank = element.getIndices().size();
  if (!element->hasAttr(sched::rowPairsAttr) || rank < 2 || !countedIndex(op, element, rank - 2) ||
      !llvm::all_of(
          element.getIndices().drop_back(2),
          [&](Value index) {
            return followsOnlyFrom(index, op.getBody().front(), [](BlockArgument) { return false; });
          }))
    return {};
  Value none = i32(0), column = rem(laneRow, 2);
  SmallVector<Value> first = indicesOf(op, element, none, none, none, column);
  first.back() = firstOfPair(first.back(), column);
  return fromFirst(mapping.lookup(element.getView()), first);
}

void MapInputs::loadPairs(tile::MapOp op, const ElementPairs &of, Value j) {
  tile::ElementOp element = of.element;
  Value view = mapping.lookup(element.getView());
  const bool byRows = element->hasAttr(sched::rowPairsAttr);
  Value column = byRows ? rem(laneRow, 2) : i32(0), isSecond = byRows ? isSecondRow() : Value();
  repeat(laneShape(of.buffer)[0], "i", [&](Value i) {
    repeat(2, "r", [&](Value r) {
      SmallVector<Value> indices;
      if (of.own) {
        indices = {mul(j, 8), rowStep(i, r)};
      } else {
        indices = indicesOf(op, element, i, r, j, column);
        if (byRows)
          indices.back() = firstOfPair(indices.back(), column);
      }
      auto pair = sched::LoadElementsOp::create(builder, loc, SmallVector<Type>(2, builder.getF32Type()),
                                                of.own ? of.own : view, indices);
      const std::array<Value, 2> own = byRows ? exchangePairs(pair.getResult(0), pair.getResult(1), isSecond)
                                              : std::array<Value, 2>{pair.getResult(0), pair.getResult(1)};
      for (int64_t c : {0, 1})
        set(own[size_t(c)], of.buffer, {i, i32(0), add(mul(r, 2), c)});
    });
  });
}

Value MapInputs::placeWithin(const CountedPlaces &places, Value i, Value r, Value j, Value c) {
  IRMapping inner;
  mapCoordinates(places.map, inner, i, r, j, c);
  return inner.lookup(places.coordinate);
}

Value MapInputs::isSecondRow() {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(laneRow, 2), i32(1));
}

std::array<Value, 2> MapInputs::exchangePairs(Value first, Value second, Value isSecond) {
  Value away = arith::SelectOp::create(builder, loc, isSecond, first, second);
  Value got = sched::ShuffleXorOp::create(builder, loc, away.getType(), away, 4);
  return {arith::SelectOp::create(builder, loc, isSecond, got, first),
          arith::SelectOp::create(builder, loc, isSecond, second, got)};
}

} // namespace attune::expansion
