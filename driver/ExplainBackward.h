//===- ExplainBackward.h - The cost model's analysis of a backward pass, as JSON ===//
//
//     {"variant", "arch", "dtype", "headDim", "headDimV", "pass": "backward", "costModelVersion",
//      "sizes": {"batch", "heads", "headsKv", "queries", "keys"}, "text",
//      "kernels": [{"name", "flops", "hbmReadBytes", "hbmWrittenBytes", "microseconds"}],
//      "flops", "hbmBytes", "microseconds", "workspaceBytes", "standardAttentionBytes",
//      "forward": {"text", "hbmBytes", "microseconds", "savingMicroseconds"},
//      "values": [{"value", "saved", "bytes", "microsecondsGained", "reason"}]}
//
// "microsecondsGained" is the time of forward and backward pass together that saving the value gains; it is absent
// where there is no choice.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Lowering.h"

namespace attune::driver {

/// The analysis for `source`. Precondition: `options` request gradients.
Expected<std::string> explainBackward(const Source &source, const CompileOptions &options, const Target &target,
                                      const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles);

} // namespace attune::driver
