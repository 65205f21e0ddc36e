//===- Params.cpp - struct Params, and the values that are read from it ---===//

#include "codegen/cuda/KernelPrinter.h"

#include "codegen/cuda/CommentText.h"
#include "ir/NestedOps.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

/// Key of an axis's extent in KernelPrinter::members. The prefix keeps axes apart from parameters of the same name.
static std::string axisKey(StringRef axis) { return ("axis " + axis).str(); }

/// Adds each of `attributes` to `all`, unless `all` contains an attribute of the same name.
template <typename Named> static void addOnce(SmallVectorImpl<Named> &all, ArrayAttr attributes) {
  for (auto attribute : attributes.getAsRange<Named>())
    if (llvm::none_of(all, [&](Named known) { return known.getName() == attribute.getName(); }))
      all.push_back(attribute);
}

Declarations::Declarations(ArrayRef<KernelOp> kernels)
    : signature(
          tile::signatureOf(llvm::map_to_vector(kernels, [](KernelOp kernel) -> Operation * { return kernel; }))) {
  // Operands are in the signature's order, which is the order of the packed parameters.
  for (const OperandParam &operand : signature.operands)
    for (KernelOp kernel : kernels)
      if (tile::OperandAttr declaration = tile::findOperand(kernel, operand.name)) {
        operands.push_back(declaration);
        break;
      }
  for (KernelOp kernel : kernels) {
    addOnce(tensors, kernel.getTensors());
    addOnce(scalars, kernel.getScalars());
  }
}

/// Declares the members of struct Params that follow its fixed members, in the order of attune/LaunchParams.h.
void KernelPrinter::declareParams() {
  Names member;
  for (StringRef fixed : {"seed", "offset", "seed_pointer", "offset_pointer", "workspace", "group", "q_offset",
                          "drop_threshold", "keep_scale", "mapped"})
    member.take(fixed);
  declareExtents(member);
  for (auto scalar : declared.scalars) {
    StringRef own = scalar.getName().getValue(), type = valueName(scalar.getType());
    std::string name = member.take(own);
    if (type.empty())
      fail(kernel, "has run-time scalar '" + own + "' of type " + text(scalar.getType()) + "; use f32, i32, i64 or i1");
    params += ("  alignas(8) " + type + " " + name + ";\n").str();
    members[(tile::scalarPrefix + own).str()] = name;
  }
  for (auto operand : declared.operands)
    declareTensor(member, operand.getName(), operand.getName(), operand.getElementType(), operand.getAxes().size(),
                  operand.isWritten(), axesText(operand) + (operand.getOptional() ? ", or null" : ""));
  for (auto tensor : declared.tensors)
    declareTensor(member, (tile::tensorPrefix + tensor.getName().getValue()).str(), tensor.getName(),
                  tensor.getElementType(), tensor.getRank(), /*written=*/false, "");
  if (maps.text.empty())
    for (const auto &[key, name] : members)
      maps.taken.take(name);
}

/// The member of struct Params that holds the extent of an axis: a word such as `batch` for the axes of attention,
/// `AXIS_extent` for any other axis.
static std::string extentName(StringRef axis) {
  return llvm::StringSwitch<std::string>(axis)
      .Case("b", "batch")
      .Case("h", "heads")
      .Case("hkv", "kv_heads")
      .Case("q", "query_length")
      .Case("k", "key_length")
      .Default((axis + "_extent").str());
}

void KernelPrinter::declareExtents(Names &member) {
  for (const std::string &axis : signature.axes()) {
    std::string name = member.take(extentName(axis));
    params += "  alignas(8) int " + name + ";\n";
    members[axisKey(axis)] = name;
  }
}

/// Declares the pointer, strides and extents of a tensor as members of struct Params. `key` is the parameter's name in
/// the IR, `wish` the requested name of the pointer; `written` says that a kernel stores to the tensor.
void KernelPrinter::declareTensor(Names &member, StringRef key, StringRef wish, Type element, int64_t rank,
                                  bool written, StringRef comment) {
  std::string name = member.take(wish);
  member.take(name + "_stride");
  member.take(name + "_extent");
  params += (Twine("  ") + (written ? "" : "const ") + elementName(element) + " *" + name + ";" +
             (comment.empty() ? "" : "  // " + comment) + "\n")
                .str();
  if (rank)
    params +=
        ("  long long " + name + "_stride[" + Twine(rank) + "], " + name + "_extent[" + Twine(rank) + "];\n").str();
  members[key.str()] = name;
}

/// The extent of an axis; 1 where no operand has the axis.
Expr KernelPrinter::extentOf(StringRef axis) {
  if (const std::optional<TensorDimension> of = tensorDimension(axis)) {
    const std::string tensor = members[(tile::tensorPrefix + of->tensor).str()];
    return natural(primitive("extent", {{paramsPrefix.str() + tensor + "_extent[" + std::to_string(of->dim) + "]"}}));
  }
  auto member = members.find(axisKey(axis));
  return natural({member == members.end() ? "1" : paramsPrefix.str() + member->second});
}

Expr KernelPrinter::parameter(tile::ParamOp op) {
  StringRef name = op.getName();
  if (name == "seed" || name == "offset") {
    std::string slot = paramsPrefix.str() + name.str();
    return {slot + "_pointer ? *" + slot + "_pointer : " + slot, Conditional};
  }
  if (auto member = members.find(name.str()); member != members.end())
    return {paramsPrefix.str() + member->second};
  return natural({(paramsPrefix.str() + name).str()}, op.getResult().getType().isInteger(32) && name != "q_offset");
}

/// Whether an op stores to the view or to a slice of the view.
static bool isStored(Value view) {
  return llvm::any_of(view.getUsers(), [](Operation *user) {
    auto slice = dyn_cast<SliceOp>(user);
    return slice ? isStored(slice.getResult())
                 : isa<StoreElementOp, StoreElementsOp, StoreEightsOp, StoreByteOp, CopyToGlobalOp, AddElementsOp,
                       AddIntegerOp, AddRowsOp, TensorMapOp>(user);
  });
}

bool KernelPrinter::writes(StringRef operand) {
  return holds<tile::ParamOp>(
      kernel, [&](tile::ParamOp param) { return param.getName() == operand && isStored(param.getResult()); });
}

/// The view of an operand or captured tensor. An operand's extents are the extents of its axes; the extent of an axis
/// that counts tiles (`by` is not 1) is read from the operand's own extents in Params.
View KernelPrinter::parameterView(tile::ParamOp op) {
  View view;
  std::string name = paramsPrefix.str() + members[op.getName().str()];
  view.pointer = view.root = name;
  int64_t rank = cast<ViewType>(op.getResult().getType()).getRank();
  for (int64_t i = 0; i < rank; ++i) {
    view.strides.push_back(name + "_stride[" + std::to_string(i) + "]");
    view.extents.push_back(name + "_extent[" + std::to_string(i) + "]");
  }
  OperandAttr operand = tile::operandOf(op.getResult());
  if (!operand)
    return view;
  view.isWritten =
      operand.getRole() == OperandRole::Workspace ? waitsForLaunch || writes(op.getName()) : operand.isWritten();
  for (auto [axis, extent] : llvm::zip(operand.getAxes(), view.extents)) {
    auto member = members.find(axisKey(axis.getName().getValue()));
    if (axis.isFixed())
      extent = std::to_string(axis.getSize());
    else if (axis.getBy() == 1 && member != members.end())
      extent = paramsPrefix.str() + member->second;
  }
  // Operands that are read or written by tiles must have a last stride of 1, and the workspace is dense.
  if (operand.isTiled() || (operand.getRole() == OperandRole::Workspace && !view.strides.empty()))
    view.strides.back().clear();
  return view;
}

} // namespace attune::codegen::cuda
