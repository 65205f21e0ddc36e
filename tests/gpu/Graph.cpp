#include "tests/gpu/Graph.h"
#include "tests/numerics/CompileToRun.h"

#include "runtime/CudaDriver.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>
#include <memory>

using namespace attune;
using namespace attune::tests;
using reference::HostTensor;

namespace {

/// The entry points for graphs, which only this test needs.
struct GraphDriver {
  int (*beginCapture)(CudaStreamHandle, int) = nullptr;
  int (*endCapture)(CudaStreamHandle, void **) = nullptr;
  int (*instantiate)(void **, void *, unsigned long long) = nullptr;
  int (*launch)(void *, CudaStreamHandle) = nullptr;
  int (*destroyExecutable)(void *) = nullptr;
  int (*destroy)(void *) = nullptr;

  static Expected<GraphDriver> open() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    GraphDriver driver;
    bool found = library;
    auto find = [&](auto &entry, const char *name) {
      entry = library ? reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name)) : nullptr;
      found &= entry != nullptr;
    };
    find(driver.beginCapture, "cuStreamBeginCapture_v2");
    find(driver.endCapture, "cuStreamEndCapture");
    find(driver.instantiate, "cuGraphInstantiateWithFlags");
    find(driver.launch, "cuGraphLaunch");
    find(driver.destroyExecutable, "cuGraphExecDestroy");
    find(driver.destroy, "cuGraphDestroy");
    return found ? Expected<GraphDriver>(driver) : Error{"libcuda.so.1 has no entry points for graphs"};
  }
};

/// One captured launch of a kernel on memory of its own.
class CapturedLaunch {
public:
  static Expected<std::unique_ptr<CapturedLaunch>> capture(const Kernel &kernel, const Case &test) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    if (!cuda)
      return cuda.error();
    if (Expected<void> current = (*cuda)->makeCurrent(kernel.device().ordinal); !current)
      return current.error();
    Expected<GraphDriver> graphs = GraphDriver::open();
    Expected<CudaStream> stream = CudaStream::create();
    if (!graphs || !stream)
      return graphs ? stream.error() : graphs.error();
    auto made = std::make_unique<CapturedLaunch>();
    made->cuda = *cuda;
    made->graphs = *graphs;
    made->stream = std::move(*stream);
    made->test = test;
    if (Expected<void> done = made->record(kernel); !done)
      return done.error();
    return made;
  }

  ~CapturedLaunch() {
    if (executable)
      graphs.destroyExecutable(executable);
    if (graph)
      graphs.destroy(graph);
  }

  /// Copies the inputs to their places, fills O and LSE with NaN, replays, and reads them back.
  Expected<Results> replay(const reference::Problem &problem) {
    const int64_t numbers[] = {int64_t(problem.seed), int64_t(problem.offset)};
    std::vector<std::pair<std::string, const HostTensor *>> inputs = {
        {"q", &problem.q}, {"k", &problem.k}, {"v", &problem.v}};
    for (const auto &[name, tensor] : problem.tensors)
      inputs.push_back({"captured " + name, &tensor});
    for (const auto &[name, tensor] : inputs)
      if (Expected<void> copied = memory[name].copyFromHost(tensor->data.data(), tensor->data.size()); !copied)
        return copied.error();
    if (Expected<void> copied = memory["seeds"].copyFromHost(numbers, sizeof numbers); !copied)
      return copied.error();
    for (const char *name : {"o", "lse"})
      if (Expected<void> filled = memory[name].fill(0xff); !filled)
        return filled.error();
    // Copies and fills are the default stream's, with which this stream does not synchronise.
    if (Expected<void> done = cuda->result(cuda->cuStreamSynchronize(nullptr), "copies"); !done)
      return done.error();
    if (Expected<void> launched = cuda->result(graphs.launch(executable, stream.get()), "launch of the graph");
        !launched)
      return launched.error();
    if (Expected<void> done = stream.synchronize(); !done)
      return done.error();
    Results results;
    results.o = HostTensor::zeros(problem.q.dtype, outShape());
    results.lse = HostTensor::zeros(DType::F32, {outShape()[0], outShape()[1], outShape()[2]});
    for (auto [name, to] : {std::pair("o", &results.o), std::pair("lse", &results.lse)})
      if (Expected<void> read = memory[name].copyToHost(to->data.data(), to->data.size()); !read)
        return read.error();
    return results;
  }

private:
  std::vector<int64_t> outShape() const {
    const reference::Problem &problem = test.problem;
    return {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.v.shape[3]};
  }

  Expected<Tensor> place(const std::string &name, DType dtype, const std::vector<int64_t> &shape, Device device) {
    int64_t elements = 1;
    std::vector<int64_t> strides(shape.size());
    for (size_t d = shape.size(); d-- > 0; elements *= shape[d])
      strides[d] = elements;
    Expected<DeviceBuffer> buffer = DeviceBuffer::allocate(size_t(elements) * byteSize(dtype));
    if (!buffer)
      return buffer.error();
    DeviceBuffer &kept = memory[name] = std::move(*buffer);
    return Tensor::strided(kept.data(), dtype, shape, strides, device);
  }

  Expected<void> record(const Kernel &kernel) {
    const reference::Problem &problem = test.problem;
    const Device device = kernel.device();
    const DType dtype = problem.q.dtype;
    const std::vector<int64_t> out = outShape();
    LaunchArgs args;
    Tensor lse, seeds;
    const std::tuple<const char *, DType, std::vector<int64_t>, Tensor *> fixed[] = {
        {"q", dtype, problem.q.shape, &args.q},
        {"k", dtype, problem.k.shape, &args.k},
        {"v", dtype, problem.v.shape, &args.v},
        {"o", dtype, out, &args.o},
        {"lse", DType::F32, {out[0], out[1], out[2]}, &lse},
        {"seeds", DType::I64, {2}, &seeds}};
    for (const auto &[name, type, shape, to] : fixed) {
      Expected<Tensor> placed = place(name, type, shape, device);
      if (!placed)
        return placed.error();
      *to = *placed;
    }
    args.lse = lse;
    if (test.variant->hasDropout()) {
      args.seedPointer = static_cast<const uint64_t *>(seeds.data);
      args.offsetPointer = args.seedPointer + 1;
    }
    for (const auto &[name, tensor] : problem.tensors) {
      Expected<Tensor> placed = place("captured " + name, tensor.dtype, tensor.shape, device);
      if (!placed)
        return placed.error();
      args.tensors.push_back({name, *placed});
    }
    // Other tests run in other threads meanwhile: only this thread's calls are held to the rules of a capture.
    constexpr int threadLocal = 1; // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    if (Expected<void> begun = cuda->result(graphs.beginCapture(stream.get(), threadLocal), "begin of a capture");
        !begun)
      return begun;
    Expected<void> launched = kernel.launch(stream.get(), args);
    Expected<void> ended = cuda->result(graphs.endCapture(stream.get(), &graph), "end of a capture");
    if (!launched || !ended)
      return launched ? ended : launched;
    return cuda->result(graphs.instantiate(&executable, graph, 0), "instantiation of a graph");
  }

  const CudaDriver *cuda = nullptr;
  GraphDriver graphs;
  Case test;
  CudaStream stream;
  std::map<std::string, DeviceBuffer> memory;
  void *graph = nullptr, *executable = nullptr;
};

Verdict failed(const Case &test, const Error &error) { return {false, test.describe() + ": " + error.text(), 0}; }

} // namespace

Verdict attune::tests::checkGraph(const std::vector<Case> &problems, const Target &target) {
  const Case &first = problems.front();
  Expected<Kernel> kernel = compileToRun(*first.variant, optionsOf(first), target);
  if (!kernel)
    return failed(first, kernel.error());
  Expected<std::unique_ptr<CapturedLaunch>> launch = CapturedLaunch::capture(*kernel, first);
  if (!launch)
    return failed(first, launch.error());
  Verdict all = {true, "", 0};
  for (const Case &test : problems) {
    Expected<Expectation> expected = expect(test);
    if (!expected)
      return failed(test, expected.error());
    Verdict one = judge(test, *expected, (*launch)->replay(test.problem));
    all.pass &= one.pass;
    all.text += (all.text.empty() ? "" : "; then ") + one.text;
    all.ratio = std::max(all.ratio, one.ratio);
  }
  return all;
}

Verdict attune::tests::checkGraphDropout(DType dtype, int headDim, const Target &target) {
  // With q = 0 all scores are 0, and where V is the unit matrix column k of O is 0 iff key k was dropped.
  Case test = makeCase("graph", Variant("dropped").dropout(0.5f), dtype,
                       {.batch = 2, .heads = 4, .headsKv = 2, .queries = 239, .keys = headDim, .headDim = headDim}, 9);
  reference::Problem &problem = test.problem;
  problem.threads = 1;
  problem.q = HostTensor::zeros(dtype, problem.q.shape);
  problem.v = HostTensor::zeros(dtype, problem.v.shape);
  for (int64_t i = 0; i < problem.v.size() / headDim; ++i)
    problem.v.set(i * headDim + i % headDim, 1);
  Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
  if (!kernel)
    return failed(test, kernel.error());
  Expected<std::unique_ptr<CapturedLaunch>> launch = CapturedLaunch::capture(*kernel, test);
  if (!launch)
    return failed(test, launch.error());
  std::vector<std::vector<uint8_t>> kept;
  for (auto [seed, offset] : {std::pair(uint64_t(1), uint64_t(0)), std::pair(uint64_t(1), uint64_t(4)),
                              std::pair(uint64_t(0xfedcba9876543210), uint64_t(0x8000000000000001))}) {
    problem.seed = seed;
    problem.offset = offset;
    Expected<Results> results = (*launch)->replay(problem);
    if (!results)
      return failed(test, results.error());
    std::vector<uint8_t> keep(size_t(results->o.size()));
    for (size_t i = 0; i < keep.size(); ++i)
      keep[i] = results->o.at(int64_t(i)) != 0;
    if (keep != formulaKeep(test))
      return {false,
              fmt::format("{}: with seed {:#x} and offset {:#x} a replay keeps others than the formula",
                          test.describe(), seed, offset),
              0};
    if (std::find(kept.begin(), kept.end(), keep) != kept.end())
      return {false, test.describe() + ": two replays keep the same", 0};
    kept.push_back(std::move(keep));
  }
  return {true, test.describe() + ": each of 3 replays keeps what the formula keeps", 0};
}
