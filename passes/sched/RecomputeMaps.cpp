//===- RecomputeMaps.cpp - Recompute cheap maps instead of keeping results in registers ----===//
//
// The gradient of a score starts with expressions of the score itself, such as the tanh of a softcap or an exponential.
// The score and its gradient are computed by two maps (elementwise ops on a tile). In one lane's code both maps have
// the same expressions of the same registers, and the device compiler keeps the values of these expressions from the
// first map to the second, for all elements of a lane. One kept value can reuse the register of the tile's element.
// Several kept values need registers that are not free. In that case the later map reads its elements through
// `sched.after`, ordered after the elements of its first input: the device compiler then takes them for other values,
// and recomputes the expressions.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace attune {
#define GEN_PASS_DEF_RECOMPUTEMAPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

bool isFloatTile(Value value) {
  auto type = dyn_cast<tile::TileType>(value.getType());
  return type && type.rank() == 2 && type.getSpace() == tile::MemorySpace::Register && type.getElementType().isF32();
}

/// The element of `tile` in the region of `map`; null if the region does not read the tile.
Value elementOf(tile::MapOp map, Value tile) {
  for (auto [i, input] : llvm::enumerate(map.getInputs()))
    if (input == tile && !map.getElement(unsigned(i)).use_empty())
      return map.getElement(unsigned(i));
  return {};
}

/// The number of values that a device compiler would keep from `earlier` to `map`: values that `map` computes from
/// `element` just as `earlier` computes them from `other`, and that ops found only in `map` read.
size_t valuesToKeep(tile::MapOp map, Value element, tile::MapOp earlier, Value other) {
  llvm::DenseMap<Value, Value> common{{element, other}};
  auto same = [&](Value a, Value b) {
    Operation *constant = a.getDefiningOp(), *of = b.getDefiningOp();
    return common.lookup(a) == b || a == b ||
           (constant && of && constant->hasTrait<OpTrait::ConstantLike>() && constant->getName() == of->getName() &&
            constant->getPropertiesAsAttribute() == of->getPropertiesAsAttribute());
  };
  auto follows = [&](Operation &op) {
    return llvm::any_of(op.getOperands(), [&](Value operand) { return common.contains(operand); });
  };
  llvm::SetVector<Value> kept;
  for (Operation &op : map.getBody().front()) {
    if (!follows(op))
      continue;
    auto twin = llvm::find_if(earlier.getBody().front(), [&](Operation &of) {
      return op.getNumResults() == 1 && op.getName() == of.getName() && op.getNumOperands() == of.getNumOperands() &&
             op.getPropertiesAsAttribute() == of.getPropertiesAsAttribute() &&
             llvm::all_of(llvm::zip(op.getOperands(), of.getOperands()),
                          [&](auto pair) { return same(std::get<0>(pair), std::get<1>(pair)); });
    });
    if (twin != earlier.getBody().front().end()) {
      common[op.getResult(0)] = twin->getResult(0);
      continue;
    }
    for (Value operand : op.getOperands())
      if (common.contains(operand))
        kept.insert(operand);
  }
  return common.size() == 1 ? 0 : kept.size();
}

/// Whether the device compiler would keep more than one value of each element of `tile` from an earlier map of the same
/// IR block.
bool keepsMany(tile::MapOp map, Value tile) {
  return llvm::any_of(tile.getUsers(), [&](Operation *user) {
    auto earlier = dyn_cast<tile::MapOp>(user);
    if (!earlier || earlier->getBlock() != map->getBlock() || !earlier->isBeforeInBlock(map))
      return false;
    Value element = elementOf(earlier, tile);
    return element && valuesToKeep(map, elementOf(map, tile), earlier, element) > 1;
  });
}

struct RecomputeMaps : attune::impl::RecomputeMapsBase<RecomputeMaps> {
  using RecomputeMapsBase::RecomputeMapsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      kernel.walk([](tile::MapOp map) {
        if (map.getInputs().size() < 2 || !isFloatTile(map.getInputs().front()))
          return;
        for (Value tile : map.getInputs().drop_front()) {
          Value element = isFloatTile(tile) ? elementOf(map, tile) : Value();
          if (!element || !keepsMany(map, tile))
            continue;
          OpBuilder builder(map.getContext());
          builder.setInsertionPointToStart(&map.getBody().front());
          auto behind = sched::AfterOp::create(builder, map.getLoc(), builder.getF32Type(), element, map.getElement(0));
          element.replaceAllUsesExcept(behind, behind);
        }
      });
  }
};

} // namespace
