//===- Gradients.h - Gradients of attention in float64 -------------------------===//
//
// The backward pass by the formula's own derivative, as loops over b, h, q and k that share nothing with the compiler:
//
//     BackwardProblem problem{.forward = forward, .dO = dO, .tensors = {"slopes"}};
//     Expected<GradientValues> exact = gradients(problem);
//     Comparison dq = compareGradient("dq", kernelDq, exact->q);
//
//     dP = keep / (1 - p_drop) * (dO V^T)         of P before dropout
//     dX = P * (dP - rowsum(dO * O) + dLSE * l' )  of softmax, where l' = P with a sink / P; p'(x) * dP else
//     dS = score'(s) * dX,  dQ = scale * dS K,  dK = scale * dS^T Q,  dV = P'^T dO
//
// A key that the mask or x = -inf hides has no part in any of them. The gradient of a sink is -sum over q of
// exp(sink - L) * rowsum(dO * O).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Compare.h"
#include "tools/reference/Reference.h"

namespace attune::reference {

struct BackwardProblem {
  Problem forward;
  HostTensor dO;                       ///< [B, H, Sq, Dv], of the dtype of q
  std::optional<HostTensor> o = {};    ///< what the kernel is given as O, as dO; without it, O in the dtype is assumed
  std::optional<HostTensor> dLse = {}; ///< [B, H, Sq]
  std::vector<std::string> tensors = {}; ///< captured tensors of floats
};

/// A gradient, row-major, and for each row along the last dimension (of a captured tensor for each element) the expected
/// error, as an RMS over the row, of a kernel that rounds P', dS and results to the dtype, sums in float32 and is given LSE
/// of float32 and O of the dtype: BackwardProblem::o, whose error in rowsum(dO * O) is known, or O rounded once. A forward
/// pass that rounds P errs by more than O rounded once where P is of one key, and V of that key is along dO.
struct GradientOf {
  std::vector<int64_t> shape;
  std::vector<double> values, rowError;
};

struct GradientValues {
  GradientOf q, k, v;
  std::map<std::string, GradientOf> tensors;
  Output forward; ///< O and LSE
};

/// Errors: as attention(); dO, dLSE or a tensor of a wrong shape or name.
Expected<GradientValues> gradients(const BackwardProblem &problem);

/// Held to 3 times the expected error in each row, and to (2 + 1 / sqrt(rows)) times it over all. What is finite in the
/// reference has to be finite.
Comparison compareGradient(std::string name, const HostTensor &actual, const GradientOf &exact);

} // namespace attune::reference
