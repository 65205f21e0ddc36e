//===- Tables.cpp - What tables of bounds say of values by q and by k -----===//

#include "passes/analysis/mask/RegionForms.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

bool RegionForms::isSame(Value x, Value y) {
  if (x == y)
    return true;
  if (auto known = same.find({x, y}); known != same.end())
    return known->second;
  Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
  const bool result = a && b &&
                      OperationEquivalence::isEquivalentTo(
                          a, b, [&](Value x, Value y) { return success(isSame(x, y)); }, nullptr,
                          OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs);
  return same[{x, y}] = result;
}

std::pair<Value, std::string> RegionForms::canonical(Value value) {
  auto stem = [](Operation *op) {
    if (auto load = dyn_cast<attn::LoadOp>(op))
      return load.getName();
    return op->getName().stripDialect();
  };
  Operation *definition = value.getDefiningOp();
  const StringRef name = stem(definition);
  SmallVector<Value> before;
  for (Operation &op : *definition->getBlock()) {
    if (op.getNumResults() != 1 || stem(&op) != name || argumentsOf(op.getResult(0)) >> 2 != argumentsOf(value) >> 2)
      continue;
    Value other = op.getResult(0);
    if (isSame(other, value))
      return {other, name.str() + (before.empty() ? "" : std::to_string(before.size() + 1))};
    if (llvm::none_of(before, [&](Value known) { return isSame(known, other); }))
      before.push_back(other);
  }
  llvm_unreachable("a value's own operation is in its block");
}

std::optional<std::pair<Value, Value>> RegionForms::tabledEnds(Value value) {
  const bool ofFixed = dependsOn(value, fixedAxis), ofLooped = dependsOn(value, loopedAxis);
  if (!tables || !value.getDefiningOp() || (!ofFixed && !ofLooped) || (ofLooped && !loopedTile))
    return std::nullopt;
  asked.insert(value);
  auto [same, name] = canonical(value);
  const bool ofQueries = dependsOn(value, axisOf(2)), ofKeys = dependsOn(value, axisOf(3));
  if (ofQueries)
    name += values.part ? ".part" : ".q";
  if (ofKeys)
    name += ".k";
  name += values.tables;
  const int64_t tiles = ofLooped ? values.tiles : 1;
  if (tiles > 1)
    name += "_groups";
  auto sizeOf = [&](unsigned argument, bool has) { return has ? axisOf(argument).tile : 0; };
  const unsigned arguments = argumentsOf(value);
  const BoundsTable table{name, same, bool(arguments & 1), bool(arguments & 2), sizeOf(2, ofQueries), sizeOf(3, ofKeys),
                          tiles};
  if (!llvm::is_contained(*tables, table))
    tables->push_back(table);
  auto view = cast<tile::ViewType>(table.declaration().getViewType());
  Value bounds = parameter(name, view);
  auto read = [&](int64_t which, const Twine &end) {
    SmallVector<Value> indices = {toI32(constantOf(which), "end")};
    SmallVector<bool> inRange(1 + table.byBatch + table.byHead, true);
    if (table.byBatch)
      indices.push_back(values.b);
    if (table.byHead)
      indices.push_back(values.h);
    for (unsigned argument : {2, 3}) {
      const Axis &axis = axisOf(argument);
      const bool isFixed = argument == fixedAxis.argument;
      if (argument == 2 ? ofQueries : ofKeys) {
        indices.push_back(toI32(isFixed ? divide(fixedBegin, axis.tile) : *loopedTile, (axis.name() + "_tile").str()));
        inRange.push_back(!isFixed || !values.mayLieBehind);
      }
    }
    Value element = tile::ElementOp::create(*builder, value.getLoc(), attn::valueType(view.getElementType()), bounds,
                                            indices, inRange);
    tile::named(element, (StringRef(name).take_until([](char c) { return c == '.'; }) + "_" +
                          (ofQueries && ofKeys ? "tile"
                           : tiles > 1         ? "group"
                           : ofQueries         ? "q"
                                               : "k") +
                          "_" + end)
                             .str());
    return value.getType().isInteger(1)
               ? Value(arith::TruncIOp::create(*builder, value.getLoc(), value.getType(), element))
               : element;
  };
  const bool isBool = value.getType().isInteger(1);
  Value least = read(0, isBool ? "all" : "min");
  return std::pair(least, read(1, isBool ? "any" : "max"));
}

bool RegionForms::asksMemory(Value value, const Axis &axis) {
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (!met.insert(next).second)
      continue;
    if (asked.contains(next)) {
      if (dependsOn(next, axis))
        return true;
    } else if (Operation *definition = next.getDefiningOp()) {
      llvm::append_range(pending, definition->getOperands());
    }
  }
  return false;
}

tile::OperandAttr BoundsTable::declaration() const {
  MLIRContext *context = value.getContext();
  Builder builder(context);
  SmallVector<tile::AxisAttr> axes;
  auto add = [&](StringRef name, int64_t size, int64_t by) {
    axes.push_back(tile::AxisAttr::get(context, builder.getStringAttr(name), size, by));
  };
  add("end", 2, 1);
  if (byBatch)
    add("b", 0, 1);
  if (byHead)
    add("h", 0, 1);
  if (queries)
    add("q", 0, queries);
  if (keys)
    add("k", 0, keys);
  const Type type = value.getType();
  return tile::OperandAttr::get(context, builder.getStringAttr(name), OperandRole::Workspace, /*optional=*/false, axes,
                                type.isInteger(1) ? builder.getI32Type() : type);
}
