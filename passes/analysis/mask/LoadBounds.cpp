//===- LoadBounds.cpp - What tables of bounds say of loads by q and by k --===//

#include "passes/analysis/mask/RegionForms.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// Whether `index` is q (2) or k (3), as it is.
static bool isCoordinate(Value index, unsigned argument) {
  if (auto wide = index.getDefiningOp<arith::ExtSIOp>())
    index = wide.getIn();
  auto known = dyn_cast<BlockArgument>(index);
  return known && known.getArgNumber() == argument;
}

std::optional<RegionForms::Way> RegionForms::wayOf(attn::LoadOp load) {
  if (!isa<IntegerType>(load.getType()))
    return std::nullopt;
  std::optional<Way> way;
  for (auto [dim, index] : llvm::enumerate(load.getIndices())) {
    if (isUniform(index))
      continue;
    unsigned argument = isCoordinate(index, 3) ? 3 : 2;
    if (way || !isCoordinate(index, argument))
      return std::nullopt;
    way = {unsigned(dim), argument};
  }
  return way;
}

bool RegionForms::loadsByTile(Value value) {
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return false;
  if (auto known = loading.find(value); known != loading.end())
    return known->second;
  bool result = llvm::any_of(definition->getOperands(), [&](Value operand) { return loadsByTile(operand); });
  if (auto load = dyn_cast<attn::LoadOp>(definition))
    if (auto way = wayOf(load))
      result |= way->argument == loopedAxis.argument || load.getType().isInteger(64);
  return loading[value] = result;
}

std::optional<std::pair<Value, Value>> RegionForms::loadedEnds(attn::LoadOp load) {
  std::optional<Way> way = tables ? wayOf(load) : std::nullopt;
  bool looped = way && way->argument == loopedAxis.argument;
  if (!way || (looped && !loopedTile))
    return std::nullopt;
  const Axis &axis = looped ? loopedAxis : fixedAxis;
  attn::CapturedTensorAttr tensor = op.findTensor(load.getName());
  std::string name = (load.getName() + "." + (!looped && values.part ? "part" : axis.name())).str();
  if (int64_t(way->dim) + 1 != tensor.getRank())
    name += std::to_string(way->dim);
  auto table = tile::BoundsAttr::get(op.getContext(), builder->getStringAttr(name), tensor.getName(), way->dim,
                                     builder->getStringAttr(axis.name()), axis.tile);
  if (!llvm::is_contained(*tables, table))
    tables->push_back(table);
  Value view = parameter(name, tile::ViewType::get(op.getContext(), tensor.getRank(), tensor.getElementType()));
  Linear first = scale(looped ? *loopedTile : divide(fixedBegin, axis.tile), 2);
  auto read = [&](const Linear &at, StringRef end) {
    SmallVector<Value> indices;
    SmallVector<bool> inRange;
    for (auto [dim, index] : llvm::enumerate(load.getIndices())) {
      inRange.push_back(dim == way->dim);
      indices.push_back(dim == way->dim ? toI32(at, (axis.name() + "_entry").str()) : atBlock(index));
    }
    Value element = tile::ElementOp::create(*builder, load.getLoc(), load.getType(), view, indices, inRange);
    return tile::named(element, (load.getName() + "_" + axis.name() + "_" + end).str());
  };
  Value least = read(first, load.getType().isInteger(1) ? "all" : "min");
  return std::pair(least, read(addConstant(first, 1), load.getType().isInteger(1) ? "any" : "max"));
}
