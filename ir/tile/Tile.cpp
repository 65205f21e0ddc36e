//===- Tile.cpp - Ops of the tile dialect -----------------------------------===//

#include "ir/tile/Tile.h"
#include "ir/Terminators.h"
#include "ir/ValueNames.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

// `[@partial, @combine dependent]`
static ParseResult parseKernels(OpAsmParser &parser, ArrayAttr &kernels, DenseBoolArrayAttr &dependent);
static void printKernels(OpAsmPrinter &printer, LaunchOp, ArrayAttr kernels, DenseBoolArrayAttr dependent);

#include "ir/tile/TileDialect.cpp.inc"
#include "ir/tile/TileEnums.cpp.inc"
#define GET_OP_CLASSES
#include "ir/tile/TileOps.cpp.inc"

void TileDialect::initialize() {
  registerTypesAndAttributes();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/TileOps.cpp.inc"
      >();
  for (StringRef dialect : {"tile", "arith", "math"})
    nameValues(getContext(), dialect);
}

Value tile::named(Value value, StringRef name) {
  value.getDefiningOp()->setAttr(nameAttr, StringAttr::get(value.getContext(), name));
  return value;
}

StringRef tile::nameOf(Value value) {
  if (Operation *op = value.getDefiningOp())
    if (auto name = op->getAttrOfType<StringAttr>(nameAttr))
      return name.getValue();
  return "";
}

Operation *tile::kernelAround(Operation *op) {
  while (op && !op->hasAttr("operands"))
    op = op->getParentOp();
  return op;
}

OperandAttr tile::findOperand(Operation *kernel, StringRef name) {
  for (auto operand : kernel->getAttrOfType<ArrayAttr>("operands").getAsRange<OperandAttr>())
    if (operand.getName() == name)
      return operand;
  return {};
}

OperandAttr tile::operandOf(Value view) {
  auto param = view.getDefiningOp<ParamOp>();
  return param ? findOperand(kernelAround(param), param.getName()) : OperandAttr();
}

/// The captured tensor `name` of a kernel.
static CapturedTensorAttr findTensor(Operation *kernel, StringRef name) {
  if (auto tensors = kernel->getAttrOfType<ArrayAttr>("tensors"))
    for (auto tensor : tensors.getAsRange<CapturedTensorAttr>())
      if (tensor.getName() == name)
        return tensor;
  return {};
}

CapturedTensorAttr tile::capturedTensorOf(Value view) {
  auto param = view.getDefiningOp<ParamOp>();
  return param && param.getName().starts_with(tensorPrefix) ? findTensor(kernelAround(param), param.getOwnName())
                                                            : CapturedTensorAttr();
}

/// Whether a launch of the module starts, `ahead` places behind `kernel`, a dependent kernel.
static bool startsDependent(Operation *kernel, size_t ahead) {
  auto module = kernel->getParentOfType<ModuleOp>();
  StringAttr name = SymbolTable::getSymbolName(kernel);
  if (!module || !name)
    return false;
  for (auto launch : module.getOps<LaunchOp>()) {
    ArrayRef<bool> dependent = launch.getDependent();
    for (auto [i, started] : llvm::enumerate(launch.getKernels().getAsRange<FlatSymbolRefAttr>()))
      if (started.getAttr() == name && i + ahead < dependent.size() && dependent[i + ahead])
        return true;
  }
  return false;
}

bool tile::isDependent(Operation *kernel) { return startsDependent(kernel, 0); }
bool tile::precedesDependent(Operation *kernel) { return startsDependent(kernel, 1); }

void tile::explain(Operation *op, const Twine &text) {
  std::string all = text.str();
  if (auto before = op->getAttrOfType<StringAttr>(commentAttr)) {
    if (before.getValue().contains(all))
      return;
    all = before.getValue().str() + "; " + all;
  }
  op->setAttr(commentAttr, StringAttr::get(op->getContext(), all));
}

void tile::remark(Operation *kernel, const Twine &text) {
  Builder builder(kernel->getContext());
  SmallVector<Attribute> all;
  if (auto before = kernel->getAttrOfType<ArrayAttr>(remarksAttr))
    llvm::append_range(all, before);
  if (Attribute entry = builder.getStringAttr(text); !llvm::is_contained(all, entry))
    all.push_back(entry);
  kernel->setAttr(remarksAttr, builder.getArrayAttr(all));
}

int64_t tile::storedColumns(KernelOp kernel) {
  int64_t columns = 0;
  kernel.walk([&](StoreOp store) {
    if (OperandAttr operand = operandOf(store.getView()))
      columns = std::max(columns, operand.getColumns());
  });
  return columns;
}

Value tile::readTensor(OpBuilder &builder, Location loc, CapturedTensorAttr tensor) {
  StringRef name = tensor.getName();
  Type type = ViewType::get(tensor.getContext(), tensor.getRank(), tensor.getElementType());
  return named(ParamOp::create(builder, loc, type, (tensorPrefix + name).str()), name);
}

Value tile::readScalar(OpBuilder &builder, Location loc, StringRef name, Type type) {
  return named(ParamOp::create(builder, loc, type, (scalarPrefix + name).str()), name);
}

ParseResult tile::parseOperands(OpAsmParser &parser, ArrayAttr &operands) {
  SmallVector<Attribute> all;
  auto parseOne = [&]() -> ParseResult {
    // Without the angle brackets of an operand that stands alone.
    Attribute operand = OperandAttr::parseBare(parser);
    all.push_back(operand);
    return success(bool(operand));
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  operands = parser.getBuilder().getArrayAttr(all);
  return success();
}

void tile::printOperands(OpAsmPrinter &printer, Operation *, ArrayAttr operands) {
  printer << "(";
  llvm::interleaveComma(operands.getAsRange<OperandAttr>(), printer,
                        [&](OperandAttr operand) { operand.printBare(printer); });
  printer << ")";
}

/// Each axis of the grid, once, has an extent that the launch gives.
static LogicalResult verifyGrid(Operation *kernel, ArrayAttr grid) {
  llvm::StringSet<> names;
  for (auto axis : grid.getAsRange<AxisAttr>()) {
    if (!names.insert(axis.getName()).second)
      return kernel->emitOpError() << "has axis " << axis.getName().getValue() << " twice in its grid";
    if (!axis.isFixed() && !hasExtent(kernel, axis.getName()))
      return kernel->emitOpError()
             << "has axis " << axis.getName().getValue()
             << " in its grid, which no operand has; declare an operand with it, or give it an extent";
  }
  return success();
}

/// Names are unique, and an axis has one extent, fixed or not, in all operands.
static LogicalResult verifyOperands(Operation *kernel, ArrayAttr operands) {
  llvm::StringMap<int64_t> sizes;
  llvm::StringSet<> names;
  for (auto operand : operands.getAsRange<OperandAttr>()) {
    if (!names.insert(operand.getName()).second)
      return kernel->emitOpError() << "declares operand '" << operand.getName().getValue() << "' twice";
    for (AxisAttr axis : operand.getAxes()) {
      auto [known, isNew] = sizes.try_emplace(axis.getName(), axis.getSize());
      if (known->second != axis.getSize())
        return kernel->emitOpError() << "has axis " << axis.getName().getValue() << " of operand '"
                                     << operand.getName().getValue() << "' with another extent than in another operand";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

namespace {

LogicalResult verifySameShape(Operation *op, TileType a, TileType b) {
  if (a.getAxes() != b.getAxes() || a.getShape() != b.getShape())
    return op->emitOpError() << "tiles " << a << " and " << b << " have different axes";
  return success();
}

/// A tile of one or two axes over the last dimensions of `view`, located by one index a leading dimension
/// and the first row.
LogicalResult verifyAccess(Operation *op, TileType tile, ViewType view, OperandRange indices) {
  if (tile.rank() != 1 && tile.rank() != 2)
    return op->emitOpError() << "needs a tile of one or two axes, got " << tile;
  int64_t expected = view.getRank() - int64_t(tile.rank()) + 1;
  if (int64_t(indices.size()) != expected)
    return op->emitOpError() << "takes " << expected << " indices (the leading dimensions and the first row), got "
                             << indices.size();
  if (attn::valueType(tile.getElementType()) != attn::valueType(view.getElementType()))
    return op->emitOpError() << "elements of " << view << " are no " << tile.getElementType()
                             << "; convert them in a tile.map";
  return success();
}

} // namespace

//===----------------------------------------------------------------------===//
// Kernel, parameters, domain
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  Type type = getDtype();
  if (!type.isF32() && !type.isF16() && !type.isBF16())
    return emitOpError() << "dtype " << type << " is not f16, bf16 or f32";
  if (failed(verifyOperands(*this, getOperandsAttr())))
    return failure();
  return verifyGrid(*this, getGridAttr());
}

StringRef ParamOp::getOwnName() {
  StringRef name = getName();
  if (!name.consume_front(tensorPrefix))
    name.consume_front(scalarPrefix);
  return name;
}

/// The type of the kernel's parameter `name`; null where it has none.
static Type parameterType(Operation *kernel, StringRef name) {
  Builder builder(kernel->getContext());
  auto viewOf = [](CapturedTensorAttr tensor) {
    return tensor ? ViewType::get(tensor.getContext(), tensor.getRank(), tensor.getElementType()) : Type();
  };
  if (llvm::is_contained({"group", "q_offset", "drop_threshold"}, name))
    return builder.getI32Type();
  if (name == "keep_scale")
    return builder.getF32Type();
  if (name == "seed" || name == "offset")
    return builder.getI64Type();
  if (OperandAttr operand = findOperand(kernel, name))
    return operand.getViewType();
  if (name.starts_with(tensorPrefix))
    return viewOf(findTensor(kernel, name.drop_front(tensorPrefix.size())));
  if (auto scalars = kernel->getAttrOfType<ArrayAttr>("scalars"); scalars && name.starts_with(scalarPrefix))
    for (auto scalar : scalars.getAsRange<RuntimeScalarAttr>())
      if (scalar.getName() == name.drop_front(scalarPrefix.size()))
        return scalar.getType();
  return {};
}

LogicalResult ParamOp::verify() {
  Operation *kernel = kernelAround(*this);
  if (!kernel)
    return emitOpError("must be inside a kernel");
  Type wanted = parameterType(kernel, getName());
  if (!wanted)
    return emitOpError() << "the kernel has no parameter '" << getName() << "'";
  if (getResult().getType() != wanted)
    return emitOpError() << "parameter '" << getName() << "' is " << wanted << ", not " << getResult().getType();
  return success();
}

bool tile::hasExtent(Operation *kernel, StringRef axis) {
  for (auto operand : kernel->getAttrOfType<ArrayAttr>("operands").getAsRange<OperandAttr>())
    for (AxisAttr of : operand.getAxes())
      if (of.getName() == axis && !of.isFixed())
        return true;
  const std::optional<TensorDimension> of = tensorDimension(axis);
  CapturedTensorAttr tensor = of ? findTensor(kernel, of->tensor) : CapturedTensorAttr();
  return tensor && of->dim < tensor.getRank();
}

LogicalResult AxisExtentOp::verify() {
  Operation *kernel = kernelAround(*this);
  if (!kernel)
    return emitOpError("must be inside a kernel");
  if (!hasExtent(kernel, getAxis()))
    return emitOpError() << "no operand of the kernel has an axis " << getAxis() << " whose extent the launch gives";
  return success();
}

/// The axes of the grid of the kernel around `op`.
static SmallVector<AxisAttr> gridAround(Operation *op) {
  Operation *kernel = kernelAround(op);
  auto grid = kernel ? kernel->getAttrOfType<ArrayAttr>("grid") : ArrayAttr();
  return grid ? llvm::to_vector(grid.getAsRange<AxisAttr>()) : SmallVector<AxisAttr>();
}

unsigned BlockIndexOp::getPosition() {
  const SmallVector<AxisAttr> grid = gridAround(*this);
  return llvm::find_if(grid, [&](AxisAttr axis) { return axis.getName() == getAxis(); }) - grid.begin();
}

LogicalResult BlockIndexOp::verify() {
  for (AxisAttr axis : gridAround(*this))
    if (axis.getName() == getAxis())
      return success();
  return emitOpError() << "the kernel's grid has no axis " << getAxis();
}

//===----------------------------------------------------------------------===//
// tile.launch
//===----------------------------------------------------------------------===//

static ParseResult parseKernels(OpAsmParser &parser, ArrayAttr &kernels, DenseBoolArrayAttr &dependent) {
  SmallVector<Attribute> names;
  SmallVector<bool> flags;
  auto parseOne = [&]() -> ParseResult {
    FlatSymbolRefAttr name;
    if (parser.parseAttribute(name))
      return failure();
    names.push_back(name);
    flags.push_back(succeeded(parser.parseOptionalKeyword("dependent")));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  kernels = parser.getBuilder().getArrayAttr(names);
  dependent = parser.getBuilder().getDenseBoolArrayAttr(flags);
  return success();
}

static void printKernels(OpAsmPrinter &printer, LaunchOp, ArrayAttr kernels, DenseBoolArrayAttr dependent) {
  printer << "[";
  llvm::interleaveComma(llvm::zip(kernels, dependent.asArrayRef()), printer, [&](auto pair) {
    auto [name, isDependent] = pair;
    printer << name << (isDependent ? " dependent" : "");
  });
  printer << "]";
}

StringRef LaunchOp::getTitle() {
  return getSymName() ? *getSymName() : cast<FlatSymbolRefAttr>(getKernels().getValue().back()).getValue();
}

LogicalResult LaunchOp::verify() {
  if (getKernels().empty() || getKernels().size() != getDependent().size())
    return emitOpError("starts at least one kernel, and says of each whether it is dependent");
  if (getDependent().front())
    return emitOpError("the first kernel depends on none");
  return success();
}

/// What two kernels declare of one name is the same; an operand that one writes may be read by the other.
static LogicalResult verifySameDeclarations(LaunchOp launch, Operation *a, Operation *b) {
  for (StringRef list : {"tensors", "scalars"})
    for (Attribute one : a->getAttrOfType<ArrayAttr>(list))
      for (Attribute other : b->getAttrOfType<ArrayAttr>(list)) {
        auto nameOf = [](Attribute declared) {
          auto tensor = dyn_cast<CapturedTensorAttr>(declared);
          return tensor ? tensor.getName() : cast<RuntimeScalarAttr>(declared).getName();
        };
        if (one != other && nameOf(one) == nameOf(other))
          return launch.emitOpError() << "its kernels declare " << nameOf(one) << " in two ways";
      }
  for (auto operand : a->getAttrOfType<ArrayAttr>("operands").getAsRange<OperandAttr>())
    if (OperandAttr other = findOperand(b, operand.getName()); other && other != operand)
      return launch.emitOpError() << "its kernels declare operand " << operand.getName() << " in two ways";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Operation *> kernels;
  for (auto name : getKernels().getAsRange<FlatSymbolRefAttr>()) {
    Operation *kernel = symbols.lookupNearestSymbolFrom(*this, name);
    if (!kernel || !kernel->hasAttr("operands"))
      return emitOpError() << "the module has no kernel " << name;
    for (Operation *before : kernels)
      if (failed(verifySameDeclarations(*this, before, kernel)))
        return failure();
    kernels.push_back(kernel);
  }
  return success();
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
  Region *where = result.addRegion();
  if (succeeded(parser.parseOptionalKeyword("where")) && parser.parseRegion(*where))
    return failure();
  if (parser.parseOptionalAttrDict(result.attributes))
    return failure();
  Type i32 = builder.getI32Type();
  if (parser.resolveOperands(begins, i32, result.operands) || parser.resolveOperands(ends, i32, result.operands))
    return failure();
  result.addAttribute("axis", builder.getStringAttr(axis));
  result.addAttribute("step", builder.getI64IntegerAttr(step));
  result.addAttribute("full", builder.getDenseBoolArrayAttr(full));
  result.addAttribute(getOperandSegmentSizeAttr(),
                      builder.getDenseI32ArrayAttr({int32_t(begins.size()), int32_t(ends.size())}));
  result.addTypes(DomainType::get(parser.getContext()));
  return success();
}

void DomainOp::print(OpAsmPrinter &printer) {
  printer << " " << getAxis() << " by " << getStep();
  for (auto [begin, end, full] : llvm::zip(getBegins(), getEnds(), getFull()))
    printer << " [" << begin << ", " << end << ") " << (full ? "full" : "partial");
  if (getReverse())
    printer << " reverse";
  if (!getWhere().empty()) {
    printer << " where ";
    printer.printRegion(getWhere());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"axis", "step", "full", "reverse", getOperandSegmentSizeAttr()});
}

LogicalResult DomainOp::verify() {
  if (getBegins().size() != getEnds().size() || getBegins().size() != getFull().size() || getBegins().empty())
    return emitOpError("needs at least one segment, each with a begin, an end and a kind");
  if (getStep() <= 0)
    return emitOpError("step must be positive");
  if (getWhere().empty())
    return success();
  Block &body = getWhere().front();
  auto yield = terminatorOf<YieldOp>(getWhere());
  auto isFlag = [](Type type) { return type.isInteger(1); };
  if (body.getNumArguments() != 1 || !body.getArgument(0).getType().isInteger(32) || !yield ||
      yield.getValues().size() != 2 || !llvm::all_of(yield.getValues().getTypes(), isFlag))
    return emitOpError("the region of `where` takes a tile's index (i32) and yields whether it is visited and whether "
                       "it is full (i1, i1)");
  if (!llvm::all_of(body, [](Operation &op) { return isMemoryEffectFree(&op); }))
    return emitOpError("the region of `where` has effects");
  return success();
}

Value DomainOp::getVisible() {
  return getWhere().empty() ? Value() : cast<YieldOp>(getWhere().front().getTerminator()).getValues()[0];
}
Value DomainOp::getFullWhere() {
  return getWhere().empty() ? Value() : cast<YieldOp>(getWhere().front().getTerminator()).getValues()[1];
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
  for (Value init : inits)
    body->addArgument(init.getType(), result.location);
}

YieldOp ForBlocksOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }
ValueRange ForBlocksOp::getCarried() { return ValueRange(getBody().getArguments()).drop_front(2); }

ParseResult ForBlocksOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments(2);
  OpAsmParser::UnresolvedOperand domain;
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  if (parser.parseLParen() || parser.parseArgument(arguments[0]) || parser.parseComma() ||
      parser.parseArgument(arguments[1]) || parser.parseRParen() || parser.parseKeyword("in") ||
      parser.parseOperand(domain) ||
      parser.resolveOperand(domain, DomainType::get(parser.getContext()), result.operands))
    return failure();
  arguments[0].type = builder.getI32Type();
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
  printer << " (" << getOrigin() << ", " << getPartial() << ") in " << getDomain();
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
  if (getBody().getNumArguments() != getInits().size() + 2 || !getOrigin().getType().isInteger(32) ||
      !getPartial().getType().isInteger(1))
    return emitOpError("the body takes the first row (i32), the partial flag (i1) and the carried values");
  if (!llvm::equal(getCarried().getTypes(), getResultTypes()) || !llvm::equal(getInits().getTypes(), getResultTypes()))
    return emitOpError("initial values, carried values and results differ in type");
  auto yield = terminatorOf<YieldOp>(getBody());
  if (!yield || !llvm::equal(yield.getValues().getTypes(), getResultTypes()))
    return emitOpError("the yielded values differ in type from the results");
  return success();
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() { return verifyAccess(*this, getResult().getType(), getView().getType(), getIndices()); }

LogicalResult WindowOp::verify() {
  TileType tile = getResult().getType();
  ViewType view = getView().getType();
  if (tile.rank() != 2 || tile.getSpace() != MemorySpace::Shared || tile.getElementType() != view.getElementType() ||
      view.getRank() < 2)
    return emitOpError()
           << "gives a shared tile of two axes with the elements of a view of two dimensions or more, got " << tile
           << " of " << view;
  if (int64_t(getIndices().size()) != view.getRank())
    return emitOpError() << "a view of rank " << view.getRank() << " takes " << view.getRank() << " indices, got "
                         << getIndices().size();
  return success();
}

LogicalResult StoreOp::verify() { return verifyAccess(*this, getTile().getType(), getView().getType(), getIndices()); }

LogicalResult AccumulateOp::verify() {
  if (!getView().getType().getElementType().isF32() || !getTile().getType().getElementType().isF32())
    return emitOpError("adds f32 tiles to f32 views");
  return verifyAccess(*this, getTile().getType(), getView().getType(), getIndices());
}

LogicalResult ElementOp::verify() {
  ViewType view = getView().getType();
  if (int64_t(getIndices().size()) != view.getRank() || getInRange().size() != getIndices().size())
    return emitOpError() << "a view of rank " << view.getRank() << " takes " << view.getRank()
                         << " indices and in_range flags";
  if (getResult().getType() != attn::valueType(view.getElementType()))
    return emitOpError() << "elements of " << view << " are " << attn::valueType(view.getElementType());
  return success();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

LogicalResult SplatOp::verify() {
  if (getResult().getType().getElementType() != getValue().getType())
    return emitOpError("the scalar and the elements differ in type");
  return success();
}

LogicalResult ConvertOp::verify() {
  TileType from = getTile().getType(), to = getResult().getType();
  // Rows and columns may change places.
  if (from.rank() == 2 && to.rank() == 2 && from.axis(0) == to.axis(1) && from.axis(1) == to.axis(0) &&
      from.getShape()[0] == to.getShape()[1] && from.getShape()[1] == to.getShape()[0])
    return success();
  return verifySameShape(*this, from, to);
}

LogicalResult ScaleOp::verify() {
  TileType type = getTile().getType();
  if (type.getSpace() != MemorySpace::Shared || !type.getElementType().isBF16())
    return emitOpError() << "multiplies a shared tile of bf16, got " << type;
  if (!getTile().hasOneUse())
    return emitOpError("takes the place of a tile that something else reads, too");
  return success();
}

LogicalResult MmaOp::verify() {
  TileType lhs = getLhs().getType(), rhs = getRhs().getType(), result = getResult().getType();
  if (lhs.rank() != 2 || rhs.rank() != 2 || result.rank() != 2)
    return emitOpError("operands and result have two axes");
  if (lhs.getElementType() != rhs.getElementType())
    return emitOpError() << "operands have element types " << lhs.getElementType() << " and " << rhs.getElementType();
  if (!result.getElementType().isF32())
    return emitOpError("accumulates in f32");
  StringRef contracted;
  for (StringAttr axis : lhs.getAxes())
    if (rhs.hasAxis(axis.getValue())) {
      if (!contracted.empty())
        return emitOpError("operands share two axes; exactly one is contracted");
      contracted = axis.getValue();
    }
  if (contracted.empty())
    return emitOpError() << "operands " << lhs << " and " << rhs << " share no axis to contract";
  if (lhs.size(contracted) != rhs.size(contracted))
    return emitOpError() << "contracted axis " << contracted << " has sizes " << lhs.size(contracted) << " and "
                         << rhs.size(contracted);
  for (TileType operand : {lhs, rhs})
    for (StringAttr axis : operand.getAxes())
      if (axis.getValue() != contracted &&
          (!result.hasAxis(axis.getValue()) || result.size(axis.getValue()) != operand.size(axis.getValue())))
        return emitOpError() << "result " << result << " lacks axis " << axis.getValue() << " "
                             << operand.size(axis.getValue());
  if (getAcc() && getAcc().getType() != result)
    return emitOpError("accumulator and result differ in type");
  return success();
}

TypedAttr tile::identityOf(Reduction kind, Type type) {
  const bool isMax = kind == Reduction::Max;
  if (isa<FloatType>(type)) {
    const float infinity = std::numeric_limits<float>::infinity();
    return FloatAttr::get(type, kind == Reduction::Sum ? 0.0 : isMax ? -infinity : infinity);
  }
  const unsigned bits = type.getIntOrFloatBitWidth();
  return IntegerAttr::get(type, kind == Reduction::Sum ? APInt(bits, 0)
                                : isMax                ? APInt::getSignedMinValue(bits)
                                                       : APInt::getSignedMaxValue(bits));
}

LogicalResult ReduceOp::verify() {
  TileType tile = getTile().getType(), result = getResult().getType();
  if (!tile.hasAxis(getAxis()))
    return emitOpError() << "tile " << tile << " has no axis " << getAxis();
  TileType expected = tile.dropAxis(getAxis());
  if (failed(verifySameShape(*this, expected, result)))
    return failure();
  if (getInit() && getInit().getType() != result)
    return emitOpError("initial value and result differ in type");
  if (getPerLane() && getKind() != Reduction::Sum)
    return emitOpError("only a sum may stay split over lanes");
  return success();
}

LogicalResult DropoutOp::verify() {
  TileType tile = getTile().getType();
  if (tile.rank() != 2 || !tile.hasAxis("q") || !tile.hasAxis("k") || tile.size("q") % 16 || tile.size("k") % 16)
    return emitOpError("needs a tile of q and k whose sizes are multiples of 16");
  if (tile != getResult().getType())
    return emitOpError("operand and result differ in type");
  return success();
}

//===----------------------------------------------------------------------===//
// tile.map
//===----------------------------------------------------------------------===//

/// What the region of a map takes of an input: elements in shared memory widen.
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
  // Arguments of inputs stand before those of coordinates.
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

/// A map that yields an input's element unchanged is that input.
OpFoldResult MapOp::fold(FoldAdaptor) {
  auto element = dyn_cast<BlockArgument>(getYield().getValues().front());
  if (!element || element.getOwner() != &getBody().front() || element.getArgNumber() >= getInputs().size())
    return {};
  Value input = getInputs()[element.getArgNumber()];
  if (input.getType() != getResult().getType() || (!isWhole() && element.getArgNumber() != 0))
    return {};
  return input;
}

LogicalResult AnyOp::verify() {
  Block &body = getBody().front();
  auto yield = terminatorOf<YieldOp>(getBody());
  if (!yield || body.getNumArguments() != 1 || body.getArgument(0).getType() != getTile().getType().getElementType() ||
      yield.getValues().size() != 1 || !yield.getValues().front().getType().isInteger(1))
    return emitOpError("the region takes one element and yields one i1");
  return success();
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
    if (isByDistance(type) && result.hasAxis("q") && result.hasAxis("k")) {
      if (int64_t distances = result.size("q") + result.size("k") - 1; type.size(distanceAxis) != distances)
        return emitOpError() << "input " << type << " is read by distance within " << result << ", which has "
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
