//===- PlanJson.h - A plan as JSON ------------------------------------------===//
//
//     {"arch": "sm_90", "tileQ": 128, "tileK": 64, "warps": 4, "threads": 128, "stages": 2, "qRegisters": true,
//      "dvWarps": 1, "blocksPerSm": 2, "longestFirst": true, "text": "128 x 64, 4 warps, ...",
//      "shared": {"bytes": 98304, "budget": 232448, "buffers": [{"name": "q_tile", "bytes": 32768, "offset": 0}]},
//      "schedule": {"copies": "...", "roles": "...", ...}, "features": "...",
//      "registers": {"estimated": 231, "limit": 255, "actual": 238, "spillBytes": 0},
//      "traffic": {"bytes": 1.2e9, "readBytes": 1.1e9, "writtenBytes": 0.1e9, "hbmReadBytes": 0.2e9, "hbmBytes": 0.3e9,
//                  "standardAttentionBytes": 5.2e9, "visitedTiles": 33792, "maskedTiles": 2048, "allTiles": 65536,
//                  "keySplits": 1, "ratio": 4.3,
//                  "sizes": {"batch": 4, "heads": 16, "headsKv": 16, "queries": 4096, "keys": 4096}},
//      "predicted": {"microseconds": 812.0, "limitedBy": "tensor cores", "busy": "tensor cores 61%, ...",
//                    "unitMicroseconds": {"tensor cores": 495.0, "shared memory": 310.0, ...}},
//      "attempts": [{"text": "128 x 80, 4 warps, ...", "spillBytes": 56},
//                   {"text": "128 x 64, 4 warps, ...", "spillBytes": 0}],
//      "spills": "the least of 4 plans that were compiled",
//      "fewQueries": [{"form": "split", "text": "64 x 128, ...", "plan": {"tileQ": 64, ...}}],
//      "backward": {"tileQ": 128, ..., "queries": {"tileQ": 64, ...}, "accumulatesDq": true,
//                   "separateDv": false}}
//
//     | member                             | content and presence                                                     |
//     |------------------------------------|--------------------------------------------------------------------------|
//     | "schedule"                         | the schedule in words (ScheduleText.h); from stage sched on              |
//     | "features", "traffic", "predicted" | from the cost model (PlanSpace.h); only if the input had an attn op      |
//     | "actual", "spillBytes"             | from the cubin; only if the kernel was compiled                          |
//     | "attempts"                         | the plans that were compiled; only if the first one spilled              |
//     | "spills"                           | why a plan that spills was chosen                                        |
//     | "fewQueries"                       | plans of kernels for launches of few queries; only if no field is fixed  |
//
// "traffic" counts bytes between L2 and shared memory (on the CPU between the shared cache and a core's cache);
// "hbmBytes" estimates the bytes that miss L2. "standardAttentionBytes" is the traffic of standard attention (the
// paper's Algorithm 0) for the same sizes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Alternatives.h"
#include "driver/Lowering.h"

#include <nlohmann/json_fwd.hpp>

namespace attune::driver {

nlohmann::ordered_json planJson(const Lowered &lowered, const CompileOptions &options, const Target &target,
                                const KernelImage *image);

/// The text of a plan (Plan::text, or the tile sizes of a CPU plan) with the order of rows, in which two measured plans
/// may differ.
std::string fullPlanText(const Plan &plan);
std::string fullPlanText(const PassPlan &plan);

/// Conversions between a plan and a JSON object with every field that affects the kernel. The object of a backward pass
/// has the fields of the plan of the loop over queries, and in addition "queries" with those of the other plan,
/// "accumulatesDq" and "separateDv".
nlohmann::ordered_json planFields(const Plan &plan);
nlohmann::ordered_json planFields(const PassPlan &plan);
Plan planOfFields(const nlohmann::ordered_json &fields);
PassPlan passPlanOfFields(const nlohmann::ordered_json &fields);
/// An example of planFields for firstDifference. Fields that older files lack are optional; absent means false or 0.
nlohmann::ordered_json planFieldsExample();

/// The path of the first part of `value` that does not have the form of `example`; nullopt if all parts do. In the
/// example a member has a value of the required type, a name that ends in '?' marks an optional member, and "*" stands
/// for members of any name.
std::optional<std::string> firstDifference(const nlohmann::ordered_json &value, const nlohmann::ordered_json &example,
                                           const std::string &path);

/// Checks that a text has the members and types of planJson, so that code that reads the text needs no further checks.
Expected<void> checkPlanJson(const std::string &text);

/// The plans for launches of few queries in the JSON plan of an image; nullopt where the plan has no such list.
std::optional<std::vector<FewQueriesPlan>> fewQueriesPlansOf(const KernelImage &image);
/// The member "fewQueries" of a JSON plan.
nlohmann::ordered_json fewQueriesJson(const std::vector<FewQueriesPlan> &plans);

/// One candidate of the ranking as JSON. `passedOver` is the reason why another plan was chosen; empty for the chosen
/// plan and for a rejected one, whose own text has the reason.
nlohmann::ordered_json candidateJson(const RankedPlan &candidate, const Target &target, bool chosen,
                                     const std::string &passedOver);

nlohmann::ordered_json sizesJson(const ProblemSizes &sizes);
nlohmann::ordered_json sizesJson(const PlanRequest &request);

} // namespace attune::driver
