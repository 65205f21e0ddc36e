//===- RunLaunch.h - The launches of attune run ---------------------------===//
#pragma once

#include "tools/attune/RunData.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace attune::cli {

/// The arguments of a launch on the CPU, or on the host's copies of the tensors; without a workspace.
LaunchArgs hostArgs(const RunFlags &flags, Device device, const RunData &data);

/// At least `bytes` bytes. Error: less memory than that is free.
Expected<std::vector<std::max_align_t>> hostWorkspace(size_t bytes);

/// Launches on the kernel's target, leaves the results in `data`, and gives the median time of a launch in milliseconds.
Expected<double> runKernel(const RunFlags &flags, const Kernel &kernel, const Target &target, RunData &data);

/// The median time in milliseconds of a launch of each of `kernels`, which take the same data. They are timed in
/// alternating rounds with a cold L2 cache. After each round, kernels that are clearly slower than the best leave; the
/// first of `kernels` stays. `goes` is called before each launch; if it returns false, the times so far are returned, and
/// 0 for a kernel that has none.
Expected<std::vector<double>> timeKernels(const RunFlags &flags, const std::vector<Kernel> &kernels,
                                          const Target &target, RunData &data, const std::function<bool()> &goes);

/// O and LSE of the forward pass, which the backward pass takes, and what else it leaves, on `target`. Gives its time in
/// milliseconds, on a CPU of one launch.
Expected<double> runForward(const RunFlags &flags, const Request &request, const Target &target, RunData &data);

} // namespace attune::cli
