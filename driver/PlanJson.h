//===- PlanJson.h - A plan as JSON ------------------------------------------===//
//
//     {"arch": "sm_90", "tileQ": 128, "tileK": 64, "warps": 4, "threads": 128, "stages": 2, "qRegisters": true,
//      "dvWarps": 1, "blocksPerSm": 2, "longestFirst": true, "text": "128 x 64, 4 warps, ...",
//      "shared": {"bytes": 98304, "budget": 232448, "buffers": [{"name": "q_tile", "bytes": 32768, "offset": 0}]},
//      "schedule": {"copies": "...", "roles": "...", ...}, "features": "...",
//      "registers": {"estimated": 231, "limit": 255, "actual": 238, "spillBytes": 0},
//      "traffic": {"bytes": 1.2e9, "readBytes": 1.1e9, "writtenBytes": 0.1e9, "hbmReadBytes": 0.2e9, "hbmBytes": 0.3e9,
//                  "standardAttentionBytes": 5.2e9, "visitedTiles": 33792, "maskedTiles": 2048, "allTiles": 65536, "keySplits": 1, "ratio": 4.3,
//                  "sizes": {"batch": 4, "heads": 16, "headsKv": 16, "queries": 4096, "keys": 4096}},
//      "predicted": {"microseconds": 812.0, "limitedBy": "tensor cores", "busy": "tensor cores 61%, ...",
//                    "unitMicroseconds": {"tensor cores": 495.0, "shared memory": 310.0, ...}},
//      "attempts": [{"text": "128 x 80, 4 warps, ...", "spillBytes": 56},
//                   {"text": "128 x 64, 4 warps, ...", "spillBytes": 0}],
//      "spills": "the least of 4 plans that were compiled",
//      "fewQueries": [{"form": "split", "text": "64 x 128, ...", "plan": {"tileQ": 64, ...}}]}
//
// "schedule" (ScheduleText.h) is there from sched on; "features" (PlanSpace.h), "traffic" and "predicted" are absent where the input held no attn
// op; "actual" and "spillBytes" where nothing was compiled; "attempts", the plans that were compiled, where the first
// one spilled; "spills", why a plan that spills was taken; "fewQueries", the plans of the kernels that launches of few
// queries start, where the whole schedule was open. "traffic" crosses between L2 and shared memory (for the CPU between the shared cache and a core's), and
// an estimate of "hbmBytes" of it misses L2. Bytes of standard attention (the paper's Algorithm 0) are for the same
// sizes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Alternatives.h"
#include "driver/Lowering.h"

#include <nlohmann/json_fwd.hpp>

namespace attune::driver {

nlohmann::ordered_json planJson(const Lowered &lowered, const CompileOptions &options, const Target &target,
                                const KernelImage *image);

/// Plan::text, of a thread of the CPU its tiles, with the order of rows, which plans to measure may differ in alone.
std::string fullPlanText(const Plan &plan);

/// Every field of a plan that decides about its kernel, and the plan of an object that holds these.
nlohmann::ordered_json planFields(const Plan &plan);
Plan planOfFields(const nlohmann::ordered_json &fields);
/// planFields by example: those that plans written before them lack, as false, may be absent.
nlohmann::ordered_json planFieldsExample();

/// The path of the first part of `value` that is not as in `example`, to which its depth is limited. The example has
/// each member as it is, one that may be absent with a '?' behind its name, and "*" for members of any name.
std::optional<std::string> firstDifference(const nlohmann::ordered_json &value, const nlohmann::ordered_json &example,
                                           const std::string &path);

/// Whether a text holds what planJson gives, member for member and type for type: what reads it then needs no further
/// checks.
Expected<void> checkPlanJson(const std::string &text);

/// The plans for launches of few queries that the plan of an image lists; nothing where it has no such list.
std::optional<std::vector<FewQueriesPlan>> fewQueriesPlansOf(const KernelImage &image);
/// The same, as the member "fewQueries" of a plan.
nlohmann::ordered_json fewQueriesJson(const std::vector<FewQueriesPlan> &plans);

/// One row of the ranking. `passedOver`: why another was chosen; empty for the chosen one, and for a rejected one,
/// which says so itself.
nlohmann::ordered_json candidateJson(const RankedPlan &candidate, const Target &target, bool chosen,
                                     const std::string &passedOver);

nlohmann::ordered_json sizesJson(const ProblemSizes &sizes);
nlohmann::ordered_json sizesJson(const PlanRequest &request);

} // namespace attune::driver
