#include "tools/attune/Report.h"

#include "runtime/Cache.h"

#include <fmt/format.h>

using namespace attune;
using attune::cli::bytesText;
using nlohmann::ordered_json;

ordered_json attune::cli::planOf(const KernelImage &image) {
  ordered_json plan = ordered_json::parse(image.planJson, nullptr, /*allow_exceptions=*/false);
  return plan.is_object() ? plan : ordered_json(nullptr);
}

static std::string planLine(std::string_view label, const std::string &content) {
  return fmt::format("  {:<14} {}\n", label, content);
}

static std::string registersText(const ordered_json &plan) {
  const ordered_json registers = plan.value("registers", ordered_json::object());
  if (registers.empty())
    return "";
  std::string content;
  if (registers.contains("actual"))
    content =
        fmt::format("{} per thread, {} bytes spilled", registers.value("actual", 0), registers.value("spillBytes", 0));
  if (registers.contains("estimated"))
    content += fmt::format("{}estimated {}, limit {}", content.empty() ? "" : "; ", registers.value("estimated", 0),
                           registers.value("limit", 0));
  return planLine("registers", content) +
         (plan.contains("spills") ? planLine("", "spills: " + plan.value("spills", "")) : "");
}

/// Tiles, splits and bytes. `byLengths`: blocks share keys by lengths of sequences. Precondition: "traffic" is there.
static std::string trafficText(const ordered_json &plan, bool byLengths) {
  const bool cpu = plan.value("arch", "") == "cpu";
  const ordered_json &traffic = plan["traffic"];
  std::string text;
  const ordered_json sizes = traffic.value("sizes", ordered_json::object());
  text += planLine("tiles", fmt::format("visits {:.0f} of {:.0f}, {:.0f} masked", traffic.value("visitedTiles", 0.0),
                                        traffic.value("allTiles", 0.0), traffic.value("maskedTiles", 0.0)));
  if (const int64_t shares = traffic.value("keySplits", int64_t(1)); shares > 1)
    text += planLine("splits", byLengths
                                   ? "blocks share the keys of all sequences evenly, by the lengths that a launch finds"
                                   : fmt::format("{} blocks share the keys of a tile of rows", shares));
  text += planLine("traffic",
                   fmt::format("{} between {}, {:.1f}x less than the {} of standard attention (B {} H {} Sq {} Sk {})",
                               bytesText(traffic.value("bytes", 0.0)),
                               cpu ? "the shared cache and the core's" : "L2 and shared memory",
                               traffic.value("ratio", 0.0), bytesText(traffic.value("standardAttentionBytes", 0.0)),
                               sizes.value("batch", int64_t(0)), sizes.value("heads", int64_t(0)),
                               sizes.value("queries", int64_t(0)), sizes.value("keys", int64_t(0))));
  text += planLine(
      "", fmt::format("of these {} read, {} written; about {} between {}, of these {} read",
                      bytesText(traffic.value("readBytes", 0.0)), bytesText(traffic.value("writtenBytes", 0.0)),
                      bytesText(traffic.value("hbmBytes", 0.0)), cpu ? "memory and the shared cache" : "HBM and L2",
                      bytesText(traffic.value("hbmReadBytes", 0.0))));
  return text;
}

std::string attune::cli::planText(const ordered_json &plan) {
  if (!plan.is_object())
    return "";
  std::string text;
  auto line = [&](std::string_view label, const std::string &content) { text += planLine(label, content); };
  line("plan", plan.value("text", ""));
  if (int dvWarps = plan.value("dvWarps", 1); dvWarps > 1)
    line("dv split",
         fmt::format("{0} warps share the same rows: each computes their S and has 1/{0} of the columns of V and O",
                     dvWarps));
  const ordered_json shared = plan.value("shared", ordered_json::object());
  double bytes = shared.value("bytes", 0.0), budget = shared.value("budget", 0.0);
  line("sram", budget > 0 ? fmt::format("{:.0f} of {:.0f} bytes ({:.0f}%)", bytes, budget, 100 * bytes / budget)
                          : fmt::format("{:.0f} bytes", bytes));
  for (const ordered_json &buffer : shared.value("buffers", ordered_json::array()))
    line("", fmt::format("{:<18} {:>7} bytes{}", buffer.value("name", ""), buffer.value("bytes", int64_t(0)),
                         buffer.contains("offset") ? fmt::format(" at {}", buffer.value("offset", int64_t(0))) : ""));
  bool byLengths = false;
  for (const ordered_json &part : plan.value("workspace", ordered_json::array())) {
    byLengths |= part.value("bytes", "").find(" work_item ") != std::string::npos;
    line("workspace", fmt::format("{:<18} {} bytes", part.value("name", ""), part.value("bytes", "")));
  }
  text += registersText(plan);
  for (const ordered_json &kernel : plan.value("kernels", ordered_json::array()))
    line("kernel",
         fmt::format("{:<18} {} threads, {} bytes of shared memory, {} registers, {} bytes spilled",
                     kernel.value("name", ""), kernel.value("threads", 0), kernel.value("sharedBytes", int64_t(0)),
                     kernel.value("registers", 0), kernel.value("spillBytes", 0)));
  if (plan.contains("traffic"))
    text += trafficText(plan, byLengths);
  if (plan.contains("predicted")) {
    line("limited by", plan["predicted"].value("limitedBy", ""));
    line("busy", plan["predicted"].value("busy", ""));
  }
  for (const ordered_json &remark : plan.value("remarks", ordered_json::array()))
    line("remark", remark.get<std::string>());
  return text;
}

std::string attune::cli::scheduleText(const ordered_json &plan) {
  std::string text;
  const ordered_json schedule = plan.value("schedule", ordered_json::object());
  for (const auto &[decision, chosen] : schedule.items())
    text += fmt::format("  {:<14} {}\n", decision, chosen.get<std::string>());
  return text;
}

ordered_json attune::cli::timesJson(const CompileTimes &times) {
  return {
      {"trace", times.trace}, {"ir", times.ir}, {"print", times.print}, {"nvrtc", times.nvrtc}, {"load", times.load}};
}

std::string attune::cli::compileText(const CompileTimes &times, bool cacheHit, double milliseconds,
                                     const Request &request) {
  const std::string stages =
      request.target.isCuda()
          ? fmt::format("trace {:.2f} ms, IR {:.1f} ms, print {:.1f} ms, NVRTC {:.0f} ms", times.trace, times.ir,
                        times.print, times.nvrtc)
          : fmt::format("trace {:.2f} ms, IR {:.1f} ms, LLVM {:.0f} ms", times.trace, times.ir, times.nvrtc);
  const std::string load = times.load > 0 ? fmt::format("load {:.1f} ms", times.load) : "";
  if (!cacheHit)
    return fmt::format("{:.0f} ms: {}{}{}", milliseconds, stages, load.empty() ? "" : ", ", load);
  const std::string &folder =
      request.options.cacheDir.empty() ? KernelCache::process().directory() : request.options.cacheDir;
  return fmt::format("from the cache ({}) in {:.1f} ms{}; compiled then in {:.0f} ms: {}", folder, milliseconds,
                     load.empty() ? "" : ", " + load, times.trace + times.ir + times.print + times.nvrtc, stages);
}
