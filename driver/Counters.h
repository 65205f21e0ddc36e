//===- Counters.h - Memory traffic of a launch by hardware counters ----------===//
//
//     Expected<CountedBytes> counted = countBytes({"/usr/bin/attune", "run", "causal", ...}, "causal");
//     counted->readBytes                             // to compare with PlanCost::readBytes
//
// Counters are read by ncu, the command line of Nsight Compute, which replays a launch with an empty L2 cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <string>
#include <vector>

namespace attune::driver {

/// The counters of one launch.
struct CountedBytes {
  double readBytes = 0;       ///< from L2 to the multiprocessors
  double writtenBytes = 0;    ///< from the multiprocessors to L2
  double hbmReadBytes = 0;    ///< from memory to L2
  double hbmWrittenBytes = 0; ///< from L2 to memory until the kernel ends, without lines that are still in L2 then
  double microseconds = 0;
};

/// Runs `command`, whose first word is the program's path, and counts its third launch of the kernel `symbol`. Errors:
/// ncu is not installed; ncu fails, for example without permission to read counters (the error has ncu's message);
/// there is no such launch.
Expected<CountedBytes> countBytes(const std::vector<std::string> &command, const std::string &symbol);

/// The bytes that a launch by `command` leaves in L2 and that are written to memory later: the bytes written to memory
/// while the timer's kernel (LaunchTimer) evicts L2 after the launch. `command` first times `launchesBefore` launches
/// of other kernels. Errors: those of countBytes; `command` times fewer than three launches after these.
Expected<double> countLeftBytes(const std::vector<std::string> &command, int launchesBefore = 0);

/// Parses the output of ncu --csv --print-units base for the kernel of countBytes.
Expected<CountedBytes> readCounters(const std::string &csv);

} // namespace attune::driver
