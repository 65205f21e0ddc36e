//===- Tables.cpp - Per-tile tables with bounds of values of q and k ------===//

#include "passes/analysis/mask/RegionForms.h"

#include "ir/attn/Attn.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

void RegionForms::findCanonical() {
  auto stem = [](Operation &op) {
    if (auto load = dyn_cast<attn::LoadOp>(op))
      return load.getName().str();
    if (auto search = dyn_cast<attn::SearchOp>(op))
      return attn::nameOfSearch(search.getName());
    return op.getName().stripDialect().str();
  };
  constexpr auto flags = OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs;
  auto firstOf = [&](Value value) {
    auto known = canonicals.find(value);
    return known == canonicals.end() ? value : known->second.first;
  };
  // The first op of each expression, by the hash of the expression.
  std::map<size_t, SmallVector<Operation *, 1>> firsts;
  std::map<std::pair<std::string, unsigned>, unsigned> count; // number of tables, by name and by dependence on q and k
  for (Operation &each : op.getMask().front()) {
    if (each.getNumResults() != 1)
      continue;
    const llvm::hash_code code = OperationEquivalence::computeHash(
        &each, [&](Value operand) { return hash_value(firstOf(operand)); }, OperationEquivalence::ignoreHashValue,
        flags);
    SmallVector<Operation *, 1> &alike = firsts[size_t(code)];
    auto isSame = [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(
          other, &each, [&](Value x, Value y) { return success(firstOf(x) == firstOf(y)); }, nullptr, flags);
    };
    Value value = each.getResult(0);
    if (auto *first = llvm::find_if(alike, isSame); first != alike.end()) {
      const auto of = canonicals.lookup((*first)->getResult(0));
      canonicals[value] = of;
      continue;
    }
    alike.push_back(&each);
    const std::string name = stem(each);
    const unsigned number = ++count[{name, argumentsOf(value) >> 2}];
    canonicals[value] = {value, name + (number == 1 ? "" : std::to_string(number))};
  }
}

std::pair<Value, std::string> RegionForms::canonical(Value value) {
  if (canonicals.empty())
    findCanonical();
  return canonicals.at(value);
}

std::optional<std::pair<Value, Value>> RegionForms::tabledEnds(Value value) {
  const bool ofFixed = dependsOn(value, fixedAxis), ofLooped = dependsOn(value, loopedAxis);
  if (!tables || !value.getDefiningOp() || (!ofFixed && !ofLooped) || (ofLooped && !loopedTile))
    return std::nullopt;
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
  if (!llvm::is_contained(*tables, table)) {
    auto ofOneAxis = llvm::make_filter_range(*tables, [](const BoundsTable &each) { return !each.isOfBoth(); });
    if (!table.isOfBoth() && size_t(llvm::range_size(ofOneAxis)) >= mostTables) {
      lacksTables = true;
      return std::nullopt;
    }
    tables->push_back(table);
  }
  asked.insert(value);
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
        inRange.push_back(!isFixed || !values.mayFollow);
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

bool RegionForms::readsMemory(Value value, const Axis &axis) {
  // A cached `false` is valid until `asked`, the set of values with bounds in memory, grows. With the cache, the work
  // for nested selects is linear: each select walks its operands only as far as the next inner select.
  llvm::DenseMap<Value, size_t> &without = withoutMemory[axis.argument - 2];
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (auto known = without.find(next); known != without.end() && known->second == asked.size())
      continue;
    if (!met.insert(next).second)
      continue;
    if (asked.contains(next)) {
      if (dependsOn(next, axis))
        return true;
    } else if (Operation *definition = next.getDefiningOp()) {
      llvm::append_range(pending, definition->getOperands());
    }
  }
  for (Value each : met)
    without[each] = asked.size();
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
