//===- Counters.h - What the hardware counts of a launch ---------------------===//
//
//     Expected<CountedBytes> counted = countBytes({"/usr/bin/attune", "run", "causal", ...}, "causal");
//     counted->readBytes                             // beside PlanCost::readBytes
//
// By Nsight Compute's command line, ncu, which replays a launch with an empty level-2 cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <string>
#include <vector>

namespace attune::driver {

/// Of one launch.
struct CountedBytes {
  double readBytes = 0;       ///< from L2 to the multiprocessors
  double writtenBytes = 0;    ///< from there to L2
  double hbmReadBytes = 0;    ///< from memory to L2
  double hbmWrittenBytes = 0; ///< from L2 to memory, until the kernel's end: lines that are then still in L2 not
  double microseconds = 0;
};

/// Counts the third launch of the kernel `symbol` by `command`, whose first word is the program's path. Errors: no ncu;
/// ncu's own words where it fails, as without permission to read counters; no such launch.
Expected<CountedBytes> countBytes(const std::vector<std::string> &command, const std::string &symbol);

/// The bytes that a launch by `command` leaves in L2 and that go to memory later: what is written to memory while the
/// timer's kernel (LaunchTimer) empties L2 behind it. `command` times `launchesBefore` launches of others first. Errors:
/// as countBytes; `command` times fewer than three launches more.
Expected<double> countLeftBytes(const std::vector<std::string> &command, int launchesBefore = 0);

/// What ncu --csv --print-units base printed of countBytes' kernel.
Expected<CountedBytes> readCounters(const std::string &csv);

} // namespace attune::driver
