//===- BlockLoops.cpp - tile.domain and tile.for_blocks -----------------------===//

#include "ir/Terminators.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

void DomainOp::build(OpBuilder &builder, OperationState &result, StringRef axis, int64_t step, Value begin, Value end) {
  build(builder, result, DomainType::get(builder.getContext()), builder.getStringAttr(axis),
        builder.getI64IntegerAttr(step), begin, end, /*times=*/Value(), builder.getDenseBoolArrayAttr({true}),
        /*reverse=*/UnitAttr());
}

ParseResult DomainOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringRef axis, kind;
  int64_t step;
  SmallVector<OpAsmParser::UnresolvedOperand> begins, ends;
  SmallVector<bool> full;
  if (parser.parseKeyword(&axis) || parser.parseKeyword("by") || parser.parseInteger(step))
    return failure();
  while (succeeded(parser.parseOptionalLSquare())) {
    if (parser.parseOperand(begins.emplace_back()) || parser.parseComma() || parser.parseOperand(ends.emplace_back()) ||
        parser.parseRParen())
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&kind))
      return failure();
    if (kind != "full" && kind != "partial")
      return parser.emitError(loc, "expected 'full' or 'partial'");
    full.push_back(kind == "full");
  }
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    result.addAttribute("reverse", builder.getUnitAttr());
  SmallVector<OpAsmParser::UnresolvedOperand, 1> times;
  if (succeeded(parser.parseOptionalKeyword("times")) && parser.parseOperand(times.emplace_back()))
    return failure();
  for (StringRef name : {"where", "groups"}) {
    Region *region = result.addRegion();
    if (succeeded(parser.parseOptionalKeyword(name)) && parser.parseRegion(*region))
      return failure();
  }
  if (parser.parseOptionalAttrDict(result.attributes))
    return failure();
  Type i32 = builder.getI32Type();
  if (parser.resolveOperands(begins, i32, result.operands) || parser.resolveOperands(ends, i32, result.operands) ||
      parser.resolveOperands(times, i32, result.operands))
    return failure();
  result.addAttribute("axis", builder.getStringAttr(axis));
  result.addAttribute("step", builder.getI64IntegerAttr(step));
  result.addAttribute("full", builder.getDenseBoolArrayAttr(full));
  result.addAttribute(
      getOperandSegmentSizeAttr(),
      builder.getDenseI32ArrayAttr({int32_t(begins.size()), int32_t(ends.size()), int32_t(times.size())}));
  result.addTypes(DomainType::get(parser.getContext()));
  return success();
}

void DomainOp::print(OpAsmPrinter &printer) {
  printer << " " << getAxis() << " by " << getStep();
  for (auto [begin, end, full] : llvm::zip(getBegins(), getEnds(), getFull()))
    printer << " [" << begin << ", " << end << ") " << (full ? "full" : "partial");
  if (getReverse())
    printer << " reverse";
  if (getTimes())
    printer << " times " << getTimes();
  for (auto [name, region] : {std::pair(" where ", &getWhere()), {" groups ", &getGroups()}})
    if (!region->empty()) {
      printer << name;
      printer.printRegion(*region);
    }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"axis", "step", "full", "reverse", getOperandSegmentSizeAttr()});
}

/// Whether a region of tile.domain takes the index of a tile or group of tiles (i32) and optionally the number of the
/// iteration over the domain (i32), and yields as many i1 values as `flags` says.
static bool testsIndex(Region &region, size_t flags) {
  auto isFlag = [](Type type) { return type.isInteger(1); };
  auto isNumber = [](Type type) { return type.isInteger(32); };
  auto yield = terminatorOf<YieldOp>(region);
  return (region.getNumArguments() == 1 || region.getNumArguments() == 2) &&
         llvm::all_of(region.getArgumentTypes(), isNumber) && yield && yield.getValues().size() == flags &&
         llvm::all_of(yield.getValues().getTypes(), isFlag);
}

static bool hasEffects(Region &region) {
  return !region.empty() && llvm::any_of(region.front(), [](Operation &op) { return !isMemoryEffectFree(&op); });
}

LogicalResult DomainOp::verify() {
  if (getBegins().size() != getEnds().size() || getBegins().size() != getFull().size() || getBegins().empty())
    return emitOpError("needs at least one segment, each with a begin, an end and a kind");
  if (getStep() <= 0)
    return emitOpError("step must be positive");
  if (!getGroups().empty() && getWhere().empty())
    return emitOpError("has `groups` without `where`, which tests the tiles of a group one by one");
  if (!getWhere().empty() && !testsIndex(getWhere(), 2))
    return emitOpError(
        "the region of `where` takes a tile's index (i32), with `times` the iteration's (i32) too, and yields "
        "whether it is visited and whether it is full (i1, i1)");
  if (!getGroups().empty() && !testsIndex(getGroups(), 1))
    return emitOpError(
        "the region of `groups` takes a group's index (i32), with `times` the iteration's (i32) too, and yields "
        "whether any of its tiles may be visited (i1)");
  if (takesIteration() && !getTimes())
    return emitOpError("asks which round a tile is in, and has none; give it `times`");
  for (auto [name, region] : {std::pair("where", &getWhere()), {"groups", &getGroups()}})
    if (hasEffects(*region))
      return emitOpError() << "the region of `" << name << "` has effects";
  return success();
}

Value DomainOp::getVisible() {
  return getWhere().empty() ? Value() : cast<YieldOp>(getWhere().front().getTerminator()).getValues()[0];
}
Value DomainOp::getFullWhere() {
  return getWhere().empty() ? Value() : cast<YieldOp>(getWhere().front().getTerminator()).getValues()[1];
}
Value DomainOp::getAnyVisible() {
  return getGroups().empty() ? Value() : cast<YieldOp>(getGroups().front().getTerminator()).getValues()[0];
}
bool DomainOp::takesIteration() {
  return llvm::any_of((*this)->getRegions(), [](Region &region) { return region.getNumArguments() == 2; });
}
bool DomainOp::skips() { return getVisible() && !matchPattern(getVisible(), m_One()); }

LogicalResult TouchesOp::verify() {
  int64_t rank = getView().getType().getRank();
  if (int64_t(getIndices().size()) != rank || rank < 2)
    return emitOpError() << "takes " << std::max<int64_t>(rank, 2) << " indices for a pattern of rank " << rank
                         << ", the tile's first row and key last; got " << getIndices().size();
  if (!getView().getType().getElementType().isInteger(8))
    return emitOpError() << "reads flags, elements of i8; got " << getView().getType();
  for (int64_t size : {getTileRows(), getTileColumns(), getRows(), getColumns()})
    if (size <= 0)
      return emitOpError("sizes of tiles and blocks must be positive");
  return success();
}

//===----------------------------------------------------------------------===//
// tile.for_blocks
//===----------------------------------------------------------------------===//

void ForBlocksOp::build(OpBuilder &builder, OperationState &result, Value domain, ValueRange within, ValueRange inits) {
  OpBuilder::InsertionGuard guard(builder);
  result.getOrAddProperties<Properties>().operandSegmentSizes = {1, int32_t(within.size()), int32_t(inits.size())};
  result.addOperands(domain);
  result.addOperands(within);
  result.addOperands(inits);
  result.addTypes(inits.getTypes());
  Block *body = builder.createBlock(result.addRegion());
  body->addArgument(builder.getI32Type(), result.location);
  body->addArgument(builder.getI1Type(), result.location);
  if (auto of = domain.getDefiningOp<DomainOp>(); of && of.getTimes())
    body->addArgument(builder.getI32Type(), result.location);
  for (Value init : inits)
    body->addArgument(init.getType(), result.location);
}

YieldOp ForBlocksOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }
Value ForBlocksOp::getIteration() {
  return getBody().getNumArguments() > getInits().size() + 2 ? Value(getBody().getArgument(2)) : Value();
}
ValueRange ForBlocksOp::getCarried() { return ValueRange(getBody().getArguments()).take_back(getInits().size()); }

ParseResult ForBlocksOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments(2);
  OpAsmParser::UnresolvedOperand domain;
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  if (parser.parseLParen() || parser.parseArgument(arguments[0]) || parser.parseComma() ||
      parser.parseArgument(arguments[1]))
    return failure();
  if (succeeded(parser.parseOptionalComma()) && parser.parseArgument(arguments.emplace_back()))
    return failure();
  if (parser.parseRParen() || parser.parseKeyword("in") || parser.parseOperand(domain) ||
      parser.resolveOperand(domain, DomainType::get(parser.getContext()), result.operands))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = builder.getI32Type();
  arguments[1].type = builder.getI1Type();
  int32_t within = 0;
  if (succeeded(parser.parseOptionalKeyword("within"))) {
    OpAsmParser::UnresolvedOperand begin, end;
    if (parser.parseLSquare() || parser.parseOperand(begin) || parser.parseComma() || parser.parseOperand(end) ||
        parser.parseRParen() || parser.resolveOperands({begin, end}, builder.getI32Type(), result.operands))
      return failure();
    within = 2;
  }
  if (succeeded(parser.parseOptionalKeyword("iter_args"))) {
    auto parseCarried = [&]() -> ParseResult {
      OpAsmParser::Argument argument;
      if (parser.parseArgument(argument) || parser.parseEqual() || parser.parseOperand(inits.emplace_back()) ||
          parser.parseColonType(argument.type))
        return failure();
      arguments.push_back(argument);
      result.addTypes(argument.type);
      return parser.resolveOperand(inits.back(), argument.type, result.operands);
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseCarried))
      return failure();
  }
  result.getOrAddProperties<Properties>().operandSegmentSizes = {1, within, int32_t(inits.size())};
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, builder, result.location);
  return success();
}

void ForBlocksOp::print(OpAsmPrinter &printer) {
  printer << " (" << getOrigin() << ", " << getPartial();
  if (getIteration())
    printer << ", " << getIteration();
  printer << ") in " << getDomain();
  if (!getWithin().empty())
    printer << " within [" << getWithin()[0] << ", " << getWithin()[1] << ")";
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(getCarried(), getInits()), printer, [&](auto pair) {
      auto [argument, init] = pair;
      printer << argument << " = " << init << " : " << init.getType();
    });
    printer << ")";
  }
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
  printer.printOptionalAttrDict((*this)->getAttrs(), getOperandSegmentSizesAttrName().getValue());
}

LogicalResult ForBlocksOp::verify() {
  if (getWithin().size() == 1)
    return emitOpError("tiles lie within two ends, a begin and an end");
  const size_t places = getBody().getNumArguments() - getInits().size();
  if (getBody().getNumArguments() < getInits().size() || (places != 2 && places != 3) ||
      !getOrigin().getType().isInteger(32) || !getPartial().getType().isInteger(1) ||
      (getIteration() && !getIteration().getType().isInteger(32)))
    return emitOpError(
        "the body takes the first row (i32), the partial flag (i1), of a domain with `times` the iteration "
        "(i32), and the carried values");
  if (auto domain = getDomain().getDefiningOp<DomainOp>(); domain && bool(domain.getTimes()) != bool(getIteration()))
    return emitOpError() << (getIteration()
                                 ? "takes the iteration number of a domain that has none; give the domain `times`"
                                 : "goes over a domain with `times`; its body takes the iteration number, too");
  if (!llvm::equal(getCarried().getTypes(), getResultTypes()) || !llvm::equal(getInits().getTypes(), getResultTypes()))
    return emitOpError("initial values, carried values and results differ in type");
  auto yield = terminatorOf<YieldOp>(getBody());
  if (!yield || !llvm::equal(yield.getValues().getTypes(), getResultTypes()))
    return emitOpError("the yielded values differ in type from the results");
  return success();
}
