//===- List.cpp - attune list -----------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

static ordered_json builtinJson(const BuiltinVariant &entry) {
  ordered_json parameters = ordered_json::array(), tensors = ordered_json::array();
  for (const BuiltinParameter &parameter : entry.parameters)
    parameters.push_back({{"name", parameter.name},
                          {"type", parameter.type == BuiltinParameter::Type::Int ? "int" : "float"},
                          {"default", parameter.defaultValue},
                          {"help", parameter.help}});
  for (const TensorDecl &tensor : entry.tensors)
    tensors.push_back({{"name", tensor.name}, {"dtype", name(tensor.dtype)}, {"rank", tensor.rank}});
  return {{"name", entry.name}, {"summary", entry.summary}, {"parameters", parameters}, {"tensors", tensors}};
}

/// "erf(x)".
static std::string callOf(const FunctionInfo &function) {
  constexpr std::string_view parameters[] = {"x", "x, y", "x, y, z"};
  return fmt::format("{}({})", function.name, parameters[function.parameters - 1]);
}

static void listFunctions(bool json) {
  ordered_json entries = ordered_json::array();
  for (const FunctionInfo &function : functions()) {
    if (!json)
      print("{:<20} {}\n", callOf(function), function.summary);
    entries.push_back({{"name", function.name},
                       {"parameters", function.parameters},
                       {"definition", function.definition},
                       {"summary", function.summary}});
  }
  if (json)
    print("{}\n", ordered_json{{"functions", entries}}.dump(2));
}

void attune::cli::addList(CLI::App &app, int &) {
  auto *verb = app.add_subcommand("list", "the built-in variants, their parameters and tensors");
  verb->footer("Example: attune list --functions");
  auto json = std::make_shared<bool>(false), ofFunctions = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "print one JSON object");
  verb->add_flag("--functions", *ofFunctions, "the functions of floats that scores, masks and normalisers may call");
  verb->callback([json, ofFunctions] {
    if (*ofFunctions)
      return listFunctions(*json);
    if (*json) {
      ordered_json entries = ordered_json::array();
      for (const BuiltinVariant &entry : builtinVariants())
        entries.push_back(builtinJson(entry));
      print("{}\n", ordered_json{{"variants", entries}}.dump(2));
      return;
    }
    for (const BuiltinVariant &entry : builtinVariants()) {
      print("{:<20} {}\n", entry.name, entry.summary);
      for (const BuiltinParameter &parameter : entry.parameters)
        print("{:<20}   --{} {:g}: {}\n", "", parameter.name, parameter.defaultValue, parameter.help);
      for (const TensorDecl &tensor : entry.tensors)
        print("{:<20}   --tensor {}={}: rank {}\n", "", tensor.name, name(tensor.dtype), tensor.rank);
    }
  });
}
