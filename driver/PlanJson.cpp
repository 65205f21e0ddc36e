#include "driver/PlanJson.h"

#include "arch/ArchInfo.h"
#include "passes/analysis/cost/PlanSpace.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

ordered_json attune::driver::sizesJson(const ProblemSizes &sizes) {
  return {{"batch", sizes.batch},
          {"heads", sizes.heads},
          {"headsKv", sizes.headsKv},
          {"queries", sizes.queries},
          {"keys", sizes.keys}};
}

ordered_json attune::driver::sizesJson(const PlanRequest &request) {
  return sizesJson(ProblemSizes{request.batch, request.heads, request.headsKv, request.queries, request.keys});
}

ordered_json attune::driver::planFields(const Plan &plan) {
  ordered_json fields;
  visitSchedule([&](std::string_view name, auto, const auto &value) { fields[std::string(name)] = value; }, plan);
  fields["producerWarps"] = plan.producerWarps;
  if (plan.dpStages)
    fields["dpStages"] = plan.dpStages;
  return fields;
}

ordered_json attune::driver::planFields(const PassPlan &plan) {
  if (const Plan *forward = std::get_if<Plan>(&plan))
    return planFields(*forward);
  const BackwardPlans &backward = std::get<BackwardPlans>(plan);
  ordered_json fields = planFields(backward.keys);
  fields["queries"] = planFields(backward.queries);
  fields["accumulatesDq"] = backward.accumulatesDq;
  fields["separateDv"] = backward.separateDv;
  return fields;
}

static constexpr const char *laterFlags[] = {"packGqa", "splitKeys"};

ordered_json attune::driver::planFieldsExample() {
  ordered_json fields = planFields(Plan());
  for (const char *flag : laterFlags) {
    fields.erase(flag);
    fields[std::string(flag) + "?"] = false;
  }
  fields["dpStages?"] = 0;
  const ordered_json queries = fields;
  fields["queries?"] = queries;
  fields["accumulatesDq?"] = false;
  fields["separateDv?"] = false;
  return fields;
}

Plan attune::driver::planOfFields(const ordered_json &fields) {
  Plan plan;
  visitSchedule(
      [&](std::string_view name, auto, auto &value) {
        if (auto found = fields.find(std::string(name)); found != fields.end())
          found->get_to(value);
      },
      plan);
  plan.producerWarps = fields.at("producerWarps");
  plan.dpStages = fields.value("dpStages", 0);
  return plan;
}

PassPlan attune::driver::passPlanOfFields(const ordered_json &fields) {
  if (!fields.contains("queries"))
    return planOfFields(fields);
  return BackwardPlans{planOfFields(fields), planOfFields(fields["queries"]), fields.value("accumulatesDq", false),
                       fields.value("separateDv", false)};
}

static constexpr std::pair<FewQueries, const char *> fewQueriesForms[] = {{FewQueries::Whole, "whole"},
                                                                          {FewQueries::Split, "split"}};

ordered_json attune::driver::fewQueriesJson(const std::vector<FewQueriesPlan> &plans) {
  ordered_json result = ordered_json::array();
  for (const FewQueriesPlan &each : plans)
    for (auto [form, name] : fewQueriesForms)
      if (form == each.form)
        result.push_back({{"form", name}, {"text", each.plan.text()}, {"plan", planFields(each.plan)}});
  return result;
}

std::optional<std::vector<FewQueriesPlan>> attune::driver::fewQueriesPlansOf(const KernelImage &image) {
  std::vector<FewQueriesPlan> plans;
  const ordered_json plan = ordered_json::parse(image.planJson);
  if (!plan.contains("fewQueries"))
    return std::nullopt;
  for (const ordered_json &each : plan.value("fewQueries", ordered_json::array()))
    for (auto [form, name] : fewQueriesForms)
      if (each.at("form") == name)
        plans.push_back({form, planOfFields(each.at("plan"))});
  return plans;
}

/// The text of a plan. A plan for the CPU has tile sizes only.
static std::string planText(const Plan &plan, const Target &target) {
  return target.isCuda() ? plan.text() : fmt::format("{} x {}", plan.tileQ, plan.tileK);
}

/// The text of a plan and, if its blocks start with the longest tiles, `order`.
static std::string fullPlanText(const Plan &plan, const char *order) {
  // A plan with one warp is a plan for the CPU.
  const std::string text = plan.threads() == 32 ? fmt::format("{} x {}", plan.tileQ, plan.tileK) : plan.text();
  return text + (plan.longestFirst ? order : "");
}

std::string attune::driver::fullPlanText(const Plan &plan) { return ::fullPlanText(plan, ", last rows first"); }

std::string attune::driver::fullPlanText(const PassPlan &plan) {
  if (const Plan *forward = std::get_if<Plan>(&plan))
    return fullPlanText(*forward);
  const auto &[keys, queries, accumulatesDq, separateDv] = std::get<BackwardPlans>(plan);
  const char *sums = accumulatesDq ? "dQ, dK, dV" : separateDv ? "dK and dV apart" : "dK, dV";
  return fmt::format("{} {}; {} {}", sums, ::fullPlanText(keys, ", first keys first"), accumulatesDq ? "rows" : "dQ",
                     fullPlanText(queries));
}

ordered_json attune::driver::candidateJson(const RankedPlan &candidate, const Target &target, bool chosen,
                                           const std::string &passedOver) {
  const Plan &plan = candidate.plan;
  ordered_json result = {{"tileQ", plan.tileQ},
                         {"tileK", plan.tileK},
                         {"warps", plan.warps},
                         {"stages", plan.stages},
                         {"qRegisters", plan.qRegisters},
                         {"dvWarps", plan.dvWarps},
                         {"blocksPerSm", plan.blocksPerSm},
                         {"text", planText(plan, target)},
                         {"chosen", chosen},
                         {"rejected", candidate.rejected},
                         {"passedOver", passedOver},
                         {"sharedBytes", candidate.cost.sharedBytes},
                         {"registers", candidate.cost.registers},
                         {"registerLimit", candidate.cost.registerLimit}};
  if (candidate.accepted()) {
    const PlanCost &cost = candidate.cost;
    result["trafficBytes"] = cost.trafficBytes;
    result["hbmBytes"] = cost.hbmBytes;
    result["microseconds"] = cost.totalSeconds * 1e6;
    result["meanMicroseconds"] = cost.mixSeconds * 1e6;
    result["limitedBy"] = cost.limitedBy;
    result["busy"] = cost.busy;
  }
  return result;
}

/// The bytes of each workspace operand as a formula of the problem's sizes, without alignment: {"delta": "4 B H Sq"}.
static ordered_json workspaceJson(const KernelSignature &signature) {
  static const std::map<std::string, std::string> sizes = {
      {"b", "B"}, {"h", "H"}, {"hkv", "Hkv"}, {"q", "Sq"}, {"k", "Sk"}};
  ordered_json result = ordered_json::array();
  for (const OperandParam &operand : signature.operands) {
    if (operand.role != OperandRole::Workspace)
      continue;
    size_t bytes = byteSize(operand.dtype);
    std::string extents;
    for (const AxisParam &axis : operand.axes) {
      const auto known = sizes.find(axis.name);
      const std::string size = known == sizes.end() ? axis.name : known->second;
      if (axis.size)
        bytes *= size_t(axis.size);
      else
        extents += axis.by > 1 ? fmt::format(" ceil({} / {})", size, axis.by) : " " + size;
    }
    result.push_back({{"name", operand.name}, {"bytes", fmt::format("{}{}", bytes, extents)}});
  }
  return result;
}

/// The kernel whose plan the JSON describes; the image's main kernel where `planned` names none.
static const KernelEntry &plannedEntry(const Lowered &lowered, const KernelImage &image) {
  const auto found = std::ranges::find(image.entries, lowered.planned, &KernelEntry::symbol);
  return found == image.entries.end() ? image.main() : *found;
}

/// The member "shared": the buffers of the lowered kernel, or those of the cost model.
static ordered_json sharedJson(const Lowered &lowered, const CompileOptions &options, const Target &target,
                               const KernelImage *image) {
  const ArchInfo *arch = findArch(target.arch);
  ordered_json buffers = ordered_json::array();
  int64_t sharedBytes = int64_t(lowered.sharedBytes);
  if (!lowered.buffers.empty()) {
    for (const PlacedBuffer &buffer : lowered.buffers) {
      ordered_json &entry = buffers.emplace_back(ordered_json{{"name", buffer.name}, {"bytes", buffer.bytes}});
      if (buffer.offset >= 0)
        entry["offset"] = buffer.offset;
    }
  } else if (lowered.predicted) {
    const PlanCost &cost = lowered.predicted->cost;
    for (const SharedBuffer &buffer : cost.shared)
      buffers.push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
    sharedBytes = cost.sharedBytes;
  }
  if (!target.isCuda() && image)
    sharedBytes = int64_t(image->main().sharedBytes);
  const size_t budget = options.sramBudget ? options.sramBudget : arch ? arch->sharedBytesPerBlock : 0;
  return {{"bytes", sharedBytes}, {"budget", budget}, {"buffers", buffers}};
}

/// The member "registers".
static ordered_json registersJson(const Lowered &lowered, const KernelImage *image) {
  ordered_json registers = ordered_json::object();
  if (lowered.predicted) {
    registers["estimated"] = lowered.predicted->cost.registers;
    registers["limit"] = lowered.predicted->cost.registerLimit;
  }
  if (image && image->main().registers) {
    registers["actual"] = plannedEntry(lowered, *image).registers;
    registers["spillBytes"] = plannedEntry(lowered, *image).spillBytes;
  }
  return registers;
}

/// The member "traffic".
static ordered_json trafficJson(const PlanCost &cost, const PlanRequest &request) {
  return {{"bytes", cost.trafficBytes},
          {"readBytes", cost.readBytes},
          {"writtenBytes", cost.writtenBytes},
          {"hbmReadBytes", cost.hbmReadBytes},
          {"hbmBytes", cost.hbmBytes},
          {"standardAttentionBytes", cost.standardAttentionBytes},
          {"visitedTiles", cost.visitedTiles},
          {"maskedTiles", cost.partialTiles},
          {"allTiles", cost.allTiles},
          {"keySplits", cost.keySplits},
          {"ratio", cost.trafficBytes > 0 ? cost.standardAttentionBytes / cost.trafficBytes : 0.0},
          {"sizes", sizesJson(request)}};
}

/// The member "predicted".
static ordered_json predictedJson(const PlanCost &cost) {
  ordered_json units = ordered_json::object();
  for (const auto &[unit, seconds] : cost.units)
    units[std::string(unit)] = seconds * 1e6;
  return {{"microseconds", cost.totalSeconds * 1e6},
          {"limitedBy", cost.limitedBy},
          {"busy", cost.busy},
          {"unitMicroseconds", units}};
}

ordered_json attune::driver::planJson(const Lowered &lowered, const CompileOptions &options, const Target &target,
                                      const KernelImage *image) {
  const Plan &plan = lowered.plan;
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
                         {"producerWarps", plan.producerWarps},
                         {"persistent", plan.persistent},
                         {"queryStages", plan.queryStages},
                         {"pingPong", plan.pingPong},
                         {"overlap", plan.overlap},
                         {"stageBiases", plan.stageBiases},
                         {"packGqa", plan.packGqa},
                         {"splitKeys", plan.splitKeys},
                         {"text", planText(plan, target)}};
  result["shared"] = sharedJson(lowered, options, target, image);
  for (const auto &[decision, text] : lowered.schedule)
    result["schedule"][decision] = text;
  if (!lowered.remarks.empty())
    result["remarks"] = lowered.remarks;
  if (lowered.request)
    result["features"] = planFeatures(*lowered.request);
  if (lowered.backward) {
    result["features"] = planFeatures(lowered.backward->first);
    result["backward"] = planFields(PassPlan(lowered.backward->second));
  }
  if (image)
    if (ordered_json workspace = workspaceJson(image->signature); !workspace.empty())
      result["workspace"] = std::move(workspace);
  if (target.isCuda())
    result["registers"] = registersJson(lowered, image);
  if (target.isCuda() && image && image->entries.size() > 1)
    for (const KernelEntry &entry : image->entries)
      result["kernels"].push_back({{"name", entry.symbol},
                                   {"threads", entry.threads},
                                   {"sharedBytes", entry.sharedBytes},
                                   {"registers", entry.registers},
                                   {"spillBytes", entry.spillBytes}});
  if (lowered.predicted) {
    result["traffic"] = trafficJson(lowered.predicted->cost, *lowered.request);
    result["predicted"] = predictedJson(lowered.predicted->cost);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Reading a plan back
//===----------------------------------------------------------------------===//

/// The example of planJson for firstDifference.
static const ordered_json &planExample() {
  static const ordered_json example = [] {
    const ordered_json buffer = {{"name", ""}, {"bytes", 0}, {"offset?", 0}};
    const ordered_json sizes = {{"batch", 0}, {"heads", 0}, {"headsKv", 0}, {"queries", 0}, {"keys", 0}};
    ordered_json plan = {{"arch", ""}, {"text", ""}};
    for (const char *count :
         {"tileQ", "tileK", "warps", "threads", "stages", "dvWarps", "blocksPerSm", "producerWarps", "queryStages"})
      plan[count] = 0;
    for (const char *flag : {"qRegisters", "longestFirst", "persistent", "pingPong", "overlap", "stageBiases"})
      plan[flag] = false;
    for (const char *flag : laterFlags)
      plan[std::string(flag) + "?"] = false;
    plan["shared"] = {{"bytes", 0}, {"budget", 0}, {"buffers", ordered_json::array({buffer})}};
    plan["schedule?"] = {{"*", ""}};
    plan["remarks?"] = ordered_json::array({""});
    plan["features?"] = "";
    plan["workspace?"] = ordered_json::array({{{"name", ""}, {"bytes", ""}}});
    plan["registers?"] = {{"estimated?", 0}, {"limit?", 0}, {"actual?", 0}, {"spillBytes?", 0}};
    plan["kernels?"] =
        ordered_json::array({{{"name", ""}, {"threads", 0}, {"sharedBytes", 0}, {"registers", 0}, {"spillBytes", 0}}});
    plan["traffic?"] = {{"bytes", 0.0},        {"readBytes", 0.0},   {"writtenBytes", 0.0},
                        {"hbmReadBytes", 0.0}, {"hbmBytes", 0.0},    {"standardAttentionBytes", 0.0},
                        {"visitedTiles", 0.0}, {"maskedTiles", 0.0}, {"allTiles", 0.0},
                        {"keySplits?", 0},     {"ratio", 0.0},       {"sizes", sizes}};
    plan["predicted?"] = {{"microseconds", 0.0}, {"limitedBy", ""}, {"busy", ""}, {"unitMicroseconds", {{"*", 0.0}}}};
    plan["spills?"] = "";
    plan["fewQueries?"] = ordered_json::array({{{"form", ""}, {"text", ""}, {"plan", planFieldsExample()}}});
    plan["backward?"] = planFieldsExample();
    plan["attempts?"] = ordered_json::array({{{"text", ""}, {"spillBytes", 0}}});
    return plan;
  }();
  return example;
}

std::optional<std::string> attune::driver::firstDifference(const ordered_json &value, const ordered_json &example,
                                                           const std::string &path) {
  const bool sameType = example.is_number_float()     ? value.is_number()
                        : example.is_number_integer() ? value.is_number_integer()
                                                      : value.type() == example.type();
  if (!sameType)
    return path;
  if (example.is_array())
    for (const ordered_json &element : value)
      if (auto found = firstDifference(element, example.front(), path))
        return found;
  if (!example.is_object())
    return std::nullopt;
  for (const auto &[name, member] : example.items()) {
    const bool optional = name.ends_with('?');
    const std::string key = optional ? name.substr(0, name.size() - 1) : name;
    const std::string inner = path.empty() ? key : path + "." + key;
    if (name == "*") {
      for (const ordered_json &any : value)
        if (auto found = firstDifference(any, member, inner))
          return found;
    } else if (auto at = value.find(key); at != value.end()) {
      if (auto found = firstDifference(*at, member, inner))
        return found;
    } else if (!optional) {
      return inner;
    }
  }
  return std::nullopt;
}

Expected<void> attune::driver::checkPlanJson(const std::string &text) {
  const ordered_json plan = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (std::optional<std::string> path = firstDifference(plan, planExample(), ""))
    return Error{path->empty() ? "its plan is not a JSON object"
                               : fmt::format("its plan lacks '{}' or has it with another type", *path)};
  return {};
}
