#include "tests/numerics/Placement.h"

#include "tools/reference/Pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

Placed attune::tests::arrange(DType dtype, std::array<int64_t, 4> shape, const Layout &layout, bool gap, bool lse) {
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

Placed attune::tests::arrangeCaptured(const HostTensor &tensor, const Layout &layout) {
  Placed placed;
  placed.values = &tensor;
  placed.dtype = tensor.dtype;
  placed.shape = tensor.shape;
  placed.strides.resize(tensor.shape.size());
  int64_t stride = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    size_t d = layout.reversedTensors ? i : tensor.shape.size() - 1 - i;
    placed.strides[d] = stride;
    stride *= std::max<int64_t>(tensor.shape[d], 1);
  }
  placed.origin = 64 + layout.tensorShift;
  placed.chunk = placed.chunkStride = tensor.size() + 128 + layout.tensorShift;
  return placed;
}

std::vector<int64_t> attune::tests::endsOf(const Case &test, const std::string &name) {
  std::vector<int64_t> ends;
  for (int64_t b = 0; !name.empty() && b < test.problem.q.shape[0]; ++b)
    ends.push_back(test.problem.tensors.at(name).intAt(b));
  return ends;
}

static std::array<int64_t, 4> dims(const HostTensor &tensor) {
  return {tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3]};
}

/// K or V in the pages that the variant's table names; nothing where it has none.
static std::optional<HostTensor> inPages(const Case &test, const HostTensor &rows) {
  const std::optional<KeyPages> &pages = test.variant->keyPages();
  if (!pages)
    return std::nullopt;
  const std::optional<TensorDecl> &lengths = test.variant->keyLengths();
  const auto &tensors = test.problem.tensors;
  HostTensor own = rows; // makeCase has made those of shared pages the same
  return reference::toPages(own, tensors.at(pages->tensor.name), pages->size,
                            lengths ? &tensors.at(lengths->name) : nullptr);
}

PlacedInputs::PlacedInputs(const Case &test)
    : test(test), keyPages(inPages(test, test.problem.k)), valuePages(inPages(test, test.problem.v)),
      q(arrange(test.problem.q.dtype, dims(test.problem.q), test.layout, false)),
      k(arrange(test.problem.k.dtype, dims(keyPages ? *keyPages : test.problem.k), test.layout, true)),
      v(arrange(test.problem.v.dtype, dims(valuePages ? *valuePages : test.problem.v), test.layout, true)),
      numbers(
          HostTensor::fromInts(DType::I64, {2}, std::array{int64_t(test.problem.seed), int64_t(test.problem.offset)})) {
  q.values = &test.problem.q;
  k.values = keyPages ? &*keyPages : &test.problem.k;
  v.values = valuePages ? &*valuePages : &test.problem.v;
  q.ends = endsOf(test, test.layout.queriesEnd);
  k.ends = v.ends = endsOf(test, test.layout.keysEnd);
  seeds = arrangeCaptured(numbers, {});
  for (const auto &[name, tensor] : test.problem.tensors)
    captured[name] = arrangeCaptured(tensor, test.layout);
}

Expected<void> PlacedInputs::place(const Device &device) {
  std::vector<Placed *> all = {&q, &k, &v, &seeds};
  for (auto &[name, placed] : captured)
    all.push_back(&placed);
  for (Placed *placed : all)
    if (Expected<void> done = placed->place(device); !done)
      return done;
  return {};
}

LaunchArgs PlacedInputs::args(const Device &device) const {
  const reference::Problem &problem = test.problem;
  LaunchArgs args;
  args.q = q.view(device);
  args.k = k.view(device);
  args.v = v.view(device);
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
  return args;
}

Expected<std::string> attune::tests::launchInWorkspace(const Launcher &launcher, LaunchArgs args) {
  Placed workspace;
  args.workspaceBytes = launcher.workspaceBytes(args);
  workspace.dtype = DType::Bool;
  workspace.shape = {0};
  workspace.strides = {1};
  workspace.origin = 256;
  workspace.chunk = workspace.chunkStride = 2 * workspace.origin + int64_t(args.workspaceBytes);
  if (Expected<void> done = workspace.place(launcher.device); !done)
    return done.error();
  args.workspace = workspace.view(launcher.device).data;
  if (Expected<void> launched = launcher.launch(args); !launched)
    return launched.error();
  workspace.shape = {int64_t(args.workspaceBytes)};
  HostTensor bounds;
  Expected<int64_t> outside = workspace.take(bounds);
  if (!outside)
    return outside.error();
  return *outside < 0 ? "" : fmt::format("memory around the workspace was written at byte {}", *outside);
}

Expected<Launcher> attune::tests::launcherOf(const Kernel &kernel) {
  const Device device = kernel.device();
  std::shared_ptr<CudaStream> stream;
  if (device.kind == Device::Kind::Cuda) {
    Expected<const CudaDriver *> cuda = cudaDriver();
    if (!cuda)
      return cuda.error();
    if (Expected<void> current = (*cuda)->makeCurrent(device.ordinal); !current)
      return current.error();
    Expected<CudaStream> made = CudaStream::create();
    if (!made)
      return made.error();
    stream = std::make_shared<CudaStream>(std::move(*made));
  }
  auto launch = [kernel, stream](const LaunchArgs &args) {
    Expected<void> launched = kernel.launchChecked(stream ? stream->get() : nullptr, args);
    return launched && stream ? stream->synchronize() : launched;
  };
  return Launcher{device, [kernel](const LaunchArgs &args) { return kernel.workspaceBytes(args); }, launch};
}
