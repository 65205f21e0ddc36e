//===- Completion.cpp - attune completion ---------------------------------------===//
//
// A shell's completion of verbs, options and the values that are known, read off the parser, so that it has no list of
// its own.
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include "arch/ArchInfo.h"

#include <fmt/ranges.h>

using namespace attune;
using namespace attune::cli;

namespace {
struct CompletedOption {
  std::vector<std::string> names;  ///< "--output", "-o"; none of a positional argument
  std::vector<std::string> values; ///< those that are known
  bool takesValue = false;
  std::string description;
};

struct CompletedVerb {
  std::string path; ///< "", "run", "cache list"
  std::string description;
  std::vector<std::string> verbs; ///< those inside of it
  std::vector<CompletedOption> options;

  std::vector<std::string> optionNames() const {
    std::vector<std::string> names;
    for (const CompletedOption &option : options)
      names.insert(names.end(), option.names.begin(), option.names.end());
    return names;
  }
  /// What stands without a dash: verbs, and known values of positional arguments.
  std::vector<std::string> words() const {
    std::vector<std::string> all = verbs;
    for (const CompletedOption &option : options)
      if (option.names.empty())
        all.insert(all.end(), option.values.begin(), option.values.end());
    return all;
  }
};
} // namespace

/// The members that a check names: "a" and "b" of "TEXT:{a,b}".
static std::vector<std::string> membersOf(const std::string &typeName) {
  const size_t open = typeName.find('{'), close = typeName.find('}');
  return open == std::string::npos || close == std::string::npos
             ? std::vector<std::string>()
             : CLI::detail::split(typeName.substr(open + 1, close - open - 1), ',');
}

static CompletedOption completed(const CLI::Option &option) {
  CompletedOption result;
  result.values = membersOf(option.get_type_name());
  result.takesValue = option.get_items_expected_max() > 0;
  result.description = option.get_description();
  for (const std::string &name : option.get_lnames())
    result.names.push_back("--" + name);
  for (const std::string &name : option.get_snames())
    result.names.push_back("-" + name);
  if (option.get_positional() && option.get_type_name() == "VARIANT")
    for (const BuiltinVariant &builtin : builtinVariants())
      result.values.push_back(builtin.name);
  if (option.check_lname("arch"))
    for (const ArchInfo &arch : allArchs())
      result.values.emplace_back(arch.name);
  return result;
}

/// The options of a verb and of its groups, each of which has a --help of its own.
static void addOptions(const CLI::App &app, std::vector<CompletedOption> &options) {
  for (const CLI::Option *option : app.get_options())
    if (option != app.get_help_ptr() || !app.get_name().empty())
      options.push_back(completed(*option));
  for (const CLI::App *group : app.get_subcommands([](const CLI::App *part) { return part->get_name().empty(); }))
    addOptions(*group, options);
}

static void addVerbs(const CLI::App &app, const std::string &path, std::vector<CompletedVerb> &verbs) {
  CompletedVerb verb{path, app.get_description(), {}, {}};
  addOptions(app, verb.options);
  const auto inner = app.get_subcommands([](const CLI::App *part) { return !part->get_name().empty(); });
  for (const CLI::App *each : inner)
    verb.verbs.push_back(each->get_name());
  verbs.push_back(std::move(verb));
  for (const CLI::App *each : inner)
    addVerbs(*each, path.empty() ? each->get_name() : path + " " + each->get_name(), verbs);
}

//===----------------------------------------------------------------------===//
// Shells
//===----------------------------------------------------------------------===//

/// Where nothing is known the shell's own completion, of files, follows (-o default).
static std::string bashScript(const std::vector<CompletedVerb> &verbs) {
  std::string paths, values, words;
  for (const CompletedVerb &verb : verbs) {
    for (const std::string &inner : verb.verbs)
      paths += fmt::format("{}\"{} {}\"", paths.empty() ? "" : " | ", verb.path, inner);
    std::string unknown;
    for (const CompletedOption &option : verb.options)
      for (const std::string &name : option.names)
        if (option.takesValue && option.values.empty())
          unknown += fmt::format("{}\"{} {}\"", unknown.empty() ? "  " : " | ", verb.path, name);
        else if (option.takesValue)
          values += fmt::format("  \"{} {}\") words=\"{}\" ;;\n", verb.path, name, fmt::join(option.values, " "));
    if (!unknown.empty())
      values += unknown + ") ;;\n";
    words += fmt::format("    \"{}\") words=\"{}\" options=\"{}\" ;;\n", verb.path, fmt::join(verb.words(), " "),
                         fmt::join(verb.optionNames(), " "));
  }
  return fmt::format(R"(_attune() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" verb="" word words="" options=""
  if [[ $current == = ]]; then
    current=""
  elif [[ $previous == = ]]; then
    previous="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$verb $word" in
    {}) verb="${{verb:+$verb }}$word" ;;
    esac
  done
  case "$verb $previous" in
{}  *)
    case "$verb" in
{}    esac
    [[ $current == -* ]] && words="$options"
    ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _attune attune
)",
                     paths, values, words);
}

static std::string zshScript(const std::vector<CompletedVerb> &verbs) {
  return "#compdef attune\nautoload -U +X bashcompinit && bashcompinit\n" + bashScript(verbs);
}

/// A text in single quotes.
static std::string quoted(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "'";
}

static std::string fishScript(const std::vector<CompletedVerb> &verbs) {
  std::string script =
      "function __attune_at\n"
      "  set -l words (commandline -opc)\n"
      "  set -e words[1]\n"
      "  set -l seen (string match -v -- '-*' $words)\n"
      "  set -l depth (count $argv)\n"
      "  test $depth -eq 0; and test (count $seen) -eq 0; and return 0\n"
      "  test $depth -gt 0; and test (count $seen) -ge $depth; and test \"$seen[1..$depth]\" = \"$argv\"\n"
      "end\n";
  for (const CompletedVerb &verb : verbs) {
    const std::string start =
        fmt::format("complete -c attune -n '__attune_at{}{}'", verb.path.empty() ? "" : " ", verb.path);
    for (const std::string &inner : verb.verbs)
      script += fmt::format("{} -f -a {}\n", start, inner);
    for (const CompletedOption &option : verb.options) {
      std::string line = start;
      for (const std::string &name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takesValue && !option.names.empty())
        line += option.values.empty() ? " -r" : " -x";
      if (!option.values.empty())
        line += fmt::format(" -a '{}'", fmt::join(option.values, " "));
      if (!option.names.empty() || !option.values.empty())
        script += fmt::format("{} -d {}\n", line, quoted(option.description.substr(0, option.description.find('\n'))));
    }
  }
  return script;
}

void attune::cli::addCompletion(CLI::App &app) {
  auto *verb = app.add_subcommand("completion", "print a shell's completion of attune's verbs, options and variants");
  verb->footer("Examples:\n"
               "  source <(attune completion bash)\n"
               "  attune completion zsh > \"${fpath[1]}/_attune\"\n"
               "  attune completion fish > ~/.config/fish/completions/attune.fish");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "bash, zsh or fish")->check(CLI::IsMember({"bash", "zsh", "fish"}))->required();
  verb->callback([shell, &app] {
    std::vector<CompletedVerb> verbs;
    addVerbs(app, "", verbs);
    write(*shell == "bash" ? bashScript(verbs) : *shell == "zsh" ? zshScript(verbs) : fishScript(verbs));
  });
}
