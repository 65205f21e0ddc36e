//===- Timing.h - Measuring the time of a launch -----------------------------===//
//
//     Expected<LaunchTimer> timer = LaunchTimer::create(target);
//     Expected<ProblemData> data = ProblemData::make(kernel, tuneCase); // allocates tensors that the case lacks
//     timer->milliseconds(kernel, data->args())                        // time of one launch with a cold L2 cache
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Tune.h"
#include "runtime/CudaDriver.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace attune::driver {

/// The kernel that evicts the L2 cache before a timed launch.
inline constexpr const char *timerKernel = "read_all";

class LaunchTimer {
public:
  static Expected<LaunchTimer> create(const Target &target);

  /// Measures one launch. On a GPU the time is between two events of a separate stream, after a kernel that reads more
  /// memory than L2 holds. L2 then contains none of the launch's inputs, and, as the kernel only reads, no dirty lines.
  /// The launch is queued while that kernel runs, so that the time does not include host time.
  Expected<double> milliseconds(const Kernel &kernel, const LaunchArgs &args) const;

private:
  LaunchTimer() = default;
  struct Gpu {
    CudaStream stream;
    CudaEvent begin, end;
    DeviceBuffer other; ///< memory of twice the size of L2
    std::unique_ptr<void, int (*)(CudaModule)> module;
    CudaFunction readAll;
    Expected<void> read() const;
  };
  std::optional<Gpu> gpu; ///< nullopt on the CPU
};

/// The launch times that race() has measured for several kernels.
struct RaceTimes {
  std::vector<std::vector<double>> milliseconds; ///< of the launches of each kernel
  std::vector<size_t> inRace;                    ///< the kernels that have not left
  bool isWhole = false;                          ///< each kernel was timed

  /// A time for each kernel: the winner's median, and those of the others relative to it (timeAgainst); 0 without a
  /// time.
  std::vector<double> compared() const;
};

/// Launches `count` kernels in alternating rounds, each once to warm up. After each round kernels that are clearly
/// slower than the best leave, unless `stays`. `milliseconds` launches a kernel and returns its time. `goes` is called
/// before each launch, with whether it is of the first round and how many kernels are in the race; false ends the race.
Expected<RaceTimes> race(size_t count, const std::function<bool(size_t)> &stays,
                         const std::function<Expected<double>(size_t)> &milliseconds,
                         const std::function<bool(bool isFirst, size_t racing)> &goes);

/// The median time of a kernel, corrected for the GPU's clock. `own` are the times of a kernel that left the race
/// early; they were taken interleaved with the first times of `winner`. A GPU near its power limit slows down during a
/// race, so `own` is scaled by the ratio of the winner's median over all launches to its median over these first
/// launches. A ratio below 1 says that the first launches of the winner were disturbed, and scales nothing: the kernel
/// that left would otherwise seem quicker than it was. Its time is then an upper bound.
double timeAgainst(std::span<const double> own, std::span<const double> winner);

/// Of an even count the mean of the two in the middle. Precondition: there are values.
double median(std::span<const double> values);

/// The tensors and the workspace of one problem.
class ProblemData {
public:
  /// Allocates the tensors of `tuneCase` for the operands and the device of `kernel`.
  static Expected<ProblemData> make(const Kernel &kernel, const TuneCase &tuneCase);

  /// Allocates those operands of `kernel` for `sizes` that have no memory yet. Floats are random.
  Expected<void> addOperands(const Kernel &kernel, const ProblemSizes &sizes);

  /// The dropout probability, where the case gives none.
  void setDropout(float probability) { args.dropout = args.dropout.value_or(probability); }

  /// The arguments for `kernel`, which may be the forward pass of a backward pass's data, with as much workspace as it
  /// needs.
  Expected<LaunchArgs> argsFor(const Kernel &kernel);

private:
  /// A buffer on the kernel's device.
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
