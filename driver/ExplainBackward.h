//===- ExplainBackward.h - What the model says of a backward pass --------------===//
//
//     {"variant", "arch", "dtype", "headDim", "headDimV", "pass": "backward", "costModelVersion",
//      "sizes": {"batch", "heads", "headsKv", "queries", "keys"}, "text",
//      "kernels": [{"name", "flops", "hbmReadBytes", "hbmWrittenBytes", "microseconds"}],
//      "flops", "hbmBytes", "microseconds", "workspaceBytes", "standardAttentionBytes",
//      "forward": {"text", "hbmBytes", "microseconds", "savingMicroseconds"},
//      "values": [{"value", "saved", "bytes", "microsecondsGained", "reason"}]}
//
// "microsecondsGained" of a value where the model has a choice: by saving it, of forward and backward together.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Lowering.h"

namespace attune::driver {

/// Of a source whose gradients `options` ask for.
Expected<std::string> explainBackward(const Source &source, const CompileOptions &options, const Target &target,
                                      const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles);

} // namespace attune::driver
