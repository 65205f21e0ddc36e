//===- DriverTest.cpp - The driver: absent, faked, and on a GPU -------------===//

#include "attune/Kernel.h"
#include "attune/Target.h"
#include "runtime/CudaDriver.h"
#include "runtime/Launch.h"
#include "runtime/Nvrtc.h"
#include "tests/runtime/FakeCuda.h"
#include "tests/runtime/NvrtcOrSkip.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <thread>

using namespace attune;

static_assert(oldest_driver == 11040);

TEST_CASE("no driver", "[driver]") {
  Expected<const CudaDriver *> absent = openCudaDriver("libcuda-that-is-not-there.so.1");
  REQUIRE(!absent);
  CHECK(absent.error().message == "no CUDA driver: libcuda-that-is-not-there.so.1: cannot open shared object "
                                  "file: No such file or directory; "
                                  "install the NVIDIA driver, or use the cpu target");
  CHECK(openCudaDriver("libm.so.6").error().message ==
        "the CUDA driver libm.so.6 has no entry point cuInit; install a newer NVIDIA driver");
}

TEST_CASE("versions in messages", "[driver]") {
  CHECK(cudaVersionText(13000) == "13.0");
  CHECK(cudaVersionText(12080) == "12.8");
}

TEST_CASE("a driver that does not start", "[driver]") {
  void *library = dlopen(ATTUNE_FAKE_CUDA, RTLD_NOW);
  REQUIRE(library);
  FakeCuda &fake = *reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda"))();
  FakeCuda before = fake;
  fake.version = 11020;
  CHECK(openCudaDriver(ATTUNE_FAKE_CUDA).error().message ==
        "the driver supports CUDA 11.2, required is 11.4 or newer; install a newer NVIDIA driver");
  fake = before;
  fake.initResult = 1;
  CHECK(openCudaDriver(ATTUNE_FAKE_CUDA).error().message ==
        "the CUDA driver does not start: CUDA_ERROR_INVALID_VALUE (invalid argument); check that nvidia-smi "
        "lists a GPU, "
        "or use the cpu target");
  fake = before;
  fake.devices = 0;
  CHECK(openCudaDriver(ATTUNE_FAKE_CUDA).error().message ==
        "the CUDA driver has no device; check CUDA_VISIBLE_DEVICES, or use the cpu target");
  fake = before;
}

//===----------------------------------------------------------------------===//
// With the fake driver as libcuda.so.1 (CTest sets LD_LIBRARY_PATH; tag [fake])
//===----------------------------------------------------------------------===//

namespace {

struct FakeSetup {
  FakeCuda &fake;
  const CudaDriver *cuda;
  KernelImage image;
  LaunchArgs args;
  char *memory = static_cast<char *>(std::aligned_alloc(64, 1 << 20));

  FakeSetup() : fake(open()), cuda(*cudaDriver()) {
    fake = {};
    cuda->cuCtxSetCurrent(nullptr);
    image.name = "variant";
    image.main().symbol = "entry";
    image.arch = "sm_90";
    image.tileQ = 64;
    image.main().grid = {{"b"}, {"h"}, {"q", 0, 64}};
    image.main().threads = 128;
    image.main().sharedBytes = 98304;
    image.nvrtcVersion = 13000;
    image.binary = {'\177', 'E', 'L', 'F'};
    image.signature = {.dtype = bf16,
                       .headDim = 64,
                       .headDimV = 64,
                       .operands = forwardOperands(bf16, 64, 64),
                       .tensors = {{"slopes", f32, 1}}};
    Device device = Device::cuda(0);
    args.q = args.o = Tensor::contiguous(memory, bf16, {2, 4, 100, 64}, device);
    args.k = args.v = Tensor::contiguous(memory, bf16, {2, 2, 70, 64}, device);
    args.tensors = {{"slopes", Tensor::contiguous(memory, f32, {4}, device)}};
    fake.paramBytes = image.signature.packedBytes();
    fake.rangeStart = reinterpret_cast<uint64_t>(memory);
    fake.rangeSize = 1 << 20;
  }
  ~FakeSetup() { std::free(memory); }

  static FakeCuda &open() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto *entry = library ? reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda")) : nullptr;
    if (!entry)
      FAIL("run through CTest, which puts the fake libcuda.so.1 on LD_LIBRARY_PATH");
    return *entry();
  }
};

} // namespace

TEST_CASE("fake: a captured tensor that is too small does not launch", "[fake][.]") {
  FakeSetup s;
  s.image.signature.tensors[0].indices = {{.dim = 0, .index = {0, {0, 1}, {}}, .text = "h", .element = "slopes[h]"}};
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  CHECK(kernel->launch(nullptr, s.args));
  s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {3}, Device::cuda(0))}};
  CHECK(kernel->launch(nullptr, s.args).error().message ==
        "captured tensor 'slopes' has 3 elements in dimension 0 and is indexed by h, but H is 4; pass at least 4, or "
        "write clamped(slopes[h]) "
        "where reading the last element is meant");
  CHECK(s.fake.launches == 1);
}

TEST_CASE("fake: a launch passes grid, block, shared memory, stream and parameters", "[fake][.]") {
  FakeSetup s;
  {
    Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
    REQUIRE(kernel);
    CHECK(kernel->device() == Device::cuda(0));
    CHECK(s.fake.loads == 0); // lazily
    int stream = 0;
    REQUIRE(kernel->launch(&stream, s.args));
    REQUIRE(kernel->launch(&stream, s.args));
    CHECK(s.fake.loads == 1);
    CHECK(s.fake.launches == 2);
    CHECK(s.fake.maxDynamicShared == 98304);
    CHECK(s.fake.grid[0] == 2 * 2 * 4);
    CHECK(s.fake.grid[1] == 1);
    CHECK(s.fake.block[0] == 128);
    CHECK(s.fake.shared == 98304);
    CHECK(s.fake.stream == &stream);
    CHECK(s.cuda->currentContext() == nullptr); // as it was
    auto packed = [&](size_t offset) {
      int64_t slot = 0;
      std::memcpy(&slot, s.fake.params.data() + offset, 8);
      return slot;
    };
    const KernelSignature &signature = s.image.signature;
    CHECK(signature.axes()[4] == "k");
    CHECK(packed(signature.extentOffset(4)) == 70);
    CHECK(packed(signature.operandOffset(0)) == reinterpret_cast<intptr_t>(s.memory));
    CHECK(packed(signature.tensorOffset(0) + 16) == 4);
  }
  CHECK(s.fake.unloads == 1);
}

TEST_CASE("fake: persistent blocks are at most as many as multiprocessors, and each has a tile of work", "[fake][.]") {
  FakeSetup s;
  s.image.main().persistent = true;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(s.fake.grid[0] == 2 * 2 * 4); // fewer tiles of work
  s.args.q = s.args.o = Tensor::contiguous(s.memory, bf16, {2, 80, 100, 64}, Device::cuda(0));
  s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {80}, Device::cuda(0))}};
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(s.fake.grid[0] == 132);
  CHECK(s.fake.grid[1] == 1);
  for (int64_t tiles = 1; tiles < 20; ++tiles)
    for (int64_t multiprocessors = 1; multiprocessors < 20; ++multiprocessors) {
      // Pairs of neighbours, as many as blocks, hold a tile for each block.
      const int64_t blocks = persistentBlocks(tiles, multiprocessors, /*claims=*/false);
      CHECK(blocks <= multiprocessors);
      CHECK((blocks == tiles || 2 * (blocks - 1) < tiles));
      CHECK(persistentBlocks(tiles, multiprocessors, /*claims=*/true) == std::min(tiles, multiprocessors));
    }
}

/// Adds a kernel in front of the image's, of 256 blocks, which fills a table of each 16 keys.
static void addBoundsKernel(KernelImage &image) {
  image.signature.tensors = {{"ids", i32, 1}};
  image.signature.operands.push_back({"ids.k", i32, OperandRole::Workspace, false, {{"end", 2}, {"k", 0, 16}}});
  KernelEntry first{.symbol = image.main().symbol + "_bounds", .grid = {{"split", 256}}, .threads = 256};
  image.entries.insert(image.entries.begin(), first);
}

/// The kernel of an image with tables, and `s.args` with ids and, for their q and k, a workspace.
static Kernel loadWithTables(FakeSetup &s) {
  s.fake.paramBytes = s.image.signature.packedBytes();
  s.args.tensors = {{"ids", Tensor::contiguous(s.memory, i32, {100}, Device::cuda(0))}};
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  s.args.workspace = s.memory;
  s.args.workspaceBytes = kernel->workspaceBytes(s.args);
  return *kernel;
}

TEST_CASE("fake: blocks that claim work are as many as multiprocessors", "[fake][.]") {
  for (bool claims : {true, false}) {
    FakeSetup s;
    addBoundsKernel(s.image);
    s.image.main().persistent = true;
    s.image.main().claimsWork = claims;
    s.args.q = s.args.o = Tensor::contiguous(s.memory, bf16, {2, 80, 60, 64}, Device::cuda(0));
    REQUIRE(loadWithTables(s).launch(nullptr, s.args));
    CHECK(s.fake.launches == 2);
    CHECK(s.fake.grid[0] == (claims ? 132 : 80)); // of 160 tiles of work
  }
}

TEST_CASE("fake: kernels start in order, and a dependent one may beside the one before", "[fake][.]") {
  for (bool waits : {true, false}) {
    FakeSetup s;
    addBoundsKernel(s.image);
    s.image.main().dependent = waits;
    const Kernel kernel = loadWithTables(s);
    int stream = 0;
    REQUIRE(kernel.launch(&stream, s.args));
    CHECK(s.fake.all ==
          std::vector<FakeLaunch>{{256, 256, 0, &stream, false}, {2 * 4 * 2, 128, 98304, &stream, waits}});
    // As older drivers do not capture it in graphs, it is not for them.
    for (auto [version, can] : {std::pair(12030, true), {12020, false}}) {
      s.fake.version = version;
      Expected<const CudaDriver *> driver = openCudaDriver(ATTUNE_FAKE_CUDA);
      REQUIRE(driver);
      CHECK(bool(launcher_overlaps(*driver)) == can);
    }
  }
}

TEST_CASE("fake: kernels of a launch are one submission from a stream's second launch on", "[fake][.]") {
  FakeSetup s;
  addBoundsKernel(s.image);
  s.image.main().dependent = true;
  int streams[6] = {};
  {
    const Kernel kernel = loadWithTables(s);
    const std::vector<FakeLaunch> both = {{256, 256, 0, &streams[0], false},
                                          {2 * 4 * 2, 128, 98304, &streams[0], true}};
    for (int i = 0; i < 4; ++i) {
      s.fake.all.clear();
      s.args.q.shape[2] = s.args.o.shape[2] = i == 3 ? 30 : 100;
      REQUIRE(kernel.launch(&streams[0], s.args));
      CHECK(s.fake.graphLaunches == i);
      REQUIRE(s.fake.all.size() == 2);
      // Grids and parameters are those of each launch.
      CHECK(s.fake.all[0] == both[0]);
      CHECK(s.fake.all[1] == FakeLaunch{i == 3 ? 8u : 16u, 128, 98304, &streams[0], true});
      int64_t queries = 0;
      const std::vector<std::string> axes = s.image.signature.axes();
      const size_t axis = size_t(std::ranges::find(axes, "q") - axes.begin());
      std::memcpy(&queries, s.fake.params.data() + s.image.signature.extentOffset(axis), 8);
      CHECK(queries == (i == 3 ? 30 : 100));
    }
    // Of a capture each kernel is a part.
    s.fake.capturing = 1;
    REQUIRE(kernel.launch(&streams[0], s.args));
    CHECK(s.fake.graphLaunches == 3);
    s.fake.capturing = 0;
    // Another stream has its own, the fifth none.
    for (int i = 1; i < 6; ++i)
      for (int again = 0; again < 2; ++again)
        REQUIRE(kernel.launch(&streams[i], s.args));
    CHECK(s.fake.graphLaunches == 6);
    CHECK(s.fake.liveGraphs == 2 * 4);
    REQUIRE(kernel.launch(&streams[0], s.args));
    CHECK(s.fake.graphLaunches == 7);
    // What fails in a graph fails as elsewhere.
    s.fake.launchResult = 701;
    Expected<void> failed = kernel.launch(&streams[0], s.args);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message.starts_with("launch of kernel 'variant' failed"));
    s.fake.launchResult = 0;
    // A graph that failed is left alone.
    REQUIRE(kernel.launch(&streams[0], s.args));
    CHECK(s.fake.graphLaunches == 7);
    // The handle of each thread's own stream names several.
    for (int i = 0; i < 3; ++i)
      REQUIRE(kernel.launch(reinterpret_cast<void *>(2), s.args));
    CHECK(s.fake.graphLaunches == 7);
  }
  CHECK(s.fake.liveGraphs == 0);
  // Without a graph kernels start one by one.
  s.fake.graphResult = 2;
  const Kernel kernel = loadWithTables(s);
  s.fake.all.clear();
  for (int i = 0; i < 3; ++i)
    REQUIRE(kernel.launch(&streams[0], s.args));
  CHECK(s.fake.graphLaunches == 7);
  CHECK(s.fake.all.size() == 6);
}

TEST_CASE("fake: a kernel is left out where sizes leave it nothing to do", "[fake][.]") {
  FakeSetup s; // B 2, H 4
  addBoundsKernel(s.image);
  auto launches = [&](std::vector<ExtentBound> bounds) {
    s.image.entries.front().skippedIf = std::move(bounds);
    const Kernel kernel = loadWithTables(s);
    int stream = 0;
    s.fake.all.clear();
    REQUIRE(kernel.launch(&stream, s.args));
    return s.fake.all.size();
  };
  CHECK(launches({}) == 2);
  CHECK(launches({{"b", "h"}}) == 1);
  CHECK(launches({{"h", "b"}}) == 2);
  CHECK(launches({{"b", "h"}, {"h", "b"}}) == 2);
  CHECK(launches({{"b", "h"}, {"h", "h"}}) == 1);
  CHECK(launches({{"b", ""}}) == 2);
}

TEST_CASE("fake: kept tables are not filled again", "[fake][.]") {
  for (bool claims : {true, false}) {
    FakeSetup s;
    addBoundsKernel(s.image);
    s.image.entries.front().preparation = true;
    s.image.main().dependent = s.image.main().persistent = true;
    s.image.main().claimsWork = claims;
    const Kernel kernel = loadWithTables(s);
    s.args.keepTables = true;
    int stream = 0;
    REQUIRE(kernel.launch(&stream, s.args));
    // Blocks that claim work find its counter at 0. Behind any other kernel this one starts when that has ended.
    REQUIRE(s.fake.all.size() == (claims ? 2 : 1));
    if (claims)
      CHECK(s.fake.all.front() == FakeLaunch{1, 256, 0, &stream, false});
    CHECK(s.fake.all.back() == FakeLaunch{2 * 4 * 2, 128, 98304, &stream, claims});
  }
}

TEST_CASE("fake: the workspace is checked as memory of the device", "[fake][.]") {
  FakeSetup s;
  addBoundsKernel(s.image);
  const Kernel kernel = loadWithTables(s);
  CHECK(s.args.workspaceBytes == 48); // two ends of five tiles, to a multiple of 16
  // The workspace is memory that the device reaches.
  REQUIRE(kernel.launchChecked(nullptr, s.args));
  s.args.workspaceBytes = 2 << 20;
  CHECK(kernel.launchChecked(nullptr, s.args).error().message ==
        "workspace reaches bytes 0 to 2097151 of an allocation of 1048576 bytes; correct its shape or strides");
}

/// What the fake NVTX was told, cleared at first.
static std::vector<std::string> &profilerEvents() {
  void *library = dlopen("libnvtx3interop.so.1", RTLD_NOW);
  auto *events = library ? reinterpret_cast<std::vector<std::string> *(*)()>(dlsym(library, "fakeNvtx")) : nullptr;
  if (!events)
    FAIL("run through CTest, which puts the fake libnvtx3interop.so.1 on LD_LIBRARY_PATH");
  events()->clear();
  return *events();
}

TEST_CASE("profiler: a launch is a range with the kernel's name", "[profiler][.]") {
  FakeSetup s;
  std::vector<std::string> &events = profilerEvents();
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(events == std::vector<std::string>{"push variant", "pop"});
  s.fake.launchResult = 1;
  CHECK_FALSE(kernel->launch(nullptr, s.args));
  CHECK(events == std::vector<std::string>{"push variant", "pop", "push variant", "pop"});
}

TEST_CASE("fake: without a profiler there are no ranges", "[fake][.]") {
  FakeSetup s;
  std::vector<std::string> &events = profilerEvents();
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(events.empty());
}

TEST_CASE("fake: empty work does not launch", "[fake][.]") {
  FakeSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  s.args.q.shape[2] = s.args.o.shape[2] = 0;
  CHECK(kernel->launch(nullptr, s.args));
  CHECK(s.fake.launches == 0);
}

TEST_CASE("fake: a module per context", "[fake][.]") {
  FakeSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  auto context = [](uintptr_t number) { return reinterpret_cast<CudaContext>(number); };
  s.cuda->cuCtxSetCurrent(context(1));
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(s.fake.launchContext == context(1));
  CHECK(s.fake.contextPushes == 0);
  s.cuda->cuCtxSetCurrent(context(11)); // another context of device 0
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(s.fake.launchContext == context(11));
  CHECK(s.fake.loads == 2);
  s.cuda->cuCtxSetCurrent(context(2)); // device 1: the kernel's primary context is used
  REQUIRE(kernel->launch(nullptr, s.args));
  CHECK(s.fake.launchContext == context(1));
  CHECK(s.cuda->currentContext() == context(2));
  CHECK(s.fake.loads == 2);
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  Kernel copy = *kernel;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { failed += !copy.load(); });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(failed == 0);
  CHECK(s.fake.loads == 2);
  s.cuda->cuCtxSetCurrent(nullptr);
}

namespace {
/// A kernel with copies by TMA, of B 2, H 4, Hkv 2.
struct HopperSetup : FakeSetup {
  HopperSetup() {
    image.arch = "sm_90a";
    image.signature.tensorMaps = {{"q", 64, 64, 128}, {"k", 80, 64, 128}, {"v", 80, 64, 128}, {"o", 64, 64, 128}};
    fake.paramBytes = image.signature.packedBytes();
  }
  FakeTensorMap map(size_t index) {
    FakeTensorMap result;
    std::memcpy(&result, fake.params.data() + fake.params.size() - 128 * (4 - index), sizeof result);
    return result;
  }
};
} // namespace

TEST_CASE("fake: limited tensor maps have the row twice", "[fake][.]") {
  HopperSetup s;
  s.image.signature.tensorMaps[1].limited = true;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  REQUIRE(kernel->launch(nullptr, s.args));
  const FakeTensorMap map = s.map(1);
  CHECK(map.rank == 5);
  CHECK(std::ranges::equal(map.dimensions, std::array{64, 71, 71, 2, 2}));
  CHECK(std::ranges::equal(map.strides, std::array{128, 128, 70 * 128, 2 * 70 * 128}));
  CHECK(std::ranges::equal(map.box, std::array{64, 80, 1, 1, 1}));
  CHECK(map.address == uint64_t(s.args.k.data) - 71 * 128);
  // The box of rows from 30 on that ends at row 50: its first row is row 30, and row 50 would be outside.
  const uint64_t rows = 70, row = 30, limit = 50, x = rows + 1 - limit + row;
  CHECK(map.address + x * map.strides[0] + limit * map.strides[1] == uint64_t(s.args.k.data) + row * 128);
  CHECK(x + (limit - row) == map.dimensions[1]);
  CHECK(s.map(2).rank == 4);
  s.args.k.data = reinterpret_cast<void *>(4096);
  CHECK(kernel->launch(nullptr, s.args).error().message == "k begins at address 4096, which is below its size, so that "
                                                           "TMA cannot end its rows at run time; allocate it at a "
                                                           "higher address");
}

TEST_CASE("fake: tensor maps follow the arguments and are encoded once", "[fake][.]") {
  HopperSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  auto encodes = [&] {
    Expected<void> launched = kernel->launch(nullptr, s.args);
    if (!launched)
      FAIL(launched.error().text());
    return s.fake.encodes;
  };
  CHECK(encodes() == 4);
  const auto first = s.fake.params;
  CHECK(s.map(0).address == uint64_t(s.args.q.data));
  CHECK(s.map(0).dimensions[1] == 100);
  CHECK(s.map(0).box[0] == 64);
  CHECK(s.map(0).box[1] == 64);
  CHECK(s.map(1).dimensions[1] == 70);
  CHECK(s.map(1).dimensions[2] == 2);
  CHECK(s.map(1).strides[1] == 70 * 128);
  CHECK(s.map(1).box[1] == 80);
  CHECK(s.map(1).type == 9); // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
  CHECK(s.map(1).rank == 4);
  CHECK(s.map(1).swizzle == 3); // CU_TENSOR_MAP_SWIZZLE_128B
  CHECK(encodes() == 4);
  CHECK(s.fake.params == first);

  const LaunchArgs before = s.args;
  s.args.k.data = static_cast<char *>(s.args.k.data) + 4096;
  CHECK(encodes() == 5);
  CHECK(s.map(1).address == uint64_t(s.args.k.data));
  CHECK(s.map(2).address == uint64_t(s.args.v.data));
  s.args.k.shape[2] = s.args.v.shape[2] = 69;
  CHECK(encodes() == 7);
  CHECK(s.map(1).dimensions[1] == 69);
  CHECK(s.map(2).dimensions[1] == 69);
  s.args.q.strides[0] += 64;
  CHECK(encodes() == 8);
  CHECK(s.map(0).strides[2] == (4 * 100 * 64 + 64) * 2);
  s.args = before;
  CHECK(encodes() == 8);
  CHECK(s.fake.params == first);

  Kernel copy = kernel->withDropout(0); // handles share their maps
  REQUIRE(copy.launch(nullptr, s.args));
  CHECK(s.fake.encodes == 8);

  s.fake.encodeResult = 1;
  s.args.k.strides[0] = -64;
  CHECK(kernel->launch(nullptr, s.args).error().message ==
        "k with row, head and batch strides of 128, 8960 and -128 bytes cannot be described to TMA; make "
        "it contiguous, or "
        "compile for sm_90: CUDA_ERROR_INVALID_VALUE (invalid argument)");
}

TEST_CASE("fake: tensor maps of captured tensors", "[fake][.]") {
  HopperSetup s;
  s.image.signature.tensors.push_back({"bias", f16, 3});
  s.image.signature.tensorMaps.push_back({"bias", 64, 64, 128, /*captured=*/true});
  s.fake.paramBytes = s.image.signature.packedBytes();
  const Tensor contiguous = Tensor::contiguous(s.memory, f16, {4, 100, 72}, Device::cuda(0));
  Tensor bias = contiguous;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  auto launched = [&] {
    s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {4}, Device::cuda(0))}, {"bias", bias}};
    Expected<void> done = kernel->launch(nullptr, s.args);
    if (!done)
      FAIL(done.error().text());
    LaunchParams params;
    std::memcpy(&params, s.fake.params.data(), sizeof params);
    return params.mapped;
  };
  auto map = [&] {
    FakeTensorMap result;
    std::memcpy(&result, s.fake.params.data() + s.fake.params.size() - 128, sizeof result);
    return result;
  };
  CHECK(launched() == 31);
  CHECK(s.fake.encodes == 5);
  CHECK(map().type == 6); // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
  CHECK(map().rank == 4);
  CHECK(map().dimensions[0] == 72);
  CHECK(map().dimensions[2] == 4);
  CHECK(map().dimensions[3] == 1);
  CHECK(map().strides[1] == 100 * 72 * 2);
  CHECK(launched() == 31);
  CHECK(s.fake.encodes == 5);

  // Rows of another multiple than 16 bytes: no map, and nothing to encode.
  bias.strides[1] = 73;
  CHECK(launched() == 15);
  CHECK(s.fake.encodes == 5);
  CHECK(map().address == 0);
  // One that the driver refuses is none either.
  bias = contiguous;
  bias.strides[0] = 0;
  s.fake.encodeResult = 1;
  CHECK(launched() == 15);
  CHECK(map().address == 0);
  s.fake.encodeResult = 0;
  CHECK(launched() == 31);
  CHECK(s.fake.encodes == 6);
}

TEST_CASE("fake: a kernel of elements starts where a captured tensor has no map", "[fake][.]") {
  HopperSetup s;
  s.image.signature.tensors.push_back({"bias", f16, 3});
  s.image.signature.tensorMaps.push_back({"bias", 64, 64, 128, /*captured=*/true});
  s.fake.paramBytes = s.image.signature.packedBytes();
  KernelEntry elements = s.image.main(), behind = s.image.main();
  elements.symbol += "_elements", behind.symbol += "_bounds";
  elements.threads = 256, behind.threads = 512;
  elements.maps.fallbackOf = s.image.main().maps.reads = 1 << 4;
  elements.dependent = s.image.main().dependent = behind.dependent = true;
  s.image.entries.insert(s.image.entries.begin(), elements);
  s.image.entries.push_back(behind);
  Expected<KernelImage> read = KernelImage::fromMetadata(s.image.metadata());
  REQUIRE(read);
  CHECK(read->entries == s.image.entries);
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  Tensor bias = Tensor::contiguous(s.memory, f16, {4, 100, 72}, Device::cuda(0));
  int stream = 0;
  using Threads = std::vector<unsigned>;
  auto started = [&] {
    s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {4}, Device::cuda(0))}, {"bias", bias}};
    s.fake.all.clear();
    if (Expected<void> done = kernel->launch(&stream, s.args); !done)
      FAIL(done.error().text());
    Threads threads;
    for (const FakeLaunch &launch : s.fake.all) {
      // The first that starts waits for the launch before.
      CHECK(launch.programmatic == !threads.empty());
      threads.push_back(launch.block);
    }
    return threads;
  };
  const unsigned own = unsigned(s.image.entries[1].threads);
  CHECK(started() == Threads{own, 512});
  // From the second launch on by one graph, which is that of these kernels.
  CHECK(started() == Threads{own, 512});
  CHECK(s.fake.graphLaunches == 1);
  bias.strides[1] = 73;
  CHECK(started() == Threads{256, 512});
  CHECK(started() == Threads{256, 512});
  CHECK(s.fake.graphLaunches == 1);
  bias.strides[1] = 72;
  CHECK(started() == Threads{own, 512});
  CHECK(s.fake.graphLaunches == 2);
  // What the driver does not describe, strides allow.
  bias.strides[0] = 0;
  s.fake.encodeResult = 1;
  CHECK(started() == Threads{256, 512});
  s.fake.encodeResult = 0;

  // Without such a kernel nothing is left to read the tensor.
  s.image.entries.erase(s.image.entries.begin());
  Expected<Kernel> alone = loadCudaKernel(s.image, 0);
  REQUIRE(alone);
  bias = Tensor::contiguous(s.memory, f16, {4, 100, 72}, Device::cuda(0));
  s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {4}, Device::cuda(0))}, {"bias", bias}};
  CHECK(alone->launch(&stream, s.args));
  const std::string refusal =
      "captured tensor 'bias' is read by TMA alone, which needs columns side by side, an address and "
      "strides of multiples of 16 bytes, and an element for each query and key; pad its rows, or add a kernel with "
      "tile.fallback_of";
  auto isRefused = [&] {
    s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {4}, Device::cuda(0))}, {"bias", bias}};
    CHECK(alone->launch(&stream, s.args).error().message == refusal);
  };
  bias.strides[1] = 73;
  isRefused();
  // By strides that the driver refuses, too.
  bias.strides[0] = 0, bias.strides[1] = 72;
  s.fake.encodeResult = 1;
  isRefused();
  s.fake.encodeResult = 0;
  KernelImage wrong = s.image;
  wrong.main().maps.reads = 1;
  CHECK(KernelImage::fromMetadata(wrong.metadata())
            .error()
            .message.find("has a kernel that depends on tensor map 0, which is of no captured tensor") !=
        std::string::npos);
}

TEST_CASE("fake: a launch costs the host less than 5 microseconds", "[fake][timing][.]") {
  HopperSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  s.cuda->cuCtxSetCurrent(*s.cuda->primaryContext(0));
  constexpr int rounds = 20000;
  double best = 1e9;
  for (int attempt = 0; attempt < 7; ++attempt) {
    bool good = true;
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i)
      good &= bool(kernel->launch(nullptr, s.args));
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    REQUIRE(good);
    best = std::min(best, time.count() / rounds);
  }
  CHECK(s.fake.encodes == 4);
  fmt::print("a launch with four tensor maps: {:.0f} ns beside the driver's\n", best);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
  CHECK(best < 5000);
#endif
  s.cuda->cuCtxSetCurrent(nullptr);
}

TEST_CASE("fake: load errors", "[fake][.]") {
  FakeSetup s;
  auto message = [&](int device) { return loadCudaKernel(s.image, device).error().message; };
  CHECK(message(2) == "CUDA device 2 does not exist; this machine has 2, counted from 0");
  CHECK(message(-1) == "CUDA device -1 does not exist; this machine has 2, counted from 0");
  CHECK(message(1) ==
        "kernel 'variant' was compiled for sm_90, Fake A100 has compute capability 8.0; compile for sm_80");
  s.image.arch = "cpu";
  CHECK(message(0) == "kernel 'variant' was compiled for the CPU; compile it for a CUDA target");
  s.image.arch = "sm_90";
  s.image.main().sharedBytes = 232449;
  CHECK(message(0) ==
        "kernel 'variant' needs 232449 bytes of shared memory, Fake H200 has 232448 per block; compile with "
        "that budget");
  s.image.main().sharedBytes = 0;

  auto launched = [&] { return loadCudaKernel(s.image, 0)->launch(nullptr, s.args).error().message; };
  s.fake.loadResult = 209;
  CHECK(launched() == "kernel 'variant' does not load: CUDA_ERROR_NO_BINARY_FOR_GPU (a text)");
  s.image.nvrtcVersion = 14010;
  CHECK(launched() == "the driver supports CUDA 13.0, the kernel was compiled by NVRTC 14.1; install a driver for CUDA "
                      "14.1 or newer, or set ATTUNE_NVRTC_PATH to an NVRTC 13.x");
  s.fake.loadResult = 0;
  s.fake.paramBytes = 8;
  CHECK(launched() ==
        fmt::format("kernel 'variant' takes 8 bytes of parameters, its signature packs {}; compile it again",
                    s.image.signature.packedBytes()));
  CHECK(s.fake.unloads == 1); // the rejected module does not stay
  s.fake.paramBytes = s.image.signature.packedBytes();
  s.fake.launchResult = 1;
  CHECK(launched() == "launch of kernel 'variant' failed: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  s.fake.launchResult = 0;
  s.image.main().symbol = "other";
  CHECK(launched() == "kernel 'variant' has no entry 'other': CUDA_ERROR_UNKNOWN (a text)");
}

TEST_CASE("fake: a declared device that differs", "[fake][.]") {
  FakeSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  s.args.q.device = Device::cuda(1);
  CHECK(kernel->launch(nullptr, s.args).error().message ==
        "q is on cuda:1, the kernel is on cuda:0; move q there or compile for its device");
  s.args.q.device = Device::cpu();
  CHECK(kernel->launch(nullptr, s.args).error().message ==
        "q is on cpu, the kernel is on cuda:0; move q there or compile for its device");
}

TEST_CASE("fake: the checked mode asks about every pointer", "[fake][.]") {
  FakeSetup s;
  Expected<Kernel> kernel = loadCudaKernel(s.image, 0);
  REQUIRE(kernel);
  REQUIRE(kernel->launchChecked(nullptr, s.args));
  CHECK(s.fake.launches == 1);
  auto message = [&] { return kernel->launchChecked(nullptr, s.args).error().message; };
  Tensor k = s.args.k;
  s.args.k.data = reinterpret_cast<void *>(uintptr_t(0x10000));
  CHECK(message() == "k points at 0x10000, which is not memory that CUDA knows; pass device memory");
  s.args.k = k;
  s.fake.rangeDevice = 1;
  CHECK(message() == "q lies on cuda:1, the kernel is on cuda:0; move it there or compile for its device");
  s.fake.rangeDevice = 0;
  s.args.k.strides[0] = 1 << 20; // batch 1 begins two megabytes on
  CHECK(message() ==
        fmt::format("k reaches bytes 0 to {} of an allocation of 1048576 bytes; correct its shape or strides",
                    2 * ((1 << 20) + 2 * 70 * 64) - 1));
  s.args.k = k;
  s.args.k.strides[2] = -64;
  CHECK(message().find("k reaches bytes -8832 to ") == 0);
  s.args.k = k;
  Tensor slopes = Tensor::contiguous(s.memory + (1 << 20) - 8, f32, {4}, Device::cuda(0));
  s.args.tensors = {{"slopes", slopes}};
  CHECK(message() ==
        "captured tensor 'slopes' reaches bytes 1048568 to 1048583 of an allocation of 1048576 bytes; correct "
        "its shape or strides");
  s.args.tensors = {{"slopes", Tensor::contiguous(s.memory, f32, {4}, Device::cuda(0))}};
  uint64_t seed = 0;
  s.args.seedPointer = &seed;
  CHECK(message() == fmt::format("seedPointer points at {:#x}, which is not memory that CUDA knows; pass device memory",
                                 reinterpret_cast<uintptr_t>(&seed)));
  CHECK(s.fake.launches == 1);
}

TEST_CASE("fake: buffers, streams, events and device facts", "[fake][.]") {
  FakeSetup s;
  {
    Expected<DeviceBuffer> buffer = DeviceBuffer::allocate(16);
    REQUIRE(buffer);
    CHECK(s.cuda->currentContext() != nullptr);
    int values[4] = {1, 2, 3, 4}, back[4] = {};
    CHECK(buffer->copyFromHost(values, 16));
    DeviceBuffer moved = std::move(*buffer);
    CHECK(moved.copyToHost(back, 16));
    CHECK(back[3] == 4);
    CHECK(moved.copyToHost(back, 17).error().message == "copy of 17 bytes out of a buffer of 16; copy fewer");
    CHECK(moved.copyFromHost(back, 17).error().message == "copy of 17 bytes into a buffer of 16; allocate it larger");
    CHECK(moved.fill(0));
    CHECK(s.fake.liveAllocations == 1);
    CHECK(DeviceBuffer::allocate(size_t(1) << 40).error().message ==
          "allocating 1099511627776 bytes on the device: CUDA_ERROR_UNKNOWN (a text)");
    CHECK(DeviceBuffer::copyOf(values, 16));
  }
  CHECK(s.fake.liveAllocations == 0);
  Expected<CudaStream> stream = CudaStream::create();
  Expected<CudaEvent> event = CudaEvent::create();
  REQUIRE(stream);
  REQUIRE(event);
  CHECK(event->record(stream->get()));
  CHECK(*event->millisecondsSince(*event) == 1.5f);
  Expected<CudaDeviceInfo> info = s.cuda->device(0);
  REQUIRE(info);
  CHECK(info->name == "Fake H200");
  CHECK(info->smCount == 132);
  CHECK(info->clockGHz == Approx(1.98));
  CHECK(Target::detect() == Target::cuda("sm_90a"));
  CHECK(Target::detect(1) == Target::cuda("sm_80", 1));
  CHECK(Target::detect(5) == Target::cpu());
  CHECK(*Target::parse("gpu") == Target::cuda("sm_90a"));
  CHECK(*Target::parse("sm_90") == Target::cuda("sm_90")); // by name, on the same device
  s.fake.major[0] = 7;                                     // older than any that kernels are for
  CHECK(Target::detect() == Target::cpu());
  CHECK(Target::parse("gpu").error().message ==
        "attune has no kernels for Fake H200 (compute capability 7.0); use the cpu target");
}

//===----------------------------------------------------------------------===//
// On a GPU
//===----------------------------------------------------------------------===//

TEST_CASE("gpu: a kernel sees its packed parameters", "[gpu][.]") {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda) {
    const char *expected = std::getenv("ATTUNE_EXPECT_GPU");
    if (expected && *expected == '1')
      FAIL(cuda.error().text());
    WARN("skipped: " << cuda.error().text());
    testSkipped = true;
    return;
  }
  const Nvrtc *nvrtc = nvrtcOrSkip();
  Target target = Target::detect();
  if (!nvrtc || !target.isCuda())
    return;
  KernelImage image;
  image.name = "writer";
  image.main().symbol = "writer";
  image.arch = target.arch;
  image.tileQ = 64;
  image.main().grid = {{"b"}, {"h"}, {"q", 0, 64}};
  image.main().threads = 32;
  image.main().sharedBytes = 65536;
  image.nvrtcVersion = nvrtc->version();
  image.signature = {.dtype = bf16,
                     .headDim = 64,
                     .headDimV = 64,
                     .operands = forwardOperands(bf16, 64, 64),
                     .scalars = {{"n", i32}},
                     .tensors = {{"t", f32, 1}}};
  // Each block writes its index, then come n and t's extent.
  std::string source = fmt::format("struct Params {{ long long words[{}]; }};\n"
                                   "extern \"C\" __global__ void writer(const __grid_constant__ Params p) {{\n"
                                   "  extern __shared__ int s[];\n"
                                   "  int *o = (int *)p.words[{}];\n"
                                   "  s[16000] = blockIdx.x;\n"
                                   "  if (threadIdx.x == 0) {{ o[blockIdx.x] = s[16000]; o[100] = (int)p.words[{}];\n"
                                   "    o[101] = (int)p.words[{}]; }}\n}}\n",
                                   image.signature.packedBytes() / 8, image.signature.operandOffset(3) / 8,
                                   image.signature.scalarOffset(0) / 8, image.signature.tensorOffset(0) / 8 + 2);
  Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(source, "writer", target.arch);
  if (!cubin)
    FAIL(cubin.error().text());
  image.binary = cubin->code;
  Expected<Kernel> kernel = loadCudaKernel(image, 0);
  REQUIRE(kernel);
  Expected<DeviceBuffer> memory = DeviceBuffer::allocate(1 << 20);
  REQUIRE(memory);
  REQUIRE(memory->fill(0));
  Device device = Device::cuda(0);
  Tensor q = Tensor::contiguous(memory->data(), bf16, {2, 4, 100, 64}, device);
  Tensor k = Tensor::contiguous(memory->data(), bf16, {2, 4, 70, 64}, device);
  Tensor t = Tensor::contiguous(memory->data(), f32, {33}, device);
  Expected<CudaStream> stream = CudaStream::create();
  REQUIRE(stream);
  LaunchArgs args = {.q = q, .k = k, .v = k, .o = q, .tensors = {{"t", t}}, .scalars = {{"n", 7}}};
  Expected<void> launched = kernel->launchChecked(stream->get(), args);
  if (!launched)
    FAIL(launched.error().text());
  REQUIRE(stream->synchronize());
  int back[102] = {};
  REQUIRE(memory->copyToHost(back, sizeof back));
  for (int i = 0; i < 16; ++i)
    CHECK(back[i] == i);
  CHECK(back[100] == 7);
  CHECK(back[101] == 33);
  float host = 0;
  args.q.data = args.o.data = &host;
  CHECK(!kernel->launchChecked(stream->get(), args));
}
