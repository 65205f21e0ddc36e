#include "tools/attune/RunData.h"

#include "tools/reference/Memory.h"
#include "tools/reference/Pages.h"
#include "tools/reference/Program.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;

namespace {
bool hasOperand(const KernelSignature &signature, std::string_view name) {
  return std::ranges::find(signature.operands, name, &OperandParam::name) != signature.operands.end();
}

/// The batch of Q and O: 1 where all sequences' rows of Q are packed.
int64_t queryBatch(const Request &request, const Shape &shape) {
  return request.variant && request.variant->sequences() ? 1 : shape.batch;
}

std::vector<int64_t> savedSizes(const OperandParam &operand, const Shape &shape) {
  const auto sizes = savedShape(operand, shape.batch, shape.heads, shape.queries, shape.keys);
  return {sizes.begin(), sizes.end()};
}

/// Everything whose size follows from the shape and that makeTensor does not check, before any of it is allocated.
Expected<void> checkMemory(const RunFlags &flags, const Request &request, const KernelSignature &signature, bool given,
                           const Shape &shape, const std::map<std::string, HostTensor> &tensors) {
  const int64_t rowBatch = queryBatch(request, shape);
  const std::array<int64_t, 4> q = {rowBatch, shape.heads, shape.queries, shape.headDim},
                               k = {shape.batch, shape.headsKv, shape.keys, shape.headDim},
                               v = {shape.batch, shape.headsKv, shape.keys, shape.headDimV},
                               o = {rowBatch, shape.heads, shape.queries, shape.headDimV};
  const bool checks = !flags.noCheck && request.variant;
  const uint64_t inputs = given ? 0 : byteSize(signature.dtype);
  reference::MemoryNeed need;
  need.add("q", inputs, q);
  need.add("k", inputs, k);
  need.add("v", inputs, v);
  need.add("o", byteSize(signature.dtype), o);
  need.add("lse", 4, std::span(o).first(3));
  for (const OperandParam &operand : signature.operands)
    if (operand.name.starts_with(savedPrefix))
      need.add(operand.name, byteSize(operand.dtype), savedSizes(operand, shape));
  if (hasOperand(signature, "do")) {
    need.add("do", byteSize(signature.dtype), o);
    need.add("dq", byteSize(signature.dtype), q);
    need.add("dk", byteSize(signature.dtype), k);
    need.add("dv", byteSize(signature.dtype), v);
    for (const auto &[name, tensor] : tensors) {
      const std::string gradient = std::string(gradientPrefix) + name;
      if (!hasOperand(signature, gradient))
        continue;
      need.add(gradient, byteSize(tensor.dtype), tensor.shape);
      if (checks) // values, errors and masses, twice
        need.add("the reference's " + gradient, 2 * 3 * 8, tensor.shape);
    }
    if (checks) // values and errors
      for (const auto &[name, shape] : {std::pair("the reference's dq", &q),
                                        {"the reference's dk", &k},
                                        {"the reference's dv", &v},
                                        {"the reference's do", &o}})
        need.add(name, 2 * 8, *shape);
  }
  if (checks)
    reference::addReferenceMemory(need, q, k, v, !flags.dump.empty() && request.variant->hasDropout());
  if (!flags.dump.empty()) // the largest in float32, and as a file
    need.add("the dump", std::max({reference::bytesOf(8, q), reference::bytesOf(8, k), reference::bytesOf(8, v),
                                   reference::bytesOf(8, o)}));
  return need.fits("this run", checks ? "make the shape smaller, or leave out the reference's part by --no-check"
                                      : "make the shape smaller");
}

/// Keys behind the lengths of sequences hold NaN, and pages hold the others.
Expected<void> placeKeys(const RunFlags &flags, const Request &request, RunData &data) {
  if (!request.variant || (request.variant->sequences() && request.variant->sequences()->keys))
    return {};
  const std::optional<TensorDecl> &lengths = request.variant->keyLengths();
  const HostTensor *ofKeys = lengths ? &data.tensors.at(lengths->name) : nullptr;
  if (ofKeys && ofKeys->shape != std::vector<int64_t>{data.shape.batch})
    return Error{fmt::format("captured tensor {} has [{}], a run of batch {} needs a length for each", lengths->name,
                             fmt::join(ofKeys->shape, ", "), data.shape.batch)};
  if (ofKeys)
    for (HostTensor *rows : {&data.k, &data.v})
      reference::poisonAfter(*rows, *ofKeys);
  const std::optional<KeyPages> &pages = request.variant->keyPages();
  if (!pages)
    return {};
  const int64_t size = pages->size, keys = data.shape.keys;
  if (keys % size && !ofKeys)
    return Error{fmt::format("{} keys are no whole pages of {}; run with {}, or with --lengths", keys, size,
                             (keys + size - 1) / size * size)};
  // Rows of K past the shape's keys do not exist, so that no sequence may be longer.
  for (int64_t b = 0; ofKeys && b < data.shape.batch; ++b)
    if (const int64_t length = ofKeys->intAt(b); length > keys)
      return Error{
          fmt::format("{}[{}] is {}, the shape has {} keys; pass 0 to {}", lengths->name, b, length, keys, keys)};
  const int64_t columns = (keys + size - 1) / size;
  HostTensor &table = data.tensors[pages->tensor.name];
  if (table.shape.empty())
    table = reference::pageTable(data.shape.batch, keys, size, ofKeys, flags.seed * 1000 + 9);
  if (table.shape != std::vector<int64_t>{data.shape.batch, columns})
    return Error{fmt::format("captured tensor {} has [{}], batch {} and {} keys in pages of {} take [{}, {}]",
                             pages->tensor.name, fmt::join(table.shape, ", "), data.shape.batch, keys, size,
                             data.shape.batch, columns)};
  constexpr int64_t mostPages = 1 << 20;
  for (int64_t b = 0; b < data.shape.batch; ++b)
    for (int64_t k = 0; k < reference::keysOf(ofKeys, b, keys); k += size)
      if (const int64_t page = table.intAt(b * table.shape[1] + k / size); page < 0 || page >= mostPages)
        return Error{fmt::format("{}[{}, {}] is page {}; a run has pages 0 to {}", pages->tensor.name, b, k / size,
                                 page, mostPages - 1)};
  data.keyPages = reference::toPages(data.k, table, size, ofKeys);
  data.valuePages = reference::toPages(data.v, table, size, ofKeys);
  return {};
}
} // namespace

Result<std::optional<RunData>> attune::cli::readInputs(const RunFlags &flags) {
  if (flags.q.empty() && flags.k.empty() && flags.v.empty())
    return std::optional<RunData>();
  if (flags.q.empty() || flags.k.empty() || flags.v.empty())
    return usageError("--q, --k and --v go together; give all three, or none for random inputs");
  RunData data;
  const std::pair<const std::string *, HostTensor *> files[] = {
      {&flags.q, &data.q}, {&flags.k, &data.k}, {&flags.v, &data.v}};
  for (auto [path, tensor] : files) {
    Expected<HostTensor> file =
        reference::readNpy(*path, reference::VoidElements::BFloat16, reference::DoubleElements::Reject);
    if (!file)
      return Failure{file.error(), usage};
    if (file->shape.size() != 4)
      return usageError(fmt::format("{} has shape [{}], required is [B, H, S, D]; reshape it in NumPy", *path,
                                    fmt::join(file->shape, ", ")));
    if (!isFloat(file->dtype))
      return usageError(fmt::format("{} holds {}, required is float32, float16 or bfloat16; convert it in NumPy", *path,
                                    name(file->dtype)));
    *tensor = std::move(*file);
  }
  const auto &q = data.q.shape, &k = data.k.shape, &v = data.v.shape;
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0))
    return usageError(
        fmt::format("q [{}], k [{}] and v [{}] do not fit; required are [B, H, Sq, D], [B, Hkv, Sk, D] and "
                    "[B, Hkv, Sk, Dv] with H a multiple of Hkv",
                    fmt::join(q, ", "), fmt::join(k, ", "), fmt::join(v, ", ")));
  data.shape = {q[0], q[1], k[1], q[2], k[2], int(q[3]), int(v[3])};
  if (!flags.shape.empty()) {
    Result<Shape> shape = parseShape(flags.shape);
    if (!shape)
      return shape.failure();
    if (*shape != data.shape)
      return usageError(fmt::format("--shape {} contradicts {}, {} and {}, which hold {}; leave out the flag",
                                    flags.shape, flags.q, flags.k, flags.v, data.shape.text()));
  }
  return std::optional<RunData>(std::move(data));
}

Expected<void> attune::cli::fillData(const RunFlags &flags, const Request &request, const KernelSignature &signature,
                                     bool given, RunData &data) {
  const Shape &shape = data.shape;
  const int64_t rowBatch = queryBatch(request, shape);
  DType dtype = signature.dtype;
  uint64_t number = 10;
  const std::optional<KeyPages> pages = request.variant ? request.variant->keyPages() : std::nullopt;
  if (Expected<void> there = requireData(request, signature.tensors, signature.scalars, shape); !there)
    return there;
  for (const TensorParam &param : signature.tensors) {
    if (pages && pages->tensor.name == param.name &&
        std::ranges::find(request.tensors, param.name, &TensorFlag::name) == request.tensors.end())
      continue; // placeKeys
    Expected<HostTensor> tensor = makeTensor(request, param, shape, flags.seed * 1000 + number++);
    if (!tensor)
      return tensor.error();
    data.tensors[param.name] = std::move(*tensor);
  }
  if (Expected<void> fits = checkMemory(flags, request, signature, given, shape, data.tensors); !fits)
    return fits;
  if (given) {
    for (HostTensor *tensor : {&data.q, &data.k, &data.v})
      if (tensor->dtype != dtype)
        *tensor = tensor->converted(dtype);
  } else {
    data.q = HostTensor::random(dtype, {rowBatch, shape.heads, shape.queries, shape.headDim}, flags.seed * 1000 + 1);
    data.k = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDim}, flags.seed * 1000 + 2);
    data.v = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDimV}, flags.seed * 1000 + 3);
  }
  if (Expected<void> placed = placeKeys(flags, request, data); !placed)
    return placed;
  data.o = HostTensor::zeros(dtype, {rowBatch, shape.heads, shape.queries, shape.headDimV});
  data.hasLse = hasOperand(signature, "lse");
  data.lse = HostTensor::zeros(DType::F32, {rowBatch, shape.heads, data.hasLse ? shape.queries : 0});
  data.poisonResults();
  if (hasOperand(signature, "do")) {
    for (auto [name, like] : {std::pair("dq", &data.q), std::pair("dk", &data.k), std::pair("dv", &data.v)})
      data.ofBackward[name] = HostTensor::zeros(dtype, like->shape);
    for (const TensorParam &param : signature.tensors)
      if (const std::string name = gradientOperand(param).name; hasOperand(signature, name))
        data.ofBackward[name] = HostTensor::zeros(param.dtype, data.tensors.at(param.name).shape);
    data.ofBackward["do"] = HostTensor::random(dtype, data.o.shape, flags.seed * 1000 + 4);
    if (hasOperand(signature, "dlse"))
      data.ofBackward["dlse"] = HostTensor::random(DType::F32, data.lse.shape, flags.seed * 1000 + 5);
    data.poisonResults();
  }
  for (const OperandParam &operand : signature.operands)
    if (operand.name.starts_with(savedPrefix)) {
      HostTensor &saved = data.saved[operand.name] = HostTensor::zeros(operand.dtype, savedSizes(operand, shape));
      std::fill(saved.data.begin(), saved.data.end(), std::byte(0xff));
    }
  for (const ScalarParam &param : signature.scalars) {
    Expected<HostTensor> value = makeScalar(request, param);
    if (!value)
      return value.error();
    data.scalars[param.name] = std::move(*value);
  }
  return {};
}
