//===- FitCost.h - Fits the constants that predict the times of programs ------===//
//
// What matters of a prediction is the plan that it ranks first. Over cases, each of which is a program with extents on
// an architecture, the loss is the mean of
//
//     time of the plan that the model ranks first / time of the quickest plan - 1    + 0.1 * spread
//
// where the spread is the root mean square of log(predicted / measured) over the plans of the case, after its mean is
// subtracted. The spread guides the search where a small step changes no choice.
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

/// How good a prediction is. Which plans there are does not depend on the constants.
struct CaseScore {
  double chosenOverBest = 1;    ///< measured time of the plan that the model ranks first, over the quickest
  double predictedOverTrue = 1; ///< geometric mean over the plans of predicted over measured time
  double spread = 0;            ///< root mean square of log(predicted / measured) around its mean
};
CaseScore score(const FitCase &measured, const ProgramCalibration &calibration);

double loss(std::span<const FitCase> cases, const ProgramCalibration &calibration);

/// Constants of the least loss that a search by coordinates finds from `start`. The search multiplies and divides one
/// constant after the other by a step, keeps what lowers the loss, and shortens the step when nothing does. It uses no
/// random numbers. Constants have three significant digits.
ProgramCalibration fit(std::span<const FitCase> cases, const ProgramCalibration &start);

/// ".memoryEfficiency = 0.88, ..." in braces, as arch/ArchInfo.cpp has it.
std::string initialiser(const ProgramCalibration &calibration);

} // namespace bench
