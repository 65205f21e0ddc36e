//===- CudaDriver.h - The CUDA driver, loaded by dlopen ---------------------===//
//
// attune needs no CUDA headers and links no CUDA library: the first call of cudaDriver() opens libcuda.so.1.
//
//     Expected<const CudaDriver *> cuda = cudaDriver();
//     if (!cuda)
//       return cuda.error();                          // no driver, too old, no device
//     (*cuda)->makeCurrent(0);                        // the primary context of device 0
//     auto buffer = DeviceBuffer::allocate(bytes);
//     auto stream = CudaStream::create();
//     auto begin = CudaEvent::create(), end = CudaEvent::create();
//
// Everything here may be called from any thread. As in CUDA itself the current context belongs to the
// calling thread. Buffers, streams and events belong to the context that was current at their creation
// and are destroyed in it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launcher.h"

#include "attune/Error.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace attune {

using CudaContext = void *;
using CudaModule = void *;
using CudaFunction = void *;
using CudaStreamHandle = void *;
using CudaEventHandle = void *;
using CudaAddress = uint64_t;

static_assert(sizeof(launch_attribute) == 72 && sizeof(launch_config) == 56); // as in cuda.h

using CudaGraph = void *;
using CudaGraphNode = void *;
using CudaGraphExec = void *;
/// The structs CUDA_KERNEL_NODE_PARAMS, CUgraphNodeParams (of a kernel) and CUgraphEdgeData of cuda.h, redeclared.
struct CudaKernelNode {
  CudaFunction function;
  unsigned grid[3], block[3];
  unsigned sharedBytes;
  void **arguments;
  void **extra = nullptr;
  void *kernel = nullptr, *context = nullptr;
};
struct CudaNodeParams {
  int type = 0; // CU_GRAPH_NODE_TYPE_KERNEL
  int reserved[3] = {};
  CudaKernelNode kernel;
  char more[168] = {};
};
struct CudaEdge {
  unsigned char fromPort = 0, toPort = 0, type = 0, reserved[5] = {};
};
static_assert(sizeof(CudaKernelNode) == 72 && sizeof(CudaNodeParams) == 256 && sizeof(CudaEdge) == 8);

/// The properties of a device, as the driver reports them.
struct CudaDeviceInfo {
  std::string name;
  int computeMajor = 0;
  int computeMinor = 0;
  int smCount = 0;
  double clockGHz = 0;
  size_t memoryBytes = 0;
  size_t l2Bytes = 0;
  size_t sharedBytesPerBlock = 0; ///< the opt-in maximum of dynamic shared memory
};

/// The driver's entry points that attune uses (those that launches use are in the base class), and operations that
/// return errors as values. The table is filled once and lives as long as the process.
class CudaDriver : public driver_table {
public:
  CudaDriver() : driver_table{} {}

  /// The CUDA version that the driver supports: 1000 * major + 10 * minor.
  int version() const { return cuda_version; }
  int deviceCount() const { return devices; }
  /// Whether the driver supports CUDA graphs with programmatic dependent launches and with parameters that change.
  bool launchesGraphs() const {
    return launcher_overlaps(this) && cuStreamIsCapturing && cuGraphCreate && cuGraphAddNode && cuGraphInstantiate &&
           cuGraphExecKernelNodeSetParams && cuGraphLaunch && cuGraphDestroy && cuGraphExecDestroy;
  }
  Expected<CudaDeviceInfo> device(int ordinal) const;

  /// The primary context of a device, retained for the life of the process.
  Expected<CudaContext> primaryContext(int ordinal) const;
  /// Makes the primary context of a device current on this thread.
  Expected<void> makeCurrent(int ordinal) const;
  /// The calling thread's context, or null.
  CudaContext currentContext() const;

  /// Synchronous copies and fill: when the call returns, kernels on every stream see the data.
  Expected<void> copyToDevice(CudaAddress to, const void *from, size_t bytes) const;
  Expected<void> copyToHost(void *to, CudaAddress from, size_t bytes) const;
  Expected<void> fill(CudaAddress to, uint8_t value, size_t bytes) const;
  /// Waits for all work of the current context.
  Expected<void> synchronize() const;

  /// Success for code 0, else an error with the text "<what>: <name of the error> (<its description>)".
  Expected<void> result(int code, std::string_view what) const;
  /// Completes a copy or fill whose driver call has returned `code`: waits for the default stream, where the driver may
  /// still be executing the operation. Returns the first error as result() does.
  Expected<void> landed(int code, std::string_view what) const;
  /// The error as text: "CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string describe(int code) const;

  // Driver entry points; the types are those of cuda.h with handles as void *.
  int (*cuDeviceGetCount)(int *) = nullptr;
  int (*cuDeviceGet)(int *, int) = nullptr;
  int (*cuDeviceGetName)(char *, int, int) = nullptr;
  int (*cuDeviceTotalMem)(size_t *, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(CudaContext *, int) = nullptr;
  int (*cuCtxSetCurrent)(CudaContext) = nullptr;
  int (*cuCtxPushCurrent)(CudaContext) = nullptr;
  int (*cuCtxPopCurrent)(CudaContext *) = nullptr;
  int (*cuCtxSynchronize)() = nullptr;
  int (*cuFuncGetAttribute)(int *, int, CudaFunction) = nullptr;
  int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *, CudaFunction, int, size_t) = nullptr;
  int (*cuPointerGetAttribute)(void *, int, CudaAddress) = nullptr;
  int (*cuMemAlloc)(CudaAddress *, size_t) = nullptr;
  int (*cuMemFree)(CudaAddress) = nullptr;
  int (*cuMemcpyHtoD)(CudaAddress, const void *, size_t) = nullptr;
  int (*cuMemcpyDtoH)(void *, CudaAddress, size_t) = nullptr;
  int (*cuMemsetD8)(CudaAddress, unsigned char, size_t) = nullptr;
  int (*cuMemsetD8Async)(CudaAddress, unsigned char, size_t, CudaStreamHandle) = nullptr;
  int (*cuStreamCreate)(CudaStreamHandle *, unsigned) = nullptr;
  int (*cuStreamDestroy)(CudaStreamHandle) = nullptr;
  int (*cuStreamSynchronize)(CudaStreamHandle) = nullptr;
  int (*cuEventCreate)(CudaEventHandle *, unsigned) = nullptr;
  int (*cuEventDestroy)(CudaEventHandle) = nullptr;
  int (*cuEventRecord)(CudaEventHandle, CudaStreamHandle) = nullptr;
  int (*cuEventSynchronize)(CudaEventHandle) = nullptr;
  int (*cuEventElapsedTime)(float *, CudaEventHandle, CudaEventHandle) = nullptr;
  // Entry points that are null if the driver is too old to have them.
  int (*cuStreamIsCapturing)(CudaStreamHandle, int *) = nullptr;
  int (*cuGraphCreate)(CudaGraph *, unsigned) = nullptr;
  int (*cuGraphAddNode)(CudaGraphNode *, CudaGraph, const CudaGraphNode *, const CudaEdge *, size_t,
                        CudaNodeParams *) = nullptr;
  int (*cuGraphInstantiate)(CudaGraphExec *, CudaGraph, unsigned long long) = nullptr;
  int (*cuGraphExecKernelNodeSetParams)(CudaGraphExec, CudaGraphNode, const CudaKernelNode *) = nullptr;
  int (*cuGraphLaunch)(CudaGraphExec, CudaStreamHandle) = nullptr;
  int (*cuGraphDestroy)(CudaGraph) = nullptr;
  int (*cuGraphExecDestroy)(CudaGraphExec) = nullptr;

private:
  friend Expected<const CudaDriver *> openCudaDriver(const char *library);
  int devices = 0;
};

/// While this object lives, its thread may allocate and synchronise even if a stream is being captured (capture mode
/// "relaxed").
class RelaxedCapture {
public:
  explicit RelaxedCapture(const CudaDriver &driver) : driver(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
  void exchange() { driver.cuThreadExchangeStreamCaptureMode(&mode); }

  const CudaDriver &driver;
  int mode = 2; ///< the mode to set next: CU_STREAM_CAPTURE_MODE_RELAXED, then the thread's mode from before
};

/// The driver of this process. The first call opens and initialises the driver, which takes from 100 ms to over a
/// second on a GPU machine. Later calls return the same result, an error included.
Expected<const CudaDriver *> cudaDriver();

/// Opens a driver library by name. Each call opens it again; cudaDriver() calls this function once.
Expected<const CudaDriver *> openCudaDriver(const char *library);

/// A CUDA version as text: "13.0" for 13000.
std::string cudaVersionText(int version);

/// Device memory, freed with the object.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&other) noexcept { swap(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer();

  /// Allocates `bytes` (at least 1) in the current context. Where no context is current, device 0's primary context
  /// becomes current first.
  static Expected<DeviceBuffer> allocate(size_t bytes);
  /// Allocates a buffer and copies host memory to it.
  static Expected<DeviceBuffer> copyOf(const void *host, size_t bytes);

  void *data() const { return reinterpret_cast<void *>(address); }
  size_t size() const { return bytes; }
  Expected<void> copyFromHost(const void *from, size_t count) const;
  Expected<void> copyToHost(void *to, size_t count) const;
  Expected<void> fill(uint8_t value) const;

private:
  void swap(DeviceBuffer &other) {
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
    std::swap(context, other.context);
  }
  CudaAddress address = 0;
  size_t bytes = 0;
  CudaContext context = nullptr;
};

/// A non-blocking stream of the current context.
class CudaStream {
public:
  CudaStream() = default;
  CudaStream(CudaStream &&other) noexcept { swap(other); }
  CudaStream &operator=(CudaStream &&other) noexcept {
    CudaStream(std::move(other)).swap(*this);
    return *this;
  }
  ~CudaStream();

  static Expected<CudaStream> create();
  CudaStreamHandle get() const { return handle; }
  /// Waits for all work on the stream; returns the error of a kernel or copy that failed there.
  Expected<void> synchronize() const;

private:
  void swap(CudaStream &other) {
    std::swap(handle, other.handle);
    std::swap(context, other.context);
  }
  CudaStreamHandle handle = nullptr;
  CudaContext context = nullptr;
};

/// A timing event of the current context.
class CudaEvent {
public:
  CudaEvent() = default;
  CudaEvent(CudaEvent &&other) noexcept { swap(other); }
  CudaEvent &operator=(CudaEvent &&other) noexcept {
    CudaEvent(std::move(other)).swap(*this);
    return *this;
  }
  ~CudaEvent();

  static Expected<CudaEvent> create();
  Expected<void> record(CudaStreamHandle stream) const;
  Expected<void> synchronize() const;
  /// Milliseconds from `begin` to this event. Both events must be recorded, and this event must be complete.
  Expected<float> millisecondsSince(const CudaEvent &begin) const;

private:
  void swap(CudaEvent &other) {
    std::swap(handle, other.handle);
    std::swap(context, other.context);
  }
  CudaEventHandle handle = nullptr;
  CudaContext context = nullptr;
};

} // namespace attune
