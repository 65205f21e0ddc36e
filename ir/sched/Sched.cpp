//===- Sched.cpp - The sched dialect ----------------------------------------===//

#include "ir/sched/Sched.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

#include "ir/sched/SchedDialect.cpp.inc"
#include "ir/sched/SchedEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/sched/SchedAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "ir/sched/SchedOps.cpp.inc"

void SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/sched/SchedAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/sched/SchedOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

Attribute FragmentAttr::parse(AsmParser &parser, Type) {
  StringRef role;
  int64_t warps = 0;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) || parser.parseKeyword(&role) || parser.parseComma() ||
      parser.parseKeyword("warps") || parser.parseInteger(warps) || parser.parseGreater())
    return {};
  std::optional<FragmentRole> parsed = symbolizeFragmentRole(role);
  if (!parsed) {
    parser.emitError(loc, "expected a, b, c, rows or columns");
    return {};
  }
  return get(parser.getContext(), *parsed, warps);
}

void FragmentAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyFragmentRole(getRole()) << ", warps " << getWarps() << ">";
}

SmallVector<int64_t> FragmentAttr::laneShape(TileType type) const {
  int64_t first = type.getShape()[0];
  int64_t second = type.rank() > 1 ? type.getShape()[1] : 1;
  int64_t depth = type.getElementType().getIntOrFloatBitWidth() == 32 ? 8 : 16;
  switch (getRole()) {
  case FragmentRole::A:
    return {first / (16 * getWarps()), second / depth, 4};
  case FragmentRole::B:
    return {first / 8, second / depth, 2};
  case FragmentRole::C:
    return {first / (16 * getWarps()), second / 8, 4};
  case FragmentRole::Rows:
    return {first / (16 * getWarps()), 2};
  case FragmentRole::Columns:
    return {first / 8, 2};
  }
  llvm_unreachable("unknown fragment role");
}

LogicalResult SwizzleAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t panel) {
  if (panel != 32 && panel != 64 && panel != 128)
    return emitError() << "a panel of " << panel << " bytes is not 32, 64 or 128";
  return success();
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  if (getThreads() <= 0 || getThreads() % 32 || getThreads() > 1024)
    return emitOpError() << getThreads() << " threads is not a multiple of 32 up to 1024";
  int64_t end = 0;
  getBody().walk([&](SharedOp shared) {
    end = std::max(end, int64_t(shared.getOffset()) + shared.getResult().getType().bytes());
  });
  if (end > int64_t(getSharedBytes()))
    return emitOpError() << "shared buffers end at byte " << end << ", past shared_bytes " << getSharedBytes();
  return success();
}

ParseResult ForWorkOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef order;
  SMLoc loc = parser.getCurrentLocation();
  int64_t tileQ;
  if (parser.parseKeyword(&order) || parser.parseKeyword("tile_q") || parser.parseInteger(tileQ))
    return failure();
  std::optional<WorkOrder> parsed = symbolizeWorkOrder(order);
  if (!parsed)
    return parser.emitError(loc, "expected grid, persistent, atomic or split");
  result.addAttribute("order", WorkOrderAttr::get(parser.getContext(), *parsed));
  result.addAttribute("tile_q", parser.getBuilder().getI64IntegerAttr(tileQ));
  if (succeeded(parser.parseOptionalKeyword("longest_first")))
    result.addAttribute("longest_first", parser.getBuilder().getUnitAttr());
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = parser.getBuilder().getI32Type();
  return failure(parser.parseRegion(*result.addRegion(), arguments) ||
                 parser.parseOptionalAttrDict(result.attributes));
}

void ForWorkOp::print(OpAsmPrinter &printer) {
  printer << " " << stringifyWorkOrder(getOrder()) << " tile_q " << getTileQ()
          << (getLongestFirst() ? " longest_first (" : " (");
  llvm::interleaveComma(getBody().getArguments(), printer);
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {"order", "tile_q", "longest_first"});
}

LogicalResult ForWorkOp::verify() {
  if (getBody().getNumArguments() != 3)
    return emitOpError("the body takes batch, head and first query row");
  return success();
}

void ForTilesOp::build(OpBuilder &builder, OperationState &state, ValueRange inits, Value bound, ValueRange tiles) {
  OpBuilder::InsertionGuard guard(builder);
  state.addOperands(inits);
  state.addOperands(bound);
  state.addOperands(tiles);
  state.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  state.addTypes(tiles.getTypes());
  Block *body = builder.createBlock(state.addRegion());
  for (Value value : llvm::concat<Value>(SmallVector<Value>(inits), SmallVector<Value>(tiles)))
    body->addArgument(value.getType(), state.location);
}

ParseResult ForTilesOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> inits, tiles;
  SmallVector<Type> tileTypes;
  OpAsmParser::UnresolvedOperand bound;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren) || parser.parseEqual() ||
      parser.parseOperandList(inits, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("below") ||
      parser.parseOperand(bound))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = builder.getI32Type();
  if (succeeded(parser.parseOptionalKeyword("tiles"))) {
    auto parseTile = [&]() -> ParseResult {
      OpAsmParser::Argument argument;
      if (parser.parseArgument(argument) || parser.parseEqual() || parser.parseOperand(tiles.emplace_back()) ||
          parser.parseColonType(argument.type))
        return failure();
      tileTypes.push_back(argument.type);
      arguments.push_back(argument);
      return success();
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseTile))
      return failure();
  }
  Region *body = result.addRegion();
  if (parser.resolveOperands(inits, builder.getI32Type(), result.operands) ||
      parser.resolveOperand(bound, builder.getI32Type(), result.operands) ||
      parser.resolveOperands(tiles, tileTypes, loc, result.operands) || parser.parseRegion(*body, arguments) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, builder, result.location);
  result.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  result.addTypes(tileTypes);
  return success();
}

void ForTilesOp::print(OpAsmPrinter &printer) {
  auto arguments = getBody().getArguments();
  printer << " (";
  llvm::interleaveComma(arguments.take_front(getInits().size()), printer);
  printer << ") = (" << getInits() << ") below " << getBound();
  if (!getTiles().empty()) {
    printer << " tiles(";
    llvm::interleaveComma(llvm::zip(arguments.drop_front(getInits().size()), getTiles()), printer, [&](auto pair) {
      printer << std::get<0>(pair) << " = " << std::get<1>(pair) << " : " << std::get<1>(pair).getType();
    });
    printer << ")";
  }
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr()});
}

NextOp ForTilesOp::getNext() { return cast<NextOp>(getBody().front().getTerminator()); }

LogicalResult ForTilesOp::verify() {
  if (getInits().empty())
    return emitOpError("needs at least the tile index");
  SmallVector<Type> carried(getInits().getTypes());
  llvm::append_range(carried, getTiles().getTypes());
  if (!llvm::equal(getBody().getArgumentTypes(), carried) || !llvm::equal(getNext().getValues().getTypes(), carried))
    return emitOpError("initial, carried and next values differ in number or type");
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult SharedOp::verify() {
  if (getResult().getType().getSpace() != MemorySpace::Shared)
    return emitOpError() << "needs a shared tile, got " << getResult().getType();
  if (getOffset() % 128)
    return emitOpError() << "offset " << getOffset() << " is not a multiple of 128, which the swizzle relies on";
  return success();
}

LogicalResult RegistersOp::verify() {
  TileType type = getResult().getType();
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (type.getSpace() != MemorySpace::Register || !fragment)
    return emitOpError() << "needs a register tile with a #sched.fragment layout, got " << type;
  if (llvm::is_contained(fragment.laneShape(type), 0))
    return emitOpError() << "the tile " << type << " is smaller than one fragment a warp";
  return success();
}

static LogicalResult verifyLaneAccess(Operation *op, TileType type, OperandRange indices) {
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (!fragment)
    return op->emitOpError() << "needs a register buffer with a #sched.fragment layout, got " << type;
  SmallVector<int64_t> shape = fragment.laneShape(type);
  if (shape.size() != indices.size())
    return op->emitOpError() << "a lane's array has " << shape.size() << " dimensions, got " << indices.size()
                             << " indices";
  return success();
}

LogicalResult GetOp::verify() { return verifyLaneAccess(*this, getBuffer().getType(), getIndices()); }
LogicalResult SetOp::verify() { return verifyLaneAccess(*this, getBuffer().getType(), getIndices()); }

LogicalResult SlotOp::verify() {
  TileType ring = getRing().getType();
  if (!ring.hasAxis("stage") || ring.dropAxis("stage") != getResult().getType())
    return emitOpError("gives the ring's tile without its stage axis");
  return success();
}

LogicalResult SliceOp::verify() {
  ViewType view = getView().getType(), result = getResult().getType();
  if (view.getElementType() != result.getElementType() ||
      view.getRank() != result.getRank() + int64_t(getIndices().size()))
    return emitOpError("removes one leading dimension for each index");
  return success();
}

LogicalResult StoreElementOp::verify() {
  if (getView().getType().getRank() != int64_t(getIndices().size()))
    return emitOpError("needs one index for each dimension of the view");
  return success();
}

LogicalResult WaitCopiesOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  return success();
}

LogicalResult MmaOp::verify() {
  auto role = [](TileType type) {
    auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
    return fragment ? std::optional(fragment.getRole()) : std::nullopt;
  };
  if (role(getAcc().getType()) != FragmentRole::C || role(getA().getType()) != FragmentRole::A ||
      role(getB().getType()) != FragmentRole::B)
    return emitOpError("takes fragments c, a and b");
  return success();
}
