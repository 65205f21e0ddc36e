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

bool RegionForms::loadsByRow(Value value) {
  Operation *definition = value.getDefiningOp();
  if (!definition || isUniform(value))
    return false;
  if (auto known = loadingByRow.find(value); known != loadingByRow.end())
    return known->second;
  const bool result = isa<attn::LoadOp>(definition) ||
                      llvm::any_of(definition->getOperands(), [&](Value operand) { return loadsByRow(operand); });
  return loadingByRow[value] = result;
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
  const BoundsTable table{name, tensor, way->dim, axis.argument == 3, axis.tile};
  if (!llvm::is_contained(*tables, table))
    tables->push_back(table);
  auto view = cast<tile::ViewType>(table.declaration().getViewType());
  Value bounds = parameter(name, view);
  const Linear tile = looped ? *loopedTile : divide(fixedBegin, axis.tile);
  const bool isBool = load.getType().isInteger(1);
  auto read = [&](int64_t which, StringRef end) {
    SmallVector<Value> indices = {toI32(constantOf(which), "end")};
    for (auto [dim, index] : llvm::enumerate(load.getIndices()))
      if (dim != way->dim)
        indices.push_back(atBlock(index));
    SmallVector<bool> inRange(indices.size() + 1, false);
    inRange.front() = inRange.back() = true;
    indices.push_back(toI32(tile, (axis.name() + "_tile").str()));
    Value element = tile::ElementOp::create(*builder, load.getLoc(), attn::valueType(view.getElementType()), bounds,
                                            indices, inRange);
    tile::named(element, (load.getName() + "_" + axis.name() + "_" + end).str());
    return isBool ? Value(arith::TruncIOp::create(*builder, load.getLoc(), load.getType(), element)) : element;
  };
  Value least = read(0, isBool ? "all" : "min");
  return std::pair(least, read(1, isBool ? "any" : "max"));
}

tile::OperandAttr BoundsTable::declaration() const {
  Builder builder(tensor.getContext());
  auto axis = [&](const llvm::Twine &name, int64_t size, int64_t by) {
    return tile::AxisAttr::get(tensor.getContext(), builder.getStringAttr(name), size, by);
  };
  SmallVector<tile::AxisAttr> axes = {axis("end", 2, 1)};
  for (int64_t other = 0; other < tensor.getRank(); ++other)
    if (other != dim)
      axes.push_back(axis(tile::tensorPrefix + tensor.getName().getValue() + "." + llvm::Twine(other), 0, 1));
  axes.push_back(axis(this->axis(), 0, rows));
  const Type element = tensor.getElementType();
  return tile::OperandAttr::get(tensor.getContext(), builder.getStringAttr(name), OperandRole::Workspace,
                                /*optional=*/false, axes, element.isInteger(8) ? builder.getI32Type() : element);
}
