//===- Timing.cpp - Measuring the time of a launch ---------------------------===//

#include "driver/Timing.h"

#include "runtime/CudaDriver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <fmt/ranges.h>
#include <numeric>
#include <random>

using namespace attune;
using namespace attune::driver;

#define RETURN_IF_ERROR(expression)                                                                                    \
  if (auto done = (expression); !done)                                                                                 \
  return done.error()

//===----------------------------------------------------------------------===//
// Timer
//===----------------------------------------------------------------------===//

/// The kernel timerKernel: reads `bytes` (a multiple of 16) from `data`, 16 at a time. The loads are volatile, so that
/// they are not removed although their results are unused.
static constexpr const char *readAllPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry read_all(.param .u64 data, .param .u64 bytes) {
  .reg .pred %behind;
  .reg .b32 %block, %thread, %threads, %blocks, %element<4>;
  .reg .b64 %at, %end, %step;
  ld.param.u64 %at, [data];
  ld.param.u64 %end, [bytes];
  add.u64 %end, %end, %at;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mad.lo.u32 %thread, %block, %threads, %thread;
  mul.lo.u32 %threads, %threads, %blocks;
  mul.wide.u32 %step, %threads, 16;
  mad.wide.u32 %at, %thread, 16, %at;
next:
  setp.ge.u64 %behind, %at, %end;
  @%behind ret;
  ld.volatile.global.v4.u32 {%element0, %element1, %element2, %element3}, [%at];
  add.u64 %at, %at, %step;
  bra next;
}
)";

Expected<void> LaunchTimer::Gpu::read() const {
  CudaAddress data = reinterpret_cast<CudaAddress>(other.data());
  uint64_t bytes = other.size();
  void *parameters[] = {&data, &bytes};
  const CudaDriver *cuda = *cudaDriver();
  return cuda->result(cuda->cuLaunchKernel(readAll, 1024, 1, 1, 256, 1, 1, 0, stream.get(), parameters, nullptr),
                      "level 2 cannot be emptied");
}

Expected<LaunchTimer> LaunchTimer::create(const Target &target) {
  LaunchTimer timer;
  if (!target.isCuda())
    return timer;
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  RETURN_IF_ERROR((*cuda)->makeCurrent(target.device));
  Expected<CudaDeviceInfo> info = (*cuda)->device(target.device);
  if (!info)
    return info.error();
  Expected<CudaStream> stream = CudaStream::create();
  Expected<CudaEvent> begin = CudaEvent::create(), end = CudaEvent::create();
  Expected<DeviceBuffer> other = DeviceBuffer::allocate((2 * size_t(info->l2Bytes) + 15) / 16 * 16);
  if (!stream)
    return stream.error();
  if (!begin || !end)
    return begin ? end.error() : begin.error();
  if (!other)
    return other.error();
  CudaModule module = nullptr;
  CudaFunction readAll = nullptr;
  RETURN_IF_ERROR((*cuda)->result((*cuda)->cuModuleLoadData(&module, readAllPtx), "the timer's kernel does not load"));
  std::unique_ptr<void, int (*)(CudaModule)> owned(module, (*cuda)->cuModuleUnload);
  RETURN_IF_ERROR((*cuda)->result((*cuda)->cuModuleGetFunction(&readAll, module, timerKernel), "the timer's kernel"));
  timer.gpu = Gpu{std::move(*stream), std::move(*begin), std::move(*end), std::move(*other), std::move(owned), readAll};
  return timer;
}

Expected<double> LaunchTimer::milliseconds(const Kernel &kernel, const LaunchArgs &args) const {
  if (!gpu) {
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(kernel.launch(nullptr, args));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  RETURN_IF_ERROR(gpu->read());
  RETURN_IF_ERROR(gpu->begin.record(gpu->stream.get()));
  RETURN_IF_ERROR(kernel.launch(gpu->stream.get(), args));
  RETURN_IF_ERROR(gpu->end.record(gpu->stream.get()));
  RETURN_IF_ERROR(gpu->end.synchronize());
  Expected<float> time = gpu->end.millisecondsSince(gpu->begin);
  return time ? Expected<double>(*time) : time.error();
}

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

double driver::median(std::span<const double> all) {
  std::vector<double> values(all.begin(), all.end());
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double driver::timeAgainst(std::span<const double> own, std::span<const double> winner) {
  const double slowdown = median(winner) / median(winner.first(std::min(own.size(), winner.size())));
  return median(own) * std::max(1.0, slowdown);
}

std::vector<double> RaceTimes::compared() const {
  std::vector<double> times(milliseconds.size());
  const std::vector<double> *winner = nullptr;
  for (size_t i : inRace)
    if (!milliseconds[i].empty() && (!winner || median(milliseconds[i]) < median(*winner)))
      winner = &milliseconds[i];
  for (size_t i = 0; winner && i < times.size(); ++i)
    times[i] = milliseconds[i].empty() ? 0 : timeAgainst(milliseconds[i], *winner);
  return times;
}

Expected<RaceTimes> driver::race(size_t count, const std::function<bool(size_t)> &stays,
                                 const std::function<Expected<double>(size_t)> &milliseconds,
                                 const std::function<bool(bool, size_t)> &goes) {
  struct Round {
    int launches;
    double keep; ///< kernels within this factor of the best stay in the race
  };
  static constexpr Round rounds[] = {{2, 1.25}, {3, 1.12}, {5, 1.06}, {10, 1.03}, {20, 1.02}};
  RaceTimes times;
  times.milliseconds.resize(count);
  times.inRace.resize(count);
  std::iota(times.inRace.begin(), times.inRace.end(), size_t(0));
  auto timeOf = [&](size_t i) { return median(times.milliseconds[i]); };
  for (const Round &round : rounds) {
    const bool isFirst = &round == rounds;
    for (int launch = isFirst ? -1 : 0; launch < round.launches; ++launch)
      for (size_t i : times.inRace) {
        if (!goes(isFirst, times.inRace.size()))
          return times;
        Expected<double> time = milliseconds(i);
        if (!time)
          return time.error();
        if (launch >= 0) // launch -1 is for warming up
          times.milliseconds[i].push_back(*time);
      }
    times.isWhole = true;
    const double best = timeOf(*std::ranges::min_element(times.inRace, {}, timeOf));
    std::erase_if(times.inRace, [&](size_t i) { return !stays(i) && timeOf(i) > round.keep * best; });
    if (times.inRace.size() == 1)
      return times;
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

Expected<ProblemData::Block> ProblemData::allocate(size_t bytes) const {
  Block block;
  if (onGpu) {
    Expected<DeviceBuffer> buffer = DeviceBuffer::allocate(bytes);
    if (!buffer)
      return buffer.error();
    block.device = std::move(*buffer);
  } else {
    block.host.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t) + 1);
  }
  return block;
}

/// The bits of a float converted to a 16-bit type. For f16, magnitudes below 2^-14 become 0.
static uint16_t narrowed(float value, DType dtype) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::BF16)
    return uint16_t((bits + 0x8000) >> 16);
  const uint32_t exponent = bits >> 23 & 0xff, sign = bits >> 16 & 0x8000;
  return uint16_t(exponent < 113 ? sign : sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/// Fills a buffer with normally distributed numbers, which repeat. The values matter: they determine the power that
/// products take, and thus the clock.
Expected<void> ProblemData::fillRandom(Block &block, size_t bytes, DType dtype) const {
  constexpr size_t period = size_t(1) << 18;
  std::mt19937 generator(12345);
  std::normal_distribution<float> normal;
  std::vector<std::byte> pattern(period * byteSize(dtype));
  for (size_t i = 0; i < period; ++i) {
    const float value = normal(generator);
    const uint16_t narrow = narrowed(value, dtype);
    if (dtype == DType::F32)
      std::memcpy(pattern.data() + 4 * i, &value, 4);
    else
      std::memcpy(pattern.data() + 2 * i, &narrow, 2);
  }
  for (size_t at = 0; at < bytes; at += pattern.size()) {
    const size_t count = std::min(pattern.size(), bytes - at);
    auto *to = static_cast<std::byte *>(block.data(onGpu)) + at;
    if (!onGpu)
      std::memcpy(to, pattern.data(), count);
    else
      RETURN_IF_ERROR((*cudaDriver())->copyToDevice(reinterpret_cast<CudaAddress>(to), pattern.data(), count));
  }
  return {};
}

Expected<ProblemData> ProblemData::make(const Kernel &kernel, const TuneCase &tuneCase) {
  ProblemData data;
  data.onGpu = kernel.device().kind == Device::Kind::Cuda;
  data.args = tuneCase.args;
  RETURN_IF_ERROR(data.addOperands(kernel, tuneCase.sizes));
  return data;
}

/// The extent of an operand's axis. A paged KV cache has as many pages as all sequences need.
static int64_t extentOf(const OperandParam &operand, const AxisParam &axis, const ProblemSizes &sizes,
                        const LaunchArgs &args) {
  auto ceilDiv = [](int64_t count, int64_t by) { return (count + by - 1) / by; };
  const std::pair<std::string_view, int64_t> extents[] = {
      {"b", sizes.batch}, {"h", sizes.heads}, {"hkv", sizes.headsKv}, {"q", sizes.queries}, {"k", sizes.keys}};
  if (axis.size)
    return axis.size;
  if (axis.name == "page")
    return sizes.batch * ceilDiv(sizes.keys, operand.axes[2].size);
  for (const auto &[name, extent] : extents)
    if (name == axis.name)
      return ceilDiv(extent, axis.by);
  const std::optional<TensorDimension> of = tensorDimension(axis.name);
  for (const NamedTensor &named : args.tensors)
    if (of && named.name == of->tensor)
      return named.tensor.shape[of->dim];
  return 0;
}

Expected<void> ProblemData::addOperands(const Kernel &kernel, const ProblemSizes &sizes) {
  for (const OperandParam &operand : kernel.image().signature.operands) {
    const Tensor *given = args.operand(operand.name);
    if (operand.role == OperandRole::Workspace || operand.optional || (given && given->data))
      continue;
    std::vector<int64_t> shape;
    __int128 bytes = byteSize(operand.dtype);
    for (const AxisParam &axis : operand.axes)
      bytes *= shape.emplace_back(extentOf(operand, axis, sizes, args));
    if (bytes > (__int128(1) << 40))
      return Error{fmt::format("a tensor of {} elements is too large to tune with", fmt::join(shape, " x "))};
    Expected<Block> block = allocate(size_t(bytes));
    if (!block)
      return block.error();
    if (isFloat(operand.dtype))
      RETURN_IF_ERROR(fillRandom(*block, size_t(bytes), operand.dtype));
    const Tensor tensor = Tensor::contiguous(block->data(onGpu), operand.dtype, shape, kernel.device());
    tensors.push_back(std::move(*block));
    const std::pair<std::string_view, Tensor *> members[] = {
        {"q", &args.q}, {"k", &args.k}, {"v", &args.v}, {"o", &args.o}};
    const auto member = std::ranges::find(members, operand.name, &std::pair<std::string_view, Tensor *>::first);
    if (member != std::end(members))
      *member->second = tensor;
    else if (operand.name == "lse")
      args.lse = tensor;
    else
      args.operands.push_back({operand.name, tensor});
  }
  return {};
}

Expected<LaunchArgs> ProblemData::argsFor(const Kernel &kernel) {
  LaunchArgs result = args;
  result.operands = {};
  for (const NamedTensor &operand : args.operands)
    if (std::ranges::find(kernel.image().signature.operands, operand.name, &OperandParam::name) !=
        kernel.image().signature.operands.end())
      result.operands.push_back(operand);
  if (result.workspace)
    return result;
  const size_t bytes = kernel.workspaceBytes(result);
  if (bytes > workspaceBytes) {
    Expected<Block> block = allocate(bytes);
    if (!block)
      return block.error();
    workspace = std::move(*block);
    workspaceBytes = bytes;
  }
  result.workspace = bytes ? workspace.data(onGpu) : nullptr;
  result.workspaceBytes = bytes;
  return result;
}
