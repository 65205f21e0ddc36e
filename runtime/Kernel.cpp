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
constexpr int pointerMemoryType = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int pointerIsManaged = 8;     // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr int pointerDeviceOrdinal = 9; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr int pointerRangeStart = 11;   // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
constexpr int pointerRangeSize = 12;    // CU_POINTER_ATTRIBUTE_RANGE_SIZE
constexpr int memoryTypeDevice = 2;     // CU_MEMORYTYPE_DEVICE

/// The image's CUDA module, as loaded into one context.
struct LoadedModule {
  CudaContext context = nullptr;
  CudaModule module = nullptr;
  CudaFunction functions[most_kernels] = {}; ///< one for each of the image's entries
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
  LaunchTables tables;
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

  State(KernelImage taken, Device device) : image(std::move(taken)), tables(image), device(device) {}

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
  Expected<void> launchCuda(Stream stream, PackedLaunch &packed) const;
  void launchHost(const PackedLaunch &packed) const;
  Expected<void> queryPointers(const LaunchArgs &args) const;
};

//===----------------------------------------------------------------------===//
// Loading and launching on CUDA targets
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<LoadedModule>> Kernel::State::loadInto(CudaContext context) const {
  RelaxedCapture relaxed(*cuda);
  auto loaded = std::make_unique<LoadedModule>();
  loaded->context = context;
  if (launcher_find_functions(&tables.kernel, &tables.image, cuda, &loaded->module, loaded->functions) != result_ok)
    return launchError();
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

/// Writes the tensor map (TMA descriptor) of `key` to `out`: from the TensorMapCache `cache`, else newly encoded.
static int encodeCached(const driver_table *driver, const map_table *map, const map_key *key, void *out, void *cache) {
  return static_cast<TensorMapCache *>(cache)->get(
      *key, out, [&](const map_key &key, void *to) { return launcher_encode(driver, map, &key, to, nullptr); });
}

static void logLaunch(const KernelImage &image, const launch_sizes &sizes, int64_t blocks, unsigned threads) {
  logLine(LogLevel::Debug, "launch {} for {}: tiles {} x {}, {} blocks of {} threads, B {} H {} Hkv {} Sq {} Sk {}",
          image.name, image.arch, image.tileQ, image.tileK, blocks, threads, sizes.batch, sizes.heads, sizes.kv_heads,
          sizes.query_length, sizes.key_length);
}

Expected<void> Kernel::State::launchCuda(Stream stream, PackedLaunch &packed) const {
  CudaContext current = cuda->currentContext();
  Expected<const LoadedModule *> loaded = moduleFor(current);
  if (!loaded)
    return loaded.error();
  // cuTensorMapEncodeTiled needs a current context.
  ContextScope scope(cuda, current, (*loaded)->context);
  if (launcher_fill_maps(&tables.image, cuda, &packed, encodeCached, tensorMaps.get()) != result_ok)
    return launchError();
  started_kernel started[most_kernels];
  const int count = launcher_choose(&tables.image, cuda, &packed, (*loaded)->functions, multiprocessors, started);
  const std::span kernels(started, size_t(count));
  for (const started_kernel &kernel : kernels)
    logLaunch(image, packed.sizes, kernel.blocks, kernel.threads);
  void *arguments[] = {&packed.block};
  if ((*loaded)->graphs->launch(*cuda, kernels, arguments, stream))
    return {};
  for (const started_kernel &kernel : kernels)
    if (launcher_start(&tables.kernel, cuda, &kernel, &packed, stream) != result_ok)
      return launchError();
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
  Expected<CudaContext> primary = (*cuda)->primaryContext(device);
  if (!primary)
    return primary.error();
  auto state = std::make_shared<Kernel::State>(std::move(image), Device::cuda(device));
  const LaunchTables &tables = state->tables;
  if (tables.image.map_count > 0 && !(*cuda)->cuTensorMapEncodeTiled) {
    launcher_driver_too_old(&tables.kernel, &tables.image, *cuda);
    return launchError();
  }
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
    logLaunch(image, packed.sizes, packed.tiles[i], unsigned(image.entries[i].threads));
    ThreadPool::process().run(size_t(packed.tiles[i]), host[i].scratchBytes, [&](size_t block, void *scratch) {
      host[i].function(packed.params(), int32_t(block), scratch);
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

/// Returns the alternative kernel whose size class is nearest to the class of `sizes`; of several equally near ones,
/// the first. If no class is near enough (SizeClass::distance), returns the alternative for few queries that
/// fewQueriesOf selects. If there is no such alternative either, returns the kernel for every size.
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

/// Chooses the kernel for arguments that are not checked yet. For wrong shapes any choice is right, because every
/// kernel then refuses the launch.
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
  if (Expected<void> good = packLaunch(of.tables, of.device, of.multiprocessors, defaultDropout, args, packed); !good)
    return good;
  if (!launcher_has_work(&of.tables.image, &packed))
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
  return packLaunch(of.tables, of.device, of.multiprocessors, defaultDropout, args, packed);
}

size_t Kernel::workspaceBytes(const LaunchArgs &args) const {
  assert(valid() && "workspaceBytes of an empty kernel handle");
  const State &of = chosen(args);
  return workspaceSize(of.tables, of.multiprocessors, args);
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
