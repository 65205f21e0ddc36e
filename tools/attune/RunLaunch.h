//===- RunLaunch.h - The launches of attune run ---------------------------===//
#pragma once

#include "tools/attune/RunData.h"

#include <cstddef>
#include <vector>

namespace attune::cli {

/// The arguments of a launch on the CPU, or on the host's copies of the tensors; without a workspace.
LaunchArgs hostArgs(const RunFlags &flags, Device device, const RunData &data);

/// At least `bytes` bytes. Error: less memory than that is free.
Expected<std::vector<std::max_align_t>> hostWorkspace(size_t bytes);

/// Launches on the kernel's target, leaves the results in `data`, and gives the median time of a launch in milliseconds.
Expected<double> runKernel(const RunFlags &flags, const Kernel &kernel, const Target &target, RunData &data);

/// O and LSE of the forward pass, which the backward pass takes, and what else it leaves, on `target`. Gives its time in
/// milliseconds, on a CPU of one launch.
Expected<double> runForward(const RunFlags &flags, const Request &request, const Target &target, RunData &data);

} // namespace attune::cli
