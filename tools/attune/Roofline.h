//===- Roofline.h - Time by unit, and the roofs above a plan ------------------===//
#pragma once

#include "attune/Error.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace attune::cli {

/// Work and roofs of what explain()'s JSON calls "plan", for its sizes: FLOPs of the visited tiles, bytes between HBM and
/// L2, and the architecture's rates.
struct Roofline {
  std::string title;
  double microseconds = 0;      ///< predicted
  nlohmann::ordered_json units; ///< microseconds of each unit, the busiest first
  double flops = 0;
  double hbmBytes = 0;
  double standardBytes = 0; ///< of standard attention, which does the same FLOPs
  double peakFlops = 0;     ///< a second, of the tensor cores
  double peakBytes = 0;     ///< a second, of HBM

  static Expected<Roofline> of(const nlohmann::ordered_json &explained);
  /// FLOPs a byte, and FLOPs a second.
  double intensity() const { return flops / hbmBytes; }
  double rate() const { return flops / (microseconds * 1e-6); }
  double roof(double intensity) const { return std::min(peakFlops, peakBytes * intensity); }
  std::string text() const;
  /// Logarithmic axes; below them a bar for each unit.
  std::string svg() const;
};

} // namespace attune::cli
