//===- Signature.cpp - What a kernel's launch passes -------------------------===//

#include "ir/tile/Signature.h"

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

static attune::OperandRole roleOf(tile::OperandRole role) {
  switch (role) {
  case tile::OperandRole::In:
    return attune::OperandRole::In;
  case tile::OperandRole::Out:
    return attune::OperandRole::Out;
  case tile::OperandRole::Accumulate:
    return attune::OperandRole::Accumulate;
  case tile::OperandRole::Workspace:
    return attune::OperandRole::Workspace;
  }
  llvm_unreachable("unknown role");
}

static OperandParam paramOf(OperandAttr operand) {
  OperandParam param = {.name = operand.getName().str(),
                        .dtype = dtypeOf(operand.getElementType()),
                        .role = roleOf(operand.getRole()),
                        .optional = operand.getOptional()};
  for (AxisAttr axis : operand.getAxes())
    param.axes.push_back({axis.getName().str(), int(axis.getSize())});
  return param;
}

/// The fixed extent of an axis; 0 where no operand has it.
static int extentOf(const KernelSignature &signature, std::string_view name) {
  for (const OperandParam &operand : signature.operands)
    for (const AxisParam &axis : operand.axes)
      if (axis.name == name)
        return axis.size;
  return 0;
}

KernelSignature tile::signatureOf(Operation *kernel) {
  KernelSignature signature;
  auto array = [&](StringRef name) {
    auto all = kernel->getAttrOfType<ArrayAttr>(name);
    return all ? all : ArrayAttr::get(kernel->getContext(), {});
  };
  signature.dtype = dtypeOf(kernel->getAttrOfType<TypeAttr>("dtype").getValue());
  for (auto operand : array("operands").getAsRange<OperandAttr>())
    signature.operands.push_back(paramOf(operand));
  signature.headDim = extentOf(signature, "d");
  signature.headDimV = extentOf(signature, "dv");
  for (auto scalar : array("scalars").getAsRange<RuntimeScalarAttr>())
    signature.scalars.push_back({scalar.getName().str(), dtypeOf(scalar.getType())});
  for (auto tensor : array("tensors").getAsRange<CapturedTensorAttr>())
    signature.tensors.push_back({tensor.getName().str(), dtypeOf(tensor.getElementType()), int(tensor.getRank())});
  for (auto bounds : array("bounds").getAsRange<BoundsAttr>())
    signature.bounds.push_back({bounds.getTensor().str(), int(bounds.getDim()), bounds.getAxis() == "k",
                                int(bounds.getRows()), bounds.getName().str()});
  if (auto pattern = kernel->getAttrOfType<BlockPatternAttr>("pattern"))
    signature.blockPattern = {pattern.getName().str(), int(pattern.getRows()), int(pattern.getColumns())};
  signature.dropout = kernel->hasAttr("dropout");
  signature.qOffset = kernel->hasAttr("q_offset");
  return signature;
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
  for (auto [i, bounds] : llvm::enumerate(signature.bounds))
    if (bounds.name == name)
      for (const TensorParam &tensor : signature.tensors)
        if (tensor.name == bounds.tensor)
          return Declaration{Declaration::Bounds, i, tensor.rank, signature.boundsOffset(i)};
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
  return std::nullopt;
}
