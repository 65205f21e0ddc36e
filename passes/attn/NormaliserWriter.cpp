//===- NormaliserWriter.cpp - Emit a normaliser's regions in kernels ------===//

#include "passes/attn/NormaliserWriter.h"

using namespace mlir;
using namespace attune;

Value NormaliserWriter::floatConstant(float value) {
  Value &known = floats[llvm::bit_cast<uint32_t>(value)];
  if (!known) {
    OpBuilder::InsertionGuard guard(builder);
    if (Operation *loop = builder.getInsertionBlock()->getParentOp(); isa<tile::ForBlocksOp>(loop))
      builder.setInsertionPoint(loop);
    known = constant(value);
  }
  return known;
}

Value NormaliserWriter::mapByRegion(StringRef name, Type type, Region &region, ValueRange values,
                                    function_ref<Value(Value)> finish) {
  Block &body = region.front();
  IRMapping mapping;
  mapping.map(body.getArgument(0), b);
  mapping.map(body.getArgument(1), h);
  for (auto constant : body.getOps<arith::ConstantOp>())
    if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
      mapping.map(constant.getResult(), floatConstant(value.getValue().convertToFloat()));
  SmallVector<Value> inputs, read;
  for (auto [argument, value] : llvm::zip(body.getArguments().drop_front(2), values))
    if (!argument.use_empty()) {
      inputs.push_back(value);
      read.push_back(argument);
    }
  // In a packed group each row has its own head.
  SmallVector<std::pair<StringRef, Value>> coordinates;
  if (group && !body.getArgument(1).use_empty())
    coordinates.emplace_back("q", row0);
  return map(name, type, inputs, coordinates, [&](tile::MapOp map) {
    mapping.map(read, map.getBody().getArguments().take_front(inputs.size()));
    if (!coordinates.empty())
      mapping.map(body.getArgument(1), queryPlace(map.getCoordinate("q")).head);
    cloneOps(body, mapping);
    return finish(mapping.lookup(yieldOf(region)));
  });
}

Value NormaliserWriter::inverseOf(ValueRange statistics, Value keepScale) {
  Region &divisor = op.getDivisor();
  if (divisor.empty())
    return keepScale;
  Value numerator = keepScale ? keepScale : constant(1), zero = floatConstant(0);
  // If the divisor is just one of the statistics, the map is named after that statistic.
  auto named = dyn_cast<BlockArgument>(yieldOf(divisor));
  std::string name = named ? op.normaliserArgument(divisor, named.getArgNumber()) : "divisor";
  return mapByRegion("inverse_" + name, statistics.front().getType(), divisor, statistics, [&](Value value) {
    Value none = compare(arith::CmpFPredicate::OEQ, value, zero);
    return select(none, zero, divide(numerator, value));
  });
}
