#include "driver/PlanJson.h"

#include "runtime/ArchInfo.h"

#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

ordered_json attune::driver::sizesJson(const PlanRequest &request) {
  return {{"batch", request.batch},
          {"heads", request.heads},
          {"headsKv", request.headsKv},
          {"queries", request.queries},
          {"keys", request.keys}};
}

ordered_json attune::driver::candidateJson(const RankedPlan &candidate, bool chosen) {
  const Plan &plan = candidate.plan;
  ordered_json result = {{"tileQ", plan.tileQ},
                         {"tileK", plan.tileK},
                         {"warps", plan.warps},
                         {"stages", plan.stages},
                         {"qRegisters", plan.qRegisters},
                         {"dvWarps", plan.dvWarps},
                         {"blocksPerSm", plan.blocksPerSm},
                         {"text", plan.text()},
                         {"chosen", chosen},
                         {"rejected", candidate.rejected},
                         {"sharedBytes", candidate.cost.sharedBytes},
                         {"registers", candidate.cost.registers},
                         {"registerLimit", candidate.cost.registerLimit}};
  if (candidate.accepted()) {
    result["hbmBytes"] = candidate.cost.hbmBytes;
    result["microseconds"] = candidate.cost.totalSeconds * 1e6;
    result["why"] = candidate.cost.why;
  }
  return result;
}

ordered_json attune::driver::planJson(const Lowered &lowered, const CompileOptions &options, const Target &target,
                                      const KernelImage *image) {
  const Plan &plan = lowered.plan;
  const ArchInfo *arch = findArch(target.arch);
  const PlanCost *cost = lowered.predicted ? &lowered.predicted->cost : nullptr;

  ordered_json buffers = ordered_json::array();
  int64_t sharedBytes = int64_t(lowered.sharedBytes);
  if (!lowered.buffers.empty()) {
    for (const PlacedBuffer &buffer : lowered.buffers) {
      ordered_json &entry = buffers.emplace_back(ordered_json{{"name", buffer.name}, {"bytes", buffer.bytes}});
      if (buffer.offset >= 0)
        entry["offset"] = buffer.offset;
    }
  } else if (cost) {
    for (const SharedBuffer &buffer : cost->shared)
      buffers.push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
    sharedBytes = cost->sharedBytes;
  }
  if (!target.isCuda() && image)
    sharedBytes = int64_t(image->sharedBytes);

  ordered_json result = {{"arch", target.arch},
                         {"tileQ", plan.tileQ},
                         {"tileK", plan.tileK},
                         {"warps", plan.warps},
                         {"threads", lowered.threads},
                         {"stages", plan.stages},
                         {"qRegisters", plan.qRegisters},
                         {"dvWarps", plan.dvWarps},
                         {"blocksPerSm", plan.blocksPerSm},
                         {"longestFirst", plan.longestFirst},
                         {"copyWarps", plan.copyWarps},
                         {"persistent", plan.persistent},
                         {"queryStages", plan.queryStages},
                         {"turns", plan.turns},
                         {"overlap", plan.overlap},
                         {"stageBiases", plan.stageBiases},
                         {"text", plan.text()}};
  result["shared"] = {{"bytes", sharedBytes},
                      {"budget", options.sramBudget ? options.sramBudget : arch ? arch->sharedBytesPerBlock : 0},
                      {"buffers", buffers}};
  for (const auto &[decision, text] : lowered.schedule)
    result["schedule"][decision] = text;
  if (target.isCuda()) {
    ordered_json registers = ordered_json::object();
    if (cost) {
      registers["estimated"] = cost->registers;
      registers["limit"] = cost->registerLimit;
    }
    if (image && image->registers) {
      registers["actual"] = image->registers;
      registers["spillBytes"] = image->spillBytes;
    }
    result["registers"] = registers;
  }
  if (cost) {
    result["hbm"] = {{"bytes", cost->hbmBytes},
                     {"standardAttentionBytes", cost->standardAttentionBytes},
                     {"ratio", cost->hbmBytes > 0 ? cost->standardAttentionBytes / cost->hbmBytes : 0.0},
                     {"sizes", sizesJson(*lowered.request)}};
    result["predicted"] = {{"microseconds", cost->totalSeconds * 1e6}, {"why", cost->why}};
  }
  return result;
}
