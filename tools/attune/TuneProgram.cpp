//===- TuneProgram.cpp - attune tune and explain of a program --------------===//

#include "tools/attune/Output.h"
#include "tools/attune/RunLaunch.h"
#include "tools/attune/RunProgram.h"

#include "driver/Compiling.h"
#include "driver/Lowering.h"
#include "driver/ProgramTimes.h"
#include "driver/TunedPlans.h"

#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

std::optional<Failure> checkStage(const Request &request) {
  if (request.summary->stage != Stage::Tile)
    return usageError("the text is at stage sched and holds its schedule; use the program's tile text");
  return std::nullopt;
}

struct Timed {
  const driver::PlannedProgram *program;
  Kernel kernel;
  double milliseconds = 0;
};

/// What --times writes.
std::string timesOf(const std::vector<Timed> &timed, const Request &request, const Extents &extents) {
  driver::ProgramTimes times = {.program = request.label,
                                .device = driver::deviceText(request.target).value_or(""),
                                .arch = request.target.arch,
                                .extents = extents,
                                .plans = {},
                                .text = request.text->text};
  for (const Timed &each : timed)
    times.plans.push_back({each.program->plan, each.milliseconds / 1e3});
  return driver::timesJson(times);
}

} // namespace

int attune::cli::explainProgram(const RunFlags &flags, const Request &request, size_t top) {
  if (std::optional<Failure> failure = checkStage(request))
    return report(*failure);
  Result<std::map<std::string, int64_t>> extents = readExtents(flags, request);
  if (!extents)
    return report(extents.failure());
  Expected<std::vector<driver::PlannedProgram>> programs =
      driver::plannedPrograms(*request.text, request.target, *extents);
  if (!programs)
    return report({programs.error()});
  if (flags.json) {
    ordered_json plans = ordered_json::array();
    for (const driver::PlannedProgram &program : *programs)
      plans.push_back({{"plan", driver::textOf(program.plan)},
                       {"microseconds", program.cost.seconds * 1e6},
                       {"limitedBy", program.cost.limitedBy},
                       {"registers", program.cost.registers},
                       {"sharedBytes", program.cost.sharedMemory}});
    print("{}\n", ordered_json{{"program", request.label}, {"arch", request.target.arch}, {"plans", plans}}.dump(2));
    return done;
  }
  const KernelCost &cost = programs->front().cost;
  print("{} for {}\n", request.label, request.target.arch);
  auto row = [](const char *what, double number, const char *unit) {
    print("  {:<18} {:.4g} {}\n", what, number, unit);
  };
  row("blocks", cost.blocks, "");
  row("products", cost.flops / 1e9, "GFLOP");
  row("special functions", cost.specialResults / 1e9, "billion results");
  row("arithmetic", cost.aluResults / 1e9, "billion results");
  row("tensors", cost.tensorBytes / 1e6, "MB");
  row("read", cost.readBytes / 1e6, "MB");
  row("written", cost.writtenBytes / 1e6, "MB");
  print("  {:<18} {} registers a thread, {} bytes of shared memory, {} blocks per SM\n", "takes", cost.registers,
        cost.sharedMemory, cost.blocksPerSm);
  print("  {:<18}", "busy");
  for (const auto &[unit, seconds] : cost.units)
    print(" {} {:.0f}%{}", unit, 100 * seconds / cost.seconds, &unit == &cost.units.back().first ? "\n" : ",");
  print("{} plans by predicted time\n", programs->size());
  for (const driver::PlannedProgram &program : std::span(*programs).first(std::min(top, programs->size())))
    print("  {:>11.1f} us {}; {}\n", program.cost.seconds * 1e6, driver::textOf(program.plan), program.cost.limitedBy);
  return done;
}

int attune::cli::tuneProgram(const RunFlags &flags, const Request &request, const ProgramTuning &tuning) {
  if (std::optional<Failure> failure = checkStage(request))
    return report(*failure);
  Result<RunData> data = programData(flags, request);
  if (!data)
    return report(data.failure());
  Expected<std::vector<driver::PlannedProgram>> programs =
      driver::plannedPrograms(*request.text, request.target, data->extents);
  if (!programs)
    return report({programs.error()});
  const Clock::time_point begin = Clock::now();
  auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const size_t count = std::min(tuning.candidates, programs->size());
  std::vector<std::optional<KernelImage>> images(count);
  std::vector<std::string> faults(count);
  driver::onAllCores(count, [&](size_t i) {
    if (i && spent() > tuning.seconds / 2)
      return;
    Expected<KernelImage> image =
        compileImageFromText({(*programs)[i].text, request.text->file}, request.options, request.target);
    if (image)
      images[i] = std::move(*image);
    else
      faults[i] = image.error().text();
  });
  if (!images.front())
    return report({Error{faults.front()}});
  std::vector<Timed> timed;
  for (size_t i = 0; i < count; ++i)
    if (images[i]) {
      const IrText text{(*programs)[i].text, request.text->file};
      Expected<Kernel> kernel =
          driver::kernelOfImage(std::move(*images[i]), {.text = &text}, request.options, request.target);
      if (kernel)
        timed.push_back({&(*programs)[i], *kernel});
      else if (i == 0)
        return report({kernel.error()});
    }
  std::vector<Kernel> kernels;
  for (const Timed &each : timed)
    kernels.push_back(each.kernel);
  Expected<driver::RaceTimes> times = timeKernels(flags, kernels, request.target, *data,
                                                  [&](bool isFirst) { return isFirst || spent() < tuning.seconds; });
  if (!times)
    return report({times.error()});
  const std::vector<double> compared = times->compared();
  for (size_t i = 0; i < timed.size(); ++i)
    timed[i].milliseconds = compared[i];
  const double own = timed.front().milliseconds;
  std::ranges::sort(timed, {}, &Timed::milliseconds);
  std::vector<OutputFile> files;
  if (!tuning.output.empty())
    files.push_back({tuning.output, timed.front().program->text});
  std::string timesText;
  if (!tuning.timesFile.empty()) {
    timesText = timesOf(timed, request, data->extents);
    files.push_back({tuning.timesFile, timesText});
  }
  if (Expected<void> written = writeFiles(files); !written)
    return report({written.error()});
  if (flags.json) {
    ordered_json list = ordered_json::array();
    for (const Timed &each : timed)
      list.push_back({{"plan", driver::textOf(each.program->plan)},
                      {"microseconds", each.milliseconds * 1e3},
                      {"predictedMicroseconds", each.program->cost.seconds * 1e6},
                      {"chosenByModel", each.program == programs->data()}});
    print("{}\n",
          ordered_json{{"program", request.label}, {"arch", request.target.arch}, {"candidates", list}}.dump(2));
    return done;
  }
  print("{} on {}\n  {:<14} {} of {} plans in {:.1f} s\n", request.label, request.target.text(), "timed", timed.size(),
        programs->size(), spent());
  for (size_t i = 0; i < timed.size(); ++i)
    if (const bool isOwn = timed[i].program == programs->data(); i < tuning.top || isOwn)
      print("  {:>11.1f} us {}{}\n", timed[i].milliseconds * 1e3, driver::textOf(timed[i].program->plan),
            isOwn ? "; the cost model's choice" : "");
  print("  {:<14} {:.3f} of the time of the cost model's choice\n", "best", timed.front().milliseconds / own);
  for (const OutputFile &file : files)
    print("  {:<14} {}\n", "written", file.path);
  return done;
}
