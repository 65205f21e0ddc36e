//===- Metadata.cpp - Writing and reading a KernelImage as JSON -------------===//

#include "attune/Kernel.h"
#include "runtime/Launch.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace attune;
using nlohmann::json;

static json toJson(const LinearIndex &index) {
  return {{"constant", index.constant}, {"coordinates", index.coordinates}, {"extents", index.extents}};
}

static json toJson(const IndexParam &index) {
  json result = {{"dim", index.dim}, {"index", toJson(index.index)}, {"text", index.text}, {"element", index.element}};
  for (const LinearIndex &guard : index.guards)
    result["guards"].push_back(toJson(guard));
  if (index.broadcast)
    result["broadcast"] = true;
  return result;
}

static json toJson(const std::vector<AxisParam> &axes) {
  json result = json::array();
  for (const AxisParam &axis : axes)
    result.push_back({{"name", axis.name}, {"size", axis.size}, {"by", axis.by}});
  return result;
}

static json toJson(const KernelEntry &entry) {
  json bounds = json::array();
  for (const ExtentBound &bound : entry.skippedIf)
    bounds.push_back({{"axis", bound.axis}, {"most", bound.most}});
  return {{"symbol", entry.symbol},
          {"grid", toJson(entry.grid)},
          {"threads", entry.threads},
          {"sharedBytes", entry.sharedBytes},
          {"registers", entry.registers},
          {"spillBytes", entry.spillBytes},
          {"persistent", entry.persistent},
          {"claimsWork", entry.claimsWork},
          {"dependent", entry.dependent},
          {"preparation", entry.preparation},
          {"skippedIf", std::move(bounds)},
          {"readsMaps", entry.maps.reads},
          {"insteadOfMaps", entry.maps.fallbackOf}};
}

static json toJson(const OperandParam &operand) {
  return {{"name", operand.name},
          {"dtype", name(operand.dtype)},
          {"role", name(operand.role)},
          {"optional", operand.optional},
          {"axes", toJson(operand.axes)}};
}

static json toJson(const KernelSignature &signature) {
  json scalars = json::array(), tensors = json::array(), operands = json::array();
  for (const OperandParam &operand : signature.operands)
    operands.push_back(toJson(operand));
  for (const ScalarParam &param : signature.scalars)
    scalars.push_back({{"name", param.name}, {"dtype", name(param.dtype)}});
  for (const TensorParam &param : signature.tensors) {
    json &tensor = tensors.emplace_back(json{{"name", param.name}, {"dtype", name(param.dtype)}, {"rank", param.rank}});
    for (const IndexParam &index : param.indices)
      tensor["indices"].push_back(toJson(index));
  }
  json result = {{"dtype", name(signature.dtype)}, {"dropout", signature.dropout}, {"qOffset", signature.qOffset},
                 {"operands", operands},           {"scalars", scalars},           {"tensors", tensors}};
  // A head dim of 0 means that no operand has a head-dim axis; the JSON object then lacks the field.
  if (signature.headDim)
    result["headDim"] = signature.headDim;
  if (signature.headDimV)
    result["headDimV"] = signature.headDimV;
  for (const TensorMapParam &map : signature.tensorMaps)
    result["tensorMaps"].push_back({{"tensor", map.tensor},
                                    {"captured", map.captured},
                                    {"rows", map.rows},
                                    {"columns", map.columns},
                                    {"swizzle", map.swizzle},
                                    {"limited", map.limited}});
  for (const DerivedAxis &axis : signature.derived) {
    json &derived = result["derived"].emplace_back();
    derived = {{"name", axis.name}, {"rule", name(axis.rule)}, {"by", axis.by}, {"blocksPerSm", axis.blocksPerSm}};
    if (!axis.of.empty())
      derived["of"] = axis.of;
  }
  if (signature.blockPattern)
    result["blockPattern"] = {{"tensor", signature.blockPattern->tensor},
                              {"rows", signature.blockPattern->rows},
                              {"columns", signature.blockPattern->columns}};
  return result;
}

std::string KernelImage::metadata() const {
  json kernels = json::array();
  for (const KernelEntry &entry : entries)
    kernels.push_back(toJson(entry));
  json result = {{"name", name},
                 {"entries", kernels},
                 {"arch", arch},
                 {"signature", toJson(signature)},
                 {"tileQ", tileQ},
                 {"tileK", tileK},
                 {"nvrtcVersion", nvrtcVersion},
                 {"path", path},
                 {"plan", planJson},
                 {"log", log},
                 {"milliseconds",
                  {{"trace", times.trace},
                   {"ir", times.ir},
                   {"print", times.print},
                   {"nvrtc", times.nvrtc},
                   {"load", times.load}}}};
  // The compiler's log in the image may quote bytes that are not UTF-8.
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

namespace {

/// The range that a number read from a file must lie in. A file may contain any number; later code relies on the range.
struct Range {
  int64_t least, greatest;
};
constexpr Range anyCount = {0, std::numeric_limits<int>::max()};
constexpr Range sizes = {1, int64_t(1) << 30}; // sizes of tiles and of mask blocks: at most the longest sequence
constexpr Range headDims = {8, maxHeadDim};
constexpr Range boxSides = {1, 256}; // rows or columns of a tensor map's box
constexpr Range ranks = {0, 4};
constexpr Range threadCounts = {1, 1024};
constexpr Range sharedSizes = {0, int64_t(1) << 30}; // shared memory; scratch memory on the CPU
constexpr size_t mostElements = maxPackedBytes / 8;  // most elements of a JSON array: one per parameter slot
constexpr size_t mostTensorMaps = 31;                // LaunchParams::mapped has a bit for each (without the sign bit)

/// Reads fields of JSON objects. The reader remembers the first field that is absent, has a wrong type, or is out of
/// range.
class Reader {
public:
  const json *object(const json &from, const char *key) { return field(from, key, &json::is_object); }
  const json *array(const json &from, const char *key, size_t most = mostElements) {
    const json *value = field(from, key, &json::is_array);
    if (value && value->size() > most) {
      fail(fmt::format("has {} elements of '{}', the most is {}", value->size(), key, most));
      return nullptr;
    }
    return value;
  }

  void read(const json &from, const char *key, std::string &to) {
    if (const json *value = field(from, key, &json::is_string))
      to = value->get_ref<const std::string &>();
  }
  void read(const json &from, const char *key, bool &to) {
    if (const json *value = field(from, key, &json::is_boolean))
      to = value->get<bool>();
  }
  template <std::integral T> void read(const json &from, const char *key, T &to, Range range) {
    const json *value = field(from, key, &json::is_number_integer);
    if (!value)
      return;
    // get<int64_t>() returns a negative number for an unsigned number above INT64_MAX, which is out of every range.
    const auto number = value->get<int64_t>();
    const bool overflows = value->is_number_unsigned() && number < 0;
    if (overflows || number < range.least || number > range.greatest)
      fail(fmt::format("has {} {}, required is {} to {}", key, value->dump(), range.least, range.greatest));
    else
      to = T(number);
  }
  void read(const json &from, const char *key, int64_t &to) {
    if (const json *value = field(from, key, &json::is_number_integer))
      to = value->get<int64_t>();
  }
  void read(const json &from, const char *key, std::array<int64_t, 4> &to) {
    const json *values = array(from, key);
    if (!values || values->size() != to.size() ||
        !std::all_of(values->begin(), values->end(), [](const json &x) { return x.is_number_integer(); }))
      return failField(key);
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = (*values)[i].get<int64_t>();
  }
  void read(const json &from, const char *key, double &to) {
    if (const json *value = field(from, key, &json::is_number))
      to = value->get<double>();
  }
  void read(const json &from, const char *key, DType &to) {
    std::string text;
    read(from, key, text);
    if (std::optional<DType> dtype = parseDType(text))
      to = *dtype;
    else
      failField(key);
  }

  /// Records a problem, unless an earlier one is recorded. In the error, `text` follows the words "kernel metadata".
  void fail(std::string text) {
    if (problem.empty())
      problem = std::move(text);
  }
  void failField(const char *key) { fail(fmt::format("lacks '{}' or has it with another type", key)); }

  bool good() const { return problem.empty(); }
  const std::string &firstProblem() const { return problem; }

private:
  const json *field(const json &from, const char *key, bool (json::*is)() const noexcept) {
    if (from.is_object())
      if (auto found = from.find(key); found != from.end() && ((*found).*is)())
        return &*found;
    failField(key);
    return nullptr;
  }

  std::string problem;
};
} // namespace

static void read(Reader &reader, const json &from, const char *key, LinearIndex &to) {
  reader.read(from, "constant", to.constant);
  reader.read(from, "coordinates", to.coordinates);
  reader.read(from, "extents", to.extents);
  if (!to.withinLimits())
    reader.failField(key);
}

static void read(Reader &reader, const json &from, int rank, IndexParam &to) {
  reader.read(from, "dim", to.dim, {0, std::max(rank, 1) - 1});
  if (const json *index = reader.object(from, "index"))
    read(reader, *index, "index", to.index);
  reader.read(from, "text", to.text);
  reader.read(from, "element", to.element);
  if (from.contains("guards"))
    if (const json *guards = reader.array(from, "guards"))
      for (const json &guard : *guards)
        read(reader, guard, "guards", to.guards.emplace_back());
  if (from.contains("broadcast"))
    reader.read(from, "broadcast", to.broadcast);
}

static void readAxes(Reader &reader, const json &from, const char *key, size_t most, std::vector<AxisParam> &to) {
  if (const json *axes = reader.array(from, key, most))
    for (const json &axis : *axes) {
      AxisParam &param = to.emplace_back();
      reader.read(axis, "name", param.name);
      reader.read(axis, "size", param.size, {0, sizes.greatest});
      reader.read(axis, "by", param.by, sizes);
    }
}

static void read(Reader &reader, const json &from, OperandParam &to) {
  std::string role;
  reader.read(from, "name", to.name);
  reader.read(from, "dtype", to.dtype);
  reader.read(from, "role", role);
  reader.read(from, "optional", to.optional);
  if (const std::optional<OperandRole> known = parseOperandRole(role))
    to.role = *known;
  else
    reader.failField("role");
  readAxes(reader, from, "axes", maxGridAxes, to.axes);
}

static void read(Reader &reader, const json &from, KernelEntry &to) {
  reader.read(from, "symbol", to.symbol);
  readAxes(reader, from, "grid", maxGridAxes, to.grid);
  reader.read(from, "threads", to.threads, threadCounts);
  reader.read(from, "sharedBytes", to.sharedBytes, sharedSizes);
  reader.read(from, "registers", to.registers, anyCount);
  reader.read(from, "spillBytes", to.spillBytes, anyCount);
  reader.read(from, "persistent", to.persistent);
  reader.read(from, "claimsWork", to.claimsWork);
  reader.read(from, "dependent", to.dependent);
  reader.read(from, "preparation", to.preparation);
  if (const json *bounds = reader.array(from, "skippedIf", maxGridAxes))
    for (const json &bound : *bounds) {
      ExtentBound &param = to.skippedIf.emplace_back();
      reader.read(bound, "axis", param.axis);
      reader.read(bound, "most", param.most);
    }
  reader.read(from, "readsMaps", to.maps.reads, anyCount);
  reader.read(from, "insteadOfMaps", to.maps.fallbackOf, anyCount);
}

static void read(Reader &reader, const json &from, TensorParam &to) {
  reader.read(from, "name", to.name);
  reader.read(from, "dtype", to.dtype);
  reader.read(from, "rank", to.rank, ranks);
  if (from.contains("indices"))
    if (const json *indices = reader.array(from, "indices"))
      for (const json &index : *indices)
        read(reader, index, to.rank, to.indices.emplace_back());
}

static void read(Reader &reader, const json &from, TensorMapParam &to) {
  reader.read(from, "tensor", to.tensor);
  reader.read(from, "captured", to.captured);
  reader.read(from, "rows", to.rows, boxSides);
  reader.read(from, "columns", to.columns, boxSides);
  reader.read(from, "swizzle", to.swizzle, {32, 128});
  reader.read(from, "limited", to.limited);
}

static void read(Reader &reader, const json &from, DerivedAxis &to) {
  std::string rule;
  reader.read(from, "name", to.name);
  reader.read(from, "rule", rule);
  reader.read(from, "by", to.by, sizes);
  reader.read(from, "blocksPerSm", to.blocksPerSm, {1, 64});
  if (from.contains("of"))
    reader.read(from, "of", to.of);
  if (const std::optional<DerivedAxis::Rule> known = parseDerivedRule(rule))
    to.rule = *known;
  else
    reader.fail(fmt::format("derives axis '{}' by '{}', which is no rule", to.name, rule));
  if (isOfTensor(to.rule) && !tensorDimension(to.of))
    reader.fail(
        fmt::format("derives axis '{}' of {} of '{}', which is no captured tensor's dimension", to.name, rule, to.of));
  if (isOfRows(to.rule) && to.of.empty())
    reader.fail(fmt::format("derives axis '{}' of the rows of no axis", to.name));
}

static void read(Reader &reader, const json &from, KernelSignature &to) {
  reader.read(from, "dtype", to.dtype);
  if (from.contains("headDim"))
    reader.read(from, "headDim", to.headDim, headDims);
  if (from.contains("headDimV"))
    reader.read(from, "headDimV", to.headDimV, headDims);
  reader.read(from, "dropout", to.dropout);
  reader.read(from, "qOffset", to.qOffset);
  if (const json *operands = reader.array(from, "operands"))
    for (const json &operand : *operands)
      read(reader, operand, to.operands.emplace_back());
  if (const json *scalars = reader.array(from, "scalars"))
    for (const json &scalar : *scalars) {
      ScalarParam &param = to.scalars.emplace_back();
      reader.read(scalar, "name", param.name);
      reader.read(scalar, "dtype", param.dtype);
    }
  if (const json *tensors = reader.array(from, "tensors"))
    for (const json &tensor : *tensors)
      read(reader, tensor, to.tensors.emplace_back());
  if (from.contains("tensorMaps"))
    if (const json *maps = reader.array(from, "tensorMaps", mostTensorMaps))
      for (const json &map : *maps)
        read(reader, map, to.tensorMaps.emplace_back());
  if (from.contains("derived"))
    if (const json *derived = reader.array(from, "derived", maxGridAxes))
      for (const json &axis : *derived)
        read(reader, axis, to.derived.emplace_back());
  if (from.contains("blockPattern"))
    if (const json *pattern = reader.object(from, "blockPattern")) {
      to.blockPattern.emplace();
      reader.read(*pattern, "tensor", to.blockPattern->tensor);
      reader.read(*pattern, "rows", to.blockPattern->rows, sizes);
      reader.read(*pattern, "columns", to.blockPattern->columns, sizes);
    }
}

static const TensorParam *findTensor(const KernelSignature &signature, std::string_view name) {
  for (const TensorParam &tensor : signature.tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

/// Whether a launch can determine the extent of an axis.
static bool hasExtent(const KernelSignature &signature, const AxisParam &axis) {
  if (const std::optional<TensorDimension> of = tensorDimension(axis.name)) {
    const TensorParam *tensor = findTensor(signature, of->tensor);
    return tensor && of->dim < tensor->rank;
  }
  const std::vector<std::string> shared = signature.axes();
  return axis.size || std::ranges::find(shared, axis.name) != shared.end();
}

/// Whether a tensor map names an operand or captured tensor that TMA can address.
static bool isMappable(const KernelSignature &signature, const TensorMapParam &map) {
  if (map.captured) {
    const TensorParam *tensor = findTensor(signature, map.tensor);
    return tensor && isFloat(tensor->dtype) && tensor->rank >= 2;
  }
  const auto operand = std::ranges::find(signature.operands, map.tensor, &OperandParam::name);
  return operand != signature.operands.end() && (operand->isTiled() || map.isOptional()) && operand->rank() >= 2 &&
         operand->rank() <= 4;
}

/// Checks that the dtype is a float type, and that every axis, block pattern and tensor map refers to a tensor of the
/// right dtype and rank.
static void checkTensors(Reader &reader, const KernelSignature &signature, const std::vector<KernelEntry> &entries) {
  auto fail = [&](const char *key, const std::string &tensor) {
    reader.fail(fmt::format("has {} of '{}', which is not such a tensor", key, tensor));
  };
  if (!isFloat(signature.dtype))
    reader.fail(fmt::format("has dtype {}, required is f16, bf16 or f32", name(signature.dtype)));
  if (signature.blockPattern)
    if (const TensorParam *tensor = findTensor(signature, signature.blockPattern->tensor);
        !tensor || tensor->dtype != DType::Bool || tensor->rank < 2)
      fail("blockPattern", signature.blockPattern->tensor);
  for (const KernelEntry &entry : entries) {
    for (const AxisParam &axis : entry.grid)
      if (!hasExtent(signature, axis))
        reader.fail(fmt::format("has a grid over axis '{}', which no tensor has", axis.name));
    for (const ExtentBound &bound : entry.skippedIf)
      for (const std::string &axis : {bound.axis, bound.most})
        if (!axis.empty() && !hasExtent(signature, AxisParam{axis}))
          reader.fail(fmt::format("has a kernel left out by axis '{}', which no tensor has", axis));
    for (size_t map = 0; map < mostTensorMaps; ++map)
      if ((entry.maps.reads | entry.maps.fallbackOf) >> map & 1 &&
          (map >= signature.tensorMaps.size() || !signature.tensorMaps[map].isOptional()))
        reader.fail(fmt::format(
            "has a kernel that depends on tensor map {}, which is of no captured tensor or its gradient", map));
  }
  for (const OperandParam &operand : signature.operands)
    for (const AxisParam &axis : operand.axes)
      if (!axis.isShared() && !hasExtent(signature, axis))
        reader.fail(fmt::format("has operand '{}' over axis '{}', which no tensor has", operand.name, axis.name));
  for (const TensorMapParam &map : signature.tensorMaps)
    if (!isMappable(signature, map))
      fail("tensorMaps", map.tensor);
}

Expected<KernelImage> KernelImage::fromMetadata(std::string_view text) {
  json from = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object())
    return Error{"kernel metadata is not a JSON object; compile the kernel again"};
  KernelImage image;
  Reader reader;
  reader.read(from, "name", image.name);
  if (const json *entries = reader.array(from, "entries", maxKernels)) {
    image.entries.clear();
    for (const json &entry : *entries)
      read(reader, entry, image.entries.emplace_back());
  }
  reader.read(from, "arch", image.arch);
  if (const json *signature = reader.object(from, "signature"))
    read(reader, *signature, image.signature);
  reader.read(from, "tileQ", image.tileQ, {0, sizes.greatest});
  reader.read(from, "tileK", image.tileK, {0, sizes.greatest});
  reader.read(from, "nvrtcVersion", image.nvrtcVersion, anyCount);
  reader.read(from, "path", image.path);
  reader.read(from, "plan", image.planJson);
  reader.read(from, "log", image.log);
  if (const json *times = reader.object(from, "milliseconds")) {
    reader.read(*times, "trace", image.times.trace);
    reader.read(*times, "ir", image.times.ir);
    reader.read(*times, "print", image.times.print);
    reader.read(*times, "nvrtc", image.times.nvrtc);
    reader.read(*times, "load", image.times.load);
  }
  if (reader.good())
    checkTensors(reader, image.signature, image.entries);
  if (!reader.good())
    return Error{"kernel metadata " + reader.firstProblem() + "; compile the kernel again"};
  if (Expected<void> good = checkSignature(image); !good)
    return good.error();
  return image;
}
