//===- Parts.cpp - Bounds of elements that are constant in parts of a tile ===//

#include "passes/analysis/mask/RegionForms.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// The maximum number of elements of a captured tensor that are read to bound the values of the tensor in a tile: one
/// for each part of the tile in which the element is constant. With more parts, the bounds come from a table with one
/// entry for each tile of q and k.
static constexpr size_t mostParts = 8;
/// The maximum number of operations that compute the indices of a loaded element. They are repeated for each part of a
/// tile in which the element is constant.
static constexpr size_t mostOperations = 16;

std::optional<std::pair<int64_t, int64_t>> RegionForms::quotientSteps(Value value) {
  int64_t steps[] = {0, 0};
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (isUniform(next) || !met.insert(next).second)
      continue;
    Operation *definition = next.getDefiningOp();
    if (!definition || met.size() > mostOperations)
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

std::optional<std::pair<Value, Value>> RegionForms::partEnds(Value value) {
  if (!builder || !loopedTile || values.tiles > 1 || !dependsOn(value, fixedAxis) || !dependsOn(value, loopedAxis) ||
      !isa_and_nonnull<attn::LoadOp>(value.getDefiningOp()))
    return std::nullopt;
  const auto steps = quotientSteps(value);
  if (!steps || !(fixedAxis.offset == constantOf(0)) || !(loopedAxis.offset == constantOf(0)))
    return std::nullopt;
  // The positions at which a loaded element is read: one in each part of the tile in which the element is constant.
  // Tiles begin at multiples of their size, so if the size divides the step (the divisor of the index), the tile is one
  // part. If neither size nor step divides the other, a part may begin anywhere in the tile, so the element is also
  // read at the tile's last position.
  auto partsOf = [&](int64_t step, const Axis &axis) {
    const bool fits = step % axis.tile == 0 || axis.tile % step == 0;
    const Linear first = axis.argument == fixedAxis.argument ? fixedBegin : scale(*loopedTile, axis.tile);
    SmallVector<Linear> parts;
    for (int64_t offset = 0; offset < axis.tile && parts.size() <= mostParts; offset += step)
      parts.push_back(addConstant(first, offset));
    if (!fits)
      parts.push_back(addConstant(first, axis.tile - 1));
    return parts;
  };
  const SmallVector<Linear> ofQ = partsOf(steps->first, axisOf(2)), ofK = partsOf(steps->second, axisOf(3));
  if (ofQ.size() * ofK.size() > mostParts)
    return std::nullopt;
  asked.insert(value);
  SmallVector<Value> elements;
  const IRMapping uniform = cloned;
  Block &region = op.getMask().front();
  for (const Linear &q : ofQ)
    for (const Linear &k : ofK) {
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
