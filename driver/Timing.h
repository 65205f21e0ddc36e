//===- Timing.h - How long a launch takes ------------------------------------===//
//
//     Expected<LaunchTimer> timer = LaunchTimer::create(target);
//     Expected<ProblemData> data = ProblemData::make(kernel, tuneCase);  // q, k, v and o where they are left out
//     timer->milliseconds(kernel, data->args())                         // of one launch with a cold level-2 cache
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Tune.h"
#include "runtime/CudaDriver.h"

#include <memory>
#include <optional>
#include <vector>

namespace attune::driver {

/// The kernel that empties level 2 in front of a timed launch.
inline constexpr const char *timerKernel = "read_all";

class LaunchTimer {
public:
  static Expected<LaunchTimer> create(const Target &target);

  /// One launch. On a GPU between two events of an own stream, behind a kernel that reads more memory than level 2 holds:
  /// of what the launch reads the cache then has nothing, nor anything that is still to be written back, as a write would
  /// leave it. While that kernel runs the launch is queued, so that no host time counts.
  Expected<double> milliseconds(const Kernel &kernel, const LaunchArgs &args) const;

private:
  LaunchTimer() = default;
  struct Gpu {
    CudaStream stream;
    CudaEvent begin, end;
    DeviceBuffer other; ///< twice what level 2 holds
    std::unique_ptr<void, int (*)(CudaModule)> module;
    CudaFunction readAll;
    Expected<void> read() const;
  };
  std::optional<Gpu> gpu; ///< none on the CPU
};

/// The memory of one problem.
class ProblemData {
public:
  /// `kernel` gives dtype, head dims and device.
  static Expected<ProblemData> make(const Kernel &kernel, const TuneCase &tuneCase);

  /// The arguments for `kernel`, with as much workspace as it needs.
  Expected<LaunchArgs> argsFor(const Kernel &kernel);

private:
  /// Bytes on the kernel's device.
  struct Block {
    DeviceBuffer device;
    std::vector<std::max_align_t> host;
    void *data(bool onGpu) { return onGpu ? device.data() : host.data(); }
  };
  Expected<Block> allocate(size_t bytes) const;
  Expected<void> fillRandom(Block &block, size_t bytes, DType dtype) const;

  bool onGpu = false;
  LaunchArgs args;
  std::vector<Block> tensors;
  Block workspace;
  size_t workspaceBytes = 0;
};

} // namespace attune::driver
