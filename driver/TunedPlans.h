//===- TunedPlans.h - Measured plans, on disk --------------------------------===//
//
//     TunedPlans plans(directory);                         // the cache's folder; "" stores nothing
//     for (const TunedSizes &sizes : plans.find(key))      // measurements of the folder, and those shipped with attune
//       sizes.best().plan                                  // the fastest plan for sizes.sizeClass()
//
// Measurements are stored in the folder "plans" of the cache of compiled kernels, one file for each program and class
// of sizes:
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
// In the file of a backward pass, "features" begins with "backward", and a plan has the fields of the loop over queries
// and the members "queries", with the fields of the loop over keys, "accumulatesDq" and
// "separateDv".
//
// Files are written atomically, and a new file replaces the file of the same program and class. If two processes
// measure the same program and class at the same time, the later result stays. A file with another form, or one that
// other users may write to (runtime/CacheFolder.h), is ignored with a warning. A file only selects among plans that the
// cost model accepts, so a wrong file cannot lead to an illegal kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"
#include "passes/analysis/cost/PlanSpace.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace attune::driver {

/// A measurement applies to programs and devices with an equal key.
struct TunedKey {
  std::string device; ///< the result of deviceText
  std::string arch;
  std::string dtype;
  int headDim = 0, headDimV = 0;
  std::string features; ///< the result of planFeatures

  /// The key for a target and a program; nullopt where there is no such device, or the features are unknown ("").
  static std::optional<TunedKey> of(const Target &target, const KernelSignature &signature,
                                    const std::string &features);
  bool isBackward() const { return features.starts_with("backward "); }
  /// A text with one line for each field, and planSpaceVersion.
  std::string text() const;
  friend bool operator==(const TunedKey &, const TunedKey &) = default;
};

struct MeasuredPlan {
  PassPlan plan = {};
  double microseconds = 0; ///< median time of a launch
  int launches = 0;        ///< number of timed launches
};

/// The origin of measurements; not a part of the key.
struct Provenance {
  std::string variant = {}; ///< the variant's name
  std::string driver = {};  ///< "CUDA 13.0"; empty for the CPU
  std::string attune = {};  ///< versionText()
  int costModel = 0;        ///< costModelVersion
  int64_t written = 0;      ///< seconds since 1970
};

/// The measurements for one class of sizes.
struct TunedSizes {
  ProblemSizes sizes = {};
  Provenance provenance = {};
  std::vector<MeasuredPlan> measured = {}; ///< at least one; fastest first

  SizeClass sizeClass() const { return SizeClass::of(sizes); }
  const MeasuredPlan &best() const { return measured.front(); }
  /// best(), or `own` if its measured time is within 2% of the best: a further kernel must be worth its compilation.
  const MeasuredPlan &bestAgainst(const PassPlan &own) const;
};

/// One file of measurements, for `attune cache plans`.
struct TunedEntry {
  std::string id;   ///< the file's name without its extension; users may shorten it to 12 digits and the class
  std::string path; ///< "" for measurements shipped with attune
  TunedKey key = {};
  TunedSizes sizes = {};
  std::string problem = {}; ///< why the file is ignored; empty for a valid file
};

/// A text that identifies the target's device: "NVIDIA H200, 132 multiprocessors", or "znver4 (3f2a91c0), 8 threads"
/// with a digest of the CPU's features. nullopt where there is no such device.
std::optional<std::string> deviceText(const Target &target);

/// The version of the CUDA driver, "CUDA 13.0"; "" without a driver.
std::string driverText();

class TunedPlans {
public:
  /// The measurements in the folder "plans" of a cache; with "" there is no folder.
  explicit TunedPlans(const std::string &cacheDirectory);
  /// The measurements in the kernel cache of `options`; without a cache there is no folder.
  static TunedPlans of(const CompileOptions &options);

  const std::string &directory() const { return folder; }

  /// The folder's measurements for `key`, ordered by the names of their classes.
  std::vector<TunedSizes> findOwn(const TunedKey &key) const { return find(key, false); }
  /// The folder's measurements, and shipped ones for classes of sizes that the folder lacks.
  std::vector<TunedSizes> find(const TunedKey &key) const { return find(key, true); }
  /// The result of find(key) for one class of sizes.
  std::optional<TunedSizes> find(const TunedKey &key, const SizeClass &sizes) const;
  Expected<void> write(const TunedKey &key, const TunedSizes &sizes) const;

  /// All files of the folder, ordered by name; ignored files have a `problem`. Empty without a folder.
  Expected<std::vector<TunedEntry>> list() const;
  /// Removes the file of an entry of list().
  Expected<void> remove(const TunedEntry &entry) const;

  /// All entries as one JSON text, with the `keep` fastest plans of each. An error if a file is invalid.
  Expected<std::string> exported(size_t keep) const;
  /// Writes the entries of a text from exported(), which replace entries of the folder. If one entry of the text is
  /// invalid, nothing is written. Returns the number of entries.
  Expected<size_t> import(const std::string &text) const;

  /// A counter that increases with each write, removal and import in this process. Kernels in memory from an earlier
  /// generation are outdated: compile() could choose other plans now.
  static uint64_t generation();

private:
  std::vector<TunedSizes> find(const TunedKey &key, bool shipped) const;

  std::string folder;
};

/// The measurements shipped with attune (arch/plans).
const std::vector<TunedEntry> &shippedPlans();

nlohmann::ordered_json tunedJson(const TunedKey &key, const TunedSizes &sizes);
/// Reads the output of tunedJson; an error names the first invalid member.
Expected<TunedEntry> tunedFromJson(const nlohmann::ordered_json &json);

} // namespace attune::driver
