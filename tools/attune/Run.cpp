//===- Run.cpp - attune run -------------------------------------------------===//
//
// Compiles, runs on random inputs or the user's, checks O and LSE, or the gradients of the backward pass, against the
// float64 reference, times, and writes what NumPy needs to check the same.
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Output.h"
#include "tools/attune/RunLaunch.h"
#include "tools/attune/RunProgram.h"
#include "tools/attune/RunReport.h"
#include "tools/attune/RunSimulate.h"

#include "runtime/CudaDriver.h"

#include <chrono>
#include <fmt/format.h>
#include <limits>

using namespace attune;
using namespace attune::cli;

namespace {
/// Why the CUDA device cannot be used, if so.
std::optional<Error> missingGpu(int device) {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  Expected<CudaDeviceInfo> info = (*cuda)->device(device);
  return info ? std::nullopt : std::optional(info.error());
}

/// Without a GPU: what runs in its place where none was asked for, else an error, before anything is compiled.
std::optional<Failure> settleTarget(const RunFlags &flags, Target &target) {
  const bool chosen = !flags.target.empty() || !flags.arch.empty();
  if (flags.simulate) {
    if (!chosen && !target.isCuda())
      target = Target::cuda("sm_90a"); // as attune compile
    return std::nullopt;
  }
  if (!chosen && !target.isCuda()) {
    Expected<Target> gpu = Target::parse("gpu");
    printError("note: there is no GPU to run on, the CPU runs this; --target cpu asks for that, --simulate 4 runs a "
               "GPU's schedule without one\n{}",
               gpu ? "" : fmt::format("note: {}\n", gpu.error().message));
  }
  if (target.isCuda())
    if (std::optional<Error> missing = missingGpu(target.device))
      return noGpu(*missing);
  return std::nullopt;
}

/// The request, with the shape and the element type of the user's files where there are some.
Result<Request> resolveRun(const RunFlags &flags, const std::optional<RunData> &files) {
  if (!files)
    return resolve(flags);
  // A file of half floats means a half-float kernel; float32 files are also how low precision is dumped.
  const DType dtype = files->q.dtype;
  return resolve(flags, files->shape, dtype == DType::F32 ? std::nullopt : std::optional(dtype));
}

/// The shape of a run on random inputs.
Shape randomShape(const Request &request) {
  Shape shape = request.shape.value_or(Shape{});
  if (!request.shape) {
    shape.headDim = request.options.headDim;
    shape.headDimV = request.options.headDimV;
  }
  return shape;
}

/// Launches, checks and counts, and adds what comes of it to `run`.
Expected<void> launchAndCheck(FinishedRun &run, RunData &data) {
  const RunFlags &flags = run.flags;
  const Request &request = run.request;
  const bool checks = !flags.noCheck && request.variant;
  if (checks)
    announceReference(data.shape);
  if (flags.checked && request.variant)
    if (Expected<void> within = checkIndices(flags, request, data); !within)
      return within;
  if (run.isBackward()) {
    Expected<double> ran = runForward(flags, request, request.target, data);
    if (!ran)
      return ran.error();
    run.forwardMilliseconds = *ran;
  }
  Expected<double> milliseconds = runKernel(flags, run.kernel, request.target, data);
  if (!milliseconds)
    return milliseconds.error();
  run.milliseconds = *milliseconds;
  if (checks) {
    Expected<Check> checked = checkResults(flags, *request.variant, data);
    if (!checked)
      return checked.error();
    run.check = std::move(*checked);
  }
  if (!request.variant)
    return {};
  Expected<std::optional<int64_t>> counted = countVisible(flags, *request.variant, data);
  if (!counted)
    return counted.error();
  run.visibleKeys = *counted;
  return {};
}

int runVerb(const RunFlags &flags) {
  Result<std::optional<RunData>> files = readInputs(flags);
  if (!files)
    return report(files.failure());
  const bool given = files->has_value();
  Result<Request> resolved = resolveRun(flags, *files);
  if (!resolved)
    return report(resolved.failure());
  Request &request = *resolved;
  if (std::optional<Failure> failure = settleTarget(flags, request.target))
    return report(*failure);
  if (Result<bool> program = runsAsProgram(flags, request); !program)
    return report(program.failure());
  else if (*program)
    return runProgram(flags, request);
  RunData data;
  if (given)
    data = std::move(**files);
  else
    data.shape = randomShape(request);
  if (flags.simulate)
    return simulateRun(flags, request, given, data);

  if (flags.prepare || request.options.tuning == Tuning::Measure)
    request.options.shapes = {sizesOf(data.shape)};
  const auto compileBegin = std::chrono::steady_clock::now();
  Expected<Kernel> compiled = compileKernel(request);
  if (!compiled)
    return report({compiled.error()});
  const std::chrono::duration<double, std::milli> compileTime = std::chrono::steady_clock::now() - compileBegin;
  // What the reference needs is the variant; its dropout probability is the launch's.
  const Kernel kernel = request.text && flags.dropout ? compiled->withDropout(float(*flags.dropout)) : *compiled;
  FinishedRun run = {.flags = flags,
                     .request = request,
                     .kernel = kernel,
                     .image = kernel.imageFor(sizesOf(data.shape)),
                     .data = data,
                     .compileMilliseconds = compileTime.count()};
  if (Expected<void> filled = fillData(flags, request, run.image.signature, given, data); !filled)
    return report({filled.error()});
  if (Expected<void> ran = launchAndCheck(run, data); !ran)
    return report({ran.error()});
  if (Expected<void> reported = reportRun(run); !reported)
    return report({reported.error()});
  if (run.passes())
    return done;
  printError("error: the results differ from the float64 reference: {}\n", run.check->difference());
  return failed;
}
} // namespace

void attune::cli::addRun(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("run", "compile, run, check against float64, and time");
  verb->footer("Examples:\n"
               "  attune run causal --shape 1,8,8,1024,1024,128,128 --dropout 0.1\n"
               "  attune run --score \"softcap(s, 50) + slopes[h] * (k - q)\" --mask \"q >= k\" \\\n"
               "      --tensor slopes=f32[8]:random --target cpu --dump out\n"
               "  attune run causal --backward --shape 1,8,8,1024,1024,64,64 --dump gradients\n"
               "  attune run causal --arch sm_90a --shape 1,2,1,300,300,64,64 --simulate 4\n"
               "Exit codes: 0 done, 1 failed (a result beyond its tolerance too), 2 usage.");
  auto flags = std::make_shared<RunFlags>();
  flags->addVariant(*verb);
  flags->addTarget(*verb, /*withTarget=*/true);
  flags->addShape(*verb);
  auto *group = verb->add_option_group("Data");
  group->add_option("--q", flags->q, "queries, [B,H,Sq,D]; random without")->type_name("PATH.npy");
  group->add_option("--k", flags->k, "keys, [B,Hkv,Sk,D]")->type_name("PATH.npy");
  group->add_option("--v", flags->v, "values, [B,Hkv,Sk,Dv]")->type_name("PATH.npy");
  addProgramFlags(*verb, *flags, /*checks=*/true);
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
  group->add_option("--seed", flags->seed, "of random inputs and of dropout (0)")->check(wholeNumber(0, most));
  group->add_option("--offset", flags->offset, "of dropout (0)")->check(wholeNumber(0, most));
  group->add_option("--q-offset", flags->qOffsetValue, "added to q in expressions");
  group->add_option("--dump", flags->dump, "write inputs, outputs and meta.json there, captured tensors in tensors/")
      ->type_name("DIR");
  group->add_flag("--checked", flags->checked,
                  "look for the first read outside of a captured tensor, and ask the driver about every pointer before "
                  "each launch. Where "
                  "sizes leave a doubt, the indices are evaluated for all B * H * Sq * Sk elements, on the CPU's "
                  "threads: a few nanoseconds an "
                  "element, and about D more where they depend on the score");
  group->add_flag("--no-check", flags->noCheck, "do not compare with the reference");
  group->add_flag("--prepare", flags->prepare,
                  "make a kernel for exactly these sizes, where another than the one for every size is better");
  group->add_flag("--keep-tables", flags->keepTables,
                  "launches after the first take what it found of the mask's captured tensors and scalars, as where "
                  "these stay; their results are checked, and timed");
  group->add_option("--repeats", flags->repeats, "timed launches (20 on a GPU, up to 5 on the CPU)")
      ->check(wholeNumber(1, 1'000'000));
  verb->add_option("--simulate", flags->simulate,
                   "run the schedule in the simulator, under N orders of events; needs no GPU; without --shape on "
                   "sizes of a few tiles")
      ->type_name("N")
      ->check(wholeNumber(1, 1'000'000));
  flags->addSchedule(*verb);
  flags->addGradients(*verb);
  flags->addCuda(*verb);
  flags->addTuning(*verb, /*measures=*/true);
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = runVerb(*flags); });
}
