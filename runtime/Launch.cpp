#include "runtime/Launch.h"
#include "runtime/TensorMaps.h"

#include "attune/Expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

using namespace attune;

#define RETURN_IF_ERROR(expression)                                                                                    \
  do {                                                                                                                 \
    if (Expected<void> checked = (expression); !checked)                                                               \
      return checked;                                                                                                  \
  } while (false)

static constexpr int64_t maxLength = int64_t(1) << 30;
static constexpr int64_t maxInt32 = std::numeric_limits<int32_t>::max();
static constexpr uintptr_t tileAlignment = 16; // bytes that one cp.async or vector access of Q, K, V or O moves

const Tensor *LaunchArgs::operand(std::string_view name) const {
  if (name.size() == 1)
    switch (name[0]) {
    case 'q':
      return &q;
    case 'k':
      return &k;
    case 'v':
      return &v;
    case 'o':
      return &o;
    }
  if (name == "lse")
    return lse ? &*lse : nullptr;
  for (const NamedTensor &named : operands)
    if (named.name == name)
      return &named.tensor;
  return nullptr;
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
  if (image.entries.empty() || image.entries.size() > maxKernels)
    return Error{fmt::format("kernel '{}' has {} entry points, required are 1 to {}; the image is damaged", image.name,
                             image.entries.size(), maxKernels)};
  for (const KernelEntry &entry : image.entries)
    if (entry.grid.size() > maxGridAxes)
      return Error{
          fmt::format("kernel '{}' has a grid of {} axes, the most is {}", image.name, entry.grid.size(), maxGridAxes)};
  if (image.tileQ < 1 || image.main().threads < 1)
    return Error{fmt::format("kernel '{}' has query tiles of {} rows and {} threads, both must be positive; the image "
                             "is damaged",
                             image.name, image.tileQ, image.main().threads)};
  return {};
}

static constexpr AxisWords knownAxes[] = {
    {"b", "B", "batch", "batch", "", maxInt32, "split the batch"},
    {"h", "H", "heads", "head", "", maxInt32, "split the heads"},
    {"hkv", "Hkv", "heads", "head", "", maxInt32, "split the heads"},
    {"q", "Sq", "length", "row", "", maxLength, "split the sequence"},
    {"k", "Sk", "length", "row", "", maxLength, "split the sequence"},
    {"page", "P", "pages", "page", "", maxInt32, "pass fewer pages"},
    {"slot", "N", "page size", "slot", "the size of Variant::keyPages", maxInt32, ""},
    {"d", "D", "head_dim", "head", ".headDim", maxInt32, ""},
    {"dv", "Dv", "head_dim", "head", ".headDimV", maxInt32, ""},
};

AxisWords attune::wordsFor(const AxisParam &axis) {
  for (const AxisWords &known : knownAxes)
    if (axis.name == known.axis)
      return known;
  const char *name = axis.name.c_str();
  return {name, name, name, name, "", maxLength, "pass a smaller tensor"};
}

//===----------------------------------------------------------------------===//
// Checks. Each check returns an error where it fails. Error texts are built in cold functions, to keep a valid launch
// quick.
//===----------------------------------------------------------------------===//

namespace {

/// The extent of an axis for messages: "4 heads", "batch 2", "length 100".
std::string extentText(const AxisWords &words, int64_t extent) {
  const std::string_view noun = words.noun;
  return noun == "heads" || noun == "pages" ? fmt::format("{} {}", extent, noun) : fmt::format("{} {}", noun, extent);
}

/// The operand's axes for messages: "[B, H, Sq, D]".
std::string layoutText(const OperandParam &operand) {
  std::string text;
  for (const AxisParam &axis : operand.axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", wordsFor(axis).extent);
  return "[" + text + "]";
}

/// An error with a text formatted by fmt. Never inlined, so that the code that a valid launch runs stays small.
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

/// Checks that the tensor has the rank that the operand requires and is on `device`, that extents are not negative, and
/// that data is not null.
Expected<void> checkView(const OperandParam &operand, const Tensor &tensor, Device device) {
  const std::string &name = operand.name;
  if (tensor.rank != operand.rank())
    return failure("{} has rank {}, required is {}; reshape it to {}", name, tensor.rank, operand.rank(),
                   layoutText(operand));
  for (int i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i] < 0)
      return failure("{} has extent {} in dimension {}; extents are at least 0", name, tensor.shape[i], i);
  if (tensor.device != device)
    return failure("{} is on {}, the kernel is on {}; move {} there or compile for its device", name,
                   tensor.device.text(), device.text(), name);
  if (!tensor.data && !isEmpty(tensor))
    return failure("{} is null but has shape {}; pass the address of its memory", name, shapeText(tensor));
  return {};
}

[[gnu::cold, gnu::noinline]] Error wrongDType(const OperandParam &operand, DType given) {
  if (!operand.isTiled())
    return failure("{} is {}, required is {}; allocate it as {}", operand.name, name(given), name(operand.dtype),
                   name(operand.dtype));
  if (isFloat(given))
    return failure("{} is {}, the kernel was compiled for {}; convert {} or compile with .dtype = {}", operand.name,
                   name(given), name(operand.dtype), operand.name, name(given));
  return failure("{} is {}, the kernel was compiled for {}; convert {}", operand.name, name(given), name(operand.dtype),
                 operand.name);
}

/// Checks the extents of axes whose size was fixed when the kernel was compiled.
Expected<void> checkFixedExtents(const OperandParam &operand, const Tensor &tensor) {
  for (int i = 0; i < tensor.rank; ++i) {
    const AxisParam &axis = operand.axes[i];
    if (axis.size == 0 || tensor.shape[i] == axis.size)
      continue;
    const AxisWords words = wordsFor(axis);
    return failure("{} has {}, the kernel was compiled for {}; {}", operand.name, extentText(words, tensor.shape[i]),
                   axis.size,
                   *words.option ? fmt::format("compile with {} = {}", words.option, tensor.shape[i])
                                 : fmt::format("pass {} of them", axis.size));
  }
  return {};
}

/// Checks an operand that the kernel accesses by tiles: the last dimension has stride 1; base address and other strides
/// are multiples of 16 bytes.
Expected<void> checkTiled(const OperandParam &operand, const Tensor &tensor) {
  const std::string &name = operand.name;
  const int last = tensor.rank - 1;
  if (tensor.strides[last] != 1 && tensor.shape[last] > 1)
    return failure("{} has stride {} in the {} dimension, required is 1; make its last dimension contiguous", name,
                   tensor.strides[last], wordsFor(operand.axes[last]).stride);
  if (reinterpret_cast<uintptr_t>(tensor.data) % tileAlignment != 0)
    return failure("{} starts at address {:#x}, which is not a multiple of 16 bytes; align its memory", name,
                   reinterpret_cast<uintptr_t>(tensor.data));
  int64_t elements = int64_t(tileAlignment / byteSize(operand.dtype));
  for (int i = 0; i < last; ++i)
    if (tensor.shape[i] > 1 && tensor.strides[i] % elements != 0) {
      int64_t padded = (tensor.strides[i] + elements - 1) / elements * elements;
      return failure("{} has a {} stride of {} elements ({} bytes), which is not a multiple of 16 bytes; pad it to {} "
                     "elements",
                     name, wordsFor(operand.axes[i]).stride, tensor.strides[i],
                     tensor.strides[i] * int64_t(byteSize(operand.dtype)), tensor.strides[i] > 0 ? padded : elements);
    }
  return {};
}

/// Checks that no dimension of an output is broadcast, that is, has stride 0 and an extent above 1.
Expected<void> checkOutput(const OperandParam &operand, const Tensor &tensor) {
  for (int i = 0; i < tensor.rank; ++i)
    if (tensor.strides[i] == 0 && tensor.shape[i] > 1)
      return failure("{} has stride 0 along its {} dimension of extent {}; an output cannot be broadcast", operand.name,
                     wordsFor(operand.axes[i]).stride, tensor.shape[i]);
  return {};
}

/// Every check of an operand that needs no other operand.
Expected<void> checkOperand(const OperandParam &operand, const Tensor &tensor, Device device) {
  RETURN_IF_ERROR(checkView(operand, tensor, device));
  if (tensor.dtype != operand.dtype)
    return wrongDType(operand, tensor.dtype);
  RETURN_IF_ERROR(checkFixedExtents(operand, tensor));
  if (operand.isTiled() && !isEmpty(tensor))
    RETURN_IF_ERROR(checkTiled(operand, tensor));
  if (!operand.isTiled() && reinterpret_cast<uintptr_t>(tensor.data) % byteSize(operand.dtype) != 0)
    return failure("{} starts at address {:#x}, which is not a multiple of {} bytes; align its memory", operand.name,
                   reinterpret_cast<uintptr_t>(tensor.data), byteSize(operand.dtype));
  if (operand.role != OperandRole::In && !isEmpty(tensor))
    RETURN_IF_ERROR(checkOutput(operand, tensor));
  return {};
}

static int64_t ceilDiv(int64_t count, int64_t size) { return count / size + (count % size != 0); }

/// The axes of a signature that have no fixed extent. Each axis holds its extent in this launch and the first operand
/// that has the axis.
class Axes {
public:
  /// Lists the axes in the order of KernelSignature::axes().
  explicit Axes(const KernelSignature &signature) {
    for (const OperandParam &operand : signature.operands)
      for (const AxisParam &axis : operand.axes)
        if (axis.isShared())
          addName(axis.name);
    for (const DerivedAxis &axis : signature.derived)
      addName(axis.name);
  }

  /// Sets the extent of a derived axis.
  void derive(std::string_view axis, int64_t extent) {
    if (Axis *known = find(axis)) {
      known->operand = known->axis;
      known->extent = extent;
    }
  }

  /// Records the extents of `tensor`; where an earlier operand has set an extent, checks that both are equal.
  Expected<void> add(const OperandParam &operand, const Tensor &tensor) {
    for (int i = 0; i < tensor.rank; ++i) {
      const AxisParam &axis = operand.axes[i];
      if (!axis.isShared())
        continue;
      Axis *known = find(axis.name);
      if (axis.by > 1) {
        if (known && !known->operand.empty() && ceilDiv(known->extent, axis.by) != tensor.shape[i])
          return countsOthers(operand, tensor, axis, i, *known);
        continue;
      }
      if (!known)
        return failure("the kernel's operands have more than {} axes; compile a kernel of fewer", std::size(all));
      if (known->operand.empty())
        RETURN_IF_ERROR(first(operand, axis, tensor.shape[i], *known));
      else if (known->extent != tensor.shape[i])
        return differs(operand, tensor, axis, tensor.shape[i], *known);
    }
    return {};
  }

  /// The extent of an axis; nullopt where no operand of the launch has the axis.
  std::optional<int64_t> extent(std::string_view axis) {
    const Axis *known = find(axis);
    return known && !known->operand.empty() ? std::optional(known->extent) : std::nullopt;
  }
  /// Calls `visit(extent)` for each axis of the signature; the extent is 0 where no operand of the launch has the axis.
  template <typename Visit> void forEach(Visit visit) const {
    for (size_t i = 0; i < count; ++i)
      visit(all[i].extent);
  }
  /// The first operand that has the axis.
  std::string_view firstWith(std::string_view axis) { return find(axis)->operand; }

private:
  struct Axis {
    std::string_view axis, operand; ///< operand is empty until an operand of the launch has set the extent
    int64_t extent = 0;
  };

  void addName(std::string_view axis) {
    if (!find(axis) && count < std::size(all))
      all[count++].axis = axis;
  }

  Axis *find(std::string_view axis) {
    for (size_t i = 0; i < count; ++i)
      if (sameName(all[i].axis, axis))
        return &all[i];
    return nullptr;
  }

  Expected<void> first(const OperandParam &operand, const AxisParam &axis, int64_t extent, Axis &known) {
    if (extent > maxLength) // maxLength is the lowest limit of any axis
      RETURN_IF_ERROR(checkLimit(operand, axis, extent));
    known.operand = operand.name;
    known.extent = extent;
    return {};
  }

  [[gnu::cold, gnu::noinline]] static Expected<void> checkLimit(const OperandParam &operand, const AxisParam &axis,
                                                                int64_t extent) {
    const AxisWords words = wordsFor(axis);
    if (extent <= words.most)
      return {};
    return failure("{} has {}, the most is {}; {}", operand.name, extentText(words, extent), words.most, words.remedy);
  }

  /// The error for an operand that counts tiles of an axis (`by` > 1), where its count is not ceil(extent / by). An
  /// earlier operand has set the extent.
  [[gnu::cold, gnu::noinline]] static Error countsOthers(const OperandParam &operand, const Tensor &tensor,
                                                         const AxisParam &axis, int dim, const Axis &wanted) {
    return failure("{} has {} blocks in dimension {}, required is {}: ceil({} / {}), as {} has {} of {}; savedShape() "
                   "gives its shape",
                   operand.name, tensor.shape[dim], dim, ceilDiv(wanted.extent, axis.by), wanted.extent, axis.by,
                   wanted.operand, wanted.extent, axis.name);
  }

  /// The error for an extent that differs from an earlier operand's extent of the same axis. For an output the text has
  /// the whole required shape.
  [[gnu::cold, gnu::noinline]] Error differs(const OperandParam &operand, const Tensor &tensor, const AxisParam &axis,
                                             int64_t extent, const Axis &wanted) {
    const AxisWords words = wordsFor(axis);
    if (operand.role == OperandRole::In)
      return failure("{} has {}, {} has {}; pass the same {}", operand.name, extentText(words, extent), wanted.operand,
                     wanted.extent, words.noun == std::string_view("heads") ? "number of heads" : words.noun);
    std::string shape;
    for (const AxisParam &one : operand.axes) {
      const Axis *other = find(one.name);
      shape += fmt::format("{}{}", shape.empty() ? "" : ", ", other ? other->extent : int64_t(one.size));
    }
    return failure("{} has shape {}, required is [{}]; allocate it as {}", operand.name, shapeText(tensor), shape,
                   layoutText(operand));
  }

  Axis all[16];
  size_t count = 0;
};

/// The product of two counts, saturated at 2^56: no machine has memory for so many elements.
int64_t saturatingProduct(int64_t a, int64_t b) {
  constexpr int64_t most = int64_t(1) << 56;
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

/// The stride to pass to the kernel: 0 along an extent of 1, where the caller's stride may be any number.
int64_t packedStride(const Tensor &tensor, int dim) { return tensor.shape[dim] > 1 ? tensor.strides[dim] : 0; }

template <typename Param> [[gnu::cold, gnu::noinline]] std::string namesOf(const std::vector<Param> &params) {
  if (params.empty())
    return "none";
  std::string names;
  for (const Param &param : params)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", param.name);
  return names;
}

/// The argument in `args` for the parameter at `index`, or null. Arguments in declaration order are found by one
/// comparison.
template <typename Param, typename List>
auto findArgument(const Param &param, size_t index, const List &args) -> decltype(args.begin()) {
  if (index < args.size() && args[index].name == param.name)
    return &args[index];
  for (const auto &arg : args)
    if (arg.name == param.name)
      return &arg;
  return nullptr;
}

/// The error for more arguments than parameters, where every parameter has an argument: some argument has an unknown
/// name, or a name is given twice.
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

/// The error "captured tensors 'a', 'b' are missing; pass them in .tensors".
template <typename Param>
Error missingText(const std::vector<Param> &absent, std::string_view kind, std::string_view field) {
  const bool one = absent.size() == 1;
  return failure("{}{} {} {} missing; pass {} in .{}", kind, one ? "" : "s", namesOf(absent), one ? "is" : "are",
                 one ? "it" : "them", field);
}

/// The error for missing arguments. Where an argument has no parameter, its name is probably a misspelling, and the
/// error names that argument instead.
template <typename Param, typename List>
[[gnu::cold, gnu::noinline]] Error missing(const std::vector<Param> &params, const List &args, const char *kind,
                                           const char *field) {
  for (const auto &arg : args)
    if (std::none_of(params.begin(), params.end(), [&](const Param &param) { return param.name == arg.name; }))
      return failure("the kernel has no {} '{}'; it has {}", kind, arg.name, namesOf(params));
  std::vector<Param> absent;
  for (const Param &param : params)
    if (!findArgument(param, 0, args))
      absent.push_back(param);
  return missingText(absent, kind, field);
}

/// Checks one captured tensor or block pattern. `mayBeEmpty`: extents of 0 are allowed, because the launch has no
/// elements or the tensor is a block pattern.
Expected<void> checkCaptured(const TensorParam &param, const Tensor &tensor, Device device, bool pattern,
                             bool mayBeEmpty) {
  const char *kind = pattern ? "block pattern" : "captured tensor";
  if (tensor.dtype != param.dtype)
    return failure("{} '{}' is {}, the variant declares {}; convert it", kind, param.name, name(tensor.dtype),
                   name(param.dtype));
  if (tensor.rank != param.rank)
    return failure("{} '{}' has rank {}, the variant declares {}; reshape it", kind, param.name, tensor.rank,
                   param.rank);
  for (int i = 0; i < param.rank; ++i)
    if (tensor.shape[i] < (mayBeEmpty ? 0 : 1))
      return failure("{} '{}' has extent {} in dimension {}; every extent is at least {}", kind, param.name,
                     tensor.shape[i], i, mayBeEmpty ? 0 : 1);
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

Expected<void> checkPattern(const BlockPatternParam &pattern, const Tensor &tensor, const LaunchSizes &sizes) {
  int rank = tensor.rank;
  if (rank < 2 || rank > 4)
    return failure("block pattern '{}' has rank {}, required is 2 to 4; declare it as [heads, rows, columns]",
                   pattern.tensor, rank);
  int64_t rows = ceilDiv(sizes.queryLength, pattern.rows), columns = ceilDiv(sizes.keyLength, pattern.columns);
  if (tensor.shape[rank - 2] < rows || tensor.shape[rank - 1] < columns)
    return failure("block pattern '{}' has {} x {} blocks of {} x {}, required are {} x {} for Sq = {} and Sk = {}; "
                   "pass one entry per block",
                   pattern.tensor, tensor.shape[rank - 2], tensor.shape[rank - 1], pattern.rows, pattern.columns, rows,
                   columns, sizes.queryLength, sizes.keyLength);
  if (rank >= 3 && tensor.shape[rank - 3] != 1 && tensor.shape[rank - 3] != sizes.heads)
    return failure("block pattern '{}' has {} heads, required is 1 or {}; pass one plane for all heads or one per head",
                   pattern.tensor, tensor.shape[rank - 3], sizes.heads);
  if (rank == 4 && tensor.shape[0] != 1 && tensor.shape[0] != sizes.batch)
    return failure("block pattern '{}' has batch {}, required is 1 or {}; pass one plane for all batches or one per "
                   "batch",
                   pattern.tensor, tensor.shape[0], sizes.batch);
  return {};
}

//===----------------------------------------------------------------------===//
// Bounds checks of index expressions into captured tensors
//===----------------------------------------------------------------------===//

/// The elements (b, h, q, k) of a launch: the least and the greatest value of each coordinate, with the q offset added
/// to q, and the extents B, H, Sq, Sk.
struct Elements {
  int64_t low[4], high[4], extents[4];
  bool none;

  Elements(const LaunchSizes &sizes, int64_t qOffset)
      : low{0, 0, qOffset, 0},
        high{sizes.batch - 1, sizes.heads - 1, sizes.queryLength - 1 + qOffset, sizes.keyLength - 1},
        extents{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength},
        none(!sizes.batch || !sizes.heads || !sizes.queryLength || !sizes.keyLength) {}

  int64_t value(const LinearIndex &x, const std::array<int64_t, 4> &coordinates) const {
    int64_t sum = x.constant;
    for (size_t i = 0; i < 4; ++i)
      sum += x.coordinates[i] * coordinates[i] + x.extents[i] * extents[i];
    return sum;
  }
};

/// Whether the kernel certainly evaluates the index at its greatest (or least) value: some element (b, h, q, k) with
/// that value satisfies all guards. Of the corners of the range of elements, the function tries those with that value.
/// From each of these corners it also moves along each coordinate that the index does not depend on, to where a guard
/// begins to hold (the edge of a sliding window). The function may miss elements elsewhere; findIndexFault finds them.
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

/// The sizes that the greatest (or least) value of `index` depends on, as text: " for Sq 256 and Sk 256".
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

/// Why an index gets as large as `greatest`, as text: ", but Sk is 256" or ", which reaches 510 for Sq 256 and Sk 256";
/// empty for a constant index.
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
  if (param.element.empty() && greatest >= extent && isReached(param, elements, true))
    return failure(
        "captured tensor '{}' has {} element{} in dimension {} and is indexed by {}{}; pass at least {}, as its "
        "gradient has an element for each",
        tensor.name, extent, extent == 1 ? "" : "s", param.dim, param.text, whyGreatest(param, elements, greatest),
        greatest + 1);
  if (greatest >= extent && isReached(param, elements, true))
    return failure("captured tensor '{}' has {} element{} in dimension {} and is indexed by {}{}; pass at least {}, or "
                   "write clamped({}) "
                   "where reading the last element is meant",
                   tensor.name, extent, extent == 1 ? "" : "s", param.dim, param.text,
                   whyGreatest(param, elements, greatest), greatest + 1, param.element);
  if (param.element.empty() && least < 0 && isReached(param, elements, false))
    return failure(
        "captured tensor '{}' is indexed by {} in dimension {}, which begins at {}{}; index it from 0 on, as its "
        "gradient has an element for each",
        tensor.name, param.text, param.dim, least, dependsOn(param.index, elements, false));
  if (least < 0 && isReached(param, elements, false))
    return failure("captured tensor '{}' is indexed by {} in dimension {}, which begins at {}{}; correct the index, or "
                   "write clamped({}) "
                   "where reading the first element is meant",
                   tensor.name, param.text, param.dim, least, dependsOn(param.index, elements, false), param.element);
  return {};
}

/// Checks that every index expression stays within the tensor's extents for all elements of the launch.
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
    // Kernels compute indices in int32. Beyond that range the index wraps, and the formula no longer gives its value.
    if (least < std::numeric_limits<int32_t>::min() || greatest > maxInt32 || (index.broadcast && extent == 1))
      continue;
    if (Expected<void> good = indexOutside(param, extent, index, elements, least, greatest); !good)
      return good;
  }
  return {};
}

} // namespace

/// The replacement of an empty captured tensor in a launch without elements (one of B, H, Sq and Sk is 0). The
/// replacement has one element, which lies in the memory of an operand. The kernel may load that element before the
/// loop over keys, and ignores the value.
static Tensor oneElement(Tensor empty, const LaunchArgs &args) {
  empty.data = nullptr;
  for (const Tensor *operand : {&args.q, &args.k, &args.v, &args.o})
    if (operand->data && !isEmpty(*operand))
      empty.data = operand->data;
  for (int i = 0; i < empty.rank; ++i) {
    empty.shape[i] = 1;
    empty.strides[i] = 0;
  }
  return empty;
}

/// Checks the dropout probability, the query offset and the seed pointers, and stores them in `params`.
static Expected<void> packLaunchValues(const KernelSignature &signature, float defaultDropout, const LaunchArgs &args,
                                       LaunchParams &params) {
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
  params.qOffset = args.qOffset.value_or(0);
  params.dropThreshold = signature.dropout ? dropoutThreshold(probability) : 0;
  params.keepScale = float(65536.0 / double(65536 - params.dropThreshold));
  params.mapped = 0;
  params.unused = 0;
  return {};
}

/// The extent of an axis that names a dimension of a captured tensor (tensors.NAME.DIM).
static std::optional<int64_t> tensorExtent(std::string_view axis, const LaunchArgs &args) {
  if (const std::optional<TensorDimension> of = tensorDimension(axis))
    for (const NamedTensor &named : args.tensors)
      if (of->tensor == named.name && of->dim < named.tensor.rank)
        return named.tensor.shape[of->dim];
  return std::nullopt;
}

/// The extent of an axis of the operands, or of a dimension of a captured tensor; nullopt where no argument has the
/// axis.
static std::optional<int64_t> extentIn(std::string_view axis, Axes &axes, const LaunchArgs &args) {
  if (std::optional<int64_t> extent = axes.extent(axis))
    return *extent;
  return tensorExtent(axis, args);
}

int64_t attune::keysIn(const KernelSignature &signature, const LaunchArgs &args) {
  for (const DerivedAxis &axis : signature.derived)
    if (axis.rule == DerivedAxis::Rule::Pages)
      return saturatingProduct(tensorExtent(axis.of, args).value_or(0), axis.by);
  return args.k.shape[2];
}

static int64_t tilesIn(const AxisParam &axis, Axes &axes, const LaunchArgs &args) {
  return ceilDiv(axis.size ? axis.size : extentIn(axis.name, axes, args).value_or(0), axis.by);
}

/// Query heads per key head; 1 where there are no key heads.
static int64_t groupOf(Axes &axes) {
  const int64_t kvHeads = axes.extent("hkv").value_or(0);
  return kvHeads == 0 ? 1 : axes.extent("h").value_or(1) / kvHeads;
}

/// The number of tiles along the other axes of the grid that contains `axis`.
static int64_t tilesOfOtherAxes(const KernelImage &image, const DerivedAxis &axis, Axes &axes, const LaunchArgs &args) {
  int64_t tiles = 1;
  for (const KernelEntry &entry : image.entries)
    if (std::ranges::find(entry.grid, axis.name, &AxisParam::name) != entry.grid.end()) {
      for (const AxisParam &other : entry.grid)
        if (other.name != axis.name)
          tiles = saturatingProduct(tiles, tilesIn(other, axes, args));
      break;
    }
  return tiles;
}

/// Computes the extents of derived axes from those of operands and captured tensors. Splits and work items come last,
/// because their numbers depend on the other axes of the grid.
static void deriveAxes(const KernelImage &image, int64_t multiprocessors, const LaunchArgs &args, Axes &axes) {
  using Rule = DerivedAxis::Rule;
  auto slots = [&](const DerivedAxis &axis) { return axis.blocksPerSm * std::max<int64_t>(multiprocessors, 1); };
  auto extent = [&](std::string_view axis) { return extentIn(axis, axes, args).value_or(0); };
  auto extentOf = [&](const DerivedAxis &axis) {
    switch (axis.rule) {
    case Rule::Rows:
      return saturatingProduct(extent("q"), groupOf(axes));
    case Rule::Pages:
      return saturatingProduct(extent(axis.of), axis.by);
    case Rule::Slots:
      return slots(axis);
    case Rule::TileRows:
      return std::min<int64_t>(extent(axis.of), axis.by);
    case Rule::Splits:
      return keySplits(tilesOfOtherAxes(image, axis, axes, args), ceilDiv(extent("k"), axis.by), slots(axis));
    case Rule::WorkItems:
      break;
    }
    const int64_t beside = tilesOfOtherAxes(image, axis, axes, args), atOnce = beside ? slots(axis) / beside : 0;
    const int64_t rowTiles = saturatingProduct(extent("b"), ceilDiv(extent(axis.of), axis.by));
    return rowTiles ? std::min(rowTiles, INT64_MAX - atOnce) + atOnce : 0;
  };
  for (const bool ofGrid : {false, true})
    for (const DerivedAxis &axis : image.signature.derived)
      if (ofGrid == (axis.rule == Rule::Splits || axis.rule == Rule::WorkItems))
        axes.derive(axis.name, extentOf(axis));
}

/// Shape and dense strides of an operand, with a null address.
static Tensor denseTensor(const OperandParam &operand, Axes &axes, const LaunchArgs &args) {
  Tensor tensor;
  tensor.dtype = operand.dtype;
  tensor.rank = operand.rank();
  int64_t stride = 1;
  for (int dim = tensor.rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = tilesIn(operand.axes[size_t(dim)], axes, args);
    tensor.strides[dim] = stride;
    stride = saturatingProduct(stride, tensor.shape[dim]);
  }
  return tensor;
}

/// Bytes of a dense tensor, rounded up to a multiple of 16.
static size_t bytesOf(const Tensor &tensor) {
  int64_t elements = tensor.rank ? saturatingProduct(tensor.strides[0], tensor.shape[0]) : 1;
  return size_t(saturatingProduct(elements, int64_t(byteSize(tensor.dtype))) + 15) / 16 * 16;
}

/// The axes of a signature with the extents of all operands that `args` has.
static Axes axesOf(const KernelSignature &signature, const LaunchArgs &args) {
  Axes axes(signature);
  for (const OperandParam &operand : signature.operands)
    if (const Tensor *tensor = args.operand(operand.name); tensor && tensor->rank == operand.rank())
      (void)axes.add(operand, *tensor);
  return axes;
}

Expected<Tensor> attune::denseOperand(const KernelSignature &signature, const OperandParam &operand, Device device,
                                      const LaunchArgs &args) {
  Axes axes = axesOf(signature, args);
  for (const AxisParam &axis : operand.axes) {
    if (axis.size || extentIn(axis.name, axes, args))
      continue;
    if (const std::optional<TensorDimension> of = tensorDimension(axis.name))
      return failure("{} has the shape of captured tensor '{}', which is missing; pass it in .tensors", operand.name,
                     of->tensor);
    return failure("{} has shape {}, and no tensor of the arguments has {}; pass q, k and v", operand.name,
                   layoutText(operand), wordsFor(axis).extent);
  }
  Tensor tensor = denseTensor(operand, axes, args);
  tensor.device = device;
  return tensor;
}

size_t attune::workspaceSize(const KernelImage &image, int64_t multiprocessors, const LaunchArgs &args) {
  Axes axes = axesOf(image.signature, args);
  deriveAxes(image, multiprocessors, args, axes);
  size_t bytes = 0;
  for (const OperandParam &operand : image.signature.operands)
    if (operand.role == OperandRole::Workspace)
      bytes += bytesOf(denseTensor(operand, axes, args));
  return bytes;
}

/// Writes consecutive 8-byte slots of the packed parameters.
class SlotWriter {
public:
  explicit SlotWriter(std::byte *at) : at(at) {}

  template <typename T> void put(T value) {
    static_assert(sizeof value == 8);
    std::memcpy(at, &value, 8);
    at += 8;
  }
  /// Skips the next `bytes` bytes. Returns a second writer, which writes the skipped bytes later.
  SlotWriter leave(size_t bytes) {
    SlotWriter left = *this;
    at += bytes;
    return left;
  }
  /// Writes address, strides and extents; zeros for an optional tensor that the caller left out.
  void put(const Tensor *tensor, int rank) {
    put(static_cast<const void *>(tensor ? tensor->data : nullptr));
    for (int dim = 0; dim < rank; ++dim)
      put(tensor ? packedStride(*tensor, dim) : int64_t(0));
    for (int dim = 0; dim < rank; ++dim)
      put(tensor ? tensor->shape[dim] : int64_t(0));
  }

  /// Writes strides and extents of a dense tensor.
  void putShape(const Tensor &tensor) {
    for (int dim = 0; dim < tensor.rank; ++dim)
      put(tensor.strides[dim]);
    for (int dim = 0; dim < tensor.rank; ++dim)
      put(tensor.shape[dim]);
  }

private:
  std::byte *at;
};

/// Checks that the number of query heads is a multiple of the number of key heads (GQA).
static Expected<void> checkGroups(Axes &axes) {
  std::optional<int64_t> heads = axes.extent("h"), kvHeads = axes.extent("hkv");
  if (heads && kvHeads && (*kvHeads == 0 ? *heads != 0 : *heads % *kvHeads != 0))
    return failure("{} has {} heads, {} has {}; the number of query heads must be a multiple of the key heads",
                   axes.firstWith("h"), *heads, axes.firstWith("hkv"), *kvHeads);
  return {};
}

/// Checks a launch with paged K and V: the rows of the page table cover at most maxLength keys, and K has at least one
/// page unless the page table has no columns.
static Expected<void> checkPages(const KernelSignature &signature, Axes &axes) {
  for (const DerivedAxis &axis : signature.derived) {
    if (axis.rule != DerivedAxis::Rule::Pages)
      continue;
    const int64_t keys = axes.extent(axis.name).value_or(0);
    if (keys > maxLength)
      return failure("captured tensor '{}' has pages for {} keys a sequence, the most is {}; pass fewer columns",
                     tensorDimension(axis.of)->tensor, keys, maxLength);
    if (keys && axes.extent("page") == 0)
      return failure("{} has no pages, captured tensor '{}' names some; pass at least one", axes.firstWith("page"),
                     tensorDimension(axis.of)->tensor);
  }
  return {};
}

/// Checks that an operand with a captured tensor's axes, such as the tensor's gradient, has the tensor's extents.
static Expected<void> checkTensorAxes(const OperandParam &operand, const Tensor &given, const LaunchArgs &args) {
  for (int i = 0; i < operand.rank(); ++i) {
    const std::optional<TensorDimension> of = tensorDimension(operand.axes[i].name);
    if (!of)
      continue;
    for (const NamedTensor &named : args.tensors)
      if (named.name == of->tensor && of->dim < named.tensor.rank &&
          (given.rank != operand.rank() || given.shape[i] != named.tensor.shape[of->dim]))
        return failure("{} has shape {}, captured tensor '{}' has {}; allocate it in the tensor's shape", operand.name,
                       shapeText(given), of->tensor, shapeText(named.tensor));
  }
  return {};
}

[[gnu::cold, gnu::noinline]] static Error missingOperands(const KernelSignature &signature, const LaunchArgs &args) {
  std::vector<OperandParam> absent;
  for (const OperandParam &operand : signature.operands)
    if (operand.role != OperandRole::Workspace && !operand.optional && !args.operand(operand.name))
      absent.push_back(operand);
  return missingText(absent, "operand", "operands");
}

/// Checks each operand by itself, then that operands agree on the extents of shared axes.
static Expected<void> checkOperands(const KernelSignature &signature, Device device, const LaunchArgs &args,
                                    Axes &axes) {
  for (const OperandParam &operand : signature.operands) {
    const Tensor *tensor = args.operand(operand.name);
    if (operand.role == OperandRole::Workspace)
      continue;
    if (tensor) {
      RETURN_IF_ERROR(checkTensorAxes(operand, *tensor, args));
      RETURN_IF_ERROR(checkOperand(operand, *tensor, device));
    } else if (!operand.optional)
      return missingOperands(signature, args);
  }
  for (const OperandParam &operand : signature.operands) {
    if (const Tensor *tensor = args.operand(operand.name))
      RETURN_IF_ERROR(axes.add(operand, *tensor));
    RETURN_IF_ERROR(checkGroups(axes));
  }
  if (args.lse && std::ranges::find(signature.operands, "lse", &OperandParam::name) == signature.operands.end())
    return failure("the kernel has no operand 'lse', as its normaliser gives none; leave .lse unset");
  for (const NamedTensor &named : args.operands)
    if (std::ranges::find(signature.operands, named.name, &OperandParam::name) == signature.operands.end())
      return failure("the kernel has no operand '{}'; it has {}", named.name, namesOf(signature.operands));
  return {};
}

[[gnu::cold, gnu::noinline]] static Error tooManyBlocks(const KernelEntry &entry, const int64_t *tiles) {
  double blocks = 1;
  std::string text;
  for (size_t i = 0; i < entry.grid.size(); ++i) {
    const AxisWords words = wordsFor(entry.grid[i]);
    blocks *= double(tiles[i]);
    text += text.empty() ? "" : ", ";
    text += entry.grid[i].by == 1 ? fmt::format("{} = {}", words.extent, tiles[i])
                                  : fmt::format("{} tiles of {} of {}", tiles[i], entry.grid[i].by, words.extent);
  }
  return failure("the launch needs {:.0f} blocks ({}), the most is {}; split the batch", blocks, text, maxInt32);
}

/// Whether a launch skips this kernel because the sizes give it nothing to do (KernelEntry::skippedIf).
static bool isLeftOut(const KernelEntry &entry, Axes &axes, const LaunchArgs &args) {
  auto extent = [&](const std::string &axis) { return extentIn(axis, axes, args).value_or(0); };
  return !entry.skippedIf.empty() && std::ranges::all_of(entry.skippedIf, [&](const ExtentBound &bound) {
    const int64_t of = extent(bound.axis);
    return of >= 1 && of <= (bound.most.empty() ? 1 : extent(bound.most));
  });
}

/// Computes the grid of one kernel. An axis without tiles makes the grid empty, even where the product of the other
/// axes is over the limit.
static Expected<void> countBlocks(const KernelEntry &entry, Axes &axes, const LaunchArgs &args, int64_t *tiles,
                                  int64_t &blocks) {
  blocks = 1;
  bool tooMany = false, empty = false;
  for (size_t i = 0; i < entry.grid.size(); ++i) {
    tiles[i] = tilesIn(entry.grid[i], axes, args);
    empty = empty || tiles[i] == 0;
    tooMany = tooMany || __builtin_mul_overflow(blocks, tiles[i], &blocks) || blocks > maxInt32;
    blocks = tooMany ? 1 : blocks;
  }
  if (empty || isLeftOut(entry, axes, args))
    blocks = 0;
  else if (tooMany)
    return tooManyBlocks(entry, tiles);
  return {};
}

/// Checks a workspace table that has an entry for each pair of a query tile and a key tile of a mask. Kernels index the
/// entries by int32, so the check fails if there are more of them than an int32 can count.
static Expected<void> checkCountedTiles(const OperandParam &operand, const Tensor &placed) {
  double tiles = 1;
  int counted = 0;
  for (size_t i = 1; i < operand.axes.size(); ++i) {
    tiles *= double(placed.shape[i]);
    counted += operand.axes[i].by > 1;
  }
  constexpr double most = std::numeric_limits<int32_t>::max();
  if (counted < 2 || tiles <= most)
    return {};
  return failure("the launch counts its mask in {:.3g} tiles, {:.3g} at most; compile with larger tiles (.tileQ, "
                 ".tileK), or launch fewer batches or heads at a time",
                 tiles, most);
}

Expected<void> attune::checkMapped(const KernelImage &image, int32_t mapped) {
  for (const KernelEntry &entry : image.entries) {
    const auto missing = uint32_t(entry.maps.reads & ~mapped);
    auto isFallback = [&](const KernelEntry &other) { return other.maps.fallbackOf == entry.maps.reads; };
    if (missing && std::ranges::none_of(image.entries, isFallback))
      return failure(
          "captured tensor '{}' is read by TMA alone, which needs columns side by side, an address and "
          "strides of multiples of 16 bytes, and an element for each query and key; pad its rows, or add a kernel "
          "with tile.fallback_of",
          image.signature.tensorMaps[size_t(std::countr_zero(missing))].tensor);
  }
  return {};
}

/// Checks run-time scalars and writes their values.
static Expected<void> packScalars(const KernelSignature &signature, const LaunchArgs &args, SlotWriter &slots) {
  for (size_t i = 0; i < signature.scalars.size(); ++i) {
    const ScalarParam &param = signature.scalars[i];
    const NamedScalar *arg = findArgument(param, i, args.scalars);
    if (!arg)
      return missing(signature.scalars, args.scalars, "scalar", "scalars");
    if (arg->value.dtype() != param.dtype)
      return failure("scalar '{}' is {}, the variant declares {}; cast the value", param.name, name(arg->value.dtype()),
                     name(param.dtype));
    slots.put(arg->value.slot());
  }
  if (args.scalars.size() > signature.scalars.size())
    return surplus(signature.scalars, args.scalars, "scalar");
  return {};
}

/// Checks captured tensors and writes their addresses, strides and extents.
static Expected<void> packCaptured(const KernelSignature &signature, Device device, const LaunchSizes &sizes,
                                   int64_t qOffset, const LaunchArgs &args, SlotWriter &slots) {
  const Elements elements(sizes, qOffset);
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorParam &param = signature.tensors[i];
    const NamedTensor *arg = findArgument(param, i, args.tensors);
    if (!arg)
      return missing(signature.tensors, args.tensors, "captured tensor", "tensors");
    Tensor tensor = arg->tensor;
    bool pattern = signature.blockPattern && signature.blockPattern->tensor == param.name;
    RETURN_IF_ERROR(checkCaptured(param, tensor, device, pattern, pattern || elements.none));
    if (pattern)
      RETURN_IF_ERROR(checkPattern(*signature.blockPattern, tensor, sizes));
    if (!param.indices.empty() && !elements.none)
      RETURN_IF_ERROR(checkIndices(param, tensor, elements));
    if (!pattern && elements.none && isEmpty(tensor))
      tensor = oneElement(tensor, args);
    slots.put(&tensor, param.rank);
  }
  if (args.tensors.size() > signature.tensors.size())
    return surplus(signature.tensors, args.tensors, "captured tensor");
  return {};
}

/// Writes the operands; workspace operands lie one after the other in the launch's workspace, whose size is checked.
static Expected<void> packOperands(const KernelSignature &signature, Axes &axes, const LaunchArgs &args,
                                   SlotWriter slots) {
  size_t needed = 0;
  for (const OperandParam &operand : signature.operands) {
    if (operand.role != OperandRole::Workspace) {
      slots.put(args.operand(operand.name), operand.rank());
      continue;
    }
    const Tensor placed = denseTensor(operand, axes, args);
    RETURN_IF_ERROR(checkCountedTiles(operand, placed));
    slots.put(reinterpret_cast<uintptr_t>(args.workspace) + needed);
    slots.putShape(placed);
    needed += bytesOf(placed);
  }
  if (needed == 0)
    return {};
  if (!args.workspace || args.workspaceBytes < needed)
    return failure(
        "the launch needs a workspace of {} bytes, {}; allocate Kernel::workspaceBytes(args) bytes and pass them in "
        ".workspace and .workspaceBytes",
        needed, args.workspace ? fmt::format(".workspaceBytes is {}", args.workspaceBytes) : ".workspace is null");
  if (reinterpret_cast<uintptr_t>(args.workspace) % tileAlignment != 0)
    return failure("workspace starts at address {:#x}, which is not a multiple of 16 bytes; align its memory",
                   reinterpret_cast<uintptr_t>(args.workspace));
  return {};
}

/// Implements LaunchArgs::keepTables: the launch reuses the per-tile tables of an earlier launch, so preparation
/// kernels need not run. But block 0 of a preparation kernel also resets the counter from which blocks claim work. If a
/// kernel claims work, that one block still runs.
static void leaveOutPreparation(const KernelImage &image, PackedLaunch &packed) {
  const bool claims = std::ranges::any_of(image.entries, &KernelEntry::claimsWork);
  for (size_t i = 0; i < image.entries.size(); ++i)
    if (image.entries[i].preparation)
      packed.blocks[i] = std::min<int64_t>(packed.blocks[i], claims);
}

Expected<void> attune::packLaunch(const KernelImage &image, Device device, int64_t multiprocessors,
                                  float defaultDropout, const LaunchArgs &args, PackedLaunch &packed) {
  const KernelSignature &signature = image.signature;
  auto &params = *new (packed.bytes) LaunchParams;
  Axes axes(signature);
  RETURN_IF_ERROR(checkOperands(signature, device, args, axes));
  RETURN_IF_ERROR(packLaunchValues(signature, defaultDropout, args, params));
  if (!signature.derived.empty())
    deriveAxes(image, multiprocessors, args, axes);
  RETURN_IF_ERROR(checkPages(signature, axes));
  packed.sizes = {axes.extent("b").value_or(1), axes.extent("h").value_or(1), axes.extent("hkv").value_or(1),
                  axes.extent("q").value_or(1), axes.extent("k").value_or(1)};
  const LaunchSizes &sizes = packed.sizes;
  params.group = int32_t(groupOf(axes));

  SlotWriter slots(packed.bytes + sizeof(LaunchParams));
  axes.forEach([&](int64_t extent) { slots.put(extent); });

  RETURN_IF_ERROR(packScalars(signature, args, slots));

  size_t operandBytes = 0;
  for (const OperandParam &operand : signature.operands)
    operandBytes += packedTensorBytes(operand.rank());
  SlotWriter operandSlots = slots.leave(operandBytes);

  RETURN_IF_ERROR(packCaptured(signature, device, sizes, params.qOffset, args, slots));

  // The slots of operands precede those of captured tensors, but are written after the captured tensors are checked:
  // a workspace operand may have a captured tensor's extents.
  RETURN_IF_ERROR(packOperands(signature, axes, args, operandSlots));

  params.mapped = mappedTensors(signature, params, sizes);
  RETURN_IF_ERROR(checkMapped(image, params.mapped));
  for (size_t i = 0; i < image.entries.size(); ++i)
    RETURN_IF_ERROR(countBlocks(image.entries[i], axes, args, packed.tiles[i], packed.blocks[i]));
  if (args.keepTables)
    leaveOutPreparation(image, packed);
  return {};
}
