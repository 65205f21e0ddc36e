#include "tests/runtime/FakeCuda.h"

#include "runtime/CudaDriver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

// Contexts: 1 and 2 are the primary contexts of devices 0 and 1; 11 is another one of device 0. A function
// is a multiple of 1000 + its context.
static FakeCuda state;
static thread_local std::vector<void *> stack;

static void *contextOf(uintptr_t number) { return reinterpret_cast<void *>(number); }
static uintptr_t current() { return stack.empty() ? 0 : reinterpret_cast<uintptr_t>(stack.back()); }

/// A kernel of a graph: its parameters are those of the call that gave them.
struct FakeNode {
  attune::CudaKernelNode kernel;
  bool programmatic;
  std::vector<unsigned char> params;
  void keepParams() {
    auto *bytes = static_cast<unsigned char *>(kernel.arguments[0]);
    params.assign(bytes, bytes + state.paramBytes);
  }
};
struct FakeGraph : std::vector<FakeNode> {
  FakeGraph *source = nullptr; ///< of an executable one
};
std::set<FakeGraph *> liveGraphs;

extern "C" {
FakeCuda *fakeCuda() { return &state; }

int cuInit(unsigned) { return state.initResult; }
int cuDriverGetVersion(int *version) { return *version = state.version, 0; }
int cuGetErrorName(int code, const char **name) {
  *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuGetErrorString(int code, const char **text) { return *text = code == 1 ? "invalid argument" : "a text", 0; }
int cuDeviceGetCount(int *count) { return *count = state.devices, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int size, int device) {
  std::strncpy(name, device == 0 ? "Fake H200" : "Fake A100", size_t(size));
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
  case 13:
    return *value = 1980000, 0;
  case 16:
    return *value = 132, 0;
  case 38:
    return *value = 50 << 20, 0;
  case 75:
    return *value = state.major[device], 0;
  case 76:
    return *value = state.minor[device], 0;
  case 97:
    return *value = 232448, 0;
  default:
    return 1;
  }
}
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = size_t(1) << 37, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = contextOf(uintptr_t(device) + 1), 0; }
int cuCtxGetCurrent(void **context) { return *context = stack.empty() ? nullptr : stack.back(), 0; }
int cuCtxSetCurrent(void *context) {
  stack.clear();
  if (context)
    stack.push_back(context);
  return 0;
}
int cuCtxPushCurrent_v2(void *context) { return stack.push_back(context), ++state.contextPushes, 0; }
int cuCtxPopCurrent_v2(void **context) { return *context = stack.back(), stack.pop_back(), 0; }
int cuCtxGetDevice(int *device) {
  if (!current())
    return 201;
  return *device = current() == 2, 0;
}
int cuCtxSynchronize() { return 0; }
int cuModuleLoadData(void **module, const void *) {
  if (state.loadResult)
    return state.loadResult;
  return *module = contextOf(current()), ++state.loads, 0;
}
int cuModuleUnload(void *) { return ++state.unloads, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  constexpr std::string_view names[] = {"entry", "entry_bounds", "entry_elements"};
  const auto *found = std::ranges::find(names, name);
  if (found == std::end(names))
    return 500;
  return *function = contextOf(1000 * size_t(found - names + 1) + reinterpret_cast<uintptr_t>(module)), 0;
}
int cuFuncGetAttribute(int *, int, void *) { return 0; }
int cuFuncSetAttribute(void *, int attribute, int value) {
  if (attribute == 8)
    state.maxDynamicShared = value;
  return 0;
}
int cuFuncGetParamInfo(void *, size_t index, size_t *offset, size_t *size) {
  if (index != 0 || state.paramBytes == 0)
    return 1;
  return *offset = 0, *size = state.paramBytes, 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, void *, int, size_t) { return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **) {
  auto number = reinterpret_cast<uintptr_t>(function);
  if (number < 1000 || number % 1000 != current())
    return 400; // a function of another context
  if (state.launchResult)
    return state.launchResult;
  ++state.launches;
  state.programmatic = false;
  state.all.push_back({gx, bx, shared, stream, false});
  state.grid[0] = gx, state.grid[1] = gy, state.grid[2] = gz;
  state.block[0] = bx, state.block[1] = by, state.block[2] = bz;
  state.shared = shared;
  state.stream = stream;
  state.launchContext = contextOf(current());
  auto *bytes = static_cast<unsigned char *>(params[0]);
  state.params.assign(bytes, bytes + state.paramBytes);
  return 0;
}
int cuLaunchKernelEx(const launch_config *config, void *function, void **params, void **extra) {
  const int code =
      cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
                     config->block[2], config->shared_bytes, config->stream, params, extra);
  for (unsigned i = 0; i < config->attribute_count; ++i)
    state.programmatic |= config->attributes[i].id == 6 && config->attributes[i].value[0];
  if (code == 0)
    state.all.back().programmatic = state.programmatic;
  return code;
}
int cuStreamIsCapturing(void *, int *status) { return *status = state.capturing, 0; }
int cuGraphCreate(void **graph, unsigned) {
  auto *made = new FakeGraph;
  liveGraphs.insert(made);
  return *graph = made, ++state.liveGraphs, 0;
}
int cuGraphAddNode_v2(void **node, void *graph, void *const *before, const attune::CudaEdge *edge, size_t count,
                      attune::CudaNodeParams *params) {
  auto &nodes = *static_cast<FakeGraph *>(graph);
  if (count != (nodes.empty() ? 0 : 1) || (count && before[0] != reinterpret_cast<void *>(nodes.size())))
    return 1; // no chain
  nodes.push_back({params->kernel, count && edge->type == 1 && edge->fromPort == 1, {}});
  return *node = reinterpret_cast<void *>(nodes.size()), 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) {
  if (state.graphResult)
    return state.graphResult;
  auto *nodes = new FakeGraph(*static_cast<FakeGraph *>(graph));
  nodes->source = static_cast<FakeGraph *>(graph);
  for (FakeNode &node : *nodes)
    node.keepParams();
  return *exec = nodes, ++state.liveGraphs, 0;
}
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const attune::CudaKernelNode *kernel) {
  FakeNode &of = (*static_cast<FakeGraph *>(exec))[reinterpret_cast<size_t>(node) - 1];
  // Nodes are those of the graph that it was made of, which is there still.
  if (kernel->function != of.kernel.function || !liveGraphs.contains(static_cast<FakeGraph *>(exec)->source))
    return 1;
  of.kernel = *kernel;
  return of.keepParams(), 0;
}
int cuGraphLaunch(void *exec, void *stream) {
  for (FakeNode &node : *static_cast<FakeGraph *>(exec)) {
    void *params[] = {node.params.data()};
    const attune::CudaKernelNode &of = node.kernel;
    if (int code = cuLaunchKernel(of.function, of.grid[0], of.grid[1], of.grid[2], of.block[0], of.block[1],
                                  of.block[2], of.sharedBytes, stream, params, nullptr))
      return code;
    state.all.back().programmatic = node.programmatic;
  }
  return ++state.graphLaunches, 0;
}
int cuGraphDestroy(void *graph) {
  liveGraphs.erase(static_cast<FakeGraph *>(graph));
  return delete static_cast<FakeGraph *>(graph), --state.liveGraphs, 0;
}
int cuGraphExecDestroy(void *exec) { return cuGraphDestroy(exec); }
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dimensions,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *, int, int swizzle,
                           int promotion, int) {
  if (!current())
    return 201;
  if (state.encodeResult)
    return state.encodeResult;
  ++state.encodes;
  FakeTensorMap written = {};
  written.address = reinterpret_cast<uint64_t>(address);
  std::memcpy(written.dimensions, dimensions, sizeof written.dimensions);
  std::memcpy(written.strides, strides, sizeof written.strides);
  std::memcpy(written.box, box, sizeof written.box);
  written.type = type, written.rank = int(rank), written.swizzle = swizzle, written.promotion = promotion;
  static_assert(sizeof written <= 128);
  std::memset(map, 0, 128);
  return std::memcpy(map, &written, sizeof written), 0;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
  if (address < state.rangeStart || address >= state.rangeStart + state.rangeSize)
    return 1;
  int number = 0;
  switch (attribute) {
  case 2:
    number = 2;
    break;
  case 8:
    number = 0;
    break;
  case 9:
    number = state.rangeDevice;
    break;
  case 11:
    return std::memcpy(value, &state.rangeStart, 8), 0;
  case 12:
    return std::memcpy(value, &state.rangeSize, 8), 0;
  default:
    return 1;
  }
  return std::memcpy(value, &number, 4), 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (bytes > (size_t(1) << 37))
    return 2;
  return *address = reinterpret_cast<uint64_t>(std::malloc(bytes)), ++state.liveAllocations, 0;
}
int cuMemFree_v2(uint64_t address) { return std::free(reinterpret_cast<void *>(address)), --state.liveAllocations, 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  return std::memcpy(reinterpret_cast<void *>(to), from, bytes), 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  return std::memcpy(to, reinterpret_cast<void *>(from), bytes), 0;
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  return std::memset(reinterpret_cast<void *>(to), value, bytes), 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *) { return cuMemsetD8_v2(to, value, bytes); }
int cuStreamCreate(void **stream, unsigned) { return *stream = contextOf(77), 0; }
int cuStreamDestroy_v2(void *) { return 0; }
int cuStreamSynchronize(void *) { return 0; }
int cuEventCreate(void **event, unsigned) { return *event = contextOf(88), 0; }
int cuEventDestroy_v2(void *) { return 0; }
int cuEventRecord(void *, void *) { return 0; }
int cuEventSynchronize(void *) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *, void *) { return *milliseconds = 1.5f, 0; }
int cuThreadExchangeStreamCaptureMode(int *) { return 0; }
}
