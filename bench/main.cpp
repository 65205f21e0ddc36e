//===- main.cpp - attune-bench -----------------------------------------------===//
//
//     attune-bench                          every case on the GPU; one JSON object a line
//     attune-bench --groups variants,bias --filter d64
//     attune-bench --candidates             the cost model's choice among its best plans
//     attune-bench --cpu --host             the CPU target, and what the host pays
//     attune-bench --compile-only --target sm_90    registers and spills, without a GPU
//
// bench/run runs this and the peers, and prints the tables of docs/measurements.
//
//===----------------------------------------------------------------------===//

#include "bench/Bench.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace attune;

void bench::print(const ordered_json &row) {
  std::printf("%s\n", row.dump().c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) { // rows that get lost are not worth the time
    std::perror("error: standard output cannot be written");
    std::_Exit(1);
  }
}

void bench::inParallel(size_t count, const std::function<void(size_t)> &job) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back([&] {
      for (size_t mine; (mine = next++) < count;)
        job(mine);
    });
  for (std::thread &thread : threads)
    thread.join();
}

namespace {
struct Arguments {
  bench::Options options;
  std::string target, compileOnce;
  bool list = false, candidates = false, cpu = false, host = false, keepL2 = false;
  int64_t length = 1024;
};

void addArguments(CLI::App &app, Arguments &given) {
  app.add_flag("--list", given.list, "print the cases");
  app.add_flag("--candidates", given.candidates, "time the best candidates of the cost model for every case");
  app.add_option("--count", given.options.candidates, "candidates of a case (12)")->check(CLI::Range(1, 1000));
  app.add_flag("--cpu", given.cpu, "the CPU target against plain loops");
  app.add_option("--cpu-length", given.length, "queries and keys for --cpu (1024)")->check(CLI::Range(1, 1 << 20));
  app.add_flag("--host", given.host, "launches and their checks, compiling again, new processes");
  app.add_flag("--compile-only", given.options.compileOnly,
               "compile every case and print its resources; with --candidates, list them");
  app.add_option("--filter", given.options.filter, "only cases whose name holds this text");
  app.add_option("--groups", given.options.groups, "only cases of these groups, with commas")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::groups()));
  app.add_option("--target", given.target, "cpu, gpu, sm_90, ... (the machine's GPU)");
  app.add_option("--path", given.options.expectedPath,
                 "the path that kernels must run by (wgmma on sm_90a, else mma.sync)");
  app.add_flag("--keep-l2", given.keepL2, "do not clear L2 before every timed launch");
  app.add_option("--milliseconds", given.options.milliseconds, "to spend on timing a row (200)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--compile-once", given.compileOnce, "compile one variant with this cache folder (for --host)");
  app.footer("Example: attune-bench --groups plain --filter d128");
}

/// Options that follow from others.
Expected<void> settle(Arguments &given) {
  bench::Options &options = given.options;
  options.clearL2 = !given.keepL2;
  options.target = Target::detect();
  if (!given.target.empty()) {
    Expected<Target> parsed = Target::parse(given.target);
    if (!parsed)
      return parsed.error();
    options.target = *parsed;
  }
  if (options.expectedPath.empty())
    options.expectedPath = options.target.arch == "sm_90a" ? "wgmma" : "mma.sync";
  return {};
}

void printCases(const bench::Options &options) {
  for (const bench::Case &one : options.cases())
    bench::print({{"name", one.name},
                  {"group", one.group},
                  {"variant", one.variant},
                  {"batch", one.batch},
                  {"heads", one.heads},
                  {"headsKv", one.headsKv},
                  {"length", one.length},
                  {"headDim", one.headDim},
                  {"flops", one.flops()},
                  {"visibleBlocks", one.visibleBlocks}});
}

/// The result of each part that is asked for.
std::vector<Expected<void>> measure(const Arguments &given) {
  const bench::Options &options = given.options;
  const bool gpu = !given.cpu && !given.host && given.compileOnce.empty();
  if (gpu && !options.target.isCuda())
    return {Error{"no GPU was found; use --cpu or --host, or --compile-only --target sm_90"}};
  std::vector<Expected<void>> results;
  if (!given.compileOnce.empty())
    results.push_back(bench::compileOnce(options, given.compileOnce));
  if (given.cpu)
    results.push_back(bench::measureCpu(options, given.length));
  if (given.host)
    results.push_back(bench::measureHost(options));
  if (gpu)
    results.push_back(given.candidates      ? bench::measureCandidates(options)
                      : options.compileOnly ? bench::compileCases(options)
                                            : bench::measureCases(options));
  return results;
}
} // namespace

int main(int argc, char **argv) {
  CLI::App app("times attune's kernels; prints one JSON object a row");
  app.name("attune-bench");
  Arguments given;
  addArguments(app, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    return app.exit(request);
  } catch (const CLI::ParseError &error) {
    std::fprintf(stderr, "error: %s\nfor help: attune-bench --help\n", error.what());
    return 2;
  }
  auto fail = [](const Error &error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return 1;
  };
  if (Expected<void> settled = settle(given); !settled)
    return fail(settled.error());
  if (given.list) {
    printCases(given.options);
    return 0;
  }
  int exitCode = 0;
  for (const Expected<void> &result : measure(given))
    if (!result)
      exitCode = fail(result.error());
  return exitCode;
}
