#include "tests/gpu/Programs.h"

#include "runtime/CudaDriver.h"
#include "tests/kernels/RandomProgram.h"
#include "tests/numerics/CompileToRun.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
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

/// Milliseconds of a launch of the program at its problem, on a GPU.
static Expected<float> timeProgram(const tests::Program &program, Problem &problem, const Target &target) {
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

namespace {

/// A schedule of a program to time, and the program whose problem it is timed at.
struct Timed {
  Program schedule;
  const Program *of;
};

/// The file's schedule of the timed program with whose name its own begins; nothing where there is none.
std::optional<Timed> timedByFile(const std::string &path) {
  std::ifstream file(path);
  const std::string name = std::filesystem::path(path).stem().string();
  const Program *of = nullptr;
  for (const Program &one : programs())
    if (file && one.timed && name.starts_with(one.name) && (!of || one.name.size() > of->name.size()))
      of = &one;
  if (!of)
    return std::nullopt;
  Timed timed{*of, of};
  timed.schedule.name = name;
  timed.schedule.text.assign(std::istreambuf_iterator<char>(file), {});
  return timed;
}

} // namespace

static bool isRight(const Program &program, const Target &target) {
  for (const Sizes &sizes : program.sizes)
    if (Verdict verdict = checkProgram(program, sizes, target); !verdict.pass) {
      fmt::print("{}\n", verdict.text);
      return false;
    }
  return true;
}

int attune::tests::timePrograms(const Target &target, const std::vector<std::string> &texts) {
  int failed = 0;
  auto time = [&](const Program &program, Problem &problem) {
    Expected<float> milliseconds = timeProgram(program, problem, target);
    if (!milliseconds) {
      fmt::print("{}: {}\n", program.name, milliseconds.error().text());
      ++failed;
    }
    return milliseconds ? *milliseconds : NAN;
  };
  std::vector<Timed> timed;
  for (const Program &program : programs())
    if (texts.empty() && program.timed && program.runsOn(target.arch))
      timed.push_back({program, &program});
  for (const std::string &path : texts) {
    std::optional<Timed> one = timedByFile(path);
    if (!one)
      fmt::print("{}: no file that begins with the name of a program that is timed\n", path);
    if (one && isRight(one->schedule, target))
      timed.push_back(*one);
    else
      ++failed;
  }
  const Program *of = nullptr;
  Problem problem;
  for (const Timed &one : timed) {
    if (of != one.of)
      problem = one.of->problem(*one.of->timed);
    of = one.of;
    Program plain = one.schedule;
    plain.text = withoutSchedule(plain.text);
    const float ours = time(one.schedule, problem), other = time(plain, problem);
    fmt::print("{} {}: {:.3f} ms, without its schedule {:.3f} ms: {:.2f} times as fast\n", one.schedule.name,
               of->timed->text(), ours, other, other / ours);
  }
  return failed ? 1 : 0;
}
