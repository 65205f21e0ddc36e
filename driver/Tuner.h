//===- Tuner.h - Tuning: measuring plans and choosing the fastest ------------===//
#pragma once

#include "attune/Tune.h"
#include "driver/Lowering.h"

#include <span>

namespace attune::driver {

/// tune() for a variant or for IR text.
Expected<std::vector<TuneResult>> tuneSource(const Source &source, const CompileOptions &options, const Target &target,
                                             const std::vector<TuneCase> &cases, const TuneOptions &tuning);

/// The median time of a plan, corrected for the GPU's clock. `own` are the times of a plan that left the race early;
/// they were taken interleaved with the first times of `winner`. A GPU near its power limit slows down during a race,
/// so `own` is scaled by the ratio of the winner's median over all launches to its median over these first launches.
double timeAgainst(std::span<const double> own, std::span<const double> winner);

/// Tunes the sizes of options.shapes that are not measured yet. Precondition: checkRequest.
Expected<void> measureMissing(const Source &source, const CompileOptions &options, const Target &target);

} // namespace attune::driver
