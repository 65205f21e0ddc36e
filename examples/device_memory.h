//===- device_memory.h - Memory of a GPU, for the examples ------------------===//
//
// A program of yours has cudaMalloc, PyTorch or a pool of its own. The examples ask the driver, which is loaded when
// there is a GPU, so that they build and run without a CUDA toolkit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <utility>

namespace example {

/// Calls `name` of the driver; ends the program where it fails, as only a broken machine lets it.
template <typename... Arguments> void callDriver(const char *name, Arguments... arguments) {
  static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto *function = driver ? reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name)) : nullptr;
  const int result = function ? function(arguments...) : -1;
  if (result != 0) {
    std::fprintf(stderr, "%s of the CUDA driver failed: %d\n", name, result);
    std::exit(1);
  }
}

/// Bytes on a device, in its primary context.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(int device, size_t bytes) : bytes(bytes) {
    void *context = nullptr;
    callDriver("cuInit", 0u);
    callDriver("cuDevicePrimaryCtxRetain", &context, device);
    callDriver("cuCtxSetCurrent", context);
    callDriver("cuMemAlloc_v2", &address, bytes);
  }
  DeviceMemory(DeviceMemory &&other) noexcept { *this = std::move(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~DeviceMemory() {
    if (address)
      callDriver("cuMemFree_v2", address);
  }

  void *data() const { return reinterpret_cast<void *>(address); }
  void write(const void *from) { callDriver("cuMemcpyHtoD_v2", address, from, bytes); }
  /// After all work before.
  void read(void *to) const {
    callDriver("cuCtxSynchronize");
    callDriver("cuMemcpyDtoH_v2", to, address, bytes);
  }

private:
  unsigned long long address = 0;
  size_t bytes = 0;
};

} // namespace example
