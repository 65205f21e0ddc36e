//===- KernelsTest.cpp - Hand-written programs on the CPU and in the simulator ---===//

#include "kernels/Kernels.h"
#include "kernels/RandomProgram.h"

#include "attune/Compile.h"
#include "attune/Simulate.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace attune;
using namespace attune::tests;

namespace {

/// Runs `launch` on each problem of each program.
template <typename Prepare> void runAll(const std::string &arch, Prepare prepare) {
  for (const Program &program : programs()) {
    if (!program.runsOn(arch))
      continue;
    INFO(program.name);
    auto launch = prepare(program);
    for (const Sizes &sizes : program.sizes) {
      INFO(sizes.text());
      Problem problem = program.problem(sizes);
      LaunchArgs args = bindOperands(problem.operands);
      if (Expected<void> ran = launch(args); !ran)
        FAIL(ran.error().text());
      CHECK(problem.check(problem.operands) == "");
    }
  }
}

/// Memory for a launch's workspace, poisoned, at an address that is a multiple of 16.
struct Workspace {
  explicit Workspace(size_t bytes) : memory(bytes / 4 + 4, NAN) {}
  void *start() { return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16); }
  std::vector<float> memory;
};

} // namespace

TEST_CASE("hand-written programs are right on the CPU target", "[kernels]") {
  runAll("", [](const Program &program) {
    Expected<Kernel> kernel = compileFromText({program.text, program.name + ".mlir"}, {}, Target::cpu());
    if (!kernel)
      FAIL(kernel.error().text());
    return [kernel = *kernel](LaunchArgs &args) {
      Workspace workspace(kernel.workspaceBytes(args));
      args.workspace = workspace.start();
      args.workspaceBytes = kernel.workspaceBytes(args);
      return kernel.launch(nullptr, args);
    };
  });
}

TEST_CASE("hand-written programs are right in the simulator", "[kernels]") {
  for (const char *arch : {"sm_80", "sm_90", "sm_90a"}) {
    INFO(arch);
    runAll(arch, [&](const Program &program) {
      Expected<std::string> text =
          emitFromText({program.text, program.name + ".mlir"}, {}, Target::cuda(arch), Stage::Sched);
      if (!text)
        FAIL(text.error().text());
      Expected<Simulation> simulation = Simulation::load({*text, program.name + ".sched.mlir"});
      if (!simulation)
        FAIL(simulation.error().text());
      return [simulation = *simulation, seed = uint64_t(0)](LaunchArgs &args) mutable {
        Workspace workspace(simulation.workspaceBytes(args));
        args.workspace = workspace.start();
        args.workspaceBytes = simulation.workspaceBytes(args);
        return simulation.run(args, {.seed = seed++});
      };
    });
  }
}

TEST_CASE("random programs give in the simulator what they give on the CPU target", "[random]") {
  const uint64_t first = std::getenv("ATTUNE_SEED") ? std::strtoull(std::getenv("ATTUNE_SEED"), nullptr, 10) : 0,
                 count = std::getenv("ATTUNE_COUNT") ? std::strtoull(std::getenv("ATTUNE_COUNT"), nullptr, 10) : 60;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Program program = randomProgram(seed);
    INFO("seed " << seed << "\n" << program.text);
    Problem expected = program.problem(program.sizes.front()), given = expected;
    Expected<Kernel> kernel = compileFromText({program.text, "random.mlir"}, {}, Target::cpu());
    REQUIRE((kernel ? "" : kernel.error().text()) == "");
    Expected<void> ran = kernel->launch(nullptr, bindOperands(expected.operands));
    REQUIRE((ran ? "" : ran.error().text()) == "");
    const char *arch = seed % 2 ? "sm_90a" : "sm_80";
    Expected<std::string> text = emitFromText({program.text, "random.mlir"}, {}, Target::cuda(arch), Stage::Sched);
    // Few programs take more than sm_80 has.
    if (!text && text.error().text().find("bytes of shared memory") != std::string::npos)
      continue;
    REQUIRE((text ? "" : text.error().text()) == "");
    Expected<Simulation> simulation = Simulation::load({*text, "random.sched.mlir"});
    REQUIRE((simulation ? "" : simulation.error().text()) == "");
    Expected<void> simulated = simulation->run(bindOperands(given.operands), {.seed = seed});
    REQUIRE((simulated ? "" : simulated.error().text()) == "");
    CHECK(difference(expected.operands, given.operands, 2e-2) == "");
    if (seed % 10 > 1) // NVRTC takes longer than all else
      continue;
    Expected<std::string> cubin = emitFromText({program.text, "random.mlir"}, {}, Target::cuda(arch), Stage::Cubin);
    CHECK((cubin ? "" : cubin.error().text()) == "");
  }
}

TEST_CASE("hand-written programs compile for every architecture", "[kernels]") {
  for (const Program &program : programs())
    for (const char *arch : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"}) {
      if (!program.runsOn(arch))
        continue;
      INFO(program.name << " " << arch);
      Expected<std::string> cubin =
          emitFromText({program.text, program.name + ".mlir"}, {}, Target::cuda(arch), Stage::Cubin);
      CHECK((cubin ? "" : cubin.error().text()) == "");
    }
}
