#include "tools/attune/RunLaunch.h"

#include "driver/Compiling.h"
#include "driver/Timing.h"
#include "runtime/CudaDriver.h"
#include "tools/reference/Memory.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <chrono>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;
using Clock = std::chrono::steady_clock;

namespace {
double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// The launch's arguments; `place` gives each tensor its memory.
template <typename Place>
LaunchArgs launchArgs(const RunFlags &flags, Device device, const RunData &data, Place &&place) {
  LaunchArgs args;
  auto view = [&](const HostTensor &tensor) {
    return Tensor::contiguous(place(tensor), tensor.dtype, tensor.shape, device);
  };
  if (data.operands.empty()) {
    args.q = view(data.q);
    args.k = view(data.launchedKeys());
    args.v = view(data.launchedValues());
    args.o = view(data.o);
    if (data.hasLse)
      args.lse = view(data.lse);
  }
  const std::map<std::string_view, Tensor *> members = {{"q", &args.q}, {"k", &args.k}, {"v", &args.v}, {"o", &args.o}};
  for (const auto *more : {&data.ofBackward, &data.saved, &data.operands})
    for (const auto &[name, tensor] : *more)
      if (const auto member = members.find(name); member != members.end())
        *member->second = view(tensor);
      else if (name == "lse")
        args.lse = view(tensor);
      else
        args.operands.push_back({name, view(tensor)});
  for (const auto &[name, tensor] : data.tensors)
    args.tensors.push_back({name, view(tensor)});
  for (const auto &[name, value] : data.scalars)
    args.scalars.push_back({name, reference::scalarValue(value)});
  args.seed = flags.seed;
  args.offset = flags.offset;
  args.qOffset = flags.qOffsetValue;
  return args;
}

/// Runs, leaves the results in data.results(), and gives the median time of a launch in milliseconds.
Expected<double> runOnCpu(const RunFlags &flags, const Kernel &kernel, RunData &data) {
  LaunchArgs args = hostArgs(flags, kernel.device(), data);
  args.workspaceBytes = kernel.workspaceBytes(args);
  Expected<std::vector<std::max_align_t>> workspace = hostWorkspace(args.workspaceBytes);
  if (!workspace)
    return workspace.error();
  args.workspace = workspace->data();
  auto launch = [&] { return flags.checked ? kernel.launchChecked(nullptr, args) : kernel.launch(nullptr, args); };
  auto begin = Clock::now();
  if (Expected<void> launched = launch(); !launched)
    return launched.error();
  args.keepTables = flags.keepTables;
  std::vector<double> times = {millisecondsSince(begin)};
  int repeats = flags.repeats ? flags.repeats : 5;
  double budget = flags.repeats ? 1e30 : 2000;
  if (repeats > 1 && times[0] < budget)
    times.clear(); // the first launch also touches the memory
  while (int(times.size()) < repeats && (times.empty() || millisecondsSince(begin) < budget)) {
    auto start = Clock::now();
    if (Expected<void> launched = launch(); !launched)
      return launched.error();
    times.push_back(millisecondsSince(start));
  }
  return driver::median(times);
}

/// The device's memory of each tensor of a run.
using DeviceBuffers = std::map<const HostTensor *, DeviceBuffer>;

Expected<DeviceBuffers> uploaded(const RunData &data) {
  DeviceBuffers buffers;
  std::vector<const HostTensor *> tensors;
  if (data.operands.empty())
    tensors = {&data.q, &data.launchedKeys(), &data.launchedValues(), &data.o, &data.lse};
  for (const auto *more : {&data.tensors, &data.ofBackward, &data.saved, &data.operands})
    for (const auto &[name, tensor] : *more)
      tensors.push_back(&tensor);
  for (const HostTensor *tensor : tensors) {
    Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(tensor->data.data(), tensor->bytes());
    if (!buffer)
      return buffer.error();
    buffers[tensor] = std::move(*buffer);
  }
  return buffers;
}

/// Copies what a launch wrote to `data`.
Expected<void> download(const DeviceBuffers &buffers, RunData &data) {
  std::vector<HostTensor *> written;
  for (auto [name, tensor] : data.results())
    written.push_back(tensor);
  for (auto &[name, tensor] : data.saved)
    written.push_back(&tensor);
  for (HostTensor *tensor : written)
    if (Expected<void> copied = buffers.at(tensor).copyToHost(tensor->data.data(), tensor->bytes()); !copied)
      return copied;
  return {};
}

/// The median time of a launch in milliseconds.
Expected<double> timeOnGpu(const RunFlags &flags, const Kernel &kernel, const Target &target, const LaunchArgs &args) {
  Expected<driver::LaunchTimer> timer = driver::LaunchTimer::create(target);
  if (!timer)
    return timer.error();
  std::vector<double> times;
  int repeats = flags.repeats ? flags.repeats : 20;
  for (int i = -3; i < repeats; ++i) {
    Expected<double> milliseconds = timer->milliseconds(kernel, args);
    if (!milliseconds)
      return milliseconds.error();
    if (i >= 0)
      times.push_back(*milliseconds);
  }
  return driver::median(times);
}

Expected<double> runOnGpu(const RunFlags &flags, const Kernel &kernel, const Target &target, RunData &data) {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  if (Expected<void> current = (*cuda)->makeCurrent(kernel.device().ordinal); !current)
    return current.error();
  Expected<DeviceBuffers> buffers = uploaded(data);
  if (!buffers)
    return buffers.error();
  Expected<CudaStream> stream = CudaStream::create();
  if (!stream)
    return stream.error();
  LaunchArgs args =
      launchArgs(flags, kernel.device(), data, [&](const HostTensor &tensor) { return buffers->at(&tensor).data(); });
  args.workspaceBytes = kernel.workspaceBytes(args);
  Expected<DeviceBuffer> workspace = DeviceBuffer::allocate(std::max<size_t>(args.workspaceBytes, 1));
  if (!workspace)
    return workspace.error();
  args.workspace = workspace->data();
  auto launch = [&] {
    return flags.checked ? kernel.launchChecked(stream->get(), args) : kernel.launch(stream->get(), args);
  };
  // What is checked is what later launches give.
  for (bool again : {false, true}) {
    if (again && !flags.keepTables)
      break;
    args.keepTables = again;
    if (Expected<void> launched = launch(); !launched)
      return launched.error();
  }
  if (Expected<void> finished = stream->synchronize(); !finished)
    return finished.error();
  if (Expected<void> copied = download(*buffers, data); !copied)
    return copied.error();
  return timeOnGpu(flags, kernel, target, args);
}
} // namespace

LaunchArgs attune::cli::hostArgs(const RunFlags &flags, Device device, const RunData &data) {
  return launchArgs(flags, device, data, [](const HostTensor &tensor) { return tensor.data.data(); });
}

Expected<std::vector<std::max_align_t>> attune::cli::hostWorkspace(size_t bytes) {
  reference::MemoryNeed need;
  need.add("tables of bounds", bytes);
  if (Expected<void> fits = need.fits("the launch's workspace", "make the shape smaller"); !fits)
    return fits.error();
  return std::vector<std::max_align_t>((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
}

Expected<double> attune::cli::runKernel(const RunFlags &flags, const Kernel &kernel, const Target &target,
                                        RunData &data) {
  return target.isCuda() ? runOnGpu(flags, kernel, target, data) : runOnCpu(flags, kernel, data);
}

Expected<driver::RaceTimes> attune::cli::timeKernels(const RunFlags &flags, const std::vector<Kernel> &kernels,
                                                     const Target &target, RunData &data,
                                                     const std::function<bool(bool)> &goes) {
  Expected<driver::LaunchTimer> timer = driver::LaunchTimer::create(target);
  if (!timer)
    return timer.error();
  DeviceBuffers buffers;
  DeviceBuffer workspace;
  std::vector<std::max_align_t> ownWorkspace;
  if (target.isCuda()) {
    Expected<DeviceBuffers> made = uploaded(data);
    if (!made)
      return made.error();
    buffers = std::move(*made);
  }
  std::vector<LaunchArgs> args;
  size_t most = 1;
  for (const Kernel &kernel : kernels) {
    args.push_back(launchArgs(flags, kernel.device(), data, [&](const HostTensor &tensor) -> void * {
      return target.isCuda() ? buffers.at(&tensor).data() : const_cast<std::byte *>(tensor.data.data());
    }));
    args.back().workspaceBytes = kernel.workspaceBytes(args.back());
    most = std::max(most, args.back().workspaceBytes);
  }
  if (target.isCuda()) {
    Expected<DeviceBuffer> made = DeviceBuffer::allocate(most);
    if (!made)
      return made.error();
    workspace = std::move(*made);
  } else {
    Expected<std::vector<std::max_align_t>> made = hostWorkspace(most);
    if (!made)
      return made.error();
    ownWorkspace = std::move(*made);
  }
  for (LaunchArgs &each : args)
    each.workspace = target.isCuda() ? workspace.data() : ownWorkspace.data();
  return driver::race(
      kernels.size(), [](size_t i) { return i == 0; },
      [&](size_t i) { return timer->milliseconds(kernels[i], args[i]); },
      [&](bool isFirst, size_t) { return goes(isFirst); });
}

Expected<double> attune::cli::runForward(const RunFlags &flags, const Request &request, const Target &target,
                                         RunData &data) {
  if (!request.variant)
    return Error{"the text does not say which variant's backward pass it is, so that there is no forward pass to run "
                 "before it; emit it from the variant"};
  CompileOptions options = request.options;
  options.dtype = data.q.dtype;
  options.backward = false;
  options.gradients.reset();
  options.cuda.reset();
  options.sramBudget = 0;
  assignSchedule(options, CompileOptions());
  // What the backward pass reads is decided.
  for (const auto &[name, tensor] : data.saved) {
    if (!options.gradients)
      options.gradients.emplace();
    options.gradients->saving.save.push_back(name.substr(savedPrefix.size()));
  }
  Expected<KernelImage> image = attune::compileImage(*request.variant, options, target);
  if (!image)
    return image.error();
  Expected<Kernel> kernel = driver::kernelOfImage(std::move(*image), {.variant = &*request.variant}, options, target);
  if (!kernel)
    return kernel.error();
  if (request.variant->hasDropout())
    kernel = kernel->withDropout(request.variant->dropoutProbability());
  RunFlags once = flags;
  if (!target.isCuda())
    once.repeats = 1;
  once.keepTables = false;
  std::map<std::string, HostTensor> ofBackward = std::move(data.ofBackward);
  data.ofBackward.clear();
  Expected<double> ran = runKernel(once, *kernel, target, data);
  data.ofBackward = std::move(ofBackward);
  return ran;
}
