//===- Sched.cpp - Attributes, ops and verifiers of the sched dialect -------===//

#include "ir/sched/Sched.h"
#include "ir/NestedOps.h"
#include "ir/RegionText.h"
#include "ir/Terminators.h"
#include "ir/ValueNames.h"
#include "ir/sched/SwizzledLayout.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

#include "ir/sched/SchedDialect.cpp.inc"
#include "ir/sched/SchedEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/sched/SchedAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/sched/SchedTypes.cpp.inc"
#define GET_OP_CLASSES
#include "ir/sched/SchedOps.cpp.inc"

void SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/sched/SchedAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/sched/SchedTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/sched/SchedOps.cpp.inc"
      >();
  for (StringRef dialect : {"sched", "scf"})
    nameValues(getContext(), dialect);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

Attribute FragmentAttr::parse(AsmParser &parser, Type) {
  StringRef role;
  int64_t warps = 0, columnWarps = 1;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) || parser.parseKeyword(&role) || parser.parseComma() ||
      parser.parseKeyword("warps") || parser.parseInteger(warps))
    return {};
  if (succeeded(parser.parseOptionalKeyword("x")) && parser.parseInteger(columnWarps))
    return {};
  if (parser.parseGreater())
    return {};
  std::optional<FragmentRole> parsed = symbolizeFragmentRole(role);
  if (!parsed) {
    parser.emitError(loc, "expected a, b, c, rows, columns, lanes, threads, diagonals or distances");
    return {};
  }
  return parser.getChecked<FragmentAttr>(loc, parser.getContext(), *parsed, warps, columnWarps);
}

void FragmentAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyFragmentRole(getRole()) << ", warps " << getWarps();
  if (getColumnWarps() != 1)
    printer << " x " << getColumnWarps();
  printer << ">";
}

static LogicalResult verifyRoles(Operation *op, Attribute value) {
  auto roles = dyn_cast<ArrayAttr>(value);
  if (!isa<attune::tile::KernelOp>(op) || !roles || !llvm::all_of(roles, llvm::IsaPred<RoleAttr>))
    return op->emitOpError()
           << "has sched.roles of " << value
           << "; they stand on a tile.kernel, as [#sched.role<\"producer\", warps 4, registers 24>, ...]";
  llvm::StringSet<> names;
  for (auto role : roles.getAsRange<RoleAttr>())
    if (!names.insert(role.getName().getValue()).second)
      return op->emitOpError() << "has two roles of the name " << role.getName();
  return success();
}

LogicalResult SchedDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == atAttr && !isa<AtAttr>(attribute.getValue()))
    return op->emitOpError() << "has a sched.at of " << attribute.getValue()
                             << ", which does not say when it runs; write #sched.at<order 1>";
  auto hasRing = [&] {
    auto type = op->getNumResults() == 1 ? dyn_cast<TileType>(op->getResult(0).getType()) : TileType();
    return isa<attune::tile::AccumulateOp, attune::tile::StoreOp>(op) ||
           (isa<attune::tile::LoadOp, attune::tile::WindowOp, attune::tile::ConvertOp>(op) &&
            type.getSpace() == MemorySpace::Shared);
  };
  if (attribute.getName() == ringAttr && !isa<RingAttr>(attribute.getValue()))
    return op->emitOpError() << "has a sched.ring of " << attribute.getValue()
                             << ", which does not say how deep it is; write #sched.ring<stages 2>";
  if (attribute.getName() == ringAttr && !hasRing())
    return op->emitOpError("has a sched.ring, but gives no tile in shared memory, and takes none to memory");
  if (attribute.getName() == rolesAttr)
    return verifyRoles(op, attribute.getValue());
  const bool isMark = llvm::is_contained({persistentAttr, longestFirstAttr, pingPongAttr, overlapAttr, stageBiasesAttr},
                                         attribute.getName().getValue());
  if (isMark && (!isa<attune::tile::KernelOp, KernelOp>(op) || !isa<UnitAttr>(attribute.getValue())))
    return op->emitOpError() << "has " << attribute.getName() << ", which is a mark of a kernel";
  if (isMark && attribute.getName() != longestFirstAttr && isa<attune::tile::KernelOp>(op) && !fillingWarps(op))
    return op->emitOpError() << "has " << attribute.getName()
                             << ", which is for kernels with producer warps; give sched.roles";
  if (attribute.getName() == functionAttr && (!isa<scf::ForOp>(op) || !isa<StringAttr>(attribute.getValue())))
    return op->emitOpError("has a sched.function, which is a name, a string, on an scf.for");
  if (attribute.getName() == asyncAttr && !isa<tile::MmaOp>(op))
    return op->emitOpError("is marked sched.async, but only products start and are waited for later");
  return success();
}

Attribute AtAttr::parse(AsmParser &parser, Type) {
  int64_t stage = 0, order = 0;
  StringAttr pingPong;
  SMLoc loc = parser.getCurrentLocation();
  auto parseField = [&]() -> ParseResult {
    StringRef field;
    SMLoc at;
    if (parser.getCurrentLocation(&at) || parser.parseKeyword(&field))
      return failure();
    if (field == "stage")
      return parser.parseInteger(stage);
    if (field == "order")
      return parser.parseInteger(order);
    if (field == "ping_pong")
      return parser.parseAttribute(pingPong);
    return parser.emitError(at, "expected stage, order or ping_pong");
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return parser.getChecked<AtAttr>(loc, parser.getContext(), stage, order, pingPong);
}

void AtAttr::print(AsmPrinter &printer) const {
  printer << "<order " << getOrder();
  if (getStage())
    printer << ", stage " << getStage();
  if (getPingPong())
    printer << ", ping_pong " << getPingPong();
  printer << ">";
}

Attribute RingAttr::parse(AsmParser &parser, Type) {
  int64_t stages = 0, first = 0, last = 0;
  std::string role;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword("stages") || parser.parseInteger(stages))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseString(&role))
      return {};
    const bool one = succeeded(parser.parseOptionalKeyword("warp"));
    if ((!one && parser.parseKeyword("warps", ": expected warp or warps")) || parser.parseInteger(first))
      return {};
    last = first;
    if (!one && (parser.parseKeyword("to") || parser.parseInteger(last)))
      return {};
  }
  if (parser.parseGreater())
    return {};
  MLIRContext *context = parser.getContext();
  return parser.getChecked<RingAttr>(loc, context, stages, role.empty() ? StringAttr() : StringAttr::get(context, role),
                                     first, last - first + 1);
}

void RingAttr::print(AsmPrinter &printer) const {
  printer << "<stages " << getStages();
  if (getRole()) {
    printer << ", " << getRole() << (getWarps() == 1 ? " warp " : " warps ") << getFirstWarp();
    if (getWarps() > 1)
      printer << " to " << getFirstWarp() + getWarps() - 1;
  }
  printer << ">";
}

LogicalResult RingAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages, StringAttr,
                               int64_t firstWarp, int64_t warps) {
  if (stages < 1 || stages > 64)
    return emitError() << "a ring of " << stages << " stages; it has 1 to 64";
  if (firstWarp < 0 || warps < 1)
    return emitError() << "warps " << firstWarp << " to " << firstWarp + warps - 1 << " are none of a role";
  return success();
}

LogicalResult RoleAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, int64_t warps,
                               int64_t registers) {
  if (name.empty())
    return emitError() << "a role needs a name";
  if (warps < 1 || warps > 32)
    return emitError() << "role " << name << " has " << warps << " warps; a block has 1 to 32";
  if (registers && (registers < 24 || registers > 256 || registers % 8))
    return emitError() << "role " << name << " has " << registers
                       << " registers; a thread has 24 to 256 of them, a multiple of 8";
  return success();
}

LogicalResult AtAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stage, int64_t order,
                             StringAttr pingPong) {
  if (stage < 0 || stage > lastStage)
    return emitError() << "stage " << stage << " is not one of 0, a pass's own tile, to " << lastStage
                       << ", so many tiles before";
  if (order < 0)
    return emitError() << "order " << order << " is negative";
  if (pingPong && pingPong.empty())
    return emitError() << "ping_pong needs a name";
  return success();
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
    return {first / (16 * getWarps()), second / (8 * getColumnWarps()), 4};
  case FragmentRole::Rows:
    return {first / (16 * getWarps()), 2};
  case FragmentRole::Columns:
    return {first / (8 * getColumnWarps()), 2};
  case FragmentRole::Lanes:
    return {int64_t(llvm::divideCeil(first, 32))};
  case FragmentRole::Threads:
    return {int64_t(llvm::divideCeil(first, 32 * getWarps()))};
  case FragmentRole::Distances:
    return {int64_t(llvm::divideCeil(second, 32))};
  case FragmentRole::Diagonals:
    return {(first / getWarps() + second) / 8 - 1, 2};
  }
  llvm_unreachable("unknown fragment role");
}

LogicalResult FragmentAttr::verify(function_ref<InFlightDiagnostic()> emitError, FragmentRole role, int64_t warps,
                                   int64_t columnWarps) {
  if (warps < 1 || columnWarps < 1 || warps > 32 || columnWarps > 32 / warps) {
    InFlightDiagnostic error = emitError() << "a fragment over " << warps;
    if (columnWarps != 1)
      error << " x " << columnWarps;
    return error << " warps; a block has 1 to 32";
  }
  if (columnWarps > 1 && role != FragmentRole::C && role != FragmentRole::Columns)
    return emitError() << "columns of a fragment of role " << stringifyFragmentRole(role)
                       << " are not split over warps; only those of c and columns are";
  return success();
}

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages) {
  if (stages < 1)
    return emitError() << "a ring of " << stages << " stages; it needs at least 1";
  return success();
}

LogicalResult TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows, int64_t columns,
                                    Type elementType) {
  if (rows < 1 || rows > 256 || columns < 1 || columns > 256)
    return emitError() << "a box of " << rows << " x " << columns << " elements; each side is 1 to 256";
  if (columns * int64_t(elementType.getIntOrFloatBitWidth()) % 128)
    return emitError() << "a box whose rows have " << columns << " elements of " << elementType
                       << " is not a multiple of 16 bytes wide";
  return success();
}

SwizzleAttr SwizzleAttr::widest(MLIRContext *context, int64_t bytes) { return get(context, widestPanel(bytes)); }
SwizzleAttr SwizzleAttr::forBoxes(MLIRContext *context, int64_t bytes, bool singleRows) {
  return get(context, panelForBoxes(bytes, singleRows));
}
int64_t SwizzleAttr::paddedRow(int64_t bytes) const { return paddedToPanels(bytes, getPanel()); }

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
  // Offsets and sizes are nonnegative int64, so their sum fits uint64.
  uint64_t end = 0;
  getBody().walk([&](SharedOp shared) {
    end = std::max(end, shared.getOffset() + uint64_t(shared.getResult().getType().bytes()));
  });
  if (end > getSharedBytes())
    return emitOpError() << "shared buffers end at byte " << end << ", past shared_bytes " << getSharedBytes();
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  // setmaxnreg redistributes the registers that a thread block has at launch, an equal multiple of 8 for each thread.
  // If blocks_per_sm is too large, this multiple is 0.
  const int64_t threads = getThreads(), blocks = std::clamp<int64_t>(getBlocksPerSm(), 1, 65536);
  const int64_t ofThread = std::min<int64_t>(256, 65536 / (threads * blocks) / 8 * 8), atLaunch = ofThread * threads;
  int64_t warps = 0, registers = 0;
  for (RoleOp role : getBody().getOps<RoleOp>()) {
    warps += role.getWarps();
    registers += int64_t(role.getWarps()) * 32 * int64_t(role.getRegisters().value_or(ofThread));
  }
  if (warps && warps * 32 != int64_t(getThreads()))
    return emitOpError() << "roles have " << warps << " warps, the block has " << getThreads() / 32;
  if (registers > atLaunch)
    return emitOpError() << "roles take " << registers << " registers, a block of " << getThreads() << " threads has "
                         << atLaunch << " at its launch; give a role fewer";
  return success();
}

LogicalResult NextVisibleOp::verify() {
  auto takesIndex = [](Region &region) {
    return region.getNumArguments() == 1 && region.getArgument(0).getType().isInteger(32);
  };
  auto ofTile = terminatorOf<VisibleOp>(getCondition());
  if (!takesIndex(getCondition()) || !ofTile || !ofTile.getFull())
    return emitOpError("the region takes a tile's index (i32) and ends with sched.visible, of two flags");
  if (!getSeen().empty() && getSeen().size() != 3)
    return emitOpError("has ") << getSeen().size()
                               << " values of a search before; its origin, visible and full are needed";
  if (getGaps().size() % 2)
    return emitOpError("has ") << getGaps().size()
                               << " ends of tiles that it goes without; each two are a begin and an end";
  if (size_t asked = ofTile.getParts().size(); asked != getBegins().size())
    return emitOpError("the region asks for ") << asked << " parts of the rows, results are for " << getBegins().size();
  if (!getSeen().empty() && !getBegins().empty())
    return emitOpError(
        "finds parts' first tiles with answers of a search before, which say nothing of parts; search without `seen`");
  if (!getGroups().empty()) {
    auto ofGroup = terminatorOf<VisibleOp>(getGroups());
    if (!takesIndex(getGroups()) || !ofGroup || ofGroup->getNumOperands() != 1)
      return emitOpError("the region of `groups` takes a group's index (i32) and ends with sched.visible, of one flag");
  }
  for (Region *region : {&getCondition(), &getGroups()})
    if (!region->empty() && !llvm::all_of(region->front(), [](Operation &op) { return isMemoryEffectFree(&op); }))
      return emitOpError("the region has effects; the lanes of a warp evaluate it for different tiles");
  return success();
}

/// Builds the op with `in_role` if the insertion point is inside a sched.role.
void ThreadIdOp::build(OpBuilder &builder, OperationState &state) {
  Operation *parent = builder.getInsertionBlock()->getParentOp();
  if (isa<RoleOp>(parent) || parent->getParentOfType<RoleOp>())
    state.getOrAddProperties<Properties>().in_role = builder.getUnitAttr();
  state.addTypes(builder.getI32Type());
}

LogicalResult ThreadIdOp::verify() {
  if (getInRole() != bool((*this)->getParentOfType<RoleOp>()))
    return emitOpError(getInRole() ? "is `in_role` outside of a role" : "is in a role and not `in_role`");
  return success();
}

LogicalResult RoleOp::verify() {
  if (getWarps() < 1)
    return emitOpError("needs at least one warp");
  if (getWarps() > 32)
    return emitOpError() << getWarps() << " warps are more than a block has, 32";
  if (!getRegisters())
    return success();
  if (getWarps() % 4)
    return emitOpError() << getWarps() << " warps are not whole warpgroups, which `registers` needs";
  if (*getRegisters() < 24 || *getRegisters() > 256 || *getRegisters() % 8)
    return emitOpError() << *getRegisters() << " registers is not a multiple of 8 from 24 to 256";
  return success();
}

/// The number of block arguments of a sched.for_work that come before its loop-carried values.
static size_t positions(WorkOrder order) { return order == WorkOrder::Persistent ? 2 : 1; }

void ForWorkOp::build(OpBuilder &builder, OperationState &state, WorkOrder order, Value first, Value bound,
                      ValueRange inits) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.order = WorkOrderAttr::get(builder.getContext(), order);
  for (Value limit : {first, bound})
    if (limit)
      state.addOperands(limit);
  state.addOperands(inits);
  llvm::copy(ArrayRef<int32_t>{bool(first), bool(bound), int32_t(inits.size())},
             properties.operandSegmentSizes.begin());
  OpBuilder::InsertionGuard guard(builder);
  size_t arguments = positions(order) + inits.size();
  builder.createBlock(state.addRegion(), {}, SmallVector<Type>(arguments, builder.getI32Type()),
                      SmallVector<Location>(arguments, state.location));
}

NextOp ForWorkOp::getNext() { return terminatorOf<NextOp>(getBody()); }

OperandRange ForWorkOp::getNextCarried() { return getNext().getValues().take_back(getInits().size()); }

ParseResult ForWorkOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef order;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&order))
    return failure();
  std::optional<WorkOrder> parsed = symbolizeWorkOrder(order);
  if (!parsed)
    return parser.emitError(loc, "expected grid, persistent or received");
  auto &properties = result.getOrAddProperties<Properties>();
  properties.order = WorkOrderAttr::get(parser.getContext(), *parsed);
  const Type i32 = parser.getBuilder().getI32Type();
  SmallVector<OpAsmParser::UnresolvedOperand> limits, inits;
  if (succeeded(parser.parseOptionalKeyword("from")))
    if (parser.parseOperand(limits.emplace_back()) || parser.parseKeyword("below") ||
        parser.parseOperand(limits.emplace_back()))
      return failure();
  if (succeeded(parser.parseOptionalKeyword("carries")))
    if (parser.parseOperandList(inits, OpAsmParser::Delimiter::Paren))
      return failure();
  if (parser.resolveOperands(limits, i32, result.operands) || parser.resolveOperands(inits, i32, result.operands))
    return failure();
  llvm::copy(ArrayRef<int32_t>{!limits.empty(), !limits.empty(), int32_t(inits.size())},
             properties.operandSegmentSizes.begin());
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = i32;
  return failure(parser.parseRegion(*result.addRegion(), arguments) || parser.parseOptionalAttrDict(result.attributes));
}

void ForWorkOp::print(OpAsmPrinter &printer) {
  printer << " " << stringifyWorkOrder(getOrder());
  if (getFirst())
    printer << " from " << getFirst() << " below " << getBound();
  if (!getInits().empty())
    printer << " carries (" << getInits() << ")";
  printer << " (";
  llvm::interleaveComma(getBody().getArguments(), printer);
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {"order", "operandSegmentSizes"});
}

LogicalResult ForWorkOp::verify() {
  const WorkOrder order = getOrder();
  const bool persistent = order == WorkOrder::Persistent;
  if (!getInits().empty() && order == WorkOrder::Grid)
    return emitOpError("carries values, but a block has one tile in this order");
  if (persistent != bool(getFirst()) || persistent != bool(getBound()))
    return emitOpError("`from` and `below` belong to the order persistent, which has both");
  StringRef arguments = order == WorkOrder::Received ? "a count, and the carried values"
                        : !persistent                ? "the number of a tile"
                                                     : "the number of a tile, a count, and the carried values";
  if (getBody().getNumArguments() != positions(order) + getInits().size())
    return emitOpError("the body takes ") << arguments;
  TypeRange next = getNext() ? TypeRange(getNext().getValues()) : TypeRange();
  if (order != WorkOrder::Grid) {
    if (next.empty() || !next.front().isInteger(32))
      return emitOpError("`sched.next` must say first ")
             << (persistent ? "which tile of work is the next: its number, i32"
                            : "whether there is another tile of work: 1 or 0, i32");
    next = next.drop_front();
  }
  if (next != TypeRange(getInits()) || next != TypeRange(ValueRange(getCarried())))
    return emitOpError("initial, carried and next values differ in number or type");
  return success();
}

LogicalResult ClaimWorkOp::verify() {
  const WorkOrder order = cast<ForWorkOp>((*this)->getParentOp()).getOrder();
  if (order != WorkOrder::Persistent)
    return emitOpError() << "is for the order persistent, not " << stringifyWorkOrder(order);
  const ViewType view = getCounter().getType();
  const tile::OperandAttr operand = tile::operandOf(getCounter());
  if (!operand || operand.getRole() != OperandRole::Workspace || view.getRank() != 1 ||
      !view.getElementType().isInteger(32))
    return emitOpError() << "counts in a workspace operand of one dimension and i32, got " << view;
  return success();
}

/// Verifies that each stage of a shared tile holds a message (the integers of a sched.send) of 2, 4, 8 or 12 i32
/// fields, at least `values` of them. ld.shared.v2 and v4 read such a message.
static LogicalResult verifyMessage(Operation *op, TileType type, size_t values) {
  if (type.rank() != 3 || type.axis(0) != "stage" || type.getShape()[1] != 1 ||
      !llvm::is_contained({2, 4, 8, 12}, type.getShape()[2]) || !type.getElementType().isInteger(32) ||
      type.getSpace() != MemorySpace::Shared)
    return op->emitOpError("takes a shared tile of 1 x 2, 4, 8 or 12 i32 a stage, got ") << type;
  if (!values || int64_t(values) > type.getShape()[2])
    return op->emitOpError() << "has " << values << " values, a message of this tile 1 to " << type.getShape()[2];
  return success();
}

LogicalResult SendOp::verify() { return verifyMessage(*this, getShared().getType(), getValues().size()); }

LogicalResult ReceiveOp::verify() { return verifyMessage(*this, getShared().getType(), getNumResults()); }

void ForTilesOp::build(OpBuilder &builder, OperationState &state, ValueRange inits, Value bound, ValueRange tiles,
                       bool keeps) {
  OpBuilder::InsertionGuard guard(builder);
  state.addOperands(inits);
  state.addOperands(bound);
  state.addOperands(tiles);
  state.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  state.addTypes(tiles.getTypes());
  if (keeps) {
    state.getOrAddProperties<Properties>().keeps = builder.getUnitAttr();
    state.addTypes(inits.getTypes());
  }
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
  bool keeps = succeeded(parser.parseOptionalKeyword("keeps"));
  Region *body = result.addRegion();
  if (parser.resolveOperands(inits, builder.getI32Type(), result.operands) ||
      parser.resolveOperand(bound, builder.getI32Type(), result.operands) ||
      parser.resolveOperands(tiles, tileTypes, loc, result.operands) || parser.parseRegion(*body, arguments) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, builder, result.location);
  result.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  result.addTypes(tileTypes);
  if (keeps) {
    result.getOrAddProperties<Properties>().keeps = builder.getUnitAttr();
    result.addTypes(SmallVector<Type>(inits.size(), builder.getI32Type()));
  }
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
  printer << (getKeeps() ? " keeps " : " ");
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr(), "keeps"});
}

NextOp ForTilesOp::getNext() { return cast<NextOp>(getBody().front().getTerminator()); }

LogicalResult ForTilesOp::verify() {
  if (getInits().empty())
    return emitOpError("needs at least the tile index");
  SmallVector<Type> carried(getInits().getTypes());
  llvm::append_range(carried, getTiles().getTypes());
  auto next = terminatorOf<NextOp>(getBody());
  if (!next || !llvm::equal(getBody().getArgumentTypes(), carried) ||
      !llvm::equal(next.getValues().getTypes(), carried))
    return emitOpError("initial, carried and next values differ in number or type");
  SmallVector<Type> results(getTiles().getTypes());
  if (getKeeps())
    llvm::append_range(results, getInits().getTypes());
  if (!llvm::equal(getResultTypes(), results))
    return emitOpError("results are the tiles, with `keeps` then the carried i32 values");
  return success();
}

/// Whether the `i`-th carried value is used only to compute its own next value, so that the loop need not carry it.
static bool servesItself(ForTilesOp loop, unsigned i) {
  if (loop.getKeeps() && !loop.getKept()[i].use_empty())
    return false;
  Block &body = loop.getBody().front();
  llvm::SetVector<Value> follow;
  follow.insert(body.getArgument(i));
  for (size_t n = 0; n < follow.size(); ++n)
    for (OpOperand &use : follow[n].getUses()) {
      Operation *user = use.getOwner();
      if (user == loop.getNext() && use.getOperandNumber() == i)
        continue;
      if (user->getBlock() != &body || user->getNumRegions() || !isMemoryEffectFree(user) ||
          user->hasTrait<OpTrait::IsTerminator>())
        return false;
      follow.insert(user->result_begin(), user->result_end());
    }
  return true;
}

/// Replaces the loop by one without the `i`-th carried value, whose uses become uses of its initial value.
static void dropCarried(ForTilesOp loop, unsigned i, PatternRewriter &rewriter) {
  SmallVector<Value> inits(loop.getInits());
  Value init = inits[i];
  inits.erase(inits.begin() + i);
  auto fresh = ForTilesOp::create(rewriter, loop.getLoc(), inits, loop.getBound(), loop.getTiles(), loop.getKeeps());
  fresh->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  if (auto names = loop->getAttrOfType<ArrayAttr>(attune::tile::namesAttr); names && i < names.size()) {
    SmallVector<Attribute> kept(names.begin(), names.end());
    kept.erase(kept.begin() + i);
    fresh->setAttr(attune::tile::namesAttr, rewriter.getArrayAttr(kept));
  }
  NextOp next = loop.getNext();
  rewriter.modifyOpInPlace(next, [&] { next->eraseOperand(i); });
  Block &body = fresh.getBody().front();
  SmallVector<Value> arguments(body.getArguments());
  arguments.insert(arguments.begin() + i, init);
  rewriter.mergeBlocks(&loop.getBody().front(), &body, arguments);
  SmallVector<Value> results(fresh.getResults());
  if (loop.getKeeps())
    results.insert(results.begin() + loop.getTiles().size() + i, init);
  rewriter.replaceOp(loop, results);
}

LogicalResult ForTilesOp::canonicalize(ForTilesOp loop, PatternRewriter &rewriter) {
  for (unsigned i = 1; i < loop.getInits().size(); ++i) {
    const bool stays = loop.getNext().getValues()[i] == loop.getBody().getArgument(i);
    if (stays || servesItself(loop, i)) {
      dropCarried(loop, i, rewriter);
      return success();
    }
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

void SharedOp::build(OpBuilder &builder, OperationState &state, TileType type, StringRef name, Value over) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.name = builder.getStringAttr(name);
  properties.offset = builder.getI64IntegerAttr(0);
  if (over)
    state.addOperands(over);
  state.addTypes(type);
}

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
  int64_t columnWarps = fragment.getColumnWarps();
  if (columnWarps > 1 && type.getShape().back() % (8 * columnWarps))
    return emitOpError() << "the columns of " << type << " do not give each of " << columnWarps
                         << " warps a multiple of 8";
  if (auto kernel = (*this)->getParentOfType<KernelOp>();
      kernel && int64_t(kernel.getThreads()) / 32 < fragment.getWarps() * columnWarps)
    return emitOpError() << "the block has " << kernel.getThreads() / 32 << " warps, fewer than the "
                         << fragment.getWarps() * columnWarps << " that hold " << type;
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

Value attune::sched::describe(OpBuilder &builder, Location loc, tile::ParamOp view, int64_t rows, SwizzleAttr swizzle) {
  auto type = cast<ViewType>(view.getResult().getType());
  const int64_t columns = swizzle.getPanel() * 8 / type.getElementType().getIntOrFloatBitWidth();
  auto mapType = TensorMapType::get(builder.getContext(), rows, columns, type.getElementType());
  Value parameter = tile::ParamOp::create(builder, loc, type, view.getName());
  return tile::named(TensorMapOp::create(builder, loc, mapType, parameter, swizzle),
                     (view.getOwnName() + "_map").str());
}

AtAttr attune::sched::earliestPlace(Value read, Block &block) {
  Operation *first = nullptr;
  auto stageOf = [](Operation *op) { return placeOf(op) ? placeOf(op).getStage() : 0; };
  for (Operation *user : read.getUsers()) {
    Operation *op = block.findAncestorOpInBlock(*user);
    if (!first || stageOf(op) < stageOf(first) || (stageOf(op) == stageOf(first) && op->isBeforeInBlock(first)))
      first = op;
  }
  return first ? placeOf(first) : AtAttr();
}

int64_t attune::sched::fillingWarps(Operation *kernel) {
  auto roles = kernel->getAttrOfType<ArrayAttr>(rolesAttr);
  return roles && roles.size() > 1 ? cast<RoleAttr>(roles[0]).getWarps() : 0;
}

int64_t attune::sched::deepestRing(KernelOp kernel) {
  int64_t stages = 1;
  for (auto shared : kernel.getBody().getOps<SharedOp>())
    if (TileType type = shared.getResult().getType(); type.hasAxis("stage"))
      stages = std::max(stages, type.size("stage"));
  return stages;
}

bool attune::sched::isPersistent(KernelOp kernel) {
  return holds<ForWorkOp>(kernel, [](ForWorkOp work) { return work.getOrder() != WorkOrder::Grid; });
}

bool attune::sched::claimsWork(KernelOp kernel) { return holds<ClaimWorkOp>(kernel); }

bool attune::sched::waitsForLaunch(KernelOp kernel) { return holds<WaitLaunchOp>(kernel); }

bool attune::sched::accessesOperands(Operation *op) {
  auto isPlace = [](Type type) { return isa<ViewType, TensorMapType>(type); };
  return op
      ->walk([&](Operation *inner) {
        if (isa<InPairsOp>(inner) || llvm::any_of(inner->getResultTypes(), isPlace))
          return WalkResult::advance();
        for (Value operand : inner->getOperands())
          if (isPlace(operand.getType()) && !tile::capturedTensorOf(operand))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult SlotOp::verify() {
  TileType ring = getRing().getType();
  if (!ring.hasAxis("stage") || ring.dropAxis("stage") != getResult().getType())
    return emitOpError("gives the ring's tile without its stage axis");
  return success();
}

LogicalResult ExchangeOp::verify() {
  TileType ring = getRing().getType(), tile = getTile().getType(), result = getResult().getType();
  if (!ring.hasAxis("stage") || ring.dropAxis("stage") != result || ring.getSpace() != MemorySpace::Shared)
    return emitOpError("gives the ring's tile without its stage axis");
  if (ring.size("stage") < 2)
    return emitOpError("goes into a ring of one stage, whose readers it does not wait for");
  auto hasIt = [&](StringAttr axis) { return tile.hasAxis(axis) && tile.size(axis) == result.size(axis); };
  if (tile.getSpace() != MemorySpace::Register || tile.rank() != result.rank() ||
      !llvm::all_of(result.getAxes(), hasIt))
    return emitOpError() << "writes " << tile << " to " << result;
  return success();
}

LogicalResult ScaleSharedOp::verify() {
  TileType type = getShared().getType();
  if (type.getSpace() != MemorySpace::Shared || !type.getElementType().isBF16())
    return emitOpError() << "multiplies shared elements of bf16, got " << type;
  return success();
}

LogicalResult LoadSharedOp::verify() {
  if (getShared().getType().getElementType().isInteger(32) != getResult().getType().isInteger(32))
    return emitOpError() << "reads " << getResult().getType() << " from " << getShared().getType()
                         << ", whose elements are " << getShared().getType().getElementType();
  return success();
}

LogicalResult WaitLaunchOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return emitOpError("must be inside sched.kernel");
  if (!tile::isDependent(kernel))
    return emitOpError("is in a kernel that no tile.launch starts while another one runs");
  auto work = dyn_cast<ForWorkOp>((*this)->getParentOp());
  if (work && work.getOrder() != WorkOrder::Grid)
    return emitOpError("is in work that a block repeats; move it in front of that");
  for (Operation *at = *this; at != kernel; at = at->getParentOp())
    for (Operation *before = at->getPrevNode(); before; before = before->getPrevNode())
      if (isa<RoleOp, ForWorkOp>(before) || accessesOperands(before))
        return emitOpError("comes after ")
               << before->getName()
               << ", which may read what the kernel before writes; move it in front of all roles, work and accesses of "
                  "operands";
  return success();
}

LogicalResult LoadPairOp::verify() {
  Type element = getShared().getType().getElementType();
  if (getFirst().getType() != element || getSecond().getType() != element)
    return emitOpError() << "reads " << getFirst().getType() << " and " << getSecond().getType() << " from "
                         << getShared().getType() << ", whose elements are " << element;
  return success();
}

LogicalResult StoreSharedOp::verify() {
  Type element = getShared().getType().getElementType();
  if (getSecond() && !(getValue().getType().isF32() && element.isF32()))
    return emitOpError() << "writes a pair of " << getValue().getType() << " to elements of " << element
                         << ", where pairs are f32";
  return success();
}

LogicalResult SliceOp::verify() {
  ViewType view = getView().getType(), result = getResult().getType();
  const int64_t indices = int64_t(getIndices().size());
  if (view.getElementType() != result.getElementType() || result.getRank() > view.getRank() || indices < getDropped() ||
      indices > view.getRank())
    return emitOpError("removes one leading dimension for each index, and begins those that it keeps at others");
  if (!getBegins().empty() &&
      !llvm::all_of(getResult().getUsers(), llvm::IsaPred<LoadElementsOp, StoreElementsOp, StoreEightsOp>))
    return emitOpError("begins dimensions for what accesses several elements, sched.load_elements, "
                       "sched.store_elements and sched.store_eights; give the others their own indices");
  return success();
}

LogicalResult ExtentOp::verify() {
  if (int64_t(getDim()) < 0 || int64_t(getDim()) >= getView().getType().getRank())
    return emitOpError() << "asks for dimension " << getDim() << " of " << getView().getType();
  return success();
}

/// Verifies that `op` accesses one element of a view of f32, or of i64 if `isInteger`. `does` is the verb in the error
/// text.
template <typename ElementsOp> static LogicalResult verifyPlace(ElementsOp op, StringRef does, bool isInteger = false) {
  ViewType view = op.getView().getType();
  const Type element = view.getElementType();
  if (view.getRank() != int64_t(op.getIndices().size()) || !(isInteger ? element.isInteger(64) : element.isF32()))
    return op.emitOpError() << does << " a view of " << (isInteger ? "i64" : "f32")
                            << " with one index for each dimension, got " << view << " and " << op.getIndices().size();
  return success();
}

/// Whether the elements of `view` are floats, which can be accessed in pairs.
static bool hasFloats(ViewType view) {
  const Type element = view.getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

LogicalResult InPairsOp::verify() {
  ViewType view = getView().getType();
  if (!hasFloats(view) || view.getRank() == 0)
    return emitOpError() << "asks for pairs of f32, bf16 or f16 along a last dimension, got " << view;
  return success();
}

/// Verifies that `op` accesses a pair of elements of a view of floats. `does` is the verb in the error text.
template <typename PairOp> static LogicalResult verifyPair(PairOp op, StringRef does) {
  ViewType view = op.getView().getType();
  if (!hasFloats(view) || view.getRank() == 0 || view.getRank() != int64_t(op.getIndices().size()))
    return op.emitOpError() << does << " pairs of f32, bf16 or f16 with one index for each dimension, got " << view
                            << " and " << op.getIndices().size();
  return success();
}

LogicalResult LoadElementsOp::verify() { return verifyPair(*this, "reads"); }

LogicalResult StoreElementsOp::verify() { return verifyPair(*this, "writes"); }

/// Whether the elements of `view` are 16-bit floats, of which one access of 16 bytes covers eight.
static bool hasHalves(ViewType view) { return view.getElementType().isBF16() || view.getElementType().isF16(); }

LogicalResult StoreEightsOp::verify() {
  const ViewType view = getView().getType();
  if (!hasHalves(view) || view.getRank() == 0 || view.getRank() != int64_t(getIndices().size()) ||
      getValues().size() != 8)
    return emitOpError() << "writes eight values to a view of bf16 or f16 with one index for each dimension, got "
                         << getValues().size() << ", " << view << " and " << getIndices().size();
  return success();
}

LogicalResult StoreElementOp::verify() {
  if (getView().getType().getRank() != int64_t(getIndices().size()))
    return emitOpError("needs one index for each dimension of the view");
  if (attn::valueType(getView().getType().getElementType()) != getValue().getType())
    return emitOpError() << "writes " << getValue().getType() << " to " << getView().getType();
  return success();
}

/// Verifies that `op` accesses one element of a view of bytes.
template <typename ByteOp> static LogicalResult verifyByte(ByteOp op) {
  ViewType view = op.getView().getType();
  if (view.getRank() != int64_t(op.getIndices().size()) || !view.getElementType().isInteger(8))
    return op.emitOpError() << "takes a view of i8 with one index for each dimension, got " << view << " and "
                            << op.getIndices().size();
  return success();
}

LogicalResult LoadByteOp::verify() { return verifyByte(*this); }
LogicalResult StoreByteOp::verify() { return verifyByte(*this); }

LogicalResult AddElementsOp::verify() {
  if (failed(verifyPlace(*this, "adds to")))
    return failure();
  if (getValues().size() != 1 && getValues().size() != 2)
    return emitOpError() << "adds one value or two side by side, got " << getValues().size();
  return success();
}

LogicalResult AddIntegerOp::verify() { return verifyPlace(*this, "adds to", /*isInteger=*/true); }

LogicalResult CopyAsyncOp::verify() {
  const TileType shared = getShared().getType();
  const int64_t rank = getView().getType().getRank(), axes = shared.rank() - (shared.axis(0) == "stage");
  if (rank != axes || rank > 2)
    return emitOpError() << "copies rows of two dimensions, or a vector of one, got a view of rank " << rank << " for "
                         << shared;
  const unsigned bits = shared.getElementType().getIntOrFloatBitWidth();
  if (rank == 1 && bits != 32)
    return emitOpError() << "copies elements of a vector of 32 bits each, got " << bits;
  return success();
}

LogicalResult WaitCopiesOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  return success();
}

//===----------------------------------------------------------------------===//
// Rings and TMA
//===----------------------------------------------------------------------===//

LogicalResult RingOp::verify() {
  if (getOffset() % 8)
    return emitOpError() << "offset " << getOffset() << " is not a multiple of 8, the size of a barrier";
  if (int64_t(getFilledBy()) < 1 || int64_t(getEmptiedBy()) < 1)
    return emitOpError("needs at least one arrival to fill a stage and one to empty it");
  return success();
}

/// Verifies the shared tile to which an accumulator (a fragment of role `c`) is stored. If n warpgroups split the
/// columns of the accumulator, the shared tile has the n column slices one below the other: n times the rows and 1 / n
/// of the columns.
static LogicalResult verifyStored(StoreTileOp op, FragmentAttr fragment, TileType shared) {
  TileType tile = op.getTile().getType();
  const int64_t shares = fragment.getColumnWarps();
  if (!isa_and_nonnull<SwizzleAttr>(shared.getLayout()) || shared.rank() != 3 || shared.axis(1) != tile.axis(0) ||
      shared.axis(2) != tile.axis(1) || shared.getShape()[1] != tile.getShape()[0] * shares ||
      shared.getShape()[2] * shares != tile.getShape()[1])
    return op.emitOpError() << "stores " << tile << " to swizzled stages of " << tile.getShape()[0] * shares
                            << " rows of " << tile.getShape()[1] / shares << ", got " << shared;
  const Type element = shared.getElementType();
  if (element != tile.getElementType() && !(tile.getElementType().isF32() && (element.isBF16() || element.isF16())))
    return op.emitOpError() << "stores " << tile.getElementType() << " to stages of " << element
                            << "; it rounds f32 to bf16 or f16, and converts nothing else";
  return success();
}

LogicalResult StoreTileOp::verify() {
  TileType tile = getTile().getType(), shared = getShared().getType();
  auto fragment = dyn_cast_or_null<FragmentAttr>(tile.getLayout());
  const FragmentRole wanted = tile.rank() == 2 ? FragmentRole::C : FragmentRole::Threads;
  if (tile.rank() > 2 || !fragment || fragment.getRole() != wanted)
    return emitOpError() << "stores a tile of one axis in layout threads, or of two in layout c, got " << tile;
  if (shared.getSpace() != MemorySpace::Shared || !shared.hasAxis("stage"))
    return emitOpError() << "stores to stages of the same tile, got " << shared;
  if (tile.rank() == 2)
    return verifyStored(*this, fragment, shared);
  if (shared.getLayout() || shared.rank() != 2 || shared.axis(1) != tile.axis(0) ||
      shared.getShape()[1] != tile.getShape()[0] || shared.getElementType() != tile.getElementType())
    return emitOpError() << "stores to stages of the same tile, got " << shared;
  return success();
}

LogicalResult WriteTileOp::verify() {
  TileType shared = getShared().getType();
  if (shared.rank() != 3 || !shared.hasAxis("stage") || !isa_and_nonnull<SwizzleAttr>(shared.getLayout()) ||
      shared.getShape()[1] % 64)
    return emitOpError() << "writes swizzled stages of 64 rows a warpgroup, got " << shared;
  const int64_t groups = shared.getShape()[1] / 64, shares = getColumnSplits();
  if (shares < 1 || groups % shares)
    return emitOpError() << shares << " shares of columns are not those of " << groups << " warpgroups";
  if (getView().getType().getRank() != 4 || getIndices().size() != 3)
    return emitOpError() << "writes to a view of four dimensions at three indices, got " << getView().getType()
                         << " at " << getIndices().size();
  if (shared.getElementType() != getView().getType().getElementType())
    return emitOpError() << "writes " << shared.getElementType() << " to " << getView().getType()
                         << "; TMA converts nothing";
  if (getAdds() && !shared.getElementType().isF32())
    return emitOpError() << "adds " << shared.getElementType() << ", where TMA adds f32";
  return success();
}

LogicalResult ExpectBytesOp::verify() {
  if (int64_t(getBytes()) < 16 || getBytes() % 16)
    return emitOpError() << getBytes() << " bytes is not a positive multiple of 16";
  return success();
}

static LogicalResult verifyNamedBarrier(Operation *op, uint64_t threads) {
  if (threads < 32 || threads > 1024 || threads % 32)
    return op->emitOpError() << threads << " threads is not a multiple of 32 up to 1024";
  return success();
}
LogicalResult SyncWarpsOp::verify() { return verifyNamedBarrier(*this, getThreads()); }
LogicalResult ArriveWarpsOp::verify() { return verifyNamedBarrier(*this, getThreads()); }

LogicalResult TensorMapOp::verify() {
  TensorMapType map = getResult().getType();
  const int64_t rank = getView().getType().getRank();
  if (rank < 2 || rank > 4 || getView().getType().getElementType() != map.getElementType())
    return emitOpError() << "needs a view of two to four dimensions, rows and columns last, of "
                         << map.getElementType();
  int64_t bytes = map.getColumns() * map.getElementType().getIntOrFloatBitWidth() / 8;
  if (bytes != getSwizzle().getPanel())
    return emitOpError() << "boxes are " << bytes << " bytes wide, panels " << getSwizzle().getPanel();
  return success();
}

/// Verifies that a box of `map` is a panel of `shared`: all rows of the panel, or a divisor of them unless
/// `wholePanel`.
static LogicalResult verifyBox(Operation *op, TensorMapType map, TileType shared, bool wholePanel) {
  auto swizzle = dyn_cast_or_null<SwizzleAttr>(shared.getLayout());
  if (shared.getSpace() != MemorySpace::Shared || !swizzle || shared.rank() != 3 || shared.axis(0) != "stage" ||
      shared.getElementType() != map.getElementType())
    return op->emitOpError() << "needs a swizzled shared tile of stages, rows and columns of " << map.getElementType()
                             << ", got " << shared;
  int64_t rows = shared.getShape()[1], bytes = map.getColumns() * map.getElementType().getIntOrFloatBitWidth() / 8;
  if (bytes != swizzle.getPanel() || (wholePanel ? map.getRows() != rows : rows % map.getRows() != 0))
    return op->emitOpError() << "boxes of " << map.getRows() << " x " << map.getColumns() << " are not the panels of "
                             << shared;
  return success();
}
LogicalResult LoadBoxOp::verify() {
  return verifyBox(*this, getMap().getType(), getShared().getType(), !getSharedRow());
}
LogicalResult StoreBoxOp::verify() {
  if (getAdds() && !getMap().getType().getElementType().isF32())
    return emitOpError() << "adds " << getMap().getType().getElementType() << ", where only f32 is added";
  return verifyBox(*this, getMap().getType(), getShared().getType(), false);
}

LogicalResult AddRowsOp::verify() {
  TileType shared = getShared().getType();
  if (shared.getSpace() != MemorySpace::Shared || shared.rank() != 3 || !shared.getElementType().isF32() ||
      shared.getLayout() || !getView().getType().getElementType().isF32())
    return emitOpError("adds rows of an f32 tile of stages, rows and columns, without a swizzle, to a view of f32");
  return success();
}

LogicalResult WaitBoxesOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  return success();
}

//===----------------------------------------------------------------------===//
// Matrix instructions
//===----------------------------------------------------------------------===//

static std::optional<FragmentRole> roleOf(TileType type) {
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  return fragment ? std::optional(fragment.getRole()) : std::nullopt;
}

LogicalResult MmaAsyncOp::verify() {
  TileType acc = getAcc().getType(), a = getA().getType(), b = getB().getType();
  if (roleOf(acc) != FragmentRole::C || !acc.getElementType().isF32() ||
      acc.getShape()[0] != 16 * cast<FragmentAttr>(acc.getLayout()).getWarps())
    return emitOpError() << "needs an f32 c fragment of 16 rows a warp, got " << acc;
  const int64_t columnWarps = cast<FragmentAttr>(acc.getLayout()).getColumnWarps(), columns = acc.getShape()[1];
  if (columns % (8 * columnWarps) || columns / columnWarps > 256)
    return emitOpError() << "has " << columns << " columns"
                         << (columnWarps == 1 ? ", which is" : ", of which a warp's share is")
                         << " not a multiple of 8 up to 256";
  bool registers = roleOf(a) == FragmentRole::A;
  auto isPanel = [](TileType type) {
    return type.getSpace() == MemorySpace::Shared && isa_and_nonnull<SwizzleAttr>(type.getLayout()) && type.rank() == 3;
  };
  if (!registers && !isPanel(a))
    return emitOpError() << "needs an a fragment or a swizzled shared tile on the left, got " << a;
  if (registers && getTransposeLeft())
    return emitOpError("transposes a left operand in registers; only a shared one is stored by columns");
  if (getAIndices().size() != (registers ? 2 : 3))
    return emitOpError() << "needs " << (registers ? 2 : 3) << " indices of the left operand, got "
                         << getAIndices().size();
  if (!isPanel(b))
    return emitOpError() << "needs a swizzled shared tile on the right, got " << b;
  if (a.getElementType() != b.getElementType() || a.getElementType().getIntOrFloatBitWidth() != 16)
    return emitOpError() << "multiplies 16-bit floats of one type, got " << a.getElementType() << " and "
                         << b.getElementType();
  if (b.getShape()[getTranspose() ? 2 : 1] != acc.getShape()[1])
    return emitOpError() << "right operand " << b << " does not have the " << acc.getShape()[1] << " columns of "
                         << acc;
  return success();
}

LogicalResult MmaWaitOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  for (Value tile : getCompletes())
    if (!roleOf(cast<TileType>(tile.getType())))
      return emitOpError() << "completes register tiles, got " << tile.getType();
  return success();
}

LogicalResult MmaOp::verify() {
  if (roleOf(getAcc().getType()) != FragmentRole::C || roleOf(getA().getType()) != FragmentRole::A ||
      roleOf(getB().getType()) != FragmentRole::B)
    return emitOpError("takes fragments c, a and b");
  return success();
}
