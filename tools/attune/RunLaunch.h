//===- RunLaunch.h - The launches of attune run ---------------------------===//
#pragma once

#include "driver/Timing.h"
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

/// Races `kernels`, which take the same data, with a cold L2 cache (driver/Timing.h); the first of them stays to the end.
/// `goes` is called before each launch, with whether it is of the first round; false ends the race.
Expected<driver::RaceTimes> timeKernels(const RunFlags &flags, const std::vector<Kernel> &kernels, const Target &target,
                                        RunData &data, const std::function<bool(bool)> &goes);

/// O and LSE of the forward pass, which the backward pass takes, and what else it leaves, on `target`. Gives its time in
/// milliseconds, on a CPU of one launch.
Expected<double> runForward(const RunFlags &flags, const Request &request, const Target &target, RunData &data);

} // namespace attune::cli
