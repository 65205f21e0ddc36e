//===- Attributes.cpp - Attributes and types: layouts of tiles, roles, rings, pipeline stages of ops ----===//

#include "ir/sched/Sched.h"
#include "ir/sched/SwizzledLayout.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

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
SwizzleAttr SwizzleAttr::forBoxes(MLIRContext *context, int64_t bytes) { return get(context, panelForBoxes(bytes)); }
int64_t SwizzleAttr::paddedRow(int64_t bytes) const { return paddedToPanels(bytes, getPanel()); }

LogicalResult SwizzleAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t panel) {
  if (panel != 32 && panel != 64 && panel != 128)
    return emitError() << "a panel of " << panel << " bytes is not 32, 64 or 128";
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes on ops of other dialects
//===----------------------------------------------------------------------===//

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
  const bool hasEnd = attribute.getName() == longestFirstAttr && isa<StringAttr>(attribute.getValue());
  if (hasEnd && cast<StringAttr>(attribute.getValue()) != firstTiles)
    return op->emitOpError() << "has sched.longest_first = " << attribute.getValue() << "; write \"" << firstTiles
                             << "\" where the first tiles of the grid's last axis have the most work, and no value "
                                "where the last have";
  if (isMark && (!isa<attune::tile::KernelOp, KernelOp>(op) || !(isa<UnitAttr>(attribute.getValue()) || hasEnd)))
    return op->emitOpError() << "has " << attribute.getName() << ", which is a mark of a kernel";
  if (isMark && attribute.getName() != longestFirstAttr && isa<attune::tile::KernelOp>(op) && !producerWarps(op))
    return op->emitOpError() << "has " << attribute.getName()
                             << ", which is for kernels with producer warps; give sched.roles";
  if (attribute.getName() == functionAttr && (!isa<scf::ForOp>(op) || !isa<StringAttr>(attribute.getValue())))
    return op->emitOpError("has a sched.function, which is a name, a string, on an scf.for");
  if (attribute.getName() == asyncAttr && !isa<tile::MmaOp>(op))
    return op->emitOpError("is marked sched.async, but only products start and are waited for later");
  return success();
}
