#include "tests/numerics/Runner.h"
#include "tests/numerics/CompileToRun.h"

#include "runtime/CudaDriver.h"
#include "tools/reference/Philox.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

/// Memory on the device of a kernel that copies to and from the host in pieces.
class Memory {
public:
  static Expected<Memory> allocate(const Device &device, size_t bytes) {
    Memory memory;
    memory.bytes = std::max<size_t>(bytes, 1);
    if (device.kind == Device::Kind::Cuda) {
      Expected<DeviceBuffer> buffer = DeviceBuffer::allocate(memory.bytes);
      if (!buffer)
        return buffer.error();
      memory.buffer = std::move(*buffer);
      return memory;
    }
    // Untouched pages cost nothing, so a view may span more than the machine has.
    void *pages =
        mmap(nullptr, memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
      return Error{fmt::format("{} bytes cannot be mapped", memory.bytes)};
    memory.pages = std::shared_ptr<void>(pages, [size = memory.bytes](void *p) { munmap(p, size); });
    return memory;
  }

  char *data() const { return static_cast<char *>(pages ? pages.get() : buffer.data()); }

  Expected<void> write(size_t at, const std::byte *from, size_t count) const {
    if (pages) {
      std::memcpy(data() + at, from, count);
      return {};
    }
    Expected<const CudaDriver *> cuda = cudaDriver();
    return cuda ? (*cuda)->copyToDevice(CudaAddress(buffer.data()) + at, from, count) : Expected<void>(cuda.error());
  }
  Expected<void> read(std::byte *to, size_t at, size_t count) const {
    if (pages) {
      std::memcpy(to, data() + at, count);
      return {};
    }
    Expected<const CudaDriver *> cuda = cudaDriver();
    return cuda ? (*cuda)->copyToHost(to, CudaAddress(buffer.data()) + at, count) : Expected<void>(cuda.error());
  }

private:
  size_t bytes = 0;
  std::shared_ptr<void> pages;
  DeviceBuffer buffer;
};

/// A tensor of rank `shape.size()` in memory that is all ones (NaN) elsewhere.
struct Placed {
  HostTensor const *values = nullptr;
  DType dtype = DType::F32;
  std::vector<int64_t> shape, strides;
  int64_t origin = 0; ///< elements before element 0 of a chunk
  int64_t chunk = 0;  ///< elements of a batch's memory
  int64_t chunks = 1;
  int64_t chunkStride = 0; ///< elements from a batch to the next
  std::vector<std::byte> image;
  Memory memory;

  /// Position in `image` of row-major element i.
  int64_t position(int64_t i) const {
    int64_t at = origin;
    for (size_t d = shape.size(); d-- > 0;) {
      int64_t index = i % shape[d];
      i /= shape[d];
      at += d == 0 && chunks > 1 ? index * chunk : index * strides[d];
    }
    return at;
  }

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    return count;
  }

  Expected<void> place(const Device &device) {
    size_t size = byteSize(dtype);
    image.assign(size_t(chunk * chunks) * size, std::byte(0xff));
    if (values)
      for (int64_t i = 0; i < elements(); ++i)
        std::memcpy(&image[size_t(position(i)) * size], &values->data[size_t(i) * size], size);
    Expected<Memory> made = Memory::allocate(device, size_t(chunkStride * (chunks - 1) + chunk) * size);
    if (!made)
      return made.error();
    memory = std::move(*made);
    for (int64_t c = 0; c < chunks; ++c)
      if (chunk)
        if (Expected<void> written =
                memory.write(size_t(c * chunkStride) * size, &image[size_t(c * chunk) * size], size_t(chunk) * size);
            !written)
          return written;
    return {};
  }

  Tensor view(const Device &device) const {
    return Tensor::strided(memory.data() + size_t(origin) * byteSize(dtype), dtype, shape, strides, device);
  }

  /// Reads back into `to`; gives the position of the first changed element outside the view, or -1.
  Expected<int64_t> take(HostTensor &to) {
    size_t size = byteSize(dtype);
    for (int64_t c = 0; c < chunks; ++c)
      if (chunk)
        if (Expected<void> done =
                memory.read(&image[size_t(c * chunk) * size], size_t(c * chunkStride) * size, size_t(chunk) * size);
            !done)
          return done.error();
    to = HostTensor::zeros(dtype, shape);
    for (int64_t i = 0; i < elements(); ++i) {
      std::byte *at = &image[size_t(position(i)) * size];
      std::memcpy(&to.data[size_t(i) * size], at, size);
      std::memset(at, 0xff, size);
    }
    for (size_t i = 0; i < image.size(); ++i)
      if (image[i] != std::byte(0xff))
        return int64_t(i / size);
    return int64_t(-1);
  }
};

/// Q, K, V, O, or LSE with one column.
Placed arrange(DType dtype, std::array<int64_t, 4> shape, const Layout &layout, bool gap, bool lse = false) {
  Placed placed;
  placed.dtype = dtype;
  placed.shape.assign(shape.begin(), shape.end());
  int64_t row = shape[3] + (lse ? 0 : layout.padColumns), rows = shape[2] + 2 * layout.guardRows;
  int64_t rowStride = layout.rowsBeforeHeads ? shape[1] * row : row;
  int64_t headStride = layout.rowsBeforeHeads ? row : rows * row;
  placed.origin = layout.guardRows * rowStride;
  // Vectorised kernels want 16-byte aligned rows; a row of LSE is one element.
  if (lse)
    placed.origin = (placed.origin + 3) / 4 * 4;
  placed.chunk = placed.origin + shape[1] * rows * row;
  placed.chunks = shape[0];
  placed.chunkStride = placed.chunk + (gap ? layout.batchGap : 0);
  placed.strides = {placed.chunkStride, headStride, rowStride, 1};
  if (placed.chunks == 0) {
    placed.chunks = 1;
    placed.chunk = placed.chunkStride = placed.origin;
  }
  if (lse) {
    placed.shape.pop_back();
    placed.strides.pop_back();
  }
  return placed;
}

/// A captured tensor between two stretches of NaN.
Placed arrangeCaptured(const HostTensor &tensor, bool reversed) {
  Placed placed;
  placed.values = &tensor;
  placed.dtype = tensor.dtype;
  placed.shape = tensor.shape;
  placed.strides.resize(tensor.shape.size());
  int64_t stride = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    size_t d = reversed ? i : tensor.shape.size() - 1 - i;
    placed.strides[d] = stride;
    stride *= std::max<int64_t>(tensor.shape[d], 1);
  }
  placed.origin = 64;
  placed.chunk = placed.chunkStride = tensor.size() + 128;
  return placed;
}

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace

std::string Case::describe() const {
  const std::vector<int64_t> &q = problem.q.shape, &k = problem.k.shape, &v = problem.v.shape;
  std::string text = fmt::format("{} {} B {} H {}/{} S {} x {} D {} x {}", label, name(problem.q.dtype), q[0], q[1],
                                 k[1], q[2], k[2], q[3], v[3]);
  if (layout.rowsBeforeHeads)
    text += " [B, S, H, D]";
  if (layout.padColumns)
    text += fmt::format(" pad {}", layout.padColumns);
  auto field = [&](const char *label, const auto &value) {
    if (value)
      text += fmt::format(" {} {}", label, int(*value));
  };
  field("tile_q", options.tileQ);
  field("tile_k", options.tileK);
  field("warps", options.warps);
  field("stages", options.stages);
  field("q_registers", options.qRegisters);
  field("dv_warps", options.dvWarps);
  return text;
}

Case attune::tests::makeCase(std::string label, std::shared_ptr<const Variant> variant, reference::Problem problem) {
  Case test;
  test.label = std::move(label);
  test.variant = std::move(variant);
  test.problem = std::move(problem);
  test.problem.variant = test.variant.get();
  return test;
}

Case attune::tests::makeCase(std::string label, Variant variant, DType dtype, const Shape &shape, uint64_t seed) {
  auto shared = std::make_shared<const Variant>(std::move(variant));
  int64_t dv = shape.headDimV ? shape.headDimV : shape.headDim;
  reference::Problem problem;
  problem.q = HostTensor::random(dtype, {shape.batch, shape.heads, shape.queries, shape.headDim}, seed * 100 + 1);
  problem.k = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDim}, seed * 100 + 2);
  problem.v = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, dv}, seed * 100 + 3);
  problem.seed = 0x123456789abcdefULL + seed;
  problem.offset = 0x7700000055ULL;
  for (const TensorDecl &decl : shared->tensors()) {
    HostTensor tensor;
    if (decl.name == "ids") {
      // Documents of 37 tokens; of rank 2, another length for each batch.
      int64_t length = std::max<int64_t>({shape.queries, shape.keys, 1});
      tensor = HostTensor::zeros(decl.dtype, decl.rank == 1 ? std::vector<int64_t>{length}
                                                            : std::vector<int64_t>{shape.batch, length});
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.setInt(i, i % length / (37 + 5 * (i / length)));
    } else if (decl.name == "lengths") {
      tensor = HostTensor::zeros(decl.dtype, {shape.batch}); // the last batch, of two or more, has no keys
      for (int64_t b = 0; b < shape.batch; ++b)
        tensor.setInt(b, shape.batch == 1 ? shape.keys - shape.keys / 3
                                          : shape.keys * (shape.batch - 1 - b) / (shape.batch - 1));
    } else if (decl.name == "slopes") {
      tensor = HostTensor::zeros(decl.dtype, {shape.heads});
      for (int64_t h = 0; h < shape.heads; ++h)
        tensor.set(h, std::exp2(-8.0 * double(h + 1) / double(shape.heads)));
    } else if (decl.name == "sinks") {
      tensor = HostTensor::random(decl.dtype, {shape.heads}, seed * 100 + 7);
    } else if (decl.name == "table") {
      tensor = HostTensor::random(decl.dtype, {shape.heads, std::max<int64_t>(shape.queries + shape.keys - 1, 1)},
                                  seed * 100 + 4);
    } else if (decl.name == "bias") {
      std::vector<int64_t> dims = {shape.batch, shape.heads, shape.queries, shape.keys};
      dims.erase(dims.begin(), dims.end() - decl.rank);
      tensor = HostTensor::random(decl.dtype, dims, seed * 100 + 5);
      for (int64_t i = 0; i < tensor.size(); i += 7)
        tensor.set(i, -std::numeric_limits<double>::infinity());
    } else if (decl.name == "pattern" && shared->blockPattern()) {
      const BlockPattern &blocks = *shared->blockPattern();
      std::vector<int64_t> dims = {shape.heads, (shape.queries + blocks.rows - 1) / blocks.rows,
                                   (shape.keys + blocks.columns - 1) / blocks.columns};
      dims.erase(dims.begin(), dims.end() - decl.rank);
      tensor = HostTensor::random(decl.dtype, dims, seed * 100 + 6);
    } else {
      continue;
    }
    problem.tensors[decl.name] = std::move(tensor);
  }
  for (const ScalarDecl &decl : shared->scalars())
    if (decl.name == "top")
      problem.scalars[decl.name] = reference::scalarOf(decl.dtype, 20);
  return makeCase(std::move(label), std::move(shared), std::move(problem));
}

Expected<Results> attune::tests::run(const Kernel &kernel, const Case &test) {
  const Device device = kernel.device();
  std::optional<CudaStream> stream;
  if (device.kind == Device::Kind::Cuda) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    if (!cuda)
      return cuda.error();
    if (Expected<void> current = (*cuda)->makeCurrent(device.ordinal); !current)
      return current.error();
    Expected<CudaStream> made = CudaStream::create();
    if (!made)
      return made.error();
    stream = std::move(*made);
  }
  auto launch = [&](const LaunchArgs &args) {
    Expected<void> launched = kernel.launchChecked(stream ? stream->get() : nullptr, args);
    return launched && stream ? stream->synchronize() : launched;
  };
  return run({device, [&](const LaunchArgs &args) { return kernel.workspaceBytes(args); }, launch}, test);
}

Expected<Results> attune::tests::run(const Launcher &launcher, const Case &test) {
  const Device device = launcher.device;
  const reference::Problem &problem = test.problem;
  auto dims = [](const HostTensor &t) { return std::array{t.shape[0], t.shape[1], t.shape[2], t.shape[3]}; };
  std::array<int64_t, 4> outShape = {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.v.shape[3]};
  Placed q = arrange(problem.q.dtype, dims(problem.q), test.layout, false);
  Placed k = arrange(problem.k.dtype, dims(problem.k), test.layout, true);
  Placed v = arrange(problem.v.dtype, dims(problem.v), test.layout, true);
  Placed o = arrange(problem.q.dtype, outShape, test.layout, false);
  Placed lse = arrange(DType::F32, {outShape[0], outShape[1], outShape[2], 1}, test.layout, false, true);
  q.values = &problem.q;
  k.values = &problem.k;
  v.values = &problem.v;
  std::map<std::string, Placed> captured;
  for (const auto &[name, tensor] : problem.tensors)
    captured[name] = arrangeCaptured(tensor, test.layout.reversedTensors);
  HostTensor numbers =
      HostTensor::fromInts(DType::I64, {2}, std::array{int64_t(problem.seed), int64_t(problem.offset)});
  Placed seeds = arrangeCaptured(numbers, false);
  std::vector<Placed *> all = {&q, &k, &v, &o, &lse, &seeds};
  for (auto &[name, placed] : captured)
    all.push_back(&placed);
  for (Placed *placed : all)
    if (Expected<void> done = placed->place(device); !done)
      return done.error();

  LaunchArgs args;
  args.q = q.view(device);
  args.k = k.view(device);
  args.v = v.view(device);
  args.o = o.view(device);
  if (test.wantsLse())
    args.lse = lse.view(device);
  for (const auto &[name, placed] : captured)
    args.tensors.push_back({name, placed.view(device)});
  for (const auto &[name, value] : problem.scalars)
    args.scalars.push_back({name, reference::scalarValue(value)});
  if (problem.dropout)
    args.dropout = float(*problem.dropout);
  if (test.layout.seedPointers) {
    args.seedPointer = seeds.view(device).as<uint64_t>();
    args.offsetPointer = args.seedPointer + 1;
  } else {
    args.seed = problem.seed;
    args.offset = problem.offset;
  }
  if (test.variant->hasQOffset())
    args.qOffset = int32_t(problem.qOffset);
  // Ones around it, and in it: a kernel may read only what its launch has written.
  Placed workspace;
  args.workspaceBytes = launcher.workspaceBytes(args);
  workspace.dtype = DType::Bool;
  workspace.shape = {0};
  workspace.strides = {1};
  workspace.origin = 256;
  workspace.chunk = workspace.chunkStride = 2 * workspace.origin + int64_t(args.workspaceBytes);
  if (Expected<void> done = workspace.place(device); !done)
    return done.error();
  args.workspace = workspace.view(device).data;
  if (Expected<void> launched = launcher.launch(args); !launched)
    return launched.error();

  Results results;
  workspace.shape = {int64_t(args.workspaceBytes)};
  HostTensor bounds;
  Expected<int64_t> outsideWorkspace = workspace.take(bounds);
  if (!outsideWorkspace)
    return outsideWorkspace.error();
  if (*outsideWorkspace >= 0)
    results.outside = fmt::format("memory around the workspace was written at byte {}", *outsideWorkspace);
  Expected<int64_t> outside = o.take(results.o);
  if (!outside)
    return outside.error();
  if (*outside >= 0)
    results.outside = fmt::format("memory around O was written at element {}", *outside);
  Expected<int64_t> outsideLse = lse.take(results.lse);
  if (!outsideLse)
    return outsideLse.error();
  if (*outsideLse >= 0)
    results.outside += fmt::format("memory around LSE was written at element {}", *outsideLse);
  if (!test.wantsLse())
    results.lse = {};
  return results;
}

Expected<Expectation> attune::tests::expect(const Case &test) {
  Expected<reference::Output> exact = reference::attention(test.problem);
  if (!exact)
    return exact.error();
  Expected<reference::Output> plain = reference::plainLowPrecision(test.problem);
  if (!plain)
    return plain.error();
  return Expectation{std::move(*exact), std::move(*plain)};
}

Verdict attune::tests::judge(const Case &test, const Expectation &expected, const Expected<Results> &results) {
  if (!results)
    return {false, test.describe() + ": " + oneLine(results.error().text()), 0};
  reference::Comparison o = reference::compareO(results->o, expected.exact, expected.plain);
  Verdict verdict{o.pass && results->outside.empty(), fmt::format("{}: {}", test.describe(), oneLine(o.describe())), 0};
  verdict.ratio = o.ratio();
  if (test.wantsLse()) {
    reference::Comparison lse = reference::compareLse(results->lse, expected.exact, expected.plain);
    verdict.pass &= lse.pass;
    verdict.text += "; " + oneLine(lse.describe());
    verdict.ratio = std::max(verdict.ratio, lse.ratio());
  }
  if (!results->outside.empty())
    verdict.text += "; " + results->outside;
  return verdict;
}

CompileOptions attune::tests::optionsOf(const Case &test) {
  CompileOptions options = test.options;
  options.dtype = test.problem.q.dtype;
  options.headDim = int(test.problem.q.shape[3]);
  options.headDimV = int(test.problem.v.shape[3]);
  return options;
}

Verdict attune::tests::check(const Case &test, const Target &target) {
  Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
  if (!kernel)
    return {false, test.describe() + ": " + oneLine(kernel.error().text()), 0};
  Expected<Expectation> expected = expect(test);
  if (!expected)
    return {false, test.describe() + ": reference: " + oneLine(expected.error().text()), 0};
  return judge(test, *expected, run(*kernel, test));
}

Verdict attune::tests::checkSkippedTiles(const Target &target, DType dtype, int headDim) {
  auto variant = Variant("skipped").mask(documents(captured("ids", i32, rank(1))));
  Expected<Kernel> kernel = compileToRun(variant, {.dtype = dtype, .headDim = headDim}, target);
  if (!kernel)
    return {false, "skipped tiles: " + oneLine(kernel.error().text()), 0};
  const int64_t length = std::lcm(int64_t(kernel->image().tileQ), int64_t(kernel->image().tileK)), total = 3 * length;
  Case test = makeCase("skipped tiles", variant, dtype, {.queries = total, .keys = total, .headDim = headDim}, 3);
  HostTensor ids = HostTensor::zeros(DType::I32, {total});
  for (int64_t i = 0; i < total; ++i)
    ids.setInt(i, 5 - i / length * 2);
  test.problem.tensors["ids"] = ids;
  Expected<Results> clean = run(*kernel, test);
  for (HostTensor *tensor : {&test.problem.k, &test.problem.v})
    for (int64_t head = 0; head < tensor->shape[1]; ++head)
      for (int64_t i = length * headDim; i < 2 * length * headDim; ++i)
        tensor->set(head * total * headDim + i, std::nan(""));
  Expected<Results> poisoned = run(*kernel, test);
  if (!clean || !poisoned)
    return {false, test.describe() + ": " + oneLine((clean ? poisoned : clean).error().text()), 0};
  int64_t changed = 0, finite = 0;
  for (int64_t i = 0; i < clean->o.size(); ++i) {
    const bool hidden = i / headDim % total / length == 1;
    changed += !hidden && clean->o.at(i) != poisoned->o.at(i);
    finite += hidden && !std::isnan(poisoned->o.at(i));
  }
  return {changed == 0 && finite == 0,
          fmt::format("{}: {} elements of O differ where the NaN is hidden, {} lack it where it is not",
                      test.describe(), changed, finite),
          0};
}

Expected<std::vector<uint8_t>> attune::tests::recoverKeep(const Kernel &kernel, Case test) {
  return recoverKeep([&](const Case &each) { return run(kernel, each); }, std::move(test));
}

Expected<std::vector<uint8_t>> attune::tests::recoverKeep(const std::function<Expected<Results>(const Case &)> &run,
                                                          Case test) {
  reference::Problem &problem = test.problem;
  int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], queries = problem.q.shape[2];
  int64_t headsKv = problem.k.shape[1], keys = problem.k.shape[2], columns = problem.v.shape[3];
  problem.q = HostTensor::zeros(problem.q.dtype, problem.q.shape);
  std::vector<uint8_t> keep(size_t(batch * heads * queries * keys));
  for (int64_t begin = 0; begin < keys; begin += columns) {
    problem.v = HostTensor::zeros(problem.v.dtype, problem.v.shape);
    int64_t count = std::min(columns, keys - begin);
    for (int64_t i = 0; i < batch * headsKv; ++i)
      for (int64_t d = 0; d < count; ++d)
        problem.v.set((i * keys + begin + d) * columns + d, 1);
    Expected<Results> results = run(test);
    if (!results)
      return results.error();
    for (int64_t row = 0; row < batch * heads * queries; ++row)
      for (int64_t d = 0; d < count; ++d)
        keep[size_t(row * keys + begin + d)] = results->o.at(row * columns + d) != 0;
  }
  return keep;
}

std::vector<uint8_t> attune::tests::formulaKeep(const Case &test) {
  const reference::Problem &problem = test.problem;
  int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], queries = problem.q.shape[2],
          keys = problem.k.shape[2];
  uint32_t threshold = reference::dropThreshold(problem.dropout.value_or(test.variant->dropoutProbability()));
  std::vector<uint8_t> keep;
  keep.reserve(size_t(batch * heads * queries * keys));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t q = 0; q < queries; ++q)
        for (int64_t k = 0; k < keys; ++k)
          keep.push_back(reference::dropoutBits(problem.seed, problem.offset, heads, b, h, q, k) >= threshold);
  return keep;
}
