#include "runtime/Launch.h"
#include "runtime/TensorMaps.h"

#include "attune/Expr.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

using namespace attune;

static constexpr int64_t maxLength = int64_t(1) << 30;
static constexpr int64_t maxInt32 = std::numeric_limits<int32_t>::max();
static constexpr uintptr_t tileAlignment = 16; // of Q, K, V, O: one cp.async or vector load

static size_t plainBytes(const KernelSignature &signature) {
  size_t bytes = sizeof(LaunchParams) + 8 * signature.scalars.size();
  for (const TensorParam &tensor : signature.tensors)
    bytes += packedTensorBytes(tensor.rank);
  for (const BoundsParam &bounds : signature.bounds)
    for (const TensorParam &tensor : signature.tensors)
      if (tensor.name == bounds.tensor)
        bytes += packedTensorBytes(tensor.rank);
  return bytes;
}

size_t attune::tensorMapOffset(const KernelSignature &signature) { return (plainBytes(signature) + 63) / 64 * 64; }

size_t KernelSignature::packedBytes() const {
  return tensorMaps.empty() ? plainBytes(*this) : tensorMapOffset(*this) + tensorMapBytes * tensorMaps.size();
}

uint32_t attune::dropoutThreshold(float probability) {
  return std::min<uint32_t>(65535, uint32_t(std::lround(65536.0 * double(probability))));
}

Expected<void> attune::checkSignature(const KernelImage &image) {
  size_t bytes = image.signature.packedBytes();
  if (bytes > maxPackedBytes)
    return Error{fmt::format("kernel '{}' takes {} bytes of parameters, the most is {}; capture fewer tensors and "
                             "scalars",
                             image.name, bytes, maxPackedBytes)};
  if (image.tileQ < 1 || image.threads < 1)
    return Error{fmt::format("kernel '{}' has query tiles of {} rows and {} threads, both must be positive; the image "
                             "is damaged",
                             image.name, image.tileQ, image.threads)};
  return {};
}

//===----------------------------------------------------------------------===//
// Checks. Each returns true when it passes; the texts are built out of line, only on failure.
//===----------------------------------------------------------------------===//

namespace {

/// What a q, k, v, o or lse argument is called in messages.
struct Role {
  const char *name;
  const char *layout;
  int rank;
};

constexpr Role roleQ = {"q", "[B, H, Sq, D]", 4};
constexpr Role roleK = {"k", "[B, Hkv, Sk, D]", 4};
constexpr Role roleV = {"v", "[B, Hkv, Sk, Dv]", 4};
constexpr Role roleO = {"o", "[B, H, Sq, Dv]", 4};
constexpr Role roleLse = {"lse", "[B, H, Sq]", 3};

constexpr const char *dimensionNames[] = {"batch", "head", "row"};

/// Fails with a text made by fmt, out of the path of a good launch.
template <typename... Args>
[[gnu::cold, gnu::noinline]] Error failure(fmt::format_string<Args...> text, Args &&...args) {
  return Error{fmt::format(text, std::forward<Args>(args)...)};
}

std::string shapeText(const Tensor &tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, tensor.shape + tensor.rank, ", "));
}

bool isEmpty(const Tensor &tensor) {
  for (int i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i] == 0)
      return true;
  return false;
}

/// Rank, extents not negative, declared device, null.
Expected<void> checkView(const Role &role, const Tensor &tensor, Device device) {
  if (tensor.rank != role.rank)
    return failure("{} has rank {}, required is {}; reshape it to {}", role.name, tensor.rank, role.rank, role.layout);
  for (int i = 0; i < role.rank; ++i)
    if (tensor.shape[i] < 0)
      return failure("{} has extent {} in dimension {}; extents are at least 0", role.name, tensor.shape[i], i);
  if (tensor.device != device)
    return failure("{} is on {}, the kernel is on {}; move {} there or compile for its device", role.name,
                   tensor.device.text(), device.text(), role.name);
  if (!tensor.data && !isEmpty(tensor))
    return failure("{} is null but has shape {}; pass the address of its memory", role.name, shapeText(tensor));
  return {};
}

/// Dtype, head dim, head-dim stride, 16-byte alignment of base and strides.
Expected<void> checkTiled(const Role &role, const Tensor &tensor, DType dtype, int headDim, const char *option) {
  if (tensor.dtype != dtype) {
    if (isFloat(tensor.dtype))
      return failure("{} is {}, the kernel was compiled for {}; convert {} or compile with .dtype = {}", role.name,
                     name(tensor.dtype), name(dtype), role.name, name(tensor.dtype));
    return failure("{} is {}, the kernel was compiled for {}; convert {}", role.name, name(tensor.dtype), name(dtype),
                   role.name);
  }
  if (tensor.shape[3] != headDim)
    return failure("{} has head_dim {}, the kernel was compiled for {}; compile with {} = {}", role.name,
                   tensor.shape[3], headDim, option, tensor.shape[3]);
  if (isEmpty(tensor))
    return {};
  if (tensor.strides[3] != 1 && headDim > 1)
    return failure("{} has stride {} in the head dimension, required is 1; make its last dimension contiguous",
                   role.name, tensor.strides[3]);
  if (reinterpret_cast<uintptr_t>(tensor.data) % tileAlignment != 0)
    return failure("{} starts at address {:#x}, which is not a multiple of 16 bytes; align its memory", role.name,
                   reinterpret_cast<uintptr_t>(tensor.data));
  int64_t elements = int64_t(tileAlignment / byteSize(dtype));
  for (int i = 0; i < 3; ++i)
    if (tensor.shape[i] > 1 && tensor.strides[i] % elements != 0) {
      int64_t padded = (tensor.strides[i] + elements - 1) / elements * elements;
      return failure("{} has a {} stride of {} elements ({} bytes), which is not a multiple of 16 bytes; pad it to {} "
                     "elements",
                     role.name, dimensionNames[i], tensor.strides[i], tensor.strides[i] * int64_t(byteSize(dtype)),
                     tensor.strides[i] > 0 ? padded : elements);
    }
  return {};
}

/// An output must not write one element twice.
Expected<void> checkOutput(const Role &role, const Tensor &tensor) {
  for (int i = 0; i < 3; ++i)
    if (tensor.strides[i] == 0 && tensor.shape[i] > 1)
      return failure("{} has stride 0 along its {} dimension of extent {}; an output cannot be broadcast", role.name,
                     dimensionNames[i], tensor.shape[i]);
  return {};
}

/// The stride to pack: an index along an extent of 1 is 0, whatever stride the producer wrote there.
int64_t packedStride(const Tensor &tensor, int dim) { return tensor.shape[dim] > 1 ? tensor.strides[dim] : 0; }

void packStrides(int64_t (&strides)[3], const Tensor &tensor) {
  for (int i = 0; i < 3; ++i)
    strides[i] = packedStride(tensor, i);
}

template <typename Param> [[gnu::cold, gnu::noinline]] std::string namesOf(const std::vector<Param> &params) {
  if (params.empty())
    return "none";
  std::string names;
  for (const Param &param : params)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", param.name);
  return names;
}

/// Finds for the parameter at `index` its argument in `args`; arguments in declaration order are found at
/// the first look. Null when it is missing or given twice (then `error` says so).
template <typename Param, typename List>
auto findArgument(const Param &param, size_t index, const List &args, const char *kind, const char *field,
                  std::optional<Error> &error) -> decltype(args.begin()) {
  decltype(args.begin()) found = nullptr;
  if (index < args.size() && args[index].name == param.name)
    found = &args[index];
  else
    for (const auto &arg : args)
      if (arg.name == param.name) {
        found = &arg;
        break;
      }
  if (!found)
    error = failure("{} '{}' is missing; pass it in .{}", kind, param.name, field);
  return found;
}

/// Called when every parameter has its argument and yet there are more arguments than parameters.
template <typename Param, typename List>
[[gnu::cold, gnu::noinline]] Error surplus(const std::vector<Param> &params, const List &args, const char *kind) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (std::none_of(params.begin(), params.end(), [&](const Param &param) { return param.name == args[i].name; }))
      return failure("the kernel has no {} '{}'; it has {}", kind, args[i].name, namesOf(params));
    for (size_t j = 0; j < i; ++j)
      if (args[j].name == args[i].name)
        return failure("{} '{}' is passed twice; pass it once", kind, args[i].name);
  }
  assert(false && "more arguments than parameters, yet none unknown or repeated");
  return Error{};
}

/// Whether a missing argument is better explained by a misspelt one: the first argument without a parameter.
template <typename Param, typename List>
[[gnu::cold, gnu::noinline]] Error missing(const std::vector<Param> &params, const List &args, const char *kind,
                                           Error error) {
  for (const auto &arg : args)
    if (std::none_of(params.begin(), params.end(), [&](const Param &param) { return param.name == arg.name; }))
      return failure("the kernel has no {} '{}'; it has {}", kind, arg.name, namesOf(params));
  return error;
}

Expected<void> checkCaptured(const TensorParam &param, const Tensor &tensor, Device device, bool pattern) {
  const char *kind = pattern ? "block pattern" : "captured tensor";
  if (tensor.dtype != param.dtype)
    return failure("{} '{}' is {}, the variant declares {}; convert it", kind, param.name, name(tensor.dtype),
                   name(param.dtype));
  if (tensor.rank != param.rank)
    return failure("{} '{}' has rank {}, the variant declares {}; reshape it", kind, param.name, tensor.rank,
                   param.rank);
  for (int i = 0; i < param.rank; ++i)
    if (tensor.shape[i] < (pattern ? 0 : 1))
      return failure("{} '{}' has extent {} in dimension {}; every extent is at least {}", kind, param.name,
                     tensor.shape[i], i, pattern ? 0 : 1);
  if (tensor.device != device)
    return failure("{} '{}' is on {}, the kernel is on {}; move it there or compile for its device", kind, param.name,
                   tensor.device.text(), device.text());
  if (!tensor.data && !isEmpty(tensor))
    return failure("{} '{}' is null but has shape {}; pass the address of its memory", kind, param.name,
                   shapeText(tensor));
  if (reinterpret_cast<uintptr_t>(tensor.data) % byteSize(param.dtype) != 0)
    return failure("{} '{}' starts at address {:#x}, which is not a multiple of {} bytes; align its memory", kind,
                   param.name, reinterpret_cast<uintptr_t>(tensor.data), byteSize(param.dtype));
  return {};
}

int64_t ceilDiv(int64_t count, int64_t size) { return count / size + (count % size != 0); }

Expected<void> checkPattern(const BlockPatternParam &pattern, const Tensor &tensor, const LaunchParams &params) {
  int rank = tensor.rank;
  if (rank < 2 || rank > 4)
    return failure("block pattern '{}' has rank {}, required is 2 to 4; declare it as [heads, rows, columns]",
                   pattern.tensor, rank);
  int64_t rows = ceilDiv(params.queryLength, pattern.rows), columns = ceilDiv(params.keyLength, pattern.columns);
  if (tensor.shape[rank - 2] < rows || tensor.shape[rank - 1] < columns)
    return failure("block pattern '{}' has {} x {} blocks of {} x {}, required are {} x {} for Sq = {} and Sk = {}; "
                   "pass one entry per block",
                   pattern.tensor, tensor.shape[rank - 2], tensor.shape[rank - 1], pattern.rows, pattern.columns, rows,
                   columns, params.queryLength, params.keyLength);
  if (rank >= 3 && tensor.shape[rank - 3] != 1 && tensor.shape[rank - 3] != params.heads)
    return failure("block pattern '{}' has {} heads, required is 1 or {}; pass one plane for all heads or one per head",
                   pattern.tensor, tensor.shape[rank - 3], params.heads);
  if (rank == 4 && tensor.shape[0] != 1 && tensor.shape[0] != params.batch)
    return failure("block pattern '{}' has batch {}, required is 1 or {}; pass one plane for all batches or one per "
                   "batch",
                   pattern.tensor, tensor.shape[0], params.batch);
  return {};
}

//===----------------------------------------------------------------------===//
// Indices of captured tensors
//===----------------------------------------------------------------------===//

/// The elements (b, h, q, k) of a launch, ends included, with the q offset in q; and B, H, Sq, Sk.
struct Elements {
  int64_t low[4], high[4], extents[4];
  bool none;

  explicit Elements(const LaunchParams &params)
      : low{0, 0, params.qOffset, 0}, high{params.batch - 1, params.heads - 1,
                                           int64_t(params.queryLength) - 1 + params.qOffset, params.keyLength - 1},
        extents{params.batch, params.heads, params.queryLength, params.keyLength},
        none(!params.batch || !params.heads || !params.queryLength || !params.keyLength) {}

  int64_t value(const LinearIndex &x, const std::array<int64_t, 4> &coordinates) const {
    int64_t sum = x.constant;
    for (size_t i = 0; i < 4; ++i)
      sum += x.coordinates[i] * coordinates[i] + x.extents[i] * extents[i];
    return sum;
  }
};

/// Whether an element at which `index` is greatest, or least, satisfies all guards: then it is surely evaluated. Looked
/// at are the corners, and from each one the elements where a guard begins to hold along a coordinate that the index
/// does not depend on (the diagonals of a window). An element that is none of these is for findIndexFault to find.
[[gnu::cold, gnu::noinline]] bool isReached(const IndexParam &param, const Elements &elements, bool greatest) {
  const std::array<int64_t, 4> &factors = param.index.coordinates;
  auto passes = [&](const std::array<int64_t, 4> &at) {
    return std::all_of(param.guards.begin(), param.guards.end(),
                       [&](const LinearIndex &guard) { return elements.value(guard, at) >= 0; });
  };
  for (unsigned corner = 0; corner < 16; ++corner) {
    std::array<int64_t, 4> at;
    bool isEnd = true;
    for (unsigned i = 0; i < 4; ++i) {
      const bool high = corner >> i & 1;
      at[i] = high ? elements.high[i] : elements.low[i];
      isEnd = isEnd && (factors[i] == 0 || (factors[i] > 0) == (high == greatest));
    }
    if (isEnd && passes(at))
      return true;
    for (const LinearIndex &guard : param.guards)
      for (size_t i = 0; isEnd && i < 4; ++i)
        if (const int64_t step = guard.coordinates[i]; factors[i] == 0 && (step == 1 || step == -1)) {
          std::array<int64_t, 4> moved = at;
          moved[i] = std::clamp(at[i] - step * elements.value(guard, at), elements.low[i], elements.high[i]);
          if (passes(moved))
            return true;
        }
  }
  return false;
}

/// " for Sq 256 and Sk 256": what the greatest, or least, value of `index` depends on.
std::string dependsOn(const LinearIndex &index, const Elements &elements, bool greatest) {
  std::string text;
  auto add = [&](std::string_view what, int64_t value) {
    text += fmt::format("{}{} {}", text.empty() ? " for " : " and ", what, value);
  };
  for (size_t i = 0; i < 4; ++i)
    if ((greatest ? index.coordinates[i] > 0 : index.coordinates[i] < 0) || index.extents[i])
      add(name(Extent(i)), elements.extents[i]);
  if (index.coordinates[size_t(Coordinate::Q)] && elements.low[size_t(Coordinate::Q)])
    add("qOffset", elements.low[size_t(Coordinate::Q)]);
  return text;
}

/// ", but Sk is 256", ", which reaches 510 for Sq 256 and Sk 256", or nothing for a constant.
std::string whyGreatest(const IndexParam &param, const Elements &elements, int64_t greatest) {
  const LinearIndex &index = param.index;
  for (size_t i = 0; i < 4; ++i) {
    LinearIndex coordinate;
    coordinate.coordinates[i] = 1;
    if (index == coordinate && elements.low[i] == 0)
      return fmt::format(", but {} is {}", name(Extent(i)), elements.extents[i]);
  }
  const std::string sizes = dependsOn(index, elements, true);
  return sizes.empty() ? "" : fmt::format(", which reaches {}{}", greatest, sizes);
}

[[gnu::cold, gnu::noinline]] Expected<void> indexOutside(const TensorParam &tensor, int64_t extent,
                                                         const IndexParam &param, const Elements &elements,
                                                         int64_t least, int64_t greatest) {
  if (greatest >= extent && isReached(param, elements, true))
    return failure("captured tensor '{}' has {} element{} in dimension {} and is indexed by {}{}; pass at least {}, or "
                   "write clamped({}) "
                   "where reading the last element is meant",
                   tensor.name, extent, extent == 1 ? "" : "s", param.dim, param.text,
                   whyGreatest(param, elements, greatest), greatest + 1, param.element);
  if (least < 0 && isReached(param, elements, false))
    return failure("captured tensor '{}' is indexed by {} in dimension {}, which begins at {}{}; correct the index, or "
                   "write clamped({}) "
                   "where reading the first element is meant",
                   tensor.name, param.text, param.dim, least, dependsOn(param.index, elements, false), param.element);
  return {};
}

/// Whether every index lies within the tensor's extents.
Expected<void> checkIndices(const TensorParam &param, const Tensor &tensor, const Elements &elements) {
  for (const IndexParam &index : param.indices) {
    const int64_t extent = tensor.shape[index.dim];
    int64_t least = index.index.constant, greatest = least;
    for (size_t i = 0; i < 4; ++i) {
      const int64_t factor = index.index.coordinates[i], sizes = index.index.extents[i] * elements.extents[i];
      least += factor * (factor < 0 ? elements.high[i] : elements.low[i]) + sizes;
      greatest += factor * (factor < 0 ? elements.low[i] : elements.high[i]) + sizes;
    }
    if (least >= 0 && greatest < extent) [[likely]]
      continue;
    // An int32 that wraps is another index than the formula's.
    if (least < std::numeric_limits<int32_t>::min() || greatest > maxInt32 || (index.broadcast && extent == 1))
      continue;
    if (Expected<void> good = indexOutside(param, extent, index, elements, least, greatest); !good)
      return good;
  }
  return {};
}

} // namespace

//===----------------------------------------------------------------------===//
// Bounds of tensors
//===----------------------------------------------------------------------===//

namespace {

/// One of the signature's bounds in a launch.
struct PlacedBounds {
  const BoundsParam &param;
  const Tensor &tensor;
  int64_t rows;                                               ///< of the sequence
  int64_t shift;                                              ///< row i reads element i + shift
  size_t offset;                                              ///< of the table, in the workspace
  int64_t extents[Tensor::maxRank], strides[Tensor::maxRank]; ///< of the table; entries 2n and 2n + 1 of tile n
  __int128 entries;                                           ///< tiles under all other indices

  PlacedBounds(const BoundsParam &param, const Tensor &tensor, const LaunchArgs &args, size_t offset)
      : param(param), tensor(tensor), rows(param.ofKeys ? args.k.shape[2] : args.q.shape[2]),
        shift(param.ofKeys ? 0 : args.qOffset.value_or(0)), offset(offset), entries(1) {
    __int128 stride = 1;
    for (int dim = tensor.rank - 1; dim >= 0; --dim) {
      int64_t size = dim == param.dim ? ceilDiv(rows, param.rows) : tensor.shape[dim];
      extents[dim] = dim == param.dim ? 2 * size : size;
      strides[dim] = int64_t(stride);
      stride = std::min(stride * extents[dim], most);
      entries = std::min(entries * size, most);
    }
  }

  size_t bytes() const { return size_t(std::min(2 * entries * __int128(byteSize(tensor.dtype)) + 15, most)) / 16 * 16; }

private:
  static constexpr __int128 most = __int128(1) << 62;
};

/// Calls `visit(const PlacedBounds &)` for the signature's bounds in order; gives the bytes of the workspace: the
/// counter of claims, then all tables.
template <typename Visit> size_t forEachBounds(const KernelSignature &signature, const LaunchArgs &args, Visit visit) {
  size_t offset = signature.claimsWork ? workCounterBytes : 0;
  if (signature.bounds.empty() || args.q.rank != 4 || args.k.rank != 4)
    return offset;
  for (const BoundsParam &param : signature.bounds)
    for (const NamedTensor &named : args.tensors)
      if (named.name == param.tensor && named.tensor.rank > param.dim) {
        PlacedBounds placed(param, named.tensor, args, offset);
        visit(placed);
        offset += placed.bytes();
        break;
      }
  return offset;
}

template <typename T> void fillBounds(const PlacedBounds &placed, void *workspace) {
  const Tensor &tensor = placed.tensor;
  const int dim = placed.param.dim;
  for (int64_t entry = 0; entry < int64_t(placed.entries); ++entry) {
    const T *from = static_cast<const T *>(tensor.data);
    T *to = reinterpret_cast<T *>(static_cast<std::byte *>(workspace) + placed.offset);
    int64_t rest = entry, row = 0;
    for (int d = tensor.rank - 1; d >= 0; --d) {
      const int64_t size = d == dim ? placed.extents[d] / 2 : placed.extents[d], index = rest % size;
      rest /= size;
      if (d == dim)
        row = index * placed.param.rows;
      else
        from += index * packedStride(tensor, d);
      to += (d == dim ? 2 * index : index) * placed.strides[d];
    }
    auto read = [&](int64_t i) {
      T value = from[std::clamp<int64_t>(i + placed.shift, 0, tensor.shape[dim] - 1) * packedStride(tensor, dim)];
      return sizeof(T) == 1 ? T(value != 0) : value;
    };
    T least = read(row), greatest = least;
    for (int64_t i = row + 1; i < std::min(row + placed.param.rows, placed.rows); ++i) {
      least = std::min(least, read(i));
      greatest = std::max(greatest, read(i));
    }
    to[0] = least;
    to[placed.strides[dim]] = greatest;
  }
}

} // namespace

size_t attune::workspaceSize(const KernelSignature &signature, const LaunchArgs &args) {
  return forEachBounds(signature, args, [](const PlacedBounds &) {});
}

void attune::makeBounds(const KernelSignature &signature, const LaunchArgs &args) {
  forEachBounds(signature, args, [&](const PlacedBounds &placed) {
    switch (placed.tensor.dtype) {
    case DType::I32:
      return fillBounds<int32_t>(placed, args.workspace);
    case DType::I64:
      return fillBounds<int64_t>(placed, args.workspace);
    default:
      assert(placed.tensor.dtype == DType::Bool && "bounds are of integers");
      return fillBounds<uint8_t>(placed, args.workspace);
    }
  });
}

#define RETURN_IF_ERROR(expression)                                                                                    \
  if (Expected<void> checked = (expression); !checked)                                                                 \
  return checked

/// Fills the fixed part: q, k, v, o, lse, their shapes against each other and the kernel.
static Expected<void> packFixed(const KernelSignature &signature, Device device, float defaultDropout,
                                const LaunchArgs &args, LaunchParams &params) {
  const Tensor &q = args.q, &k = args.k, &v = args.v, &o = args.o;
  RETURN_IF_ERROR(checkView(roleQ, q, device));
  RETURN_IF_ERROR(checkView(roleK, k, device));
  RETURN_IF_ERROR(checkView(roleV, v, device));
  RETURN_IF_ERROR(checkView(roleO, o, device));
  RETURN_IF_ERROR(checkTiled(roleQ, q, signature.dtype, signature.headDim, ".headDim"));
  RETURN_IF_ERROR(checkTiled(roleK, k, signature.dtype, signature.headDim, ".headDim"));
  RETURN_IF_ERROR(checkTiled(roleV, v, signature.dtype, signature.headDimV, ".headDimV"));
  RETURN_IF_ERROR(checkTiled(roleO, o, signature.dtype, signature.headDimV, ".headDimV"));
  RETURN_IF_ERROR(checkOutput(roleO, o));

  int64_t batch = q.shape[0], heads = q.shape[1], queryLength = q.shape[2];
  int64_t kvHeads = k.shape[1], keyLength = k.shape[2];
  if (batch > maxInt32)
    return failure("q has batch {}, the most is {}; split the batch", batch, maxInt32);
  if (heads > maxInt32)
    return failure("q has {} heads, the most is {}; split the heads", heads, maxInt32);
  if (queryLength > maxLength)
    return failure("q has length {}, the most is {}; split the sequence", queryLength, maxLength);
  if (keyLength > maxLength)
    return failure("k has length {}, the most is {}; split the sequence", keyLength, maxLength);
  if (k.shape[0] != batch)
    return failure("k has batch {}, q has {}; pass the same batch", k.shape[0], batch);
  if (v.shape[0] != batch)
    return failure("v has batch {}, q has {}; pass the same batch", v.shape[0], batch);
  if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
    return failure("q has {} heads, k has {}; the number of query heads must be a multiple of the key heads", heads,
                   kvHeads);
  if (v.shape[1] != kvHeads)
    return failure("v has {} heads, k has {}; keys and values need the same number of heads", v.shape[1], kvHeads);
  if (v.shape[2] != keyLength)
    return failure("v has length {}, k has {}; keys and values need the same length", v.shape[2], keyLength);
  if (o.shape[0] != batch || o.shape[1] != heads || o.shape[2] != queryLength)
    return failure("o has shape {}, required is [{}, {}, {}, {}]; allocate it as [B, H, Sq, Dv]", shapeText(o), batch,
                   heads, queryLength, signature.headDimV);

  params.q = q.data;
  params.k = k.data;
  params.v = v.data;
  params.o = o.data;
  params.lse = nullptr;
  packStrides(params.qStride, q);
  packStrides(params.kStride, k);
  packStrides(params.vStride, v);
  packStrides(params.oStride, o);
  for (int64_t &stride : params.lseStride)
    stride = 0;
  if (args.lse) {
    const Tensor &lse = *args.lse;
    RETURN_IF_ERROR(checkView(roleLse, lse, device));
    if (lse.dtype != DType::F32)
      return failure("lse is {}, required is f32; allocate it as f32", name(lse.dtype));
    if (lse.shape[0] != batch || lse.shape[1] != heads || lse.shape[2] != queryLength)
      return failure("lse has shape {}, required is [{}, {}, {}]; allocate it as [B, H, Sq]", shapeText(lse), batch,
                     heads, queryLength);
    if (reinterpret_cast<uintptr_t>(lse.data) % 4 != 0)
      return failure("lse starts at address {:#x}, which is not a multiple of 4 bytes; align its memory",
                     reinterpret_cast<uintptr_t>(lse.data));
    RETURN_IF_ERROR(checkOutput(roleLse, lse));
    params.lse = static_cast<float *>(lse.data);
    packStrides(params.lseStride, lse);
  }

  float probability = defaultDropout;
  if (args.dropout) {
    probability = *args.dropout;
    if (!(probability >= 0.0f && probability < 1.0f))
      return failure("dropout probability {} is outside [0, 1); pass 0 for no dropout", probability);
    if (!signature.dropout && probability != 0.0f)
      return failure("the kernel was compiled without dropout but .dropout is {}; add .dropout to the variant",
                     probability);
  }
  if (args.qOffset && *args.qOffset != 0) {
    if (!signature.qOffset)
      return failure("the kernel was compiled without a query offset but .qOffset is {}; add .qOffset to the variant",
                     *args.qOffset);
    if (std::abs(int64_t(*args.qOffset)) > maxLength)
      return failure("qOffset {} is outside [-{}, {}]; pass the position of the first query", *args.qOffset, maxLength,
                     maxLength);
  }
  if (reinterpret_cast<uintptr_t>(args.seedPointer) % 8 != 0)
    return failure("seedPointer is address {:#x}, which is not a multiple of 8 bytes; align its memory",
                   reinterpret_cast<uintptr_t>(args.seedPointer));
  if (reinterpret_cast<uintptr_t>(args.offsetPointer) % 8 != 0)
    return failure("offsetPointer is address {:#x}, which is not a multiple of 8 bytes; align its memory",
                   reinterpret_cast<uintptr_t>(args.offsetPointer));

  params.seed = args.seed;
  params.offset = args.offset;
  params.seedPointer = args.seedPointer;
  params.offsetPointer = args.offsetPointer;
  params.workspace = args.workspace;
  params.batch = int32_t(batch);
  params.heads = int32_t(heads);
  params.kvHeads = int32_t(kvHeads);
  params.group = kvHeads == 0 ? 1 : int32_t(heads / kvHeads);
  params.queryLength = int32_t(queryLength);
  params.keyLength = int32_t(keyLength);
  params.qOffset = args.qOffset.value_or(0);
  params.dropThreshold = signature.dropout ? dropoutThreshold(probability) : 0;
  params.keepScale = float(65536.0 / double(65536 - params.dropThreshold));
  params.mapped = 0;
  return {};
}

Expected<void> attune::packLaunch(const KernelImage &image, Device device, float defaultDropout, const LaunchArgs &args,
                                  PackedLaunch &packed) {
  const KernelSignature &signature = image.signature;
  auto &params = *new (packed.bytes) LaunchParams;
  RETURN_IF_ERROR(packFixed(signature, device, defaultDropout, args, params));

  std::byte *cursor = packed.bytes + sizeof(LaunchParams);
  auto put = [&](auto value) {
    static_assert(sizeof value == 8);
    std::memcpy(cursor, &value, 8);
    cursor += 8;
  };

  std::optional<Error> error;
  for (size_t i = 0; i < signature.scalars.size(); ++i) {
    const ScalarParam &param = signature.scalars[i];
    const NamedScalar *arg = findArgument(param, i, args.scalars, "scalar", "scalars", error);
    if (!arg)
      return missing(signature.scalars, args.scalars, "scalar", std::move(*error));
    if (arg->value.dtype() != param.dtype)
      return failure("scalar '{}' is {}, the variant declares {}; cast the value", param.name, name(arg->value.dtype()),
                     name(param.dtype));
    put(arg->value.slot());
  }
  if (args.scalars.size() > signature.scalars.size())
    return surplus(signature.scalars, args.scalars, "scalar");

  const Elements elements(params);
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorParam &param = signature.tensors[i];
    const NamedTensor *arg = findArgument(param, i, args.tensors, "captured tensor", "tensors", error);
    if (!arg)
      return missing(signature.tensors, args.tensors, "captured tensor", std::move(*error));
    const Tensor &tensor = arg->tensor;
    bool pattern = signature.blockPattern && signature.blockPattern->tensor == param.name;
    RETURN_IF_ERROR(checkCaptured(param, tensor, device, pattern));
    if (pattern)
      RETURN_IF_ERROR(checkPattern(*signature.blockPattern, tensor, params));
    if (!param.indices.empty() && !elements.none)
      RETURN_IF_ERROR(checkIndices(param, tensor, elements));
    put(tensor.data);
    for (int dim = 0; dim < param.rank; ++dim)
      put(packedStride(tensor, dim));
    for (int dim = 0; dim < param.rank; ++dim)
      put(tensor.shape[dim]);
  }
  if (args.tensors.size() > signature.tensors.size())
    return surplus(signature.tensors, args.tensors, "captured tensor");

  packed.boundsEntries = 0;
  __int128 entries = 0;
  size_t needed = forEachBounds(signature, args, [&](const PlacedBounds &placed) {
    entries += placed.entries;
    put(reinterpret_cast<uintptr_t>(args.workspace) + placed.offset);
    for (int dim = 0; dim < placed.tensor.rank; ++dim)
      put(placed.strides[dim]);
    for (int dim = 0; dim < placed.tensor.rank; ++dim)
      put(placed.extents[dim]);
  });
  if (needed > 0) {
    if (!args.workspace || args.workspaceBytes < needed)
      return failure(
          "the launch needs a workspace of {} bytes, {}; allocate Kernel::workspaceBytes(args) bytes and pass them in "
          ".workspace and .workspaceBytes",
          needed, args.workspace ? fmt::format(".workspaceBytes is {}", args.workspaceBytes) : ".workspace is null");
    if (reinterpret_cast<uintptr_t>(args.workspace) % tileAlignment != 0)
      return failure("workspace starts at address {:#x}, which is not a multiple of 16 bytes; align its memory",
                     reinterpret_cast<uintptr_t>(args.workspace));
    if (entries > __int128(maxInt32) * (boundsBlockThreads / 32))
      return failure("the captured tensors have {:.0f} tiles under all of their other indices, the most is {}; pass "
                     "views of fewer "
                     "elements",
                     double(entries), int64_t(maxInt32) * (boundsBlockThreads / 32));
    packed.boundsEntries = int64_t(entries);
  }

  params.mapped = mappedTensors(signature, params);
  packed.size = signature.packedBytes();
  packed.queryTiles = ceilDiv(params.queryLength, image.tileQ);
  // The first product fits 64 bits (2^30 * 2^31); the second may not.
  int64_t perBatch = packed.queryTiles * params.heads;
  if (params.batch > 0 && (perBatch > maxInt32 || perBatch * params.batch > maxInt32))
    return failure("the launch needs {:.0f} blocks (B = {}, H = {}, {} query tiles of {}), the most is {}; split the "
                   "batch",
                   double(perBatch) * params.batch, params.batch, params.heads, packed.queryTiles, image.tileQ,
                   maxInt32);
  packed.blocks = perBatch * params.batch;
  return {};
}
