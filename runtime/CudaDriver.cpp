#include "runtime/CudaDriver.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>

using namespace attune;

// CUdevice_attribute of cuda.h.
enum DeviceAttribute {
  attributeClockRate = 13, // in kHz
  attributeMultiprocessorCount = 16,
  attributeL2CacheSize = 38,
  attributeComputeMajor = 75,
  attributeComputeMinor = 76,
  attributeSharedPerBlockOptin = 97,
};
static constexpr unsigned streamNonBlocking = 1; // CU_STREAM_NON_BLOCKING

std::string attune::cudaVersionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// Fills the table of entry points. Returns the name of the first required entry point that the library lacks, or null.
static const char *findEntryPoints(CudaDriver &d, void *library) {
  const char *missing = nullptr;
  auto find = [&](auto &entry, const char *name, bool required = true) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (!entry && required && !missing)
      missing = name;
  };
  find(d.cuDeviceGetCount, "cuDeviceGetCount");
  find(d.cuDeviceGet, "cuDeviceGet");
  find(d.cuDeviceGetName, "cuDeviceGetName");
  find(d.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  find(d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(d.cuCtxSetCurrent, "cuCtxSetCurrent");
  find(d.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  find(d.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
  find(d.cuCtxSynchronize, "cuCtxSynchronize");
  find(d.cuFuncGetAttribute, "cuFuncGetAttribute");
  find(d.cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  find(d.cuPointerGetAttribute, "cuPointerGetAttribute");
  find(d.cuMemAlloc, "cuMemAlloc_v2");
  find(d.cuMemFree, "cuMemFree_v2");
  find(d.cuMemcpyHtoD, "cuMemcpyHtoD_v2");
  find(d.cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  find(d.cuMemsetD8, "cuMemsetD8_v2");
  find(d.cuMemsetD8Async, "cuMemsetD8Async");
  find(d.cuStreamCreate, "cuStreamCreate");
  find(d.cuStreamDestroy, "cuStreamDestroy_v2");
  find(d.cuStreamSynchronize, "cuStreamSynchronize");
  find(d.cuEventCreate, "cuEventCreate");
  find(d.cuEventDestroy, "cuEventDestroy_v2");
  find(d.cuEventRecord, "cuEventRecord");
  find(d.cuEventSynchronize, "cuEventSynchronize");
  find(d.cuEventElapsedTime, "cuEventElapsedTime");
  find(d.cuStreamIsCapturing, "cuStreamIsCapturing", false);
  find(d.cuGraphCreate, "cuGraphCreate", false);
  find(d.cuGraphAddNode, "cuGraphAddNode_v2", false);
  find(d.cuGraphInstantiate, "cuGraphInstantiateWithFlags", false);
  find(d.cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2", false);
  find(d.cuGraphLaunch, "cuGraphLaunch", false);
  find(d.cuGraphDestroy, "cuGraphDestroy", false);
  find(d.cuGraphExecDestroy, "cuGraphExecDestroy", false);
  return missing;
}

Expected<const CudaDriver *> attune::openCudaDriver(const char *libraryName) {
  void *library = dlopen(libraryName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error{fmt::format("no CUDA driver: {}; install the NVIDIA driver, or use the cpu target", dlerror())};
  auto driver = std::make_unique<CudaDriver>();
  CudaDriver &d = *driver;
  if (launcher_open(&d, libraryName, library) != result_ok)
    return Error{launcher_text()};
  if (const char *missing = findEntryPoints(d, library))
    return Error{
        fmt::format("the CUDA driver {} has no entry point {}; install a newer NVIDIA driver", libraryName, missing)};
  if (int code = d.cuInit(0))
    return Error{fmt::format("the CUDA driver does not start: {}; check that nvidia-smi lists a GPU, or use the cpu "
                             "target",
                             d.describe(code))};
  if (int code = d.cuDeviceGetCount(&d.devices))
    return Error{fmt::format("the CUDA driver does not list its devices: {}", d.describe(code))};
  if (d.devices == 0)
    return Error{"the CUDA driver has no device; check CUDA_VISIBLE_DEVICES, or use the cpu target"};
  return driver.release(); // the driver table is never freed
}

Expected<const CudaDriver *> attune::cudaDriver() {
  static const Expected<const CudaDriver *> driver = openCudaDriver("libcuda.so.1");
  return driver;
}

std::string CudaDriver::describe(int code) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  return fmt::format("{} ({})", name ? name : fmt::format("CUDA error {}", code), text ? text : "no description");
}

Expected<void> CudaDriver::result(int code, std::string_view what) const {
  if (code == 0)
    return {};
  return Error{fmt::format("{}: {}", what, describe(code))};
}

Expected<CudaDeviceInfo> CudaDriver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= devices)
    return Error{fmt::format("CUDA device {} does not exist; this machine has {}, counted from 0", ordinal, devices)};
  int handle = 0;
  if (int code = cuDeviceGet(&handle, ordinal))
    return Error{fmt::format("CUDA device {} does not open: {}", ordinal, describe(code))};
  CudaDeviceInfo info;
  char name[256] = {};
  cuDeviceGetName(name, sizeof name - 1, handle);
  info.name = name;
  cuDeviceTotalMem(&info.memoryBytes, handle);
  auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    cuDeviceGetAttribute(&value, which, handle);
    return value;
  };
  info.computeMajor = attribute(attributeComputeMajor);
  info.computeMinor = attribute(attributeComputeMinor);
  info.smCount = attribute(attributeMultiprocessorCount);
  info.clockGHz = attribute(attributeClockRate) * 1e-6;
  info.l2Bytes = size_t(attribute(attributeL2CacheSize));
  info.sharedBytesPerBlock = size_t(attribute(attributeSharedPerBlockOptin));
  return info;
}

Expected<CudaContext> CudaDriver::primaryContext(int ordinal) const {
  if (ordinal < 0 || ordinal >= devices)
    return Error{fmt::format("CUDA device {} does not exist; this machine has {}, counted from 0", ordinal, devices)};
  int handle = 0;
  CudaContext context = nullptr;
  int code = cuDeviceGet(&handle, ordinal);
  if (code == 0)
    code = cuDevicePrimaryCtxRetain(&context, handle);
  if (code != 0)
    return Error{fmt::format("CUDA device {} has no context: {}", ordinal, describe(code))};
  return context;
}

Expected<void> CudaDriver::makeCurrent(int ordinal) const {
  Expected<CudaContext> context = primaryContext(ordinal);
  if (!context)
    return context.error();
  return result(cuCtxSetCurrent(*context), "making the CUDA context current");
}

CudaContext CudaDriver::currentContext() const {
  CudaContext context = nullptr;
  cuCtxGetCurrent(&context);
  return context;
}

// A copy from pageable memory, or a fill, may return before the data has arrived on the device. Non-blocking streams do
// not wait for the default stream, so the host waits for the default stream here.
Expected<void> CudaDriver::landed(int code, std::string_view what) const {
  return result(code ? code : cuStreamSynchronize(nullptr), what);
}

Expected<void> CudaDriver::copyToDevice(CudaAddress to, const void *from, size_t bytes) const {
  return bytes == 0 ? Expected<void>() : landed(cuMemcpyHtoD(to, from, bytes), "copy to the device");
}
Expected<void> CudaDriver::copyToHost(void *to, CudaAddress from, size_t bytes) const {
  return bytes == 0 ? Expected<void>() : result(cuMemcpyDtoH(to, from, bytes), "copy to the host");
}
Expected<void> CudaDriver::fill(CudaAddress to, uint8_t value, size_t bytes) const {
  return bytes == 0 ? Expected<void>() : landed(cuMemsetD8(to, value, bytes), "fill of device memory");
}
Expected<void> CudaDriver::synchronize() const { return result(cuCtxSynchronize(), "work on the device"); }

/// The driver, after making sure that this thread has a current context: the caller's, else device 0's primary context.
static Expected<const CudaDriver *> driverWithContext() {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (cuda && !(*cuda)->currentContext())
    if (Expected<void> made = (*cuda)->makeCurrent(0); !made)
      return made.error();
  return cuda;
}

/// Runs `action` with `context` current: a buffer, stream or event is destroyed in the context that created it.
template <typename Action> static void inContext(CudaContext context, Action &&action) {
  const CudaDriver *cuda = *cudaDriver();
  CudaContext popped;
  if (cuda->cuCtxPushCurrent(context) != 0)
    return; // the driver has shut down; nothing is left to destroy
  action(cuda);
  cuda->cuCtxPopCurrent(&popped);
}

//===----------------------------------------------------------------------===//
// DeviceBuffer, CudaStream, CudaEvent
//===----------------------------------------------------------------------===//

DeviceBuffer::~DeviceBuffer() {
  if (address)
    inContext(context, [&](const CudaDriver *cuda) { cuda->cuMemFree(address); });
}

Expected<DeviceBuffer> DeviceBuffer::allocate(size_t bytes) {
  Expected<const CudaDriver *> cuda = driverWithContext();
  if (!cuda)
    return cuda.error();
  DeviceBuffer buffer;
  buffer.bytes = bytes;
  buffer.context = (*cuda)->currentContext();
  if (int code = (*cuda)->cuMemAlloc(&buffer.address, std::max<size_t>(bytes, 1)))
    return (*cuda)->result(code, fmt::format("allocating {} bytes on the device", bytes)).error();
  return buffer;
}

Expected<DeviceBuffer> DeviceBuffer::copyOf(const void *host, size_t bytes) {
  Expected<DeviceBuffer> buffer = allocate(bytes);
  if (buffer)
    if (Expected<void> copied = buffer->copyFromHost(host, bytes); !copied)
      return copied.error();
  return buffer;
}

Expected<void> DeviceBuffer::copyFromHost(const void *from, size_t count) const {
  if (count > bytes)
    return Error{fmt::format("copy of {} bytes into a buffer of {}; allocate it larger", count, bytes)};
  return count == 0 ? Expected<void>() : (*cudaDriver())->copyToDevice(address, from, count);
}

Expected<void> DeviceBuffer::copyToHost(void *to, size_t count) const {
  if (count > bytes)
    return Error{fmt::format("copy of {} bytes out of a buffer of {}; copy fewer", count, bytes)};
  return count == 0 ? Expected<void>() : (*cudaDriver())->copyToHost(to, address, count);
}

Expected<void> DeviceBuffer::fill(uint8_t value) const {
  return bytes == 0 ? Expected<void>() : (*cudaDriver())->fill(address, value, bytes);
}

CudaStream::~CudaStream() {
  if (handle)
    inContext(context, [&](const CudaDriver *cuda) { cuda->cuStreamDestroy(handle); });
}

Expected<CudaStream> CudaStream::create() {
  Expected<const CudaDriver *> cuda = driverWithContext();
  if (!cuda)
    return cuda.error();
  CudaStream stream;
  stream.context = (*cuda)->currentContext();
  if (int code = (*cuda)->cuStreamCreate(&stream.handle, streamNonBlocking))
    return (*cuda)->result(code, "creating a stream").error();
  return stream;
}

Expected<void> CudaStream::synchronize() const {
  const CudaDriver *cuda = *cudaDriver();
  return cuda->result(cuda->cuStreamSynchronize(handle), "work on the stream");
}

CudaEvent::~CudaEvent() {
  if (handle)
    inContext(context, [&](const CudaDriver *cuda) { cuda->cuEventDestroy(handle); });
}

Expected<CudaEvent> CudaEvent::create() {
  Expected<const CudaDriver *> cuda = driverWithContext();
  if (!cuda)
    return cuda.error();
  CudaEvent event;
  event.context = (*cuda)->currentContext();
  if (int code = (*cuda)->cuEventCreate(&event.handle, 0))
    return (*cuda)->result(code, "creating an event").error();
  return event;
}

Expected<void> CudaEvent::record(CudaStreamHandle stream) const {
  const CudaDriver *cuda = *cudaDriver();
  return cuda->result(cuda->cuEventRecord(handle, stream), "recording an event");
}

Expected<void> CudaEvent::synchronize() const {
  const CudaDriver *cuda = *cudaDriver();
  return cuda->result(cuda->cuEventSynchronize(handle), "work before an event");
}

Expected<float> CudaEvent::millisecondsSince(const CudaEvent &begin) const {
  const CudaDriver *cuda = *cudaDriver();
  float milliseconds = 0;
  if (int code = cuda->cuEventElapsedTime(&milliseconds, begin.handle, handle))
    return cuda->result(code, "reading the time between two events").error();
  return milliseconds;
}
