//===- VariantAttr.cpp - Parser and printer of #attn.variant, a JSON object ---===//

#include "ir/attn/Attn.h"

#include "mlir/IR/DialectImplementation.h"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace attune::attn;

using Json = nlohmann::ordered_json;

/// Limit of the nesting of JSON objects. The JSON of a variant nests 4 levels.
static constexpr int maxDepth = 16;

/// The text of `json`, formatted as by Variant::toJson.
static std::string textOf(const Json &json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

static bool isPrintable(const Json &json, int depth) {
  if (json.is_object())
    return depth < maxDepth && llvm::all_of(json, [&](const Json &value) { return isPrintable(value, depth + 1); });
  return json.is_string() || json.is_boolean() || json.is_number_float() ||
         (json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t(INT64_MAX)));
}

LogicalResult VariantAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef json) {
  Json parsed = Json::parse(json.str(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !isPrintable(parsed, 0))
    return emitError() << "a variant is a JSON object of objects, strings, numbers, true and false, up to " << maxDepth
                       << " deep";
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// A number as MLIR's lexer accepts it: JSON's 1e-05 becomes 1.0e-05.
static std::string numberText(const Json &number) {
  std::string text = number.dump();
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

/// Prints each field of the outermost object on a line of its own, and inner objects on one line.
static void printJson(AsmPrinter &printer, const Json &json, bool outermost) {
  if (json.is_string())
    return printer.printString(json.get_ref<const std::string &>());
  if (!json.is_object()) {
    printer.getStream() << (json.is_number() ? numberText(json) : json.dump());
    return;
  }
  StringRef begin = outermost ? "\n  " : "", separator = "";
  printer.getStream() << "{";
  for (const auto &[key, value] : json.items()) {
    printer.getStream() << separator << begin;
    printer.printString(key);
    printer.getStream() << ": ";
    printJson(printer, value, false);
    separator = outermost ? "," : ", ";
  }
  printer.getStream() << (outermost ? "\n}" : "}");
}

void VariantAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printJson(printer, Json::parse(getJson().str(), nullptr, false), true);
  printer << ">";
}

static ParseResult parseJson(AsmParser &parser, Json &json, int depth);

static ParseResult parseObject(AsmParser &parser, Json &json, int depth) {
  json = Json::object();
  if (succeeded(parser.parseOptionalRBrace()))
    return success();
  do {
    SMLoc loc = parser.getCurrentLocation();
    std::string key;
    if (parser.parseString(&key))
      return failure();
    if (json.contains(key))
      return parser.emitError(loc) << "field \"" << key << "\" stands twice";
    if (parser.parseColon() || parseJson(parser, json[key], depth + 1))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  return parser.parseRBrace();
}

static ParseResult parseJson(AsmParser &parser, Json &json, int depth) {
  SMLoc loc = parser.getCurrentLocation();
  if (depth > maxDepth)
    return parser.emitError(loc) << "objects nest more than " << maxDepth << " deep";
  if (succeeded(parser.parseOptionalLBrace()))
    return parseObject(parser, json, depth);
  Attribute value;
  if (parser.parseAttribute(value))
    return failure();
  if (auto text = dyn_cast<StringAttr>(value))
    json = text.str();
  else if (auto flag = dyn_cast<BoolAttr>(value))
    json = flag.getValue();
  else if (auto number = dyn_cast<IntegerAttr>(value); number && number.getType().isSignlessInteger(64))
    json = number.getInt();
  else if (auto real = dyn_cast<FloatAttr>(value); real && std::isfinite(real.getValueAsDouble()))
    json = real.getValueAsDouble();
  else
    return parser.emitError(loc, "expected an object, a string, a number, true or false");
  return success();
}

Attribute VariantAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  Json json;
  if (parser.parseLess() || parser.parseLBrace() || parseObject(parser, json, 0) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), StringRef(textOf(json)));
}
