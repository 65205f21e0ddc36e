//===- RunReport.h - What attune run prints and writes --------------------===//
#pragma once

#include "tools/attune/RunCheck.h"

namespace attune::cli {

/// A run that has finished.
struct FinishedRun {
  const RunFlags &flags;
  const Request &request;
  const Kernel &kernel;
  const KernelImage &image; ///< the one that was launched
  const RunData &data;
  double compileMilliseconds = 0;
  double milliseconds = 0;                        ///< the median of a launch
  std::optional<double> forwardMilliseconds = {}; ///< of the forward pass that ran before a backward pass
  std::optional<Check> check = {};                ///< nullopt where nothing was checked
  std::optional<int64_t> visibleKeys = {};        ///< countVisible

  bool isBackward() const { return !data.ofBackward.empty(); }
  bool passes() const { return !check || check->pass(); }
};

/// Writes --dump and prints the run, as JSON with --json. The error is of a file that cannot be written.
Expected<void> reportRun(const FinishedRun &run);

} // namespace attune::cli
