#include "tests/gpu/Programs.h"

#include "runtime/CudaDriver.h"
#include "tests/kernels/RandomProgram.h"
#include "tests/numerics/CompileToRun.h"

#include <fmt/format.h>

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

/// On copies in device memory, which come back.
Expected<void> launchOnDevice(const Kernel &kernel, std::vector<HostOperand> &operands) {
  std::vector<DeviceBuffer> buffers;
  std::vector<void *> addresses;
  for (const HostOperand &operand : operands) {
    Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(operand.bytes.data(), operand.bytes.size());
    if (!buffer)
      return buffer.error();
    addresses.push_back(buffers.emplace_back(std::move(*buffer)).data());
  }
  LaunchArgs args = bindOperands(operands, addresses, kernel.device());
  args.workspaceBytes = kernel.workspaceBytes(args);
  const std::vector<float> workspace = poisoned(args.workspaceBytes);
  Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(workspace.data(), workspace.size() * 4);
  if (!buffer)
    return buffer.error();
  args.workspace = buffer->data();
  if (Expected<void> launched = kernel.launch(nullptr, args); !launched)
    return launched;
  for (size_t i = 0; i < operands.size(); ++i)
    if (Expected<void> copied = buffers[i].copyToHost(operands[i].bytes.data(), operands[i].bytes.size()); !copied)
      return copied;
  return {};
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
