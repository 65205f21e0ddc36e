//===- FitCost.cpp - Fits the constants that predict the times of programs ----===//

#include "bench/FitCost.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <set>
#include <sstream>

using namespace attune;
using namespace bench;

namespace {

/// A constant, and the range in which the fit varies it.
struct Constant {
  const char *name;
  double ProgramCalibration::*value;
  double least, most;
};
constexpr Constant constants[] = {
    {"memoryEfficiency", &ProgramCalibration::memoryEfficiency, 0.5, 1},
    {"level2Rate", &ProgramCalibration::level2Rate, 1, 10},
    {"warpProducts", &ProgramCalibration::warpProducts, 0.2, 1},
    {"othersDelay", &ProgramCalibration::othersDelay, 0.001, 1},
    {"latencyOfIteration", &ProgramCalibration::latencyOfIteration, 50, 5000},
    {"latencyOfCopy", &ProgramCalibration::latencyOfCopy, 200, 5000},
    {"stageHides", &ProgramCalibration::stageHides, 0.1, 100},
    {"producersAhead", &ProgramCalibration::producersAhead, 0.01, 2},
    {"leastAhead", &ProgramCalibration::leastAhead, 0.01, 1},
    {"overlapLoss", &ProgramCalibration::overlapLoss, 0.01, 1},
    {"fullWarps", &ProgramCalibration::fullWarps, 4, 64},
    {"fewWarpsExponent", &ProgramCalibration::fewWarpsExponent, 0.01, 2},
    {"lastRound", &ProgramCalibration::lastRound, 0.01, 1},
    {"spillFactor", &ProgramCalibration::spillFactor, 0.001, 0.5},
    {"otherRegisters", &ProgramCalibration::otherRegisters, 16, 128},
};
static_assert(sizeof constants / sizeof *constants == sizeof(ProgramCalibration) / sizeof(double),
              "each field of ProgramCalibration has a row");

constexpr double spreadWeight = 0.1, levelWeight = 0.02;

Expected<std::string> contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  if (!file)
    return Error{fmt::format("{} cannot be read", path)};
  return content.str();
}

/// The plan of `plans` with the warps, stages and blocks of `measured`; null if there is none.
const KernelPlan *findPlan(const std::vector<KernelPlan> &plans, const KernelPlan &measured) {
  auto key = [](const KernelPlan &plan) {
    return std::tuple(plan.warps, plan.producerWarps, plan.stages, plan.blocksPerSm);
  };
  const auto found = std::ranges::find(plans, key(measured), key);
  return found == plans.end() ? nullptr : &*found;
}

/// The kernels of a measured plan with what the model counts of them; an error names the one that is no plan any more.
Expected<std::vector<KernelPlan>> counted(const driver::ProgramPlan &measured, const driver::KernelPlans &known) {
  std::vector<KernelPlan> kernels;
  for (const auto &[name, plans] : known) {
    const auto given = measured.find(name);
    if (given == measured.end())
      return Error{fmt::format("a plan has no kernel {}", name)};
    const KernelPlan *plan = findPlan(plans, given->second);
    if (!plan || !plan->cost.blocksPerSm)
      return Error{fmt::format("kernel {} has no plan of {}", name, given->second.text())};
    kernels.push_back(*plan);
  }
  if (measured.size() > known.size())
    return Error{"a plan has a kernel that the program lacks"};
  return kernels;
}

double rounded(double value) {
  const double digit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / digit) * digit;
}

} // namespace

std::string FitCase::name() const {
  std::vector<std::string> extents;
  for (const auto &[axis, extent] : times.extents)
    extents.push_back(fmt::format("{}={}", axis, extent));
  return fmt::format("{} {} {}", times.program, times.arch, fmt::join(extents, ","));
}

bool FitCase::measuresSameAs(const FitCase &other) const {
  return times.text == other.times.text && arch == other.arch && times.extents == other.times.extents;
}

Expected<FitCase> bench::readCase(const std::string &path, std::vector<std::string> &leftOut) {
  Expected<std::string> content = contentOf(path);
  if (!content)
    return content.error();
  Expected<driver::ProgramTimes> times = driver::timesOfJson(*content);
  if (!times)
    return Error{fmt::format("{} does not hold what attune tune --times writes: {}", path, times.error().message)};
  FitCase read;
  read.times = std::move(*times);
  read.arch = findArch(read.times.arch);
  if (!read.arch || !read.arch->programs)
    return Error{fmt::format("{} has times of {}, whose programs are not predicted; measure one of {}", path,
                             read.times.arch, archNames(&ArchInfo::isGpu))};
  Expected<driver::KernelPlans> known = driver::kernelPlans(
      {read.times.text, path}, Target{.kind = Target::Kind::Cuda, .arch = read.times.arch}, read.times.extents);
  if (!known)
    return Error{fmt::format("the program of {} cannot be used: {}", path, known.error().message)};
  for (const driver::ProgramTimes::Plan &plan : read.times.plans) {
    Expected<std::vector<KernelPlan>> kernels = counted(plan.kernels, *known);
    if (kernels)
      read.plans.push_back({std::move(*kernels), plan.seconds});
    else
      leftOut.push_back(fmt::format("{}: {}; a time is left out", path, kernels.error().message));
  }
  if (read.plans.empty())
    return Error{fmt::format("{} has no time of a plan that the compiler has; measure it again", path)};
  return read;
}

Expected<void> bench::checkCases(const std::vector<FitCase> &cases, const std::vector<FitCase> &heldOut) {
  for (const std::vector<FitCase> *list : {&cases, &heldOut})
    for (const FitCase &each : *list)
      if (each.arch->programs != cases.front().arch->programs)
        return Error{fmt::format("{} and {} have different constants; fit those of one at a time",
                                 cases.front().times.arch, each.times.arch)};
  for (const FitCase &each : heldOut)
    for (const FitCase &other : cases)
      if (each.measuresSameAs(other))
        return Error{fmt::format("{} is fitted to; leave it out of --held-out", each.name())};
  return {};
}

CaseScore bench::score(const FitCase &measured, const ProgramCalibration &calibration) {
  const FitCase::Plan *chosen = nullptr;
  PlanRank chosenRank = {};
  double sum = 0, squares = 0;
  for (const FitCase::Plan &plan : measured.plans) {
    PlanRank rank = {};
    double seconds = 0;
    for (const KernelPlan &kernel : plan.kernels) {
      const KernelPlan trial = {kernel.warps, kernel.producerWarps, kernel.stages, kernel.blocksPerSm,
                                predictCost(kernel.cost, *measured.arch, calibration)};
      std::ranges::transform(rank, rankOf(trial), rank.begin(), std::plus());
      seconds += trial.cost.seconds;
    }
    const double error = std::log(seconds / plan.seconds);
    sum += error;
    squares += error * error;
    if (!chosen || rank < chosenRank)
      chosen = &plan, chosenRank = rank;
  }
  const double count = double(measured.plans.size()), mean = sum / count;
  const double best = std::ranges::min(measured.plans, {}, &FitCase::Plan::seconds).seconds;
  return {chosen->seconds / best, std::exp(mean), std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

double bench::loss(std::span<const FitCase> cases, const ProgramCalibration &calibration) {
  double sum = 0;
  for (const FitCase &each : cases) {
    const CaseScore scored = score(each, calibration);
    sum += scored.chosenOverBest - 1 + spreadWeight * scored.spread + levelWeight * std::abs(std::log(scored.level));
  }
  return sum / double(cases.size());
}

ProgramCalibration bench::fit(std::span<const FitCase> cases, const ProgramCalibration &start) {
  constexpr double least = 1e-5; // improvement that counts
  ProgramCalibration best = start;
  double bestLoss = loss(cases, best);
  using Move = std::pair<const Constant *, double>;
  auto improves = [&](std::initializer_list<Move> moves) {
    ProgramCalibration trial = best;
    for (auto [constant, factor] : moves)
      trial.*constant->value = rounded(std::clamp(best.*constant->value * factor, constant->least, constant->most));
    const double trialLoss = loss(cases, trial);
    if (trialLoss > bestLoss - least)
      return false;
    best = trial;
    bestLoss = trialLoss;
    return true;
  };
  auto improvesByOne = [&](double step) {
    bool moved = false;
    for (const Constant &constant : constants)
      for (double factor : {step, 1 / step})
        while (improves({{&constant, factor}}))
          moved = true;
    return moved;
  };
  auto improvesByTwo = [&](double step) {
    for (const Constant &one : constants)
      for (const Constant &other : std::span(&one + 1, std::end(constants)))
        for (double factor : {step, 1 / step})
          for (double otherFactor : {step, 1 / step})
            if (improves({{&one, factor}, {&other, otherFactor}}))
              return true;
    return false;
  };
  for (bool isBetter = true; isBetter;) {
    const double before = bestLoss;
    for (double step : {2.0, 1.5, 1.2, 1.1, 1.05, 1.02})
      while (improvesByOne(step) || improvesByTwo(step))
        ;
    isBetter = bestLoss < before - least;
  }
  return best;
}

std::string bench::initialiser(const ProgramCalibration &calibration) {
  std::vector<std::string> fields;
  for (const Constant &constant : constants)
    fields.push_back(fmt::format(".{} = {:.3g}", constant.name, calibration.*constant.value));
  return fmt::format("{{{}}}", fmt::join(fields, ",\n "));
}

//===----------------------------------------------------------------------===//
// What attune-fit-cost prints
//===----------------------------------------------------------------------===//

namespace {

size_t plansOf(const std::vector<FitCase> &cases) {
  size_t plans = 0;
  for (const FitCase &each : cases)
    plans += each.plans.size();
  return plans;
}

/// The geometric mean over cases of a field of their scores.
double meanOf(const std::vector<FitCase> &cases, const ProgramCalibration &calibration, double CaseScore::*field) {
  double logs = 0;
  for (const FitCase &each : cases)
    logs += std::log(score(each, calibration).*field);
  return std::exp(logs / double(cases.size()));
}

double meanChoice(const std::vector<FitCase> &cases, const ProgramCalibration &calibration) {
  return meanOf(cases, calibration, &CaseScore::chosenOverBest);
}

std::string tableOf(const char *title, const std::vector<FitCase> &cases, const ProgramCalibration &calibration) {
  if (cases.empty())
    return "";
  std::string text = fmt::format("{:<56} {:>5} {:>13} {:>21} {:>7}\n", title, "plans", "chosen / best",
                                 "predicted / measured", "spread");
  for (const FitCase &each : cases) {
    const CaseScore scored = score(each, calibration);
    text += fmt::format("  {:<54} {:>5} {:>13.3f} {:>21.3f} {:>7.3f}\n", each.name(), each.plans.size(),
                        scored.chosenOverBest, scored.level, scored.spread);
  }
  text += fmt::format("  {:<54} {:>5} {:>13.3f} {:>21.3f}\n", "geometric mean", plansOf(cases),
                      meanChoice(cases, calibration), meanOf(cases, calibration, &CaseScore::level));
  return text;
}

/// The comment on the constants in arch/ArchInfo.cpp.
std::string provenance(const std::vector<FitCase> &cases, const std::vector<FitCase> &heldOut,
                       const ProgramCalibration &fitted) {
  std::set<std::string> devices;
  for (const FitCase &each : cases)
    devices.insert(each.times.device);
  std::string text = fmt::format("// attune-fit-cost on {} plans of {} cases ({}): chosen / best {:.3f}.\n",
                                 plansOf(cases), cases.size(), fmt::join(devices, "; "), meanChoice(cases, fitted));
  if (!heldOut.empty())
    text += fmt::format("// Held out were {} plans of {} cases: chosen / best {:.3f}.\n", plansOf(heldOut),
                        heldOut.size(), meanChoice(heldOut, fitted));
  return text;
}

} // namespace

std::string bench::reportOf(const std::vector<FitCase> &cases, const std::vector<FitCase> &heldOut, bool evaluates) {
  const ProgramCalibration &current = *cases.front().arch->programs;
  std::string text = tableOf("current constants", cases, current);
  text += tableOf("current constants, held out", heldOut, current);
  if (evaluates)
    return text;
  const ProgramCalibration fitted = fit(cases, current);
  text += tableOf("fitted", cases, fitted) + tableOf("fitted, held out", heldOut, fitted);
  return text + fmt::format("loss {:.5f} of {:.5f}\n\n{}static constexpr ProgramCalibration fitted = {};\n",
                            loss(cases, fitted), loss(cases, current), provenance(cases, heldOut, fitted),
                            initialiser(fitted));
}
