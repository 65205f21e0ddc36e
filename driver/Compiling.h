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

/// compileImage for a variant or for IR text.
Expected<KernelImage> imageOfSource(const Source &source, const CompileOptions &options, const Target &target);
/// Checks a request as far as possible before anything is built.
Expected<void> checkRequest(const Source &source, const CompileOptions &options, const Target &target);

/// A function that gives the kernel of a request.
using CompileFunction = Expected<Kernel> (*)(const Source &, const CompileOptions &, const Target &);
/// compile for a variant or for IR text, with the measured plans that are stored. It measures nothing: Tuning::Measure
/// is as Tuning::Cached. Kernel::prepare compiles by `recompile`, or by compileSource itself.
Expected<Kernel> compileSource(const Source &source, const CompileOptions &options, const Target &target,
                               CompileFunction recompile);
Expected<Kernel> compileSource(const Source &source, const CompileOptions &options, const Target &target);
/// The kernel of an image that imageOfSource returned for the same arguments, from the memory cache if it is there.
Expected<Kernel> kernelOfImage(KernelImage image, const Source &source, const CompileOptions &options,
                               const Target &target);

/// Whether no field of the schedule of `source` is fixed. Measured plans and options.shapes apply only then.
bool leavesScheduleOpen(const Source &source, const CompileOptions &options);

/// The plan with which an image of a forward pass was compiled, or that of a backward pass's main kernel.
Plan planOf(const KernelImage &image);
/// The plans with which an image was compiled.
PassPlan passPlanOf(const KernelImage &image);
/// The features of an image's program that the cost model uses (planFeatures); "" where the source text had a schedule.
std::string featuresOf(const KernelImage &image);

/// `options` with every field of the schedule fixed.
CompileOptions withPlan(CompileOptions options, const Plan &plan);
/// `source` and `options` for compiling exactly `plan`.
std::pair<Source, CompileOptions> withPlan(Source source, CompileOptions options, const PassPlan &plan);

/// `options` of the backward pass that belongs to a forward pass with gradients; its schedule is open.
CompileOptions backwardOf(CompileOptions options);

/// Calls work(i) for each i in [0, count), started in this order, on as many threads as there are cores.
template <typename Work> void onAllCores(size_t count, Work &&work) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  ThreadPool(unsigned(std::clamp<size_t>(count, 1, cores))).run(count, 0, [&](size_t i, void *) { work(i); });
}

} // namespace attune::driver
