//===- FitCost.h - Fits the constants that predict the times of programs ------===//
//
// What matters of a prediction is the plan that it ranks first. Over cases, each of which is a program with extents on
// an architecture, the loss is the mean of
//
//     chosen / best - 1  +  0.1 * spread  +  0.02 * |log level|
//
// where chosen is the measured time of the plan that the model ranks first, best is that of the quickest plan, level is
// the geometric mean of predicted / measured over the plans, and spread is the root mean square of
// log(predicted / measured / level). The last two guide the search where a small step changes no choice.
//
//     std::vector<std::string> leftOut;
//     std::vector<FitCase> cases = {*readCase("linear.json", leftOut), *readCase("two_passes.json", leftOut)};
//     ProgramCalibration fitted = fit(cases, *cases[0].arch->programs);
//     score(cases[0], fitted).chosenOverBest                                                         // 1.004
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arch/ProgramCalibration.h"
#include "driver/ProgramTimes.h"

#include <span>

namespace bench {
using attune::Expected;
using attune::ProgramCalibration;

/// The measured plans of a program for one architecture and extents.
struct FitCase {
  struct Plan {
    std::vector<attune::KernelPlan> kernels; ///< with what the model counts
    double seconds = 0;                      ///< measured
  };
  attune::driver::ProgramTimes times; ///< the file
  const attune::ArchInfo *arch = nullptr;
  std::vector<Plan> plans;

  /// "linear_attention sm_90a b=8,h=16,k=8192,q=8192"
  std::string name() const;
  /// Whether the program, the architecture and the extents are the same.
  bool measuresSameAs(const FitCase &other) const;
};

/// Reads a file of attune tune --times, and counts what each of its plans does. Measured plans that the compiler no
/// longer has for the program are left out, each with a line in `leftOut`. Errors: a file that cannot be read or has
/// another content, a program that does not parse, an architecture whose programs are not predicted, no plan left.
Expected<FitCase> readCase(const std::string &path, std::vector<std::string> &leftOut);

/// Errors: architectures with different constants, a case that is both fitted to and held out. Precondition: `cases` is
/// not empty.
Expected<void> checkCases(const std::vector<FitCase> &cases, const std::vector<FitCase> &heldOut);

/// How good a prediction is. Which plans there are does not depend on the constants.
struct CaseScore {
  double chosenOverBest = 1;
  double level = 1; ///< of predicted over measured times
  double spread = 0;
};
CaseScore score(const FitCase &measured, const ProgramCalibration &calibration);

double loss(std::span<const FitCase> cases, const ProgramCalibration &calibration);

/// Constants of the least loss that a search finds from `start`. The search multiplies and divides one constant after the
/// other by a step, then two at a time, and keeps what lowers the loss. It shortens the step when nothing does. It uses
/// no random numbers. Constants have three significant digits.
ProgramCalibration fit(std::span<const FitCase> cases, const ProgramCalibration &start);

/// What attune-fit-cost prints: a table of scores with the current constants and, unless it only `evaluates`, with fitted
/// ones, and these with a comment on their origin. Precondition: checkCases.
std::string reportOf(const std::vector<FitCase> &cases, const std::vector<FitCase> &heldOut, bool evaluates);

/// ".memoryEfficiency = 0.88, ..." in braces, as arch/ArchInfo.cpp has it.
std::string initialiser(const ProgramCalibration &calibration);

} // namespace bench
