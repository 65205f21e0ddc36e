//===- List.cpp - attune list, attune cache ---------------------------------===//

#include "tools/attune/Options.h"

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
      fmt::print("{}\n", ordered_json{{"variants", entries}}.dump(2));
      return;
    }
    for (const BuiltinVariant &entry : builtinVariants()) {
      fmt::print("{:<20} {}\n", entry.name, entry.summary);
      for (const BuiltinParameter &parameter : entry.parameters)
        fmt::print("{:<20}   --{} {:g}: {}\n", "", parameter.name, parameter.defaultValue, parameter.help);
      for (const TensorDecl &tensor : entry.tensors)
        fmt::print("{:<20}   --tensor {}={}: rank {}\n", "", tensor.name, name(tensor.dtype), tensor.rank);
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

void printEntries(const CacheFlags &flags, const std::vector<CacheEntry> &entries) {
  if (flags.json) {
    ordered_json list = ordered_json::array();
    for (const CacheEntry &entry : entries)
      list.push_back(entryJson(entry));
    fmt::print("{}\n", ordered_json{{"directory", flags.open().directory()}, {"entries", list}}.dump(2));
    return;
  }
  for (const CacheEntry &entry : entries) {
    auto when = std::time_t(entry.written);
    fmt::print("{}  {:<24} {:<6} {:>9}  {:%Y-%m-%d %H:%M}{}\n", entry.hash.substr(0, 12),
               entry.name.empty() ? "?" : entry.name, entry.arch.empty() ? "?" : entry.arch,
               bytesText(double(entry.bytes)), fmt::localtime(when),
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
  add("list", "every entry: hash, variant, architecture, size, date", [flags] {
    KernelCache cache = flags->open();
    std::vector<CacheEntry> entries = cache.list();
    printEntries(*flags, entries);
    if (!flags->json)
      fmt::print("{} entries in {}\n", entries.size(), cache.directory());
  });
  add("clear", "remove every entry", [flags] {
    KernelCache cache = flags->open();
    size_t removed = cache.clear();
    if (flags->json)
      fmt::print("{}\n", ordered_json{{"directory", cache.directory()}, {"removed", removed}}.dump(2));
    else
      fmt::print("removed {} entries from {}\n", removed, cache.directory());
  });
  add("verify", "list the entries whose checksum or content is bad; exit code 1 when there is one",
      [flags, &exitCode] {
        KernelCache cache = flags->open();
        std::vector<CacheEntry> bad = cache.verify();
        printEntries(*flags, bad);
        if (!flags->json)
          fmt::print("{} bad entries in {}\n", bad.size(), cache.directory());
        exitCode = bad.empty() ? done : failed;
      });
}
