//===- Graph.h - Kernels in a CUDA graph ------------------------------------===//
#pragma once

#include "attune/Target.h"
#include "tests/numerics/Runner.h"

namespace attune::tests {

/// Captures one launch into a graph and replays it for each of `problems`, whose contents are copied to the same
/// addresses: a replay computes what is there then. The problems have one shape and one variant. Dropout's seed and
/// offset are read through pointers.
Verdict checkGraph(const std::vector<Case> &problems, const Target &target);

/// Replays one captured launch with other numbers behind the pointers to seed and offset: each replay keeps what the
/// formula keeps.
Verdict checkGraphDropout(DType dtype, int headDim, const Target &target);

} // namespace attune::tests
