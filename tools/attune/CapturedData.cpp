//===- CapturedData.cpp - Data of captured tensors and run-time scalars ------===//

#include "tools/attune/Options.h"

#include "tools/reference/Memory.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;

Expected<HostTensor> attune::cli::makeScalar(const Request &request, const ScalarParam &param) {
  const auto given = std::ranges::find(request.scalars, param.name, &ScalarFlag::name);
  assert(given != request.scalars.end() && "requireData comes first");
  return reference::scalarOf(param.dtype, given->value);
}

/// Data that a captured tensor gets without a file: the tensor's shape, and the value of each element.
struct MadeTensor {
  std::vector<int64_t> dims;
  std::function<double(int64_t)> value = {}; ///< unset: random
};

/// Data that makes sense for a built-in without --tensor.
static std::optional<MadeTensor> builtinDefault(const Request &request, const TensorParam &param, const Shape &shape) {
  // A normaliser's own vector is one of the heads: a sink.
  if (request.variant && param.rank == 1)
    for (const TensorDecl &own : request.variant->normaliser().tensors)
      if (own.name == param.name)
        return MadeTensor{{shape.heads}};
  const bool isLengths =
      request.variant && request.variant->keyLengths() && request.variant->keyLengths()->name == param.name;
  const std::optional<Sequences> packed = request.variant ? request.variant->sequences() : std::nullopt;
  static constexpr int64_t sixteenths[] = {0, 1, 1, 5, 7, 16}; // of packed keys; the second sequence is empty
  const int64_t batch = packed && packed->keys ? std::ssize(sixteenths) - 1 : shape.batch;
  if (isLengths && param.rank == 1)
    return MadeTensor{{batch}, [=](int64_t b) { return double(shape.keys - shape.keys * b / (2 * batch)); }};
  if (request.variant && request.variant->queryLengths() && request.variant->queryLengths()->name == param.name)
    return MadeTensor{{shape.batch},
                      [shape](int64_t b) { return double(b ? std::min<int64_t>(shape.queries, 1) : shape.queries); }};
  if (packed && param.rank == 1 &&
      (packed->queries.name == param.name || (packed->keys && packed->keys->name == param.name))) {
    const int64_t rows = packed->queries.name == param.name ? shape.queries : shape.keys;
    if (!packed->keys) // unlike lengths, one after another: half of what is left
      return MadeTensor{{shape.batch + 1}, [=](int64_t b) {
                          return double(b == shape.batch ? rows : rows - (rows >> std::min<int64_t>(b, 62)));
                        }};
    return MadeTensor{{std::ssize(sixteenths)}, [=](int64_t i) { return double(rows * sixteenths[i] / 16); }};
  }
  if (const std::optional<KeyPages> pages = request.variant ? request.variant->keyPages() : std::nullopt;
      pages && pages->tensor.name == param.name) {
    const int64_t columns = (shape.keys + pages->size - 1) / pages->size;
    return MadeTensor{{shape.batch, columns}, [=](int64_t i) { return double(i); }};
  }
  if (!request.input.builtin || param.rank < 1)
    return std::nullopt;
  const std::string &variant = request.input.builtin->name;
  if (variant == "alibi" && param.name == "slopes" && param.rank == 1)
    return MadeTensor{{shape.heads},
                      [heads = shape.heads](int64_t h) { return std::exp2(-8.0 * double(h + 1) / double(heads)); }};
  if (variant == "documents" && param.rank == 1) {
    int64_t length = std::max(shape.queries, shape.keys);
    return MadeTensor{{length}, [length](int64_t i) { return double(i * 4 / std::max<int64_t>(length, 1)); }};
  }
  if (variant == "key-padding" && param.rank == 1)
    return MadeTensor{{shape.batch},
                      [shape](int64_t b) { return double(shape.keys - shape.keys * b / (2 * shape.batch)); }};
  if (variant == "relative-bias" && param.rank == 2)
    return MadeTensor{{shape.heads, std::max<int64_t>(shape.queries + shape.keys - 1, 0)}};
  if (variant == "bias" && param.rank == 3)
    return MadeTensor{{shape.heads, shape.queries, shape.keys}};
  if (variant == "block-sparse" && param.rank == 3 && request.variant->blockPattern()) {
    auto blocks = [](int64_t length, int64_t size) { return (length + size - 1) / size; };
    const BlockPattern &pattern = *request.variant->blockPattern();
    return MadeTensor{{shape.heads, blocks(shape.queries, pattern.rows), blocks(shape.keys, pattern.columns)}};
  }
  return std::nullopt;
}

/// Whether makeTensor has data: from a flag, or that of a built-in.
static bool hasData(const Request &request, const TensorParam &param, const Shape &shape) {
  const auto flag = std::ranges::find(request.tensors, param.name, &TensorFlag::name);
  return flag != request.tensors.end() ? !flag->source.empty() : builtinDefault(request, param, shape).has_value();
}

static bool hasValue(const Request &request, const ScalarParam &param) {
  return std::ranges::find(request.scalars, param.name, &ScalarFlag::name) != request.scalars.end();
}

Expected<void> attune::cli::requireData(const Request &request, const std::vector<TensorParam> &tensors,
                                        const std::vector<ScalarParam> &scalars, const Shape &shape) {
  static constexpr std::string_view dims[] = {"", "N", "M,N", "L,M,N", "K,L,M,N"};
  std::vector<std::string> absent, flags;
  for (const TensorParam &param : tensors)
    if (!hasData(request, param, shape)) {
      absent.push_back(fmt::format("captured tensor {}", param.name));
      flags.push_back(fmt::format("--tensor {}={}[{}]:random", param.name, name(param.dtype), dims[param.rank]));
    }
  const bool needsTensor = !absent.empty();
  for (const ScalarParam &param : scalars)
    if (!hasValue(request, param)) {
      absent.push_back(fmt::format("run-time scalar {}", param.name));
      flags.push_back(fmt::format("--scalar {}=VALUE", param.name));
    }
  if (absent.empty())
    return {};
  const bool one = absent.size() == 1;
  return Error{fmt::format("{} {} no {}; add {}{}", fmt::join(absent, ", "), one ? "has" : "have",
                           needsTensor ? "data" : "value", fmt::join(flags, " "),
                           !needsTensor ? ""
                           : one        ? " or a .npy file"
                                        : ", or .npy files in the place of random")};
}

/// Twice what the tensor takes has to be there: the reference has a copy.
static Expected<HostTensor> fill(const std::string &name, DType dtype, const MadeTensor &made, uint64_t seed) {
  reference::MemoryNeed need;
  need.add("for the kernel", byteSize(dtype), made.dims);
  need.add("for the reference", byteSize(dtype), made.dims);
  if (Expected<void> fits =
          need.fits(fmt::format("captured tensor {} of [{}]", name, fmt::join(made.dims, ", ")), "make it smaller");
      !fits)
    return fits.error();
  if (!made.value)
    return HostTensor::random(dtype, made.dims, seed);
  HostTensor tensor = HostTensor::zeros(dtype, made.dims);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, made.value(i));
  return tensor;
}

Expected<HostTensor> attune::cli::makeTensor(const Request &request, const TensorParam &param, const Shape &shape,
                                             uint64_t seed) {
  const TensorFlag *flag = nullptr;
  for (const TensorFlag &candidate : request.tensors)
    if (candidate.name == param.name)
      flag = &candidate;
  if (!flag) {
    std::optional<MadeTensor> made = builtinDefault(request, param, shape);
    assert(made && "requireData comes first");
    return fill(param.name, param.dtype, *made, seed);
  }
  if (flag->dtype != param.dtype)
    return Error{fmt::format("--tensor {} is {}, the variant declares {}; convert the data", param.name,
                             name(flag->dtype), name(param.dtype))};
  std::vector<int64_t> dims;
  if (flag->dims) {
    for (const std::string &dim : *flag->dims) {
      if (std::optional<int64_t> number = integer(dim))
        dims.push_back(*number);
      else
        dims.push_back(dim == "B"     ? shape.batch
                       : dim == "H"   ? shape.heads
                       : dim == "Hkv" ? shape.headsKv
                       : dim == "Sq"  ? shape.queries
                                      : shape.keys);
    }
  }
  HostTensor tensor;
  if (!flag->source.ends_with(".npy")) {
    MadeTensor made{dims};
    if (flag->range)
      made.value = [&](int64_t i) { return flag->range->draw(flag->dtype, seed, uint64_t(i)); };
    else if (flag->source != "random")
      made.value = [one = flag->source == "ones"](int64_t) { return one ? 1.0 : 0.0; };
    Expected<HostTensor> filled = fill(param.name, flag->dtype, made, seed);
    if (!filled)
      return filled.error();
    tensor = std::move(*filled);
  } else {
    Expected<HostTensor> file = reference::readNpy(flag->source, reference::VoidElements::BFloat16);
    if (!file)
      return file.error();
    if (flag->dims && file->shape != dims)
      return Error{fmt::format("--tensor {} has shape [{}], {} holds [{}]; leave out the shape", param.name,
                               fmt::join(dims, ", "), flag->source, fmt::join(file->shape, ", "))};
    tensor = file->converted(flag->dtype);
  }
  if (int(tensor.shape.size()) != param.rank)
    return Error{fmt::format("--tensor {} has rank {}, the variant indexes {}; correct its dims", param.name,
                             tensor.shape.size(), param.rank)};
  return tensor;
}
