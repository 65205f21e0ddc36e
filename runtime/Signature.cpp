//===- Signature.cpp - Byte offsets of the packed parameters ----------------===//
//
// Computes the layout that attune/LaunchParams.h describes as a table. The launch, the CUDA printer, the CPU target,
// the simulator and exported launchers all take parameter offsets from here.
//
//===----------------------------------------------------------------------===//

#include "attune/Signature.h"
#include "runtime/Launcher.h"

#include <algorithm>

using namespace attune;

static constexpr size_t tensorMapAlignment = 64;

static constexpr std::string_view tensorAxis = "tensors.";

bool AxisParam::isShared() const { return size == 0 && !name.starts_with(tensorAxis); }

std::optional<TensorDimension> attune::tensorDimension(std::string_view axis) {
  const size_t dot = axis.rfind('.');
  if (!axis.starts_with(tensorAxis) || dot < tensorAxis.size() || dot + 2 != axis.size() || axis[dot + 1] < '0' ||
      axis[dot + 1] > '9')
    return std::nullopt;
  return TensorDimension{axis.substr(tensorAxis.size(), dot - tensorAxis.size()), axis[dot + 1] - '0'};
}

const char *attune::name(OperandRole role) {
  constexpr const char *names[] = {"in", "out", "accumulate", "workspace"};
  return names[size_t(role)];
}

std::optional<OperandRole> attune::parseOperandRole(std::string_view text) {
  for (OperandRole role : {OperandRole::In, OperandRole::Out, OperandRole::Accumulate, OperandRole::Workspace})
    if (text == name(role))
      return role;
  return std::nullopt;
}

const char *attune::name(DerivedAxis::Rule rule) {
  constexpr const char *names[] = {"rows",       "splits",    "pages",     "slots",
                                   "work_items", "tile_rows", "sequences", "sequence_rows"};
  return names[size_t(rule)];
}

bool attune::isOfTensor(DerivedAxis::Rule rule) {
  return rule == DerivedAxis::Rule::Pages || rule == DerivedAxis::Rule::Sequences;
}

bool attune::isOfRows(DerivedAxis::Rule rule) {
  using Rule = DerivedAxis::Rule;
  return rule == Rule::WorkItems || rule == Rule::TileRows || rule == Rule::SequenceRows;
}

std::optional<DerivedAxis::Rule> attune::parseDerivedRule(std::string_view text) {
  using Rule = DerivedAxis::Rule;
  for (Rule rule : {Rule::Rows, Rule::Splits, Rule::Pages, Rule::Slots, Rule::WorkItems, Rule::TileRows,
                    Rule::Sequences, Rule::SequenceRows})
    if (text == name(rule))
      return rule;
  return std::nullopt;
}

std::vector<OperandParam> attune::forwardOperands(DType dtype, int headDim, int headDimV, bool withLse, int pageSize) {
  const AxisParam b{"b"}, h{"h"}, hkv{"hkv"}, q{"q"}, d{"d", headDim}, dv{"dv", headDimV};
  const AxisParam place{pageSize ? "page" : "b"}, k{pageSize ? "slot" : "k", pageSize};
  std::vector<OperandParam> operands = {{"q", dtype, OperandRole::In, false, {b, h, q, d}},
                                        {"k", dtype, OperandRole::In, false, {place, hkv, k, d}},
                                        {"v", dtype, OperandRole::In, false, {place, hkv, k, dv}},
                                        {"o", dtype, OperandRole::Out, false, {b, h, q, dv}}};
  if (withLse)
    operands.push_back({"lse", DType::F32, OperandRole::Out, true, {b, h, q}});
  return operands;
}

void attune::packOperands(std::vector<OperandParam> &operands, bool packsKeys) {
  for (OperandParam &operand : operands)
    if (packsKeys || std::ranges::find(operand.axes, "q", &AxisParam::name) != operand.axes.end())
      for (AxisParam &axis : operand.axes)
        if (axis.name == "b")
          axis = {"pack", 1};
}

OperandParam attune::gradientOperand(const TensorParam &tensor) {
  OperandParam operand = {std::string(gradientPrefix) + tensor.name, tensor.dtype, OperandRole::Out};
  for (int dim = 0; dim < tensor.rank; ++dim)
    operand.axes.push_back({std::string(tensorAxis) + tensor.name + "." + std::to_string(dim)});
  return operand;
}

std::vector<OperandParam> attune::backwardOperands(DType dtype, int headDim, int headDimV, bool statistics,
                                                   bool withGradientOfLse, const std::vector<TensorParam> &gradients) {
  std::vector<OperandParam> operands;
  auto add = [&](const OperandParam &like, const char *name, OperandRole role) {
    operands.push_back(like);
    operands.back().name = name;
    operands.back().role = role;
    operands.back().optional = false;
  };
  const std::vector<OperandParam> forward = forwardOperands(dtype, headDim, headDimV);
  const OperandParam &q = forward[0], &k = forward[1], &v = forward[2], &o = forward[3], &lse = forward[4];
  for (const OperandParam *each : {&q, &k, &v})
    add(*each, each->name.c_str(), OperandRole::In);
  if (statistics)
    for (const OperandParam *each : {&o, &lse})
      add(*each, each->name.c_str(), OperandRole::In);
  add(o, "do", OperandRole::In);
  if (withGradientOfLse)
    add(lse, "dlse", OperandRole::In);
  add(q, "dq", OperandRole::Out);
  add(k, "dk", OperandRole::Out);
  add(v, "dv", OperandRole::Out);
  for (const TensorParam &tensor : gradients)
    operands.push_back(gradientOperand(tensor));
  return operands;
}

OperandParam attune::savedOperand(std::string_view what, OperandRole role) {
  const bool isScore = what == "score";
  return {.name = std::string(savedPrefix) + std::string(what),
          .dtype = isScore ? DType::F32 : DType::Bool,
          .role = role,
          .axes = {{"b"}, {"h"}, {"q", 0, 16}, {"k", 0, 16}, {isScore ? "element" : "call", isScore ? 256 : 32}}};
}

std::array<int64_t, 5> attune::savedShape(const OperandParam &operand, int64_t batch, int64_t heads, int64_t queries,
                                          int64_t keys) {
  return {batch, heads, (queries + 15) / 16, (keys + 15) / 16, operand.axes.back().size};
}

std::vector<std::string> KernelSignature::axes() const {
  std::vector<std::string> names;
  for (const OperandParam &operand : operands)
    for (const AxisParam &axis : operand.axes)
      if (axis.isShared() && std::ranges::find(names, axis.name) == names.end())
        names.push_back(axis.name);
  for (const DerivedAxis &axis : derived)
    if (std::ranges::find(names, axis.name) == names.end())
      names.push_back(axis.name);
  return names;
}

size_t KernelSignature::extentOffset(size_t axis) const { return sizeof(LaunchParams) + 8 * axis; }

size_t KernelSignature::scalarOffset(size_t scalar) const { return extentOffset(axes().size()) + 8 * scalar; }

size_t KernelSignature::operandOffset(size_t operand) const {
  size_t offset = scalarOffset(scalars.size());
  for (size_t i = 0; i < operand; ++i)
    offset += packedTensorBytes(operands[i].rank());
  return offset;
}

size_t KernelSignature::tensorOffset(size_t tensor) const {
  size_t offset = operandOffset(operands.size());
  for (size_t i = 0; i < tensor; ++i)
    offset += packedTensorBytes(tensors[i].rank);
  return offset;
}

size_t KernelSignature::tensorMapOffset() const {
  return (tensorOffset(tensors.size()) + tensorMapAlignment - 1) / tensorMapAlignment * tensorMapAlignment;
}

size_t KernelSignature::packedBytes() const {
  return tensorMaps.empty() ? tensorOffset(tensors.size()) : tensorMapOffset() + tensor_map_bytes * tensorMaps.size();
}
