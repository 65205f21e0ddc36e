//===- Map.cpp - Builder, parser, folder and verifier of tile.map -------------===//

#include "ir/Terminators.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

/// The type of the region argument for an input of a map: 16-bit elements in shared memory are widened to f32.
static Type elementOf(TileType input) {
  return input.getSpace() == MemorySpace::Shared ? attn::valueType(input.getElementType()) : input.getElementType();
}

void MapOp::build(OpBuilder &builder, OperationState &state, Type result, ValueRange inputs,
                  ArrayRef<std::pair<StringRef, Value>> coordinates, Value onlyIf) {
  OpBuilder::InsertionGuard guard(builder);
  state.addOperands(inputs);
  SmallVector<StringRef> axes;
  for (auto [axis, origin] : coordinates) {
    state.addOperands(origin);
    axes.push_back(axis);
  }
  if (onlyIf)
    state.addOperands(onlyIf);
  auto &properties = state.getOrAddProperties<Properties>();
  properties.axes = builder.getStrArrayAttr(axes);
  properties.operandSegmentSizes = {int32_t(inputs.size()), int32_t(coordinates.size()), int32_t(bool(onlyIf))};
  state.addTypes(result);
  Block *body = builder.createBlock(state.addRegion());
  for (Value input : inputs)
    body->addArgument(elementOf(cast<TileType>(input.getType())), state.location);
  for (auto [axis, origin] : coordinates)
    body->addArgument(origin.getType(), state.location);
}

YieldOp MapOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

BlockArgument MapOp::getCoordinate(StringRef axis) {
  for (auto [i, name] : llvm::enumerate(getAxes().getAsValueRange<StringAttr>()))
    if (name == axis && getOrigins()[i].getType().isInteger(32))
      return getBody().getArgument(getInputs().size() + i);
  return {};
}

BlockArgument MapOp::addInput(Value input, Type element) {
  // Region arguments of inputs come before those of coordinates.
  const unsigned position = getInputs().size();
  getInputsMutable().append(input);
  return getBody().insertArgument(position, element, getLoc());
}

BlockArgument MapOp::addCoordinate(StringRef axis, Value origin) {
  SmallVector<Attribute> axes(getAxes().getValue());
  axes.push_back(StringAttr::get(getContext(), axis));
  setAxesAttr(ArrayAttr::get(getContext(), axes));
  getOriginsMutable().append(origin);
  return getBody().addArgument(origin.getType(), getLoc());
}

ParseResult MapOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::UnresolvedOperand> inputs, origins;
  SmallVector<Type> inputTypes, originTypes;
  SmallVector<StringRef> axes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLParen())
    return failure();
  if (failed(parser.parseOptionalRParen()))
    if (parser.parseOperandList(inputs) || parser.parseColonTypeList(inputTypes) || parser.parseRParen())
      return failure();
  if (succeeded(parser.parseOptionalKeyword("at"))) {
    auto parseOrigin = [&]() -> ParseResult {
      Type &type = originTypes.emplace_back(builder.getI32Type());
      return failure(parser.parseKeyword(&axes.emplace_back()) || parser.parseEqual() ||
                     parser.parseOperand(origins.emplace_back()) ||
                     (succeeded(parser.parseOptionalColon()) && parser.parseType(type)));
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOrigin))
      return failure();
  }
  if (parser.resolveOperands(inputs, inputTypes, loc, result.operands) ||
      parser.resolveOperands(origins, originTypes, loc, result.operands))
    return failure();
  bool hasCondition = succeeded(parser.parseOptionalKeyword("only_if"));
  if (hasCondition) {
    OpAsmParser::UnresolvedOperand condition;
    if (parser.parseOperand(condition) || parser.resolveOperand(condition, builder.getI1Type(), result.operands))
      return failure();
  }
  auto &properties = result.getOrAddProperties<Properties>();
  if (succeeded(parser.parseOptionalKeyword("columns"))) {
    int64_t begin, end;
    if (parser.parseInteger(begin) || parser.parseKeyword("to") || parser.parseInteger(end))
      return failure();
    properties.columns = builder.getDenseI64ArrayAttr({begin, end});
  }
  Type type;
  if (parser.parseArrow() || parser.parseType(type) || parser.parseRegion(*result.addRegion()) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  result.addTypes(type);
  properties.axes = builder.getStrArrayAttr(axes);
  properties.operandSegmentSizes = {int32_t(inputs.size()), int32_t(origins.size()), int32_t(hasCondition)};
  return success();
}

void MapOp::print(OpAsmPrinter &printer) {
  printer << "(";
  if (!getInputs().empty())
    printer << getInputs() << " : " << getInputs().getTypes();
  printer << ")";
  if (!getOrigins().empty()) {
    printer << " at(";
    llvm::interleaveComma(llvm::zip(getAxes().getAsValueRange<StringAttr>(), getOrigins()), printer, [&](auto pair) {
      auto [axis, origin] = pair;
      printer << axis << " = " << origin;
      if (!origin.getType().isInteger(32))
        printer << " : " << origin.getType();
    });
    printer << ")";
  }
  if (getOnlyIf())
    printer << " only_if " << getOnlyIf();
  if (std::optional<ArrayRef<int64_t>> columns = getColumns())
    printer << " columns " << columns->front() << " to " << columns->back();
  printer << " -> " << getResult().getType() << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"axes", "columns", getOperandSegmentSizeAttr()});
}

/// Folds a map that yields an input's element unchanged to that input.
OpFoldResult MapOp::fold(FoldAdaptor) {
  auto element = dyn_cast<BlockArgument>(getYield().getValues().front());
  if (!element || element.getOwner() != &getBody().front() || element.getArgNumber() >= getInputs().size())
    return {};
  Value input = getInputs()[element.getArgNumber()];
  if (input.getType() != getResult().getType() || (!isWhole() && element.getArgNumber() != 0))
    return {};
  return input;
}

LogicalResult MapOp::verify() {
  TileType result = getResult().getType();
  if (getOrigins().size() != getAxes().size())
    return emitOpError("needs one origin for each coordinate");
  for (StringRef axis : getAxes().getAsValueRange<StringAttr>())
    if (!result.hasAxis(axis))
      return emitOpError() << "result " << result << " has no axis " << axis;
  SmallVector<Type> expected;
  for (Value input : getInputs()) {
    auto type = cast<TileType>(input.getType());
    expected.push_back(elementOf(type));
    if (isByPart(result) && type.rank() != 2)
      return emitOpError() << "result " << result << " is by part and distance, which a map of vectors such as " << type
                           << " is not";
    if (isRelative(type) && result.hasAxis("q") && result.hasAxis("k")) {
      if (int64_t distances = result.size("q") + result.size("k") - 1; type.size(distanceAxis) != distances)
        return emitOpError() << "input " << type << " is indexed by q - k within " << result << ", which has "
                             << distances << " distances";
      continue;
    }
    for (auto [axis, size] : llvm::zip(type.getAxes(), type.getShape()))
      if (!result.hasAxis(axis.getValue()) || result.size(axis.getValue()) != size)
        return emitOpError() << "result " << result << " lacks axis " << axis.getValue() << " " << size << " of input "
                             << type;
  }
  llvm::append_range(expected, getOrigins().getTypes());
  if (!llvm::equal(getBody().getArgumentTypes(), expected))
    return emitOpError("the region takes one value for each input and one of its origin's type for each coordinate");
  auto yield = terminatorOf<YieldOp>(getBody());
  ValueRange values = yield ? ValueRange(yield.getValues()) : ValueRange();
  if (values.size() != 1 || values.front().getType() != result.getElementType())
    return emitOpError() << "the region must yield one " << result.getElementType();
  if (std::optional<ArrayRef<int64_t>> columns = getColumns()) {
    const int64_t size = result.getShape().back();
    if (result.rank() != 2 || columns->size() != 2 || columns->front() < 0 || columns->front() >= columns->back() ||
        columns->back() > size || columns->front() % 16 || columns->back() % 16)
      return emitOpError() << "columns must go from a multiple of 16 to a greater one within result " << result;
    if (getInputs().empty() || getInputs().front().getType() != result)
      return emitOpError("with columns the first input must have the type of the result");
  }
  if (getOnlyIf() && getInputs().empty() && result.rank() == 1) {
    for (Operation *user : getResult().getUsers())
      if (auto map = dyn_cast<MapOp>(user); !map || map.getOnlyIf() != getOnlyIf())
        return emitOpError("holds nothing where its flag is false; only maps with the same only_if may take it");
    return success();
  }
  if (getOnlyIf() && (getInputs().empty() || getInputs().front().getType() != result))
    return emitOpError("with only_if the first input must have the type of the result");
  return success();
}
