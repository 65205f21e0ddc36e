//===- Prepared.cpp - A checked problem ----------------------------------------===//
#include "tools/reference/Prepared.h"

#include "tools/reference/Philox.h"

#include <cmath>

namespace attune::reference {

std::string shapeText(const HostTensor &tensor) {
  std::string text(name(tensor.dtype));
  text += "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

namespace {

Expected<void> checkShapes(const Problem &problem) {
  const HostTensor &q = problem.q, &k = problem.k, &v = problem.v;
  for (auto [tensor, label] : {std::pair{&q, "q"}, std::pair{&k, "k"}, std::pair{&v, "v"}}) {
    if (tensor->shape.size() != 4)
      return Error{std::string(label) + " is " + shapeText(*tensor) + ", but must have 4 dimensions"};
    if (!isFloat(tensor->dtype) || tensor->dtype != q.dtype)
      return Error{std::string(label) + " is " + shapeText(*tensor) +
                   ", but q, k and v must share one of f32, f16, bf16"};
  }
  std::string texts = "q is " + shapeText(q) + ", k is " + shapeText(k) + ", v is " + shapeText(v) + ", but ";
  if (k.shape[0] != q.shape[0] || v.shape[0] != q.shape[0])
    return Error{texts + "the batch must be the same"};
  if (k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2])
    return Error{texts + "k and v must have the same heads and length"};
  if (k.shape[3] != q.shape[3])
    return Error{texts + "q and k must have the same head dim"};
  if (q.shape[1] != 0 && (k.shape[1] == 0 || q.shape[1] % k.shape[1] != 0))
    return Error{texts + "the heads of q must be a multiple of those of k"};
  return {};
}

Expected<void> preparePattern(Prepared &prepared, const BlockPattern &pattern) {
  auto found = prepared.problem->tensors.find(pattern.tensor.name);
  if (found == prepared.problem->tensors.end())
    return Error{"tensor " + pattern.tensor.name + " is not bound"};
  const HostTensor &tensor = found->second;
  size_t rank = tensor.shape.size();
  auto blocks = [](int64_t length, int64_t size) { return (length + size - 1) / size; };
  if (tensor.dtype != DType::Bool || rank < 2 || rank > 4 || pattern.rows <= 0 || pattern.columns <= 0 ||
      tensor.shape[rank - 2] < blocks(prepared.queryLength, pattern.rows) ||
      tensor.shape[rank - 1] < blocks(prepared.keyLength, pattern.columns) ||
      (rank > 2 && tensor.shape[rank - 3] != 1 && tensor.shape[rank - 3] != prepared.heads) ||
      (rank > 3 && tensor.shape[0] != 1 && tensor.shape[0] != prepared.batch))
    return Error{"block pattern " + pattern.tensor.name + " is " + shapeText(tensor) +
                 ", but must be bool of [H or 1, ceil(Sq / " + std::to_string(pattern.rows) + "), ceil(Sk / " +
                 std::to_string(pattern.columns) + ")]"};
  prepared.pattern = &tensor;
  prepared.patternRows = pattern.rows;
  prepared.patternColumns = pattern.columns;
  return {};
}

/// Which of the normalisers that have a formula here the variant's is.
Expected<void> prepareNormaliser(Prepared &prepared, const Normaliser &normaliser) {
  if (normaliser == normalisers::sigmoid())
    prepared.weights = Weights::Sigmoid;
  else if (normaliser == normalisers::none())
    prepared.weights = Weights::None;
  else if (normaliser != normalisers::softmax()) {
    const std::string name = normaliser.tensors.size() == 1 ? normaliser.tensors[0].name : "";
    if (name.empty() || normaliser != normalisers::softmaxWithSink(name))
      return Error{"the reference has no formula of normaliser " + normaliser.name +
                   "; it knows softmax, softmax with a sink, sigmoid and none"};
    auto found = prepared.problem->tensors.find(name);
    if (found == prepared.problem->tensors.end())
      return Error{"tensor " + name + " is not bound"};
    prepared.sinks = &found->second;
    if (prepared.sinks->dtype != DType::F32 || prepared.sinks->shape != std::vector<int64_t>{prepared.heads})
      return Error{"sink " + name + " is " + shapeText(*prepared.sinks) + ", but must be f32[" +
                   std::to_string(prepared.heads) + "], a logit for each head"};
  }
  return {};
}

/// Finds the lengths of sequences among the problem's tensors.
Expected<void> prepareLengths(Prepared &prepared, const Variant &variant) {
  for (auto [lengths, to] :
       {std::pair(&variant.keyLengths(), &prepared.keyLengths), {&variant.queryLengths(), &prepared.queryLengths}}) {
    if (!*lengths)
      continue;
    auto found = prepared.problem->tensors.find((*lengths)->name);
    if (found == prepared.problem->tensors.end())
      return Error{"tensor " + (*lengths)->name + " is not bound"};
    *to = &found->second;
    if (found->second.dtype != DType::I32 || found->second.shape != std::vector<int64_t>{prepared.batch})
      return Error{"lengths " + (*lengths)->name + " are " + shapeText(found->second) + ", but must be i32[" +
                   std::to_string(prepared.batch) + "], one for each sequence"};
  }
  return {};
}

} // namespace

Expected<Prepared> prepare(const Problem &problem, bool maskAlone) {
  if (!problem.variant)
    return Error{"the problem has no variant"};
  const Variant &variant = *problem.variant;
  if (variant.error())
    return *variant.error();
  if (Expected<void> checked = checkShapes(problem); !checked)
    return checked.error();
  Prepared prepared;
  prepared.problem = &problem;
  prepared.batch = problem.q.shape[0];
  prepared.heads = problem.q.shape[1];
  prepared.queryLength = problem.q.shape[2];
  prepared.headDim = problem.q.shape[3];
  prepared.kvHeads = problem.k.shape[1];
  prepared.keyLength = problem.k.shape[2];
  prepared.headDimV = problem.v.shape[3];
  prepared.scale = problem.scale     ? *problem.scale
                   : variant.scale() ? double(*variant.scale())
                                     : 1 / std::sqrt(double(prepared.headDim));
  double probability = problem.dropout.value_or(variant.dropoutProbability());
  if (!(probability >= 0 && probability < 1))
    return Error{"dropout probability " + std::to_string(probability) + " is not in [0, 1)"};
  if (probability > 0 && !variant.hasDropout())
    return Error{"a dropout probability is given, but the variant has no dropout"};
  prepared.threshold = dropThreshold(probability);
  if (problem.qOffset != 0 && !variant.hasQOffset())
    return Error{"a q offset is given, but the variant has none; call .qOffset()"};

  if (Expected<void> found = prepareLengths(prepared, variant); !found)
    return found.error();
  Bindings bindings{&problem.tensors,     &problem.scalars,   prepared.batch,      prepared.heads,
                    prepared.queryLength, prepared.keyLength, prepared.keyLengths, prepared.queryLengths};
  if (variant.scoreExpr() && !maskAlone) {
    Expected<Program> program = Program::compile(*variant.scoreExpr(), bindings);
    if (!program)
      return program.error();
    prepared.score = std::move(*program);
  }
  if (variant.maskExpr()) {
    Expected<Program> program = Program::compile(*variant.maskExpr(), bindings);
    if (!program)
      return program.error();
    prepared.mask = std::move(*program);
  }
  if (Expected<void> checked = maskAlone ? Expected<void>() : prepareNormaliser(prepared, variant.normaliser());
      !checked)
    return checked.error();
  if (variant.blockPattern())
    if (Expected<void> checked = preparePattern(prepared, *variant.blockPattern()); !checked)
      return checked.error();
  return prepared;
}

/// Roundings are uniform in half a unit in the last place, and significands logarithmic in [1, 2): their
/// relative error is 0.425 times its most. A float32 sum over d errs by about 2^-24 * |q| * |k|, by more
/// where tensor cores truncate; functions are those of fast math where the dtype is low and the variant not
/// precise (docs/inside/decisions-numerics.md).
Accuracy accuracyOf(DType dtype, bool precise) {
  switch (dtype) {
  case DType::BF16:
    return {0.425 * 0x1p-8, 0, 0x1p-22, precise ? 0x1p-21 : 0x1p-10, 0x1p-22};
  case DType::F16:
    return {0.425 * 0x1p-11, 0x1p-25, 0x1p-22, precise ? 0x1p-21 : 0x1p-13, 0x1p-22};
  default: // a third of 1e-5, see compareO
    return {0.425 * 0x1p-24, 0, 0x1p-21, 0x1p-21, 1e-5 / 3};
  }
}

} // namespace attune::reference
