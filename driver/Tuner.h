//===- Tuner.h - Measuring plans ---------------------------------------------===//
#pragma once

#include "attune/Tune.h"
#include "driver/Lowering.h"

namespace attune::driver {

/// tune() for either form of source.
Expected<std::vector<TuneResult>> tuneSource(const Source &source, const CompileOptions &options, const Target &target,
                                             const std::vector<TuneCase> &cases, const TuneOptions &tuning);

/// Tunes those of options.shapes that are not measured yet.
Expected<void> measureMissing(const Source &source, const CompileOptions &options, const Target &target);

} // namespace attune::driver
