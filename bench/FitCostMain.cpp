//===- FitCostMain.cpp - attune-fit-cost --------------------------------------===//
//
//     attune tune linear.mlir --arch sm_90a --extents b=8,h=16,q=8192,k=8192 --times linear.json
//     attune-fit-cost linear.json two_passes.json --held-out retention.json     fits, and prints the constants
//     attune-fit-cost linear.json two_passes.json --evaluate                    how good the current constants are
//
// Files after --held-out take no part in the fit. bench/fit_programs.sh measures the programs of
// docs/measurements/plans.md.
//
//===----------------------------------------------------------------------===//

#include "bench/FitCost.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

using namespace attune;
using namespace bench;

namespace {

Expected<std::vector<FitCase>> readCases(const std::vector<std::string> &paths) {
  std::vector<FitCase> cases;
  std::vector<std::string> leftOut;
  for (const std::string &path : paths) {
    Expected<FitCase> read = readCase(path, leftOut);
    if (!read)
      return read.error();
    cases.push_back(std::move(*read));
  }
  for (const std::string &line : leftOut)
    fmt::print(stderr, "note: {}\n", line);
  return cases;
}

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

void printTable(const char *title, const std::vector<FitCase> &cases, const ProgramCalibration &calibration) {
  if (cases.empty())
    return;
  fmt::print("{:<56} {:>5} {:>13} {:>21} {:>7}\n", title, "plans", "chosen / best", "predicted / measured", "spread");
  for (const FitCase &each : cases) {
    const CaseScore scored = score(each, calibration);
    fmt::print("  {:<54} {:>5} {:>13.3f} {:>21.3f} {:>7.3f}\n", each.name(), each.plans.size(), scored.chosenOverBest,
               scored.level, scored.spread);
  }
  fmt::print("  {:<54} {:>5} {:>13.3f} {:>21.3f}\n", "geometric mean", plansOf(cases), meanChoice(cases, calibration),
             meanOf(cases, calibration, &CaseScore::level));
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

int run(const std::vector<std::string> &paths, const std::vector<std::string> &heldOutPaths, bool evaluates) {
  auto fail = [](const Error &error) {
    fmt::print(stderr, "{}\n", error.text());
    return 1;
  };
  Expected<std::vector<FitCase>> cases = readCases(paths), heldOut = readCases(heldOutPaths);
  if (!cases || !heldOut)
    return fail(cases ? heldOut.error() : cases.error());
  if (Expected<void> checked = checkCases(*cases, *heldOut); !checked)
    return fail(checked.error());
  const ProgramCalibration &current = *cases->front().arch->programs;
  printTable("current constants", *cases, current);
  printTable("current constants, held out", *heldOut, current);
  if (evaluates)
    return 0;
  const ProgramCalibration fitted = fit(*cases, current);
  printTable("fitted", *cases, fitted);
  printTable("fitted, held out", *heldOut, fitted);
  fmt::print("loss {:.5f} of {:.5f}\n\n{}static constexpr ProgramCalibration fitted = {};\n", loss(*cases, fitted),
             loss(*cases, current), provenance(*cases, *heldOut, fitted), initialiser(fitted));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Fits the constants of arch/ProgramCalibration.h to times of attune tune --times.", "attune-fit-cost");
  std::vector<std::string> paths, heldOut;
  bool evaluates = false;
  app.add_option("times", paths, "files of attune tune --times")->required();
  app.add_option("--held-out", heldOut, "files that take no part in the fit");
  app.add_flag("--evaluate", evaluates, "fit nothing; print how good the current constants are");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    const int code = app.exit(error);
    return code ? 2 : 0;
  }
  return run(paths, heldOut, evaluates);
}
