//===- RunCheck.h - A run against the float64 reference -------------------===//
#pragma once

#include "tools/attune/RunData.h"
#include "tools/reference/Compare.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace attune::cli {

struct Check {
  reference::Output exact; ///< of the forward pass
  std::vector<reference::Comparison> results;
  bool pass() const {
    return std::ranges::all_of(results, [](const reference::Comparison &result) { return result.pass; });
  }
  /// Of the first result that differs.
  std::string difference() const {
    const auto wrong = std::ranges::find(results, false, &reference::Comparison::pass);
    return wrong == results.end() ? "" : wrong->describe();
  }
  /// Prints a line for each result.
  void printErrors() const;
};

/// Says on standard error how long the reference will take where that is long.
void announceReference(const Shape &shape);

/// Compares the results in `data` with the reference's. The reference's problem takes the inputs, which may be gigabytes,
/// and gives them back.
Expected<Check> checkResults(const RunFlags &flags, const Variant &variant, RunData &data);

/// Of all (b, h, q, k), those that the mask shows. The reference evaluates all of them and more; with --no-check the
/// number is nullopt where that takes more than seconds.
Expected<std::optional<int64_t>> countVisible(const RunFlags &flags, const Variant &variant, RunData &data);

/// Looks for the first read outside of a captured tensor, on the host's copies. Precondition: request.variant.
Expected<void> checkIndices(const RunFlags &flags, const Request &request, const RunData &data);

} // namespace attune::cli
