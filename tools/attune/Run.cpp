//===- Run.cpp - attune run -------------------------------------------------===//
//
// Compiles, runs on random inputs or the user's, checks O and LSE, or the gradients of the backward pass, against the
// float64 reference, times, and writes what NumPy needs to check the same.
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/Report.h"
#include "tools/attune/TileMaps.h"

#include "driver/Compiling.h"
#include "driver/Timing.h"
#include "runtime/CudaDriver.h"
#include "tools/reference/Compare.h"
#include "tools/reference/Gradients.h"
#include "tools/reference/Pages.h"
#include "tools/reference/Philox.h"
#include "tools/reference/Program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <thread>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {
struct RunFlags : Flags {
  std::string q, k, v;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::string dump;
  bool checked = false;
  bool noCheck = false;
  int repeats = 0;
  bool prepare = false;
  bool keepTables = false;
  int simulate = 0; ///< orders of events; 0: run
};

/// Everything that a launch reads and writes, on the host.
struct Data {
  Shape shape;
  HostTensor q, k, v, o, lse;
  std::optional<HostTensor> keyPages, valuePages; ///< what a launch takes as k and v where keys lie in pages
  bool hasLse = true;                             ///< else the kernel has no such operand
  std::map<std::string, HostTensor> tensors, scalars;
  std::map<std::string, HostTensor> ofBackward; ///< its operands beside those above: do, dlse, dq, dk, dv, grads.NAME
  std::map<std::string, HostTensor> saved;      ///< what the forward pass leaves for it: saved.NAME

  const HostTensor &launchedKeys() const { return keyPages ? *keyPages : k; }
  const HostTensor &launchedValues() const { return valuePages ? *valuePages : v; }
  /// What a launch writes.
  std::vector<std::pair<std::string, HostTensor *>> results() {
    if (ofBackward.empty())
      return {{"o", &o}, {"lse", &lse}};
    std::vector<std::pair<std::string, HostTensor *>> gradients;
    for (auto &[name, tensor] : ofBackward)
      if (name != "do" && name != "dlse")
        gradients.push_back({name, &tensor});
    return gradients;
  }
  /// All bits set is a NaN in f32, f16 and bf16: what the kernel does not write shows.
  void poisonResults() {
    for (auto [name, tensor] : results())
      std::fill(tensor->data.begin(), tensor->data.end(), std::byte(0xff));
  }
};

bool hasOperand(const KernelSignature &signature, std::string_view name) {
  return std::ranges::find(signature.operands, name, &OperandParam::name) != signature.operands.end();
}

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<int64_t> savedSizes(const OperandParam &operand, const Shape &shape) {
  const auto sizes = savedShape(operand, shape.batch, shape.heads, shape.queries, shape.keys);
  return {sizes.begin(), sizes.end()};
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// q, k and v of --q, --k and --v, and the shape they give.
Result<std::optional<Data>> readInputs(const RunFlags &flags) {
  if (flags.q.empty() && flags.k.empty() && flags.v.empty())
    return std::optional<Data>();
  if (flags.q.empty() || flags.k.empty() || flags.v.empty())
    return usageError("--q, --k and --v go together; give all three, or none for random inputs");
  Data data;
  const std::pair<const std::string *, HostTensor *> files[] = {
      {&flags.q, &data.q}, {&flags.k, &data.k}, {&flags.v, &data.v}};
  for (auto [path, tensor] : files) {
    Expected<HostTensor> file =
        reference::readNpy(*path, reference::VoidElements::BFloat16, reference::DoubleElements::Reject);
    if (!file)
      return Failure{file.error(), usage};
    if (file->shape.size() != 4)
      return usageError(fmt::format("{} has shape [{}], required is [B, H, S, D]; reshape it in NumPy", *path,
                                    fmt::join(file->shape, ", ")));
    if (!isFloat(file->dtype))
      return usageError(fmt::format("{} holds {}, required is float32, float16 or bfloat16; convert it in NumPy", *path,
                                    name(file->dtype)));
    *tensor = std::move(*file);
  }
  const auto &q = data.q.shape, &k = data.k.shape, &v = data.v.shape;
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0))
    return usageError(
        fmt::format("q [{}], k [{}] and v [{}] do not fit; required are [B, H, Sq, D], [B, Hkv, Sk, D] and "
                    "[B, Hkv, Sk, Dv] with H a multiple of Hkv",
                    fmt::join(q, ", "), fmt::join(k, ", "), fmt::join(v, ", ")));
  data.shape = {q[0], q[1], k[1], q[2], k[2], int(q[3]), int(v[3])};
  if (!flags.shape.empty()) {
    Result<Shape> shape = parseShape(flags.shape);
    if (!shape)
      return shape.failure();
    if (*shape != data.shape)
      return usageError(fmt::format("--shape {} contradicts {}, {} and {}, which hold {}; leave out the flag",
                                    flags.shape, flags.q, flags.k, flags.v, data.shape.text()));
  }
  return std::optional<Data>(std::move(data));
}

/// Everything whose size follows from the shape and that makeTensor does not check, before any of it is allocated.
Expected<void> checkMemory(const RunFlags &flags, const Request &request, const KernelSignature &signature, bool given,
                           const Shape &shape, const std::map<std::string, HostTensor> &tensors) {
  const std::array<int64_t, 4> q = {shape.batch, shape.heads, shape.queries, shape.headDim},
                               k = {shape.batch, shape.headsKv, shape.keys, shape.headDim},
                               v = {shape.batch, shape.headsKv, shape.keys, shape.headDimV},
                               o = {shape.batch, shape.heads, shape.queries, shape.headDimV};
  const bool checks = !flags.noCheck && request.variant;
  const uint64_t inputs = given ? 0 : byteSize(signature.dtype);
  reference::MemoryNeed need;
  need.add("q", inputs, q);
  need.add("k", inputs, k);
  need.add("v", inputs, v);
  need.add("o", byteSize(signature.dtype), o);
  need.add("lse", 4, std::span(o).first(3));
  for (const OperandParam &operand : signature.operands)
    if (operand.name.starts_with(savedPrefix))
      need.add(operand.name, byteSize(operand.dtype), savedSizes(operand, shape));
  if (hasOperand(signature, "do")) {
    need.add("do", byteSize(signature.dtype), o);
    need.add("dq", byteSize(signature.dtype), q);
    need.add("dk", byteSize(signature.dtype), k);
    need.add("dv", byteSize(signature.dtype), v);
    for (const auto &[name, tensor] : tensors) {
      const std::string gradient = std::string(gradientPrefix) + name;
      if (!hasOperand(signature, gradient))
        continue;
      need.add(gradient, byteSize(tensor.dtype), tensor.shape);
      if (checks) // values, errors and masses, twice
        need.add("the reference's " + gradient, 2 * 3 * 8, tensor.shape);
    }
    if (checks) // values and errors
      for (const auto &[name, shape] : {std::pair("the reference's dq", &q),
                                        {"the reference's dk", &k},
                                        {"the reference's dv", &v},
                                        {"the reference's do", &o}})
        need.add(name, 2 * 8, *shape);
  }
  if (checks)
    reference::addReferenceMemory(need, q, k, v, !flags.dump.empty() && request.variant->hasDropout());
  if (!flags.dump.empty()) // the largest in float32, and as a file
    need.add("the dump", std::max({reference::bytesOf(8, q), reference::bytesOf(8, k), reference::bytesOf(8, v),
                                   reference::bytesOf(8, o)}));
  return need.fits("this run", checks ? "make the shape smaller, or leave out the reference's part by --no-check"
                                      : "make the shape smaller");
}

/// Keys behind the lengths of sequences hold NaN, and pages hold the others.
Expected<void> placeKeys(const RunFlags &flags, const Request &request, Data &data) {
  if (!request.variant)
    return {};
  const std::optional<TensorDecl> &lengths = request.variant->keyLengths();
  const HostTensor *ofKeys = lengths ? &data.tensors.at(lengths->name) : nullptr;
  if (ofKeys && ofKeys->shape != std::vector<int64_t>{data.shape.batch})
    return Error{fmt::format("captured tensor {} has [{}], a run of batch {} needs a length for each", lengths->name,
                             fmt::join(ofKeys->shape, ", "), data.shape.batch)};
  if (ofKeys)
    for (HostTensor *rows : {&data.k, &data.v})
      reference::poisonAfter(*rows, *ofKeys);
  const std::optional<KeyPages> &pages = request.variant->keyPages();
  if (!pages)
    return {};
  const int64_t size = pages->size, keys = data.shape.keys;
  if (keys % size && !ofKeys)
    return Error{fmt::format("{} keys are no whole pages of {}; run with {}, or with --lengths", keys, size,
                             (keys + size - 1) / size * size)};
  // A sequence longer than the problem would have what lies behind it in its last page.
  for (int64_t b = 0; ofKeys && b < data.shape.batch; ++b)
    if (const int64_t length = ofKeys->intAt(b); length > keys)
      return Error{
          fmt::format("{}[{}] is {}, the shape has {} keys; pass 0 to {}", lengths->name, b, length, keys, keys)};
  const int64_t columns = (keys + size - 1) / size;
  HostTensor &table = data.tensors[pages->tensor.name];
  if (table.shape.empty())
    table = reference::pageTable(data.shape.batch, keys, size, ofKeys, flags.seed * 1000 + 9);
  if (table.shape != std::vector<int64_t>{data.shape.batch, columns})
    return Error{fmt::format("captured tensor {} has [{}], batch {} and {} keys in pages of {} take [{}, {}]",
                             pages->tensor.name, fmt::join(table.shape, ", "), data.shape.batch, keys, size,
                             data.shape.batch, columns)};
  constexpr int64_t mostPages = 1 << 20;
  for (int64_t b = 0; b < data.shape.batch; ++b)
    for (int64_t k = 0; k < reference::keysOf(ofKeys, b, keys); k += size)
      if (const int64_t page = table.intAt(b * table.shape[1] + k / size); page < 0 || page >= mostPages)
        return Error{fmt::format("{}[{}, {}] is page {}; a run has pages 0 to {}", pages->tensor.name, b, k / size,
                                 page, mostPages - 1)};
  data.keyPages = reference::toPages(data.k, table, size, ofKeys);
  data.valuePages = reference::toPages(data.v, table, size, ofKeys);
  return {};
}

Expected<void> fillData(const RunFlags &flags, const Request &request, const KernelSignature &signature, bool given,
                        Data &data) {
  const Shape &shape = data.shape;
  DType dtype = signature.dtype;
  uint64_t number = 10;
  const std::optional<KeyPages> pages = request.variant ? request.variant->keyPages() : std::nullopt;
  if (Expected<void> there = requireData(request, signature.tensors, signature.scalars, shape); !there)
    return there;
  for (const TensorParam &param : signature.tensors) {
    if (pages && pages->tensor.name == param.name &&
        std::ranges::find(request.tensors, param.name, &TensorFlag::name) == request.tensors.end())
      continue; // placeKeys
    Expected<HostTensor> tensor = makeTensor(request, param, shape, flags.seed * 1000 + number++);
    if (!tensor)
      return tensor.error();
    data.tensors[param.name] = std::move(*tensor);
  }
  if (Expected<void> fits = checkMemory(flags, request, signature, given, shape, data.tensors); !fits)
    return fits;
  if (given) {
    for (HostTensor *tensor : {&data.q, &data.k, &data.v})
      if (tensor->dtype != dtype)
        *tensor = tensor->converted(dtype);
  } else {
    data.q = HostTensor::random(dtype, {shape.batch, shape.heads, shape.queries, shape.headDim}, flags.seed * 1000 + 1);
    data.k = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDim}, flags.seed * 1000 + 2);
    data.v = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDimV}, flags.seed * 1000 + 3);
  }
  if (Expected<void> placed = placeKeys(flags, request, data); !placed)
    return placed;
  data.o = HostTensor::zeros(dtype, {shape.batch, shape.heads, shape.queries, shape.headDimV});
  data.hasLse = hasOperand(signature, "lse");
  data.lse = HostTensor::zeros(DType::F32, {shape.batch, shape.heads, data.hasLse ? shape.queries : 0});
  data.poisonResults();
  if (hasOperand(signature, "do")) {
    for (auto [name, like] : {std::pair("dq", &data.q), std::pair("dk", &data.k), std::pair("dv", &data.v)})
      data.ofBackward[name] = HostTensor::zeros(dtype, like->shape);
    for (const TensorParam &param : signature.tensors)
      if (const std::string name = gradientOperand(param).name; hasOperand(signature, name))
        data.ofBackward[name] = HostTensor::zeros(param.dtype, data.tensors.at(param.name).shape);
    data.ofBackward["do"] = HostTensor::random(dtype, data.o.shape, flags.seed * 1000 + 4);
    if (hasOperand(signature, "dlse"))
      data.ofBackward["dlse"] = HostTensor::random(DType::F32, data.lse.shape, flags.seed * 1000 + 5);
    data.poisonResults();
  }
  for (const OperandParam &operand : signature.operands)
    if (operand.name.starts_with(savedPrefix)) {
      HostTensor &saved = data.saved[operand.name] = HostTensor::zeros(operand.dtype, savedSizes(operand, shape));
      std::fill(saved.data.begin(), saved.data.end(), std::byte(0xff));
    }
  for (const ScalarParam &param : signature.scalars) {
    Expected<HostTensor> value = makeScalar(request, param);
    if (!value)
      return value.error();
    data.scalars[param.name] = std::move(*value);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The launch's arguments; `place` gives each tensor its memory.
template <typename Place> LaunchArgs launchArgs(const RunFlags &flags, Device device, const Data &data, Place &&place) {
  LaunchArgs args;
  auto view = [&](const HostTensor &tensor) {
    return Tensor::contiguous(place(tensor), tensor.dtype, tensor.shape, device);
  };
  args.q = view(data.q);
  args.k = view(data.launchedKeys());
  args.v = view(data.launchedValues());
  args.o = view(data.o);
  if (data.hasLse)
    args.lse = view(data.lse);
  for (const auto *more : {&data.ofBackward, &data.saved})
    for (const auto &[name, tensor] : *more)
      args.operands.push_back({name, view(tensor)});
  for (const auto &[name, tensor] : data.tensors)
    args.tensors.push_back({name, view(tensor)});
  for (const auto &[name, value] : data.scalars)
    args.scalars.push_back({name, reference::scalarValue(value)});
  args.seed = flags.seed;
  args.offset = flags.offset;
  args.qOffset = flags.qOffsetValue;
  return args;
}

Expected<std::vector<std::max_align_t>> hostWorkspace(size_t bytes) {
  reference::MemoryNeed need;
  need.add("tables of bounds", bytes);
  if (Expected<void> fits = need.fits("the launch's workspace", "make the shape smaller"); !fits)
    return fits.error();
  return std::vector<std::max_align_t>((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
}

/// Runs, leaves the results in data.results(), and gives the median time of a launch in milliseconds.
Expected<double> runOnCpu(const RunFlags &flags, const Kernel &kernel, Data &data) {
  LaunchArgs args =
      launchArgs(flags, kernel.device(), data, [](const HostTensor &tensor) { return tensor.data.data(); });
  args.workspaceBytes = kernel.workspaceBytes(args);
  Expected<std::vector<std::max_align_t>> workspace = hostWorkspace(args.workspaceBytes);
  if (!workspace)
    return workspace.error();
  args.workspace = workspace->data();
  auto launch = [&] { return flags.checked ? kernel.launchChecked(nullptr, args) : kernel.launch(nullptr, args); };
  auto begin = Clock::now();
  if (Expected<void> launched = launch(); !launched)
    return launched.error();
  args.keepTables = flags.keepTables;
  std::vector<double> times = {millisecondsSince(begin)};
  int repeats = flags.repeats ? flags.repeats : 5;
  double budget = flags.repeats ? 1e30 : 2000;
  if (repeats > 1 && times[0] < budget)
    times.clear(); // the first launch also touches the memory
  while (int(times.size()) < repeats && (times.empty() || millisecondsSince(begin) < budget)) {
    auto start = Clock::now();
    if (Expected<void> launched = launch(); !launched)
      return launched.error();
    times.push_back(millisecondsSince(start));
  }
  return median(times);
}

Expected<double> runOnGpu(const RunFlags &flags, const Kernel &kernel, const Target &target, Data &data) {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  if (Expected<void> current = (*cuda)->makeCurrent(kernel.device().ordinal); !current)
    return current.error();
  std::map<const HostTensor *, DeviceBuffer> buffers;
  auto upload = [&](const HostTensor &tensor) -> Expected<void> {
    Expected<DeviceBuffer> buffer = DeviceBuffer::copyOf(tensor.data.data(), tensor.bytes());
    if (!buffer)
      return buffer.error();
    buffers[&tensor] = std::move(*buffer);
    return {};
  };
  for (const HostTensor *tensor : {&std::as_const(data.q), &data.launchedKeys(), &data.launchedValues(),
                                   &std::as_const(data.o), &std::as_const(data.lse)})
    if (Expected<void> done = upload(*tensor); !done)
      return done.error();
  for (const auto *more : {&data.tensors, &data.ofBackward, &data.saved})
    for (const auto &[name, tensor] : *more)
      if (Expected<void> done = upload(tensor); !done)
        return done.error();
  Expected<CudaStream> stream = CudaStream::create();
  if (!stream)
    return stream.error();
  LaunchArgs args =
      launchArgs(flags, kernel.device(), data, [&](const HostTensor &tensor) { return buffers[&tensor].data(); });
  args.workspaceBytes = kernel.workspaceBytes(args);
  Expected<DeviceBuffer> workspace = DeviceBuffer::allocate(std::max<size_t>(args.workspaceBytes, 1));
  if (!workspace)
    return workspace.error();
  args.workspace = workspace->data();
  auto launch = [&] {
    return flags.checked ? kernel.launchChecked(stream->get(), args) : kernel.launch(stream->get(), args);
  };
  // What is checked is what later launches give.
  for (bool again : {false, true}) {
    if (again && !flags.keepTables)
      break;
    args.keepTables = again;
    if (Expected<void> launched = launch(); !launched)
      return launched.error();
  }
  if (Expected<void> finished = stream->synchronize(); !finished)
    return finished.error();
  for (auto [name, tensor] : data.results())
    if (Expected<void> copied = buffers[tensor].copyToHost(tensor->data.data(), tensor->bytes()); !copied)
      return copied.error();
  for (auto &[name, tensor] : data.saved)
    if (Expected<void> copied = buffers[&tensor].copyToHost(tensor.data.data(), tensor.bytes()); !copied)
      return copied.error();

  Expected<driver::LaunchTimer> timer = driver::LaunchTimer::create(target);
  if (!timer)
    return timer.error();
  std::vector<double> times;
  int repeats = flags.repeats ? flags.repeats : 20;
  for (int i = -3; i < repeats; ++i) {
    Expected<double> milliseconds = timer->milliseconds(kernel, args);
    if (!milliseconds)
      return milliseconds.error();
    if (i >= 0)
      times.push_back(*milliseconds);
  }
  return median(times);
}

/// O and LSE of the forward pass, which the backward pass takes, and what else it leaves, on `target`. Gives its time in
/// milliseconds, on a CPU of one launch.
Expected<double> runForward(const RunFlags &flags, const Request &request, const Target &target, Data &data) {
  if (!request.variant)
    return Error{"the text does not say which variant's backward pass it is, so that there is no forward pass to run "
                 "before it; emit it from the variant"};
  CompileOptions options = request.options;
  options.dtype = data.q.dtype;
  options.backward = false;
  options.gradients.reset();
  options.cuda.reset();
  options.sramBudget = 0;
  assignSchedule(options, CompileOptions());
  // What the backward pass reads is decided.
  for (const auto &[name, tensor] : data.saved) {
    if (!options.gradients)
      options.gradients.emplace();
    options.gradients->saving.save.push_back(name.substr(savedPrefix.size()));
  }
  Expected<KernelImage> image = attune::compileImage(*request.variant, options, target);
  if (!image)
    return image.error();
  Expected<Kernel> kernel = driver::kernelOfImage(std::move(*image), {.variant = &*request.variant}, options, target);
  if (!kernel)
    return kernel.error();
  if (request.variant->hasDropout())
    kernel = kernel->withDropout(request.variant->dropoutProbability());
  RunFlags once = flags;
  if (!target.isCuda())
    once.repeats = 1;
  once.keepTables = false;
  std::map<std::string, HostTensor> ofBackward = std::move(data.ofBackward);
  data.ofBackward.clear();
  Expected<double> ran = target.isCuda() ? runOnGpu(once, *kernel, target, data) : runOnCpu(once, *kernel, data);
  data.ofBackward = std::move(ofBackward);
  return ran;
}

//===----------------------------------------------------------------------===//
// Checking and writing
//===----------------------------------------------------------------------===//

/// Says on standard error how long the reference will take where that is long.
void announceReference(const Shape &shape) {
  constexpr double longest = 20;
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const std::array<int64_t, 4> q = {shape.batch, shape.heads, shape.queries, shape.headDim},
                               v = {shape.batch, shape.headsKv, shape.keys, shape.headDimV};
  const double seconds = reference::expectedSeconds(q, v, threads);
  if (seconds > longest)
    printError("note: the check against the float64 reference takes about {} on {} cores; --no-check leaves it out\n",
               seconds < 120 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} minutes", seconds / 60), threads);
}

struct Check {
  reference::Output exact; ///< of the forward pass
  std::vector<reference::Comparison> results;
  bool pass() const {
    return std::ranges::all_of(results, [](const reference::Comparison &result) { return result.pass; });
  }
  /// Of the first result that differs.
  std::string difference() const {
    const auto wrong = std::ranges::find(results, false, &reference::Comparison::pass);
    return wrong == results.end() ? "" : wrong->describe();
  }
  void printErrors() const {
    for (const reference::Comparison &result : results)
      print("  {:<14} {}\n", &result == &results.front() ? "error" : "", result.describe());
  }
};

/// The run as the reference has it, without tensors.
reference::Problem problemOf(const RunFlags &flags, const Variant &variant, const Data &data) {
  reference::Problem problem;
  problem.variant = &variant;
  problem.scalars = data.scalars;
  problem.seed = flags.seed;
  problem.offset = flags.offset;
  problem.qOffset = flags.qOffsetValue.value_or(0);
  return problem;
}

/// Of all (b, h, q, k), those that the mask shows. The reference evaluates all of them and more; without it nothing is
/// given where that takes more than seconds.
Expected<std::optional<int64_t>> countVisible(const RunFlags &flags, const Variant &variant, Data &data) {
  const int64_t mostEvaluations = flags.noCheck ? int64_t(1) << 30 : std::numeric_limits<int64_t>::max();
  reference::Problem problem = problemOf(flags, variant, data);
  problem.q = {data.q.dtype, data.q.shape, {}};
  problem.k = {data.k.dtype, data.k.shape, {}};
  problem.v = {data.v.dtype, data.v.shape, {}};
  problem.tensors = std::move(data.tensors);
  Expected<std::optional<int64_t>> count = reference::countVisible(problem, mostEvaluations);
  data.tensors = std::move(problem.tensors);
  return count;
}

/// The results of the forward pass beside the reference's.
Expected<Check> checkForward(reference::Problem &problem, const Data &data) {
  Expected<reference::Output> exact = reference::attention(problem);
  if (!exact)
    return exact.error();
  problem.wantKeep = false;
  Expected<reference::Output> plain = reference::plainLowPrecision(problem);
  if (!plain)
    return plain.error();
  Check result{std::move(*exact), {}};
  result.results.push_back(reference::compareO(data.o, result.exact, *plain));
  if (problem.variant->hasLse())
    result.results.push_back(reference::compareLse(data.lse, result.exact, *plain));
  return result;
}

/// Those of the backward pass.
Expected<Check> checkBackward(reference::Problem &problem, const Data &data) {
  const auto dLse = data.ofBackward.find("dlse");
  reference::BackwardProblem backward{.forward = std::move(problem), .dO = data.ofBackward.at("do")};
  if (dLse != data.ofBackward.end())
    backward.dLse = dLse->second;
  for (const auto &[name, tensor] : data.ofBackward)
    if (name.starts_with(gradientPrefix))
      backward.tensors.push_back(name.substr(gradientPrefix.size()));
  Expected<reference::GradientValues> exact = reference::gradients(backward);
  problem = std::move(backward.forward);
  if (!exact)
    return exact.error();
  Check result{std::move(exact->forward), {}};
  for (auto [name, gradient] : {std::pair("dq", &exact->q), std::pair("dk", &exact->k), std::pair("dv", &exact->v)})
    result.results.push_back(reference::compareGradient(name, data.ofBackward.at(name), *gradient));
  for (const auto &[tensor, gradient] : exact->tensors) {
    const std::string name = std::string(gradientPrefix) + tensor;
    result.results.push_back(reference::compareGradient(name, data.ofBackward.at(name), gradient));
  }
  return result;
}

/// Takes the inputs for the reference's problem and gives them back: they may be gigabytes.
Expected<Check> check(const RunFlags &flags, const Variant &variant, Data &data) {
  reference::Problem problem = problemOf(flags, variant, data);
  problem.q = std::move(data.q);
  problem.k = std::move(data.k);
  problem.v = std::move(data.v);
  problem.tensors = std::move(data.tensors);
  problem.wantKeep = !flags.dump.empty() && variant.hasDropout();
  Expected<Check> result = data.ofBackward.empty() ? checkForward(problem, data) : checkBackward(problem, data);
  data.q = std::move(problem.q);
  data.k = std::move(problem.k);
  data.v = std::move(problem.v);
  data.tensors = std::move(problem.tensors);
  return result;
}

ordered_json comparisonJson(const reference::Comparison &comparison) {
  return {{"pass", comparison.pass},
          {"maxError", comparison.maxError},
          {"limit", comparison.limit},
          {"plainError", comparison.plainError},
          {"rmsError", comparison.rmsError},
          {"rows", comparison.rows},
          {"badRows", comparison.badRows},
          {"uncheckedRows", comparison.uncheckedRows},
          {"worstRow", comparison.worstRow},
          {"worstError", comparison.worstError},
          {"worstLimit", comparison.worstLimit}};
}

ordered_json shapeJson(const Shape &shape) {
  return {{"B", shape.batch}, {"H", shape.heads},   {"Hkv", shape.headsKv}, {"Sq", shape.queries},
          {"Sk", shape.keys}, {"D", shape.headDim}, {"Dv", shape.headDimV}};
}

/// `keep` is written only where O agrees with the reference: then the kernel dropped what the formula drops.
Expected<void> writeDump(const RunFlags &flags, const Data &data, const Check *check, const ordered_json &meta) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(flags.dump, code);
  if (code)
    return Error{fmt::format("{} cannot be made: {}", flags.dump, code.message())};
  // Captured tensors have a folder of their own: one may be called as an input or output is.
  std::vector<const char *> folders;
  if (!data.tensors.empty())
    folders.push_back("tensors");
  if (std::ranges::any_of(data.ofBackward, [](const auto &one) { return one.first.starts_with(gradientPrefix); }))
    folders.push_back("grads");
  for (const char *folder : folders) {
    const fs::path path = fs::path(flags.dump) / folder;
    fs::create_directories(path, code);
    if (code)
      return Error{fmt::format("{} cannot be made: {}", path.string(), code.message())};
  }
  auto write = [&](const std::string &name, const HostTensor &tensor) {
    const std::vector<std::byte> bytes = reference::formatNpy(tensor);
    return writeFile((fs::path(flags.dump) / (name + ".npy")).string(),
                     {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  };
  const std::pair<const char *, const HostTensor *> fixed[] = {
      {"q", &data.q}, {"k", &data.k}, {"v", &data.v}, {"o", &data.o}, {"lse", &data.lse}};
  for (auto [name, tensor] : fixed)
    if (tensor != &data.lse || data.hasLse)
      if (Expected<void> written = write(name, *tensor); !written)
        return written;
  for (const auto &[name, tensor] : data.ofBackward) {
    const bool isCaptured = name.starts_with(gradientPrefix);
    if (Expected<void> written = write(isCaptured ? "grads/" + name.substr(gradientPrefix.size()) : name, tensor);
        !written)
      return written;
  }
  for (const auto &[name, tensor] : data.tensors)
    if (Expected<void> written = write("tensors/" + name, tensor); !written)
      return written;
  if (check && check->pass() && !check->exact.keep.empty()) {
    HostTensor keep =
        HostTensor::zeros(DType::Bool, {data.shape.batch, data.shape.heads, data.shape.queries, data.shape.keys});
    std::copy(check->exact.keep.begin(), check->exact.keep.end(), reinterpret_cast<uint8_t *>(keep.data.data()));
    if (Expected<void> written = write("keep", keep); !written)
      return written;
  }
  return writeFile((fs::path(flags.dump) / "meta.json").string(), meta.dump(2) + "\n");
}

/// "score" or "mask" as the user wrote it, where that is text.
std::string sourceOf(const RunFlags &flags, const Request &request, const std::string &role) {
  if (role != "score" && role != "mask")
    return "";
  const std::optional<std::string> &given = role == "score" ? flags.score : flags.mask;
  if (given)
    return *given;
  if (request.input.kind != Input::Kind::Json)
    return "";
  ordered_json json = ordered_json::parse(request.input.file.text, nullptr, false);
  return request.variant && json.is_object() && json.contains(role) && json[role].is_string()
             ? json[role].get<std::string>()
             : "";
}

/// Looks for the first read outside of a captured tensor, on the host's copies.
Expected<void> checkIndices(const RunFlags &flags, const Request &request, const Data &data) {
  LaunchArgs args = launchArgs(flags, Device{}, data, [](const HostTensor &tensor) { return tensor.data.data(); });
  Expected<std::optional<IndexFault>> found = findIndexFault(*request.variant, args);
  if (!found)
    return found.error();
  if (!*found)
    return {};
  Error error = (*found)->error();
  if (const BuiltinVariant *builtin = request.input.builtin; builtin && error.where.file == builtin->name)
    error.where = {}; // the registry's own place
  const std::string source = sourceOf(flags, request, error.where.file);
  if (error.where.known() && !source.empty()) {
    size_t begin = 0;
    for (unsigned line = 1; line < error.where.line; ++line)
      begin = source.find('\n', begin) + 1;
    std::string shown = source.substr(begin, source.find('\n', begin) - begin),
                indent = shown.substr(0, error.where.column - 1);
    std::replace_if(indent.begin(), indent.end(), [](char c) { return c != '\t'; }, ' ');
    error.excerpt = shown + "\n" + indent + "^";
  }
  return error;
}

/// Replaces the plan's predictions, which are for the sizes that schedules are ranked with, by those for this run.
void predictFor(const RunFlags &flags, const Request &request, const Shape &shape, ordered_json &plan) {
  if (!plan.is_object() || !plan.contains("traffic"))
    return;
  Request fixed = request;
  visitSchedule(
      [&](std::string_view name, auto, auto &field) {
        if (auto of = plan.find(name); of != plan.end())
          field = of->get<std::decay_t<decltype(*field)>>();
      },
      fixed.options);
  for (const char *part : {"traffic", "predicted"})
    plan.erase(part);
  const Expected<std::shared_ptr<const TileMap>> tiles = knownTileMap(request, shape, flags.qOffsetValue, flags.seed);
  Expected<std::string> explained =
      explainRequest(fixed, {shape.batch, shape.heads, shape.headsKv, shape.queries, shape.keys},
                     tiles ? *tiles : std::shared_ptr<const TileMap>());
  if (!explained)
    return;
  ordered_json predicted = ordered_json::parse(*explained)["plan"];
  for (const char *part : {"traffic", "predicted"})
    if (predicted.contains(part))
      plan[part] = predicted[part];
}

/// One problem in the simulator, under as many orders of events as asked for.
int simulateData(const RunFlags &flags, const Request &request, const Simulation &simulation, bool given, Data &data) {
  if (Expected<void> filled = fillData(flags, request, simulation.summary().signature, given, data); !filled)
    return report({filled.error()});
  if (!data.ofBackward.empty())
    if (Expected<double> ran = runForward(flags, request, Target::cpu(), data); !ran)
      return report({ran.error()});
  LaunchArgs args = launchArgs(flags, Device{}, data, [](const HostTensor &tensor) { return tensor.data.data(); });
  args.workspaceBytes = simulation.workspaceBytes(args);
  Expected<std::vector<std::max_align_t>> workspace = hostWorkspace(args.workspaceBytes);
  if (!workspace)
    return report({workspace.error()});
  args.workspace = workspace->data();
  if (simulation.summary().signature.dropout)
    args.dropout = request.variant ? request.variant->dropoutProbability() : float(flags.dropout.value_or(0));
  for (int seed = 0; seed < flags.simulate; ++seed) {
    data.poisonResults();
    if (Expected<void> ran = simulation.run(args, {.seed = uint64_t(seed)}); !ran)
      return report({ran.error()});
    if (flags.noCheck || !request.variant)
      continue;
    Expected<Check> checked = check(flags, *request.variant, data);
    if (!checked)
      return report({checked.error()});
    if (!checked->pass()) {
      printError("error: with seed {} the results differ from the float64 reference: {}\n", seed,
                 checked->difference());
      return failed;
    }
    if (seed + 1 == flags.simulate)
      checked->printErrors();
  }
  return done;
}

/// The schedule in the simulator: on the problem that is asked for, or on those that show most of it.
int simulate(const RunFlags &flags, const Request &request, bool given, Data &data) {
  if (!request.target.isCuda())
    return report(usageError("--simulate is for a GPU's schedule; name its architecture, for example --arch sm_90a"));
  if (!flags.cuda.empty())
    return report(usageError("--simulate runs the schedule, which CUDA text does not change; leave out --cuda"));
  if (flags.json || !flags.dump.empty() || flags.repeats || flags.checked)
    return report(usageError("--simulate only tells what it finds; leave out --json, --dump, --repeats and --checked"));
  // A schedule given as text runs as it is: what sched-verify would reject, too.
  bool isSchedule = request.summary && request.summary->stage == Stage::Sched;
  Expected<std::string> text = isSchedule ? request.text->text : emitStage(request, Stage::Sched);
  if (!text)
    return report({text.error()});
  Expected<Simulation> simulation =
      Simulation::load({*text, request.text ? request.text->file : request.label + ".mlir"});
  if (!simulation)
    return report({simulation.error()});
  std::vector<ProblemSizes> problems;
  if (!given && !request.shape)
    problems = simulation->exampleSizes();
  for (const ProblemSizes &sizes : problems) {
    Shape &shape = data.shape;
    shape = {sizes.batch, sizes.heads, sizes.headsKv, sizes.queries, sizes.keys, shape.headDim, shape.headDimV};
    print("  {:<14} {}\n", "shape", shape.text());
    if (int code = simulateData(flags, request, *simulation, given, data); code != done)
      return code;
  }
  if (problems.empty())
    if (int code = simulateData(flags, request, *simulation, given, data); code != done)
      return code;
  print("  {:<14} {} orders of events of {} for {}, no finding\n", "simulated", flags.simulate, request.label,
        request.target.text());
  return done;
}

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

int runVerb(const RunFlags &flags) {
  Result<std::optional<Data>> inputs = readInputs(flags);
  if (!inputs)
    return report(inputs.failure());
  bool given = inputs->has_value();
  std::optional<Shape> knownShape;
  std::optional<DType> knownDtype;
  if (given) {
    knownShape = (*inputs)->shape;
    // A file of half floats means a half-float kernel; float32 files are also how low precision is dumped.
    if ((*inputs)->q.dtype != DType::F32)
      knownDtype = (*inputs)->q.dtype;
  }
  Result<Request> resolved = resolve(flags, knownShape, knownDtype);
  if (!resolved)
    return report(resolved.failure());
  Request &request = *resolved;
  if (std::optional<Failure> failure = settleTarget(flags, request.target))
    return report(*failure);
  Data data;
  if (given)
    data = std::move(**inputs);
  if (!given) {
    data.shape = request.shape.value_or(Shape{});
    if (!request.shape) {
      data.shape.headDim = request.options.headDim;
      data.shape.headDimV = request.options.headDimV;
    }
  }

  if (flags.simulate)
    return simulate(flags, request, given, data);
  if (flags.prepare || request.options.tuning == Tuning::Measure)
    request.options.shapes = {sizesOf(data.shape)};
  auto compileBegin = Clock::now();
  Expected<Kernel> compiled = compileKernel(request);
  if (!compiled)
    return report({compiled.error()});
  double compileMilliseconds = millisecondsSince(compileBegin);
  Kernel kernel = *compiled;
  const KernelImage &image = kernel.imageFor(sizesOf(data.shape));
  if (request.text && flags.dropout)
    kernel = kernel.withDropout(float(*flags.dropout));
  // What the reference needs is the variant; its dropout probability is the launch's.
  if (Expected<void> filled = fillData(flags, request, image.signature, given, data); !filled)
    return report({filled.error()});

  if (!flags.noCheck && request.variant)
    announceReference(data.shape);
  if (flags.checked && request.variant)
    if (Expected<void> within = checkIndices(flags, request, data); !within)
      return report({within.error()});
  const bool backward = !data.ofBackward.empty();
  std::optional<double> forwardMilliseconds;
  if (backward) {
    Expected<double> ran = runForward(flags, request, request.target, data);
    if (!ran)
      return report({ran.error()});
    forwardMilliseconds = *ran;
  }
  Expected<double> milliseconds =
      request.target.isCuda() ? runOnGpu(flags, kernel, request.target, data) : runOnCpu(flags, kernel, data);
  if (!milliseconds)
    return report({milliseconds.error()});

  std::optional<Check> checkResult;
  if (!flags.noCheck && request.variant) {
    Expected<Check> checked = check(flags, *request.variant, data);
    if (!checked)
      return report({checked.error()});
    checkResult = std::move(*checked);
  }

  const Shape &shape = data.shape;
  std::optional<int64_t> visible;
  if (request.variant) {
    Expected<std::optional<int64_t>> counted = countVisible(flags, *request.variant, data);
    if (!counted)
      return report({counted.error()});
    visible = *counted;
  }
  const int64_t allKeys = shape.batch * shape.heads * shape.queries * shape.keys;
  // Products of D and of Dv: two of the forward pass, five of the backward pass by the usual count.
  const double products = backward ? 3.0 * shape.headDim + 2.0 * shape.headDimV : shape.headDim + shape.headDimV;
  const double flops = 2.0 * double(visible.value_or(allKeys)) * products;
  const double gflopsPerSecond = flops / (*milliseconds * 1e6);
  ordered_json plan = planOf(image);
  predictFor(flags, request, shape, plan);
  double scale = request.variant && request.variant->scale() ? double(*request.variant->scale())
                 : request.summary && request.summary->scale != 0 && !request.variant
                     ? request.summary->scale
                     : double(float(1.0 / std::sqrt(double(shape.headDim))));
  ordered_json meta = {{"variant", request.label},
                       {"pass", backward ? "backward" : "forward"},
                       {"dtype", name(image.signature.dtype)},
                       {"extents", shapeJson(shape)},
                       {"scale", scale},
                       {"target", request.target.isCuda() ? "gpu" : "cpu"},
                       {"arch", image.arch},
                       {"path", image.path},
                       {"seed", flags.seed},
                       {"offset", flags.offset}};
  if (request.variant)
    meta["definition"] = ordered_json::parse(request.variant->toJson(), nullptr, false);
  if (image.signature.dropout) {
    float probability = request.variant ? request.variant->dropoutProbability() : float(flags.dropout.value_or(0));
    uint32_t threshold = reference::dropThreshold(probability);
    meta["dropout"] = {
        {"probability", probability}, {"threshold", threshold}, {"keepScale", 65536.0 / (65536.0 - threshold)}};
  }
  if (flags.qOffsetValue)
    meta["qOffset"] = *flags.qOffsetValue;
  if (!data.scalars.empty())
    for (const auto &[name, value] : data.scalars)
      meta["scalars"][name] = value.at(0);
  meta["milliseconds"] = *milliseconds;
  if (forwardMilliseconds)
    meta["forwardMilliseconds"] = *forwardMilliseconds;
  for (const auto &[name, tensor] : data.saved)
    meta["saved"][name.substr(savedPrefix.size())] = tensor.bytes();
  meta["visibleKeys"] = visible ? ordered_json(*visible) : ordered_json(nullptr);
  meta["gflopsPerSecond"] = gflopsPerSecond;
  meta["check"] = nullptr;
  if (checkResult) {
    ordered_json results;
    if (!backward)
      results["lse"] = nullptr; // of normalisers that give none
    for (const reference::Comparison &result : checkResult->results)
      results[result.name] = comparisonJson(result);
    results["clampedReads"] = checkResult->exact.clampedReads;
    meta["check"] = std::move(results);
  }
  meta["compile"] = {{"cacheHit", kernel.cacheHit()},
                     {"totalMilliseconds", compileMilliseconds},
                     {"milliseconds", timesJson(kernel.times())}};
  meta["plan"] = plan;

  if (!flags.dump.empty())
    if (Expected<void> written = writeDump(flags, data, checkResult ? &*checkResult : nullptr, meta); !written)
      return report({written.error()});

  bool pass = !checkResult || checkResult->pass();
  if (flags.json) {
    print("{}\n", meta.dump(2));
  } else {
    print("{}{} {} B {} H {} Hkv {} Sq {} Sk {} D {} Dv {} on {}\n", request.label, backward ? ", backward," : "",
          name(image.signature.dtype), shape.batch, shape.heads, shape.headsKv, shape.queries, shape.keys,
          shape.headDim, shape.headDimV, request.target.text());
    print("  {:<14} {}\n{}", "path", image.path, planText(plan));
    print("  {:<14} {}\n", "compile", compileText(kernel.times(), kernel.cacheHit(), compileMilliseconds, request));
    if (checkResult)
      checkResult->printErrors();
    else
      print("  {:<14} {}\n", "error",
            flags.noCheck ? "not checked (--no-check)" : "not checked: the text does not say which variant it is");
    if (checkResult)
      for (const auto &[tensor, count] : checkResult->exact.clampedReads)
        print("  {:<14} {} reads of {} were clamped; --checked says where the first one is\n", "note", count, tensor);
    if (flags.checked)
      print("  {:<14} {}\n", "indices",
            request.variant ? "all within their tensors" : "not checked: the text does not say which variant it is");
    print("  {:<14} {:.3f} ms, median ({:.1f} GFLOP/s{})\n", "time", *milliseconds, gflopsPerSecond,
          !visible ? ", hidden keys counted"
          : *visible == allKeys
              ? ""
              : fmt::format(" of the {:.3g}% of keys that are visible", 100 * double(*visible) / double(allKeys)));
    if (forwardMilliseconds)
      print("  {:<14} {:.3f} ms{}\n", "forward pass", *forwardMilliseconds,
            data.saved.empty() ? "" : ", with what it saves");
    for (const auto &[name, tensor] : data.saved)
      print("  {:<14} {:<18} {} bytes\n", "saved", name.substr(savedPrefix.size()), tensor.bytes());
    if (!flags.dump.empty())
      print("  {:<14} {}\n", "dump", flags.dump);
  }
  if (!pass) {
    printError("error: the results differ from the float64 reference: {}\n", checkResult->difference());
    return failed;
  }
  return done;
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
