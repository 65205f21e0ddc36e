//===- TunedPlans.h - Measured plans, on disk --------------------------------===//
//
//     TunedPlans plans(directory);                         // the cache's folder; "" keeps nothing
//     for (const TunedSizes &sizes : plans.find(key))      // this folder's, and those that attune ships
//       sizes.best().plan                                  // the quickest for sizes.sizeClass()
//
// Measurements live beside the compiled kernels, in the folder "plans" of the cache, one file for each program and
// class of sizes:
//
//     <first 32 digits of the SHA-256 of TunedKey::text()>.<class of sizes>.json         "3f...9c.h8-q1024-k1024.json"
//
//     {"format": 1,
//      "device": "NVIDIA H200, 132 multiprocessors", "arch": "sm_90a", "planSpace": 1,     what must be the same for
//      "dtype": "bf16", "headDim": 64, "headDimV": 64, "features": "element 2 ...",        a measurement to count
//      "sizes": {"batch": 1, "heads": 8, "headsKv": 8, "queries": 1024, "keys": 1024},
//      "provenance": {"variant": "causal", "driver": "CUDA 13.0", "attune": "0.2.0", "costModel": 24, "written": 17...},
//      "measured": [{"text": "64 x 128, 1 warpgroup ...", "microseconds": 15.1, "launches": 40,
//                    "plan": {"tileQ": 64, ...}}, ...]}                                    quickest first
//
// A file appears whole or not at all, and replaces the one of the same program and class; processes at once lose
// nothing but the slower of two answers to one question. A file that is not as above, or that others may write to
// (runtime/CacheFolder.h), does not count, with a warning. What a file says chooses among plans that the cost model
// accepts: it cannot make an illegal kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"
#include "passes/analysis/cost/CostModel.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace attune::driver {

/// What must be the same for a measurement to count.
struct TunedKey {
  std::string device; ///< deviceText
  std::string arch;
  std::string dtype;
  int headDim = 0, headDimV = 0;
  std::string features; ///< planFeatures

  /// Nothing where the target's device is not there, or the features are not known ("").
  static std::optional<TunedKey> of(const Target &target, const KernelSignature &signature,
                                    const std::string &features);
  /// One line a field, with planSpaceVersion.
  std::string text() const;
  friend bool operator==(const TunedKey &, const TunedKey &) = default;
};

struct MeasuredPlan {
  Plan plan = {};
  double microseconds = 0; ///< median of a launch
  int launches = 0;        ///< that were timed
};

/// Where measurements come from; no part of the key.
struct Provenance {
  std::string variant = {}; ///< its name
  std::string driver = {};  ///< "CUDA 13.0"; empty for the CPU
  std::string attune = {};  ///< versionText()
  int costModel = 0;        ///< costModelVersion
  int64_t written = 0;      ///< seconds since 1970
};

/// What was measured for sizes of one class.
struct TunedSizes {
  ProblemSizes sizes = {};
  Provenance provenance = {};
  std::vector<MeasuredPlan> measured = {}; ///< at least one; quickest first

  SizeClass sizeClass() const { return SizeClass::of(sizes); }
  const MeasuredPlan &best() const { return measured.front(); }
  /// best(), or `own` where that was measured within 2%: another kernel has to pay.
  const MeasuredPlan &bestAgainst(const Plan &own) const;
};

/// One file, for `attune cache plans`.
struct TunedEntry {
  std::string id;   ///< the file's name without its end: as short as 12 digits and the class
  std::string path; ///< "" for what attune ships
  TunedKey key = {};
  TunedSizes sizes = {};
  std::string problem = {}; ///< why the file does not count; empty where it does
};

/// "NVIDIA H200, 132 multiprocessors", or "znver4 (3f2a91c0), 8 threads", with a digest of what the CPU can do; nothing where the target's device is not there.
std::optional<std::string> deviceText(const Target &target);

/// "CUDA 13.0"; "" without a driver.
std::string driverText();

class TunedPlans {
public:
  /// In the folder "plans" of a cache; "" is no folder.
  explicit TunedPlans(const std::string &cacheDirectory);
  /// That of the kernels that `options` names; none without a cache.
  static TunedPlans of(const CompileOptions &options);

  const std::string &directory() const { return folder; }

  /// Those of the folder, in the order of the classes' names.
  std::vector<TunedSizes> findOwn(const TunedKey &key) const { return find(key, false); }
  /// The same, and what attune ships for classes of which the folder has none.
  std::vector<TunedSizes> find(const TunedKey &key) const { return find(key, true); }
  /// Of these the one of a class.
  std::optional<TunedSizes> find(const TunedKey &key, const SizeClass &sizes) const;
  Expected<void> write(const TunedKey &key, const TunedSizes &sizes) const;

  /// Every file of the folder, by name; those that do not count with their problem. No folder has no files.
  Expected<std::vector<TunedEntry>> list() const;
  /// Removes the file of an entry of list().
  Expected<void> remove(const TunedEntry &entry) const;

  /// Every entry as one JSON text; the `keep` quickest plans of each. An error where one does not count.
  Expected<std::string> exported(size_t keep) const;
  /// Writes what exported() gave; entries of the folder give way. All or none of a text is good. Returns how many.
  Expected<size_t> import(const std::string &text) const;

  /// Rises with each write, removal and import of this process: kernels in memory that were made before are not what
  /// compile() would make.
  static uint64_t generation();

private:
  std::vector<TunedSizes> find(const TunedKey &key, bool shipped) const;

  std::string folder;
};

/// What attune ships: arch/plans.
const std::vector<TunedEntry> &shippedPlans();

nlohmann::ordered_json tunedJson(const TunedKey &key, const TunedSizes &sizes);
/// Reads tunedJson back; an error says which member is not as it should be.
Expected<TunedEntry> tunedFromJson(const nlohmann::ordered_json &json);

} // namespace attune::driver
