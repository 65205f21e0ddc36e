//===- BackwardRunner.h - Run the backward pass of a case and judge it -----------===//
//
//     Verdict verdict = checkBackward(test, Target::cpu());
//
// dO, and where asked for dLSE, are random; O and LSE are the reference's, rounded as a forward launch leaves them. Every
// tensor lies between NaN, as in the forward pass (Runner.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/numerics/Runner.h"
#include "tools/reference/Gradients.h"

namespace attune::tests {

/// A case of the backward pass: dO and dLSE follow from the case's seed.
reference::BackwardProblem backwardProblem(const Case &test, const Gradients &asked = {});

/// The gradients of the case in float64, and the LSE that its own variant gives.
Expected<reference::GradientValues> exactGradients(const Case &test, const reference::BackwardProblem &problem);

/// By what a gradient is called: "dq", "dk", "dv", or a captured tensor's name.
struct GradientResults {
  std::map<std::string, reference::HostTensor> gradients;
  std::string outside; ///< not empty: what was written outside of them
};
/// What a forward pass leaves beside O and LSE, by operand ("saved.dropout").
using SavedTensors = std::map<std::string, reference::HostTensor>;
/// Launches a forward pass that saves these values.
Expected<SavedTensors> runForwardSaving(const Launcher &launcher, const Case &test,
                                        const std::vector<std::string> &values);
/// Launches once, on the launcher's device, or the kernel's.
Expected<GradientResults> runBackward(const Kernel &kernel, const Case &test, const reference::BackwardProblem &problem,
                                      const reference::GradientValues &exact, const SavedTensors &saved = {});
Expected<GradientResults> runBackward(const Launcher &launcher, const Case &test,
                                      const reference::BackwardProblem &problem, const reference::GradientValues &exact,
                                      const SavedTensors &saved = {});
Verdict judgeBackward(const Case &test, const reference::GradientValues &exact,
                      const Expected<GradientResults> &results);
/// Compiles the backward pass, runs it, behind a forward pass that saves Saving::save, and compares it with the reference.
Verdict checkBackward(const Case &test, const Target &target, const Gradients &asked = {});

/// Compiles with Gradients::deterministic and launches so often: all launches give the same bits, of the gradients of
/// these captured tensors, too.
Verdict checkRepeats(const Case &test, const Target &target, int launches, std::vector<std::string> tensors = {});

} // namespace attune::tests
