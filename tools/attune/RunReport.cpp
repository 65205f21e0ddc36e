#include "tools/attune/RunReport.h"

#include "tools/attune/Output.h"
#include "tools/attune/Report.h"
#include "tools/attune/TileMaps.h"
#include "tools/reference/Philox.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;
using nlohmann::ordered_json;

namespace {
ordered_json comparisonJson(const reference::Comparison &comparison) {
  return {{"pass", comparison.pass},
          {"maxError", comparison.maxError},
          {"limit", comparison.limit},
          {"plainError", comparison.plainError},
          {"rmsError", comparison.rmsError},
          {"rows", comparison.rows},
          {"badRows", comparison.badRows},
          {"uncheckedRows", comparison.uncheckedRows},
          {"worstRow", comparison.worstRow},
          {"worstError", comparison.worstError},
          {"worstLimit", comparison.worstLimit}};
}

ordered_json shapeJson(const Shape &shape) {
  return {{"B", shape.batch}, {"H", shape.heads},   {"Hkv", shape.headsKv}, {"Sq", shape.queries},
          {"Sk", shape.keys}, {"D", shape.headDim}, {"Dv", shape.headDimV}};
}

/// `keep` is written only where O agrees with the reference: then the kernel dropped what the formula drops.
Expected<void> writeDump(const RunFlags &flags, const RunData &data, const Check *check, const ordered_json &meta) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(flags.dump, code);
  if (code)
    return Error{fmt::format("{} cannot be made: {}", flags.dump, code.message())};
  // Captured tensors have a folder of their own: one may be called as an input or output is.
  std::vector<const char *> folders;
  if (!data.tensors.empty())
    folders.push_back("tensors");
  if (std::ranges::any_of(data.ofBackward, [](const auto &one) { return one.first.starts_with(gradientPrefix); }))
    folders.push_back("grads");
  for (const char *folder : folders) {
    const fs::path path = fs::path(flags.dump) / folder;
    fs::create_directories(path, code);
    if (code)
      return Error{fmt::format("{} cannot be made: {}", path.string(), code.message())};
  }
  auto write = [&](const std::string &name, const HostTensor &tensor) {
    const std::vector<std::byte> bytes = reference::formatNpy(tensor);
    return writeFile((fs::path(flags.dump) / (name + ".npy")).string(),
                     {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  };
  const std::pair<const char *, const HostTensor *> fixed[] = {
      {"q", &data.q}, {"k", &data.k}, {"v", &data.v}, {"o", &data.o}, {"lse", &data.lse}};
  for (auto [name, tensor] : fixed)
    if (tensor != &data.lse || data.hasLse)
      if (Expected<void> written = write(name, *tensor); !written)
        return written;
  for (const auto &[name, tensor] : data.ofBackward) {
    const bool isCaptured = name.starts_with(gradientPrefix);
    if (Expected<void> written = write(isCaptured ? "grads/" + name.substr(gradientPrefix.size()) : name, tensor);
        !written)
      return written;
  }
  for (const auto &[name, tensor] : data.tensors)
    if (Expected<void> written = write("tensors/" + name, tensor); !written)
      return written;
  if (check && check->pass() && !check->exact.keep.empty()) {
    HostTensor keep =
        HostTensor::zeros(DType::Bool, {data.shape.batch, data.shape.heads, data.shape.queries, data.shape.keys});
    std::copy(check->exact.keep.begin(), check->exact.keep.end(), reinterpret_cast<uint8_t *>(keep.data.data()));
    if (Expected<void> written = write("keep", keep); !written)
      return written;
  }
  return writeFile((fs::path(flags.dump) / "meta.json").string(), meta.dump(2) + "\n");
}

/// Replaces the plan's predictions, which are for the sizes that schedules are ranked with, by those for this run.
void predictFor(const RunFlags &flags, const Request &request, const Shape &shape, ordered_json &plan) {
  if (!plan.is_object() || !plan.contains("traffic"))
    return;
  Request fixed = request;
  visitSchedule(
      [&](std::string_view name, auto, auto &field) {
        if (auto of = plan.find(name); of != plan.end())
          field = of->get<std::decay_t<decltype(*field)>>();
      },
      fixed.options);
  for (const char *part : {"traffic", "predicted"})
    plan.erase(part);
  if (request.variant && request.variant->sequences())
    return; // the shape is that of all sequences, and tells nothing of their lengths
  const Expected<std::shared_ptr<const TileMap>> tiles = knownTileMap(request, shape, flags.qOffsetValue, flags.seed);
  Expected<std::string> explained =
      explainRequest(fixed, {shape.batch, shape.heads, shape.headsKv, shape.queries, shape.keys},
                     tiles ? *tiles : std::shared_ptr<const TileMap>());
  if (!explained)
    return;
  ordered_json predicted = ordered_json::parse(*explained)["plan"];
  for (const char *part : {"traffic", "predicted"})
    if (predicted.contains(part))
      plan[part] = predicted[part];
}

/// (query, key) pairs of all heads.
int64_t allPairs(const Shape &shape) { return shape.batch * shape.heads * shape.queries * shape.keys; }

double gflopsPerSecond(const FinishedRun &run) {
  const Shape &shape = run.data.shape;
  // Products of D and of Dv: two of the forward pass, five of the backward pass by the usual count.
  const double products =
      run.isBackward() ? 3.0 * shape.headDim + 2.0 * shape.headDimV : shape.headDim + shape.headDimV;
  const double flops = 2.0 * double(run.visibleKeys.value_or(allPairs(shape))) * products;
  return flops / (run.milliseconds * 1e6);
}

/// The factor on the dot products.
double scaleOf(const FinishedRun &run) {
  const Request &request = run.request;
  if (request.variant && request.variant->scale())
    return double(*request.variant->scale());
  if (request.summary && request.summary->scale != 0 && !request.variant)
    return request.summary->scale;
  return double(float(1.0 / std::sqrt(double(run.data.shape.headDim))));
}

ordered_json dropoutJson(float probability) {
  const uint32_t threshold = reference::dropThreshold(probability);
  return {{"probability", probability}, {"threshold", threshold}, {"keepScale", 65536.0 / (65536.0 - threshold)}};
}

ordered_json checkJson(const FinishedRun &run) {
  if (!run.check)
    return nullptr;
  ordered_json results;
  if (!run.isBackward())
    results["lse"] = nullptr; // of normalisers that give none
  for (const reference::Comparison &result : run.check->results)
    results[result.name] = comparisonJson(result);
  results["clampedReads"] = run.check->exact.clampedReads;
  return results;
}

/// What --json prints and meta.json holds.
ordered_json runJson(const FinishedRun &run, const ordered_json &plan) {
  const RunFlags &flags = run.flags;
  const Request &request = run.request;
  const KernelImage &image = run.image;
  const RunData &data = run.data;
  ordered_json meta = {{"variant", request.label},
                       {"pass", run.isBackward() ? "backward" : "forward"},
                       {"dtype", name(image.signature.dtype)},
                       {"extents", shapeJson(data.shape)},
                       {"scale", scaleOf(run)},
                       {"target", request.target.isCuda() ? "gpu" : "cpu"},
                       {"arch", image.arch},
                       {"path", image.path},
                       {"seed", flags.seed},
                       {"offset", flags.offset}};
  if (request.variant)
    meta["definition"] = ordered_json::parse(request.variant->toJson(), nullptr, false);
  if (image.signature.dropout)
    meta["dropout"] =
        dropoutJson(request.variant ? request.variant->dropoutProbability() : float(flags.dropout.value_or(0)));
  if (flags.qOffsetValue)
    meta["qOffset"] = *flags.qOffsetValue;
  for (const auto &[name, value] : data.scalars)
    meta["scalars"][name] = value.at(0);
  meta["milliseconds"] = run.milliseconds;
  if (run.forwardMilliseconds)
    meta["forwardMilliseconds"] = *run.forwardMilliseconds;
  for (const auto &[name, tensor] : data.saved)
    meta["saved"][name.substr(savedPrefix.size())] = tensor.bytes();
  meta["visibleKeys"] = run.visibleKeys ? ordered_json(*run.visibleKeys) : ordered_json(nullptr);
  meta["gflopsPerSecond"] = gflopsPerSecond(run);
  meta["check"] = checkJson(run);
  meta["compile"] = {{"cacheHit", run.kernel.cacheHit()},
                     {"totalMilliseconds", run.compileMilliseconds},
                     {"milliseconds", timesJson(run.kernel.times())}};
  meta["plan"] = plan;
  return meta;
}

void printCheck(const FinishedRun &run) {
  const bool hasVariant = run.request.variant.has_value();
  if (run.check)
    run.check->printErrors();
  else
    print("  {:<14} {}\n", "error",
          run.flags.noCheck ? "not checked (--no-check)" : "not checked: the text does not say which variant it is");
  if (run.check)
    for (const auto &[tensor, count] : run.check->exact.clampedReads)
      print("  {:<14} {} reads of {} were clamped; --checked says where the first one is\n", "note", count, tensor);
  if (run.flags.checked)
    print("  {:<14} {}\n", "indices",
          hasVariant ? "all within their tensors" : "not checked: the text does not say which variant it is");
}

void printTimes(const FinishedRun &run) {
  const int64_t all = allPairs(run.data.shape);
  print("  {:<14} {:.3f} ms, median ({:.1f} GFLOP/s{})\n", "time", run.milliseconds, gflopsPerSecond(run),
        !run.visibleKeys ? ", hidden keys counted"
        : *run.visibleKeys == all
            ? ""
            : fmt::format(" of the {:.3g}% of keys that are visible", 100 * double(*run.visibleKeys) / double(all)));
  if (run.forwardMilliseconds)
    print("  {:<14} {:.3f} ms{}\n", "forward pass", *run.forwardMilliseconds,
          run.data.saved.empty() ? "" : ", with what it saves");
}

void printRun(const FinishedRun &run, const ordered_json &plan) {
  const Request &request = run.request;
  const Shape &shape = run.data.shape;
  print("{}{} {} B {} H {} Hkv {} Sq {} Sk {} D {} Dv {} on {}\n", request.label, run.isBackward() ? ", backward," : "",
        name(run.image.signature.dtype), shape.batch, shape.heads, shape.headsKv, shape.queries, shape.keys,
        shape.headDim, shape.headDimV, request.target.text());
  print("  {:<14} {}\n{}", "path", run.image.path, planText(plan));
  print("  {:<14} {}\n", "compile",
        compileText(run.kernel.times(), run.kernel.cacheHit(), run.compileMilliseconds, request));
  printCheck(run);
  printTimes(run);
  for (const auto &[name, tensor] : run.data.saved)
    print("  {:<14} {:<18} {} bytes\n", "saved", name.substr(savedPrefix.size()), tensor.bytes());
  if (!run.flags.dump.empty())
    print("  {:<14} {}\n", "dump", run.flags.dump);
}
} // namespace

Expected<void> attune::cli::reportRun(const FinishedRun &run) {
  const RunFlags &flags = run.flags;
  ordered_json plan = planOf(run.image);
  predictFor(flags, run.request, run.data.shape, plan);
  const ordered_json meta = runJson(run, plan);
  if (!flags.dump.empty())
    if (Expected<void> written = writeDump(flags, run.data, run.check ? &*run.check : nullptr, meta); !written)
      return written;
  if (flags.json)
    print("{}\n", meta.dump(2));
  else
    printRun(run, plan);
  return {};
}
