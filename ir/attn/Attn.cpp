//===- Attn.cpp - Attributes, ops and verifiers of the attn dialect ---------===//

#include "ir/attn/Attn.h"

#include "attune/DType.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attune::attn;

LogicalResult AttnDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == variantAttr && !isa<VariantAttr>(attribute.getValue()))
    return op->emitOpError() << "attribute '" << variantAttr << "' must be an #attn.variant<{...}>, got "
                             << attribute.getValue();
  return success();
}

Type attune::attn::valueType(Type type) {
  Builder builder(type.getContext());
  if (isa<FloatType>(type))
    return builder.getF32Type();
  return type.isInteger(8) ? builder.getI1Type() : type;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

Attribute CapturedTensorAttr::parse(AsmParser &parser, Type) {
  std::string name;
  Type elementType;
  int64_t rank = 0;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseComma() ||
      parser.parseType(elementType) || parser.parseComma() || parser.parseKeyword("rank") ||
      parser.parseInteger(rank) || parser.parseGreater())
    return {};
  return parser.getChecked<CapturedTensorAttr>(parser.getContext(), parser.getBuilder().getStringAttr(name),
                                               elementType, rank);
}

void CapturedTensorAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName().getValue());
  printer << ", " << getElementType() << ", rank " << getRank() << ">";
}

LogicalResult CapturedTensorAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name, Type type,
                                         int64_t rank) {
  bool known =
      type.isF32() || type.isF16() || type.isBF16() || type.isInteger(8) || type.isInteger(32) || type.isInteger(64);
  if (!known)
    return emitError() << "captured tensor " << name << " has element type " << type
                       << "; use f32, f16, bf16, i32, i64, or i8 for bool";
  if (rank < 0 || rank > 4)
    return emitError() << "captured tensor " << name << " has rank " << rank << "; use 0 to 4";
  return success();
}

Attribute RuntimeScalarAttr::parse(AsmParser &parser, Type) {
  std::string name;
  Type type;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseComma() || parser.parseType(type) ||
      parser.parseGreater())
    return {};
  return RuntimeScalarAttr::get(parser.getContext(), parser.getBuilder().getStringAttr(name), type);
}

void RuntimeScalarAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName().getValue());
  printer << ", " << getType() << ">";
}

Attribute BlockPatternAttr::parse(AsmParser &parser, Type) {
  std::string name;
  SmallVector<int64_t> blocks;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseComma() ||
      parser.parseDimensionList(blocks, /*allowDynamic=*/false, /*withTrailingX=*/false) || parser.parseGreater())
    return {};
  if (blocks.size() != 2) {
    parser.emitError(parser.getCurrentLocation(), "expected 'rows x columns'");
    return {};
  }
  return parser.getChecked<BlockPatternAttr>(parser.getContext(), parser.getBuilder().getStringAttr(name), blocks[0],
                                             blocks[1]);
}

void BlockPatternAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName().getValue());
  printer << ", " << getRows() << "x" << getColumns() << ">";
}

LogicalResult BlockPatternAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, int64_t rows,
                                       int64_t columns) {
  if (rows <= 0 || columns <= 0 || rows % 16 || columns % 16)
    return emitError() << "block pattern of " << rows << " x " << columns << " is not made of positive multiples of 16";
  return success();
}

Attribute KeyPagesAttr::parse(AsmParser &parser, Type) {
  std::string name;
  int64_t size = 0;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseComma() || parser.parseInteger(size) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<KeyPagesAttr>(parser.getContext(), parser.getBuilder().getStringAttr(name), size);
}

void KeyPagesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName().getValue());
  printer << ", " << getSize() << ">";
}

LogicalResult KeyPagesAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, int64_t size) {
  if (size <= 0 || size % 16 || size > INT32_MAX)
    return emitError() << "page size " << size << " is not a positive multiple of 16";
  return success();
}

Attribute SequencesAttr::parse(AsmParser &parser, Type) {
  std::string queries, keys;
  if (parser.parseLess() || parser.parseKeywordOrString(&queries))
    return {};
  const bool hasKeys = succeeded(parser.parseOptionalComma());
  if ((hasKeys && parser.parseKeywordOrString(&keys)) || parser.parseGreater())
    return {};
  Builder &builder = parser.getBuilder();
  return get(parser.getContext(), builder.getStringAttr(queries), hasKeys ? builder.getStringAttr(keys) : StringAttr());
}

void SequencesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getQueries().getValue());
  if (getKeys()) {
    printer << ", ";
    printer.printKeywordOrString(getKeys().getValue());
  }
  printer << ">";
}

Attribute RowStatisticAttr::parse(AsmParser &parser, Type) {
  std::string name;
  StringRef reduction;
  FloatAttr initial;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseComma() ||
      parser.parseKeyword(&reduction) || parser.parseComma())
    return {};
  if (reduction != "max" && reduction != "sum") {
    parser.emitError(parser.getCurrentLocation()) << "a statistic is a max or a sum, not '" << reduction << "'";
    return {};
  }
  if (parser.parseAttribute(initial) || parser.parseGreater())
    return {};
  return RowStatisticAttr::get(parser.getContext(), parser.getBuilder().getStringAttr(name), reduction == "max",
                               initial);
}

void RowStatisticAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName().getValue());
  printer << ", " << (getIsMax() ? "max" : "sum") << ", " << getInitial() << ">";
}

Attribute GradientsAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> tensors;
  auto tensor = [&] { return parser.parseAttribute(tensors.emplace_back()); };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, tensor))
    return {};
  bool lse = false, deterministic = false;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef word;
    const SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return {};
    if (word != "lse" && word != "deterministic") {
      parser.emitError(at) << "expected lse or deterministic, not '" << word << "'";
      return {};
    }
    (word == "lse" ? lse : deterministic) = true;
  }
  if (parser.parseGreater())
    return {};
  return GradientsAttr::get(parser.getContext(), tensors, lse, deterministic);
}

void GradientsAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getTensors(), printer);
  printer << "]" << (getLse() ? ", lse" : "") << (getDeterministic() ? ", deterministic" : "") << ">";
}

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

CapturedTensorAttr AttentionOp::findTensor(StringRef name) {
  for (auto tensor : getTensors().getAsRange<CapturedTensorAttr>())
    if (tensor.getName() == name)
      return tensor;
  return {};
}

RuntimeScalarAttr AttentionOp::findScalar(StringRef name) {
  for (auto scalar : getScalars().getAsRange<RuntimeScalarAttr>())
    if (scalar.getName() == name)
      return scalar;
  return {};
}

std::array<Region *, 5> AttentionOp::normaliserRegions() {
  return {&getBase(), &getRescale(), &getP(), &getDivisor(), &getLse()};
}

std::array<std::pair<Region *, Region *>, 4> AttentionOp::gradientRegions() {
  return {{{&getScoreGrad(), &getScore()},
           {&getPGrad(), &getP()},
           {&getDivisorGrad(), &getDivisor()},
           {&getLseGrad(), &getLse()}}};
}

std::string AttentionOp::normaliserArgument(Region &region, size_t i) {
  SmallVector<StringRef> names{"b", "h"};
  if (&region == &getP())
    names.push_back("x");
  else
    for (auto statistic : getStatistics().getAsRange<RowStatisticAttr>())
      names.push_back(statistic.getName().getValue());
  names.push_back("base");
  return i < names.size() ? names[i].str() : std::string();
}

static LogicalResult verifyRegion(AttentionOp op, Region &region, StringRef what, bool takesScore) {
  if (region.empty())
    return success();
  Builder builder(op.getContext());
  SmallVector<Type> expected(takesScore ? 5 : 4, builder.getI32Type());
  if (takesScore)
    expected.front() = builder.getF32Type();
  if (!llvm::equal(region.getArgumentTypes(), expected))
    return op.emitOpError() << what << " region must take "
                            << (takesScore ? "(f32, i32, i32, i32, i32)" : "(i32, i32, i32, i32)");
  auto yield = dyn_cast<YieldOp>(region.front().back());
  Type type = takesScore ? Type(builder.getF32Type()) : Type(builder.getI1Type());
  if (!yield || yield.getValue().getType() != type)
    return op.emitOpError() << what << " region must yield " << type;
  return success();
}

/// Verifies that a region of the normaliser takes b and h (i32), then as many f32 arguments as `values` says, and
/// yields f32.
static LogicalResult verifyNormaliserRegion(AttentionOp op, Region &region, StringRef what, size_t values) {
  if (region.empty())
    return success();
  Builder builder(op.getContext());
  SmallVector<Type> expected(2, builder.getI32Type());
  expected.append(values, builder.getF32Type());
  if (!llvm::equal(region.getArgumentTypes(), expected))
    return op.emitOpError() << what << " region must take (b, h : i32) and " << values << " f32";
  auto yield = dyn_cast<YieldOp>(region.front().back());
  if (!yield || !yield.getValue().getType().isF32())
    return op.emitOpError() << what << " region must yield 'f32'";
  return success();
}

static LogicalResult verifyNormaliser(AttentionOp op) {
  const size_t statistics = op.getStatistics().size(), base = !op.getBase().empty();
  if (!op.getNormaliser()) {
    if (statistics || llvm::any_of(op.normaliserRegions(), [](Region *region) { return !region->empty(); }))
      return op.emitOpError("has the statistics or regions of a normaliser, but names none");
    return success();
  }
  if (op.getP().empty())
    return op.emitOpError() << "normaliser " << op.getNormaliserAttr() << " has no p region";
  for (auto statistic : op.getStatistics().getAsRange<RowStatisticAttr>())
    if (!statistic.getInitial().getType().isF32())
      return op.emitOpError() << "statistic " << statistic.getName() << " must start from an f32";
  const std::tuple<Region &, const char *, size_t> regions[] = {{op.getBase(), "base", statistics},
                                                                {op.getRescale(), "rescale", statistics + base},
                                                                {op.getP(), "p", 1 + base},
                                                                {op.getDivisor(), "divisor", statistics},
                                                                {op.getLse(), "lse", statistics}};
  for (auto [region, what, values] : regions)
    if (failed(verifyNormaliserRegion(op, region, what, values)))
      return failure();
  if (!op.getBase().empty())
    for (auto [statistic, argument] :
         llvm::zip(op.getStatistics().getAsRange<RowStatisticAttr>(), op.getBase().getArguments().drop_front(2)))
      if (!statistic.getIsMax() && !argument.use_empty())
        return op.emitOpError() << "base region reads statistic " << statistic.getName()
                                << ", a sum of weights that follow from it";
  return success();
}

/// Verifies a gradient region: it takes the arguments of its primal region `of`, then g (f32), the gradient of the
/// primal's result, and yields f32.
static LogicalResult verifyGradientRegion(AttentionOp op, Region &region, Region &of) {
  if (region.empty())
    return success();
  const Type f32 = Builder(op.getContext()).getF32Type();
  if (!op.getGradients())
    return op.emitOpError("has regions of gradients, but no attribute 'gradients'");
  if (of.empty())
    return op.emitOpError("has the gradient of a region that it does not have");
  SmallVector<Type> expected(of.getArgumentTypes());
  expected.push_back(f32);
  if (!llvm::equal(region.getArgumentTypes(), expected))
    return op.emitOpError("region of gradients must take what its region takes, and f32");
  auto yield = dyn_cast<YieldOp>(region.front().back());
  if (!yield || yield.getValue().getType() != f32)
    return op.emitOpError("region of gradients must yield 'f32'");
  return success();
}

static LogicalResult verifyGradients(AttentionOp op) {
  for (auto [region, of] : op.gradientRegions())
    if (failed(verifyGradientRegion(op, *region, *of)))
      return failure();
  if (std::optional<GradientsAttr> gradients = op.getGradients())
    for (StringAttr name : gradients->getTensors()) {
      CapturedTensorAttr tensor = op.findTensor(name);
      if (!tensor)
        return op.emitOpError() << "gives the gradient of " << name << ", which is no captured tensor";
      if (!isa<FloatType>(tensor.getElementType()))
        return op.emitOpError() << "gives the gradient of " << name << ", whose elements are "
                                << tensor.getElementType() << "; only tensors of floats have one";
    }
  return success();
}

bool AttentionOp::saves(StringRef what) { return llvm::is_contained(getSaves().getAsValueRange<StringAttr>(), what); }

Value AttentionOp::getSavedScore() {
  if (!saves("score") || getScore().empty())
    return {};
  for (Operation &op : getScore().front())
    if (op.hasAttr(savedAttr))
      return op.getResult(0);
  return cast<YieldOp>(getScore().front().back()).getValue();
}

static LogicalResult verifySaves(AttentionOp op) {
  llvm::StringSet<> seen;
  for (StringRef what : op.getSaves().getAsValueRange<StringAttr>()) {
    if (what != "dropout" && what != "score")
      return op.emitOpError() << "saves '" << what << "'; what can be saved is dropout and score";
    if (!seen.insert(what).second)
      return op.emitOpError() << "saves '" << what << "' twice";
  }
  if (op.saves("dropout") && !op.getDropout())
    return op.emitOpError("saves what dropout keeps, but has no dropout");
  int marked = 0;
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps()) {
      if (!inner.hasAttr(savedAttr))
        continue;
      if (&region != &op.getScore() || inner.getNumResults() != 1 || !inner.getResult(0).getType().isF32() ||
          ++marked > 1 || !op.saves("score"))
        return inner.emitOpError()
               << "is marked " << savedAttr
               << "; the mark is for one op that gives f32 in the score region of an attention that "
                  "saves \"score\"";
    }
  return success();
}

/// Whether `index` is computed from an integer argument of `region` other than the head, or from an extent of a sequence.
static bool isByPlace(Value index, Region &region, unsigned head) {
  if (auto argument = dyn_cast<BlockArgument>(index))
    return argument.getOwner()->getParent() == &region && argument.getType().isInteger(32) &&
           argument.getArgNumber() != head;
  Operation *definition = index.getDefiningOp();
  if (auto extent = dyn_cast_or_null<ExtentOp>(definition))
    return extent.getName() != "H";
  return definition &&
         llvm::any_of(definition->getOperands(), [&](Value operand) { return isByPlace(operand, region, head); });
}

/// Verifies what goes with packed sequences.
static LogicalResult verifySequences(AttentionOp op) {
  if (op.getPattern() || op.getQOffset() || op.getQueryLengths() || !op.getSaves().empty())
    return op.emitError("packed sequences go with no block pattern, query offset, query lengths or saved values, which "
                        "are of a batch; leave these out, or pad the sequences to a batch");
  if (op.getKeyPages() && op.getSequencesAttr().getKeys())
    return op.emitError("keys are packed and in pages; leave out one of them: with pages, pass the sequences of the "
                        "queries alone");
  for (auto [region, of] : op.gradientRegions())
    for (auto add : region->getOps<AddGradientOp>())
      if (llvm::any_of(add.getIndices(),
                       [&](Value index) { return isByPlace(index, *region, region == &op.getScoreGrad() ? 2 : 1); }))
        return op.emitError() << "packed sequences have no gradient of '" << add.getName()
                              << "', which is read at indices of b, q or k; read it by the head alone, or pad the "
                                 "sequences to a batch";
  return success();
}

/// Verifies that sequence lengths and page tables are captured i32 tensors, and that a backward pass has none of them.
static LogicalResult verifyKeys(AttentionOp op) {
  auto isTable = [&](StringRef name, int64_t rank) {
    CapturedTensorAttr tensor = op.findTensor(name);
    return tensor && tensor.getElementType().isInteger(32) && tensor.getRank() == rank;
  };
  if (std::optional<StringRef> lengths = op.getKeyLengths(); lengths && !isTable(*lengths, 1))
    return op.emitOpError() << "key lengths " << *lengths << " are not a captured i32 tensor of rank 1";
  if (std::optional<StringRef> lengths = op.getQueryLengths(); lengths && !isTable(*lengths, 1))
    return op.emitOpError() << "query lengths " << *lengths << " are not a captured i32 tensor of rank 1";
  if (KeyPagesAttr pages = op.getKeyPagesAttr(); pages && !isTable(pages.getName(), 2))
    return op.emitOpError() << "key pages " << pages.getName() << " are not a captured i32 tensor of rank 2";
  if (SequencesAttr sequences = op.getSequencesAttr()) {
    for (StringAttr name : {sequences.getQueries(), sequences.getKeys()})
      if (name && !isTable(name, 1))
        return op.emitOpError() << "bounds of sequences " << name << " are not a captured i32 tensor of rank 1";
    if (failed(verifySequences(op)))
      return failure();
  }
  if (op.getGradients() && op.getKeyPages())
    return op.emitOpError("has keys in pages, of which there is no backward pass");
  if (op.getGradients() && op.getQueryLengths() && op.getQOffset())
    return op.emitOpError("has query lengths and a query offset, of which there is no backward pass together");
  if (!op.getPGrad().empty() && (op.getKeyLengths() || op.getQueryLengths()))
    return op.emitOpError(
        "has lengths of sequences beside regions of gradients; attn-differentiate makes them conditions "
        "of the mask");
  return success();
}

LogicalResult AttentionOp::verifyRegions() {
  Type type = getDtype();
  if (!type.isF32() && !type.isF16() && !type.isBF16())
    return emitOpError() << "dtype " << type << " is not f16, bf16 or f32";
  for (int64_t dim : {getHeadDim(), getHeadDimV()})
    if (dim <= 0 || dim % 8 || dim > maxHeadDim)
      return emitOpError() << "head_dim " << dim << " is not a multiple of 8 from 8 to " << maxHeadDim;
  if (BlockPatternAttr pattern = getPatternAttr()) {
    CapturedTensorAttr tensor = findTensor(pattern.getName());
    if (!tensor || !tensor.getElementType().isInteger(8) || (tensor.getRank() != 2 && tensor.getRank() != 3))
      return emitOpError() << "block pattern " << pattern.getName() << " is not a captured i8 tensor of rank 2 or 3";
  }
  if (failed(verifyKeys(*this)) || failed(verifyRegion(*this, getScore(), "score", true)))
    return failure();
  if (failed(verifyRegion(*this, getMask(), "mask", false)))
    return failure();
  if (failed(verifyNormaliser(*this)) || failed(verifySaves(*this)))
    return failure();
  return verifyGradients(*this);
}

/// The captured tensor `name` of the attention around `op`; an error where there is none.
static FailureOr<CapturedTensorAttr> findCaptured(Operation *op, StringRef name) {
  auto attention = op->getParentOfType<AttentionOp>();
  if (!attention)
    return op->emitOpError("must be inside attn.attention");
  CapturedTensorAttr tensor = attention.findTensor(name);
  if (!tensor)
    return op->emitOpError() << "unknown captured tensor '" << name << "'";
  return tensor;
}

/// The captured tensor `name` that `op` indexes; an error where there is none, or its rank is not `indices`.
static FailureOr<CapturedTensorAttr> findIndexed(Operation *op, StringRef name, size_t indices) {
  FailureOr<CapturedTensorAttr> tensor = findCaptured(op, name);
  if (succeeded(tensor) && tensor->getRank() != int64_t(indices))
    return op->emitOpError() << "captured tensor '" << name << "' of rank " << tensor->getRank() << " takes "
                             << tensor->getRank() << " indices, got " << indices;
  return tensor;
}

LogicalResult LoadOp::verify() {
  FailureOr<CapturedTensorAttr> tensor = findIndexed(*this, getName(), getIndices().size());
  if (failed(tensor))
    return failure();
  if (getResult().getType() != valueType(tensor->getElementType()))
    return emitOpError() << "elements of '" << getName() << "' are " << valueType(tensor->getElementType());
  return success();
}

LogicalResult SearchOp::verify() {
  FailureOr<CapturedTensorAttr> tensor = findCaptured(*this, getName());
  if (failed(tensor))
    return failure();
  if (tensor->getRank() != 1)
    return emitOpError() << "searches a captured tensor of rank 1, but '" << getName() << "' has rank "
                         << tensor->getRank();
  if (valueType(tensor->getElementType()) != getX().getType())
    return emitOpError() << "elements of '" << getName() << "' are " << valueType(tensor->getElementType())
                         << ", but x is " << getX().getType();
  return success();
}

LogicalResult AddGradientOp::verify() {
  auto attention = (*this)->getParentOfType<AttentionOp>();
  if (!attention)
    return emitOpError("must be inside attn.attention");
  Region *within = (*this)->getParentRegion();
  if (llvm::none_of(attention.gradientRegions(), [&](auto pair) { return pair.first == within; }))
    return emitOpError("must be inside a region of gradients");
  // The ops in an attention's regions are verified before the attention, so `gradients` may still be missing.
  const std::optional<GradientsAttr> gradients = attention.getGradients();
  if (!gradients || !llvm::is_contained(gradients->getTensors(), getNameAttr()))
    return emitOpError() << "adds to the gradient of '" << getName() << "', which the attention does not give";
  return findIndexed(*this, getName(), getIndices().size());
}

LogicalResult ScalarOp::verify() {
  auto attention = (*this)->getParentOfType<AttentionOp>();
  if (!attention)
    return emitOpError("must be inside attn.attention");
  RuntimeScalarAttr scalar = attention.findScalar(getName());
  if (!scalar)
    return emitOpError() << "unknown run-time scalar '" << getName() << "'";
  if (scalar.getType() != getResult().getType())
    return emitOpError() << "run-time scalar '" << getName() << "' is " << scalar.getType();
  return success();
}

LogicalResult ExtentOp::verify() {
  if (!llvm::is_contained({"B", "H", "Sq", "Sk"}, getName()))
    return emitOpError() << "extent '" << getName() << "' is not B, H, Sq or Sk";
  return success();
}

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t tileQ, int64_t tileK,
                               int64_t warps, int64_t stages, bool, int64_t blocksPerSm, bool, int64_t dvWarps,
                               int64_t producerWarps, bool persistent, int64_t queryStages, bool pingPong, bool overlap,
                               bool stageBiases, bool, bool, int64_t dpStages) {
  if (tileQ <= 0 || tileQ % 16 || tileK <= 0 || tileK % 16)
    return emitError() << "tile " << tileQ << " x " << tileK << " is not made of positive multiples of 16";
  if (warps <= 0 || stages <= 0 || blocksPerSm <= 0)
    return emitError() << "warps, stages and blocks_per_sm must be positive";
  if (dvWarps <= 0 || warps % dvWarps)
    return emitError() << "dv_warps " << dvWarps << " does not divide " << warps << " warps";
  if (producerWarps != 0 &&
      (producerWarps != 4 || dvWarps != 1 || warps % 4 || (tileQ != 16 * warps && tileK != 16 * warps)))
    return emitError()
           << "with producer warps, 4 of them, `warps` are whole warpgroups and tile_q (tile_k in a loop over "
              "queries) has 16 rows for each warp";
  if (dpStages < 0 || dpStages > stages)
    return emitError() << "dp_stages " << dpStages << " is not between 0 and stages, " << stages;
  if (persistent && !producerWarps)
    return emitError() << "persistent blocks need producer warps, which run ahead to the next query tile";
  if (queryStages < 1 || (queryStages > 1 && !persistent))
    return emitError() << "q_stages " << queryStages << " is not 1; only persistent blocks have more";
  if (pingPong && !producerWarps)
    return emitError() << "ping_pong is for warpgroups with producer warps; give producer_warps";
  if (overlap && !producerWarps)
    return emitError() << "overlap is for warpgroups with producer warps; give producer_warps";
  if (stageBiases && !producerWarps)
    return emitError() << "biases are staged by producer warps; give producer_warps, or leave out stage_biases";
  return success();
}
