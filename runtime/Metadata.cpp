//===- Metadata.cpp - A KernelImage as JSON, and back -----------------------===//

#include "attune/Kernel.h"

#include <algorithm>
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

static json toJson(const KernelSignature &signature) {
  json scalars = json::array(), tensors = json::array();
  for (const ScalarParam &param : signature.scalars)
    scalars.push_back({{"name", param.name}, {"dtype", name(param.dtype)}});
  for (const TensorParam &param : signature.tensors) {
    json &tensor = tensors.emplace_back(json{{"name", param.name}, {"dtype", name(param.dtype)}, {"rank", param.rank}});
    for (const IndexParam &index : param.indices)
      tensor["indices"].push_back(toJson(index));
  }
  json result = {{"dtype", name(signature.dtype)},
                 {"headDim", signature.headDim},
                 {"headDimV", signature.headDimV},
                 {"dropout", signature.dropout},
                 {"qOffset", signature.qOffset},
                 {"scalars", scalars},
                 {"tensors", tensors}};
  for (const BoundsParam &bounds : signature.bounds)
    result["bounds"].push_back({{"tensor", bounds.tensor}, {"dim", bounds.dim}, {"ofKeys", bounds.ofKeys}, {"rows", bounds.rows}});
  if (signature.claimsWork)
    result["claimsWork"] = true;
  if (signature.waitsForBounds)
    result["waitsForBounds"] = true;
  for (const TensorMapParam &map : signature.tensorMaps)
    result["tensorMaps"].push_back({{"tensor", map.tensor}, {"rows", map.rows}, {"columns", map.columns}, {"swizzle", map.swizzle}});
  if (signature.blockPattern)
    result["blockPattern"] = {{"tensor", signature.blockPattern->tensor},
                              {"rows", signature.blockPattern->rows},
                              {"columns", signature.blockPattern->columns}};
  return result;
}

std::string KernelImage::metadata() const {
  json result = {{"name", name},
                 {"entry", entry},
                 {"arch", arch},
                 {"signature", toJson(signature)},
                 {"tileQ", tileQ},
                 {"tileK", tileK},
                 {"persistent", persistent},
                 {"threads", threads},
                 {"sharedBytes", sharedBytes},
                 {"registers", registers},
                 {"spillBytes", spillBytes},
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
  // A log may quote bytes that are not UTF-8.
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

namespace {
/// Reads fields of JSON objects and remembers the first that is absent or of another type.
class Reader {
public:
  const json *object(const json &from, const char *key) { return field(from, key, &json::is_object); }
  const json *array(const json &from, const char *key) { return field(from, key, &json::is_array); }

  void read(const json &from, const char *key, std::string &to) {
    if (const json *value = field(from, key, &json::is_string))
      to = value->get_ref<const std::string &>();
  }
  void read(const json &from, const char *key, bool &to) {
    if (const json *value = field(from, key, &json::is_boolean))
      to = value->get<bool>();
  }
  void read(const json &from, const char *key, int &to) {
    if (const json *value = field(from, key, &json::is_number_integer))
      to = value->get<int>();
  }
  void read(const json &from, const char *key, size_t &to) {
    if (const json *value = field(from, key, &json::is_number_unsigned))
      to = value->get<size_t>();
  }
  void read(const json &from, const char *key, int64_t &to) {
    if (const json *value = field(from, key, &json::is_number_integer))
      to = value->get<int64_t>();
  }
  void read(const json &from, const char *key, std::array<int64_t, 4> &to) {
    const json *values = array(from, key);
    if (!values || values->size() != to.size() || !std::all_of(values->begin(), values->end(), [](const json &x) { return x.is_number_integer(); }))
      return fail(key);
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
      fail(key);
  }

  void fail(const char *key) {
    if (problem.empty())
      problem = key;
  }
  bool good() const { return problem.empty(); }
  const std::string &firstBadField() const { return problem; }

private:
  const json *field(const json &from, const char *key, bool (json::*is)() const noexcept) {
    if (from.is_object())
      if (auto found = from.find(key); found != from.end() && ((*found).*is)())
        return &*found;
    fail(key);
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
    reader.fail(key);
}

static void read(Reader &reader, const json &from, int rank, IndexParam &to) {
  reader.read(from, "dim", to.dim);
  if (to.dim < 0 || to.dim >= rank)
    reader.fail("dim");
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

static void read(Reader &reader, const json &from, KernelSignature &to) {
  reader.read(from, "dtype", to.dtype);
  reader.read(from, "headDim", to.headDim);
  reader.read(from, "headDimV", to.headDimV);
  reader.read(from, "dropout", to.dropout);
  reader.read(from, "qOffset", to.qOffset);
  if (const json *scalars = reader.array(from, "scalars"))
    for (const json &scalar : *scalars) {
      ScalarParam &param = to.scalars.emplace_back();
      reader.read(scalar, "name", param.name);
      reader.read(scalar, "dtype", param.dtype);
    }
  if (const json *tensors = reader.array(from, "tensors"))
    for (const json &tensor : *tensors) {
      TensorParam &param = to.tensors.emplace_back();
      reader.read(tensor, "name", param.name);
      reader.read(tensor, "dtype", param.dtype);
      reader.read(tensor, "rank", param.rank);
      if (tensor.contains("indices"))
        if (const json *indices = reader.array(tensor, "indices"))
          for (const json &index : *indices)
            read(reader, index, param.rank, param.indices.emplace_back());
    }
  if (from.contains("bounds"))
    if (const json *all = reader.array(from, "bounds"))
      for (const json &bounds : *all) {
        BoundsParam &param = to.bounds.emplace_back();
        reader.read(bounds, "tensor", param.tensor);
        reader.read(bounds, "dim", param.dim);
        reader.read(bounds, "ofKeys", param.ofKeys);
        reader.read(bounds, "rows", param.rows);
      }
  if (from.contains("claimsWork"))
    reader.read(from, "claimsWork", to.claimsWork);
  if (from.contains("waitsForBounds"))
    reader.read(from, "waitsForBounds", to.waitsForBounds);
  if (from.contains("tensorMaps"))
    if (const json *maps = reader.array(from, "tensorMaps"))
      for (const json &map : *maps) {
        TensorMapParam &param = to.tensorMaps.emplace_back();
        reader.read(map, "tensor", param.tensor);
        reader.read(map, "rows", param.rows);
        reader.read(map, "columns", param.columns);
        reader.read(map, "swizzle", param.swizzle);
      }
  if (from.contains("blockPattern"))
    if (const json *pattern = reader.object(from, "blockPattern")) {
      to.blockPattern.emplace();
      reader.read(*pattern, "tensor", to.blockPattern->tensor);
      reader.read(*pattern, "rows", to.blockPattern->rows);
      reader.read(*pattern, "columns", to.blockPattern->columns);
    }
}

Expected<KernelImage> KernelImage::fromMetadata(std::string_view text) {
  json from = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object())
    return Error{"kernel metadata is not a JSON object; compile the kernel again"};
  KernelImage image;
  Reader reader;
  reader.read(from, "name", image.name);
  reader.read(from, "entry", image.entry);
  reader.read(from, "arch", image.arch);
  if (const json *signature = reader.object(from, "signature"))
    read(reader, *signature, image.signature);
  reader.read(from, "tileQ", image.tileQ);
  reader.read(from, "tileK", image.tileK);
  reader.read(from, "persistent", image.persistent);
  reader.read(from, "threads", image.threads);
  reader.read(from, "sharedBytes", image.sharedBytes);
  reader.read(from, "registers", image.registers);
  reader.read(from, "spillBytes", image.spillBytes);
  reader.read(from, "nvrtcVersion", image.nvrtcVersion);
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
  if (!reader.good())
    return Error{"kernel metadata lacks '" + reader.firstBadField() +
                 "' or has it with another type; compile the "
                 "kernel again"};
  return image;
}
