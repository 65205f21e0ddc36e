//===- Json.cpp - Reading and writing of variants as JSON -------------------===//
#include "attune/Variant.h"

#include "dsl/ForeignSyntax.h"
#include "dsl/NearestName.h"
#include "dsl/TextPlace.h"
#include "dsl/Trace.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace attune {

namespace {

using Json = nlohmann::ordered_json;

/// The double with the fewest digits that rounds to the float `value`: 0.1f is printed as 0.1.
double shortest(float value) {
  double candidate = std::strtod(fmt::format("{}", value).c_str(), nullptr);
  return float(candidate) == value ? candidate : double(value);
}

/// An iterator over the characters of a text that records in `*reached` how far the parser has read.
struct Cursor {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at = nullptr;
  const char **reached = nullptr;

  reference operator*() const { return *at; }
  Cursor &operator++() {
    *reached = ++at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor &other) const { return at == other.at; }
};

/// The positions of the keys and values of a JSON text, by path ("/blocks/rows"), and the first fault of its form.
/// Faults are invalid JSON, for which nlohmann's parser would throw an exception; a duplicate key, of which the parser
/// would keep the last; and too deep nesting, as code that walks the values, such as printing, is recursive.
class Outline : public nlohmann::json_sax<Json> {
public:
  explicit Outline(std::string_view source) : source(source), reached(source.data()), before(source.data()) {
    const Cursor begin{reached, &reached}, end{source.data() + source.size(), &reached};
    Json::sax_parse(begin, end, this);
  }

  std::optional<Error> fault;

  Error errorAtKey(const std::string &path, std::string message) const { return errorIn(keys, path, message); }
  Error errorAtValue(const std::string &path, std::string message) const { return errorIn(values, path, message); }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t &) override { return value(); }
  bool string(string_t &) override { return value(); }
  bool binary(binary_t &) override { return value(); }
  bool start_object(size_t) override { return open(/*isArray=*/false); }
  bool start_array(size_t) override { return open(/*isArray=*/true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &name) override {
    const std::string path = fmt::format("{}/{}", levels.back().path, name);
    const size_t place = token();
    levels.back().member = path;
    keys.try_emplace(path, place);
    if (!levels.back().names.insert(name).second)
      fault = dsl::errorAt(source, place, "json", fmt::format("{} is given twice; leave one out", path));
    return !fault;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    position = std::min(position, source.size());
    fault = dsl::errorAt(source, position == 0 ? 0 : position - 1, "json", "variant is not valid JSON from here on");
    return false;
  }

private:
  static constexpr size_t maxDepth = 100; ///< the output of toJson has 4 levels
  using Places = std::map<std::string, size_t>;
  struct Level {
    std::string path;                 ///< path of the object or array
    std::set<std::string> names = {}; ///< keys of the object so far
    std::string member = {};          ///< path of the most recent key
    bool isArray = false;
    size_t elements = 0;
  };

  /// The position of the token that was just read: after the previous token and the separators between the two.
  size_t token() {
    const std::string_view between(before, size_t(reached - before));
    const size_t skipped = std::min(between.find_first_not_of(" \t\r\n,:}]"), between.size());
    const size_t place = size_t(before - source.data()) + skipped;
    before = reached;
    return place;
  }

  /// The path of the value that is being read.
  std::string path() {
    if (levels.empty())
      return "";
    Level &in = levels.back();
    return in.isArray ? fmt::format("{}/{}", in.path, in.elements++) : in.member;
  }

  bool value() {
    values.try_emplace(path(), token());
    return true;
  }
  bool open(bool isArray) {
    const std::string own = path();
    const size_t place = token();
    values.try_emplace(own, place);
    levels.push_back({.path = own, .isArray = isArray});
    if (levels.size() > maxDepth)
      fault = dsl::errorAt(
          source, place, "json",
          fmt::format("variant nests more than {} levels deep, but its fields take 4; leave out the rest", maxDepth));
    return !fault;
  }
  bool close() {
    token();
    levels.pop_back();
    return true;
  }

  Error errorIn(const Places &places, const std::string &path, std::string &message) const {
    const auto place = places.find(path);
    return place == places.end() ? Error{std::move(message)}
                                 : dsl::errorAt(source, place->second, "json", std::move(message));
  }

  std::string_view source;
  const char *reached; ///< end of what the lexer has read; after a number it has also read one separator
  const char *before;  ///< end of the previous token
  std::vector<Level> levels;
  Places keys, values;
};

/// Reads the fields of a variant and keeps the first fault.
class Reader {
public:
  explicit Reader(const Outline &outline) : outline(outline) {}

  std::optional<Error> failure;

  /// Records a fault of the value at `path`.
  void fail(const std::string &path, std::string message) {
    if (!failure)
      failure = outline.errorAtValue(path, std::move(message));
  }

  void mismatch(const std::string &path, const Json &value, std::string_view required) {
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60)
      shown = shown.substr(0, 57) + "...";
    fail(path, fmt::format("{} is {}, but must be {}", path.empty() ? "variant" : path, shown, required));
  }

  /// Whether `value` is an object with no field besides `fields`.
  bool object(const std::string &path, const Json &value, std::initializer_list<std::string_view> fields) {
    if (!value.is_object()) {
      mismatch(path, value, "an object");
      return false;
    }
    for (const auto &[key, unused] : value.items())
      if (std::ranges::find(fields, key) == fields.end()) {
        const std::string meant = dsl::nearestName(key, {fields.begin(), fields.end()});
        const std::string remedy = meant.empty() ? fmt::format("the fields are {}", fmt::join(fields, " "))
                                                 : fmt::format("did you mean {}?", meant);
        if (!failure)
          failure = outline.errorAtKey(fmt::format("{}/{}", path, key),
                                       fmt::format("{}/{} is not a field; {}", path, key, remedy));
        return false;
      }
    return true;
  }

  const Json *field(const std::string &path, const Json &value, const char *key, bool required) {
    auto found = value.find(key);
    if (found != value.end())
      return &*found;
    if (required)
      fail(path, fmt::format("{}/{} is missing", path, key));
    return nullptr;
  }

  std::string string(const std::string &path, const Json &value) {
    if (value.is_string())
      return value.get<std::string>();
    mismatch(path, value, "a string");
    return "";
  }

  bool boolean(const std::string &path, const Json &value) {
    if (value.is_boolean())
      return value.get<bool>();
    mismatch(path, value, "true or false");
    return false;
  }

  float number(const std::string &path, const Json &value) {
    if (value.is_number() && std::isfinite(float(value.get<double>())))
      return float(value.get<double>());
    mismatch(path, value, "a number that fits in f32");
    return 0;
  }

  int integer(const std::string &path, const Json &value, int least, int most, std::string_view required) {
    bool negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() < 0;
    if (value.is_number_unsigned() || (value.is_number_integer() && !negative)) {
      uint64_t magnitude = value.get<uint64_t>();
      if (magnitude >= uint64_t(least) && magnitude <= uint64_t(most))
        return int(magnitude);
    }
    mismatch(path, value, required);
    return least;
  }

  DType dtype(const std::string &path, const Json &value) {
    if (value.is_string())
      if (auto type = parseDType(value.get<std::string>()))
        return *type;
    mismatch(path, value,
             "one of f32 f16 bf16 i32 i64 bool" + dsl::dtypeRemedy(value.is_string() ? value.get<std::string>() : ""));
    return DType::F32;
  }

  /// Reads "tensors": {"slopes": {"dtype": "f32", "rank": 1}}.
  std::vector<TensorDecl> tensors(const std::string &path, const Json &value) {
    std::vector<TensorDecl> result;
    eachField(path, value, [&](const std::string &key, const std::string &at, const Json &of) {
      TensorDecl &into = result.emplace_back(TensorDecl{key});
      if (!object(at, of, {"dtype", "rank"}))
        return false;
      if (const Json *type = field(at, of, "dtype", true))
        into.dtype = dtype(at + "/dtype", *type);
      if (const Json *rank = field(at, of, "rank", true))
        into.rank = integer(at + "/rank", *rank, 0, Node::maxRank, "an integer from 0 to 4");
      return true;
    });
    return result;
  }

  /// Reads "scalars": {"cap": {"dtype": "f32"}}.
  std::vector<ScalarDecl> scalars(const std::string &path, const Json &value) {
    std::vector<ScalarDecl> result;
    eachField(path, value, [&](const std::string &key, const std::string &at, const Json &of) {
      ScalarDecl &into = result.emplace_back(ScalarDecl{key});
      if (!object(at, of, {"dtype"}))
        return false;
      if (const Json *type = field(at, of, "dtype", true))
        into.dtype = dtype(at + "/dtype", *type);
      return true;
    });
    return result;
  }

  /// Reads "blocks": {"tensor": "pattern", "rows": 64, "columns": 64}.
  std::optional<TextVariant::Blocks> blocks(const std::string &path, const Json &value) {
    if (!object(path, value, {"tensor", "rows", "columns"}))
      return std::nullopt;
    TextVariant::Blocks result;
    if (const Json *tensor = field(path, value, "tensor", true))
      result.tensor = string(path + "/tensor", *tensor);
    if (const Json *rows = field(path, value, "rows", true))
      result.rows = blockSize(path + "/rows", *rows);
    if (const Json *columns = field(path, value, "columns", true))
      result.columns = blockSize(path + "/columns", *columns);
    return result;
  }

  /// Reads "sequences": {"queries": "cu_q", "keys": "cu_k"}, where "keys" may be left out.
  std::optional<std::pair<std::string, std::string>> sequences(const std::string &path, const Json &value) {
    std::pair<std::string, std::string> result;
    if (!object(path, value, {"queries", "keys"}))
      return std::nullopt;
    for (auto [key, to] : {std::pair("queries", &result.first), {"keys", &result.second}})
      if (const Json *name = field(path, value, key, /*required=*/to == &result.first)) {
        *to = string(path + "/" + key, *name);
        if (to->empty())
          fail(path + "/" + key, path + "/" + key + " is \"\", but must be the name of a tensor");
      }
    return result;
  }

  /// Reads "keyPages": {"tensor": "pages", "size": 64}.
  std::optional<TextVariant::Pages> pages(const std::string &path, const Json &value) {
    if (!object(path, value, {"tensor", "size"}))
      return std::nullopt;
    TextVariant::Pages result;
    if (const Json *tensor = field(path, value, "tensor", true))
      result.tensor = string(path + "/tensor", *tensor);
    if (const Json *size = field(path, value, "size", true))
      result.size = blockSize(path + "/size", *size);
    return result;
  }

  /// Reads a normaliser: the name of a built-in one, or an object with its definition.
  Normaliser normaliser(const std::string &path, const Json &value, const std::string &sink) {
    if (!value.is_object() || !sink.empty()) {
      Expected<Normaliser> known = normalisers::named(string(path, value), sink);
      if (!known)
        fail(path, fmt::format("{}: {}", path, known.error().message));
      return known ? *known : normalisers::softmax();
    }
    Normaliser result;
    object(path, value, {"name", "statistics", "base", "rescale", "p", "divisor", "lse", "tensors", "scalars"});
    for (auto [key, into] :
         {std::pair("name", &result.name), std::pair("base", &result.base), std::pair("rescale", &result.rescale),
          std::pair("p", &result.p), std::pair("divisor", &result.divisor), std::pair("lse", &result.lse)})
      if (const Json *text = field(path, value, key, key == std::string_view("name")))
        *into = string(fmt::format("{}/{}", path, key), *text);
    if (const Json *statistics = field(path, value, "statistics", false))
      eachField(path + "/statistics", *statistics, [&](const std::string &key, const std::string &at, const Json &of) {
        result.statistics.push_back(statistic(key, at, of));
        return !failure;
      });
    if (const Json *each = field(path, value, "tensors", false))
      result.tensors = tensors(path + "/tensors", *each);
    if (const Json *each = field(path, value, "scalars", false))
      result.scalars = scalars(path + "/scalars", *each);
    return result;
  }

private:
  const Outline &outline;

  int blockSize(const std::string &path, const Json &value) {
    return integer(path, value, 1, std::numeric_limits<int>::max(), "a positive multiple of 16");
  }

  /// Calls `read(key, path, value)` for each field of an object until `read` returns false.
  template <typename Read> void eachField(const std::string &path, const Json &value, Read read) {
    if (!value.is_object())
      return mismatch(path, value, "an object");
    for (const auto &[key, of] : value.items())
      if (!read(key, path + "/" + key, of))
        return;
  }

  RowStatistic statistic(const std::string &name, const std::string &path, const Json &value) {
    RowStatistic result{name};
    if (!object(path, value, {"reduce", "initial"}))
      return result;
    if (const Json *reduce = field(path, value, "reduce", true)) {
      if (*reduce == "max")
        result.reduction = Reduction::Max;
      else if (*reduce != "sum")
        mismatch(path + "/reduce", *reduce, "\"max\" or \"sum\"");
    }
    if (const Json *initial = field(path, value, "initial", false)) {
      const bool isInfinite = *initial == "inf" || *initial == "-inf";
      result.initial = isInfinite ? (*initial == "inf" ? INFINITY : -INFINITY) : number(path + "/initial", *initial);
    }
    return result;
  }
};

Json declarations(const std::vector<TensorDecl> &tensors) {
  Json json;
  for (const TensorDecl &tensor : tensors)
    json[tensor.name] = {{"dtype", attune::name(tensor.dtype)}, {"rank", tensor.rank}};
  return json;
}

Json declarations(const std::vector<ScalarDecl> &scalars) {
  Json json;
  for (const ScalarDecl &scalar : scalars)
    json[scalar.name] = {{"dtype", attune::name(scalar.dtype)}};
  return json;
}

/// Writes a normaliser: a built-in one by its name, any other by its definition.
void addNormaliser(Json &json, const Normaliser &normaliser) {
  if (Expected<Normaliser> known = normalisers::named(normaliser.name); known && *known == normaliser) {
    json["normaliser"] = normaliser.name;
    return;
  }
  if (normaliser.tensors.size() == 1 && normaliser == normalisers::softmaxWithSink(normaliser.tensors[0].name)) {
    json["normaliser"] = "softmax";
    json["sink"] = normaliser.tensors[0].name;
    return;
  }
  Json &into = json["normaliser"];
  into["name"] = normaliser.name;
  for (const RowStatistic &statistic : normaliser.statistics) {
    Json &fields = into["statistics"][statistic.name];
    fields["reduce"] = attune::name(statistic.reduction);
    if (std::isinf(statistic.initial))
      fields["initial"] = statistic.initial > 0 ? "inf" : "-inf";
    else
      fields["initial"] = shortest(statistic.initial);
  }
  for (auto [key, text] :
       {std::pair("base", &normaliser.base), std::pair("rescale", &normaliser.rescale), std::pair("p", &normaliser.p),
        std::pair("divisor", &normaliser.divisor), std::pair("lse", &normaliser.lse)})
    if (!text->empty())
      into[key] = *text;
  if (!normaliser.tensors.empty())
    into["tensors"] = declarations(normaliser.tensors);
  if (!normaliser.scalars.empty())
    into["scalars"] = declarations(normaliser.scalars);
}

} // namespace

std::string Variant::toJson() const {
  Json json;
  json["name"] = variantName;
  if (factor)
    json["scale"] = shortest(*factor);
  if (scoreRoot)
    json["score"] = text(*scoreRoot);
  if (maskRoot)
    json["mask"] = text(*maskRoot);
  if (dropoutDefault)
    json["dropout"] = shortest(*dropoutDefault);
  if (preciseMath)
    json["precise"] = true;
  if (offsetQueries)
    json["qOffset"] = true;
  if (pattern)
    json["blocks"] = {{"tensor", pattern->tensor.name}, {"rows", pattern->rows}, {"columns", pattern->columns}};
  if (lengths)
    json["keyLengths"] = lengths->name;
  if (rowLengths)
    json["queryLengths"] = rowLengths->name;
  if (packed) {
    json["sequences"] = {{"queries", packed->queries.name}};
    if (packed->keys)
      json["sequences"]["keys"] = packed->keys->name;
  }
  if (pages)
    json["keyPages"] = {{"tensor", pages->tensor.name}, {"size", pages->size}};
  if (definition)
    addNormaliser(json, *definition);
  if (!tensorList.empty())
    json["tensors"] = declarations(tensorList);
  if (!scalarList.empty())
    json["scalars"] = declarations(scalarList);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Expected<Variant> Variant::fromJson(std::string_view source) {
  const Outline outline(source);
  if (outline.fault)
    return *outline.fault;
  Json json = Json::parse(source, nullptr, false);

  Reader reader(outline);
  TextVariant variant;
  std::string name;
  if (reader.object("", json,
                    {"name", "scale", "score", "mask", "dropout", "precise", "qOffset", "blocks", "keyLengths",
                     "queryLengths", "sequences", "keyPages", "normaliser", "sink", "tensors", "scalars"})) {
    if (const Json *value = reader.field("", json, "name", true))
      name = reader.string("/name", *value);
    if (const Json *value = reader.field("", json, "scale", false))
      variant.scale = reader.number("/scale", *value);
    if (const Json *value = reader.field("", json, "score", false))
      variant.score = reader.string("/score", *value);
    if (const Json *value = reader.field("", json, "mask", false))
      variant.mask = reader.string("/mask", *value);
    if (const Json *value = reader.field("", json, "dropout", false))
      variant.dropout = reader.number("/dropout", *value);
    if (const Json *value = reader.field("", json, "precise", false))
      variant.precise = reader.boolean("/precise", *value);
    if (const Json *value = reader.field("", json, "qOffset", false))
      variant.qOffset = reader.boolean("/qOffset", *value);
    if (const Json *value = reader.field("", json, "blocks", false))
      variant.blocks = reader.blocks("/blocks", *value);
    if (const Json *value = reader.field("", json, "keyLengths", false))
      variant.keyLengths = reader.string("/keyLengths", *value);
    if (const Json *value = reader.field("", json, "queryLengths", false))
      variant.queryLengths = reader.string("/queryLengths", *value);
    if (const Json *value = reader.field("", json, "sequences", false))
      variant.sequences = reader.sequences("/sequences", *value);
    if (const Json *value = reader.field("", json, "keyPages", false))
      variant.pages = reader.pages("/keyPages", *value);
    std::string sink;
    if (const Json *value = reader.field("", json, "sink", false))
      sink = reader.string("/sink", *value);
    if (const Json *value = reader.field("", json, "normaliser", !sink.empty()))
      variant.normaliser = reader.normaliser("/normaliser", *value, sink);
    if (const Json *tensors = reader.field("", json, "tensors", false))
      variant.tensors = reader.tensors("/tensors", *tensors);
    if (const Json *scalars = reader.field("", json, "scalars", false))
      variant.scalars = reader.scalars("/scalars", *scalars);
  }
  if (reader.failure)
    return *reader.failure;
  return parse(std::move(name), variant);
}

} // namespace attune
