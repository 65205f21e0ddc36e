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

#include <cstdio>
#include <fmt/format.h>

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
  fmt::print("{}", reportOf(*cases, *heldOut, evaluates));
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
