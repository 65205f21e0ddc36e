//===- Gpu.cpp - Kernels on the GPU ------------------------------------------===//

#include "bench/Bench.h"

#include "runtime/CudaDriver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <thread>

using namespace attune;
using namespace bench;

namespace {

constexpr std::chrono::milliseconds rest(300); // as in peers.py

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

double fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// One device's inputs for all cases: Q, K and V are views of buffers of the largest size.
class Data {
public:
  static Expected<Data> create(const Options &options, const std::vector<Case> &cases) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    if (!cuda)
      return cuda.error();
    Data data;
    data.cuda = *cuda;
    data.device = Device::cuda(options.target.device);
    if (Expected<void> current = (*cuda)->makeCurrent(options.target.device); !current)
      return current.error();
    int64_t elements = 1;
    for (const Case &one : cases)
      elements = std::max(elements, one.batch * one.heads * one.length * one.headDim);
    // A block of normal numbers, repeated: its length is prime, so that no two heads hold the same.
    std::vector<uint16_t> block(4194301);
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    for (uint16_t &value : block)
      value = toBf16(normal(generator));
    for (DeviceBuffer *buffer : {&data.q, &data.k, &data.v, &data.o}) {
      Expected<DeviceBuffer> memory = DeviceBuffer::allocate(size_t(elements) * 2);
      if (!memory)
        return memory.error();
      *buffer = std::move(*memory);
      std::rotate(block.begin(), block.begin() + 1299709, block.end());
      if (Expected<void> filled = data.fill(*buffer, std::as_bytes(std::span(block))); !filled)
        return filled.error();
    }
    for (auto [buffer, bytes] : {std::pair(&data.lse, size_t(elements)), std::pair(&data.junk, size_t(256) << 20)}) {
      Expected<DeviceBuffer> memory = DeviceBuffer::allocate(bytes);
      if (!memory)
        return memory.error();
      *buffer = std::move(*memory);
    }
    Expected<CudaStream> stream = CudaStream::create();
    if (!stream)
      return stream.error();
    data.stream = std::move(*stream);
    return data;
  }

  /// The arguments of a case; its captured tensors and its workspace are made here.
  Expected<LaunchArgs> arguments(const Case &one, const Kernel &kernel) {
    const KernelSignature &signature = kernel.image().signature;
    LaunchArgs args;
    const int64_t B = one.batch, H = one.heads, S = one.length, D = one.headDim;
    args.q = Tensor::contiguous(q.data(), bf16, {B, H, S, D}, device);
    args.k = Tensor::contiguous(k.data(), bf16, {B, one.headsKv, S, D}, device);
    args.v = Tensor::contiguous(v.data(), bf16, {B, one.headsKv, S, D}, device);
    args.o = Tensor::contiguous(o.data(), bf16, {B, H, S, D}, device);
    if (one.make().hasLse())
      args.lse = Tensor::contiguous(lse.data(), f32, {B, H, S}, device);
    args.seed = 42;
    for (const TensorParam &param : signature.tensors) {
      const HostTensor host = capturedTensor(one, param.name);
      Tensor view = Tensor::contiguous(nullptr, param.dtype, host.shape, device);
      const size_t bytes =
          size_t(std::accumulate(host.shape.begin(), host.shape.end(), int64_t(1), std::multiplies<>())) *
          byteSize(param.dtype);
      Expected<DeviceBuffer> memory = DeviceBuffer::allocate(bytes);
      if (!memory)
        return memory.error();
      DeviceBuffer &buffer = captured[param.name] = std::move(*memory);
      if (Expected<void> filled = fill(buffer, std::as_bytes(std::span(host.block))); !filled)
        return filled.error();
      view.data = buffer.data();
      args.tensors.push_back({param.name, view});
    }
    args.workspaceBytes = kernel.workspaceBytes(args);
    Expected<DeviceBuffer> memory = DeviceBuffer::allocate(std::max<size_t>(args.workspaceBytes, 1));
    if (!memory)
      return memory.error();
    workspace = std::move(*memory);
    args.workspace = workspace.data();
    return args;
  }

  /// Median milliseconds of a launch. Every row starts on a GPU that has rested as long: near its power limit it runs
  /// slower the longer it has been busy, by up to a tenth.
  Expected<double> time(const Options &options, const Kernel &kernel, const LaunchArgs &args) {
    std::this_thread::sleep_for(rest);
    double estimate = 0;
    for (int i = 0; i < 3; ++i) {
      Expected<std::vector<double>> once = timeMany(options, kernel, args, 1);
      if (!once)
        return once.error();
      estimate = once->front();
    }
    const int count = std::clamp(int(options.milliseconds / std::max(estimate, 1e-3)), 10, 200);
    Expected<std::vector<double>> times = timeMany(options, kernel, args, count);
    if (!times)
      return times.error();
    return median(std::move(*times));
  }

  /// Largest difference of a few rows of O from float64, in units of what bf16 allows; above 1 is wrong.
  Expected<double> spotCheck(const Case &one) {
    if (one.dropout())
      return 0.0;
    const int64_t S = one.length, D = one.headDim, h = one.heads - 1, b = one.batch - 1;
    auto read = [&](const DeviceBuffer &buffer, int64_t row, int64_t rows) -> Expected<std::vector<double>> {
      std::vector<uint16_t> bits(size_t(rows * D));
      if (Expected<void> copied =
              cuda->copyToHost(bits.data(), CudaAddress(buffer.data()) + CudaAddress(row * D) * 2, bits.size() * 2);
          !copied)
        return copied.error();
      std::vector<double> values;
      std::transform(bits.begin(), bits.end(), std::back_inserter(values), fromBf16);
      return values;
    };
    const int64_t head = (b * one.headsKv + h / (one.heads / one.headsKv)) * S;
    auto keys = read(k, head, S), values = read(v, head, S);
    if (!keys || !values)
      return keys ? values.error() : keys.error();
    double worst = 0;
    for (int64_t i : {int64_t(0), S / 2 + 1, S - 1}) {
      const int64_t row = (b * one.heads + h) * S + i;
      auto query = read(q, row, 1), out = read(o, row, 1);
      if (!query || !out)
        return query ? out.error() : query.error();
      double weight = 0;
      const std::vector<double> exact = exactRow(one, h, i, *query, *keys, *values, &weight);
      for (size_t d = 0; d < exact.size(); ++d) {
        const double error =
            std::abs((*out)[d] - exact[d]) / (0.01 * std::max(1.0, weight) + 0.02 * std::abs(exact[d]));
        worst = error <= worst ? worst : error; // a NaN stays
      }
    }
    return worst;
  }

  CudaStreamHandle streamHandle() const { return stream.get(); }
  void forget() { captured.clear(); }
  size_t capturedBytes() const {
    return std::accumulate(captured.begin(), captured.end(), size_t(0),
                           [](size_t sum, const auto &entry) { return sum + entry.second.size(); });
  }

private:
  /// Writes `block` into `buffer` again and again.
  Expected<void> fill(const DeviceBuffer &buffer, std::span<const std::byte> block) {
    for (size_t at = 0; at < buffer.size(); at += block.size())
      if (Expected<void> copied = cuda->copyToDevice(CudaAddress(buffer.data()) + at, block.data(),
                                                     std::min(block.size(), buffer.size() - at));
          !copied)
        return copied;
    return {};
  }

  Expected<std::vector<double>> timeMany(const Options &options, const Kernel &kernel, const LaunchArgs &args,
                                         int count) {
    std::vector<CudaEvent> begins, ends;
    for (int i = 0; i < count; ++i)
      for (std::vector<CudaEvent> *events : {&begins, &ends}) {
        Expected<CudaEvent> event = CudaEvent::create();
        if (!event)
          return event.error();
        events->push_back(std::move(*event));
      }
    for (int i = 0; i < count; ++i) {
      if (options.clearL2)
        if (int code = cuda->cuMemsetD8Async(CudaAddress(junk.data()), 0, junk.size(), stream.get()))
          return cuda->result(code, "cuMemsetD8Async").error();
      if (Expected<void> done = begins[i].record(stream.get()); !done)
        return done.error();
      if (Expected<void> done = kernel.launch(stream.get(), args); !done)
        return done.error();
      if (Expected<void> done = ends[i].record(stream.get()); !done)
        return done.error();
    }
    if (Expected<void> done = stream.synchronize(); !done)
      return done.error();
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      Expected<float> milliseconds = ends[i].millisecondsSince(begins[i]);
      if (!milliseconds)
        return milliseconds.error();
      times.push_back(*milliseconds);
    }
    return times;
  }

  const CudaDriver *cuda = nullptr;
  Device device;
  DeviceBuffer q, k, v, o, lse, junk, workspace;
  CudaStream stream;
  std::map<std::string, DeviceBuffer> captured;
};

CompileOptions optionsFor(const Case &one) { return {.dtype = bf16, .headDim = one.headDim}; }

/// What tells one kernel from another: the length is a launch value.
std::string kernelOf(const Case &one) { return fmt::format("{} {}", one.variant, one.headDim); }

ordered_json rowOf(const Case &one, const KernelImage &image) {
  return {{"name", one.name},
          {"group", one.group},
          {"peer", "attune"},
          {"arch", image.arch},
          {"path", image.path},
          {"plan", ordered_json::parse(image.planJson).value("text", "")},
          {"registers", image.main().registers},
          {"spillBytes", image.main().spillBytes},
          {"sharedBytes", image.main().sharedBytes}};
}

Error about(const Case &one, const std::string &what) { return Error{fmt::format("{}: {}", one.name, what)}; }

} // namespace

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

std::vector<Case> Options::cases() const {
  std::vector<Case> chosen;
  for (const Case &one : allCases())
    if (one.name.find(filter) != std::string::npos &&
        (groups.empty() || std::find(groups.begin(), groups.end(), one.group) != groups.end()))
      chosen.push_back(one);
  return chosen;
}

Expected<void> bench::compileCases(const Options &options) {
  std::vector<Case> cases;
  for (const Case &one : options.cases())
    if (std::none_of(cases.begin(), cases.end(), [&](const Case &other) { return kernelOf(other) == kernelOf(one); }))
      cases.push_back(one);
  std::vector<std::optional<Expected<KernelImage>>> images(cases.size());
  inParallel(cases.size(),
             [&](size_t i) { images[i] = compileImage(cases[i].make(), optionsFor(cases[i]), options.target); });
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!*images[i])
      return about(cases[i], images[i]->error().text());
    print(rowOf(cases[i], **images[i]));
  }
  return {};
}

/// Prints the row of one case, unless it fails.
static Expected<void> measureCase(const Options &options, const Case &one, Data &data, const Expected<Kernel> &kernel) {
  if (!kernel)
    return kernel.error();
  const KernelImage &image = (*kernel).image();
  data.forget();
  Expected<LaunchArgs> args = data.arguments(one, *kernel);
  if (!args)
    return args.error();
  Expected<double> milliseconds = data.time(options, *kernel, *args);
  if (!milliseconds)
    return milliseconds.error();
  Expected<double> error = data.spotCheck(one);
  if (!error)
    return error.error();
  if (!(*error <= 1))
    return Error{fmt::format("a row of O is {:.1f} times as far from float64 as bf16 allows", *error)};
  if (image.path != options.expectedPath)
    return Error{fmt::format("ran by {}, expected is {}", image.path, options.expectedPath)};
  ordered_json row = rowOf(one, image);
  row["ms"] = *milliseconds;
  row["tflops"] = one.flops() / *milliseconds / 1e9;
  // A warpgroup passes over tiles in which its own 64 rows see nothing.
  const int rows = image.path == "wgmma" ? 64 : image.tileQ;
  row["tileTflops"] = one.tileFlops(rows, image.tileK) / *milliseconds / 1e9;
  row["capturedBytes"] = data.capturedBytes();
  row["error"] = *error;
  print(row);
  return {};
}

Expected<void> bench::measureCases(const Options &options) {
  const std::vector<Case> cases = options.cases();
  Expected<Data> data = Data::create(options, cases);
  if (!data)
    return data.error();
  std::map<std::string, Expected<Kernel>> kernels;
  for (const Case &one : cases)
    kernels.try_emplace(kernelOf(one), Error{"not compiled"});
  std::vector<const Case *> representatives;
  for (auto &[key, kernel] : kernels)
    representatives.push_back(
        &*std::find_if(cases.begin(), cases.end(), [&](const Case &one) { return kernelOf(one) == key; }));
  inParallel(representatives.size(), [&](size_t i) {
    const Case &one = *representatives[i];
    kernels.at(kernelOf(one)) = compile(one.make(), optionsFor(one), options.target);
  });

  // A case that fails leaves the others their rows.
  size_t failures = 0;
  for (const Case &one : cases)
    if (Expected<void> measured = measureCase(options, one, *data, kernels.at(kernelOf(one))); !measured) {
      std::fprintf(stderr, "%s: %s\n", one.name.c_str(), measured.error().text().c_str());
      ++failures;
    }
  if (failures)
    return Error{fmt::format("{} of {} cases failed", failures, cases.size())};
  return {};
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

namespace {
/// One plan of one kernel.
struct Job {
  const Case *one;
  CompileOptions options;
  std::string text;
  bool chosen;
  Expected<Kernel> kernel = Error{"not compiled"};
};

/// The best plans of every case. Cases of one kernel share the jobs of a plan.
struct Jobs {
  std::map<std::string, Job> byKey;             ///< by kernel and plan
  std::vector<std::vector<std::string>> ofCase; ///< keys, in the model's order
};

/// What `explain` says of every case. The choice may have to compile: a plan that spills gives way to the next.
std::vector<Expected<std::string>> explainedCases(const Options &options, const std::vector<Case> &cases) {
  std::vector<Expected<std::string>> texts(cases.size(), Error{"not explained"});
  inParallel(cases.size(), [&](size_t i) {
    const Case &one = cases[i];
    texts[i] = explain(one.make(), optionsFor(one), options.target,
                       {one.batch, one.heads, one.headsKv, one.length, one.length});
  });
  return texts;
}

CompileOptions optionsOf(const Case &one, const ordered_json &candidate) {
  CompileOptions fixed = optionsFor(one);
  fixed.tileQ = candidate["tileQ"];
  fixed.tileK = candidate["tileK"];
  fixed.warps = candidate["warps"];
  fixed.stages = candidate["stages"];
  fixed.qRegisters = candidate["qRegisters"];
  fixed.dvWarps = candidate["dvWarps"];
  return fixed;
}

Expected<Jobs> candidateJobs(const Options &options, const std::vector<Case> &cases) {
  Jobs jobs;
  jobs.ofCase.resize(cases.size());
  const std::vector<Expected<std::string>> texts = explainedCases(options, cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &one = cases[i];
    if (!texts[i])
      return about(one, texts[i].error().text());
    int taken = 0;
    const ordered_json explained = ordered_json::parse(*texts[i]);
    for (const ordered_json &candidate : explained["candidates"]) {
      const bool chosen = candidate["chosen"];
      if (!candidate["rejected"].get<std::string>().empty() || (!chosen && taken >= options.candidates))
        continue;
      const CompileOptions fixed = optionsOf(one, candidate);
      const std::string key = fmt::format("{} {} {} {} {} {} {}", kernelOf(one), *fixed.tileQ, *fixed.tileK,
                                          *fixed.warps, *fixed.stages, *fixed.qRegisters, *fixed.dvWarps);
      // Options do not name blocks per SM: of plans that differ in it alone the first stands for both.
      std::vector<std::string> &mine = jobs.ofCase[i];
      Job &job = jobs.byKey.try_emplace(key, Job{&one, fixed, candidate["text"], false}).first->second;
      job.chosen = job.chosen || chosen;
      if (std::find(mine.begin(), mine.end(), key) == mine.end()) {
        mine.push_back(key);
        ++taken;
      }
    }
  }
  return jobs;
}

/// Times the candidates of a case and prints its row. Gives whether the chosen plan is within 10% of the best.
Expected<bool> measureRanking(const Options &options, const Case &one, const std::vector<std::string> &keys,
                              const Jobs &jobs, Data &data) {
  ordered_json rows = ordered_json::array();
  double best = INFINITY, chosen = INFINITY;
  std::vector<double> times;
  data.forget();
  for (const std::string &key : keys) {
    const Job &job = jobs.byKey.at(key);
    if (!job.kernel)
      return about(one, job.text + ": " + job.kernel.error().text());
    const KernelImage &image = (*job.kernel).image();
    Expected<LaunchArgs> args = data.arguments(one, *job.kernel);
    if (!args)
      return about(one, args.error().text());
    Expected<double> milliseconds = data.time(options, *job.kernel, *args);
    if (!milliseconds)
      return about(one, job.text + ": " + milliseconds.error().text());
    times.push_back(*milliseconds);
    best = std::min(best, *milliseconds);
    if (job.chosen)
      chosen = *milliseconds;
    rows.push_back({{"plan", job.text},
                    {"chosen", job.chosen},
                    {"ms", *milliseconds},
                    {"registers", image.main().registers},
                    {"spillBytes", image.main().spillBytes}});
  }
  const auto rank = 1 + std::count_if(times.begin(), times.end(), [&](double time) { return time < chosen; });
  print({{"name", one.name},
         {"peer", "candidates"},
         {"rank", rank},
         {"of", times.size()},
         {"slowdown", chosen / best},
         {"candidates", rows}});
  return chosen <= 1.1 * best;
}
} // namespace

Expected<void> bench::measureCandidates(const Options &options) {
  const std::vector<Case> cases = options.cases();
  Expected<Jobs> jobs = candidateJobs(options, cases);
  if (!jobs)
    return jobs.error();
  if (options.compileOnly) {
    for (size_t i = 0; i < cases.size(); ++i)
      for (const std::string &key : jobs->ofCase[i]) {
        const Job &job = jobs->byKey.at(key);
        print({{"name", cases[i].name}, {"plan", job.text}, {"chosen", job.chosen}});
      }
    return {};
  }
  Expected<Data> data = Data::create(options, cases);
  if (!data)
    return data.error();
  std::vector<Job *> all;
  for (auto &[key, job] : jobs->byKey)
    all.push_back(&job);
  inParallel(all.size(),
             [&](size_t i) { all[i]->kernel = compile(all[i]->one->make(), all[i]->options, options.target); });

  int within = 0, counted = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    Expected<bool> isWithin = measureRanking(options, cases[i], jobs->ofCase[i], *jobs, *data);
    if (!isWithin)
      return isWithin.error();
    counted += 1;
    within += *isWithin;
  }
  print({{"name", "candidates"},
         {"peer", "summary"},
         {"cases", counted},
         {"within10percent", within},
         {"share", counted ? double(within) / counted : 0.0}});
  return {};
}
