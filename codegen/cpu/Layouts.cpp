//===- Layouts.cpp - Choosing vector axes and memory orders of tiles ------===//

#include "codegen/cpu/Lowering.h"

namespace attune::cpu {

void Lowering::findLaneAxis() {
  laneAxis = "q";
  kernel.walk([&](DomainOp domain) { laneAxis = domain.getAxis() == "q" ? "k" : "q"; });
}

unsigned Lowering::innerAxis(TileType type) const {
  if (type.rank() == 1)
    return 0;
  auto rank = [&](unsigned i) {
    StringRef axis = type.axis(i);
    int64_t lanes = lanesFor(type.getShape()[i]);
    return std::tuple(lanes == host.lanes && axis == laneAxis, lanes, axis == laneAxis, axis.starts_with("d"), axis);
  };
  return rank(0) > rank(1) ? 0 : 1;
}

Order Lowering::orderWithInner(TileType type, unsigned inner) {
  return type.rank() == 2 && inner == 0 ? Reversed : Listed;
}

void Lowering::findNeededOrders() {
  kernel.walk([&](Operation *op) {
    if (auto mma = dyn_cast<MmaOp>(op)) {
      TileType result = mma.getResult().getType();
      StringRef lane = result.axis(innerAxis(result));
      Value operand = mma.getLhs().getType().hasAxis(lane) ? mma.getLhs() : mma.getRhs();
      auto type = cast<TileType>(operand.getType());
      need(operand, orderWithInner(type, type.findAxis(lane)));
      if (mma.getAcc())
        need(mma.getAcc(), orderOf(result));
    } else if (auto any = dyn_cast<AnyOp>(op)) {
      need(any.getTile(), orderOf(any.getTile().getType()));
    } else if (isa<StoreOp, StoreBlocksOp, AccumulateOp, ScatterOp, SumDiagonalsOp>(op)) {
      for (Value operand : op->getOperands())
        if (isa<TileType>(operand.getType()))
          need(operand, Listed);
    } else if (isElementwise(op)) {
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<TileType>(operand.getType()))
          need(operand, orderOf(type));
    } else if (isa<ForBlocksOp, tile::YieldOp>(op)) {
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<TileType>(operand.getType()))
          need(operand, orderOf(type));
    }
    for (Value value : op->getResults())
      if (auto type = dyn_cast<TileType>(value.getType()); type && type.rank() > 2)
        fail(op, "tiles have at most two axes");
  });
}

} // namespace attune::cpu
