//===- Structure.cpp - Ops that structure a kernel: roles, tiles of work, messages, searches ----===//

#include "ir/Terminators.h"
#include "ir/sched/Sched.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

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

/// The number of block arguments of a sched.for_work that come before its loop-carried values: the number of the tile
/// of work, or the count of earlier tiles, or both.
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
