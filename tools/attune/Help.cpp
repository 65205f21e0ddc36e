//===- Help.cpp - attune help -------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include "runtime/Environment.h"

#include <algorithm>

using namespace attune;
using namespace attune::cli;

static constexpr const char *environmentTopic = "environment";

static void printEnvironment() {
  for (const EnvironmentEntry &entry : environmentTable())
    print("{:<22} {}\n", entry.name, entry.meaning);
}

/// The help of the verb that `words` name, as `attune VERB --help` prints it.
static void printHelp(const CLI::App &app, const std::vector<std::string> &words) {
  const CLI::App *verb = &app;
  std::string name = app.get_name();
  for (const std::string &word : words) {
    auto found = verb->get_subcommands([&](const CLI::App *each) { return each->get_name() == word; });
    if (found.empty())
      throw CLI::ValidationError("help", name + " has no verb " + word);
    verb = found.front();
    name += " " + word;
  }
  write(verb->get_formatter()->make_help(verb, name, CLI::AppFormatMode::Normal));
}

void attune::cli::addHelp(CLI::App &app) {
  auto *verb = app.add_subcommand("help", "what attune and each verb do, and the environment variables that it reads");
  verb->footer("Examples:\n"
               "  attune help run\n"
               "  attune help environment");
  std::vector<std::string> topics;
  for (const CLI::App *each : app.get_subcommands([](const CLI::App *) { return true; })) {
    topics.push_back(each->get_name());
    for (const CLI::App *inner : each->get_subcommands([](const CLI::App *part) { return !part->get_name().empty(); }))
      if (std::find(topics.begin(), topics.end(), inner->get_name()) == topics.end())
        topics.push_back(inner->get_name());
  }
  topics.push_back(environmentTopic);
  auto words = std::make_shared<std::vector<std::string>>();
  verb->add_option("topic", *words, "a verb, or environment")
      ->type_name("TOPIC")
      ->check(CLI::IsMember(topics))
      ->expected(0, 2);
  verb->callback([words, &app] {
    if (!words->empty() && words->front() == environmentTopic)
      printEnvironment();
    else
      printHelp(app, *words);
  });
}
