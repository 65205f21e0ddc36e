//===- ProgramTimes.h - Measured times of a program's plans, as JSON ---------===//
//
// attune tune FILE.mlir --times writes them, and attune-fit-cost reads them:
//
//     {"format": 1, "program": "linear_attention", "device": "NVIDIA H200, 132 multiprocessors", "arch": "sm_90a",
//      "extents": {"b": 8, "h": 16, "k": 8192, "q": 8192},
//      "plans": [{"kernels": {"linear_attention": {"warps": 4, "producerWarps": 4, "stages": 3, "blocksPerSm": 1}},
//                 "seconds": 0.0001331}, ...],
//      "text": "// Causal linear attention..."}                  the program that was timed, which left these plans open
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Lowering.h"

namespace attune::driver {

struct ProgramTimes {
  struct Plan {
    ProgramPlan kernels; ///< without costs
    double seconds = 0;  ///< of a launch
  };
  std::string program; ///< its name
  std::string device;  ///< the result of deviceText
  std::string arch;
  Extents extents; ///< of all axes without a fixed size
  std::vector<Plan> plans;
  std::string text;
};

std::string timesJson(const ProgramTimes &times);

/// The times of a text that timesJson made. An error says what the text lacks, as "it lacks 'plans.seconds' or has it
/// with another type".
Expected<ProgramTimes> timesOfJson(const std::string &text);

} // namespace attune::driver
