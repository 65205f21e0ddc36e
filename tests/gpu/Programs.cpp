#include "tests/gpu/Programs.h"

#include "runtime/CudaDriver.h"
#include "tests/kernels/RandomProgram.h"
#include "tests/numerics/CompileToRun.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <regex>

using namespace attune;
using namespace attune::tests;

namespace {

/// The workspace of a launch, poisoned, in host memory.
std::vector<float> poisoned(size_t bytes) { return std::vector<float>(bytes / 4 + 4, NAN); }

void *aligned(void *address) { return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(address) + 15) / 16 * 16); }

Expected<void> launchOnHost(const Kernel &kernel, std::vector<HostOperand> &operands) {
  LaunchArgs args = bindOperands(operands);
  args.workspaceBytes = kernel.workspaceBytes(args);
  std::vector<float> workspace = poisoned(args.workspaceBytes);
  args.workspace = aligned(workspace.data());
  return kernel.launch(nullptr, args);
}

/// Operands of a launch in device memory.
struct OnDevice {
  std::vector<DeviceBuffer> buffers;
  DeviceBuffer workspace;
  LaunchArgs args;

  static Expected<OnDevice> copyOf(const Kernel &kernel, const std::vector<HostOperand> &operands) {
    OnDevice device;
    std::vector<void *> addresses;
    for (const HostOperand &operand : operands) {
      Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(operand.bytes.data(), operand.bytes.size());
      if (!buffer)
        return buffer.error();
      addresses.push_back(device.buffers.emplace_back(std::move(*buffer)).data());
    }
    device.args = bindOperands(operands, addresses, kernel.device());
    device.args.workspaceBytes = kernel.workspaceBytes(device.args);
    const std::vector<float> workspace = poisoned(device.args.workspaceBytes);
    Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(workspace.data(), workspace.size() * 4);
    if (!buffer)
      return buffer.error();
    device.workspace = std::move(*buffer);
    device.args.workspace = device.workspace.data();
    return device;
  }
};

/// On copies in device memory, which come back.
Expected<void> launchOnDevice(const Kernel &kernel, std::vector<HostOperand> &operands) {
  Expected<OnDevice> device = OnDevice::copyOf(kernel, operands);
  if (!device)
    return device.error();
  if (Expected<void> launched = kernel.launch(nullptr, device->args); !launched)
    return launched;
  for (size_t i = 0; i < operands.size(); ++i)
    if (Expected<void> copied = device->buffers[i].copyToHost(operands[i].bytes.data(), operands[i].bytes.size());
        !copied)
      return copied;
  return {};
}

/// The median of `count` launches, by events, behind three that warm up.
Expected<float> medianMilliseconds(const Kernel &kernel, const LaunchArgs &args, int count) {
  Expected<CudaStream> stream = CudaStream::create();
  Expected<CudaEvent> begin = CudaEvent::create(), end = CudaEvent::create();
  if (!stream || !begin || !end)
    return (!stream ? stream.error() : !begin ? begin.error() : end.error());
  std::vector<float> times;
  for (int i = 0; i < 3 + count; ++i) {
    for (const std::function<Expected<void>()> &step :
         {std::function<Expected<void>()>([&] { return begin->record(stream->get()); }),
          std::function<Expected<void>()>([&] { return kernel.launch(stream->get(), args); }),
          std::function<Expected<void>()>([&] { return end->record(stream->get()); }),
          std::function<Expected<void>()>([&] { return end->synchronize(); })})
      if (Expected<void> done = step(); !done)
        return done.error();
    Expected<float> milliseconds = end->millisecondsSince(*begin);
    if (!milliseconds)
      return milliseconds.error();
    if (i >= 3)
      times.push_back(*milliseconds);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Compiles the text and runs it on `operands`; the error's text, or "".
std::string runProgram(const tests::Program &program, const Target &target, std::vector<HostOperand> &operands) {
  Expected<Kernel> kernel = compileToRun({program.text, program.name + ".mlir"}, target);
  if (!kernel)
    return kernel.error().text();
  Expected<void> ran = target.isCuda() ? launchOnDevice(*kernel, operands) : launchOnHost(*kernel, operands);
  return ran ? "" : ran.error().text();
}

} // namespace

Verdict attune::tests::checkProgram(const tests::Program &program, const Sizes &sizes, const Target &target) {
  Problem problem = program.problem(sizes);
  std::string fault = runProgram(program, target, problem.operands);
  if (fault.empty())
    fault = problem.check(problem.operands);
  return {fault.empty(), fmt::format("{} {} {}", program.name, sizes.text(), fault)};
}

Verdict attune::tests::checkRandomProgram(uint64_t seed, const Target &target) {
  const tests::Program program = randomProgram(seed);
  Problem expected = program.problem(program.sizes.front()), given = expected;
  std::string fault = runProgram(program, Target::cpu(), expected.operands);
  if (fault.empty())
    fault = runProgram(program, target, given.operands);
  if (fault.empty())
    fault = difference(expected.operands, given.operands, 2e-2);
  return {fault.empty(), fmt::format("random program, seed {} {}", seed, fault)};
}

Expected<float> attune::tests::timeProgram(const tests::Program &program, const Target &target) {
  Problem problem = program.problem(*program.timed);
  Expected<Kernel> kernel = compileToRun({program.text, program.name + ".mlir"}, target);
  if (!kernel)
    return kernel.error();
  Expected<OnDevice> device = OnDevice::copyOf(*kernel, problem.operands);
  if (!device)
    return device.error();
  return medianMilliseconds(*kernel, device->args, 20);
}

/// All warps copy, and products run where they stand.
static std::string withoutSchedule(const std::string &text) {
  static const std::regex schedule("( attributes)? \\{sched\\.[^}]*\\}");
  return std::regex_replace(text, schedule, "");
}

int attune::tests::timePrograms(const Target &target) {
  int failed = 0;
  auto time = [&](const tests::Program &program) {
    Expected<float> milliseconds = timeProgram(program, target);
    if (!milliseconds) {
      fmt::print("{}: {}\n", program.name, milliseconds.error().text());
      ++failed;
    }
    return milliseconds ? *milliseconds : NAN;
  };
  for (const tests::Program &scheduled : programs()) {
    if (!scheduled.timed || !scheduled.runsOn(target.arch))
      continue;
    tests::Program plain = scheduled;
    plain.text = withoutSchedule(plain.text);
    const float ours = time(scheduled), other = time(plain);
    fmt::print("{} {}: {:.3f} ms, without its schedule {:.3f} ms: {:.2f} times as fast\n", scheduled.name,
               scheduled.timed->text(), ours, other, other / ours);
  }
  return failed ? 1 : 0;
}
