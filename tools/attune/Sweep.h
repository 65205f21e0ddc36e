//===- Sweep.h - The cost model over one parameter ---------------------------===//
//
//     attune explain causal --sweep sram-budget --svg sweep.svg
//
// Bytes and time of the plan that the model chooses, over the bytes of shared memory that a block may have, the keys of
// a tile, the length, or the density of a block pattern, beside the law that FlashAttention's paper has for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/attune/Options.h"

namespace attune::cli {

/// "sram-budget", "tile-k", "length" and "density".
const std::vector<std::string> &sweepNames();

/// Prints a table, or JSON, of the sweep called `name`, and writes a picture to `svg` where that is not empty. Compiles
/// nothing.
int sweep(const Request &request, const ProblemSizes &sizes, const std::string &name, const std::string &svg,
          bool json);

} // namespace attune::cli
