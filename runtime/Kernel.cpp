#include "attune/Kernel.h"
#include "arch/ArchInfo.h"
#include "runtime/CudaDriver.h"
#include "runtime/Launch.h"
#include "runtime/LaunchGraph.h"
#include "runtime/Log.h"
#include "runtime/ProfilerRange.h"
#include "runtime/TensorMaps.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <limits>
#include <mutex>

using namespace attune;

namespace {
// Enumerators of cuda.h.
constexpr int launchAttributeProgrammaticSerialization = 6; // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
constexpr int functionMaxDynamicShared = 8;                 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int pointerMemoryType = 2;                        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int pointerIsManaged = 8;                         // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr int pointerDeviceOrdinal = 9;                     // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr int pointerRangeStart = 11;                       // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
constexpr int pointerRangeSize = 12;                        // CU_POINTER_ATTRIBUTE_RANGE_SIZE
constexpr int memoryTypeDevice = 2;                         // CU_MEMORYTYPE_DEVICE
constexpr int errorInvalidImage = 200;                      // CUDA_ERROR_INVALID_IMAGE
constexpr int errorNoBinaryForGpu = 209;                    // CUDA_ERROR_NO_BINARY_FOR_GPU
constexpr int errorUnsupportedPtxVersion = 222;             // CUDA_ERROR_UNSUPPORTED_PTX_VERSION

/// The image's CUDA module, as loaded into one context.
struct LoadedModule {
  CudaContext context = nullptr;
  CudaModule module = nullptr;
  std::vector<CudaFunction> functions = {}; ///< one for each of the image's entries
  mutable std::optional<LaunchGraphs> graphs = std::make_optional<LaunchGraphs>();
};

/// Makes a context current for a scope, unless it is current already.
class ContextScope {
public:
  ContextScope(const CudaDriver *cuda, CudaContext current, CudaContext wanted) {
    if (current != wanted && cuda->cuCtxPushCurrent(wanted) == 0)
      pushedOn = cuda;
  }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;
  ~ContextScope() {
    CudaContext popped;
    if (pushedOn)
      pushedOn->cuCtxPopCurrent(&popped);
  }

private:
  const CudaDriver *pushedOn = nullptr;
};
} // namespace

struct Kernel::State {
  KernelImage image;
  Device device;

  // Fields of the CPU target.
  std::vector<HostEntry> host = {};
  std::shared_ptr<void> owner = {};

  // Fields of CUDA targets; `cuda` is null on the CPU.
  const CudaDriver *cuda = nullptr;
  int64_t multiprocessors = 1; ///< multiprocessors of the device; threads of the CPU
  CudaContext primary = nullptr;
  mutable std::mutex mutex = {};                                   // guards `modules`
  mutable std::vector<std::unique_ptr<LoadedModule>> modules = {}; // never shrinks: launches hold pointers to elements
  mutable std::atomic<double> loadMilliseconds = 0;                // load time of the latest module
  mutable std::atomic<const LoadedModule *> recent = nullptr;      // what moduleFor() returned last
  std::unique_ptr<TensorMapCache> tensorMaps = {};                 // null where the signature has no tensor maps
  std::vector<TensorMapPlace> mapPlaces = {};
  size_t mapOffset = 0; // byte offset of the first map in the packed parameters

  State(KernelImage taken, Device device) : image(std::move(taken)), device(device) {
    const KernelSignature &signature = image.signature;
    for (size_t map = 0; map < signature.tensorMaps.size(); ++map)
      mapPlaces.push_back(TensorMapPlace::of(signature, map));
    mapOffset = signature.tensorMapOffset();
  }

  ~State() {
    // If the driver has already shut down, these calls fail without harm.
    for (const auto &loaded : modules) {
      ContextScope scope(cuda, cuda->currentContext(), loaded->context);
      loaded->graphs.reset();
      cuda->cuModuleUnload(loaded->module);
    }
  }

  /// The module for a launch from a thread whose current context is `current`; loads the module where needed.
  Expected<const LoadedModule *> moduleFor(CudaContext current) const;
  Expected<std::unique_ptr<LoadedModule>> loadInto(CudaContext context) const;
  Expected<void> loadEntry(const KernelEntry &entry, LoadedModule &loaded) const;
  /// The launch configuration of kernel `index`, which has at least one block. `followsOwn`: whether another kernel of
  /// the same launch runs before this kernel.
  StartedKernel startedKernel(const PackedLaunch &packed, const LoadedModule &loaded, size_t index,
                              bool followsOwn) const;
  Expected<void> launchOne(Stream stream, const StartedKernel &kernel, void **arguments) const;
  Expected<void> launchCuda(Stream stream, PackedLaunch &packed) const;
  Expected<void> fillTensorMaps(PackedLaunch &packed) const;
  void launchHost(const PackedLaunch &packed) const;
  Expected<void> queryPointers(const LaunchArgs &args) const;
};

//===----------------------------------------------------------------------===//
// Loading and launching on CUDA targets
//===----------------------------------------------------------------------===//

/// Finds the function of one entry and raises its limit of dynamic shared memory to what the entry needs.
Expected<void> Kernel::State::loadEntry(const KernelEntry &entry, LoadedModule &loaded) const {
  CudaFunction function = nullptr;
  if (int failed = cuda->cuModuleGetFunction(&function, loaded.module, entry.symbol.c_str()))
    return cuda->result(failed, fmt::format("kernel '{}' has no entry '{}'", image.name, entry.symbol));
  if (cuda->cuFuncGetParamInfo) {
    size_t offset = 0, size = 0;
    int found = cuda->cuFuncGetParamInfo(function, 0, &offset, &size);
    if (found == 0 && size != image.signature.packedBytes())
      return Error{fmt::format("kernel '{}' takes {} bytes of parameters, its signature packs {}; compile it again",
                               image.name, size, image.signature.packedBytes())};
  }
  loaded.functions.push_back(function);
  if (entry.sharedBytes == 0)
    return {};
  return cuda->result(cuda->cuFuncSetAttribute(function, functionMaxDynamicShared, int(entry.sharedBytes)),
                      fmt::format("kernel '{}' cannot have {} bytes of shared memory", image.name, entry.sharedBytes));
}

Expected<std::unique_ptr<LoadedModule>> Kernel::State::loadInto(CudaContext context) const {
  RelaxedCapture relaxed(*cuda);
  auto loaded = std::make_unique<LoadedModule>();
  loaded->context = context;
  Expected<void> done = [&]() -> Expected<void> {
    int code = cuda->cuModuleLoadData(&loaded->module, image.binary.data());
    if (code == errorInvalidImage || code == errorNoBinaryForGpu || code == errorUnsupportedPtxVersion)
      if (image.nvrtcVersion / 1000 > cuda->version() / 1000)
        return driverTooOld(cuda->version(), image.nvrtcVersion);
    if (code != 0)
      return cuda->result(code, fmt::format("kernel '{}' does not load", image.name));
    for (const KernelEntry &entry : image.entries)
      if (Expected<void> found = loadEntry(entry, *loaded); !found)
        return found;
    return {};
  }();
  if (!done && loaded->module)
    cuda->cuModuleUnload(loaded->module);
  if (!done)
    return done.error();
  return loaded;
}

Expected<const LoadedModule *> Kernel::State::moduleFor(CudaContext current) const {
  if (const LoadedModule *loaded = recent.load(std::memory_order_acquire);
      loaded && current && loaded->context == current)
    return loaded;
  CudaContext context = primary;
  int currentDevice = -1;
  if (current && cuda->cuCtxGetDevice(&currentDevice) == 0 && currentDevice == device.ordinal)
    context = current;
  std::lock_guard lock(mutex);
  for (const auto &loaded : modules)
    if (loaded->context == context) {
      recent.store(loaded.get(), std::memory_order_release);
      return loaded.get();
    }
  ContextScope scope(cuda, current, context);
  auto begin = std::chrono::steady_clock::now();
  Expected<std::unique_ptr<LoadedModule>> loaded = loadInto(context);
  if (!loaded)
    return loaded.error();
  loadMilliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  modules.push_back(std::move(*loaded));
  recent.store(modules.back().get(), std::memory_order_release);
  return modules.back().get();
}

/// Writes the tensor maps that follow the other parameters. Where an optional map cannot be encoded, clears its bit in
/// `mapped`, so that a fallback kernel runs.
Expected<void> Kernel::State::fillTensorMaps(PackedLaunch &packed) const {
  // Enumerators of cuda.h: CUtensorMapDataType and CUtensorMapL2promotion. The two arguments 0 of
  // cuTensorMapEncodeTiled mean no interleaving, and zeros for elements outside the tensor.
  constexpr int float16 = 6, float32 = 7, bfloat16 = 9, noPromotion = 0, promoteTo256 = 3;
  auto encode = [&](const TensorMapKey &key, std::byte *out) {
    const TensorMapParam &map = image.signature.tensorMaps[key.map];
    const uint32_t box[] = {uint32_t(map.columns), uint32_t(map.rows), 1, 1}, steps[] = {1, 1, 1, 1};
    const int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : 1;
    const DType element = mapPlaces[key.map].dtype;
    const int type = element == DType::F32 ? float32 : element == DType::BF16 ? bfloat16 : float16;
    // If the row stride is not a multiple of 32 bytes (an L2 sector), TMA issues more requests per row. Promotion to
    // 256 bytes would widen these requests, so that they overlap.
    const int promotion = key.strides[0] % 32 ? noPromotion : promoteTo256;
    return cuda->cuTensorMapEncodeTiled(out, type, 4, reinterpret_cast<void *>(key.address), key.dimensions,
                                        key.strides, box, steps, 0, swizzle, promotion, 0);
  };
  std::byte *out = packed.bytes + mapOffset;
  for (size_t i = 0; i < image.signature.tensorMaps.size(); ++i, out += tensorMapBytes) {
    const int32_t bit = int32_t(1u << i);
    if (packed.params().mapped & bit) {
      const TensorMapKey key = TensorMapKey::of(mapPlaces[i], i, packed.params());
      const int code = tensorMaps->get(key, out, encode);
      if (code == 0)
        continue;
      if (!image.signature.tensorMaps[i].isOptional())
        return cuda->result(code, fmt::format("{} with row, head and batch strides of {}, {} and {} bytes cannot be "
                                              "described to TMA; make it contiguous, or compile for sm_90",
                                              image.signature.tensorMaps[i].tensor, int64_t(key.strides[0]),
                                              int64_t(key.strides[1]), int64_t(key.strides[2])));
      packed.params().mapped &= ~bit;
      if (Expected<void> good = checkMapped(image, packed.params().mapped); !good)
        return good;
    }
    std::memset(out, 0, tensorMapBytes);
  }
  return {};
}

static void logLaunch(const KernelImage &image, const KernelEntry &entry, const LaunchSizes &sizes, int64_t blocks) {
  logLine(LogLevel::Debug, "launch {} for {}: tiles {} x {}, {} blocks of {} threads, B {} H {} Hkv {} Sq {} Sk {}",
          image.name, image.arch, image.tileQ, image.tileK, blocks, entry.threads, sizes.batch, sizes.heads,
          sizes.kvHeads, sizes.queryLength, sizes.keyLength);
}

Expected<void> Kernel::State::launchCuda(Stream stream, PackedLaunch &packed) const {
  CudaContext current = cuda->currentContext();
  Expected<const LoadedModule *> loaded = moduleFor(current);
  if (!loaded)
    return loaded.error();
  // cuTensorMapEncodeTiled needs a current context.
  ContextScope scope(cuda, current, (*loaded)->context);
  if (tensorMaps)
    if (Expected<void> filled = fillTensorMaps(packed); !filled)
      return filled;
  std::array<StartedKernel, maxKernels> started;
  size_t count = 0;
  for (size_t i = 0; i < image.entries.size(); ++i)
    if (packed.blocks[i] > 0 && image.entries[i].maps.holds(packed.params().mapped)) {
      // A kernel may overlap only with an earlier kernel of the same launch: the first kernel must wait for the
      // previous launch to end.
      started[count] = startedKernel(packed, **loaded, i, /*followsOwn=*/count > 0);
      ++count;
    }
  const std::span kernels(started.data(), count);
  void *arguments[] = {packed.bytes};
  if ((*loaded)->graphs->launch(*cuda, kernels, arguments, stream))
    return {};
  for (const StartedKernel &kernel : kernels)
    if (Expected<void> launched = launchOne(stream, kernel, arguments); !launched)
      return launched;
  return {};
}

StartedKernel Kernel::State::startedKernel(const PackedLaunch &packed, const LoadedModule &loaded, size_t index,
                                           bool followsOwn) const {
  const KernelEntry &entry = image.entries[index];
  const int64_t blocks = entry.persistent ? persistentBlocks(packed.blocks[index], multiprocessors, entry.claimsWork)
                                          : packed.blocks[index];
  logLaunch(image, entry, packed.sizes, blocks);
  return {loaded.functions[index], unsigned(blocks), unsigned(entry.threads), unsigned(entry.sharedBytes),
          entry.dependent && followsOwn && cuda->launchesDependents()};
}

Expected<void> Kernel::State::launchOne(Stream stream, const StartedKernel &kernel, void **arguments) const {
  int code = 0;
  if (kernel.overlapsLast) {
    CudaLaunchAttribute attribute = {.id = launchAttributeProgrammaticSerialization, .padding = 0, .value = {1}};
    const CudaLaunchConfig config = {.grid = {kernel.blocks, 1, 1},
                                     .block = {kernel.threads, 1, 1},
                                     .sharedBytes = kernel.sharedBytes,
                                     .stream = stream,
                                     .attributes = &attribute,
                                     .attributeCount = 1};
    code = cuda->cuLaunchKernelEx(&config, kernel.function, arguments, nullptr);
  } else {
    code = cuda->cuLaunchKernel(kernel.function, kernel.blocks, 1, 1, kernel.threads, 1, 1, kernel.sharedBytes, stream,
                                arguments, nullptr);
  }
  if (code != 0)
    return cuda->result(code, fmt::format("launch of kernel '{}' failed", image.name));
  return {};
}

/// The byte range [first, end) that a view covers, relative to its base address.
static std::pair<__int128, __int128> byteRange(const Tensor &tensor) {
  __int128 low = 0, high = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] <= 0)
      return {0, 0};
    __int128 reach = __int128(tensor.shape[i] - 1) * tensor.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  __int128 size = byteSize(tensor.dtype);
  return {low * size, high * size};
}

/// Checks by queries to the driver that `tensor` lies inside one allocation that `device` can access.
static Expected<void> queryPointer(const CudaDriver *cuda, Device device, std::string_view subject,
                                   const Tensor &tensor) {
  auto [low, high] = byteRange(tensor);
  if (low == high)
    return {};
  auto address = reinterpret_cast<CudaAddress>(tensor.data);
  unsigned memoryType = 0;
  if (cuda->cuPointerGetAttribute(&memoryType, pointerMemoryType, address) != 0)
    return Error{
        fmt::format("{} points at {:#x}, which is not memory that CUDA knows; pass device memory", subject, address)};
  unsigned managed = 0;
  int ordinal = device.ordinal;
  cuda->cuPointerGetAttribute(&managed, pointerIsManaged, address);
  cuda->cuPointerGetAttribute(&ordinal, pointerDeviceOrdinal, address);
  if (memoryType == memoryTypeDevice && !managed && ordinal != device.ordinal)
    return Error{fmt::format("{} lies on cuda:{}, the kernel is on {}; move it there or compile for its device",
                             subject, ordinal, device.text())};
  CudaAddress start = 0;
  size_t size = 0;
  if (cuda->cuPointerGetAttribute(&start, pointerRangeStart, address) != 0 ||
      cuda->cuPointerGetAttribute(&size, pointerRangeSize, address) != 0)
    return {};
  __int128 first = __int128(address) - start + low, end = __int128(address) - start + high;
  if (first < 0 || end > __int128(size))
    return Error{fmt::format("{} reaches bytes {} to {} of an allocation of {} bytes; correct its shape or strides",
                             subject, int64_t(first), int64_t(end) - 1, size)};
  return {};
}

Expected<void> Kernel::State::queryPointers(const LaunchArgs &args) const {
  CudaContext current = cuda->currentContext();
  ContextScope scope(cuda, current, current ? current : primary);
  auto query = [&](std::string_view subject, const Tensor &tensor) {
    return queryPointer(cuda, device, subject, tensor);
  };
  for (const OperandParam &operand : image.signature.operands)
    if (const Tensor *tensor = args.operand(operand.name))
      if (Expected<void> good = query(operand.name, *tensor); !good)
        return good;
  for (const NamedTensor &named : args.tensors)
    if (Expected<void> good = query(fmt::format("captured tensor '{}'", named.name), named.tensor); !good)
      return good;
  if (size_t bytes = args.workspace ? args.workspaceBytes : 0)
    if (Expected<void> good =
            query("workspace", Tensor::contiguous(args.workspace, DType::Bool, {int64_t(bytes)}, device));
        !good)
      return good;
  const std::pair<const char *, const uint64_t *> pointers[] = {{"seedPointer", args.seedPointer},
                                                                {"offsetPointer", args.offsetPointer}};
  for (auto [subject, pointer] : pointers)
    if (pointer)
      if (Expected<void> good = query(subject, Tensor::contiguous(pointer, DType::I64, {1}, device)); !good)
        return good;
  return {};
}

Expected<Kernel> attune::loadCudaKernel(KernelImage image, int device) {
  if (Expected<void> good = checkSignature(image); !good)
    return good.error();
  Expected<const ArchInfo *> arch = archInfo(image.arch);
  if (!arch)
    return arch.error();
  if ((*arch)->isCpu())
    return Error{fmt::format("kernel '{}' was compiled for the CPU; compile it for a CUDA target", image.name)};
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  Expected<CudaDeviceInfo> info = (*cuda)->device(device);
  if (!info)
    return info.error();
  if (!runsOn(**arch, info->computeMajor, info->computeMinor)) {
    const ArchInfo *right = archForDevice(info->computeMajor, info->computeMinor);
    return Error{fmt::format("kernel '{}' was compiled for {}, {} has compute capability {}.{}; {}", image.name,
                             image.arch, info->name, info->computeMajor, info->computeMinor,
                             right ? fmt::format("compile for {}", right->name) : "use the cpu target")};
  }
  for (const KernelEntry &entry : image.entries)
    if (entry.sharedBytes > info->sharedBytesPerBlock)
      return Error{fmt::format("kernel '{}' needs {} bytes of shared memory, {} has {} per block; compile with that "
                               "budget",
                               image.name, entry.sharedBytes, info->name, info->sharedBytesPerBlock)};
  if (!image.signature.tensorMaps.empty() && !(*cuda)->cuTensorMapEncodeTiled)
    return driverTooOld((*cuda)->version(), image.nvrtcVersion);
  Expected<CudaContext> primary = (*cuda)->primaryContext(device);
  if (!primary)
    return primary.error();
  auto state = std::make_shared<Kernel::State>(std::move(image), Device::cuda(device));
  state->cuda = *cuda;
  state->multiprocessors = info->smCount;
  state->primary = *primary;
  if (!state->image.signature.tensorMaps.empty())
    state->tensorMaps = std::make_unique<TensorMapCache>();
  return Kernel(std::move(state));
}

//===----------------------------------------------------------------------===//
// Launching on the CPU target
//===----------------------------------------------------------------------===//

/// Runs the kernels one after the other. The threads of the pool share the blocks of each kernel.
void Kernel::State::launchHost(const PackedLaunch &packed) const {
  for (size_t i = 0; i < image.entries.size(); ++i) {
    logLaunch(image, image.entries[i], packed.sizes, packed.blocks[i]);
    ThreadPool::process().run(size_t(packed.blocks[i]), host[i].scratchBytes, [&](size_t block, void *scratch) {
      host[i].function(&packed.params(), int32_t(block), scratch);
    });
  }
}

Kernel attune::makeHostKernel(KernelImage image, std::vector<HostEntry> entries, std::shared_ptr<void> owner) {
  assert(entries.size() == image.entries.size() && "a host kernel has a function for each entry");
  auto state = std::make_shared<Kernel::State>(std::move(image), Device::cpu());
  state->host = std::move(entries);
  state->multiprocessors = ThreadPool::process().threads();
  state->owner = std::move(owner);
  return Kernel(std::move(state));
}

//===----------------------------------------------------------------------===//
// Kernel: the handle, and the choice among alternatives
//===----------------------------------------------------------------------===//

/// The kernels that a Kernel may launch instead of the kernel in `state`.
struct Kernel::Choice {
  std::vector<Alternative> alternatives = {};
  bool packs = false; ///< the alternatives for few queries pack all query heads of a key head into one tile
  Prepare prepare = {};
  Kernel backward = {};
};

Kernel::Kernel(std::shared_ptr<const State> state) : state(std::move(state)) {}

/// Returns the alternative whose size class is nearest to the class of `sizes`; of several equally near ones, the
/// first. If none is near enough (SizeClass::distance), returns the alternative for few queries that fewQueriesOf
/// selects. If there is no such alternative either, returns the kernel for every size.
const Kernel::State &Kernel::chosen(const ProblemSizes &sizes) const {
  const SizeClass own = SizeClass::of(sizes);
  const State *nearest = nullptr;
  int least = std::numeric_limits<int>::max();
  for (const Alternative &alternative : choice->alternatives) {
    if (alternative.fewQueries != FewQueries::No)
      continue;
    if (std::optional<int> distance = alternative.sizes.distance(own); distance && *distance < least) {
      least = *distance;
      nearest = alternative.kernel.state.get();
    }
  }
  if (nearest)
    return *nearest;
  if (const FewQueries few = fewQueriesOf(sizes, choice->packs, state->multiprocessors); few != FewQueries::No)
    for (const Alternative &alternative : choice->alternatives)
      if (alternative.fewQueries == few)
        return *alternative.kernel.state;
  return *state;
}

/// `args` are not checked yet. With wrong shapes any choice is right, because every kernel then refuses the launch.
const Kernel::State &Kernel::chosen(const LaunchArgs &args) const {
  if (!choice || choice->alternatives.empty() || args.q.rank != 4 || args.k.rank != 4)
    return *state;
  return chosen(ProblemSizes{args.q.shape[0], args.q.shape[1], args.k.shape[1], args.q.shape[2],
                             keysIn(state->image.signature, args)});
}

Expected<void> Kernel::launch(Stream stream, const LaunchArgs &args) const {
  assert(valid() && "launch of an empty kernel handle");
  const State &of = chosen(args);
  PackedLaunch packed;
  if (Expected<void> good = packLaunch(of.image, of.device, of.multiprocessors, defaultDropout, args, packed); !good)
    return good;
  if (!packed.hasWork(of.image))
    return {};
  const ProfilerRange range(of.image.name.c_str());
  if (of.cuda)
    return of.launchCuda(stream, packed);
  of.launchHost(packed);
  return {};
}

Expected<void> Kernel::launchChecked(Stream stream, const LaunchArgs &args) const {
  if (Expected<void> good = check(args); !good)
    return good;
  if (state->cuda)
    if (Expected<void> good = state->queryPointers(args); !good)
      return good;
  return launch(stream, args);
}

Expected<void> Kernel::check(const LaunchArgs &args) const {
  assert(valid() && "check with an empty kernel handle");
  const State &of = chosen(args);
  PackedLaunch packed;
  return packLaunch(of.image, of.device, of.multiprocessors, defaultDropout, args, packed);
}

size_t Kernel::workspaceBytes(const LaunchArgs &args) const {
  assert(valid() && "workspaceBytes of an empty kernel handle");
  const State &of = chosen(args);
  return workspaceSize(of.image, of.multiprocessors, args);
}

Expected<void> Kernel::load() const {
  assert(valid() && "load of an empty kernel handle");
  if (state->cuda)
    if (Expected<const LoadedModule *> loaded = state->moduleFor(state->cuda->currentContext()); !loaded)
      return loaded.error();
  for (const Alternative &alternative : alternatives())
    if (Expected<void> loaded = alternative.kernel.load(); !loaded)
      return loaded;
  return {};
}

const KernelImage &Kernel::image() const {
  assert(valid() && "image of an empty kernel handle");
  return state->image;
}

const KernelImage &Kernel::imageFor(const ProblemSizes &sizes) const {
  assert(valid() && "imageFor of an empty kernel handle");
  return choice ? chosen(sizes).image : state->image;
}

const std::vector<Alternative> &Kernel::alternatives() const {
  static const std::vector<Alternative> none;
  return choice ? choice->alternatives : none;
}

Expected<Kernel> Kernel::prepare(const std::vector<ProblemSizes> &sizes) const {
  assert(valid() && "prepare of an empty kernel handle");
  if (!choice || !choice->prepare)
    return Error{fmt::format("kernel '{}' was not made by compile() from a variant, and holds its schedule; name sizes "
                             "in CompileOptions::shapes where it is compiled",
                             state->image.name)};
  Expected<Kernel> prepared = choice->prepare(sizes);
  if (!prepared)
    return prepared;
  // If the prepared kernel came from the cache, it may have no backward kernel. The prepared kernel takes the backward
  // kernel of this handle.
  return prepared->withBackward(choice->backward).withDropout(defaultDropout);
}

Kernel Kernel::backward() const {
  return choice && choice->backward.valid() ? choice->backward.withDropout(defaultDropout) : Kernel();
}

CompileTimes Kernel::times() const {
  CompileTimes times = image().times;
  if (state->cuda)
    times.load = state->loadMilliseconds;
  return times;
}

Device Kernel::device() const {
  assert(valid() && "device of an empty kernel handle");
  return state->device;
}

Kernel Kernel::withDropout(float probability) const {
  assert(probability >= 0.0f && probability < 1.0f && "a dropout probability is in [0, 1)");
  Kernel copy = *this;
  copy.defaultDropout = probability;
  return copy;
}

Kernel Kernel::withCacheHit(bool value) const {
  Kernel copy = *this;
  copy.hit = value;
  return copy;
}

Kernel Kernel::withAlternatives(std::vector<Alternative> alternatives) const {
  Kernel copy = *this;
  auto changed = std::make_shared<Choice>(choice ? *choice : Choice());
  changed->alternatives = std::move(alternatives);
  changed->packs = std::ranges::any_of(changed->alternatives, [](const Alternative &alternative) {
    return alternative.fewQueries != FewQueries::No &&
           std::ranges::any_of(alternative.kernel.image().signature.derived,
                               [](const DerivedAxis &axis) { return axis.rule == DerivedAxis::Rule::Rows; });
  });
  copy.choice = std::move(changed);
  return copy;
}

Kernel Kernel::withBackward(Kernel backward) const {
  Kernel copy = *this;
  auto changed = std::make_shared<Choice>(choice ? *choice : Choice());
  changed->backward = std::move(backward);
  copy.choice = std::move(changed);
  return copy;
}

Kernel Kernel::withPrepare(Prepare prepare) const {
  Kernel copy = *this;
  auto changed = std::make_shared<Choice>(choice ? *choice : Choice());
  changed->prepare = std::move(prepare);
  copy.choice = std::move(changed);
  return copy;
}
