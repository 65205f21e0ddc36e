//===- List.cpp - attune list, attune cache ---------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include "runtime/Cache.h"

#include <cstdio>
#include <ctime>
#include <fmt/chrono.h>
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

void attune::cli::addList(CLI::App &app, int &) {
  auto *verb = app.add_subcommand("list", "the built-in variants, their parameters and tensors");
  verb->footer("Example: attune list");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "print one JSON object");
  verb->callback([json] {
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

namespace {
struct CacheFlags {
  std::string directory;
  bool json = false;

  KernelCache open() const { return KernelCache(directory.empty() ? KernelCache::defaultDirectory() : directory); }
};

ordered_json entryJson(const CacheEntry &entry) {
  ordered_json result = {{"path", entry.path},   {"name", entry.name},       {"arch", entry.arch},
                         {"bytes", entry.bytes}, {"written", entry.written}, {"hash", entry.hash}};
  if (!entry.problem.empty())
    result["problem"] = entry.problem;
  return result;
}

/// File names may hold bytes that are not UTF-8.
void printJson(const ordered_json &value) {
  print("{}\n", value.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

/// A file may carry a time that no calendar has.
std::string dateText(int64_t seconds) {
  auto time = std::time_t(seconds);
  std::tm date = {};
  return localtime_r(&time, &date) ? fmt::format("{:%Y-%m-%d %H:%M}", date) : "?";
}

void printEntries(const CacheFlags &flags, const std::vector<CacheEntry> &entries) {
  if (flags.json) {
    ordered_json list = ordered_json::array();
    for (const CacheEntry &entry : entries)
      list.push_back(entryJson(entry));
    printJson({{"directory", flags.open().directory()}, {"entries", list}});
    return;
  }
  for (const CacheEntry &entry : entries) {
    print("{}  {:<24} {:<6} {:>9}  {}{}\n", entry.hash.substr(0, 12), entry.name.empty() ? "?" : entry.name,
          entry.arch.empty() ? "?" : entry.arch, bytesText(double(entry.bytes)), dateText(entry.written),
          entry.problem.empty() ? "" : "  bad: " + entry.problem);
  }
}
} // namespace

void attune::cli::addCache(CLI::App &app, int &exitCode) {
  auto *cache = app.add_subcommand("cache", "the compiled kernels on disk");
  cache->footer("Example: attune cache list");
  cache->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  auto add = [&](const char *name, const char *description, auto action) {
    auto *verb = cache->add_subcommand(name, description);
    verb->footer(fmt::format("Example: attune cache {}", name));
    verb->add_option("--cache-dir", flags->directory, "folder of the cache; $ATTUNE_CACHE_DIR without");
    verb->add_flag("--json", flags->json, "print one JSON object");
    verb->callback(action);
  };
  add("list", "every entry: hash, variant, architecture, size, date", [flags, &exitCode] {
    KernelCache cache = flags->open();
    Expected<std::vector<CacheEntry>> entries = cache.list();
    if (!entries) {
      exitCode = report({entries.error()});
      return;
    }
    printEntries(*flags, *entries);
    if (!flags->json)
      print("{} entries in {}\n", entries->size(), cache.directory());
  });
  add("clear", "remove every entry", [flags, &exitCode] {
    KernelCache cache = flags->open();
    Expected<size_t> removed = cache.clear();
    if (!removed) {
      exitCode = report({removed.error()});
      return;
    }
    if (flags->json)
      printJson({{"directory", cache.directory()}, {"removed", *removed}});
    else
      print("removed {} entries from {}\n", *removed, cache.directory());
  });
  add("verify", "list the entries whose owner, mode, checksum or content is bad; exit code 1 when there is one",
      [flags, &exitCode] {
        KernelCache cache = flags->open();
        Expected<std::vector<CacheEntry>> bad = cache.verify();
        if (!bad) {
          exitCode = report({bad.error()});
          return;
        }
        printEntries(*flags, *bad);
        if (!flags->json)
          print("{} bad entries in {}\n", bad->size(), cache.directory());
        exitCode = bad->empty() ? done : failed;
      });
}
