//===- Usage.cpp - Mistakes on the command line ------------------------------===//

#include "tools/attune/Usage.h"

#include "dsl/NearestName.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace attune;
using namespace attune::cli;

/// "attune cache list".
static std::string fullName(const CLI::App &verb) {
  return verb.get_parent() ? fullName(*verb.get_parent()) + " " + verb.get_name() : verb.get_name();
}

/// Every way to write an option of the verb, those of its option groups too: "--output", "-o".
static std::vector<std::string> optionNames(const CLI::App &verb) {
  std::vector<std::string> names;
  for (const CLI::Option *option : verb.get_options()) {
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      names.push_back("-" + name);
  }
  for (const CLI::App *group : verb.get_subcommands([](const CLI::App *each) { return each->get_name().empty(); })) {
    std::vector<std::string> inside = optionNames(*group);
    names.insert(names.end(), inside.begin(), inside.end());
  }
  return names;
}

static std::vector<std::string> verbNames(const CLI::App &verb) {
  std::vector<std::string> names;
  for (const CLI::App *each : verb.get_subcommands([](const CLI::App *each) { return !each->get_name().empty(); }))
    names.push_back(each->get_name());
  return names;
}

/// The first argument that the verb has no place for, and what it may have been.
static std::string unknownArgument(const CLI::App &verb, const std::string &argument) {
  const bool isOption = argument.starts_with("-");
  const std::vector<std::string> names = isOption ? optionNames(verb) : verbNames(verb);
  const std::string written = argument.substr(0, argument.find('='));
  const std::string meant = dsl::nearestName(written, names);
  if (isOption)
    return fmt::format("{} is not an option of {}{}", written, fullName(verb),
                       meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  if (names.empty())
    return fmt::format("'{}' is one argument more than {} takes; leave it out", argument, fullName(verb));
  return fmt::format("'{}' is not a verb of {}; {}", argument, fullName(verb),
                     meant.empty() ? fmt::format("use {}", fmt::join(names, ", "))
                                   : fmt::format("did you mean {}?", meant));
}

/// "a whole number of 32 bits" of an option of that type.
static std::string_view kindOf(std::string_view type) {
  if (type.find("BOOL") != std::string_view::npos)
    return "true or false";
  return type == "X" || type == "P" || type.find("FLOAT") != std::string_view::npos ? "a number"
                                                                                    : "a whole number of 32 bits";
}

/// CLI11's words for a value that is missing or of another type, in ours.
static std::string valueText(const CLI::App &verb, const CLI::ParseError &error) {
  const std::string text = error.what();
  constexpr std::string_view conversion = "Could not convert: ", missing = " required ";
  if (const size_t equals = text.find(" = "); text.starts_with(conversion) && equals != std::string::npos) {
    const std::string name = text.substr(conversion.size(), equals - conversion.size());
    const CLI::Option *option = verb.get_option_no_throw(name);
    return fmt::format("{}: {} is not {}", name, text.substr(equals + 3),
                       kindOf(option ? option->get_type_name() : ""));
  }
  const size_t colon = text.find(": ");
  if (const size_t at = text.find(missing); error.get_exit_code() == int(CLI::ExitCodes::ArgumentMismatch) &&
                                            at != std::string::npos && text.ends_with(" missing")) {
    const std::string name = text.substr(0, colon);
    const size_t begin = at + missing.size(), end = std::min(text.find(':', begin), text.size() - 8);
    return fmt::format("{} has no value; write {} {}", name, name, text.substr(begin, end - begin));
  }
  return text;
}

std::string attune::cli::usageText(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *verb = &app;
  while (verb->remaining().empty() && !verb->get_subcommands().empty())
    verb = verb->get_subcommands().front();
  const std::vector<std::string> unknown = verb->remaining();
  const int code = error.get_exit_code(); // of a verb's verb that is misspelt CLI11 says first that it is missing
  const bool isUnknown =
      !unknown.empty() && (code == int(CLI::ExitCodes::ExtrasError) || code == int(CLI::ExitCodes::RequiredError));
  return fmt::format("error: {}\nfor help: {} --help\n",
                     isUnknown ? unknownArgument(*verb, unknown.front()) : valueText(*verb, error), fullName(*verb));
}

CLI::Validator attune::cli::oneOf(std::vector<std::string> names) {
  std::string description = fmt::format("{{{}}}", fmt::join(names, ","));
  auto check = [names = std::move(names)](std::string &written) {
    if (std::find(names.begin(), names.end(), written) != names.end())
      return std::string();
    const std::string meant = dsl::nearestName(written, names);
    return fmt::format("{} is not one of {}{}", written, fmt::join(names, " "),
                       meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  };
  return CLI::Validator(check, description);
}
