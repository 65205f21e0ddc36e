#include "tests/gpu/GpuTests.h"

#include "tests/golden/Edits.h"
#include "tests/gpu/Graph.h"
#include "tests/gpu/Programs.h"
#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/Cases.h"
#include "tests/numerics/CompileToRun.h"
#include "tests/numerics/GradientCases.h"

#include "runtime/CudaDriver.h"
#include "tools/reference/Philox.h"
#include "tools/reference/RandomVariant.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <thread>

using namespace attune;
using namespace attune::tests;

namespace {

struct Settings {
  std::string arch; ///< another architecture that the device runs
  std::string filter;
  bool sanitize = false;
  bool time = false;              ///< programs with a schedule of their own beside the same without
  std::vector<std::string> texts; ///< files with other schedules of these programs, to check and time
  bool cpu = false;               ///< run on the CPU target instead, to try this program without a GPU
  bool verbose = false;
  unsigned threads = 0;
  size_t part = 1, parts = 1; ///< every parts-th case, from this one on
  int randomCases = 150;
  uint64_t seed = 0;
};

/// One thing to run; several threads do at once.
struct Job {
  std::string group;
  std::function<Verdict(const Target &)> run;
  std::function<std::string()> label = {}; ///< how its line begins, known before it runs; or nothing
};

std::string message(const Error &error) {
  std::string text = error.text();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Many jobs run at once, so each evaluates its reference alone.
Case alone(Case test) {
  test.problem.threads = 1;
  return test;
}

Job jobOf(const std::string &group, std::function<Case()> make) {
  return {group, [make](const Target &target) { return check(alone(make()), target); },
          [make] { return make().describe(); }};
}

/// The backward passes of the cases whose normalisers have gradients.
void addBackward(std::vector<Job> &jobs) {
  for (const Group &group : groups(true))
    for (const std::function<Case()> &make : group.cases)
      jobs.push_back({"backward",
                      [make](const Target &target) {
                        Case test = alone(make());
                        test.options.packGqa = test.options.splitKeys = {}; // the forward pass's alone
                        if (test.variant->keyLengths() || test.variant->queryLengths() || test.variant->keyPages())
                          return Verdict{true, test.describe() + ": of the forward pass alone", 0};
                        return test.reference ? Verdict{true, test.describe() + ": no gradient of its normaliser", 0}
                                              : checkBackward(test, target);
                      },
                      [make] { return make().describe(); }});
  for (const std::vector<std::function<Asked()>> &cases : {gradientCases(), savingCases()})
    for (const std::function<Asked()> &make : cases)
      jobs.push_back({"backward",
                      [make](const Target &target) {
                        const Asked asked = make();
                        return checkBackward(alone(asked.test), target, asked.gradients);
                      },
                      [make] { return make().test.describe(); }});
  for (const Reader &reader : scatteredReaders())
    for (const Shape &shape : gradientShapes())
      jobs.push_back({"backward", [=](const Target &target) {
                        Asked asked = testOf(reader, Variant("ordered").score(reader.score), bf16, shape, 7);
                        asked.gradients.deterministic = true;
                        return checkBackward(alone(asked.test), target, asked.gradients);
                      }});
}

//===----------------------------------------------------------------------===//
// What only a GPU is asked
//===----------------------------------------------------------------------===//

/// Schedules other than the chosen ones. A schedule that does not fit is no failure, but is reported; at least
/// eight have to run.
struct Schedules {
  std::atomic<int> ran = 0, refused = 0;
};

void addSchedules(std::vector<Job> &jobs, const std::shared_ptr<Schedules> &schedules) {
  struct Given {
    int tileQ, tileK, warps, stages;
    bool qRegisters;
    int dvWarps = 1;
  };
  const Given given[] = {{64, 32, 4, 1, false},
                         {64, 32, 4, 2, true},
                         {64, 64, 4, 1, true},
                         {64, 64, 4, 2, false},
                         {64, 64, 4, 3, true},
                         {64, 128, 4, 1, false},
                         {128, 32, 4, 2, true},
                         {128, 64, 4, 2, false},
                         {128, 64, 8, 1, true},
                         {128, 64, 8, 2, false},
                         {128, 32, 8, 3, true},
                         {128, 128, 8, 1, false},
                         {64, 16, 4, 2, true},
                         {64, 48, 4, 2, false},
                         {32, 64, 2, 2, false},
                         {256, 64, 8, 2, false},
                         {64, 32, 8, 1, false, 2},
                         {64, 64, 8, 2, true, 2},
                         {128, 32, 8, 2, false, 2},
                         {32, 32, 4, 2, true, 2},
                         {32, 16, 8, 3, false, 4},
                         {16, 64, 4, 1, false, 4},
                         {32, 48, 4, 2, false, 4},
                         // warpgroups of 64 rows
                         {64, 16, 4, 8, false},
                         {64, 128, 4, 3, false},
                         {64, 176, 4, 2, false},
                         {128, 32, 8, 4, false},
                         {128, 80, 8, 2, false},
                         {128, 128, 8, 2, false},
                         {192, 16, 12, 3, false},
                         {192, 48, 12, 2, false},
                         {256, 64, 16, 3, false},
                         {256, 16, 16, 2, false}};
  for (const Given &plan : given)
    for (int dim : {64, 128})
      for (DType dtype : {bf16, f32})
        jobs.push_back({"schedules", [=](const Target &target) {
                          Case test = alone(makeCase(
                              "schedule",
                              Variant("busy")
                                  .mask(causal())
                                  .score(softcap(20) | alibi(captured("slopes", f32, rank(1))))
                                  .dropout(0.1f),
                              dtype,
                              {.batch = 1, .heads = 4, .headsKv = 2, .queries = 333, .keys = 300, .headDim = dim}, 6));
                          test.options.tileQ = plan.tileQ;
                          test.options.tileK = plan.tileK;
                          test.options.warps = plan.warps;
                          test.options.stages = plan.stages;
                          test.options.qRegisters = plan.qRegisters;
                          test.options.dvWarps = plan.dvWarps;
                          Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
                          if (!kernel) {
                            ++schedules->refused;
                            bool fits = kernel.error().message.find("internal") != std::string::npos ||
                                        kernel.error().message.find("nvrtc") != std::string::npos ||
                                        kernel.error().message.find("NVRTC") != std::string::npos;
                            return Verdict{!fits, "refused: " + test.describe() + ": " + message(kernel.error()), 0};
                          }
                          schedules->ran += dtype == bf16; // f32 has the same products on every architecture
                          Expected<Expectation> expected = expect(test);
                          if (!expected)
                            return Verdict{false, message(expected.error()), 0};
                          return judge(test, *expected, run(*kernel, test));
                        }});
}

/// Text of tile and sched IR, edited by hand, has to give other CUDA and the same results.
void addEdits(std::vector<Job> &jobs) {
  for (const Edit &edit : textEdits())
    jobs.push_back({"edited-text", [=](Target target) {
                      if (target.arch == "sm_90a") // the edits are those of warp-level products
                        target.arch = "sm_90";
                      Case test = alone(makeCase(
                          "edit " + edit.name, edit.variant(), bf16,
                          {.batch = 2, .heads = 4, .headsKv = 2, .queries = 333, .keys = 300, .headDim = 64}, 6));
                      Expected<std::string> text = emit(*test.variant, editOptions(), target, edit.stage);
                      if (!text)
                        return Verdict{false, test.describe() + ": " + message(text.error()), 0};
                      std::string edited = editText(edit, *text);
                      if (edited == *text)
                        return Verdict{false, test.describe() + ": the edit finds nothing to change", 0};
                      Expected<Kernel> kernel = compileToRun({edited, edit.name + ".mlir"}, target);
                      if (!kernel)
                        return Verdict{false, test.describe() + ": " + message(kernel.error()), 0};
                      Expected<Expectation> expected = expect(test);
                      if (!expected)
                        return Verdict{false, message(expected.error()), 0};
                      return judge(test, *expected, run(*kernel, test));
                    }});
}

/// The dropout pattern from the GPU's own output is that of the formula and of the CPU target; so is the number kept.
void addDropoutPatterns(std::vector<Job> &jobs) {
  for (DType dtype : {bf16, f16, f32})
    for (int dim : {32, 64, 128, 512})
      for (float p : {0.1f, 0.5f})
        jobs.push_back(
            {"dropout-pattern", [=](const Target &target) {
               Case test = alone(
                   makeCase(fmt::format("pattern of {}", p), Variant("dropped").dropout(p), dtype,
                            {.batch = 2, .heads = 6, .headsKv = 2, .queries = 239, .keys = 333, .headDim = dim}, 9));
               test.problem.seed = 0xfedcba9876543210ULL;
               test.problem.offset = 0x8000000000000001ULL;
               test.layout.seedPointers = dim == 64;
               Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
               if (!kernel)
                 return Verdict{false, test.describe() + ": " + message(kernel.error()), 0};
               Expected<std::vector<uint8_t>> keep = recoverKeep(*kernel, test);
               if (!keep)
                 return Verdict{false, test.describe() + ": " + message(keep.error()), 0};
               std::vector<uint8_t> formula = formulaKeep(test);
               int64_t wrong = 0;
               double kept = 0;
               for (size_t i = 0; i < formula.size(); ++i) {
                 wrong += formula[i] != (*keep)[i];
                 kept += (*keep)[i];
               }
               // Binomial: five standard deviations.
               uint32_t threshold = reference::dropThreshold(p);
               double rate = 1 - threshold / 65536.0, count = double(keep->size());
               double sigma = std::abs(kept / count - rate) / std::sqrt(rate * (1 - rate) / count);
               int64_t cpuWrong = 0;
               if (dim == 32) {
                 Expected<Kernel> cpu = compile(*test.variant, optionsOf(test), Target::cpu());
                 if (!cpu)
                   return Verdict{false, test.describe() + ": cpu: " + message(cpu.error()), 0};
                 Expected<std::vector<uint8_t>> onCpu = recoverKeep(*cpu, test);
                 if (!onCpu)
                   return Verdict{false, test.describe() + ": cpu: " + message(onCpu.error()), 0};
                 for (size_t i = 0; i < keep->size(); ++i)
                   cpuWrong += (*onCpu)[i] != (*keep)[i];
               }
               return Verdict{
                   wrong == 0 && cpuWrong == 0 && sigma < 5,
                   fmt::format(
                       "{}: {} of {} differ from the formula, {} from the CPU; kept {:.5f} of {:.5f}, {:.1f} sigma",
                       test.describe(), wrong, keep->size(), cpuWrong, kept / count, rate, sigma),
                   sigma / 5};
             }});
}

/// Two launches give the same bits; so does a launch in a fresh buffer.
void addRepeats(std::vector<Job> &jobs) {
  for (int dim : {64, 128, 512})
    jobs.push_back(
        {"repeats", [=](const Target &target) {
           Case test = alone(dropoutCase(
               bf16, {.batch = 2, .heads = 4, .headsKv = 2, .queries = 640, .keys = 1000, .headDim = dim}, 0.1f, 8));
           Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
           if (!kernel)
             return Verdict{false, test.describe() + ": " + message(kernel.error()), 0};
           Expected<Results> first = run(*kernel, test);
           if (!first)
             return Verdict{false, test.describe() + ": " + message(first.error()), 0};
           for (int i = 0; i < 10; ++i) {
             Expected<Results> next = run(*kernel, test);
             if (!next || next->o.data != first->o.data || next->lse.data != first->lse.data)
               return Verdict{false, fmt::format("{}: launch {} gave other bits", test.describe(), i + 2), 0};
           }
           return Verdict{true, test.describe() + ": 11 launches gave the same bits", 0};
         }});
  for (int dim : {64, 128})
    jobs.push_back(
        {"repeats", [=](const Target &target) {
           return checkRepeats(
               alone(dropoutCase(bf16,
                                 {.batch = 2, .heads = 6, .headsKv = 2, .queries = 640, .keys = 1000, .headDim = dim},
                                 0.1f, 8)),
               target, 20);
         }});
  for (const Reader &reader : scatteredReaders())
    jobs.push_back({"repeats", [=](const Target &target) {
                      const Shape shape{
                          .batch = 2, .heads = 6, .headsKv = 2, .queries = 380, .keys = 390, .headDim = 64};
                      const Asked asked = testOf(reader, Variant("repeats").score(reader.score), bf16, shape, 9);
                      return checkRepeats(alone(asked.test), target, 20, asked.gradients.tensors);
                    }});
}

void addSkippedTiles(std::vector<Job> &jobs) {
  for (DType dtype : {bf16, f16, f32})
    for (int dim : {64, 128})
      jobs.push_back({"bounds", [=](const Target &target) { return checkSkippedTiles(target, dtype, dim); }});
}

/// A captured launch reads its addresses anew in each replay.
void addGraphs(std::vector<Job> &jobs) {
  const Shape shape = {.batch = 2, .heads = 4, .headsKv = 2, .queries = 333, .keys = 300};
  for (int dim : {64, 128, 256})
    for (DType dtype : {bf16, f16, f32})
      for (bool dropped : {false, true}) {
        if (dtype == f32 && dim == 256)
          continue; // takes a GPU compiler long
        jobs.push_back({"graphs", [=](const Target &target) {
                          std::vector<Case> problems;
                          for (uint64_t seed : {3, 4, 3}) {
                            Variant variant =
                                Variant("captured").mask(causal()).score(alibi(captured("slopes", f32, rank(1))));
                            if (dropped)
                              variant = std::move(variant).dropout(0.1f);
                            Shape sized = shape;
                            sized.headDim = dim;
                            problems.push_back(alone(makeCase("graph", std::move(variant), dtype, sized, seed)));
                          }
                          return checkGraph(problems, target);
                        }});
      }
  for (DType dtype : {bf16, f32})
    for (int dim : {64, 128})
      jobs.push_back({"graphs", [=](const Target &target) { return checkGraphDropout(dtype, dim, target); }});
}

/// Tile text of other programs than attention's forward pass.
void addPrograms(std::vector<Job> &jobs, const Target &target, int randomPrograms, uint64_t seed) {
  for (const Program &program : programs())
    for (const Sizes &sizes : program.runsOn(target.arch) ? program.sizes : std::vector<Sizes>())
      jobs.push_back(
          {"kernels", [&program, sizes](const Target &target) { return checkProgram(program, sizes, target); }});
  for (int i = 0; i < randomPrograms; ++i)
    jobs.push_back(
        {"random kernels", [=](const Target &target) { return checkRandomProgram(seed + uint64_t(i), target); }});
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

struct Tally {
  int cases = 0, failed = 0;
  double worst = 0;
};

/// "2/3"; false where it is no such part.
bool readPart(const char *text, Settings &settings) {
  int end = 0;
  return std::sscanf(text, "%zu/%zu%n", &settings.part, &settings.parts, &end) == 2 && !text[end] &&
         settings.part >= 1 && settings.part <= settings.parts;
}

int usage(const char *problem) {
  fmt::print(
      stderr,
      "{}\nusage: attune-tests [--filter TEXT] [--part I/N] [--sanitize] [--arch ARCH] [--threads N] [--random N] "
      "[--seed N] [--verbose] [--time] [--text FILE] [--cpu]\n",
      problem);
  return 2;
}

} // namespace

int attune::tests::gpuTestsMain(int argc, char **argv) {
  Settings settings;
  settings.seed = uint64_t(std::chrono::system_clock::now().time_since_epoch().count()) / 1000 % 1000000000;
  if (const char *seed = std::getenv("ATTUNE_SEED"))
    settings.seed = std::strtoull(seed, nullptr, 0);
  if (const char *count = std::getenv("ATTUNE_RANDOM_CASES"))
    settings.randomCases = std::atoi(count);
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    bool hasValue = i + 1 < argc;
    if (flag == "--sanitize")
      settings.sanitize = true;
    else if (flag == "--cpu")
      settings.cpu = true;
    else if (flag == "--time")
      settings.time = true;
    else if (flag == "--text" && hasValue)
      settings.texts.push_back(argv[++i]);
    else if (flag == "--verbose")
      settings.verbose = true;
    else if (flag == "--filter" && hasValue)
      settings.filter = argv[++i];
    else if (flag == "--part" && hasValue && readPart(argv[i + 1], settings))
      ++i;
    else if (flag == "--arch" && hasValue)
      settings.arch = argv[++i];
    else if (flag == "--threads" && hasValue)
      settings.threads = unsigned(std::atoi(argv[++i]));
    else if (flag == "--random" && hasValue)
      settings.randomCases = std::atoi(argv[++i]);
    else if (flag == "--seed" && hasValue)
      settings.seed = std::strtoull(argv[++i], nullptr, 0);
    else
      return usage(fmt::format("unknown flag, or a flag without its value: {}", flag).c_str());
  }

  Target target = settings.cpu ? Target::cpu() : Target::detect();
  if (!target.isCuda() && !settings.cpu) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    fmt::print("no GPU to test on: {}\n", cuda ? "its architecture has no kernels" : message(cuda.error()));
    return std::getenv("ATTUNE_EXPECT_GPU") ? 1 : 77;
  }
  std::string device = "CPU";
  if (target.isCuda()) {
    Expected<CudaDeviceInfo> info = (*cudaDriver())->device(target.device);
    if (!info) {
      fmt::print("{}\n", message(info.error()));
      return 1;
    }
    device = info->name;
    if (!settings.arch.empty()) {
      if (architectureToRun(settings.arch, target.device).empty()) {
        fmt::print("{} does not run on {}\n", settings.arch, device);
        return 77;
      }
      target.arch = settings.arch;
    }
  }
  fmt::print("{} as {}, random seed {}\n", device, target.text(), settings.seed);

  if (settings.time || !settings.texts.empty())
    return timePrograms(target, settings.texts);

  auto schedules = std::make_shared<Schedules>();
  std::vector<Job> jobs;
  if (settings.sanitize) {
    for (const std::function<Case()> &make : smallGroup().cases)
      jobs.push_back(jobOf("small", make));
    addPrograms(jobs, target, /*randomPrograms=*/8, /*seed=*/0);
  } else {
    for (const Group &group : groups(true))
      for (const std::function<Case()> &make : group.cases)
        jobs.push_back(jobOf(group.name, make));
    addBackward(jobs);
    if (target.isCuda()) {
      addSchedules(jobs, schedules);
      addEdits(jobs);
      addGraphs(jobs);
    }
    addDropoutPatterns(jobs);
    addRepeats(jobs);
    addSkippedTiles(jobs);
    addPrograms(jobs, target, settings.randomCases / 3, settings.seed);
    for (int i = 0; i < settings.randomCases; ++i)
      jobs.push_back(jobOf("random", [seed = settings.seed + uint64_t(i)] { return randomCase(seed); }));
  }

  // A filter names a group, or else a part of the case's line.
  bool filtersGroup = false;
  for (const Job &job : jobs)
    filtersGroup |= job.group == settings.filter;
  if (filtersGroup)
    std::erase_if(jobs, [&](const Job &job) { return job.group != settings.filter; });

  const size_t allCases = jobs.size();
  size_t number = 0;
  std::erase_if(jobs, [&](const Job &) { return number++ % settings.parts != settings.part - 1; });
  if (settings.parts > 1)
    fmt::print("part {} of {}: {} of {} cases\n", settings.part, settings.parts, jobs.size(), allCases);
  std::fflush(stdout);

  unsigned threads = settings.threads ? settings.threads : std::max(1u, std::thread::hardware_concurrency());
  std::map<std::string, Tally> tallies;
  std::vector<std::string> order;
  for (const Job &job : jobs)
    if (tallies.try_emplace(job.group).second)
      order.push_back(job.group);
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  auto begin = std::chrono::steady_clock::now();
  const bool filtersLines = !filtersGroup && !settings.filter.empty();
  auto work = [&] {
    for (size_t at; (at = next++) < jobs.size();) {
      const Job &job = jobs[at];
      if (filtersLines && job.label && job.label().find(settings.filter) == std::string::npos)
        continue;
      Verdict verdict = job.run(target);
      if (filtersLines && verdict.text.find(settings.filter) == std::string::npos)
        continue;
      std::lock_guard lock(mutex);
      Tally &tally = tallies[job.group];
      ++tally.cases;
      tally.failed += !verdict.pass;
      if (std::isfinite(verdict.ratio))
        tally.worst = std::max(tally.worst, verdict.ratio);
      if (!verdict.pass || settings.verbose) {
        fmt::print("{} {}: {}\n", verdict.pass ? "pass" : "FAIL", job.group, verdict.text);
        std::fflush(stdout);
      }
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i)
    workers.emplace_back(work);
  for (std::thread &worker : workers)
    worker.join();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  Tally all;
  fmt::print("\n{:<18} {:>6} {:>6}  {}\n", "group", "cases", "failed", "worst error / limit");
  for (const std::string &name : order) {
    const Tally &tally = tallies[name];
    if (!tally.cases)
      continue;
    fmt::print("{:<18} {:>6} {:>6}  {:.2f}\n", name, tally.cases, tally.failed, tally.worst);
    all.cases += tally.cases;
    all.failed += tally.failed;
  }
  fmt::print("{:<18} {:>6} {:>6}  in {:.1f} s on {} threads\n", "all", all.cases, all.failed, seconds, threads);
  bool ranSchedules = target.isCuda() && std::find(order.begin(), order.end(), "schedules") != order.end() &&
                      settings.filter.empty() && settings.parts == 1;
  if (ranSchedules)
    fmt::print("schedules: {} ran, {} refused\n", schedules->ran.load(), schedules->refused.load());
  if (ranSchedules && schedules->ran < 8) {
    fmt::print("FAIL schedules: fewer than eight ran\n");
    return 1;
  }
  return all.failed || !all.cases ? 1 : 0;
}
