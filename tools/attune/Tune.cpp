//===- Tune.cpp - attune tune -----------------------------------------------===//
//
// Measures plans for the sizes that --shape names, and keeps the times for compile().
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/RunProgram.h"

#include "runtime/CudaDriver.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <list>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {
struct TuneFlags : RunFlags {
  std::vector<std::string> shapes;
  double seconds = TuneOptions().seconds;
  size_t candidates = TuneOptions().candidates;
  size_t top = 5;
  bool resume = false;
  std::string output, times; ///< of a program
};

volatile std::sig_atomic_t interrupted = 0;

/// The first interrupt ends the measuring, and keeps what there is; a second one the program.
class InterruptScope {
public:
  InterruptScope() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = int(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &before);
  }
  ~InterruptScope() { ::sigaction(SIGINT, &before, nullptr); }
  InterruptScope(const InterruptScope &) = delete;
  InterruptScope &operator=(const InterruptScope &) = delete;

private:
  struct sigaction before = {};
};

/// A bar on a terminal, else a line each five seconds, on standard error.
class ProgressBar {
public:
  explicit ProgressBar(const std::vector<Shape> &shapes) : shapes(shapes), terminal(::isatty(STDERR_FILENO)) {}

  void show(const TuneProgress &progress) {
    const auto now = Clock::now();
    const double pause = terminal ? 0.1 : 5;
    const bool compiling = progress.inRace == 0;
    if (std::chrono::duration<double>(now - last).count() < pause)
      return;
    last = now;
    constexpr size_t width = 24;
    const size_t filled = width * progress.compiled / std::max<size_t>(progress.candidates, 1);
    const std::string state = compiling ? fmt::format("{}/{} plans compiled", progress.compiled, progress.candidates)
                                        : fmt::format("{} plans in the race", progress.inRace);
    const std::string best =
        progress.best.empty() ? "" : fmt::format(", best {:.1f} us: {}", progress.bestMicroseconds, progress.best);
    const std::string line = fmt::format("[{}/{}] {}: {}{}, {:.0f} s left", progress.problem, progress.problems,
                                         shapes[progress.problem - 1].text(), state, best, progress.secondsLeft);
    if (terminal)
      printError("\r\033[K[{}{}] {}", std::string(filled, '#'), std::string(width - filled, '-'), line);
    else
      printError("{}\n", line);
    shown = true;
  }
  void clear() {
    if (terminal && shown)
      printError("\r\033[K");
    shown = false;
  }

private:
  const std::vector<Shape> &shapes;
  const bool terminal;
  bool shown = false;
  Clock::time_point last = Clock::now();
};

/// What the cases' arguments point to.
struct TuneData {
  std::list<HostTensor> host;
  std::list<DeviceBuffer> device;

  Expected<Tensor> view(HostTensor tensor, const Target &target) {
    const HostTensor &kept = host.emplace_back(std::move(tensor));
    if (!target.isCuda())
      return Tensor::contiguous(kept.data.data(), kept.dtype, kept.shape, Device::cpu());
    Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(kept.data.data(), kept.bytes());
    if (!buffer)
      return buffer.error();
    device.push_back(std::move(*buffer));
    return Tensor::contiguous(device.back().data(), kept.dtype, kept.shape, Device::cuda(target.device));
  }
};

/// Shapes of equal head dims.
Result<std::vector<Shape>> readShapes(const TuneFlags &flags) {
  std::vector<Shape> shapes;
  for (const std::string &text : flags.shapes) {
    Result<Shape> shape = parseShape(text);
    if (!shape)
      return shape.failure();
    if (shape->batch < 1 || shape->heads < 1 || shape->queries < 1 || shape->keys < 1)
      return usageError(fmt::format("--shape {} has no work to measure; use positive sizes", text));
    if (!shapes.empty() && (shape->headDim != shapes[0].headDim || shape->headDimV != shapes[0].headDimV))
      return usageError(fmt::format("--shape {} and {} have different head dims, and a kernel has one; tune each in a "
                                    "run of its own",
                                    shapes[0].text(), text));
    shapes.push_back(*shape);
  }
  return shapes;
}

Expected<std::vector<TuneCase>> makeCases(const TuneFlags &flags, const Request &request,
                                          const KernelSignature &signature, const std::vector<Shape> &shapes,
                                          TuneData &data) {
  std::vector<TuneCase> cases;
  for (const Shape &shape : shapes) {
    TuneCase &tuneCase = cases.emplace_back();
    tuneCase.sizes = sizesOf(shape);
    if (Expected<void> there = requireData(request, signature.tensors, signature.scalars, shape); !there)
      return there.error();
    uint64_t number = 10;
    for (const TensorParam &param : signature.tensors) {
      Expected<HostTensor> tensor = makeTensor(request, param, shape, flags.seed * 1000 + number++);
      if (!tensor)
        return tensor.error();
      Expected<Tensor> view = data.view(std::move(*tensor), request.target);
      if (!view)
        return view.error();
      tuneCase.args.tensors.push_back({param.name, *view});
    }
    for (const ScalarParam &param : signature.scalars) {
      Expected<HostTensor> value = makeScalar(request, param);
      if (!value)
        return value.error();
      tuneCase.args.scalars.push_back({param.name, reference::scalarValue(*value)});
    }
  }
  return cases;
}

void printResult(const TuneResult &result, const Shape &shape, size_t top) {
  const auto model = std::ranges::find(result.candidates, true, &TunedCandidate::chosenByModel);
  const size_t timed = result.candidates.size();
  print("{}  class {}\n", shape.text(), SizeClass::of(result.sizes).text());
  if (result.resumed)
    print("  {:<14} measured before, {} plans\n", "timed", timed);
  else
    print("  {:<14} {} of {} legal plans in {:.1f} s{}{}\n", "timed", timed, result.space, result.seconds,
          result.failed ? fmt::format(", {} do not compile", result.failed) : "", result.ended ? ", ended early" : "");
  for (size_t i = 0; i < timed; ++i) {
    const TunedCandidate &candidate = result.candidates[i];
    if (i >= top && !candidate.chosenByModel)
      continue;
    print("  {:>11.1f} us {}{}{}\n", candidate.microseconds, candidate.text,
          candidate.spillBytes ? fmt::format("; spills {} bytes", candidate.spillBytes) : "",
          candidate.chosenByModel ? "; the cost model's choice for any size" : "");
  }
  if (timed && model != result.candidates.end())
    print("  {:<14} {:.3f} of the time of the cost model's choice\n", "best",
          result.candidates.front().microseconds / model->microseconds);
}

int tuneVerb(TuneFlags &flags) {
  Result<std::vector<Shape>> shapes = readShapes(flags);
  if (!shapes)
    return report(shapes.failure());
  if (!shapes->empty())
    flags.shape = flags.shapes.front();
  Result<Request> request = resolve(flags);
  if (!request)
    return report(request.failure());
  Result<bool> program = runsAsProgram(flags, *request);
  if (!program)
    return report(program.failure());
  if (shapes->empty() != *program)
    return report(usageError(*program ? "a program's sizes are --extents; leave out --shape"
                                      : "--shape is required: the sizes to measure for"));
  for (const auto &[flag, file] : {std::pair("--output", &flags.output), {"--times", &flags.times}})
    if (!*program && !file->empty())
      return report(usageError(
          fmt::format("{} is for programs in tile text; a variant's plans are kept in the cache folder", flag)));
  if (request->target.isCuda()) {
    if (Expected<const CudaDriver *> cuda = cudaDriver(); !cuda)
      return report(usageError(fmt::format("there is no GPU to measure on; --target cpu measures on the CPU\nnote: {}",
                                           cuda.error().message)));
    else if (Expected<void> current = (*cuda)->makeCurrent(request->target.device); !current)
      return report({current.error()});
  }
  if (*program)
    return tuneProgram(flags, *request,
                       {.seconds = flags.seconds,
                        .candidates = flags.candidates,
                        .top = flags.top,
                        .output = flags.output,
                        .timesFile = flags.times});
  Expected<KernelImage> image = cli::compileImage(*request);
  if (!image)
    return report({image.error()});
  TuneData data;
  Expected<std::vector<TuneCase>> cases = makeCases(flags, *request, image->signature, *shapes, data);
  if (!cases)
    return report({cases.error()});

  InterruptScope scope;
  ProgressBar bar(*shapes);
  const TuneOptions tuning = {.seconds = flags.seconds,
                              .candidates = flags.candidates,
                              .resume = flags.resume,
                              .progress = [&](const TuneProgress &progress) {
                                if (!flags.json)
                                  bar.show(progress);
                                return interrupted == 0;
                              }};
  Expected<std::vector<TuneResult>> results =
      request->text ? tuneText(*request->text, request->options, request->target, *cases, tuning)
                    : tune(*request->variant, request->options, request->target, *cases, tuning);
  bar.clear();
  if (!results)
    return report({results.error()});
  if (flags.json) {
    print("{}\n", ordered_json{{"variant", request->label},
                               {"arch", request->target.arch},
                               {"pass", request->options.backward ? "backward" : "forward"},
                               {"results", ordered_json::parse(tuneJson(*results))}}
                      .dump(2));
  } else {
    for (size_t i = 0; i < results->size(); ++i)
      printResult((*results)[i], (*shapes)[i], flags.top);
  }
  for (const TuneResult &result : *results)
    if (!result.notKept.empty() && !flags.noCache)
      return report({Error{result.notKept}});
  if (interrupted) {
    printError("error: interrupted; what was measured is kept\n");
    return failed;
  }
  return done;
}
} // namespace

void attune::cli::addTune(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("tune", "measure plans for given sizes; compile takes the quickest from then on");
  verb->footer("Examples:\n"
               "  attune tune causal --shape 1,8,8,1024,1024,64,64\n"
               "  attune tune documents --tensor ids=i32[4096]:ids.npy --shape 4,16,16,4096,4096,128,128 --budget 60\n"
               "  attune tune linear.mlir --extents b=2,h=4,k=1024 --output tuned.mlir\n"
               "  attune tune linear.mlir --extents b=2,h=4,k=1024 --times linear.json --candidates 1000 --budget 120\n"
               "  attune tune causal --backward --shape 4,16,16,4096,4096,128,128\n"
               "An interrupt keeps what was measured. attune cache plans lists the results.\n"
               "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<TuneFlags>();
  flags->addVariant(*verb);
  flags->addTarget(*verb, /*withTarget=*/true);
  flags->addGradients(*verb);
  verb->add_option("--shape", flags->shapes, "sizes to measure for; repeatable")
      ->type_name("B,H,Hkv,Sq,Sk,D,Dv")
      ->expected(1)
      ->take_all();
  addProgramFlags(*verb, *flags, /*checks=*/false);
  verb->add_option("--output", flags->output, "of a program: write its text with the quickest plan to a file")
      ->type_name("FILE");
  verb->add_option("--times", flags->times, "of a program: write the times of its plans to a file, for attune-fit-cost")
      ->type_name("FILE");
  auto *group = verb->add_option_group("Measuring");
  group->add_option("--budget", flags->seconds, "seconds for each shape (20)")->check(CLI::Range(0.1, 1e6));
  group->add_option("--candidates", flags->candidates, "the most plans that are compiled for each shape (96)")
      ->check(wholeNumber(1, 100'000));
  group->add_flag("--resume", flags->resume, "leave out shapes that the cache folder has measured already");
  group->add_option("--seed", flags->seed, "of random captured tensors (0)")
      ->check(wholeNumber(0, std::numeric_limits<uint64_t>::max()));
  group->add_option("--top", flags->top, "plans of each shape that are printed (5)")->check(wholeNumber(0, 1'000'000));
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = tuneVerb(*flags); });
}
