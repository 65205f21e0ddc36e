//===- ProgramTimes.cpp - Measured times of a program's plans, as JSON --------===//

#include "driver/ProgramTimes.h"

#include "driver/PlanJson.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

static constexpr int timesFormat = 1;

std::string attune::driver::timesJson(const ProgramTimes &times) {
  ordered_json plans = ordered_json::array();
  for (const ProgramTimes::Plan &plan : times.plans) {
    ordered_json kernels = ordered_json::object();
    for (const auto &[name, kernel] : plan.kernels)
      kernels[name] = {{"warps", kernel.warps},
                       {"producerWarps", kernel.producerWarps},
                       {"stages", kernel.stages},
                       {"blocksPerSm", kernel.blocksPerSm}};
    plans.push_back({{"kernels", kernels}, {"seconds", plan.seconds}});
  }
  return ordered_json{{"format", timesFormat}, {"program", times.program}, {"device", times.device},
                      {"arch", times.arch},    {"extents", times.extents}, {"plans", plans},
                      {"text", times.text}}
             .dump(1) +
         "\n";
}

Expected<ProgramTimes> attune::driver::timesOfJson(const std::string &text) {
  static const ordered_json kernel = {{"warps", 1}, {"producerWarps", 0}, {"stages", 1}, {"blocksPerSm", 1}};
  static const ordered_json plan = {{"kernels", {{"*", kernel}}}, {"seconds", 0.0}};
  static const ordered_json example = {{"format", 1}, {"program", ""},         {"device", ""},
                                       {"arch", ""},  {"extents", {{"*", 1}}}, {"plans", ordered_json::array({plan})},
                                       {"text", ""}};
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (std::optional<std::string> path = firstDifference(json, example, ""))
    return Error{path->empty() ? "it is not a JSON object"
                               : fmt::format("it lacks '{}' or has it with another type", *path)};
  if (int format = json["format"]; format != timesFormat)
    return Error{fmt::format("it has format {}, required is {}", format, timesFormat)};
  ProgramTimes times = {.program = json["program"],
                        .device = json["device"],
                        .arch = json["arch"],
                        .extents = json["extents"].get<Extents>(),
                        .plans = {},
                        .text = json["text"]};
  for (const ordered_json &each : json["plans"]) {
    ProgramTimes::Plan &timed = times.plans.emplace_back();
    timed.seconds = each["seconds"];
    if (!(timed.seconds > 0) || !std::isfinite(timed.seconds))
      return Error{"one of its times is no positive number"};
    for (const auto &[name, fields] : each["kernels"].items())
      timed.kernels[name] = {fields["warps"], fields["producerWarps"], fields["stages"], fields["blocksPerSm"]};
  }
  return times;
}
