//===- Cli.cpp - The command line -------------------------------------------===//

#include "tools/attune/Cli.h"

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/Usage.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unistd.h>

using namespace attune;
using namespace attune::cli;

/// What no check foresaw, in any thread: an error in place of an abort.
static void outOfMemory() {
  constexpr std::string_view text = "error: memory ran out; make the problem smaller, or raise the limit on memory\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  _exit(failed);
}

/// No argument and no value may be empty: CLI11 takes an empty positional for one of its nameless option groups, and
/// asks that group about the next option for ever; what `--flag=` lacks it takes from the next argument.
static std::optional<Failure> emptyArgument(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.empty())
      return usageError(fmt::format("argument {} is empty; leave it out, or write what was meant", i));
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      return usageError(fmt::format("{} has no value; leave it out, or write one", argument));
  }
  return std::nullopt;
}

/// The verb's exit code, before standard output is known to have arrived.
static int runTool(int argc, char **argv) {
  if (std::optional<Failure> failure = emptyArgument(argc, argv))
    return report(*failure);
  CLI::App app("compiles attention variants to kernels");
  app.name("attune");
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", "what attune and each verb do");
  bool version = false, json = false;
  app.add_flag("--version", version, "version and build");
  app.add_flag("--json", json, "with --version: print one JSON object");
  app.footer("Example: attune run causal --shape 1,8,8,1024,1024,128,128\n"
             "Exit codes: 0 done, 1 failed, 2 usage.");
  int exitCode = done;
  addList(app, exitCode);
  addCompile(app, exitCode);
  addRun(app, exitCode);
  addExplain(app, exitCode);
  addShow(app, exitCode);
  addTune(app, exitCode);
  addExport(app, exitCode);
  addCache(app, exitCode);
  addCompletion(app);
  addHelp(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) { // --help
    return app.exit(request);
  } catch (const CLI::ParseError &error) {
    printError("{}", usageText(app, error));
    return usage;
  }
  if (version) {
    if (json)
      print("{}\n", nlohmann::ordered_json{{"version", versionText()}, {"build", buildId()}}.dump(2));
    else
      print("attune {} (build {})\n", versionText(), buildId().substr(0, 12));
  } else if (app.get_subcommands().empty()) {
    printError("error: no verb; use list, compile, run, explain, show, tune, export or cache\n{}", app.help());
    return usage;
  }
  return exitCode;
}

int attune_main(int argc, char **argv) {
  std::set_new_handler(outOfMemory);
  const int exitCode = runTool(argc, argv);
  if (Expected<void> arrived = closeOutput(); !arrived)
    return std::max(exitCode, report({arrived.error()}));
  return exitCode;
}
