//===- Tuner.h - Measuring plans ---------------------------------------------===//
#pragma once

#include "attune/Tune.h"
#include "driver/Lowering.h"

#include <span>

namespace attune::driver {

/// tune() for either form of source.
Expected<std::vector<TuneResult>> tuneSource(const Source &source, const CompileOptions &options, const Target &target,
                                             const std::vector<TuneCase> &cases, const TuneOptions &tuning);

/// What a plan takes beside the winner of its race, in the winner's unit. `own` were launched in turn with the winner's
/// first, before it left the race; a GPU near its power limit is slower by the winner's last.
double timeAgainst(std::span<const double> own, std::span<const double> winner);

/// Tunes those of options.shapes that are not measured yet.
Expected<void> measureMissing(const Source &source, const CompileOptions &options, const Target &target);

} // namespace attune::driver
