//===- Tile.cpp - Ops of the tile dialect -----------------------------------===//

#include "ir/tile/Tile.h"
#include "ir/Terminators.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

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

ParamOp tile::parameterOf(Value view) {
  if (Operation *rows = view.getDefiningOp(); isa_and_nonnull<GroupRowsOp, PagedRowsOp, BlockedRowsOp>(rows))
    view = rows->getOperand(0);
  return view.getDefiningOp<ParamOp>();
}

OperandAttr tile::operandOf(Value view) {
  ParamOp param = parameterOf(view);
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

/// Whether a launch of the module has a dependent kernel (one that may start before the previous kernel has ended)
/// `ahead` positions after `kernel`; position 0 is `kernel` itself.
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

bool tile::isStaged(ConvertOp convert) {
  TileType type = convert.getResult().getType();
  auto map = convert.getTile().getDefiningOp<MapOp>();
  return type.getSpace() == MemorySpace::Shared && type.rank() == 1 && map && map.getInputs().empty() &&
         !map.getOnlyIf() && isa<ForBlocksOp>(convert->getParentOp());
}

int64_t tile::storedColumns(KernelOp kernel) {
  int64_t columns = 0;
  kernel.walk([&](StoreOp store) {
    if (OperandAttr operand = operandOf(store.getView()); operand && !store.getView().getDefiningOp<BlockedRowsOp>())
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
    // In a kernel's operand list an operand is written without the angle brackets of #tile.operand<...>.
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

/// Verifies that no axis occurs twice in the grid and that the extent of each axis is fixed or known at launch.
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

/// Verifies that names of operands are unique and that an axis has the same extent in all operands.
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

/// Verifies that a tile of one or two axes covers the last dimensions of `view`: there is one index for each leading
/// dimension, and one for the first row.
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
  if (Attribute derived = (*this)->getAttr(derivedAttr)) {
    auto axes = dyn_cast<ArrayAttr>(derived);
    if (!axes || !llvm::all_of(axes, llvm::IsaPred<DerivedAxisAttr>))
      return emitOpError() << "has " << derivedAttr << ", which is no list of #tile.derived";
  }
  if (Attribute given = (*this)->getAttr(leftOutAttr)) {
    auto bounds = dyn_cast<ArrayAttr>(given);
    if (!bounds || bounds.empty() || !llvm::all_of(bounds, llvm::IsaPred<ExtentBoundAttr>))
      return emitOpError() << "has " << leftOutAttr << ", which is no list of #tile.bound";
    for (auto bound : bounds.getAsRange<ExtentBoundAttr>())
      for (StringAttr axis : {bound.getAxis(), bound.getMost()})
        if (axis && !hasExtent(*this, axis))
          return emitOpError() << "is left out by the extent of axis " << axis
                               << ", which no operand has; declare an operand with it";
  }
  if (Attribute other = (*this)->getAttr(fallbackOfAttr); other && !isa<FlatSymbolRefAttr>(other))
    return emitOpError() << "has " << fallbackOfAttr << ", which names no kernel";
  return verifyGrid(*this, getGridAttr());
}

StringRef ParamOp::getOwnName() {
  StringRef name = getName();
  if (!name.consume_front(tensorPrefix))
    name.consume_front(scalarPrefix);
  return name;
}

/// The type of the kernel's parameter `name`; null where there is no such parameter.
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

SmallVector<DerivedAxisAttr> tile::derivedAxes(Operation *kernel) {
  auto derived = kernel->getAttrOfType<ArrayAttr>(derivedAttr);
  return derived ? llvm::to_vector(derived.getAsRange<DerivedAxisAttr>()) : SmallVector<DerivedAxisAttr>();
}

SmallVector<ExtentBoundAttr> tile::skippedIf(Operation *kernel) {
  auto bounds = kernel->getAttrOfType<ArrayAttr>(leftOutAttr);
  return bounds ? llvm::to_vector(bounds.getAsRange<ExtentBoundAttr>()) : SmallVector<ExtentBoundAttr>();
}

void tile::skipIf(Operation *kernel, ArrayRef<std::pair<std::string, std::string>> bounds) {
  Builder builder(kernel->getContext());
  SmallVector<Attribute> all;
  for (const auto &[axis, most] : bounds)
    all.push_back(ExtentBoundAttr::get(builder.getContext(), builder.getStringAttr(axis),
                                       most.empty() ? StringAttr() : builder.getStringAttr(most)));
  kernel->setAttr(leftOutAttr, builder.getArrayAttr(all));
}

Operation *tile::fallbackOf(Operation *kernel) {
  auto name = kernel->getAttrOfType<FlatSymbolRefAttr>(fallbackOfAttr);
  return name ? SymbolTable::lookupNearestSymbolFrom(kernel->getParentOp(), name) : nullptr;
}

bool tile::hasFallback(Operation *kernel) {
  auto module = kernel->getParentOfType<ModuleOp>();
  return module && llvm::any_of(module.getOps(), [&](Operation &other) {
           auto name = other.getAttrOfType<FlatSymbolRefAttr>(fallbackOfAttr);
           return name && name.getAttr() == SymbolTable::getSymbolName(kernel);
         });
}

bool tile::hasExtent(Operation *kernel, StringRef axis) {
  if (llvm::any_of(derivedAxes(kernel), [&](DerivedAxisAttr derived) { return derived.getName() == axis; }))
    return true;
  for (auto operand : kernel->getAttrOfType<ArrayAttr>("operands").getAsRange<OperandAttr>())
    for (AxisAttr of : operand.getAxes())
      if (of.getName() == axis && !of.isFixed())
        return true;
  const std::optional<TensorDimension> of = tensorDimension(axis);
  CapturedTensorAttr tensor = of ? findTensor(kernel, of->tensor) : CapturedTensorAttr();
  return tensor && of->dim < tensor.getRank();
}

LogicalResult GroupRowsOp::verify() {
  if (!getView().getDefiningOp<ParamOp>())
    return emitOpError("takes a view that tile.param reads");
  if (getView().getType().getRank() < 3)
    return emitOpError() << "takes a view of at least three dimensions, batches, heads and queries, got "
                         << getView().getType();
  return success();
}

LogicalResult BlockedRowsOp::verify() {
  const ViewType view = getView().getType();
  const OperandAttr operand = operandOf(getView());
  if (!getView().getDefiningOp<ParamOp>() || !operand || !view.getElementType().isF32() || view.getRank() < 2)
    return emitOpError("takes a view of float32 of at least two dimensions that tile.param reads");
  const int64_t columns = int64_t(getColumns()), rows = operand.getAxes()[size_t(view.getRank()) - 2].getBy();
  if (rows != blockRows || columns % 8 || operand.getColumns() != blockRows * columns)
    return emitOpError() << "takes blocks of 16 rows and " << blockRows * columns << " places, with columns in eights, "
                         << "got " << operand;
  for (Operation *user : getResult().getUsers()) {
    if (!isa<LoadOp, StoreOp, AccumulateOp>(user))
      return emitOpError() << "is read by " << user->getName() << "; load, store or accumulate tiles of it";
    auto tile = cast<TileType>(isa<LoadOp>(user) ? user->getResult(0).getType() : user->getOperand(0).getType());
    if (tile.getSpace() != MemorySpace::Register || tile.rank() != 2 || tile.getShape()[0] % blockRows)
      return user->emitOpError() << "takes rows in blocks of 16 by register tiles with rows in sixteens, got " << tile;
  }
  return success();
}

LogicalResult PagedRowsOp::verify() {
  if (!getView().getDefiningOp<ParamOp>() || !getTable().getDefiningOp<ParamOp>())
    return emitOpError("takes a view and a table that tile.param reads");
  const ViewType view = getView().getType(), table = getTable().getType();
  if (view.getRank() < 3 || table.getRank() != 2 || !table.getElementType().isInteger(32))
    return emitOpError()
           << "takes a view of at least three dimensions, pages, heads and slots, and a table of i32 of two, "
              "got "
           << view << " and " << table;
  const OperandAttr operand = operandOf(getView());
  if (operand && operand.getAxes()[view.getRank() - 2].getSize() != int64_t(getSize()))
    return emitOpError() << "has pages of " << getSize() << ", which " << operand.getName() << " has not";
  return success();
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

ParseResult tile::parseKernels(OpAsmParser &parser, ArrayAttr &kernels, DenseBoolArrayAttr &dependent) {
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

void tile::printKernels(OpAsmPrinter &printer, Operation *, ArrayAttr kernels, DenseBoolArrayAttr dependent) {
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

/// Verifies that an operand, tensor, scalar or derived axis that two kernels `a` and `b` of a launch both declare has
/// the same declaration in both.
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
  for (DerivedAxisAttr axis : derivedAxes(a))
    for (DerivedAxisAttr other : derivedAxes(b))
      if (axis.getName() == other.getName() && axis != other)
        return launch.emitOpError() << "its kernels derive axis " << axis.getName() << " in two ways";
  return success();
}

LogicalResult DerivedAxisAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, StringAttr rule,
                                      int64_t by, int64_t blocksPerSm, StringAttr of) {
  const std::optional<DerivedAxis::Rule> known = parseDerivedRule(rule.getValue());
  if (!known)
    return emitError() << "axis " << name << " is derived by " << rule
                       << R"(, which is not "rows", "splits", "pages", "slots", "work_items", "tile_rows", )"
                       << R"("sequences" or "sequence_rows")";
  const bool ofTable = isOfTensor(*known), ofRows = isOfRows(*known);
  if (ofTable != (of && tensorDimension(of.getValue())) || ofRows != (of && !tensorDimension(of.getValue())))
    return emitError() << "axis " << name << " is derived by " << rule
                       << (ofTable  ? ", which is `of` a dimension tensors.NAME.N of their table"
                           : ofRows ? ", which is `of` an axis of rows"
                                    : ", which is `of` nothing");
  if (by < 1 || by > INT32_MAX || blocksPerSm < 1 || blocksPerSm > 64)
    return emitError() << "axis " << name << " is derived by tiles of " << by << " and " << blocksPerSm
                       << " blocks a multiprocessor; both are positive";
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
  for (Operation *kernel : kernels)
    if (kernel->hasAttr(fallbackOfAttr) && !llvm::is_contained(kernels, fallbackOf(kernel)))
      return emitOpError() << "starts " << SymbolTable::getSymbolName(kernel) << " in place of "
                           << kernel->getAttr(fallbackOfAttr) << ", which is no kernel of it";
  return success();
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  const TileType type = getResult().getType();
  if (type.rank() == 1 && type.getSpace() == MemorySpace::Shared &&
      (type.getElementType() != getView().getType().getElementType() ||
       type.getElementType().getIntOrFloatBitWidth() != 32))
    return emitOpError() << "copies single values to shared memory as they are, of 32 bits, not "
                         << getView().getType().getElementType() << " to " << type.getElementType()
                         << "; load the vector to registers, and convert it";
  return verifyAccess(*this, type, getView().getType(), getIndices());
}

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

LogicalResult ScatterOp::verify() {
  const TileType tile = getTile().getType();
  const ViewType view = getView().getType();
  const bool isInteger = tile.getElementType().isInteger(32);
  if (tile.getSpace() == MemorySpace::Shared) {
    if (getAdd() || tile.rank() != 2 || tile.getElementType() != view.getElementType() ||
        view.getElementType().getIntOrFloatBitWidth() != 16)
      return emitOpError() << "takes from shared memory the elements of two axes that a view of bf16 or f16 has, and "
                              "adds none, got "
                           << tile << " and " << view;
  } else if ((!tile.getElementType().isF32() && !isInteger) || (!isInteger && !isa<FloatType>(view.getElementType())))
    return emitOpError() << "takes f32 in registers to views of floats, got " << tile << " and " << view;
  if (isInteger && (!getAdd() || !view.getElementType().isInteger(64)))
    return emitOpError() << "adds i32 to i64 views, and writes none, got " << view;
  if (getAdd() && !isInteger && !view.getElementType().isF32())
    return emitOpError() << "adds f32 to f32 views, got " << view;
  auto isOfTile = [](Value index) { return isa<TileType>(index.getType()); };
  if (getMerge() && (!getAdd() || isInteger || !isByPart(tile) || !llvm::any_of(getIndices(), isOfTile)))
    return emitOpError() << "merges sums of diagonals that it adds by an index of each, f32 by part and distance, got "
                         << tile;
  if (int64_t(getIndices().size()) != view.getRank())
    return emitOpError() << "a view of rank " << view.getRank() << " takes " << view.getRank() << " indices, got "
                         << getIndices().size();
  for (Value index : getIndices()) {
    auto type = dyn_cast<TileType>(index.getType());
    if (!type)
      continue;
    const bool isVector = type.rank() == 1 && tile.rank() == 2 && !isByPart(tile) && tile.hasAxis(type.axis(0)) &&
                          type.getShape()[0] == tile.size(type.axis(0));
    const TileType whole = isVector ? type : tile;
    if (type != whole.withElementType(IntegerType::get(getContext(), 32))
                    .withSpace(MemorySpace::Register)
                    .withLayout(type.getLayout()))
      return emitOpError() << "takes indices of i32 with the axes of " << tile
                           << (isByPart(tile) ? "" : ", or one of them") << ", got " << type;
  }
  return success();
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

LogicalResult SearchOp::verify() {
  ViewType view = getView().getType();
  if (view.getRank() != 1)
    return emitOpError() << "searches a view of rank 1, got " << view;
  if (attn::valueType(view.getElementType()) != getX().getType())
    return emitOpError() << "elements of " << view << " are " << attn::valueType(view.getElementType()) << ", but x is "
                         << getX().getType();
  if (getTiles() && (*this)->getParentOfType<MapOp>())
    return emitOpError("finds the sequence of a thread block's tile, and not of single elements; place it outside of "
                       "tile.map");
  if (const std::optional<uint64_t> rows = getTiles(); rows && (!getX().getType().isInteger(32) || int64_t(*rows) < 1))
    return emitOpError() << "counts tiles of " << int64_t(*rows) << " rows of " << view
                         << "; give a positive number, and elements of i32";
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
  if (getRelu() && (to.getSpace() != MemorySpace::Register || !to.getLayout() || !isa<FloatType>(to.getElementType()) ||
                    to.getElementType().getIntOrFloatBitWidth() != 16))
    return emitOpError() << "makes negative floats 0 where it packs 16 bits in an `a` fragment, got " << to
                         << "; use a maximum with 0 in a map";
  // The conversion may exchange the order of the two axes.
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

LogicalResult SumDiagonalsOp::verify() {
  TileType tile = getTile().getType(), result = getResult().getType();
  if (tile.rank() != 2 || !tile.getElementType().isF32() || tile.getSpace() != MemorySpace::Register)
    return emitOpError() << "takes a tile of two axes of f32 in registers, got " << tile;
  if (!isByPart(result) || result.getSpace() != MemorySpace::Register || !result.getElementType().isF32())
    return emitOpError() << "gives a tile of " << partAxis << " and " << distanceAxis << " of f32 in registers, not "
                         << result;
  const int64_t parts = result.getShape()[0], rows = tile.getShape()[0];
  if (rows % parts)
    return emitOpError() << rows << " rows have no " << parts << " equal parts";
  if (const int64_t distances = rows / parts + tile.getShape()[1]; result.getShape()[1] != distances)
    return emitOpError() << rows / parts << " rows and " << tile.getShape()[1] << " columns have " << distances
                         << " distances, got " << result.getShape()[1];
  return success();
}

LogicalResult DropoutOp::verify() {
  TileType tile = getTile().getType();
  if (tile.rank() != 2 || !tile.hasAxis("q") || !tile.hasAxis("k") || tile.size("q") % 16 || tile.size("k") % 16)
    return emitOpError("needs a tile of q and k whose sizes are multiples of 16");
  if (tile != getResult().getType())
    return emitOpError("operand and result differ in type");
  if (getKept() && getKept().getType() != tile.withElementType(IntegerType::get(getContext(), 1)))
    return emitOpError() << "says of each element of " << tile << " by i1 whether it is kept, got "
                         << getKept().getType();
  return success();
}

/// Verifies that a tile of tile.load_blocks or tile.store_blocks is a register tile of q and k, and that its view has
/// the axes [b, h, q by 16, k by 16, n] of blocks of 16 x 16 elements. The view has f32 elements, or bytes if the tile
/// has i1 elements.
static LogicalResult verifyBlocks(Operation *op, TileType tile, ViewType view) {
  if (tile.rank() != 2 || !tile.hasAxis("q") || !tile.hasAxis("k") || tile.size("q") % 16 || tile.size("k") % 16 ||
      tile.getSpace() != MemorySpace::Register)
    return op->emitOpError("needs a register tile of q and k whose sizes are multiples of 16");
  const bool isBits = tile.getElementType().isInteger(1) && view.getElementType().isInteger(8);
  if (!isBits && !(tile.getElementType().isF32() && view.getElementType().isF32()))
    return op->emitOpError() << "takes f32 in views of f32, or i1 in views of i8, got " << tile << " and " << view;
  if (view.getRank() != 5)
    return op->emitOpError() << "takes a view [b, h, q by 16, k by 16, n], got " << view;
  return success();
}

LogicalResult LoadBlocksOp::verify() { return verifyBlocks(*this, getResult().getType(), getView().getType()); }
LogicalResult StoreBlocksOp::verify() { return verifyBlocks(*this, getTile().getType(), getView().getType()); }

LogicalResult BitsOp::verify() {
  Block &body = getBody().front();
  auto yield = terminatorOf<YieldOp>(getBody());
  if (!yield || body.getNumArguments() != 1 || !body.getArgument(0).getType().isInteger(32) ||
      yield.getValues().size() != 1 || !yield.getValues().front().getType().isInteger(1))
    return emitOpError("the region takes one i32 and yields one i1");
  for (Operation &op : body.without_terminator())
    if (op.getNumRegions() || !isMemoryEffectFree(&op))
      return op.emitOpError("has memory effects or regions; a condition of `tile.bits` has neither");
  return success();
}

LogicalResult AnyOp::verify() {
  Block &body = getBody().front();
  auto yield = terminatorOf<YieldOp>(getBody());
  if (!yield || body.getNumArguments() != 1 || body.getArgument(0).getType() != getTile().getType().getElementType() ||
      yield.getValues().size() != 1 || !yield.getValues().front().getType().isInteger(1))
    return emitOpError("the region takes one element and yields one i1");
  return success();
}
