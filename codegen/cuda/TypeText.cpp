//===- TypeText.cpp - Types of the IR as text of the source ---------------===//

#include "codegen/cuda/TypeText.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

StringRef elementName(Type type) {
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "bf16";
  if (type.isF16())
    return "f16";
  if (type.isInteger(8))
    return "unsigned char";
  if (type.isInteger(32))
    return "int";
  if (type.isInteger(64))
    return "long long";
  return "";
}

StringRef valueName(Type type) {
  if (type.isInteger(1))
    return "bool";
  return type.isF32() || type.isInteger(32) || type.isInteger(64) ? elementName(type) : StringRef();
}

std::string text(Type type) {
  std::string result;
  llvm::raw_string_ostream(result) << type;
  return result;
}

std::string describe(TileType type) {
  std::string result;
  for (unsigned i = 0; i < type.rank(); ++i)
    result += (i ? " x " : "") + type.axis(i).str() + " " + std::to_string(type.getShape()[i]);
  return result + " " + text(type.getElementType());
}

StringRef arrayElement(TileType type) {
  FragmentRole role = cast<FragmentAttr>(type.getLayout()).getRole();
  Type element = type.getElementType();
  bool isOperand = role == FragmentRole::A || role == FragmentRole::B;
  if (element.isBF16() || element.isF16())
    return isOperand ? "unsigned" : "";
  if (element.isInteger(32) && isOperand)
    return "unsigned";
  return valueName(element);
}

std::string arrayShape(TileType type) {
  std::string text;
  for (int64_t size : cast<FragmentAttr>(type.getLayout()).laneShape(type))
    text += "[" + std::to_string(size) + "]";
  return text;
}

std::string axesText(OperandAttr operand) {
  std::string result;
  for (tile::AxisAttr axis : operand.getAxes())
    result += (result.empty() ? "" : ", ") + axis.getName().str() +
              (axis.isFixed() ? " " + std::to_string(axis.getSize()) : "") +
              (axis.getBy() == 1 ? "" : " by " + std::to_string(axis.getBy()));
  return "[" + result + "]";
}

} // namespace attune::codegen::cuda
