//===- Cache.cpp - attune cache ---------------------------------------------===//
//
// The compiled kernels and the measured plans on disk.
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include "driver/PlanJson.h"
#include "driver/TunedPlans.h"
#include "runtime/Cache.h"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using attune::driver::MeasuredPlan;
using attune::driver::TunedEntry;
using attune::driver::TunedPlans;
using nlohmann::ordered_json;

namespace {
struct CacheFlags {
  std::string directory;
  bool json = false;

  std::vector<std::string> ids; ///< of measured plans
  bool bad = false;             ///< those that do not count
  std::string file;
  size_t keep = 10; ///< plans of each entry that export writes

  std::string folder() const { return directory.empty() ? KernelCache::defaultDirectory() : directory; }
  KernelCache open() const { return KernelCache(folder()); }
  TunedPlans plans() const { return TunedPlans(folder()); }
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

ordered_json entriesJson(const std::vector<CacheEntry> &entries) {
  ordered_json list = ordered_json::array();
  for (const CacheEntry &entry : entries)
    list.push_back(entryJson(entry));
  return list;
}

void printEntries(const std::vector<CacheEntry> &entries) {
  size_t width = 24;
  for (const CacheEntry &entry : entries)
    width = std::max(width, entry.name.size());
  for (const CacheEntry &entry : entries)
    print("{}  {:<{}} {:<6} {:>9}  {}{}\n", entry.hash.substr(0, 12), entry.name.empty() ? "?" : entry.name, width,
          entry.arch.empty() ? "?" : entry.arch, bytesText(double(entry.bytes)), dateText(entry.written),
          entry.problem.empty() ? "" : "  bad: " + entry.problem);
}

int listEntries(const CacheFlags &flags) {
  const KernelCache cache = flags.open();
  Expected<std::vector<CacheEntry>> entries = cache.list();
  if (!entries)
    return report({entries.error()});
  if (flags.json) {
    printJson({{"directory", cache.directory()}, {"entries", entriesJson(*entries)}});
    return done;
  }
  printEntries(*entries);
  print("{} entries in {}\n", entries->size(), cache.directory());
  return done;
}

int clearEntries(const CacheFlags &flags) {
  KernelCache cache = flags.open();
  Expected<size_t> removed = cache.clear();
  if (!removed)
    return report({removed.error()});
  if (flags.json)
    printJson({{"directory", cache.directory()}, {"removed", *removed}});
  else
    print("removed {} entries from {}\n", *removed, cache.directory());
  return done;
}

//===----------------------------------------------------------------------===//
// Measured plans
//===----------------------------------------------------------------------===//

ordered_json planEntryJson(const TunedEntry &entry) {
  ordered_json result = {{"id", entry.id}, {"path", entry.path}};
  if (entry.problem.empty())
    result.update(driver::tunedJson(entry.key, entry.sizes));
  else
    result["problem"] = entry.problem;
  return result;
}

ordered_json plansJson(const std::vector<TunedEntry> &entries) {
  ordered_json list = ordered_json::array();
  for (const TunedEntry &entry : entries)
    list.push_back(planEntryJson(entry));
  return list;
}

void printPlansJson(const CacheFlags &flags, const std::vector<TunedEntry> &entries) {
  printJson({{"directory", flags.plans().directory()}, {"entries", plansJson(entries)}});
}

void printPlanLine(const TunedEntry &entry) {
  if (!entry.problem.empty())
    return print("{}  bad: {}\n", entry.id, entry.problem);
  const MeasuredPlan &best = entry.sizes.best();
  print("{:<54}  {:<16} {} head_dim {} x {} for {}  {:.1f} us  {}\n", entry.id,
        entry.sizes.provenance.variant + (entry.key.isBackward() ? ", backward" : ""), entry.key.dtype,
        entry.key.headDim, entry.key.headDimV, entry.key.arch, best.microseconds, driver::fullPlanText(best.plan));
}

void printPlanDetails(const TunedEntry &entry) {
  printPlanLine(entry);
  if (!entry.problem.empty())
    return;
  const ProblemSizes &sizes = entry.sizes.sizes;
  const driver::Provenance &from = entry.sizes.provenance;
  print("  {:<14} {}\n", "device", entry.key.device);
  print("  {:<14} B {} H {} Hkv {} Sq {} Sk {}\n", "sizes", sizes.batch, sizes.heads, sizes.headsKv, sizes.queries,
        sizes.keys);
  print("  {:<14} attune {}, cost model {}{}{}, {}\n", "measured by", from.attune, from.costModel,
        from.driver.empty() ? "" : ", driver of ", from.driver, dateText(from.written));
  print("  {:<14} {}\n", "program", entry.key.features);
  for (const MeasuredPlan &plan : entry.sizes.measured)
    print("  {:>11.1f} us  {} ({} launches)\n", plan.microseconds, driver::fullPlanText(plan.plan), plan.launches);
}

int listPlans(const CacheFlags &flags) {
  Expected<std::vector<TunedEntry>> entries = flags.plans().list();
  if (!entries)
    return report({entries.error()});
  if (flags.json) {
    printPlansJson(flags, *entries);
    return done;
  }
  for (const TunedEntry &entry : *entries)
    printPlanLine(entry);
  print("{} measured sizes in {}, {} that attune ships\n", entries->size(), flags.plans().directory(),
        driver::shippedPlans().size());
  return done;
}

Expected<std::vector<TunedEntry>> badPlans(const CacheFlags &flags) {
  Expected<std::vector<TunedEntry>> entries = flags.plans().list();
  if (entries)
    std::erase_if(*entries, [](const TunedEntry &entry) { return entry.problem.empty(); });
  return entries;
}

/// Kernels and measured plans.
int verifyEntries(const CacheFlags &flags) {
  const KernelCache cache = flags.open();
  Expected<std::vector<CacheEntry>> kernels = cache.verify();
  if (!kernels)
    return report({kernels.error()});
  Expected<std::vector<TunedEntry>> plans = badPlans(flags);
  if (!plans)
    return report({plans.error()});
  if (flags.json) {
    printJson({{"directory", cache.directory()}, {"entries", entriesJson(*kernels)}, {"plans", plansJson(*plans)}});
  } else {
    printEntries(*kernels);
    for (const TunedEntry &plan : *plans)
      printPlanLine(plan);
    print("{} bad entries and {} bad measured plans in {}\n", kernels->size(), plans->size(), cache.directory());
  }
  return kernels->empty() && plans->empty() ? done : failed;
}

/// The entries whose names begin with what was given: each beginning names one at least. With --bad those that do not
/// count.
Expected<std::vector<TunedEntry>> namedPlans(const CacheFlags &flags) {
  if (flags.bad)
    return badPlans(flags);
  Expected<std::vector<TunedEntry>> entries = flags.plans().list();
  if (!entries)
    return entries;
  std::vector<TunedEntry> named;
  for (const std::string &id : flags.ids) {
    const size_t before = named.size();
    for (const TunedEntry &entry : *entries)
      if (entry.id.starts_with(id))
        named.push_back(entry);
    if (named.size() == before)
      return Error{fmt::format("no measured plan in {} has a name that begins with {}; attune cache plans lists them",
                               flags.plans().directory(), id)};
  }
  return named;
}

int showPlans(const CacheFlags &flags) {
  Expected<std::vector<TunedEntry>> named = namedPlans(flags);
  if (!named)
    return report({named.error()});
  if (flags.json) {
    printPlansJson(flags, *named);
    return done;
  }
  for (const TunedEntry &entry : *named)
    printPlanDetails(entry);
  return done;
}

int removePlans(const CacheFlags &flags) {
  if (!flags.bad && flags.ids.empty())
    return report(usageError("nothing is named; write names of attune cache plans, or --bad"));
  Expected<std::vector<TunedEntry>> named = namedPlans(flags);
  if (!named)
    return report({named.error()});
  for (const TunedEntry &entry : *named)
    if (Expected<void> removed = flags.plans().remove(entry); !removed)
      return report({removed.error()});
  if (flags.json)
    printJson({{"directory", flags.plans().directory()}, {"removed", named->size()}});
  else
    print("removed {} measured sizes from {}\n", named->size(), flags.plans().directory());
  return done;
}

int exportPlans(const CacheFlags &flags) {
  Expected<std::string> text = flags.plans().exported(flags.keep);
  if (!text)
    return report({text.error()});
  if (flags.file.empty() || flags.file == "-") {
    print("{}", *text);
    return done;
  }
  if (Expected<void> written = writeFile(flags.file, *text); !written)
    return report({written.error()});
  return done;
}

int importPlans(const CacheFlags &flags) {
  Expected<IrText> text = IrText::read(flags.file);
  if (!text)
    return report({text.error(), usage});
  Expected<size_t> imported = flags.plans().import(text->text);
  if (!imported)
    return report({Error{fmt::format("{}: {}", flags.file, imported.error().message)}});
  if (flags.json)
    printJson({{"directory", flags.plans().directory()}, {"imported", *imported}});
  else
    print("{} measured sizes to {}\n", *imported, flags.plans().directory());
  return done;
}
} // namespace

void attune::cli::addCache(CLI::App &app, int &exitCode) {
  auto *cache = app.add_subcommand("cache", "the compiled kernels and the measured plans on disk");
  cache->footer("Example: attune cache list");
  cache->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  auto add = [&](const char *name, const char *description, int (*action)(const CacheFlags &)) {
    auto *verb = cache->add_subcommand(name, description);
    verb->footer(fmt::format("Example: attune cache {}", name));
    verb->add_option("--cache-dir", flags->directory, "folder of the cache; $ATTUNE_CACHE_DIR without");
    verb->add_flag("--json", flags->json, "print one JSON object");
    verb->callback([flags, &exitCode, action] { exitCode = action(*flags); });
    return verb;
  };
  add("list", "every kernel: hash, variant, architecture, size, date", listEntries);
  add("clear", "remove every kernel; measured plans stay", clearEntries);
  add("verify",
      "list the kernels and measured plans whose owner, mode, checksum or content is bad; exit code 1 when there is "
      "one",
      verifyEntries);
  add("plans", "the measured plans (attune tune): name, variant, time of the best", listPlans);
  auto addIds = [&](CLI::App *verb, const char *example) {
    verb->footer(fmt::format("Example: attune cache {}", example));
    return verb->add_option("name", flags->ids, "names of attune cache plans, or their beginnings");
  };
  addIds(add("show", "measured plans with their times", showPlans), "show 3f2a")->required();
  CLI::App *removing = add("remove", "remove measured plans", removePlans);
  CLI::Option *names = addIds(removing, "remove 3f2a");
  CLI::Option *bad = removing->add_flag("--bad", flags->bad, "those that do not count, as verify lists them");
  bad->excludes(names);
  CLI::App *exporting = add("export", "write all measured plans to one file", exportPlans);
  exporting->add_option("file", flags->file, "where to; standard output without");
  exporting->add_option("--keep", flags->keep, "the quickest plans of each that are written (10)")
      ->check(wholeNumber(1, 1'000'000));
  exporting->footer("Example: attune cache export plans.json");
  CLI::App *importing = add("import", "read what export wrote, for devices of the same kind", importPlans);
  importing->add_option("file", flags->file)->required();
  importing->footer("Example: attune cache import plans.json");
}
