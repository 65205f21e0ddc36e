//===- Host.cpp - The CPU target, and what the host pays --------------------===//

#include "bench/Bench.h"
#include "bench/PlainLoops.h"

#include "attune/Builtins.h"
#include "runtime/CudaDriver.h"
#include "runtime/Nvrtc.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace attune;
using namespace bench;
using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// The CPU target
//===----------------------------------------------------------------------===//

/// Median milliseconds of some calls after one that warms up.
template <typename Function> static double timeHost(Function &&function) {
  function();
  std::vector<double> times;
  auto begin = Clock::now();
  while (times.size() < 3 || (times.size() < 50 && secondsSince(begin) < 2)) {
    auto start = Clock::now();
    function();
    times.push_back(secondsSince(start) * 1e3);
  }
  return median(std::move(times));
}

Expected<void> bench::measureCpu(const Options &, int64_t length) {
  const int64_t heads = 8, headDim = 64, elements = heads * length * headDim;
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<float> q(elements), k(elements), v(elements), o(elements), expected(elements);
  for (std::vector<float> *values : {&q, &k, &v})
    for (float &value : *values)
      value = normal(generator);

  Expected<Kernel> kernel = compile(Variant("none"), {.dtype = f32, .headDim = int(headDim)}, Target::cpu());
  if (!kernel)
    return kernel.error();
  auto view = [&](std::vector<float> &values) {
    return Tensor::contiguous(values.data(), f32, {1, heads, length, headDim});
  };
  const LaunchArgs args = {.q = view(q), .k = view(k), .v = view(v), .o = view(o)};
  std::optional<Error> failure;
  const double ours = timeHost([&] {
    if (Expected<void> launched = kernel->launch(nullptr, args); !launched)
      failure = launched.error();
  });
  if (failure)
    return *failure;
  const double plain = timeHost([&] {
    plainLoops(q.data(), k.data(), v.data(), expected.data(), heads, length, headDim, 1 / std::sqrt(float(headDim)));
  });
  double worst = 0;
  for (int64_t i = 0; i < elements; ++i)
    worst = std::max(worst, double(std::abs(o[i] - expected[i])));
  if (!(worst < 1e-4))
    return Error{fmt::format("the CPU kernel differs from plain loops by {}", worst)};

  const std::string name = fmt::format("cpu/none/d{}/s{}", headDim, length);
  const double flops = 4.0 * double(heads * length * length * headDim);
  const unsigned threads = ThreadPool::process().threads();
  for (auto [peer, milliseconds] : {std::pair("attune", ours), std::pair("plain loops", plain)})
    print({{"name", name},
           {"group", "cpu"},
           {"peer", peer},
           {"path", peer == std::string("attune") ? kernel->image().path : "cpu"},
           {"threads", threads},
           {"ms", milliseconds},
           {"tflops", flops / milliseconds / 1e9}});
  return {};
}

//===----------------------------------------------------------------------===//
// Host costs
//===----------------------------------------------------------------------===//

static Variant hostVariant() {
  auto slopes = captured("slopes", f32, rank(1));
  return Variant("host_costs")
      .score([&](Score s, Index, Index h, Index q, Index k) { return attune::softcap(s, 50.0f) + slopes[h] * (k - q); })
      .mask([](Index, Index, Index q, Index k) { return q >= k && q - k < 4096; })
      .dropout(0.1f);
}

static const CompileOptions hostOptions = {.dtype = bf16, .headDim = 128};

static ordered_json timesJson(const CompileTimes &times) {
  return {
      {"trace", times.trace}, {"ir", times.ir}, {"print", times.print}, {"nvrtc", times.nvrtc}, {"load", times.load}};
}

Expected<void> bench::compileOnce(const Options &options, const std::string &directory) {
  auto begin = Clock::now();
  if (options.target.isCuda()) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    if (!cuda)
      return cuda.error();
    if (Expected<void> current = (*cuda)->makeCurrent(options.target.device); !current)
      return current.error();
  }
  const double driver = secondsSince(begin) * 1e3;
  begin = Clock::now();
  CompileOptions compiling = hostOptions;
  compiling.cacheDir = directory;
  Expected<Kernel> kernel = compile(hostVariant(), compiling, options.target);
  if (!kernel)
    return kernel.error();
  print({{"driverMs", driver},
         {"compileMs", secondsSince(begin) * 1e3},
         {"cacheHit", kernel->cacheHit()},
         {"split", timesJson(kernel->image().times)}});
  return {};
}

/// A new process of this executable that runs compileOnce: its row, with `processMs` from start to end.
static Expected<ordered_json> compileInNewProcess(const Options &options, const std::string &directory) {
  int output[2];
  if (pipe(output) != 0)
    return Error{"no pipe to a new process"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, output[0]);
  posix_spawn_file_actions_addclose(&actions, output[1]);
  std::string target = options.target.text();
  std::vector<std::string> words = {"attune-bench", "--compile-once", directory, "--target", target};
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto begin = Clock::now();
  pid_t child = 0;
  const int spawned = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; spawned == 0 && (count = read(output[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(count));
  close(output[0]);
  int status = 1;
  if (spawned == 0)
    waitpid(child, &status, 0);
  ordered_json row = ordered_json::parse(text, nullptr, false);
  if (status != 0 || !row.is_object())
    return Error{"the new process that compiles failed"};
  row["processMs"] = secondsSince(begin) * 1e3;
  return row;
}

/// Median milliseconds of one call of `launch`, which fills the stream; between batches it runs empty.
template <typename Launch> static Expected<double> timeLaunches(const CudaStream &stream, Launch &&launch) {
  std::vector<double> times;
  constexpr int batch = 100; // fewer than a stream takes before it makes the host wait
  for (int i = 0; i < 51; ++i) {
    auto begin = Clock::now();
    for (int j = 0; j < batch; ++j)
      if (Expected<void> launched = launch(); !launched)
        return launched.error();
    times.push_back(secondsSince(begin) * 1e3 / batch);
    if (Expected<void> done = stream.synchronize(); !done)
      return done.error();
  }
  return median(std::move(times));
}

/// What a launch costs the host: in all, and in the driver for a kernel that does nothing and takes as many parameters.
static Expected<void> measureLaunch(const Options &options, const Kernel &kernel) {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  if (Expected<void> current = (*cuda)->makeCurrent(options.target.device); !current)
    return current.error();
  Expected<CudaStream> stream = CudaStream::create();
  const int64_t length = 256, headDim = 128;
  Expected<DeviceBuffer> memory = DeviceBuffer::allocate(size_t(4 * length * headDim * 2 + 4));
  if (!stream || !memory)
    return stream ? memory.error() : stream.error();
  if (Expected<void> cleared = memory->fill(0); !cleared)
    return cleared.error();
  auto view = [&](int index) {
    auto *at = static_cast<char *>(memory->data()) + index * length * headDim * 2;
    return Tensor::contiguous(at, bf16, {1, 1, length, headDim}, kernel.device());
  };
  const LaunchArgs args = {.q = view(0),
                           .k = view(1),
                           .v = view(2),
                           .o = view(3),
                           .tensors = {{"slopes", Tensor::contiguous(view(4).data, f32, {1}, kernel.device())}}};
  Expected<double> ours = timeLaunches(*stream, [&] { return kernel.launch(stream->get(), args); });
  if (!ours)
    return ours.error();

  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.error();
  const size_t bytes = kernel.image().signature.packedBytes();
  Expected<Nvrtc::Output> cubin =
      (*nvrtc)->compileCubin(fmt::format("struct Params {{ long long words[{}]; }};\nextern \"C\" __global__ void "
                                         "nothing(const __grid_constant__ Params) {{}}\n",
                                         bytes / 8),
                             "nothing", options.target.arch);
  if (!cubin)
    return cubin.error();
  CudaModule module = nullptr;
  CudaFunction function = nullptr;
  int code = (*cuda)->cuModuleLoadData(&module, cubin->code.data());
  if (!code)
    code = (*cuda)->cuModuleGetFunction(&function, module, "nothing");
  if (code)
    return (*cuda)->result(code, "loading an empty kernel");
  std::vector<char> params(bytes);
  void *arguments[] = {params.data()};
  Expected<double> driver = timeLaunches(*stream, [&] {
    return (*cuda)->result((*cuda)->cuLaunchKernel(function, 2, 1, 1, unsigned(kernel.image().main().threads), 1, 1, 0,
                                                   stream->get(), arguments, nullptr),
                           "launching an empty kernel");
  });
  (*cuda)->cuModuleUnload(module);
  if (!driver)
    return driver.error();
  print({{"name", "host/launch"}, {"group", "host"}, {"peer", "attune"}, {"path", kernel.image().path}, {"ms", *ours}});
  print({{"name", "host/launch"}, {"group", "host"}, {"peer", "driver"}, {"path", "empty kernel"}, {"ms", *driver}});
  return {};
}

/// The same of a step of generation: two kernels, shares that the launch counts, keys in pages, lengths on the device.
static Expected<void> measureStep(const Options &options) {
  const auto lengths = captured("lengths", i32, rank(1)), pages = captured("pages", i32, rank(2));
  const Variant step = Variant("step").mask(causalBottomRight()).keyLengths(lengths).keyPages(pages, 64);
  CompileOptions compiling = hostOptions;
  compiling.packGqa = compiling.splitKeys = true;
  Expected<Kernel> kernel = compile(step, compiling, options.target);
  if (!kernel)
    return kernel.error();
  Expected<CudaStream> stream = CudaStream::create();
  constexpr int64_t batch = 4, heads = 8, headsKv = 2, keys = 256, headDim = 128,
                    tensorBytes = batch * headsKv * keys * headDim * 2;
  Expected<DeviceBuffer> memory =
      DeviceBuffer::allocate(size_t(3 * tensorBytes)); // lengths of 0 end each sequence at once
  if (!stream || !memory)
    return stream ? memory.error() : stream.error();
  if (Expected<void> cleared = memory->fill(0); !cleared)
    return cleared.error();
  auto view = [&](int64_t at, DType dtype, std::initializer_list<int64_t> shape) {
    return Tensor::contiguous(static_cast<char *>(memory->data()) + at, dtype, shape, kernel->device());
  };
  LaunchArgs args = {.q = view(0, bf16, {batch, heads, 1, headDim}),
                     .k = view(0, bf16, {batch * keys / 64, headsKv, 64, headDim}),
                     .v = view(tensorBytes, bf16, {batch * keys / 64, headsKv, 64, headDim}),
                     .o = view(2 * tensorBytes, bf16, {batch, heads, 1, headDim}),
                     .tensors = {{"lengths", view(0, i32, {batch})}, {"pages", view(64, i32, {batch, keys / 64})}}};
  args.workspaceBytes = kernel->workspaceBytes(args);
  Expected<DeviceBuffer> workspace = DeviceBuffer::allocate(args.workspaceBytes);
  if (!workspace)
    return workspace.error();
  args.workspace = workspace->data();
  Expected<double> time = timeLaunches(*stream, [&] { return kernel->launch(stream->get(), args); });
  if (!time)
    return time.error();
  print({{"name", "host/launch-step"},
         {"group", "host"},
         {"peer", "attune"},
         {"path", kernel->image().path},
         {"ms", *time}});
  return {};
}

/// New processes: with an empty cache, then from the disk. Their caches are folders of `folder`.
static Expected<void> measureProcesses(const Options &options, const std::string &folder) {
  // NVRTC has a cache of its own, which would hide what it costs.
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  std::vector<ordered_json> cold, warm;
  for (int i = 0; i < 3; ++i)
    for (bool second : {false, true}) {
      Expected<ordered_json> row = compileInNewProcess(options, fmt::format("{}/{}", folder, i));
      if (!row)
        return row.error();
      if ((*row)["cacheHit"] != second)
        return Error{"a new process hit or missed the cache against expectation"};
      (second ? warm : cold).push_back(*row);
    }
  auto middle = [](const std::vector<ordered_json> &rows, const char *field) {
    std::vector<double> values;
    for (const ordered_json &row : rows)
      values.push_back(row[field]);
    return median(values);
  };
  for (auto [name, rows] : {std::pair("host/cold", &cold), std::pair("host/warm-disk", &warm)}) {
    std::sort(rows->begin(), rows->end(),
              [](const ordered_json &a, const ordered_json &b) { return a["compileMs"] < b["compileMs"]; });
    print({{"name", name},
           {"group", "host"},
           {"peer", "attune"},
           {"arch", options.target.arch},
           {"ms", middle(*rows, "compileMs")},
           {"driverMs", middle(*rows, "driverMs")},
           {"processMs", middle(*rows, "processMs")},
           {"split", (*rows)[rows->size() / 2]["split"]}});
  }
  return {};
}

/// In this process: the same variant, traced and compiled again. Gives its kernel.
static Expected<Kernel> measureCompileAgain(const Options &options, const std::string &cacheDirectory) {
  CompileOptions compiling = hostOptions;
  compiling.cacheDir = cacheDirectory;
  std::vector<double> again;
  Kernel kernel;
  for (int i = 0; i < 1000; ++i) {
    auto begin = Clock::now();
    Expected<Kernel> compiled = compile(hostVariant(), compiling, options.target);
    again.push_back(secondsSince(begin) * 1e3);
    if (!compiled)
      return compiled.error();
    kernel = *compiled;
  }
  print({{"name", "host/compile-again"}, {"group", "host"}, {"peer", "attune"}, {"ms", median(again)}});
  return kernel;
}

/// The checks of a launch; no memory is touched.
static Expected<void> measureChecks(const Kernel &kernel) {
  const Device device = kernel.device();
  auto view = [&](int64_t address, DType dtype, std::initializer_list<int64_t> shape) {
    return Tensor::contiguous(reinterpret_cast<void *>(address << 30), dtype, shape, device);
  };
  const LaunchArgs args = {.q = view(1, bf16, {2, 8, 1024, 128}),
                           .k = view(2, bf16, {2, 2, 1024, 128}),
                           .v = view(3, bf16, {2, 2, 1024, 128}),
                           .o = view(4, bf16, {2, 8, 1024, 128}),
                           .lse = view(5, f32, {2, 8, 1024}),
                           .tensors = {{"slopes", view(6, f32, {8})}}};
  std::vector<double> checks;
  for (int i = 0; i < 100; ++i) {
    auto begin = Clock::now();
    for (int j = 0; j < 1000; ++j)
      if (Expected<void> checked = kernel.check(args); !checked)
        return checked.error();
    checks.push_back(secondsSince(begin)); // of 1000 calls in seconds: milliseconds of one
  }
  print({{"name", "host/launch-checks"}, {"group", "host"}, {"peer", "attune"}, {"ms", median(checks)}});
  return {};
}

Expected<void> bench::measureHost(const Options &options) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "attune-bench-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    return Error{folder + " cannot be made"};
  struct Cleanup {
    const std::string &folder;
    ~Cleanup() {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
  } cleanup{folder};

  if (Expected<void> measured = measureProcesses(options, folder); !measured)
    return measured;
  Expected<Kernel> kernel = measureCompileAgain(options, folder + "/0");
  if (!kernel)
    return kernel.error();
  if (Expected<void> measured = measureChecks(*kernel); !measured || !options.target.isCuda())
    return measured;
  if (Expected<void> measured = measureLaunch(options, *kernel); !measured)
    return measured;
  return measureStep(options);
}
