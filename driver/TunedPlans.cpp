//===- TunedPlans.cpp - Measured plans, on disk ------------------------------===//

#include "driver/TunedPlans.h"

#include "driver/Lowering.h"
#include "driver/PlanJson.h"
#include "passes/analysis/cost/PlanSpace.h"
#include "runtime/Cache.h"
#include "runtime/CacheFolder.h"
#include "runtime/CudaDriver.h"
#include "runtime/Log.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

static constexpr int formatVersion = 1;
static constexpr size_t maxFileBytes = size_t(4) << 20; // several hundred plans take 0.1 MB
static constexpr std::string_view extension = ".json";

static std::atomic<uint64_t> changes = 0;
uint64_t TunedPlans::generation() { return changes; }

std::string TunedKey::text() const {
  return fmt::format("device {}\narch {}\nspace {}\ndtype {}\nhead_dim {} {}\nfeatures {}\n", device, arch,
                     planSpaceVersion, dtype, headDim, headDimV, features);
}

std::optional<std::string> attune::driver::deviceText(const Target &target) {
  if (!target.isCuda()) {
    // hostKey is "x86_64-pc-linux-gnu;znver4;+64bit,...". The text has the processor's name and a digest of the
    // features.
    const std::string &host = hostKey();
    const size_t first = std::min(host.find(';'), host.size()),
                 second = std::min(host.find(';', first + 1), host.size());
    const std::string processor = first < second ? host.substr(first + 1, second - first - 1) : "CPU";
    return fmt::format("{} ({}), {} threads", processor, sha256Hex(host).substr(0, 8), ThreadPool::process().threads());
  }
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return std::nullopt;
  Expected<CudaDeviceInfo> info = (*cuda)->device(target.device);
  if (!info)
    return std::nullopt;
  return fmt::format("{}, {} multiprocessors", info->name, info->smCount);
}

std::string attune::driver::driverText() {
  Expected<const CudaDriver *> cuda = cudaDriver();
  return cuda ? "CUDA " + cudaVersionText((*cuda)->version()) : "";
}

std::optional<TunedKey> TunedKey::of(const Target &target, const KernelSignature &signature,
                                     const std::string &features) {
  std::optional<std::string> device = deviceText(target);
  if (!device || features.empty())
    return std::nullopt;
  return TunedKey{*device,           target.arch,        std::string(name(signature.dtype)),
                  signature.headDim, signature.headDimV, features};
}

const MeasuredPlan &TunedSizes::bestAgainst(const PassPlan &own) const {
  constexpr double worthAKernel = 1.02;
  const auto found = std::ranges::find(measured, own, &MeasuredPlan::plan);
  return found != measured.end() && found->microseconds <= worthAKernel * best().microseconds ? *found : best();
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

ordered_json attune::driver::tunedJson(const TunedKey &key, const TunedSizes &tuned) {
  const Provenance &from = tuned.provenance;
  ordered_json measured = ordered_json::array();
  for (const MeasuredPlan &plan : tuned.measured)
    measured.push_back({{"text", fullPlanText(plan.plan)},
                        {"microseconds", plan.microseconds},
                        {"launches", plan.launches},
                        {"plan", planFields(plan.plan)}});
  return {{"format", formatVersion},
          {"device", key.device},
          {"arch", key.arch},
          {"planSpace", planSpaceVersion},
          {"dtype", key.dtype},
          {"headDim", key.headDim},
          {"headDimV", key.headDimV},
          {"features", key.features},
          {"sizes", sizesJson(tuned.sizes)},
          {"provenance",
           {{"variant", from.variant},
            {"driver", from.driver},
            {"attune", from.attune},
            {"costModel", from.costModel},
            {"written", from.written}}},
          {"measured", measured}};
}

/// The example of tunedJson for firstDifference.
static const ordered_json &tunedExample() {
  static const ordered_json example = [] {
    ordered_json result = tunedJson({}, {.measured = {MeasuredPlan{}}});
    result["measured"][0]["microseconds"] = 0.0;
    result["measured"][0]["plan"] = planFieldsExample();
    return result;
  }();
  return example;
}

Expected<TunedEntry> attune::driver::tunedFromJson(const ordered_json &json) {
  if (std::optional<std::string> path = firstDifference(json, tunedExample(), ""))
    return Error{path->empty() ? "it is not a JSON object"
                               : fmt::format("it lacks '{}' or has it with another type", *path)};
  if (int format = json["format"]; format != formatVersion)
    return Error{fmt::format("it has format {}, required is {}", format, formatVersion)};
  if (int space = json["planSpace"]; space != planSpaceVersion)
    return Error{fmt::format("its plans are of space {}, required is {}", space, planSpaceVersion)};
  TunedEntry entry;
  entry.key = {json["device"], json["arch"], json["dtype"], json["headDim"], json["headDimV"], json["features"]};
  const ordered_json &sizes = json["sizes"], &from = json["provenance"];
  entry.sizes.sizes = {sizes["batch"], sizes["heads"], sizes["headsKv"], sizes["queries"], sizes["keys"]};
  entry.sizes.provenance = {from["variant"], from["driver"], from["attune"], from["costModel"], from["written"]};
  for (const ordered_json &measured : json["measured"]) {
    entry.sizes.measured.push_back(
        {passPlanOfFields(measured["plan"]), measured["microseconds"], measured["launches"]});
    if (std::holds_alternative<BackwardPlans>(entry.sizes.measured.back().plan) != entry.key.isBackward())
      return Error{"one of its plans is of another pass than its features"};
    if (const double time = entry.sizes.measured.back().microseconds; !(time > 0) || !std::isfinite(time))
      return Error{"one of its times is no positive number"};
  }
  if (entry.sizes.measured.empty())
    return Error{"it has no measurement"};
  std::ranges::sort(entry.sizes.measured, {}, &MeasuredPlan::microseconds);
  return entry;
}

static Expected<TunedEntry> tunedFromText(const std::string &text) {
  return tunedFromJson(ordered_json::parse(text, nullptr, /*allow_exceptions=*/false));
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static std::string prefixOf(const TunedKey &key) { return sha256Hex(key.text()).substr(0, 32) + "."; }

/// The id of an entry, such as "3f...9c.h8-q1024-k1024".
static std::string idOf(const TunedKey &key, const SizeClass &sizes) {
  std::string of = sizes.text();
  std::ranges::replace(of, ' ', '-');
  std::ranges::replace(of, '*', 'n'); // so that file names need no quotes in a shell
  return prefixOf(key) + of;
}

TunedPlans::TunedPlans(const std::string &cacheDirectory)
    : folder(cacheDirectory.empty() ? "" : cacheDirectory + "/plans") {}

TunedPlans TunedPlans::of(const CompileOptions &options) {
  if (!options.useCache)
    return TunedPlans("");
  return TunedPlans(options.cacheDir.empty() ? KernelCache::process().directory() : options.cacheDir);
}

/// Opens a folder of measurements; nullopt where it does not exist, an error where it must not be used.
static Expected<std::optional<CacheFolder>> openFolder(const std::string &path) {
  if (path.empty())
    return std::optional<CacheFolder>();
  FileProblem problem;
  std::optional<CacheFolder> opened = CacheFolder::open(path, problem);
  if (!opened && problem.kind != FileProblem::Kind::Missing)
    return Error{fmt::format("folder {} of measured plans is not used: {}; correct that, or choose a cache folder of "
                             "your own, such as by ATTUNE_CACHE_DIR",
                             path, problem.text)};
  return std::move(opened);
}

/// Reads one file of the folder. An invalid file gives an entry with a `problem`.
static TunedEntry readEntry(const CacheFolder &folder, const std::string &directory, const std::string &name) {
  FileProblem problem;
  std::optional<std::string> text = folder.read(name, maxFileBytes, problem);
  Expected<TunedEntry> read = text ? tunedFromText(*text) : Error{problem.text};
  TunedEntry entry;
  if (read)
    entry = std::move(*read);
  else
    entry.problem = read.error().message;
  entry.id = name.substr(0, name.size() - extension.size());
  entry.path = fmt::format("{}/{}", directory, name);
  if (read && entry.id != idOf(entry.key, entry.sizes.sizeClass()))
    entry.problem = "its name does not match its content";
  return entry;
}

Expected<std::vector<TunedEntry>> TunedPlans::list() const {
  Expected<std::optional<CacheFolder>> opened = openFolder(folder);
  if (!opened)
    return opened.error();
  std::vector<TunedEntry> entries;
  if (*opened)
    for (const std::string &name : (*opened)->names())
      if (name.ends_with(extension))
        entries.push_back(readEntry(**opened, folder, name));
  std::ranges::sort(entries, {}, &TunedEntry::id);
  return entries;
}

std::vector<TunedSizes> TunedPlans::find(const TunedKey &key, bool shipped) const {
  const std::string prefix = prefixOf(key);
  std::vector<TunedEntry> found;
  Expected<std::optional<CacheFolder>> opened = openFolder(folder);
  if (!opened)
    logLine(LogLevel::Warning, "{}", opened.error().message);
  else if (*opened)
    for (const std::string &name : (*opened)->names())
      if (name.starts_with(prefix) && name.ends_with(extension)) {
        TunedEntry entry = readEntry(**opened, folder, name);
        if (entry.problem.empty() && entry.key == key)
          found.push_back(std::move(entry));
        else
          logLine(LogLevel::Warning, "measured plans {} do not count: {}; tune again, or remove the file", entry.path,
                  entry.problem.empty() ? "they are of another program" : entry.problem);
      }
  if (shipped)
    for (const TunedEntry &entry : shippedPlans())
      if (entry.key == key && std::ranges::find(found, entry.id, &TunedEntry::id) == found.end())
        found.push_back(entry);
  std::ranges::sort(found, {}, &TunedEntry::id);
  std::vector<TunedSizes> result;
  for (TunedEntry &entry : found)
    result.push_back(std::move(entry.sizes));
  return result;
}

std::optional<TunedSizes> TunedPlans::find(const TunedKey &key, const SizeClass &sizes) const {
  std::vector<TunedSizes> all = find(key);
  const auto found = std::ranges::find(all, sizes, &TunedSizes::sizeClass);
  return found == all.end() ? std::nullopt : std::optional(std::move(*found));
}

Expected<void> TunedPlans::write(const TunedKey &key, const TunedSizes &sizes) const {
  if (folder.empty())
    return Error{"measured plans are not kept: there is no cache folder; name one, such as by ATTUNE_CACHE_DIR"};
  auto failed = [&](const FileProblem &problem) {
    return Error{fmt::format("measured plans are not kept: folder {} cannot be written: {}", folder, problem.text)};
  };
  FileProblem problem;
  std::optional<CacheFolder> made = CacheFolder::make(folder, problem);
  if (!made)
    return failed(problem);
  const std::string name = idOf(key, sizes.sizeClass()).append(extension), temporary = CacheFolder::temporaryName(name);
  if (!made->create(temporary, tunedJson(key, sizes).dump(1) + "\n", problem) ||
      !made->rename(temporary, name, problem))
    return failed(problem);
  ++changes;
  return {};
}

Expected<void> TunedPlans::remove(const TunedEntry &entry) const {
  Expected<std::optional<CacheFolder>> opened = openFolder(folder);
  if (!opened)
    return opened.error();
  FileProblem problem{FileProblem::Kind::Missing, "there is no folder"};
  if (!*opened || !(*opened)->remove(entry.id + std::string(extension), problem))
    return Error{fmt::format("{} cannot be removed: {}", entry.path, problem.text)};
  ++changes;
  return {};
}

Expected<std::string> TunedPlans::exported(size_t keep) const {
  Expected<std::vector<TunedEntry>> entries = list();
  if (!entries)
    return entries.error();
  ordered_json all = ordered_json::array();
  for (TunedEntry &entry : *entries) {
    if (!entry.problem.empty())
      return Error{fmt::format("measured plans {} are bad: {}; remove them by attune cache remove --bad, then export",
                               entry.path, entry.problem)};
    entry.sizes.measured.resize(std::min(keep, entry.sizes.measured.size()));
    all.push_back(tunedJson(entry.key, entry.sizes));
  }
  return ordered_json{{"format", formatVersion}, {"plans", all}}.dump(1) + "\n";
}

/// The entries of an exported text.
static Expected<std::vector<TunedEntry>> readEntries(const std::string &text) {
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  static const ordered_json example = {{"format", 0}, {"plans", ordered_json::array({ordered_json::object()})}};
  if (std::optional<std::string> path = firstDifference(json, example, ""))
    return Error{"it is not what attune cache plans export writes"};
  std::vector<TunedEntry> entries;
  for (const ordered_json &plan : json["plans"]) {
    Expected<TunedEntry> entry = tunedFromJson(plan);
    if (!entry)
      return Error{fmt::format("entry {} is bad: {}", entries.size(), entry.error().message)};
    entry->id = idOf(entry->key, entry->sizes.sizeClass());
    entries.push_back(std::move(*entry));
  }
  return entries;
}

Expected<size_t> TunedPlans::import(const std::string &text) const {
  Expected<std::vector<TunedEntry>> entries = readEntries(text);
  if (!entries)
    return entries.error();
  for (const TunedEntry &entry : *entries)
    if (Expected<void> written = write(entry.key, entry.sizes); !written)
      return written.error();
  return entries->size();
}

//===----------------------------------------------------------------------===//
// Measurements shipped with attune
//===----------------------------------------------------------------------===//

static constexpr char shippedText[] =
#include "driver/ShippedPlans.inc"
    ;

const std::vector<TunedEntry> &attune::driver::shippedPlans() {
  // The text is parsed once. A test parses it, too, so that an invalid file is not shipped.
  static const auto *entries = [] {
    Expected<std::vector<TunedEntry>> read = readEntries(std::string(shippedText, sizeof shippedText - 1));
    if (!read)
      logLine(LogLevel::Warning, "the plans that attune ships do not count: {}", read.error().message);
    return new std::vector<TunedEntry>(read ? std::move(*read) : std::vector<TunedEntry>());
  }();
  return *entries;
}
