//===- Parts.cpp - Bounds of values that are constant in parts of a tile -----===//

#include "passes/analysis/mask/RegionForms.h"

#include "passes/analysis/dataflow/Dependences.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// The maximum number of parts of a tile for each of which a value is computed. With more parts, the bounds come from a
/// table with one entry for each tile of q and k.
static constexpr size_t mostParts = 8;
/// The maximum number of operations that compute the indices of a loaded element. They are repeated for each part.
static constexpr size_t mostOperations = 16;
/// The maximum number of operations that compute a condition for all parts of a tile. Operations on q alone are repeated
/// for each part along q, those on k alone for each part along k.
static constexpr size_t mostOfCondition = 1024;

std::optional<std::pair<int64_t, int64_t>> RegionForms::quotientSteps(Value value, size_t most) {
  int64_t steps[] = {0, 0};
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (isUniform(next) || !met.insert(next).second)
      continue;
    Operation *definition = next.getDefiningOp();
    if (!definition || met.size() > most)
      return std::nullopt;
    APInt divisor;
    auto argument = dyn_cast<BlockArgument>(definition->getOperand(0));
    if (argument && isa<arith::DivSIOp>(definition) &&
        matchPattern(definition->getOperand(1), m_ConstantInt(&divisor)) && divisor.isStrictlyPositive()) {
      int64_t &step = steps[argument.getArgNumber() - 2];
      step = std::gcd(step, divisor.getSExtValue());
    } else {
      llvm::append_range(pending, definition->getOperands());
    }
  }
  return std::pair(steps[0], steps[1]);
}

std::optional<RegionForms::Parts> RegionForms::partsOf(Value value) {
  if (!builder || !loopedTile || values.tiles > 1 || !dependsOn(value, fixedAxis) || !dependsOn(value, loopedAxis))
    return std::nullopt;
  const bool isLoaded = isa_and_nonnull<attn::LoadOp>(value.getDefiningOp());
  const auto steps = quotientSteps(value, isLoaded ? mostOperations : mostOfCondition);
  if (!steps || !(fixedAxis.offset == constantOf(0)) || !(loopedAxis.offset == constantOf(0)))
    return std::nullopt;
  // The positions at which the value is computed: one in each part of the tile in which the value is constant. Tiles
  // begin at multiples of their size, so if the size divides the step (the divisor of the position), the tile is one
  // part. If neither size nor step divides the other, a part may begin anywhere in the tile, so the value is also
  // computed at the tile's last position. So is a condition at the last query of a tile of queries, which begins anywhere
  // if query heads are packed.
  auto along = [&](int64_t step, const Axis &axis) {
    const bool isFixed = axis.argument == fixedAxis.argument, isAligned = isLoaded || !isFixed || axis.argument != 2,
               fits = isAligned && (step % axis.tile == 0 || axis.tile % step == 0);
    const Linear first = isFixed ? fixedBegin : scale(*loopedTile, axis.tile);
    // A part after the end of the axis repeats the last one. (Loads clamp their indices themselves.)
    auto at = [&](int64_t offset) {
      const Linear position = addConstant(first, offset);
      return isLoaded ? position : minimum(position, addConstant(isFixed ? fixedEnd() : axis.count, -1));
    };
    SmallVector<Linear> parts{first};
    for (int64_t offset = step; offset < axis.tile && parts.size() <= mostParts; offset += step)
      parts.push_back(at(offset));
    if (!fits)
      parts.push_back(at(axis.tile - 1));
    return parts;
  };
  Parts parts{along(steps->first, axisOf(2)), along(steps->second, axisOf(3))};
  return parts.ofQ.size() * parts.ofK.size() > mostParts ? std::nullopt : std::optional(parts);
}

bool RegionForms::isConditionOfParts(Value value) {
  const std::optional<Parts> parts = value.getType().isInteger(1) ? partsOf(value) : std::nullopt;
  if (!parts)
    return false;
  size_t operations = 0;
  for (Operation *each : dependencesOf(value)) {
    if (isa<attn::LoadOp, attn::SearchOp>(each))
      return false;
    Value result = each->getResult(0);
    operations +=
        (dependsOn(result, axisOf(2)) ? parts->ofQ.size() : 1) * (dependsOn(result, axisOf(3)) ? parts->ofK.size() : 1);
  }
  return operations <= mostOfCondition;
}

std::optional<std::pair<Value, Value>> RegionForms::partEnds(Value value) {
  const std::optional<Parts> parts = partsOf(value);
  if (!parts)
    return std::nullopt;
  asked.insert(value);
  SmallVector<Value> elements;
  const IRMapping uniform = cloned;
  Block &region = op.getMask().front();
  for (const Linear &q : parts->ofQ)
    for (const Linear &k : parts->ofK) {
      cloned.map(region.getArgument(2), toI32(q, "part_q"));
      cloned.map(region.getArgument(3), toI32(k, "part_k"));
      elements.push_back(atBlock(value));
      cloned = uniform;
    }
  Value least = elements.front(), most = least;
  const bool isBool = value.getType().isInteger(1);
  for (Value element : llvm::drop_begin(elements)) {
    least = isBool ? emit<arith::AndIOp>(least, element) : emit<arith::MinSIOp>(least, element);
    most = isBool ? emit<arith::OrIOp>(most, element) : emit<arith::MaxSIOp>(most, element);
  }
  return std::pair(least, most);
}
