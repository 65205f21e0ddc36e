//===- Tuner.h - Tuning: measuring plans and choosing the fastest ------------===//
#pragma once

#include "attune/Tune.h"
#include "driver/Lowering.h"

namespace attune::driver {

/// tune() for a variant or for IR text.
Expected<std::vector<TuneResult>> tuneSource(const Source &source, const CompileOptions &options, const Target &target,
                                             const std::vector<TuneCase> &cases, const TuneOptions &tuning);

/// Tunes the sizes of options.shapes that are not measured yet. Precondition: checkRequest.
Expected<void> measureMissing(const Source &source, const CompileOptions &options, const Target &target);

} // namespace attune::driver
