//===- Compiling.h - From a source to an image and a kernel ------------------===//
//
// The part of Compile.cpp that the rest of the driver uses.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Lowering.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <thread>

namespace attune::driver {

/// compileImage for either form of source.
Expected<KernelImage> imageOfSource(const Source &source, const CompileOptions &options, const Target &target);
/// compile for either form of source.
Expected<Kernel> compileSource(const Source &source, const CompileOptions &options, const Target &target);
/// The kernel of an image that imageOfSource gave for the same arguments: that of the memory cache, where it is there.
Expected<Kernel> kernelOfImage(KernelImage image, const Source &source, const CompileOptions &options,
                               const Target &target);

/// Whether the whole schedule of `source` is open: only then do measured plans and sizes to prepare for count.
bool leavesScheduleOpen(const Source &source, const CompileOptions &options);

/// The plan that an image was made with.
Plan planOf(const KernelImage &image);
/// What the cost model reads of its program (planFeatures); "" where its source held a schedule.
std::string featuresOf(const KernelImage &image);

/// `options` with every field of the schedule fixed.
CompileOptions withPlan(CompileOptions options, const Plan &plan);

/// work(i) for i in [0, count), in that order, on as many threads as there are cores.
template <typename Work> void onAllCores(size_t count, Work &&work) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  ThreadPool(unsigned(std::clamp<size_t>(count, 1, cores))).run(count, 0, [&](size_t i, void *) { work(i); });
}

} // namespace attune::driver
