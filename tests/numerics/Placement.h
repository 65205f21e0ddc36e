//===- Placement.h - Tensors in memory between NaN ------------------------------===//
//
// What a launch of a test gets: tensors that lie as a Layout has it, surrounded by ones (NaN as floats), in the memory of
// the kernel's device, and the arguments that show them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/numerics/Runner.h"

#include "runtime/CudaDriver.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <vector>

namespace attune::tests {

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
  reference::HostTensor const *values = nullptr;
  DType dtype = DType::F32;
  std::vector<int64_t> shape, strides;
  int64_t origin = 0; ///< elements before element 0 of a chunk
  int64_t chunk = 0;  ///< elements of a batch's memory
  int64_t chunks = 1;
  int64_t chunkStride = 0;        ///< elements from a batch to the next
  std::vector<int64_t> ends = {}; ///< of [B, H, S, D] the first row of each batch that stays NaN; empty: none does
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

  /// Whether row-major element i is in a row before the end.
  bool isBeforeEnd(int64_t i) const {
    const int64_t row = i / shape.back();
    return ends.empty() || row % shape[2] < ends[size_t(row / shape[2] / shape[1])];
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
    for (int64_t i = 0; values && i < elements(); ++i)
      if (isBeforeEnd(i))
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
  Expected<int64_t> take(reference::HostTensor &to) {
    size_t size = byteSize(dtype);
    for (int64_t c = 0; c < chunks; ++c)
      if (chunk)
        if (Expected<void> done =
                memory.read(&image[size_t(c * chunk) * size], size_t(c * chunkStride) * size, size_t(chunk) * size);
            !done)
          return done.error();
    to = reference::HostTensor::zeros(dtype, shape);
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

/// The first row of each batch that the layout has NaN from, by the captured tensor `name`.
std::vector<int64_t> endsOf(const Case &test, const std::string &name);
/// Q, K, V, O, or LSE with one column. A `gap` is the layout's between batches.
Placed arrange(DType dtype, std::array<int64_t, 4> shape, const Layout &layout, bool gap, bool lse = false);
/// A captured tensor between two stretches of NaN.
Placed arrangeCaptured(const reference::HostTensor &tensor, const Layout &layout);

/// Q, K, V, captured tensors and the seeds of a case.
class PlacedInputs {
public:
  /// `test` outlives this object.
  explicit PlacedInputs(const Case &test);
  PlacedInputs(const PlacedInputs &) = delete;
  PlacedInputs &operator=(const PlacedInputs &) = delete;

  Expected<void> place(const Device &device);
  /// Everything that a launch takes but its results.
  LaunchArgs args(const Device &device) const;

private:
  const Case &test;
  std::optional<reference::HostTensor> keyPages, valuePages; ///< K and V of variants whose keys lie in pages
  Placed q, k, v, seeds;
  reference::HostTensor numbers;
  std::map<std::string, Placed> captured;
};

/// A launch in a workspace of ones between ones: a kernel may read only what its launch has written. Gives what was
/// written around the workspace; "" where nothing was.
Expected<std::string> launchInWorkspace(const Launcher &launcher, LaunchArgs args);

/// Launches of `kernel` on a stream of their own, which they wait for.
Expected<Launcher> launcherOf(const Kernel &kernel);

} // namespace attune::tests
