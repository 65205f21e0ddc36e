//===- TileType.cpp - Types and attributes of the tile dialect --------------===//

#include "ir/tile/Tile.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;
#include "ir/tile/TileInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/tile/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.cpp.inc"

void TileDialect::registerTypesAndAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/tile/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/tile/TileTypes.cpp.inc"
      >();
}

llvm::StringRef attune::tile::stringifyMemorySpace(MemorySpace space) {
  return space == MemorySpace::Shared ? "shared" : "register";
}

//===----------------------------------------------------------------------===//
// #tile.axis and #tile.operand
//===----------------------------------------------------------------------===//

/// Parses an axis: `q`, `d 64` or `q by 128`.
static AxisAttr parseAxis(AsmParser &parser) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  int64_t size = 0, by = 1;
  if (parser.parseKeyword(&name))
    return {};
  if (OptionalParseResult given = parser.parseOptionalInteger(size); given.has_value() && failed(*given))
    return {};
  if (succeeded(parser.parseOptionalKeyword("by")) && parser.parseInteger(by))
    return {};
  return parser.getChecked<AxisAttr>(loc, parser.getContext(), parser.getBuilder().getStringAttr(name), size, by);
}

static void printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer << axis.getName().getValue();
  if (axis.isFixed())
    printer << " " << axis.getSize();
  if (axis.getBy() != 1)
    printer << " by " << axis.getBy();
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  AxisAttr axis = parseAxis(parser);
  return axis && succeeded(parser.parseGreater()) ? axis : AxisAttr();
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxis(printer, *this);
  printer << ">";
}

LogicalResult AxisAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, int64_t size,
                               int64_t by) {
  if (size < 0 || size > INT32_MAX)
    return emitError() << "axis " << name << " has extent " << size << ", required is 1 to 2147483647";
  if (by < 1 || by > INT32_MAX || (size && by != 1))
    return emitError() << "axis " << name << " counts tiles of " << by
                       << "; required is 1 to 2147483647, and 1 for an axis of fixed extent";
  return success();
}

ParseResult tile::parsePlanClause(OpAsmParser &parser, PlanAttr &plan) {
  if (succeeded(parser.parseOptionalKeyword("plan")))
    return parser.parseCustomAttributeWithFallback(plan);
  plan = PlanAttr::open(parser.getContext());
  return success();
}

void tile::printPlanClause(OpAsmPrinter &printer, Operation *, PlanAttr plan) {
  if (plan.isOpen())
    return;
  printer << "plan ";
  printer.printStrippedAttrOrType(plan);
}

ParseResult tile::parseGrid(OpAsmParser &parser, ArrayAttr &grid) {
  SmallVector<Attribute> axes;
  auto parseOne = [&]() -> ParseResult {
    axes.push_back(parseAxis(parser));
    return success(bool(axes.back()));
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))
    return failure();
  grid = parser.getBuilder().getArrayAttr(axes);
  return success();
}

void tile::printGrid(OpAsmPrinter &printer, Operation *, ArrayAttr grid) {
  printer << "[";
  llvm::interleaveComma(grid.getAsRange<AxisAttr>(), printer, [&](AxisAttr axis) { printAxis(printer, axis); });
  printer << "]";
}

OperandAttr OperandAttr::parseBare(AsmParser &parser) {
  std::string name;
  StringRef role;
  SmallVector<AxisAttr> axes;
  Type element;
  SMLoc loc = parser.getCurrentLocation(), roleLoc;
  if (parser.parseKeywordOrString(&name) || parser.parseColon())
    return {};
  const bool optional = succeeded(parser.parseOptionalKeyword("optional"));
  auto parseOne = [&]() -> ParseResult {
    axes.push_back(parseAxis(parser));
    return success(bool(axes.back()));
  };
  if (parser.getCurrentLocation(&roleLoc) || parser.parseKeyword(&role) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne) || parser.parseType(element))
    return {};
  const std::optional<OperandRole> known = parseOperandRole(role);
  if (!known) {
    parser.emitError(roleLoc, "expected in, out, accumulate or workspace");
    return {};
  }
  return parser.getChecked<OperandAttr>(loc, parser.getContext(), parser.getBuilder().getStringAttr(name), *known,
                                        optional, axes, element);
}

void OperandAttr::printBare(AsmPrinter &printer) const {
  printer.printKeywordOrString(getName().getValue());
  printer << ": " << (getOptional() ? "optional " : "") << attune::name(getRole()) << " [";
  llvm::interleaveComma(getAxes(), printer, [&](AxisAttr axis) { printAxis(printer, axis); });
  printer << "] " << getElementType();
}

Attribute OperandAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  OperandAttr operand = parseBare(parser);
  return operand && succeeded(parser.parseGreater()) ? operand : OperandAttr();
}

void OperandAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBare(printer);
  printer << ">";
}

LogicalResult OperandAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, OperandRole, bool,
                                  ArrayRef<AxisAttr> axes, Type element) {
  const bool known = element.isF32() || element.isF16() || element.isBF16() || element.isInteger(8) ||
                     element.isInteger(32) || element.isInteger(64);
  if (!known)
    return emitError() << "operand " << name << " has element type " << element
                       << "; use f32, f16, bf16, i32, i64, or i8 for bool";
  constexpr size_t most = 6;
  if (axes.size() > most)
    return emitError() << "operand " << name << " has " << axes.size() << " axes; the most is " << most;
  for (size_t i = 0; i < axes.size(); ++i)
    if (llvm::is_contained(axes.take_front(i), axes[i]))
      return emitError() << "operand " << name << " has axis " << axes[i].getName().getValue() << " twice";
  return success();
}

ViewType OperandAttr::getViewType() const { return ViewType::get(getContext(), getAxes().size(), getElementType()); }

//===----------------------------------------------------------------------===//
// !tile.tile
//===----------------------------------------------------------------------===//

Type TileType::parse(AsmParser &parser) {
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> shape;
  Type elementType;
  StringRef space;
  Attribute layout;
  if (parser.parseLess())
    return {};
  do {
    StringRef axis;
    int64_t size = 0;
    if (parser.parseKeyword(&axis) || parser.parseInteger(size))
      return {};
    axes.push_back(parser.getBuilder().getStringAttr(axis));
    shape.push_back(size);
  } while (succeeded(parser.parseOptionalKeyword("x")));
  SMLoc loc;
  if (parser.parseComma() || parser.parseType(elementType) || parser.parseComma() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword(&space))
    return {};
  if (space != "shared" && space != "register") {
    parser.emitError(loc, "expected 'shared' or 'register'");
    return {};
  }
  if (succeeded(parser.parseOptionalComma()) && parser.parseAttribute(layout))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TileType>(parser.getContext(), axes, shape, elementType,
                                     space == "shared" ? MemorySpace::Shared : MemorySpace::Register, layout);
}

void TileType::print(AsmPrinter &printer) const {
  printer << "<";
  for (auto [i, axis] : llvm::enumerate(getAxes()))
    printer << (i ? " x " : "") << axis.getValue() << " " << getShape()[i];
  printer << ", " << getElementType() << ", " << stringifyMemorySpace(getSpace());
  if (getLayout())
    printer << ", " << getLayout();
  printer << ">";
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> axes,
                               ArrayRef<int64_t> shape, Type elementType, MemorySpace, Attribute) {
  if (axes.empty() || axes.size() != shape.size())
    return emitError() << "a tile needs at least one axis";
  for (unsigned i = 0; i < axes.size(); ++i) {
    if (shape[i] <= 0)
      return emitError() << "axis " << axes[i].getValue() << " has size " << shape[i] << "; it must be positive";
    if (llvm::is_contained(axes.take_front(i), axes[i]))
      return emitError() << "axis " << axes[i].getValue() << " appears twice";
  }
  // No block has memory for 2^31 elements. The limit keeps products of sizes, such as byte counts and offsets, from
  // overflowing.
  int64_t elements = 1;
  for (int64_t size : shape)
    if (llvm::MulOverflow(elements, size, elements) || elements > std::numeric_limits<int32_t>::max())
      return emitError() << "a tile of more than 2^31 - 1 elements";
  if (!elementType.isIntOrFloat())
    return emitError() << "element type " << elementType << " is not an integer or a float";
  if (isa<FloatType>(elementType) && !elementType.isF32() && !elementType.isF16() && !elementType.isBF16())
    return emitError() << "no target computes tiles of " << elementType
                       << "; use f16, bf16 or f32, and keep values of 8 bits as bits in tiles of i32";
  return success();
}

int64_t TileType::findAxis(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getAxes()))
    if (axis.getValue() == name)
      return i;
  return -1;
}

int64_t TileType::size(StringRef name) const {
  assert(hasAxis(name) && "the tile has no such axis");
  return getShape()[findAxis(name)];
}

int64_t TileType::numElements() const {
  int64_t count = 1;
  for (int64_t extent : getShape())
    count *= extent;
  return count;
}

int64_t TileType::rowBytes() const {
  const int64_t bytes = getShape().back() * int64_t(llvm::divideCeil(getElementType().getIntOrFloatBitWidth(), 8));
  auto layout = dyn_cast_or_null<SharedLayoutInterface>(getLayout());
  return layout ? layout.paddedRow(bytes) : bytes;
}

int64_t TileType::bytes() const { return numElements() / getShape().back() * rowBytes(); }

TileType TileType::withElementType(Type type) const {
  return get(getContext(), getAxes(), getShape(), type, getSpace(), getLayout());
}

TileType TileType::withLayout(Attribute layout) const {
  return get(getContext(), getAxes(), getShape(), getElementType(), getSpace(), layout);
}

TileType TileType::withSpace(MemorySpace space) const {
  return get(getContext(), getAxes(), getShape(), getElementType(), space, getLayout());
}

TileType TileType::dropAxis(StringRef name) const {
  SmallVector<StringAttr> axes;
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::zip(getAxes(), getShape()))
    if (axis.getValue() != name) {
      axes.push_back(axis);
      shape.push_back(size);
    }
  return get(getContext(), axes, shape, getElementType(), getSpace(), getLayout());
}

/// The names and the sizes of axes, as the types and attributes store them.
static std::pair<SmallVector<StringAttr>, SmallVector<int64_t>>
namesAndSizes(MLIRContext *context, ArrayRef<std::pair<StringRef, int64_t>> axes) {
  std::pair<SmallVector<StringAttr>, SmallVector<int64_t>> split;
  for (auto [name, size] : axes) {
    split.first.push_back(StringAttr::get(context, name));
    split.second.push_back(size);
  }
  return split;
}

TileType TileType::make(MLIRContext *context, ArrayRef<std::pair<StringRef, int64_t>> axes, Type elementType,
                        MemorySpace space, Attribute layout) {
  const auto [names, shape] = namesAndSizes(context, axes);
  return get(context, names, shape, elementType, space, layout);
}

//===----------------------------------------------------------------------===//
// #tile.plan
//===----------------------------------------------------------------------===//

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> axes,
                               ArrayRef<int64_t> sizes, int64_t warps, int64_t blocksPerSm, int64_t dvWarps) {
  if (axes.empty() && !warps && !blocksPerSm && dvWarps == 1) // PlanAttr::open
    return success();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (sizes[i] <= 0 || sizes[i] % 16)
      return emitError() << "the tile's size along " << axis.getValue() << " is " << sizes[i]
                         << ", no positive multiple of 16";
    if (llvm::is_contained(axes.take_front(i), axis))
      return emitError() << "axis " << axis.getValue() << " has two sizes";
  }
  if (warps <= 0 || blocksPerSm <= 0)
    return emitError() << "warps and blocks_per_sm must be positive";
  if (dvWarps <= 0 || warps % dvWarps)
    return emitError() << "dv_warps " << dvWarps << " does not divide " << warps << " warps";
  return success();
}

PlanAttr PlanAttr::make(MLIRContext *context, ArrayRef<std::pair<StringRef, int64_t>> of, int64_t warps,
                        int64_t blocksPerSm, int64_t dvWarps) {
  const auto [axes, sizes] = namesAndSizes(context, of);
  return get(context, axes, sizes, warps, blocksPerSm, dvWarps);
}

int64_t PlanAttr::getSize(StringRef axis) const {
  for (auto [each, size] : llvm::zip(getAxes(), getSizes()))
    if (each.getValue() == axis)
      return size;
  return 0;
}

std::string PlanAttr::sizesText(StringRef between) const {
  return llvm::join(llvm::map_range(getSizes(), [](int64_t size) { return std::to_string(size); }), between);
}

/// `<q 128 x k 64, warps = 4, blocks_per_sm = 2, dv_warps = 1>`; sizes and dv_warps may be left out.
Attribute PlanAttr::parse(AsmParser &parser, Type) {
  SmallVector<std::pair<StringRef, int64_t>> sizes;
  int64_t warps = 0, blocksPerSm = 0, dvWarps = 1;
  const SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    do {
      const SMLoc place = parser.getCurrentLocation();
      if (parser.parseKeyword(&name))
        return failure();
      int64_t *field = llvm::StringSwitch<int64_t *>(name)
                           .Case("warps", &warps)
                           .Case("blocks_per_sm", &blocksPerSm)
                           .Case("dv_warps", &dvWarps)
                           .Default(nullptr);
      if (field)
        return failure(parser.parseEqual() || parser.parseInteger(*field));
      if (succeeded(parser.parseOptionalEqual()))
        return parser.emitError(place) << "a plan has sizes of axes, warps, blocks_per_sm and dv_warps, such as "
                                          "<q 128 x k 64, warps = 4, blocks_per_sm = 2>; "
                                       << name << " is none of them (scripts/rename-ir brings older text to this form)";
      if (parser.parseInteger(sizes.emplace_back(name, 0).second))
        return failure();
    } while (succeeded(parser.parseOptionalKeyword("x")));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseOne))
    return {};
  const auto [axes, values] = namesAndSizes(parser.getContext(), sizes);
  return parser.getChecked<PlanAttr>(loc, parser.getContext(), axes, values, warps, blocksPerSm, dvWarps);
}

void PlanAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleave(
      llvm::zip(getAxes(), getSizes()), printer.getStream(),
      [&](auto each) { printer << std::get<0>(each).getValue() << " " << std::get<1>(each); }, " x ");
  printer << (getAxes().empty() ? "" : ", ") << "warps = " << getWarps() << ", blocks_per_sm = " << getBlocksPerSm();
  if (getDvWarps() != 1)
    printer << ", dv_warps = " << getDvWarps();
  printer << ">";
}
