//===- CloneRegion.cpp - Clone ops from an attention's regions into a kernel ---===//

#include "passes/attn/CloneRegion.h"

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

using namespace mlir;
using namespace attune;

void attune::cloneFromRegion(OpBuilder &builder, attn::AttentionOp op, Operation &inner, IRMapping &mapping) {
  Value result;
  if (auto load = dyn_cast<attn::LoadOp>(inner)) {
    const SmallVector<Value> indices =
        llvm::map_to_vector(load.getIndices(), [&](Value index) { return mapping.lookup(index); });
    result = tile::ElementOp::create(builder, load.getLoc(), load.getType(),
                                     tile::readTensor(builder, op.getLoc(), op.findTensor(load.getName())), indices,
                                     SmallVector<bool>(indices.size(), false));
    tile::named(result, load.getName());
  } else if (auto search = dyn_cast<attn::SearchOp>(inner)) {
    result = tile::SearchOp::create(builder, search.getLoc(), search.getType(),
                                    tile::readTensor(builder, op.getLoc(), op.findTensor(search.getName())),
                                    mapping.lookup(search.getX()), search.getRight());
    tile::named(result, attn::nameOfSearch(search.getName()));
  } else if (auto scalar = dyn_cast<attn::ScalarOp>(inner)) {
    result = tile::readScalar(builder, op.getLoc(), scalar.getName(), scalar.getType());
  } else if (auto extent = dyn_cast<attn::ExtentOp>(inner)) {
    const StringRef name = extent.getName(), axis = name == "B" ? "b" : name == "H" ? "h" : name == "Sq" ? "q" : "k";
    result = tile::named(tile::AxisExtentOp::create(builder, op.getLoc(), builder.getI32Type(), axis), name);
  } else {
    builder.clone(inner, mapping);
    return;
  }
  mapping.map(inner.getResult(0), result);
}

Value attune::cloneFromRegion(OpBuilder &builder, attn::AttentionOp op, Value value, IRMapping &mapping) {
  if (!mapping.contains(value)) {
    Operation *definition = value.getDefiningOp();
    for (Value operand : definition->getOperands())
      cloneFromRegion(builder, op, operand, mapping);
    cloneFromRegion(builder, op, *definition, mapping);
  }
  return mapping.lookup(value);
}

bool attune::isNeeded(Value of, Value argument, const IRMapping &mapping) {
  SmallVector<Value> needed{of};
  DenseSet<Value> seen;
  while (!needed.empty()) {
    Value value = needed.pop_back_val();
    if (value == argument)
      return true;
    if (!seen.insert(value).second || mapping.contains(value) || !value.getDefiningOp())
      continue;
    llvm::append_range(needed, value.getDefiningOp()->getOperands());
  }
  return false;
}

Value attune::lengthOfSequence(OpBuilder &builder, attn::AttentionOp op, std::optional<StringRef> lengths, Value b,
                               Value capacity, StringRef name) {
  if (!lengths)
    return capacity;
  const Location loc = op.getLoc();
  Value length = tile::ElementOp::create(builder, loc, builder.getI32Type(),
                                         tile::readTensor(builder, loc, op.findTensor(*lengths)), b, false);
  Value least = arith::MaxSIOp::create(builder, loc, tile::named(length, *lengths),
                                       arith::ConstantIntOp::create(builder, loc, 0, 32));
  return tile::named(arith::MinSIOp::create(builder, loc, least, capacity), name);
}

void attune::declareReads(tile::KernelOp kernel, tile::KernelOp other) {
  auto declareWhere = [&](auto is) {
    SmallVector<Attribute> declared = llvm::to_vector(kernel.getOperandsAttr());
    for (auto operand : other.getOperandsAttr().getAsRange<tile::OperandAttr>())
      if (is(operand)) {
        declared.push_back(operand);
        return kernel.setOperandsAttr(ArrayAttr::get(kernel.getContext(), declared));
      }
  };
  kernel.walk([&](Operation *op) {
    if (auto extent = dyn_cast<tile::AxisExtentOp>(op); extent && !tile::hasExtent(kernel, extent.getAxis()))
      declareWhere([&](tile::OperandAttr operand) {
        return llvm::any_of(operand.getAxes(), [&](tile::AxisAttr axis) { return axis.getName() == extent.getAxis(); });
      });
    else if (auto param = dyn_cast<tile::ParamOp>(op); param && !tile::findOperand(kernel, param.getName()))
      declareWhere([&](tile::OperandAttr operand) { return operand.getName() == param.getName(); });
  });
}
