//===- FitCostTest.cpp - The fit of the constants that predict programs -------===//
//
// No times are measured here: the model itself, with other constants, makes them up.
//
//===----------------------------------------------------------------------===//

#include "bench/FitCost.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace attune;
using namespace bench;

namespace {

std::string sourceOf(const std::string &path) {
  std::ifstream file(std::string(ATTUNE_SOURCE) + "/" + path);
  REQUIRE(file);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A file that is removed in the end.
struct TimesFile {
  explicit TimesFile(const std::string &content)
      : path((std::filesystem::temp_directory_path() / fmt::format("attune-fit-{}-{}.json", getpid(), ++count))
                 .string()) {
    std::ofstream(path) << content;
  }
  ~TimesFile() { std::filesystem::remove(path); }
  TimesFile(const TimesFile &) = delete;
  TimesFile &operator=(const TimesFile &) = delete;
  const std::string path;
  static inline int count = 0;
};

/// Constants to start from. They are not those of the table, which a fit may change.
constexpr ProgramCalibration start = {.memoryEfficiency = 0.9,
                                      .level2Rate = 2,
                                      .warpProducts = 0.7,
                                      .othersDelay = 0.05,
                                      .latencyOfIteration = 500,
                                      .latencyOfCopy = 900,
                                      .stageHides = 4,
                                      .producersAhead = 0.5,
                                      .leastAhead = 0.25,
                                      .overlapLoss = 0.4,
                                      .fullWarps = 8,
                                      .fewWarpsExponent = 0.3,
                                      .lastRound = 0.25,
                                      .spillFactor = 0.02,
                                      .otherRegisters = 56};

/// The constants of the made-up times.
ProgramCalibration otherConstants() {
  ProgramCalibration other = start;
  other.latencyOfIteration *= 2.5;
  other.overlapLoss *= 2;
  other.warpProducts = 0.9;
  other.spillFactor *= 2;
  other.fewWarpsExponent *= 1.5;
  return other;
}

/// Times of all plans of a program, which the model predicts by otherConstants.
driver::ProgramTimes madeUp(const std::string &path, const std::string &arch, const Extents &extents) {
  driver::ProgramTimes times = {
      .program = path, .device = "made up", .arch = arch, .extents = extents, .plans = {}, .text = sourceOf(path)};
  const Expected<driver::KernelPlans> known = driver::kernelPlans({times.text, path}, Target::cuda(arch), extents);
  REQUIRE(known);
  REQUIRE(known->size() == 1);
  const auto &[name, plans] = *known->begin();
  for (const KernelPlan &plan : plans) {
    KernelPlan made = plan;
    made.cost = predictCost(plan.cost, *findArch(arch), otherConstants());
    times.plans.push_back({{{name, made}}, rankOf(made)[0]});
  }
  return times;
}

std::vector<FitCase> madeUpCases() {
  std::vector<FitCase> cases;
  std::vector<std::string> leftOut;
  for (const char *arch : {"sm_90a", "sm_90"})
    for (const auto &[path, extents] :
         {std::pair("tests/programs/two_passes.mlir", Extents{{"b", 4}, {"h", 16}, {"q", 2048}, {"k", 2048}}),
          {"examples/programs/linear_attention.mlir", Extents{{"b", 8}, {"h", 16}, {"q", 8192}, {"k", 8192}}}}) {
      const TimesFile file(driver::timesJson(madeUp(path, arch, extents)));
      Expected<FitCase> read = readCase(file.path, leftOut);
      REQUIRE(read);
      cases.push_back(std::move(*read));
    }
  CHECK(leftOut.empty());
  return cases;
}

std::string errorOf(const std::string &content) {
  const TimesFile file(content);
  std::vector<std::string> leftOut;
  const Expected<FitCase> read = readCase(file.path, leftOut);
  REQUIRE_FALSE(read);
  std::string message = read.error().message;
  for (size_t at; (at = message.find(file.path)) != std::string::npos;)
    message.replace(at, file.path.size(), "FILE");
  return message;
}

} // namespace

TEST_CASE("A fit finds constants that choose as well as those that made the times") {
  const std::vector<FitCase> cases = madeUpCases();
  const ProgramCalibration fitted = fit(cases, start);
  double before = 0, after = 0;
  for (const FitCase &each : cases) {
    INFO(each.name());
    CHECK(score(each, otherConstants()).chosenOverBest == 1);
    CHECK(score(each, fitted).chosenOverBest == 1);
    before += score(each, start).spread;
    after += score(each, fitted).spread;
  }
  CHECK(before > 0.1);
  CHECK(after < before / 3);
  CHECK(loss(cases, fitted) < loss(cases, start) / 3);
  // The order of search is fixed.
  const std::span<const FitCase> one(cases.data(), 1);
  CHECK(initialiser(fit(one, start)) == initialiser(fit(one, start)));
}

TEST_CASE("Scores") {
  FitCase one = madeUpCases().front();
  const ProgramCalibration exact = otherConstants();
  CHECK(score(one, exact).level == Approx(1).epsilon(0.03)); // 1% for each unusual stage
  for (FitCase::Plan &plan : one.plans)
    plan.seconds *= 2;
  CHECK(score(one, exact).level == Approx(0.5).epsilon(0.03));
  CHECK(score(one, exact).spread < 0.02);
  CHECK(score(one, exact).chosenOverBest == 1);
  // The plan that the model ranks first is three times slower than the best.
  const auto best = std::ranges::min_element(one.plans, {}, &FitCase::Plan::seconds);
  const auto second = best == one.plans.begin() ? best + 1 : one.plans.begin();
  second->seconds = best->seconds / 3;
  CHECK(score(one, exact).chosenOverBest == Approx(3));
}

TEST_CASE("Times in JSON") {
  const driver::ProgramTimes times =
      madeUp("examples/programs/linear_attention.mlir", "sm_90a", {{"b", 8}, {"h", 16}, {"q", 512}, {"k", 512}});
  const std::string json = driver::timesJson(times);
  CHECK(driver::timesJson(*driver::timesOfJson(json)) == json);

  CHECK(errorOf("{") == "FILE does not hold what attune tune --times writes: it is not a JSON object");
  CHECK(
      errorOf(R"({"format": 1, "program": "p", "device": "", "arch": "sm_90a", "extents": {"b": 1}, "plans": [{}]})") ==
      "FILE does not hold what attune tune --times writes: it lacks 'plans.kernels' or has it with another type");
  driver::ProgramTimes wrong = times;
  wrong.plans.front().seconds = 0;
  CHECK(errorOf(driver::timesJson(wrong)) ==
        "FILE does not hold what attune tune --times writes: one of its times is no positive number");
  wrong = times;
  wrong.arch = "cpu";
  CHECK(errorOf(driver::timesJson(wrong))
            .starts_with("FILE has times of cpu, whose programs are not predicted; measure one of sm_80, sm_86"));
  wrong = times;
  wrong.text = "tile.kernel";
  CHECK(errorOf(driver::timesJson(wrong)).starts_with("the program of FILE cannot be used: "));
}

TEST_CASE("Plans that the compiler does not have any more are left out") {
  driver::ProgramTimes times =
      madeUp("examples/programs/linear_attention.mlir", "sm_90a", {{"b", 8}, {"h", 16}, {"q", 512}, {"k", 512}});
  const size_t plans = times.plans.size();
  times.plans[0].kernels.begin()->second.warps = 3;
  times.plans[1].kernels.clear();
  const TimesFile file(driver::timesJson(times));
  std::vector<std::string> leftOut;
  const Expected<FitCase> read = readCase(file.path, leftOut);
  REQUIRE(read);
  CHECK(read->plans.size() == plans - 2);
  REQUIRE(leftOut.size() == 2);
  CHECK(leftOut[0].starts_with(file.path + ": kernel linear_attention has no plan of 3 "));
  CHECK(leftOut[1] == file.path + ": a plan has no kernel linear_attention; a time is left out");
  times.plans.resize(2);
  CHECK(errorOf(driver::timesJson(times)) == "FILE has no time of a plan that the compiler has; measure it again");
}

TEST_CASE("Cases of one fit") {
  const std::vector<FitCase> cases = madeUpCases();
  CHECK(checkCases({cases[0], cases[1]}, {cases[2], cases[3]}));
  CHECK(checkCases({cases[0]}, {cases[1], cases[0]}).error().message ==
        "tests/programs/two_passes.mlir sm_90a b=4,h=16,k=2048,q=2048 is fitted to; leave it out of --held-out");
  const ProgramCalibration others = otherConstants();
  ArchInfo arch = *findArch("sm_90");
  arch.programs = &others;
  FitCase other = cases[2];
  other.arch = &arch;
  CHECK(checkCases({cases[0], other}, {}).error().message ==
        "sm_90a and sm_90 have different constants; fit those of one at a time");
}

TEST_CASE("The report has both tables and the constants with their origin") {
  const std::vector<FitCase> all = madeUpCases(), cases(all.begin(), all.begin() + 2),
                             heldOut(all.begin() + 2, all.end());
  const std::string evaluated = reportOf(cases, heldOut, /*evaluates=*/true);
  CHECK_THAT(evaluated, Catch::StartsWith("current constants "));
  CHECK_THAT(evaluated, Catch::Contains("\n  tests/programs/two_passes.mlir sm_90a b=4,h=16,k=2048,q=2048 "));
  CHECK_THAT(evaluated, Catch::Contains("\ncurrent constants, held out "));
  CHECK_THAT(evaluated, !Catch::Contains("fitted"));
  const std::string fitted = reportOf(cases, heldOut, /*evaluates=*/false);
  CHECK_THAT(fitted, Catch::StartsWith(evaluated + "fitted  "));
  const size_t plans = cases[0].plans.size() + cases[1].plans.size();
  CHECK_THAT(fitted, Catch::Contains(fmt::format(
                         "\n// attune-fit-cost on {} plans of 2 cases (made up): chosen / best 1.", plans)));
  CHECK_THAT(fitted, Catch::EndsWith(fmt::format("static constexpr ProgramCalibration fitted = {};\n",
                                                 initialiser(fit(cases, *cases[0].arch->programs)))));
  CHECK_THAT(fitted, Catch::Contains("\n// Held out were "));
  CHECK_THAT(initialiser(start), Catch::StartsWith("{.memoryEfficiency = 0.9,\n .level2Rate = 2,"));
  CHECK_THAT(initialiser(start), Catch::EndsWith(".otherRegisters = 56}"));
}
