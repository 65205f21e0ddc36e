//===- Signature.cpp - The launch signature of kernels in the IR -------------===//

#include "ir/tile/Signature.h"

#include "mlir/IR/SymbolTable.h"
#include <fmt/format.h>

using namespace mlir;
using namespace attune;
using namespace attune::tile;

DType tile::dtypeOf(Type type) {
  if (type.isF16())
    return DType::F16;
  if (type.isBF16())
    return DType::BF16;
  if (type.isInteger(64))
    return DType::I64;
  if (type.isInteger(32))
    return DType::I32;
  if (type.isInteger(1) || type.isInteger(8))
    return DType::Bool;
  return DType::F32;
}

static AxisParam axisParam(AxisAttr axis) { return {axis.getName().str(), int(axis.getSize()), int(axis.getBy())}; }

static OperandParam operandParam(OperandAttr operand) {
  OperandParam param = {.name = operand.getName().str(),
                        .dtype = dtypeOf(operand.getElementType()),
                        .role = operand.getRole(),
                        .optional = operand.getOptional()};
  for (AxisAttr axis : operand.getAxes())
    param.axes.push_back(axisParam(axis));
  return param;
}

static Type typeOf(Builder builder, DType dtype) {
  switch (dtype) {
  case DType::F32:
    return builder.getF32Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::I32:
    return builder.getI32Type();
  case DType::I64:
    return builder.getI64Type();
  case DType::Bool:
    return builder.getI8Type();
  }
  llvm_unreachable("unknown dtype");
}

OperandAttr tile::declarationOf(MLIRContext *context, const OperandParam &operand) {
  const Builder builder(context);
  SmallVector<AxisAttr> axes;
  for (const AxisParam &axis : operand.axes)
    axes.push_back(AxisAttr::get(context, StringAttr::get(context, axis.name), axis.size, axis.by));
  return OperandAttr::get(context, StringAttr::get(context, operand.name), operand.role, operand.optional, axes,
                          typeOf(builder, operand.dtype));
}

std::vector<OperandParam> tile::forwardOperandsOf(attn::AttentionOp op) {
  const attn::KeyPagesAttr pages = op.getKeyPagesAttr();
  return forwardOperands(dtypeOf(op.getDtype()), int(op.getHeadDim()), int(op.getHeadDimV()), op.hasLse(),
                         pages ? int(pages.getSize()) : 0);
}

/// The fixed extent of an axis; 0 where no operand has the axis or its extent is not fixed.
static int extentOf(const KernelSignature &signature, std::string_view name) {
  for (const OperandParam &operand : signature.operands)
    for (const AxisParam &axis : operand.axes)
      if (axis.name == name)
        return axis.size;
  return 0;
}

std::vector<AxisParam> tile::gridOf(Operation *kernel) {
  std::vector<AxisParam> grid;
  for (auto axis : kernel->getAttrOfType<ArrayAttr>("grid").getAsRange<AxisAttr>())
    grid.push_back(axisParam(axis));
  return grid;
}

std::vector<ExtentBound> tile::boundsOf(Operation *kernel) {
  std::vector<ExtentBound> bounds;
  for (ExtentBoundAttr bound : skippedIf(kernel))
    bounds.push_back({bound.getAxis().str(), bound.getMost() ? bound.getMost().str() : ""});
  return bounds;
}

Expected<SmallVector<LaunchedKernel>> tile::launchedKernels(ModuleOp module) {
  SmallVector<LaunchedKernel> kernels;
  for (auto launch : module.getOps<LaunchOp>()) {
    for (auto [name, dependent] : llvm::zip(launch.getKernels().getAsRange<FlatSymbolRefAttr>(), launch.getDependent()))
      kernels.push_back({SymbolTable::lookupSymbolIn(module, name.getAttr()), dependent});
    return kernels;
  }
  for (Operation &op : module.getOps())
    if (op.hasAttr("operands"))
      kernels.push_back({&op, false});
  if (kernels.size() == 1)
    return kernels;
  return Error{fmt::format("the module has {} kernels and no tile.launch, which says in what order they start; "
                           "add one: tile.launch @name [@first, @second]",
                           kernels.size())};
}

/// Appends `param` unless `params` has an entry of the same name.
template <typename Param> static void addOnce(std::vector<Param> &params, Param param) {
  if (llvm::none_of(params, [&](const Param &known) { return known.name == param.name; }))
    params.push_back(std::move(param));
}

static void addDeclarations(Operation *kernel, KernelSignature &signature) {
  auto array = [&](StringRef name) {
    auto all = kernel->getAttrOfType<ArrayAttr>(name);
    return all ? all : ArrayAttr::get(kernel->getContext(), {});
  };
  for (auto operand : array("operands").getAsRange<OperandAttr>())
    addOnce(signature.operands, operandParam(operand));
  for (auto scalar : array("scalars").getAsRange<RuntimeScalarAttr>())
    addOnce(signature.scalars, ScalarParam{scalar.getName().str(), dtypeOf(scalar.getType())});
  for (auto tensor : array("tensors").getAsRange<CapturedTensorAttr>())
    addOnce(signature.tensors,
            TensorParam{tensor.getName().str(), dtypeOf(tensor.getElementType()), int(tensor.getRank())});
  if (auto pattern = kernel->getAttrOfType<BlockPatternAttr>("pattern"))
    signature.blockPattern = {pattern.getName().str(), int(pattern.getRows()), int(pattern.getColumns())};
  for (DerivedAxisAttr axis : derivedAxes(kernel))
    addOnce(signature.derived,
            DerivedAxis{axis.getName().str(), *parseDerivedRule(axis.getRule().getValue()), int(axis.getBy()),
                        int(axis.getBlocksPerSm()), axis.getOf() ? axis.getOf().str() : ""});
  signature.dropout = signature.dropout || kernel->hasAttr("dropout");
  signature.qOffset = signature.qOffset || kernel->hasAttr("q_offset");
}

KernelSignature tile::signatureOf(ArrayRef<Operation *> kernels) {
  KernelSignature signature;
  signature.dtype = dtypeOf(kernels.back()->getAttrOfType<TypeAttr>("dtype").getValue());
  for (Operation *kernel : kernels)
    addDeclarations(kernel, signature);
  // Workspace operands, which the launch allocates, come last: the caller's operands then have the same positions
  // whatever workspace the kernels need.
  std::vector<OperandParam> given, kept;
  for (OperandParam &operand : signature.operands)
    (operand.role == OperandRole::Workspace ? kept : given).push_back(std::move(operand));
  given.insert(given.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  signature.operands = std::move(given);
  signature.headDim = extentOf(signature, "d");
  signature.headDimV = extentOf(signature, "dv");
  return signature;
}

KernelSignature tile::signatureOf(ArrayRef<LaunchedKernel> kernels) {
  return signatureOf(llvm::map_to_vector(kernels, [](LaunchedKernel kernel) { return kernel.op; }));
}

std::optional<Declaration> tile::findView(const KernelSignature &signature, StringRef name) {
  for (auto [i, operand] : llvm::enumerate(signature.operands))
    if (operand.name == name)
      return Declaration{Declaration::Operand, i, operand.rank(), signature.operandOffset(i)};
  StringRef own = name;
  if (own.consume_front(tensorPrefix))
    for (auto [i, tensor] : llvm::enumerate(signature.tensors))
      if (tensor.name == own)
        return Declaration{Declaration::Tensor, i, tensor.rank, signature.tensorOffset(i)};
  return std::nullopt;
}

std::optional<size_t> tile::findScalar(const KernelSignature &signature, StringRef name) {
  if (name.consume_front(scalarPrefix))
    for (auto [i, scalar] : llvm::enumerate(signature.scalars))
      if (scalar.name == name)
        return signature.scalarOffset(i);
  return std::nullopt;
}

std::optional<size_t> tile::findExtent(const KernelSignature &signature, StringRef axis) {
  for (auto [i, name] : llvm::enumerate(signature.axes()))
    if (name == axis)
      return signature.extentOffset(i);
  if (const std::optional<TensorDimension> of = tensorDimension(axis))
    for (auto [i, tensor] : llvm::enumerate(signature.tensors))
      if (tensor.name == of->tensor)
        return signature.tensorOffset(i) + 8 * size_t(1 + tensor.rank + of->dim);
  return std::nullopt;
}
